"""Supervised data: recorded runs in the tokens of the model that learns from them, images read on demand."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from vrag.agent.events import Event, ModelCalled
from vrag.agent.policies.local_model import opening_of
from vrag.agent.policy import EnclosedImage, FinishReason, Message, Role, Text
from vrag.agent.runs.run_database import DATABASE
from vrag.agent.runs.run_store import RunStore
from vrag.errors import TrainingError
from vrag.geometry import Size
from vrag.parsing import parse_json
from vrag.rl.generation import GeneratedReply, GenerationPrompt, first_prompt, next_prompt
from vrag.rl.model import TrainableModel
from vrag.rl.rows import DroppedRow, Row, RunRows, Vocabulary, rows_of

_THOUGHT = re.compile(r"<think>\s*")
_UNREADABLE = "A message of the call, or a picture in one, is missing or damaged."


@dataclass(frozen=True, slots=True, eq=False)
class SftDataset:
    """The rows of recorded runs."""

    rows: Sequence[Row]
    files: Mapping[str, bytes]
    """Images of the rows, `<sha256>.jpg`; each is read when it is asked for, so that thousands of runs are
    not in memory."""
    dropped: Sequence[DroppedRow]
    """Calls of which no row was made."""


class Recording(NamedTuple):
    """A recorded run."""

    store: RunStore
    id: str

    def read_file(self, name: str) -> bytes:
        """Read a file of the run. Raises `TrainingError` if it is gone or cannot be read."""
        try:
            return self.store.read_file(self.id, *name.split("."))
        except OSError as error:
            raise TrainingError(
                f"{name} of the run {self.id} cannot be read: {error.strerror or error}.",
                "Training needs its recorded runs: restore the file, and run the same command again.",
            ) from error


def find_recordings(folders: Iterable[Path]) -> list[Recording]:
    """Find all recorded runs in some folders, at any depth, in order; those without events are left out.

    Raises `TrainingError` if there are none, and `RunError` if a database of runs is damaged.
    """
    roots = list(folders)
    stores = [RunStore(path.parent) for root in roots for path in sorted(root.rglob(DATABASE))]
    found = [Recording(store, row.id) for store in stores for row in reversed(store.rows()) if row.events]
    if not found:
        raise TrainingError(
            f"There are no recorded runs in {', '.join(map(str, roots))}.",
            "Record some: vrag data demonstrate.",
        )
    return found


def digest_of(runs: Iterable[Recording]) -> str:
    """Hash the ids and contents of runs, in their order, whatever folder they are in.

    Raises `RunError` if one cannot be read.
    """
    digest = hashlib.sha256()
    for run in runs:
        digest.update(f"{run.id}\n".encode())
        for event in run.store.read(run.id).events:
            digest.update(event.model_dump_json().encode() + b"\n")
        for name in run.store.file_names(run.id):  # its hash is its name
            digest.update(f"{name}\n".encode())
    return digest.hexdigest()[:16]


def load_sft_dataset(network: TrainableModel, runs: Iterable[Recording]) -> SftDataset:
    """Convert recorded runs to rows, in order. Only one run at a time is in memory, besides the rows.

    Raises `RunError` if a run is damaged and `TrainingError` if one cannot be read.
    """
    rows: list[Row] = []
    dropped: list[DroppedRow] = []
    images: dict[str, Recording] = {}
    for run in runs:
        names = run.store.file_names(run.id)
        events = run.store.read(run.id).events
        made = sft_rows(network, events, dict(_read_files(run, names)))
        rows += made.rows
        dropped += made.dropped
        images |= {name: run for name in names if name.endswith(".jpg")}
    return SftDataset(rows, _FilesOnDisk(images), dropped)


def _read_files(run: Recording, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the files that can be read; no row is made of a call that lacks one."""
    for name in names:
        with suppress(TrainingError):
            yield name, run.read_file(name)


@dataclass(frozen=True, slots=True, eq=False)
class _FilesOnDisk(Mapping[str, bytes]):
    """Files by name, read on demand; raises `TrainingError` if one is gone or cannot be read."""

    runs: Mapping[str, Recording]

    def __getitem__(self, name: str) -> bytes:
        return self.runs[name].read_file(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)


def vocabulary_of(network: TrainableModel) -> Vocabulary:
    """Return the facts about a network's tokens that rows need."""
    return Vocabulary(
        decode=network.checkpoint.decode,
        ends=network.checkpoint.ends,
        image=network.image_token,
        forbidden=frozenset(network.checkpoint.banned),
        features=network.checkpoint.profile.visual_tokens,
    )


def sft_rows(network: TrainableModel, events: Sequence[Event], files: Mapping[str, bytes]) -> RunRows:
    """Make the rows of a run that another policy made: a person, an expert, a script.

    Each reply up to the end of its action is encoded, with the end of a turn behind it. Its own tokens are
    those that are learned by `network`.
    """
    conversation = _TokenizedConversation(network, files)
    tokenized = [
        conversation.tokenize(event) if isinstance(event, ModelCalled) else event for event in events
    ]
    made = rows_of(tokenized, files, vocabulary_of(network))
    dropped = [
        replace(row, reason=_UNREADABLE) if conversation.unreadable & {*row.steps} else row
        for row in made.dropped
    ]
    return replace(made, dropped=tuple(dropped))


class _TokenizedConversation:
    """A recorded conversation in the tokens of a network."""

    def __init__(self, network: TrainableModel, files: Mapping[str, bytes]) -> None:
        self._network, self._files = network, files
        self._messages: dict[str, Message] = {}
        self._before: tuple[GenerationPrompt, GeneratedReply] | None = None
        self.unreadable: set[int] = set()
        """Steps of calls with a message that cannot be read."""

    def tokenize(self, event: ModelCalled) -> ModelCalled:
        """Return the call with the tokens of this network; without any where a message cannot be read."""
        try:
            history = [self._read_message(sha256) for sha256 in event.messages]
        except (KeyError, ValueError, TypeError, OSError, Image.DecompressionBombError):
            self.unreadable.add(event.step)
            return event.model_copy(update={"prompt_ids": (), "ids": (), "logprobs": ()})
        network = self._network
        if self._before is None:
            prompt = first_prompt(network, history)
        else:
            prompt = next_prompt(network, *self._before, history)
        reply = event.reply[: event.executed]
        rest = reply
        if opening_of(prompt.text):  # the prompt has begun a thought, as some chat templates do
            thought = _THOUGHT.match(reply)
            rest = reply[thought.end() :] if thought else f"</think>{reply}"
        ids = (*network.encode(rest), int(network.checkpoint.tokenizer.eos_token_id))
        logprobs = (0.0,) * len(ids)
        self._before = prompt, GeneratedReply(reply, ids, logprobs, FinishReason.STOP)
        changes = {"prompt_ids": prompt.ids, "ids": ids, "logprobs": logprobs, "reply": reply}
        return event.model_copy(update=changes)

    def _read_message(self, sha256: str) -> Message:
        if sha256 in self._messages:
            return self._messages[sha256]
        value: dict[str, Any] = parse_json(self._files[f"{sha256}.json"])
        parts: list[Text | EnclosedImage] = []
        for part in value["parts"]:
            if "picture" in part:
                picture = str(part["picture"])
                jpeg = self._files[f"{picture}.jpg"]
                self._network.see(picture, jpeg)  # raises if it is damaged
                parts.append(EnclosedImage(picture, Size(1, 1), jpeg, picture))
            else:
                parts.append(Text(str(part["text"])))
        self._messages[sha256] = message = Message(Role(value["role"]), tuple(parts))
        return message
