# ruff: noqa: ANN401 - the libraries are not typed
# pyright: reportPrivateUsage=false
"""What tests of the local trainer share: tiny checkpoints, agents over a corpus, forced replies, scorers."""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import importlib
import io
import json
import shutil
import tempfile
import warnings
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extras import require
from PIL import Image

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policy import EnclosedImage, Message, Role, Text
from vrag.agent.replies.tool_calls import AnswerNode, Memorize, Note, SearchNode, render_call
from vrag.geometry import Size
from vrag.reward.reward import Reward
from vrag.rl import batched_policy, generation
from vrag.rl.batched_policy import BatchedGenerator
from vrag.rl.generation import SamplingOptions
from vrag.rl.model import TrainableModel, open_network
from vrag.rl.rows import Row
from vrag.rl.tiny import TinyOptions, make_tiny
from vrag.rl.update import score
from vrag.rollouts.rollout import Rollout, RolloutAttempt, roll_out
from vrag.testing import ScriptedPolicy, tiny_corpus
from vrag.types import Case

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vrag.agent.method import Method
    from vrag.agent.policy import Policy
    from vrag.agent.runs.run_result import RunResult
    from vrag.rl.generation import GeneratedReply, GenerationPrompt

require("train", "torch", "transformers")  # whoever imports this is skipped without them

FAMILIES = ("qwen3-vl", "qwen2.5-vl")
WORDS = ("red blue green grey", "ferry passengers prices 48,200", "colour of a return ticket ?")
SEARCH, ANSWER = "<search>ferry passengers</search>", "<answer>48,200</answer>"
NODE = render_call(SearchNode("n1", ("root",), "ferry passengers"))
NOTES = render_call(Memorize("48,200", (Note("Picture 1", useful=True, priority=5),)))
DONE = render_call(AnswerNode(("n1",), "48,200"))
TOLERANCE = 2e-5
_DRAWN = generation._TokenSampler._draw


def torch() -> Any:
    return importlib.import_module("torch")


@cache
def tiny(family: str = "qwen3-vl", hidden: int = 32, layers: int = 2) -> Path:
    """A checkpoint, made once and not to be changed."""
    torch().set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="vrag-tiny-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    options = TinyOptions(family=family, hidden=hidden, layers=layers, vision_hidden=32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_tiny(folder / "tiny", WORDS, options)
    return folder / "tiny"


def opened(family: str = "qwen3-vl") -> TrainableModel:
    """A network of a test's own, to be changed."""
    return open_network(tiny(family), device="cpu")


@cache
def shared(family: str = "qwen3-vl") -> TrainableModel:
    """A network that no test changes."""
    return opened(family)


def weights(network: TrainableModel) -> dict[str, Any]:
    return {name: value.clone() for name, value in network.model.state_dict().items()}


