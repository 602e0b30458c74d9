"""The class `VimRAG` of the reference implementation, a thin layer over the agent with a memory graph.

Its arguments, its events and their order, and the `sample` of an answer are those of the reference's public
demo. Additional keys are `left_out` (results that did not fit the budget) and `evidence`.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from copy import copy
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any, Literal, TypeAlias

from pydantic import ValidationError

from vrag.agent.agent import Agent
from vrag.agent.events import (
    AnswerGiven,
    Event,
    GraphChanged,
    InvalidAction,
    MemoryUpdated,
    ModelCalled,
    RunFailed,
    SearchRequested,
    SearchReturned,
    StopReason,
)
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.memory.memory_graph import Graph, Node, NodeKind
from vrag.agent.method import Method
from vrag.agent.policies.chat import ChatPolicy
from vrag.chat import ChatDelta, ChatMessage, ChatModel, ChatOptions, ChatReply, ChatRetry
from vrag.compat.agents import ReferenceAgents, read_settings, with_steps
from vrag.errors import SettingsError
from vrag.factory.agents import open_method
from vrag.factory.models import chat_options, open_chat
from vrag.providers import is_dashscope
from vrag.search.client import SearchClient
from vrag.search.schema import SearchResult
from vrag.settings import SettingsReport
from vrag.types import Query

_FRAMES = 32
"""Maximum of the frames of a clip, as in the reference."""
_USUAL_FACTOR = 28
"""Pixels per visual token and side, of most families."""
_SERVER_OPTIONS = ChatOptions()
_OUT_OF_STEPS = "The run reached its last step without an answer."


class VimRAG:
    """The agent with a memory graph.

    Args:
        base_url: Address of the model's server.
        search_url: Address of the search server.
        model_name: Name of the model on that server.
        api_key: Key for the model's server; None for the one of the settings.
        max_pixels_image: Pixels of a picture at most.
        max_pixels_video: Pixels of a frame of a video at most.
        memory_buffer_pixels: Pixels of all pictures from memory together.
        search_top_k: Results of a search.
        max_mem_steps: Model calls at most.
        enable_thinking: Whether the model thinks apart from its reply.
        max_steps: The same as `max_mem_steps`, which it replaces where it is given.
        top_k: The same as `search_top_k`, which it replaces where it is given.
        image_root: Folder of the pictures, if the search server is the reference's, which names paths.
            None for the setting.
        profile: Family of the model; by what its server says, and by its name, where None.

    Raises:
        SettingsError: If a value cannot be used.
        ServerError: If the address of the search server is none.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the signature of the reference, and four more
        self,
        base_url: str = "https://dashscope.aliyuncs.com/compatible-mode/v1",
        search_url: str = "http://localhost:8001/search",
        model_name: str = "qwen3.5-plus",
        api_key: str | None = "EMPTY",
        max_pixels_image: int = 1003520,
        max_pixels_video: int = 401408,
        memory_buffer_pixels: int = 2007040,
        search_top_k: int = 3,
        max_mem_steps: int = 20,
        enable_thinking: bool = True,
        *,
        max_steps: int | None = None,
        top_k: int | None = None,
        image_root: str | None = None,
        profile: str | None = None,
    ) -> None:
        if isinstance(max_pixels_image, bool):  # our own releases before had enable_thinking in this place
            raise SettingsError(
                "max_pixels_image is a number of pixels.", "Name the argument: enable_thinking=True."
            )
        self.max_mem_steps = max_mem_steps if max_steps is None else max_steps
        report = read_settings(
            "vimrag",
            base_url,
            search_url,
            model_name,
            api_key,
            image_root=image_root,
            profile=profile,
            thinking="on" if enable_thinking else "off",
            hits=search_top_k if top_k is None else top_k,
        )
        # As in the reference, unless the user chose how. DashScope has a switch of its own: it gets both.
        switch = "both" if is_dashscope(report.settings.base_url) else "template"
        reference = {"thinking_switch": switch, "crop_nodes": False}
        unset = {name: value for name, value in reference.items() if report.origins[name] == "default"}
        self._report = replace(report, settings=report.settings.model_copy(update=unset))
        self._pixels = _PixelLimits(max_pixels_image, max_pixels_video, memory_buffer_pixels)
        self._agents = ReferenceAgents(self, self._report.settings, _RecordingClient)
        # A limit that cannot be used is an error now, before the model server is asked.
        self._pixels.apply(open_method(self._report.settings), _USUAL_FACTOR, self._report)

    @property
    def max_steps(self) -> int:
        """The same as `max_mem_steps`."""
        return self.max_mem_steps

    @max_steps.setter
    def max_steps(self, steps: int) -> None:
        self.max_mem_steps = steps

    def run(self, sample: MutableMapping[str, Any]) -> Generator[dict[str, Any]]:
        """Answer `sample["query"]`.

        Args:
            sample: When the answer comes it also gets `trajectory` (a list of conversations, one for each
                time the context was rebuilt), `search_results`, `graph` (a list of nodes), `generate` (the
                answer) and `generate_times` (calls before the answer that were not rejected).

        Yields:
            One dictionary for each event: `think` and `content` with a chunk of the reply as `content`, as it
            is written; `search` with `query` and `node_id`; `search_done` with `results`; `memorize` with
            `summary`; `answer` with `content`, `sample` and `evidence`. `error` with `content`: a reply that
            was rejected, after which the run continues, or a failure that ended it. `max_steps` with
            `content`. `search_done` and `memorize` have `left_out`: sentences about results that did not fit.

        Raises:
            ValueError: If `sample` is not a dictionary with a question as `query`.
        """
        question = sample.get("query") if isinstance(sample, dict) else None
        if not isinstance(question, str) or not question.strip():
            raise ValueError('run takes a dictionary with the question: run({"query": "…"})')
        parts: SimpleQueue[_Part] = SimpleQueue()
        opened = self._agents.current()
        shared = opened.environment
        assert isinstance(shared.searcher, _RecordingClient)
        received: dict[str, SearchResult] = {}
        policy = opened.policy
        if isinstance(policy, ChatPolicy):  # chunks of a local model are not streamed
            settings = self._report.settings
            options = chat_options(settings, shared.profile, shared.tools)
            policy = ChatPolicy(_StreamTap(open_chat(settings), parts.put), options, policy.name)
        agent = replace(
            with_steps(opened, self.max_mem_steps),
            method=self._pixels.apply(opened.method, shared.profile.factor, self._report),
            policy=policy,
            environment=replace(shared, searcher=shared.searcher.for_run(received)),
        )
        translator = _EventTranslator(sample, received)
        for part in _running(agent, question, translator.keep, parts):
            yield from translator.of(part)


