"""Many runs write with one network: their turns are gathered into batches."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vrag.agent.policy import Delta, Reply, Sampled, Tokens
from vrag.rl.generation import (
    GeneratedReply,
    GenerationPrompt,
    SamplingOptions,
    first_prompt,
    next_prompt,
    room_of,
    write,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from vrag.agent.policy import Message
    from vrag.rl.model import TrainableModel

__all__ = ["BatchedGenerator", "PolicyHandle"]

Key: TypeAlias = tuple[int, ...]
"""What a run is known by: it seeds its chance, and orders it within a batch."""


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """A reply that somebody waits for."""

    key: Key
    prompt: GenerationPrompt
    coming: asyncio.Future[GeneratedReply]


@dataclass(slots=True, eq=False)
class BatchedGenerator:
    """Writes the replies of all runs of one event loop, a batch at a time, in a thread of its own.

    Prompts are made in that thread as well: tokenizers and networks are not for several at once, and the
    event loop stays free for searches.

    Together: nothing is written before every run that is expected waits, so that batches are always the
    same, and a training can be repeated bit by bit (on the same machine with the same number of threads).
    Otherwise: whoever waits when the thread is free is in the next batch, and no run waits for a slow one.
    """

    network: TrainableModel
    sampling: SamplingOptions
    together: bool = True
    most: int = 64
    """Replies in a batch at most."""
    waiting: list[_Turn] = field(default_factory=list["_Turn"])
    active_handles: int = 0
    """Runs that have not left yet."""
    writing: bool = False
    fault: Exception | None = None
    """Why a batch could not be written, the last time: no fault of the runs, which all fail by it."""
    preparing: int = 0
    """Prompts that are being made: the thread writes after them, so that they can be in the next batch."""
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "vrag-scribe"))
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def expect(self, runs: int) -> None:
        """So many more runs will sit down: others wait for each until it has left."""
        self.active_handles += runs

    def open_handle(self, key: Key) -> PolicyHandle:
        """The policy of one run.

        Args:
            key: The same key, prompts and batches give the same replies.
        """
        return PolicyHandle(self, key)

    def leave(self) -> None:
        """A run has ended."""
        self.active_handles -= 1
        self._go_on()

    async def prepare(self, make: Callable[..., GenerationPrompt], *told: Any) -> GenerationPrompt:  # noqa: ANN401 - as `make` takes
        """A prompt, made in the thread.

        Args:
            make: What makes it of a network and what it is told.
            told: That.

        Raises:
            ContextTooLong: If it leaves no room for a reply.
            ModelError: If it cannot be made.
        """
        self.preparing += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.thread, self._made, make, *told)
        except BaseException:
            asyncio.get_running_loop().call_soon(self._go_on)  # others may have waited for this one alone
            raise
        finally:
            self.preparing -= 1

    def _made(self, make: Callable[..., GenerationPrompt], *told: Any) -> GenerationPrompt:  # noqa: ANN401
        prompt = make(self.network, *told)
        room_of(self.network, prompt)  # raises here, where it is the fault of no other run in the batch
        return prompt

    async def ask(self, key: Key, prompt: GenerationPrompt) -> GeneratedReply:
        """The reply to a prompt.

        Raises:
            ModelError: If it cannot be written.
        """
        turn = _Turn(key, prompt, asyncio.get_running_loop().create_future())
        self.waiting.append(turn)
        self._go_on()
        try:
            return await turn.coming
        finally:
            if turn in self.waiting:
                self.waiting.remove(turn)

    def close(self) -> None:
        """Ends the thread."""
        self.thread.shutdown(wait=True, cancel_futures=True)

    def _go_on(self) -> None:
        """Begins the next batch, if its time has come."""
        if self.writing or self.preparing or not self.waiting:
            return
        if self.together and len(self.waiting) < self.active_handles:
            return
        self.writing = True
        task = asyncio.get_running_loop().create_task(self._work())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _work(self) -> None:
        turns = sorted(self.waiting, key=lambda turn: turn.key)
        self.waiting.clear()
        try:
            for at in range(0, len(turns), self.most):
                await self._batch(turns[at : at + self.most])
        finally:
            self.writing = False
            self._go_on()

    async def _batch(self, turns: Sequence[_Turn]) -> None:
        loop = asyncio.get_running_loop()
        prompts = [turn.prompt for turn in turns]
        randoms = [np.random.default_rng(turn.key) for turn in turns]
        try:
            replies = await loop.run_in_executor(
                self.thread, write, self.network, prompts, self.sampling, randoms
            )
        except Exception as error:  # noqa: BLE001 - raised where the replies are awaited
            self.fault = error
            for turn in turns:
                if not turn.coming.done():
                    turn.coming.set_exception(error)
            return
        for turn, reply in zip(turns, replies, strict=True):
            if not turn.coming.done():
                turn.coming.set_result(reply)


@dataclass(slots=True, eq=False)
class PolicyHandle:
    """The `Policy` of one run. It remembers what it said, so that replies stay the tokens they were."""

    generator: BatchedGenerator
    key: Key
    before: tuple[GenerationPrompt, GeneratedReply] | None = None

    @property
    def name(self) -> str:
        """How it is called in run files."""
        return f"training:{self.generator.network.checkpoint.name}"

    @property
    def sampling(self) -> Mapping[str, float | int | str | bool]:
        """How it samples."""
        ours = self.generator.sampling
        return {"temperature": ours.temperature, "max_tokens": ours.max_tokens}

    async def reply(self, history: Sequence[Message], turn: int = 1) -> AsyncGenerator[Delta | Reply, None]:
        """Writes the next reply, all of it at once; see `Policy`.

        Raises:
            ContextTooLong: If the prompt leaves no room for it.
            ModelError: If it cannot be written.
        """
        if self.before is None:
            prompt = await self.generator.prepare(first_prompt, history)
        else:
            prompt = await self.generator.prepare(next_prompt, *self.before, history)
        written = await self.generator.ask((*self.key, turn), prompt)
        self.before = prompt, written
        yield Delta(written.text)
        yield Reply(
            written.text,
            written.finish,
            Tokens(prompt=len(prompt.ids), completion=len(written.ids)),
            Sampled(prompt_ids=prompt.ids, ids=written.ids, logprobs=written.logprobs),
        )

    async def aclose(self) -> None:
        """Holds nothing of an event loop."""
