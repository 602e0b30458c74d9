# ruff: noqa: ANN401 - the libraries are not typed
"""Runs that write together: batches that do not depend on time, and nobody who waits for ever."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tiny_world import ANSWER, SEARCH, force, rolled, shared, user

from vrag.agent.events import ModelCalled
from vrag.agent.policy import Delta, FinishReason, Reply
from vrag.errors import ContextTooLong, ModelError
from vrag.rl import batched_policy
from vrag.rl.batched_policy import BatchedGenerator
from vrag.rl.generation import GeneratedReply, GenerationPrompt, SamplingOptions, first_prompt, write
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from vrag.rollouts.rollout import Rollout

PROMPT = GenerationPrompt("", (1,), (), ())


class Slow:
    """A searcher that takes a while, another one each time."""

    def __init__(self, seed: int) -> None:
        self._chance, self._searcher = random.Random(seed), tiny_corpus()
        self.version = "slow"

    def search(self, *how: Any) -> Any:
        time.sleep(self._chance.random() / 100)
        return self._searcher.search(*how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._searcher, name)


class Pen:
    """Writes how often it was asked, and remembers batches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[list[tuple[int, ...]]] = []
        self.fault: BaseException | None = None
        self.ready = threading.Event()
        self.ready.set()
        monkeypatch.setattr(batched_policy, "write", self.write)

    def write(
        self, network: object, prompts: Sequence[GenerationPrompt], sampling: object, chances: Sequence[Any]
    ) -> list[GeneratedReply]:
        self.ready.wait(10)
        self.batches.append([prompt.ids for prompt in prompts])
        if self.fault is not None:
            raise self.fault
        return [GeneratedReply("red", (1,), (float(one.random()),), FinishReason.STOP) for one in chances]


@pytest.fixture
def pen(monkeypatch: pytest.MonkeyPatch) -> Pen:
    return Pen(monkeypatch)


def scribble(
    scribe: Callable[[], BatchedGenerator], work: Callable[[BatchedGenerator], Awaitable[Any]]
) -> Any:
    async def go() -> Any:
        made = scribe()
        try:
            async with asyncio.timeout(10):
                return await work(made)
        finally:
            made.close()

    return asyncio.run(go())


def together(**more: Any) -> Callable[[], BatchedGenerator]:
    return lambda: BatchedGenerator(shared(), SamplingOptions(max_tokens=4), **more)


def prompt(*ids: int) -> GenerationPrompt:
    return GenerationPrompt("", ids, (), ())


def said(rollouts: list[Rollout]) -> list[list[tuple[Any, ...]]]:
    return [
        [(call.prompt_ids, call.ids, call.logprobs) for call in one.events if isinstance(call, ModelCalled)]
        for one in rollouts
    ]


