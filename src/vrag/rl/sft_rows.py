"""Supervised rows: recorded runs in the tokens of the model that is to learn from them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PIL import Image

from vrag.agent.events import ModelCalled
from vrag.agent.policies.local_model import opening_of
from vrag.agent.policy import EnclosedImage, FinishReason, Message, Role, Text
from vrag.geometry import Size
from vrag.rl.generation import GeneratedReply, first_prompt, next_prompt
from vrag.rl.rows import RunRows, Vocabulary, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.agent.events import Event
    from vrag.rl.generation import GenerationPrompt
    from vrag.rl.model import TrainableModel

__all__ = ["taught_rows", "vocabulary_of"]

_THOUGHT = re.compile(r"<think>\s*")
_UNTOLD = "A message of the call, or a picture in one, is missing or damaged."


def vocabulary_of(network: TrainableModel) -> Vocabulary:
    """What rows need to know of a network's tokens."""
    return Vocabulary(
        decode=network.checkpoint.decode,
        ends=network.checkpoint.ends,
        image=network.image_token,
        forbidden=frozenset(network.checkpoint.banned),
        features=network.checkpoint.profile.visual_tokens,
    )


def taught_rows(network: TrainableModel, events: Sequence[Event], files: Mapping[str, bytes]) -> RunRows:
    """The rows of a run that another policy made: a person, an expert, a script.

    What it said up to the end of each action is encoded, with the end of a turn behind it. Its own tokens are
    those that are learned.

    Args:
        network: What is to learn.
        events: Of one run.
        files: What the run names by hash.
    """
    told = _TokenizedConversation(network, files)
    spoken = [told.call(event) if isinstance(event, ModelCalled) else event for event in events]
    made = rows_of(spoken, files, vocabulary_of(network))
    dropped = [replace(one, reason=_UNTOLD) if told.untold & {*one.steps} else one for one in made.dropped]
    return replace(made, dropped=tuple(dropped))


def _behind(opening: str, said: str) -> str:
    """What follows in a reply where the prompt has begun a thought, as some chat templates do."""
    if not opening:
        return said
    thought = _THOUGHT.match(said)
    return said[thought.end() :] if thought else f"</think>{said}"


class _TokenizedConversation:
    """A conversation as it is told again, in tokens."""

    def __init__(self, network: TrainableModel, files: Mapping[str, bytes]) -> None:
        self._network, self._files = network, files
        self._messages: dict[str, Message] = {}
        self._before: tuple[GenerationPrompt, GeneratedReply] | None = None
        self.untold: set[int] = set()
        """Steps of calls that cannot be told."""

    def call(self, event: ModelCalled) -> ModelCalled:
        """The call with the tokens of this network; without any where a message cannot be read."""
        try:
            history = [self._message(sha256) for sha256 in event.messages]
        except (KeyError, ValueError, TypeError, OSError, Image.DecompressionBombError):
            self.untold.add(event.step)
            return event.model_copy(update={"prompt_ids": (), "ids": (), "logprobs": ()})
        network = self._network
        prompt = (
            first_prompt(network, history)
            if self._before is None
            else next_prompt(network, *self._before, history)
        )
        said = event.reply[: event.executed]
        end: int = network.checkpoint.tokenizer.eos_token_id
        ids = (*network.encode(_behind(opening_of(prompt.text), said)), end)
        self._before = prompt, GeneratedReply(said, ids, (0.0,) * len(ids), FinishReason.STOP)
        changes = {"prompt_ids": prompt.ids, "ids": ids, "logprobs": (0.0,) * len(ids), "reply": said}
        return event.model_copy(update=changes)

    def _message(self, sha256: str) -> Message:
        if sha256 not in self._messages:
            told: dict[str, Any] = json.loads(self._files[f"{sha256}.json"])
            parts = tuple(map(self._part, told["parts"]))
            self._messages[sha256] = Message(Role(told["role"]), parts)
        return self._messages[sha256]

    def _part(self, part: Mapping[str, Any]) -> Text | EnclosedImage:
        if "picture" not in part:
            return Text(str(part["text"]))
        sha256 = str(part["picture"])
        jpeg = self._files[f"{sha256}.jpg"]
        self._network.see(sha256, jpeg)  # what it cannot see is damaged
        return EnclosedImage(sha256, Size(1, 1), jpeg, sha256)