@dataclass(frozen=True, slots=True)
class _PixelLimits:
    """The reference's limits of pixels."""

    image: int
    """Of a picture."""
    frame: int
    """Of a frame of a video."""
    memory: int
    """Of all that is remembered."""

    def apply(self, method: Method, factor: int, report: SettingsReport) -> Method:
        """Return the method with these limits, for a model with so many pixels per visual token and side.

        The reference has no limit for all results of a search. Raises `SettingsError` for a limit that cannot
        be used.
        """
        fresh = report.settings.fresh_tokens
        if report.origins["fresh_tokens"] == "default":
            largest = max(self.image, _FRAMES * self.frame)
            fresh = max(fresh, (report.settings.hits or method.hits) * largest // factor**2)
        graph_method: Any = method
        values = {
            "image_pixels": self.image,
            "frame_pixels": self.frame,
            "tokens": self.memory // factor**2,
            "frames": _FRAMES,
            "fresh_tokens": fresh,
        }
        try:
            memory = MemoryOptions.model_validate({**graph_method.memory.model_dump(), **values})
        except ValidationError as error:
            fault = error.errors()[0]
            raise SettingsError(f"{fault['loc'][0]} cannot be used: {fault['msg']}.") from None
        return replace(graph_method, memory=memory)


class _RecordingClient(SearchClient):
    """A client that records the latest results of every query of one run, as the server sent them."""

    received: dict[str, SearchResult] | None = None
    """By query; None in the client that all runs of an agent share, which keeps nothing."""

    def for_run(self, received: dict[str, SearchResult]) -> _RecordingClient:
        """Return a client over the same connections that puts the results of one run into `received`."""
        client = copy(self)
        client.received = received
        return client

    def results(self, queries: Sequence[Query], top_k: int) -> list[SearchResult]:
        """Search and record the results; see the base class."""
        found = super().results(queries, top_k)
        if self.received is not None:
            texts = (query.text for query in queries)
            self.received.update(zip(texts, found, strict=True))
        return found


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A piece of a reply as it is written."""

    event: Literal["think", "content"]
    text: str


class _StreamTap:
    """A served model whose chunks are passed to a callback as they come."""

    def __init__(self, model: ChatModel, on_chunk: Callable[[_Part], None]) -> None:
        self._model = model
        self._on_chunk = on_chunk

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._model.name

    async def stream(
        self, messages: Sequence[ChatMessage], options: ChatOptions = _SERVER_OPTIONS
    ) -> AsyncGenerator[ChatDelta | ChatRetry | ChatReply, None]:
        """Stream the model's reply."""
        async with aclosing(self._model.stream(messages, options)) as parts:
            async for part in parts:
                if isinstance(part, ChatDelta) and part.text:
                    self._on_chunk(_Chunk("think" if part.thought else "content", part.text))
                yield part

    async def aclose(self) -> None:
        """Close the model."""
        await self._model.aclose()


class _End:
    """The run has ended: nothing more comes."""


_Part: TypeAlias = "Event | _Chunk | _End"


def _running(
    agent: Agent, question: str, save: Callable[[str, bytes], None], parts: SimpleQueue[_Part]
) -> Iterator[Event | _Chunk]:
    """Yield the events of a run, and the chunks that its policy puts into `parts`, as they come.

    The run has a thread of its own, so that chunks are yielded while the model writes. It is cancelled
    when the generator is closed.
    """
    cancel = asyncio.Event()

    async def run() -> None:
        try:
            async for event in agent.astream(question, save=save, cancel=cancel):
                parts.put(event)
        finally:
            parts.put(_End())
            await agent.aclose()

    with ThreadPoolExecutor(1, "vrag-run") as thread:
        runner = thread.submit(asyncio.Runner).result()
        loop = thread.submit(runner.get_loop).result()
        running = thread.submit(runner.run, run())
        try:
            while not isinstance(part := parts.get(), _End):
                yield part
        finally:
            loop.call_soon_threadsafe(cancel.set)
            running.exception()
            thread.submit(runner.close).result()
        running.result()


@dataclass(slots=True)
class _EventTranslator:
    """The events of a run in the format of the reference's demo."""

    sample: MutableMapping[str, Any]
    received: dict[str, SearchResult]
    """The results of the run's searches, by query."""
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """The messages and pictures of the run, by the names under which events have them."""
    graph: Graph = field(default_factory=Graph)
    trajectory: list[list[dict[str, Any]]] = field(default_factory=list[list[dict[str, Any]]])
    found: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    query: str = ""
    call: ModelCalled | None = None
    has_content: bool = False
    """True if a chunk of the reply, other than thought, has come since the last call."""
    executed: int = 0
    """Number of calls so far that were not rejected."""

    def keep(self, name: str, data: bytes) -> None:
        """Keep a file of the run."""
        self.files[name] = data

    def of(self, part: Event | _Chunk) -> Iterator[dict[str, Any]]:
        """Yield the demo's event for a part of the run, if it has one."""
        match part:
            case _Chunk(kind, text):
                self.has_content = self.has_content or kind == "content"
                yield {"event": kind, "content": text}
            case ModelCalled():
                if not self.has_content:  # a model in this process, or a native tool call
                    yield {"event": "content", "content": part.reply.rpartition("</think>")[2].lstrip()}
                self.call, self.has_content = part, False
                self.executed += 1
            case GraphChanged():
                self.graph = part.graph
            case _ if (event := self._event(part)) is not None:
                yield event
            case _:
                pass

    def _event(self, part: Event) -> dict[str, Any] | None:  # noqa: PLR0911 - one flat case per event
        """Return the demo's dictionary for an event; None where it has none."""
        match part:
            case InvalidAction():
                self.executed -= 1
                return {"event": "error", "content": part.reason}
            case SearchRequested() if self.graph.pending is None:  # it is refused otherwise
                self.query = part.query
                return {"event": "search", "query": part.query, "node_id": part.node}
            case SearchReturned():
                results = self.received[self.query].model_dump(mode="json", exclude_none=True)
                self.found.append(results)
                return {"event": "search_done", "results": results, "left_out": list(part.damaged)}
            case MemoryUpdated():
                self.trajectory.append(self._conversation())
                summary = self.graph.node(part.node).summary
                dropped = [f"{entry.node}, {entry.label}: {entry.reason}" for entry in part.dropped]
                return {"event": "memorize", "summary": summary, "left_out": [*part.reports, *dropped]}
            case AnswerGiven():
                return self._ended(part)
            case RunFailed():
                return {"event": "error", "content": part.message}
            case _:
                return None

    def _ended(self, event: AnswerGiven) -> dict[str, Any]:
        if event.text is None and event.stop_reason is StopReason.OUT_OF_STEPS:
            return {"event": "max_steps", "content": _OUT_OF_STEPS}
        if event.text is None and event.stop_reason is not StopReason.ABSTAINED:
            reason = event.stop_reason.replace("_", " ")
            return {"event": "error", "content": f"The run ended without an answer: {reason}."}
        text = event.text or self.graph.newest.query
        self.trajectory.append(self._conversation())
        self.sample.update(
            trajectory=self.trajectory,
            search_results=self.found,
            graph=[_node(node) for node in self.graph.nodes],
            generate=text,
            generate_times=self.executed - 1,
        )
        evidence = [evidence.model_dump(mode="json") for evidence in event.evidence]
        return {"event": "answer", "content": text, "sample": self.sample, "evidence": evidence}

    def _conversation(self) -> list[dict[str, Any]]:
        """Return the messages of the last call, and its reply."""
        assert self.call is not None
        messages: list[dict[str, Any]] = []
        for name in self.call.messages:
            message, parts = json.loads(self.files[f"{name}.json"]), list[dict[str, Any]]()
            for part in message["parts"]:
                if "text" in part:
                    parts.append({"type": "text", "text": part["text"]})
                else:
                    jpeg = base64.b64encode(self.files[f"{part['picture']}.jpg"]).decode()
                    parts.append({"type": "image", "image": f"data:image/jpeg;base64,{jpeg}"})
            is_user = message["role"] == "user"
            content = parts if is_user else "\n".join(part["text"] for part in parts)
            messages.append({"role": message["role"], "content": content})
        return [*messages, {"role": "assistant", "content": self.call.reply}]


def _node(node: Node) -> dict[str, Any]:
    """Convert a node of the graph to the format of the reference."""
    parents = list(node.parents)
    match node.kind:
        case NodeKind.ROOT:
            return {"id": node.id, "name": "Question", "content": node.query}
        case NodeKind.ANSWER:
            return {"id": "answer", "parent_ids": parents}
        case _:
            summary = {"summary": node.summary} if node.summary else {}
            return {"id": node.id, "parent_ids": parents, "query": node.query, **summary}
