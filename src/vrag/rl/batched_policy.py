"""Policies of many runs that share one network: their turns are sampled in batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from vrag.agent.policy import Delta, Message, Reply, Sampled, Tokens
from vrag.rl.generation import (
    GeneratedReply,
    GenerationPrompt,
    SamplingOptions,
    first_prompt,
    next_prompt,
    room_of,
    write,
)
from vrag.rl.model import TrainableModel

Key: TypeAlias = tuple[int, ...]
"""Identifies a run: it seeds its randomness, and orders it within a batch."""


@dataclass(frozen=True, slots=True, eq=False)
class _PendingTurn:
    """A reply that a run waits for."""

    key: Key
    prompt: GenerationPrompt
    result: asyncio.Future[GeneratedReply]


@dataclass(slots=True, eq=False)
class BatchedGenerator:
    """Samples the replies of all runs of one event loop, a batch at a time, in a thread of its own.

    Prompts are made in that thread as well: tokenizers and networks are not thread-safe, and the event loop
    stays free for searches.

    Together: nothing is sampled before every expected run waits, so that batches are always the same, and a
    training can be repeated bit by bit (on the same machine with the same number of threads). Otherwise: all
    runs that wait when the thread is free are in the next batch, and no run waits for a slow one.
    """

    network: TrainableModel
    sampling: SamplingOptions
    together: bool = True
    most: int = 64
    """Maximum of replies in a batch."""
    waiting: list[_PendingTurn] = field(default_factory=list["_PendingTurn"])
    active_handles: int = 0
    """Runs that have not ended yet."""
    sampling_batch: bool = False
    fault: Exception | None = None
    """The reason the last failed batch could not be sampled: no fault of the runs, which all fail by it."""
    preparing: int = 0
    """Prompts that are being made: the thread samples after them, so that they can be in the next batch."""
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "vrag-sampling"))
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def expect(self, runs: int) -> None:
        """Announce so many runs: others wait for each until it has ended."""
        self.active_handles += runs

    def open_handle(self, key: Key) -> PolicyHandle:
        """Open the policy of one run: the same key, prompts and batches give the same replies."""
        return PolicyHandle(self, key)

    def leave(self) -> None:
        """Announce the end of a run."""
        self.active_handles -= 1
        self._start_batch()

    async def prepare(self, make: Callable[[TrainableModel], GenerationPrompt]) -> GenerationPrompt:
        """Make a prompt in the thread.

        Raises `ContextTooLong` if it leaves no room for a reply and `ModelError` if it cannot be made.
        """

        def prepare() -> GenerationPrompt:
            prompt = make(self.network)
            room_of(self.network, prompt)  # raises here, where it is the fault of no other run in the batch
            return prompt

        self.preparing += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.thread, prepare)
        except BaseException:
            # Others may have waited for this one alone.
            asyncio.get_running_loop().call_soon(self._start_batch)
            raise
        finally:
            self.preparing -= 1

    async def ask(self, key: Key, prompt: GenerationPrompt) -> GeneratedReply:
        """Return the reply to a prompt; raise `ModelError` if it cannot be sampled."""
        turn = _PendingTurn(key, prompt, asyncio.get_running_loop().create_future())
        self.waiting.append(turn)
        self._start_batch()
        try:
            return await turn.result
        finally:
            if turn in self.waiting:
                self.waiting.remove(turn)

    def close(self) -> None:
        """End the thread."""
        self.thread.shutdown(wait=True, cancel_futures=True)

    def _start_batch(self) -> None:
        """Start the next batch, if all of its runs wait."""
        if self.sampling_batch or self.preparing or not self.waiting:
            return
        if self.together and len(self.waiting) < self.active_handles:
            return
        self.sampling_batch = True
        task = asyncio.get_running_loop().create_task(self._sample_waiting())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _sample_waiting(self) -> None:
        """Sample all turns that wait, in batches of `most`."""
        loop = asyncio.get_running_loop()
        turns = sorted(self.waiting, key=lambda turn: turn.key)
        self.waiting.clear()
        try:
            for start in range(0, len(turns), self.most):
                batch = turns[start : start + self.most]
                prompts = [turn.prompt for turn in batch]
                randoms = [np.random.default_rng(turn.key) for turn in batch]
                outcomes: Sequence[GeneratedReply | Exception]
                try:
                    outcomes = await loop.run_in_executor(
                        self.thread, write, self.network, prompts, self.sampling, randoms
                    )
                except Exception as error:  # noqa: BLE001 - raised where the replies are awaited
                    self.fault, outcomes = error, [error] * len(batch)
                for turn, outcome in zip(batch, outcomes, strict=True):
                    if turn.result.done():
                        continue
                    if isinstance(outcome, Exception):
                        turn.result.set_exception(outcome)
                    else:
                        turn.result.set_result(outcome)
        finally:
            self.sampling_batch = False
            self._start_batch()


@dataclass(slots=True, eq=False)
class PolicyHandle:
    """The `Policy` of one run. It keeps its last reply, so that replies stay the tokens that were sampled."""

    generator: BatchedGenerator
    key: Key
    before: tuple[GenerationPrompt, GeneratedReply] | None = None

    @property
    def name(self) -> str:
        """Its name in run files."""
        return f"training:{self.generator.network.checkpoint.name}"

    @property
    def sampling(self) -> Mapping[str, float | int | str | bool]:
        """The sampling parameters, for run files."""
        options = self.generator.sampling
        return {"temperature": options.temperature, "max_tokens": options.max_tokens}

    async def reply(self, history: Sequence[Message], turn: int = 1) -> AsyncGenerator[Delta | Reply, None]:
        """Sample the next reply, all of it at once; see `Policy`.

        Raises `ContextTooLong` if the prompt leaves no room for it and `ModelError` if it cannot be sampled.
        """
        before = self.before
        if before is None:
            prompt = await self.generator.prepare(lambda network: first_prompt(network, history))
        else:
            prompt = await self.generator.prepare(lambda network: next_prompt(network, *before, history))
        reply = await self.generator.ask((*self.key, turn), prompt)
        self.before = prompt, reply
        yield Delta(reply.text)
        yield Reply(
            reply.text,
            reply.finish,
            Tokens(prompt=len(prompt.ids), completion=len(reply.ids)),
            Sampled(prompt_ids=prompt.ids, ids=reply.ids, logprobs=reply.logprobs),
        )

    async def aclose(self) -> None:
        """Do nothing: it holds no resources of an event loop."""
