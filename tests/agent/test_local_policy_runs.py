"""The model in this process serves many runs at once, both agents, and those that give up."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest
from extras import require
from local_models import Bare, all_of, ask, picture, user

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment
from vrag.agent.events import AnswerGiven, ModelCalled, RunFailed, StopReason, UsageReported
from vrag.agent.methods.baselines import Rag, React
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policies.local import LocalOptions, LocalPolicy, open_local
from vrag.agent.policies.local_model import TextDecoder
from vrag.agent.policy import Delta, Reply
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.agent.method import Method

require("models", "torch", "transformers")


class TestManyRuns:
    def test_at_once_give_what_each_gives_alone(self, policy: LocalPolicy) -> None:
        histories = [[user(f"Question {n}", picture(n, 2, 3))] for n in range(6)]
        alone = [asyncio.run(all_of(policy, history)) for history in histories]

        async def together() -> list[tuple[list[str], Reply]]:
            return await asyncio.gather(*(all_of(policy, history) for history in histories))

        assert asyncio.run(together()) == alone
        assert len({reply.text for _, reply in alone}) == 6

    def test_are_served_in_the_order_in_which_they_asked(self, policy: LocalPolicy) -> None:
        served: list[int] = []

        async def one(number: int) -> None:
            await all_of(policy, [user("x" * (600 - 100 * number))])  # the later, the shorter
            served.append(number)

        async def together() -> None:
            await asyncio.gather(*(one(number) for number in range(5)))

        asyncio.run(together())
        assert served == [0, 1, 2, 3, 4]

    def test_from_several_threads_do_not_mix(self, policy: LocalPolicy) -> None:
        right = [ask(policy, f"Question {n}") for n in range(4)]
        found: dict[int, Reply] = {}

        def one(number: int) -> None:
            found[number] = ask(policy, f"Question {number}")

        threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [found[number] for number in range(4)] == right


class TestWithTheAgents:
    @pytest.mark.parametrize(
        "method", [VragMethod(), Vimrag(), Rag(), React()], ids=lambda method: method.name
    )
    def test_nonsense_ends_in_order_and_is_accounted_for(self, checkpoints: Path, method: Method) -> None:
        policy = open_local(str(checkpoints / "qwen2_5_vl"), options=LocalOptions(max_tokens=30))
        agent = Agent(policy, Environment(tiny_corpus(), policy.profile), method, Limits(steps=2))
        events = list(agent.stream("How many passengers?"))
        calls = [event for event in events if isinstance(event, ModelCalled)]
        usages = [event for event in events if isinstance(event, UsageReported)]
        assert isinstance(events[-1], AnswerGiven)
        assert events[-1].stop_reason in {StopReason.OUT_OF_STEPS, StopReason.OUT_OF_TOKENS}
        assert calls
        for called, usage in zip(calls, usages, strict=True):
            assert usage.prompt_tokens == len(called.prompt_ids)
            assert usage.completion_tokens == len(called.ids) == len(called.logprobs)
            assert called.sampling == {"temperature": 0.0, "max_tokens": 30}

    def test_a_question_beyond_the_context_ends_out_of_tokens(self, checkpoints: Path) -> None:
        policy = open_local(str(checkpoints / "qwen2_5_vl"))
        agent = Agent(policy, Environment(tiny_corpus(), policy.profile), VragMethod())
        end = list(agent.stream("x" * 5000))[-1]
        assert isinstance(end, RunFailed)
        assert end.stop_reason is StopReason.OUT_OF_TOKENS


def writers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "local-policy"]


def wait_for_no_writer() -> None:
    for thread in writers():
        thread.join(timeout=5)
    assert not writers()


class TestCancelling:
    @pytest.fixture
    def endless(self, checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> LocalPolicy:
        """A policy that would write for minutes: each token takes 20 ms."""
        policy = open_local(str(checkpoints / "qwen2_5_vl"), options=LocalOptions(max_tokens=3000))
        ask(policy, "loads")
        writer: Any = vars(policy)["_writer"]
        writer.checkpoint.model.generation_config.eos_token_id = None  # it would end its turn before long
        add = TextDecoder.add
        self.begun: set[TextDecoder] = set()
        self.writes = threading.Event()

        def slowly(writing: TextDecoder, token: int) -> None:
            self.begun.add(writing)
            self.writes.set()
            time.sleep(0.02)
            add(writing, token)

        monkeypatch.setattr(TextDecoder, "add", slowly)
        return policy

    def test_closing_ends_generation_and_its_thread(self, endless: LocalPolicy) -> None:
        async def begin() -> int:
            count = 0
            async with aclosing(endless.reply([user("revenue?")])) as parts:
                async for _ in parts:
                    count += 1
                    if count == 3:
                        break
            return count

        assert asyncio.run(begin()) == 3
        wait_for_no_writer()

    def test_a_cancelled_task_ends_and_the_next_in_line_is_served(self, endless: LocalPolicy) -> None:
        async def run() -> None:
            first, second = (asyncio.create_task(all_of(endless, [user(text)])) for text in ("a", "b"))
            await asyncio.to_thread(self.writes.wait)
            second.cancel()  # while it waits
            first.cancel()  # while it writes
            with pytest.raises(asyncio.CancelledError):
                await first
            with pytest.raises(asyncio.CancelledError):
                await second
            async with aclosing(endless.reply([user("c")])) as third:
                assert isinstance(await anext(third), Delta)

        asyncio.run(run())
        wait_for_no_writer()
        assert len(self.begun) == 2  # nothing was computed for the second

    def test_no_thread_outlives_the_replies(self, policy: LocalPolicy) -> None:
        ask(policy, "revenue?")
        wait_for_no_writer()


class TestThinking:
    def test_a_block_that_the_template_opened_stands_at_the_beginning(
        self, checkpoints: Path, policy: LocalPolicy, tmp_path: Path
    ) -> None:
        folder = shutil.copytree(checkpoints / "qwen2_5_vl", tmp_path / "thinking")
        template = (folder / "chat_template.jinja").read_text()
        opened = template.replace("assistant\\n' }}", "assistant\\n<think>\\n' }}")
        assert opened != template
        (folder / "chat_template.jinja").write_text(opened)
        thinking = open_local(str(folder), options=LocalOptions(max_tokens=24))
        deltas, reply = asyncio.run(all_of(thinking, [user("revenue?")]))
        assert deltas[0] == "<think>\n"
        assert reply.text == "".join(deltas)
        decode = Bare(folder, "qwen2_5_vl").tokenizer.decode
        assert decode(reply.sampled.prompt_ids).endswith("<think>\n")
        assert reply.text == "<think>\n" + decode(reply.sampled.ids, skip_special_tokens=True)
        assert ask(policy, "revenue?").text[:7] != "<think>"