class TestTogether:
    @pytest.mark.parametrize("most", [64, 3])
    def test_batches_do_not_depend_on_time(self, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Searches take as long as they like, in whatever order: the same log-probabilities bit by bit."""

        def script(network: Any, prompt: GenerationPrompt) -> list[int] | None:
            """Some answer, some search twice, and what they write then is their own."""
            number = int(prompt.messages[0].text.split(", ")[-1][0])
            told = ANSWER if number % 2 else SEARCH if len(prompt.messages) < 4 else None
            return told and [*network.encode(told), network.checkpoint.tokenizer.eos_token_id]

        force(monkeypatch, script)
        runs = [said(rolled(shared(), 5, tokens=6, most=most, searcher=Slow(seed))) for seed in range(3)]
        assert runs[0] == runs[1] == runs[2]
        assert [len(run) for run in runs[0]] == [3, 1, 3, 1, 3]

    def test_waits_for_all_and_orders_them(self, pen: Pen) -> None:
        async def work(scribe: BatchedGenerator) -> None:
            scribe.expect(3)
            asked = [asyncio.create_task(scribe.ask((at,), prompt(at))) for at in (2, 0)]
            await asyncio.sleep(0.05)
            assert pen.batches == []
            await asyncio.gather(*asked, scribe.ask((1,), prompt(1)))

        scribble(together(), work)
        assert pen.batches == [[(0,), (1,), (2,)]]

    def test_takes_no_more_at_once_than_it_may(self, pen: Pen) -> None:
        async def work(scribe: BatchedGenerator) -> None:
            scribe.expect(5)
            for _ in range(2):
                await asyncio.gather(*(scribe.ask((at,), prompt(at)) for at in range(5)))

        scribble(together(most=2), work)
        assert pen.batches == [[(0,), (1,)], [(2,), (3,)], [(4,)]] * 2

    def test_those_that_left_are_not_waited_for(self, pen: Pen) -> None:
        async def work(scribe: BatchedGenerator) -> None:
            scribe.expect(3)
            asked = [asyncio.create_task(scribe.ask((at,), prompt(at))) for at in range(2)]
            await asyncio.sleep(0.02)
            assert pen.batches == []
            scribe.leave()
            await asyncio.gather(*asked)

        scribble(together(), work)
        assert pen.batches == [[(0,), (1,)]]

    def test_one_that_is_cancelled_is_not_written_for(self, pen: Pen) -> None:
        async def work(scribe: BatchedGenerator) -> None:
            scribe.expect(2)
            given_up = asyncio.create_task(scribe.ask((0,), prompt(0)))
            await asyncio.sleep(0)
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up
            assert not scribe.waiting
            scribe.leave()
            await scribe.ask((1,), prompt(1))

        scribble(together(), work)
        assert pen.batches == [[(1,)]]

    def test_one_that_is_cancelled_while_it_is_written_for_disturbs_nobody(self, pen: Pen) -> None:
        async def work(scribe: BatchedGenerator) -> GeneratedReply:
            scribe.expect(2)
            pen.ready.clear()
            asked = [asyncio.create_task(scribe.ask((at,), prompt(at))) for at in range(2)]
            await asyncio.sleep(0.02)
            asked[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked[0]
            scribe.leave()
            pen.ready.set()
            return await asked[1]

        assert scribble(together(), work).text == "red"
        assert len(pen.batches) == 1

    def test_a_fault_reaches_all_that_wait(self, pen: Pen) -> None:
        async def work(scribe: BatchedGenerator) -> list[Any]:
            scribe.expect(3)
            pen.fault = ModelError("The memory does not suffice.")
            failed = await asyncio.gather(
                *(scribe.ask((at,), prompt(at)) for at in range(3)), return_exceptions=True
            )
            pen.fault = None
            again = await asyncio.gather(*(scribe.ask((at,), prompt(at)) for at in range(3)))
            assert [one.text for one in again] == ["red"] * 3
            return failed

        failed = scribble(together(most=2), work)
        assert [str(error) for error in failed] == ["The memory does not suffice."] * 3

    def test_chance_is_that_of_the_key(self, pen: Pen) -> None:
        """Whoever else writes, and when."""

        async def work(scribe: BatchedGenerator) -> list[GeneratedReply]:
            scribe.expect(2)
            both = await asyncio.gather(*(scribe.ask((at, 1), PROMPT) for at in range(2)))
            scribe.leave()
            return [*both, await scribe.ask((1, 1), PROMPT), await scribe.ask((1, 2), PROMPT)]

        zero, one, again, later = (reply.logprobs for reply in scribble(together(), work))
        assert one == again
        assert len({zero, one, later}) == 3


class TestApart:
    def test_nobody_waits_for_a_slow_run(self, pen: Pen) -> None:
        async def work(scribe: BatchedGenerator) -> None:
            scribe.expect(9)
            await scribe.ask((0,), prompt(0))
            pen.ready.clear()
            asked = [asyncio.create_task(scribe.ask((at,), prompt(at))) for at in (3, 2, 1)]
            await asyncio.sleep(0.02)
            pen.ready.set()
            await asyncio.gather(*asked)

        scribble(together(together=False), work)
        assert pen.batches[0] == [(0,)]
        assert sorted(ids for batch in pen.batches[1:] for ids in batch) == [(1,), (2,), (3,)]
        assert len(pen.batches) <= 3

    def test_all_runs_come_to_their_end(self) -> None:
        for one in rolled(shared(), 5, together=False, most=2, tokens=5, searcher=Slow(1)):
            assert one.failure is None


class TestSeat:
    def test_says_the_tokens_that_it_was_given_and_drew(self) -> None:
        network = shared()
        history = [user("red")]

        async def work(scribe: BatchedGenerator) -> Reply:
            scribe.expect(1)
            parts = scribe.open_handle((1, 2)).reply(history, 3)
            return await anext(part async for part in parts if isinstance(part, Reply))

        reply = scribble(together(), work)
        prompt = first_prompt(network, history)
        (wanted,) = write(
            network, [prompt], SamplingOptions(max_tokens=4), [np.random.default_rng((1, 2, 3))]
        )
        assert (reply.text, reply.finish) == (wanted.text, wanted.finish)
        assert reply.sampled.prompt_ids == prompt.ids
        assert (reply.sampled.ids, reply.sampled.logprobs) == (wanted.ids, wanted.logprobs)
        assert (reply.tokens.prompt, reply.tokens.completion) == (len(prompt.ids), len(wanted.ids))

    def test_a_prompt_without_room_is_the_fault_of_its_run_alone(self) -> None:
        """It is refused before it is in a batch with others."""
        words = "ferry " * shared().checkpoint.context

        async def work(scribe: BatchedGenerator) -> Delta | Reply:
            scribe.expect(2)
            seats = [scribe.open_handle((at,)) for at in range(2)]
            other = asyncio.create_task(anext(seats[0].reply([user("red")])))
            with pytest.raises(ContextTooLong):
                await anext(seats[1].reply([user(words)]))
            scribe.leave()
            return await other

        assert scribble(together(), work) is not None

    @pytest.mark.parametrize("barrier", [True, False])
    def test_prompts_are_made_where_replies_are_written(
        self, barrier: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One thread alone uses network and tokenizer, whatever the event loop does meanwhile."""
        network, threads = shared(), set[str]()
        kind = network.checkpoint.tokenizer.__class__
        wholly = kind.__call__

        def encode(*told: Any, **more: Any) -> Any:
            threads.add(threading.current_thread().name)
            return wholly(*told, **more)

        monkeypatch.setattr(kind, "__call__", encode)
        for one in rolled(network, 3, tokens=5, together=barrier, searcher=Slow(2)):
            assert one.failure is None
        assert threads == {"vrag-sampling_0"}

    def test_prompts_that_are_being_made_are_waited_for(self, pen: Pen) -> None:
        """They are before the writing in the thread anyway: so they can be in the batch."""
        begun = threading.Event()

        def made(number: int) -> GenerationPrompt:
            begun.wait(5)
            time.sleep(0.02)
            return prompt(number)

        async def work(scribe: BatchedGenerator) -> None:
            scribe.expect(4)

            async def run(number: int) -> None:
                await scribe.ask((number,), await scribe.prepare(lambda _: made(number)))

            runs = [asyncio.create_task(run(number)) for number in range(3)]
            await asyncio.sleep(0.02)
            begun.set()
            await asyncio.gather(*runs)

        scribble(together(together=False), work)
        assert pen.batches == [[(0,), (1,), (2,)]]

    @pytest.mark.parametrize("barrier", [True, False])
    def test_one_whose_prompt_cannot_be_made_keeps_nobody(self, barrier: bool, pen: Pen) -> None:
        begun = threading.Event()

        def broken(_: object) -> GenerationPrompt:
            begun.wait(5)
            raise ModelError("broken")

        async def work(scribe: BatchedGenerator) -> None:
            scribe.expect(2)
            failing = asyncio.create_task(scribe.prepare(broken))
            other = asyncio.create_task(scribe.ask((1,), prompt(1)))
            await asyncio.sleep(0.02)
            assert pen.batches == []
            begun.set()
            with pytest.raises(ModelError, match="broken"):
                await failing
            if barrier:
                scribe.leave()
            await other
            assert scribe.preparing == 0

        scribble(together(together=barrier), work)
        assert pen.batches == [[(1,)]]

    def test_is_described(self) -> None:
        open_handle = BatchedGenerator(shared(), SamplingOptions(temperature=0.5, max_tokens=4)).open_handle(
            (1,)
        )
        assert open_handle.sampling == {"temperature": 0.5, "max_tokens": 4}
        assert open_handle.name == "training:tiny"
        asyncio.run(open_handle.aclose())
        open_handle.generator.close()
