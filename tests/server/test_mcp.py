"""The MCP door, asked by the SDK's own client: over HTTP on a socket, and over the pipes of a process."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import httpx
import pytest
from cited_runs import replies_of
from hosting import ANSWER, SEARCH
from PIL import Image
from service_harness import Doors, doors, scripted
from stored_collection import id_of, stored

from vrag.agent.events import StopReason
from vrag.agent.runs.run_store import RunStore
from vrag.errors import CollectionError, ModelError
from vrag.factory.collection_registry import CollectionRegistry
from vrag.server.options import ServerOptions
from vrag.settings import Settings
from vrag.testing import MemorySearcher, clip, page, passage
from vrag.types import item_id

mcp = pytest.importorskip("mcp", reason="needs the extra mcp")

from mcp.client.client import Client  # noqa: E402
from mcp.client.stdio import StdioServerParameters  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402
from mcp.shared._httpx_utils import create_mcp_http_client  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
    from pathlib import Path

    from mcp_types import CallToolResult

    from vrag.index.collection import Collection
    from vrag.types import Item

MODES = ("auto", "legacy")
"""How clients of today and of yesterday begin."""
FERRY = item_id(b"ferry.pdf".hex().ljust(64, "0"), 2)
NOTE = item_id(b"notes.md".hex().ljust(64, "0"), 1)
CROP = "<think>Closer.</think><bbox>[0, 0, 300, 200]</bbox>"
ABSTAIN = "<think>No.</think><answer>not answerable</answer>"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Doors]:
    with doors(scripted(tmp_path_factory.mktemp("runs"), (SEARCH, CROP, ANSWER))) as opened:
        yield opened


def told(result: CallToolResult) -> str:
    """The text of a result."""
    return "".join(part.text for part in result.content if part.type == "text")


def data(result: CallToolResult) -> dict[str, Any]:
    """What a result holds for programs; the text says the same."""
    assert not result.is_error, told(result)
    assert result.structured_content == json.loads(told(result))
    return result.structured_content or {}


def pictures(result: CallToolResult) -> list[Image.Image]:
    shown = [part for part in result.content if part.type == "image"]
    assert all(part.mime_type == "image/jpeg" for part in shown)
    return [Image.open(io.BytesIO(base64.b64decode(part.data))) for part in shown]


def call(
    address: str,
    name: str,
    arguments: dict[str, Any],
    mode: str = "auto",
    **more: Any,  # noqa: ANN401
) -> CallToolResult:
    """One call over HTTP."""

    async def once() -> CallToolResult:
        async with Client(f"{address}/mcp", mode=mode) as client:
            return await client.call_tool(name, arguments, **more)

    return asyncio.run(once())


REPORT = passage("report.md", 1, "The harbour of Saltby handled 84,210 passengers in 2024.")
MEMO = passage("memo.md", 1, "In 2024, the harbour of Saltby handled 84,120 passengers.")
PLAN = passage("plan.md", 1, "The ferry Fulmar is 42 km long.")
OLD_PLAN = passage("old-plan.md", 1, "The ferry Fulmar is 24 km long.")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """A server whose documents disagree."""
    searcher = MemorySearcher((REPORT, MEMO, PLAN, OLD_PLAN))
    with doors(scripted(tmp_path_factory.mktemp("runs")), searcher=searcher) as opened:
        yield opened.address


class TestConflicts:
    def test_they_are_those_of_the_http_interface(self, address: str) -> None:
        found = data(call(address, "conflicts", {}))
        assert found == httpx.get(f"{address}/conflicts").json()
        assert len(found["conflicts"]) == 2
        assert {side["value"] for side in found["conflicts"][0]["sides"]} == {"84,120", "84,210"}

    def test_a_limit_says_how_many_are_left_out(self, address: str) -> None:
        found = data(call(address, "conflicts", {"limit": 1}))
        assert (len(found["conflicts"]), found["left_out"], found["documents"]) == (1, 1, 4)

    def test_an_unknown_collection_is_refused(self, address: str) -> None:
        result = call(address, "conflicts", {"collection": "trains"})
        assert result.is_error
        assert told(result) == "There is no collection named 'trains'."

    def test_a_comparison_that_takes_long_goes_on(self, tmp_path: Path) -> None:
        class Slow(MemorySearcher):
            """Takes longer than a caller may wait, once."""

            waited: ClassVar[list[float]] = []

            def item(self, id: str) -> Item:
                if not self.waited:
                    self.waited.append(1.0)
                    time.sleep(1.0)
                return super().item(id)

        options = ServerOptions(item_seconds=0.3)
        with doors(scripted(tmp_path), options, Slow((REPORT, MEMO))) as opened:
            first = call(opened.address, "conflicts", {})
            assert first.is_error
            assert "Ask again in a minute." in told(first)
            time.sleep(1.2)
            assert len(data(call(opened.address, "conflicts", {}))["conflicts"]) == 1


class TestTools:
    @pytest.mark.parametrize("mode", MODES)
    def test_all_tools_are_there_and_say_that_documents_are_data(self, served: Doors, mode: str) -> None:
        async def listed() -> Any:  # noqa: ANN401
            async with Client(f"{served.address}/mcp", mode=mode) as client:
                return (await client.list_tools()).tools, client.instructions

        tools, instructions = asyncio.run(listed())
        assert [tool.name for tool in tools] == ["search", "look", "crop", "ask", "conflicts"]
        assert all("data" in tool.description for tool in tools)
        assert "data" in instructions
        assert [tool.annotations.read_only_hint for tool in tools] == [True, True, True, False, True]
        assert "'scripted'" in tools[3].description

    def test_their_schemas_need_no_keyword_that_models_are_not_taught(self, served: Doors) -> None:
        async def listed() -> Any:  # noqa: ANN401
            async with Client(f"{served.address}/mcp") as client:
                return (await client.list_tools()).tools

        for tool in asyncio.run(listed()):
            schema = json.dumps(tool.input_schema)
            assert "prefixItems" not in schema
            assert "$ref" not in schema
            assert all("description" in field for field in tool.input_schema["properties"].values())

    @pytest.mark.parametrize("mode", MODES)
    def test_search_finds_items_with_an_excerpt(self, served: Doors, mode: str) -> None:
        found = data(call(served.address, "search", {"query": "ferry carried passengers", "top_k": 2}, mode))[
            "hits"
        ]
        assert len(found) == 2
        assert (found[0]["item"], found[0]["document"], found[0]["page"]) == (FERRY, "ferry.pdf", 2)
        assert "48,200" in found[0]["document_text"]

    def test_look_shows_the_page_no_larger_than_asked(self, served: Doors) -> None:
        shown = call(served.address, "look", {"item": FERRY, "max_pixels": 20_000})
        (picture,) = pictures(shown)
        assert picture.width * picture.height <= 20_000
        assert "48,200" in data(shown)["document_text"]

    def test_a_passage_is_text_alone(self, served: Doors) -> None:
        shown = call(served.address, "look", {"item": NOTE})
        assert pictures(shown) == []
        assert "January" in data(shown)["document_text"]
        closer = call(served.address, "crop", {"item": NOTE, "box": [0, 0, 1, 1]})
        assert closer.is_error
        assert "Use look" in told(closer)

    def test_a_clip_is_a_frame_with_its_time(self, tmp_path: Path) -> None:
        film = clip("talk.mp4", 1, "the harbour", 60.0, 90.0)
        with doors(scripted(tmp_path), searcher=MemorySearcher((film,))) as opened:
            shown = call(opened.address, "look", {"item": film.id})
        assert data(shown)["seconds"] == [60.0, 90.0]
        assert len(pictures(shown)) == 1

    def test_crop_shows_the_part_in_full_resolution(self, served: Doors) -> None:
        shown = call(served.address, "crop", {"item": FERRY, "box": [0.1, 0.2, 0.4, 0.3]})
        (picture,) = pictures(shown)
        assert picture.size == (300, 140)

    def test_crop_cuts_where_the_box_is(self, served: Doors) -> None:
        (whole,) = pictures(call(served.address, "look", {"item": FERRY, "max_pixels": 4_000_000}))
        (part,) = pictures(call(served.address, "crop", {"item": FERRY, "box": [0.0, 0.02, 0.4, 0.12]}))
        cut = whole.crop((0, 28, 400, 168)).convert("L")
        differences = [abs(a - b) for a, b in zip(cut.tobytes(), part.convert("L").tobytes(), strict=True)]
        assert cut.getextrema()[0] < 100  # type: ignore[operator] # there is something to see
        assert sum(differences) / len(differences) < 3

    def test_long_texts_are_cut_and_excerpts_begin_at_the_words(self, tmp_path: Path) -> None:
        text = f"{'filler ' * 5000}and the ferry sails at noon {'rest ' * 500}"
        long = passage("long.md", 1, text)
        with doors(scripted(tmp_path), searcher=MemorySearcher((long,))) as opened:
            hit = data(call(opened.address, "search", {"query": "ferry noon"}))["hits"][0]["document_text"]
            shown = data(call(opened.address, "look", {"item": long.id}))
        assert "the ferry sails at noon" in hit
        assert len(hit) < 500
        assert (len(shown["document_text"]), shown["cut_after"]) == (20_000, 20_000)


class TestAsk:
    @pytest.mark.parametrize("mode", MODES)
    def test_an_answer_has_its_places_and_their_pictures(self, served: Doors, mode: str) -> None:
        done = call(served.address, "ask", {"question": "How many passengers?"}, mode)
        answer = data(done)
        assert (answer["answer"], answer["stop_reason"]) == ("48,200 [1]", "answered")
        first = answer["evidence"][0]
        assert (first["number"], first["located"], first["marks"][0]["role"]) == (1, False, "answer")
        assert (first["document"], first["page"], first["item"]) == ("ferry.pdf", 2, FERRY)
        assert all(0 <= side <= 1 for side in first["box"])
        assert first["picture"] == 1
        run = httpx.get(f"{served.address}/runs/{answer['run']}").json()
        sent = httpx.get(f"{served.address}/runs/{run['id']}/files/{run['evidence'][0]['crop_sha256']}.jpg")
        assert Image.open(io.BytesIO(sent.content)).tobytes() == pictures(done)[0].tobytes()

    @pytest.mark.parametrize("mode", MODES)
    def test_its_steps_are_told_while_it_works(self, served: Doors, mode: str) -> None:
        lines: list[tuple[float, str | None]] = []

        async def tell(progress: float, _: float | None, message: str | None) -> None:
            lines.append((progress, message))

        call(served.address, "ask", {"question": "How many?"}, mode, progress_callback=tell)
        messages = [message for _, message in lines]
        assert messages[:2] == ["Searching: ferry passengers", "Looking at ferry.pdf, page 2"]
        assert [progress for progress, _ in lines] == sorted({progress for progress, _ in lines})

    @pytest.mark.parametrize("mode", MODES)
    def test_its_answer_is_told_sentence_by_sentence_while_it_is_written(
        self, tmp_path: Path, mode: str
    ) -> None:
        lines: list[str | None] = []

        async def tell(_: float, __: float | None, message: str | None) -> None:
            lines.append(message)

        answer = "The ferry carried 48,200 passengers in 2024 [1]. A return ticket costs 12 crowns in summer."
        with doors(scripted(tmp_path, replies_of(answer), piece=9)) as opened:
            call(opened.address, "ask", {"question": "How many?"}, mode, progress_callback=tell)
        assert "Writing the answer: The ferry carried 48,200 passengers in 2024." in lines

    def test_its_choices_reach_the_agent(self, tmp_path: Path) -> None:
        answering = scripted(tmp_path)
        asked = {"question": "?", "agent": "vrag", "model": "scripted", "max_steps": 4, "thinking": "off"}
        with doors(answering) as opened:
            data(call(opened.address, "ask", asked))
        choice = answering.choices[-1]
        assert (choice.agent, choice.model, choice.max_steps, choice.thinking) == (
            "vrag",
            "scripted",
            4,
            "off",
        )

    def test_one_can_ask_further(self, tmp_path: Path) -> None:
        answering = scripted(tmp_path)
        with doors(answering) as opened:
            first = data(call(opened.address, "ask", {"question": "How many passengers?"}))
            again = data(call(opened.address, "ask", {"question": "And cars?", "session": first["session"]}))
        assert again["session"] == first["run"]
        assert answering.store.read(again["run"]).started.history[0].answer == "48,200"

    def test_abstention_is_no_error(self, tmp_path: Path) -> None:
        with doors(scripted(tmp_path, (SEARCH, ABSTAIN))) as opened:
            answer = data(call(opened.address, "ask", {"question": "Who?"}))
        assert (answer["answer"], answer["stop_reason"]) == (None, "abstained")

    def test_a_failed_model_is_an_error_in_a_sentence(self, tmp_path: Path) -> None:
        answering = scripted(tmp_path)
        answering.policy.fault = ModelError("The model is gone.", "Start it.")
        with doors(answering) as opened:
            failed = call(opened.address, "ask", {"question": "Who?"})
        assert failed.is_error
        assert "The model is gone. Start it." in told(failed)

    @pytest.mark.parametrize("mode", MODES)
    def test_giving_up_stops_the_run(self, tmp_path: Path, mode: str) -> None:
        with doors(scripted(tmp_path, paced=True)) as opened:

            async def give_up() -> None:
                async with Client(f"{opened.address}/mcp", mode=mode) as client:
                    asking = asyncio.ensure_future(client.call_tool("ask", {"question": "Who?"}))
                    await until(lambda: bool(opened.policy.told))
                    asking.cancel()
                    await asyncio.gather(asking, return_exceptions=True)

            asyncio.run(give_up())
            assert ended(opened.address) == "cancelled"

    @pytest.mark.parametrize("mode", MODES)
    def test_a_question_that_waits_tells_its_position(self, tmp_path: Path, mode: str) -> None:
        lines: list[tuple[float, str | None]] = []

        async def tell(progress: float, _: float | None, message: str | None) -> None:
            lines.append((progress, message))
            if message == "Waiting: 2nd in the queue":
                await asyncio.to_thread(httpx.delete, f"{opened.address}/runs/{second['id']}")
            elif message == "Waiting: 1st in the queue":
                opened.policy.go.set()

        with doors(scripted(tmp_path, paced=True), ServerOptions(runs=1, drain_seconds=2)) as opened:
            _, second = (httpx.post(f"{opened.address}/runs", json={"question": "?"}).json() for _ in "12")
            answer = data(call(opened.address, "ask", {"question": "Who?"}, mode, progress_callback=tell))
        assert answer["answer"] == "48,200 [1]"
        messages = [message for _, message in lines]
        assert messages[:3] == [
            "Waiting: 2nd in the queue",
            "Waiting: 1st in the queue",
            "Searching: ferry passengers",
        ]
        assert [progress for progress, _ in lines] == sorted({progress for progress, _ in lines})

    @pytest.mark.parametrize("mode", MODES)
    def test_giving_up_leaves_the_queue(self, tmp_path: Path, mode: str) -> None:
        with doors(scripted(tmp_path, paced=True), ServerOptions(runs=1, drain_seconds=2)) as opened:
            first = httpx.post(f"{opened.address}/runs", json={"question": "?"}).json()["id"]

            def states() -> list[str]:
                return [run["state"] for run in httpx.get(f"{opened.address}/runs").json()["runs"]]

            async def give_up() -> None:
                async with Client(f"{opened.address}/mcp", mode=mode) as client:
                    asking = asyncio.ensure_future(client.call_tool("ask", {"question": "Who?"}))
                    await until(lambda: states() == ["waiting", "running"])
                    asking.cancel()
                    await asyncio.gather(asking, return_exceptions=True)

            asyncio.run(give_up())
            asyncio.run(until(lambda: states() == ["finished", "running"]))
            assert len(opened.policy.told) == 1
            httpx.delete(f"{opened.address}/runs/{first}")


async def until(there: Callable[[], bool]) -> None:
    for _ in range(3000):
        if there():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came")


def ended(address: str) -> str:
    """Why the only run of a server ended."""
    for _ in range(2000):
        (run,) = httpx.get(f"{address}/runs").json()["runs"]
        if run["state"] == "finished":
            return run["stop_reason"]
        time.sleep(0.01)
    raise AssertionError("the run never ended")


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("search", {}, "query"),
    ("search", {"query": "  "}, "blank"),
    ("search", {"query": "ferry", "top_k": 0}, "top_k"),
    ("search", {"query": "ferry", "k": 3}, "k: There is no such field"),
    ("look", {"item": "../../etc/passwd"}, "does not have a valid form"),
    ("look", {"item": "0" * 16 + "-1"}, "no item"),
    ("look", {"item": FERRY, "max_pixels": 10**12}, "max_pixels"),
    ("crop", {"item": FERRY, "box": [0, 0, 1]}, "box"),
    ("crop", {"item": FERRY, "box": [0.5, 0, 0.5, 1]}, "outside"),
    ("crop", {"item": FERRY, "box": [0, 0, 2, 1]}, "box"),
    ("crop", {"item": FERRY, "box": "the middle"}, "box"),
    ("ask", {"question": ""}, "question"),
    ("ask", {"question": "?", "model": "gpt-9"}, "There is: scripted"),
    ("ask", {"question": "?", "session": "20200101-000000-000000-0000"}, "no conversation"),
    ("ask", {"question": "x" * 9000}, "question"),
    ("run_shell", {"command": "ls"}, "There is no tool 'run_shell'"),
]


class TestErrors:
    @pytest.mark.parametrize(("name", "arguments", "part"), WRONG)
    def test_wrong_arguments_are_errors_in_a_sentence(
        self, served: Doors, name: str, arguments: dict[str, Any], part: str
    ) -> None:
        failed = call(served.address, name, arguments)
        assert failed.is_error
        assert part in told(failed)
        assert "Traceback" not in told(failed)
        assert "pydantic" not in told(failed)

    def test_a_fault_of_the_server_says_nothing_but_an_id(self, tmp_path: Path) -> None:
        class Broken(MemorySearcher):
            def search(self, queries: Any, top_k: int) -> Any:  # noqa: ANN401
                raise RuntimeError("/secret/path")

        with doors(scripted(tmp_path), searcher=Broken((page("a.pdf", 1, "ferry"),))) as opened:
            failed = call(opened.address, "search", {"query": "ferry"})
        assert failed.is_error
        assert "secret" not in told(failed)

    def test_an_error_with_a_path_is_in_the_log_in_words_and_has_an_id_in_the_reply(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Broken(MemorySearcher):
            def search(self, queries: Any, top_k: int) -> Any:  # noqa: ANN401
                raise CollectionError("/secret/path is damaged.")

        with doors(scripted(tmp_path), searcher=Broken((page("a.pdf", 1, "ferry"),))) as opened:
            failed = call(opened.address, "search", {"query": "ferry"})
        assert failed.is_error
        assert told(failed).startswith("The server cannot handle this call at the moment.")
        assert "secret" not in told(failed)
        [record] = [each for each in caplog.records if "/secret/path is damaged." in each.getMessage()]
        assert record.exc_info is None

    def test_a_full_queue_is_told(self, tmp_path: Path) -> None:
        options = ServerOptions(client_runs=1, client_waiting_runs=0)
        with doors(scripted(tmp_path, paced=True), options) as opened:
            httpx.post(f"{opened.address}/runs", json={"question": "?"})
            failed = call(opened.address, "ask", {"question": "Who?"})
            opened.policy.go.set()
        assert failed.is_error
        assert told(failed).startswith("Your part of the queue is full: the limit is 0. Wait for one")


class TestHttp:
    def test_without_the_token_nothing_answers(self, tmp_path: Path) -> None:
        with doors(scripted(tmp_path), ServerOptions(token="right")) as opened:
            url = f"{opened.address}/mcp"
            assert httpx.post(url, json={}).status_code == 401

            async def listed(token: str) -> int:
                headers = {"Authorization": f"Bearer {token}"}
                async with (
                    create_mcp_http_client(headers=headers) as http,
                    Client(streamable_http_client(url, http_client=http)) as client,
                ):
                    return len((await client.list_tools()).tools)

            assert asyncio.run(listed("right")) == 5
            with pytest.raises(BaseException):  # noqa: B017, PT011 - the SDK's own, in a group
                asyncio.run(listed("wrong"))

    def test_pages_of_other_sites_and_other_names_are_kept_out(self, served: Doors) -> None:
        url = f"{served.address}/mcp"
        assert httpx.post(url, json={}, headers={"Origin": "http://evil.example"}).status_code == 403
        assert httpx.post(url, json={}, headers={"Host": "evil.example"}).status_code == 403

    def test_there_is_nothing_to_listen_to(self, served: Doors) -> None:
        for method in ("GET", "DELETE"):
            response = httpx.request(method, f"{served.address}/mcp")
            assert (response.status_code, response.headers["allow"]) == (405, "POST")

    @pytest.mark.parametrize(
        "body", [b"", b"{", b"[]", b'{"jsonrpc": "2.0"}', b'{"jsonrpc": "2.0", "id": {}}']
    )
    def test_what_is_no_message_is_refused(self, served: Doors, body: bytes) -> None:
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        assert 400 <= httpx.post(f"{served.address}/mcp", content=body, headers=headers).status_code < 500

    def test_questions_are_counted_as_such_and_searches_as_requests(self, tmp_path: Path) -> None:
        options = ServerOptions(runs_per_minute=2, limit_local=True)
        with doors(scripted(tmp_path), options) as opened:
            asked = [call(opened.address, "ask", {"question": "How many passengers?"}) for _ in range(3)]
            assert not call(opened.address, "search", {"query": "ferry"}).is_error
        assert [one.is_error for one in asked] == [False, False, True]
        assert "more than 2 runs a minute. Try again in" in told(asked[2])

    def test_an_oversized_message_is_refused(self, tmp_path: Path) -> None:
        with doors(scripted(tmp_path), ServerOptions(body_bytes=1000)) as opened:
            headers = {"Accept": "application/json, text/event-stream"}
            response = httpx.post(f"{opened.address}/mcp", json={"x": "y" * 2000}, headers=headers)
        assert response.status_code == 413

    def test_without_the_sdk_the_server_runs_and_says_what_to_install(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delitem(sys.modules, "vrag.server.mcp_sdk", raising=False)
        monkeypatch.setitem(sys.modules, "mcp.server.lowlevel.server", None)
        with doors(scripted(tmp_path)) as opened:
            assert httpx.get(f"{opened.address}/healthz").status_code == 200
            response = httpx.post(f"{opened.address}/mcp", json={})
        assert response.status_code == 501
        assert "vrag-agent[mcp]" in response.json()["hint"]

    def test_the_sdk_is_loaded_at_the_first_request(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delitem(sys.modules, "vrag.server.mcp_sdk", raising=False)
        with doors(scripted(tmp_path)) as opened:
            assert httpx.get(f"{opened.address}/mcp").status_code == 405
            assert "vrag.server.mcp_sdk" not in sys.modules
            httpx.post(f"{opened.address}/mcp", json={})
            assert "vrag.server.mcp_sdk" in sys.modules

    def test_an_sdk_that_cannot_be_loaded_is_an_error_of_the_request(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail() -> None:
            raise ImportError("damaged")

        monkeypatch.setattr("vrag.server.mcp_transport._sdk", fail)
        with doors(scripted(tmp_path)) as opened:
            assert [httpx.post(f"{opened.address}/mcp", json={}).status_code for _ in range(2)] == [500, 500]


ABOUT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
OPENING = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ABOUT},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(home), "VRAG_OCR": "false"}


@asynccontextmanager
async def piped(
    directory: Path, mode: str = "auto", collection: Collection | None = None
) -> AsyncGenerator[Client]:
    """A client of `vrag mcp` in a process of its own, over a collection on disk."""
    collection = collection or stored(directory).collection
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "vrag", "mcp", "--collection", collection.address],
        env=environment(directory),
    )
    async with Client(program, mode=mode) as client:
        yield client


def with_pipes(
    directory: Path, work: Callable[[Client], Coroutine[Any, Any, None]], mode: str = "auto"
) -> None:
    async def run() -> None:
        async with piped(directory, mode) as client:
            await work(client)

    asyncio.run(run())


@pytest.mark.slow
class TestStdio:
    @pytest.mark.parametrize("mode", MODES)
    def test_all_tools_work_and_what_lies_outside_of_the_collection_stays_there(
        self, tmp_path: Path, mode: str
    ) -> None:
        async def work(client: Client) -> None:
            assert len((await client.list_tools()).tools) == 5
            found = data(await client.call_tool("search", {"query": "ferry prices", "top_k": 3}))["hits"]
            assert {hit["document"] for hit in found} >= {"scan.pdf"}
            shown = await client.call_tool("look", {"item": id_of("scan.pdf")})
            assert pictures(shown)[0].size == (400, 300)
            part = await client.call_tool("crop", {"item": id_of("chart.png"), "box": [0, 0, 0.5, 0.5]})
            assert pictures(part)[0].size == (200, 150)
            answer = data(await client.call_tool("ask", {"question": "When does the ferry sail?"}))
            assert answer["run"]
            assert data(await client.call_tool("conflicts", {}))["documents"] > 0
            await assert_nothing_leads_outside(client)

        async def assert_nothing_leads_outside(client: Client) -> None:
            for name in ("away.pdf", "root.pdf", "link.pdf", "folder.pdf", "gone.pdf", "torn.pdf"):
                failed = await client.call_tool("look", {"item": id_of(name)})
                assert failed.is_error
                assert str(tmp_path) not in told(failed)

        with_pipes(tmp_path, work, mode)

    def test_only_collections_that_are_named_are_searched(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not those that a server created beside them, and none of other settings."""
        named = stored(tmp_path).collection
        CollectionRegistry.open(Settings(collection=named.address, workers=1)).create("created")
        for variable, value in {
            "COLLECTION": str(tmp_path / "created"),
            "COLLECTIONS": str(tmp_path / "created"),
            "SEARCH_URL": "http://127.0.0.1:9/search",
        }.items():
            monkeypatch.setenv(f"VRAG_{variable}", value)

        async def run() -> None:
            async with piped(tmp_path, collection=named) as client:
                found = data(await client.call_tool("search", {"query": "ferry prices"}))["hits"]
                assert {hit["document"] for hit in found} >= {"scan.pdf"}
                schema = next(tool for tool in (await client.list_tools()).tools if tool.name == "search")
                assert "created" not in json.dumps(schema.model_dump(mode="json"))
                wrong = await client.call_tool("search", {"query": "ferry", "collection": "created"})
                assert wrong.is_error

        asyncio.run(run())

    def test_nothing_but_the_protocol_is_printed_and_it_ends_with_its_input(self, tmp_path: Path) -> None:
        collection = stored(tmp_path).collection
        lines = [*OPENING, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}]
        program = [sys.executable, "-m", "vrag", "mcp", "--collection", collection.address]
        with subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(tmp_path)
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(
                b"no message\n" + b"".join(json.dumps(line).encode() + b"\n" for line in lines)
            )
            process.stdin.flush()
            said: list[dict[str, Any]] = []
            while not any(message.get("id") == 2 for message in said):
                said.append(json.loads(process.stdout.readline()))
            process.stdin.close()
            rest = process.stdout.read()
            assert process.wait(300) == 0
        assert rest == b""
        assert all(message["jsonrpc"] == "2.0" for message in said)

    @pytest.mark.skipif(os.name != "posix", reason="there are no such signals here")
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_it_and_the_question_under_way(self, tmp_path: Path, number: int) -> None:
        collection = stored(tmp_path).collection
        silent = socket.create_server(("127.0.0.1", 0))
        model = {"VRAG_MODEL": "qwen3-vl", "VRAG_BASE_URL": f"http://127.0.0.1:{silent.getsockname()[1]}/v1"}
        asking = {"name": "ask", "arguments": {"question": "When does the ferry sail?"}}
        lines = [*OPENING, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asking}]
        program = [sys.executable, "-m", "vrag", "mcp", "--collection", collection.address]
        with (
            silent,
            subprocess.Popen(
                program,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment(tmp_path) | model,
            ) as process,
        ):
            assert process.stdin is not None
            process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            process.stdin.flush()
            silent.settimeout(600)
            with silent.accept()[0] as connection:  # what weights it serves
                connection.recv(4096)
            with silent.accept()[0]:  # the question
                process.send_signal(number)
                assert process.wait(300) == 128 + number, "its input is still open"
        [run] = RunStore(collection.runs_dir).ids()
        assert RunStore(collection.runs_dir).outline(run).stop_reason is StopReason.CANCELLED

    def test_its_help_shows_a_configuration_that_starts_it(self, tmp_path: Path) -> None:
        program = [sys.executable, "-m", "vrag", "mcp", "--help"]
        shown = subprocess.run(program, capture_output=True, text=True, check=True).stdout
        configuration = json.loads(shown[shown.index("{") : shown.rindex("}}}") + 3])
        server = configuration["mcpServers"]["vrag"]
        assert (server["command"], server["args"][0]) == ("vrag", "mcp")
        program[-1] = "--help-all"
        shown = subprocess.run(program, capture_output=True, text=True, check=True).stdout
        assert "vrag-agent[mcp]" in shown

    def test_without_a_collection_it_says_so_and_prints_nothing(self, tmp_path: Path) -> None:
        program = [sys.executable, "-m", "vrag", "mcp", "--collection", str(tmp_path / "none")]
        done = subprocess.run(
            program, capture_output=True, text=True, env=environment(tmp_path), input="", check=False
        )
        assert done.returncode in {1, 2}
        assert done.stdout == ""
        assert "none" in done.stderr
        assert "Traceback" not in done.stderr