def same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether weights are the same bit by bit."""
    return a.keys() == b.keys() and all(torch().equal(a[name], b[name]) for name in a)


# Conversations


def noise(seed: int, columns: int = 2, rows: int = 2, *, factor: int = 32) -> EnclosedImage:
    """A picture of that many visual tokens."""
    size = Size(columns * factor, rows * factor)
    pixels = np.random.default_rng(seed).integers(0, 256, (size.height, size.width, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95)
    sha256 = hashlib.sha256(file.getvalue()).hexdigest()
    return EnclosedImage(f"noise {seed}", size, file.getvalue(), sha256)


def factor(network: TrainableModel) -> int:
    return network.checkpoint.profile.factor


def histories(factor: int) -> list[list[Message]]:
    """Short and long, with and without pictures, pictures of several sizes."""
    one, two = noise(1, factor=factor), noise(2, 3, 2, factor=factor)
    return [
        [user("red")],
        [user("red", one, "blue green grey of a return ticket ?")],
        [user("a"), said(SEARCH), user("Picture 1:", two, "Picture 2:", one, "Answer.")],
        [user(*["ferry passengers 48,200"] * 9)],
    ]


def user(*parts: str | EnclosedImage) -> Message:
    return Message(Role.USER, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def said(text: str) -> Message:
    return Message(Role.ASSISTANT, (Text(text),))


def row_of(prompt: GenerationPrompt, written: GeneratedReply) -> Row:
    """One call as a row: the prompt, and all that was sampled."""
    own = [False] * len(prompt.ids) + [True] * len(written.ids)
    return Row(
        np.array([*prompt.ids, *written.ids]),
        np.array(own),
        np.array([*[0.0] * len(prompt.ids), *written.logprobs], np.float32),
        tuple(picture.sha256 for picture in pictures_of(prompt)),
        0,
    )


def files_of(*prompts: GenerationPrompt) -> dict[str, bytes]:
    return {f"{shown.sha256}.jpg": shown.jpeg for prompt in prompts for shown in pictures_of(prompt)}


def pictures_of(prompt: GenerationPrompt) -> list[EnclosedImage]:
    parts = [part for message in prompt.messages for part in message.parts]
    return [part for part in parts if isinstance(part, EnclosedImage)]


def randoms(count: int, seed: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng((seed, at)) for at in range(count)]


def drift(
    network: TrainableModel, rows: list[Row], files: dict[str, bytes], temperature: float = 1.0
) -> float:
    """The greatest difference between what was sampled and what is recomputed, of any own token."""
    with torch().no_grad():
        scored = score(network, rows, files, temperature)
    difference = (scored.logprobs - scored.sampled).abs()
    assert int(scored.own.sum()) == sum(int(row.own.sum()) for row in rows) > 0
    assert not difference[~scored.own].any(), "what is not its own counts for nothing"
    return float(difference.max())


# Runs


def case(number: int = 0, query: str = "") -> Case:
    return Case(
        uid=f"c{number}",
        query=query or f"How many ferry passengers, {number} ?",
        reference_answer="48,200",
        file_name="ferry.pdf",
        reference_page=(2,),
    )


def cases(count: int) -> list[Case]:
    return [case(number) for number in range(count)]


def attempts(count: int) -> list[RolloutAttempt]:
    return [RolloutAttempt(case=one, sample=0) for one in cases(count)]


def agents(
    network: TrainableModel, method: Method | None = None, steps: int = 3, searcher: Any = None
) -> Callable[[Policy], Agent]:
    """What makes the agent of a policy, over the tiny corpus."""
    profile = network.checkpoint.profile
    environment = Environment(searcher or tiny_corpus(), profile, EnvironmentOptions(hits=1))
    return lambda policy: Agent(policy, environment, method or VragMethod(), Limits(steps=steps))


def rolled(
    network: TrainableModel,
    count: int = 1,
    *,
    method: Method | None = None,
    steps: int = 3,
    tokens: int = 12,
    together: bool = True,
    most: int = 64,
    searcher: Any = None,
) -> list[Rollout]:
    """Runs of as many cases, written by the network, in their order."""

    async def roll() -> list[Rollout]:
        scribe = BatchedGenerator(network, SamplingOptions(max_tokens=tokens), together=together, most=most)
        made, asked = agents(network, method, steps, searcher), attempts(count)
        done: list[Rollout] = []
        scribe.expect(count)
        try:
            rolling = roll_out(asked, lambda one: made(scribe.open_handle((7, int(one.case.uid[1:])))))
            async with aclosing(rolling) as rollouts:
                async for rollout in rollouts:
                    scribe.leave()
                    done.append(rollout)
        finally:
            scribe.close()
        return sorted(done, key=lambda one: one.attempt.case.uid)

    return asyncio.run(roll())


def recorded(network: TrainableModel, *replies: str, method: Method | None = None, steps: int = 5) -> Rollout:
    """A run by a script, which tells no tokens."""

    async def roll() -> Rollout:
        agent = agents(network, method, steps)(ScriptedPolicy(replies))
        (rollout,) = [one async for one in roll_out(attempts(1), lambda _: agent)]
        return rollout

    return asyncio.run(roll())


def force(
    monkeypatch: pytest.MonkeyPatch, script: Callable[[TrainableModel, GenerationPrompt], list[int] | None]
) -> None:
    """Makes the network draw certain tokens; a script that says None leaves it its own way.

    Log-probabilities are those that it gives them. The script says all tokens of a reply, the end too; behind
    them, it draws by itself.
    """
    standing: list[list[int] | None] = []

    def write(
        network: TrainableModel, prompts: Sequence[GenerationPrompt], *rest: Any
    ) -> list[GeneratedReply]:
        standing[:] = [script(network, prompt) for prompt in prompts]
        return generation.write(network, prompts, *rest)

    def drawn(drawer: Any, logprobs: Any) -> Any:
        tokens, at = _DRAWN(drawer, logprobs), drawer.drawn
        for row, reply in enumerate(standing):
            if reply is not None and at < len(reply):
                tokens[row, 0] = reply[at]
        return tokens

    monkeypatch.setattr(batched_policy, "write", write)
    monkeypatch.setattr(generation._TokenSampler, "_draw", drawn)


def turns(
    *replies: str | list[int], end: bool = True
) -> Callable[[TrainableModel, GenerationPrompt], list[int]]:
    """A script by the number of replies that a prompt holds already: texts, or tokens as they are."""

    def reply(network: TrainableModel, prompt: GenerationPrompt) -> list[int]:
        before = sum(message.role is Role.ASSISTANT for message in prompt.messages)
        told = replies[before]
        if isinstance(told, list):
            return told
        return [*network.encode(told), *([network.checkpoint.tokenizer.eos_token_id] if end else [])]

    return reply


def in_order(*replies: str) -> Callable[[TrainableModel, GenerationPrompt], list[int]]:
    """A script of one run, whatever it is told."""
    left = iter(replies)
    return lambda network, _: [*network.encode(next(left)), network.checkpoint.tokenizer.eos_token_id]


def spelt(network: TrainableModel, text: str, *, end: bool = True) -> list[int]:
    """A text in tokens of one byte each: not as a tokenizer would have it."""
    ids = [token for letter in text for token in network.encode(letter)]
    return [*ids, *([network.checkpoint.tokenizer.eos_token_id] if end else [])]


# Rewards


@dataclass
class Counting:
    """A scorer that remembers what it was asked."""

    reward: Callable[[Case, RunResult], float | None]
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    async def score(self, case: Case, run: RunResult) -> Reward:
        total = self.reward(case, run)
        self.asked.append((case.uid, run.run_id))
        await asyncio.sleep(0)
        parts: dict[str, float | None] = {"pattern": total}
        return Reward(total=total, parts=parts, correct=None if total is None else total > 0.5)


def first_words(run: RunResult) -> str:
    return run.steps[0].reply if run.steps else ""


def metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics file, without how long or how fast anything was."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    clock = ("seconds", "tokens_per_second")
    return [{k: v for k, v in line.items() if not k.startswith(clock)} for line in lines]
