"""A custom tool sees the documents that were chosen and no others, by whichever interface it is asked."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from agent_scripts import WAYS, Way, way_name
from server_harness import serving
from test_collection_registry import collection
from typer.testing import CliRunner

import vrag
from vrag.agent.agent import Agent
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import ActionReturned, Event, InvalidAction, PassageShown
from vrag.agent.tool_plugins import ListDocuments, ToolContext, ToolPlugin, ToolResult, load_tools
from vrag.cli.root import create_app
from vrag.errors import ActionError, OutOfScopeError, SearchError
from vrag.factory.collection_registry import CollectionRegistry
from vrag.factory.server import Agents
from vrag.geometry import Size, View
from vrag.model_profiles import PROFILES
from vrag.search.searcher import ScopedSearcher, list_documents
from vrag.server.app import Service
from vrag.server.runs.schema import AgentSelection
from vrag.settings import Settings
from vrag.testing import MemorySearcher, ScriptedPolicy, page, tiny_corpus
from vrag.types import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

SECRET = "Tariff of the Harbour, 2023 (final).PDF"
INSIDE = page("ferry.pdf", 1, "ferry passengers")
OUTSIDE = page(SECRET, 1, "ferry tariffs")
CORPUS = MemorySearcher((INSIDE, OUTSIDE))
REFUSED = f"{SECRET} is not among the documents that this question may look at."


@dataclass
class Prying:
    """Asks for everything, and notes what it is given."""

    name: str = "prying"
    usage: str = "Looks into everything."
    seen: list[ToolContext] = field(default_factory=list["ToolContext"])
    found: list[list[str]] = field(default_factory=list["list[str]"])
    listed: list[list[str]] = field(default_factory=list["list[str]"])

    def run(self, text: str, context: ToolContext) -> ToolResult:
        self.seen.append(context)
        hits = context.searcher.search([Query("whales ferry")], 50)[0]
        self.found.append(sorted(hit.document_name for hit in hits))
        self.listed.append(list(context.list_documents().values()))
        return ToolResult(items=tuple(hit.item for hit in hits), texts=("seen",))


@dataclass
class Doing:
    """Does one thing with the searcher of its context."""

    do: Callable[[ToolContext], Any]
    name: str = "prying"
    usage: str = "Looks into everything."

    def run(self, text: str, context: ToolContext) -> ToolResult:
        self.do(context)
        return ToolResult(texts=("It was given.",))


def run_tool(way: Way, tool: ToolPlugin, *, documents: frozenset[str] | None) -> list[Event]:
    options = EnvironmentOptions(documents=documents)
    where = Environment(CORPUS, PROFILES["qwen2.5-vl"], options, {"prying": tool})
    policy = ScriptedPolicy((way.extend("prying", "it"), way.answer("12")))
    return list(Agent(policy, where, way.method).stream("?"))


WHOLE = View.whole(OUTSIDE.size or Size(1, 1), Size(56, 56))


OPENINGS: dict[str, Callable[[ToolContext], object]] = {
    "item": lambda context: context.searcher.item(OUTSIDE.id),
    "image": lambda context: context.searcher.image(OUTSIDE.id),
    "frames": lambda context: context.searcher.frames(OUTSIDE.id, fps=1, most=1),
    "part": lambda context: context.searcher.part(OUTSIDE.id, WHOLE),
}


@pytest.mark.parametrize("way", WAYS, ids=way_name)
@pytest.mark.parametrize("what", OPENINGS)
def test_what_a_tool_asks_for_outside_of_its_scope_is_refused_by_name(way: Way, what: str) -> None:
    events = run_tool(way, Doing(OPENINGS[what]), documents=frozenset({INSIDE.document}))
    reasons = [event.reason for event in events if isinstance(event, InvalidAction)]
    assert reasons == [f"Prying failed: {REFUSED}"]


@pytest.mark.parametrize("way", WAYS, ids=way_name)
def test_a_search_for_other_documents_is_refused(way: Way) -> None:
    query = Query("ferry", documents=frozenset({INSIDE.document, OUTSIDE.document}))

    def do(context: ToolContext) -> object:
        return context.searcher.search([query], 5)

    events = run_tool(way, Doing(do), documents=frozenset({INSIDE.document}))
    (reason,) = [event.reason for event in events if isinstance(event, InvalidAction)]
    assert "1 of the 2 documents to search are not among those" in reason
    assert not [event for event in run_tool(way, Doing(do), documents=None) if event.type == "invalid_action"]


@pytest.mark.parametrize("way", WAYS, ids=way_name)
def test_what_a_tool_returns_from_outside_is_not_shown_and_told(way: Way) -> None:
    class Both(Prying):
        def run(self, text: str, context: ToolContext) -> ToolResult:
            return ToolResult(items=(INSIDE.id, OUTSIDE.id))

    events = run_tool(way, Both(), documents=frozenset({INSIDE.document}))
    (returned,) = [event for event in events if isinstance(event, ActionReturned)]
    assert (returned.items, returned.damaged) == ((INSIDE.id,), (REFUSED,))
    assert {event.document for event in events if event.type == "image_shown"} == {"ferry.pdf"}


@pytest.mark.parametrize("way", WAYS, ids=way_name)
def test_a_tool_that_returns_nothing_else_is_refused(way: Way) -> None:
    class Other(Prying):
        def run(self, text: str, context: ToolContext) -> ToolResult:
            return ToolResult(items=(OUTSIDE.id,))

    events = run_tool(way, Other(), documents=frozenset({INSIDE.document}))
    assert [event.reason for event in events if isinstance(event, InvalidAction)] == [REFUSED]
    assert not [event for event in events if event.type == "image_shown"]


def test_a_searcher_that_finds_more_than_it_is_asked_for_is_narrowed() -> None:
    class Broad(MemorySearcher):
        def search(self, queries: Any, top_k: int) -> Any:  # noqa: ANN401
            return MemorySearcher.search(self, [Query(query.text) for query in queries], top_k)

    scoped = ScopedSearcher(Broad(CORPUS.items), frozenset({INSIDE.document}))
    assert [hit.document_name for hit in scoped.search([Query("ferry")], 5)[0]] == ["ferry.pdf"]


def test_a_server_that_does_not_list_its_documents_says_so() -> None:
    with pytest.raises(SearchError, match="does not list its documents"):
        list_documents(object())


# Documents by name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("all", f"2 of 2 documents:\n{SECRET}\nferry.pdf"),
        ("TARIFF 2023", f"1 of 2 documents:\n{SECRET}"),
        ("winter", "0 of 2 documents have such a name."),
    ],
)
def test_documents_are_listed_by_name_in_their_own_spelling(text: str, told: str) -> None:
    context = ToolContext(ScopedSearcher(CORPUS), (), None)
    assert ListDocuments().run(text, context).texts == (told,)


def test_a_long_list_of_documents_is_told_to_be_narrowed() -> None:
    many = MemorySearcher(tuple(page(f"{number:03}.pdf", 1, "x") for number in range(150)))
    (text,) = ListDocuments().run("all", ToolContext(ScopedSearcher(many), (), None)).texts
    assert text.endswith("099.pdf\nand 50 more: write words of their names")


@pytest.mark.parametrize("way", WAYS, ids=way_name)
def test_an_agent_lists_the_documents_in_scope(way: Way) -> None:
    options = EnvironmentOptions(documents=frozenset({OUTSIDE.document}))
    where = Environment(CORPUS, PROFILES["qwen2.5-vl"], options, load_tools(["list_documents"]))
    policy = ScriptedPolicy((way.extend("list_documents", "all"), way.answer("12")))
    events = list(Agent(policy, where, way.method).stream("?"))
    (returned,) = [event for event in events if isinstance(event, ActionReturned)]
    assert returned.texts == (f"1 of 1 documents:\n{SECRET}",)


def test_an_installed_tool_cannot_bear_the_name_of_a_built_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "taken-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Name: taken\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[vrag.actions]\nlist_documents = test_tool_scope:Prying\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ActionError, match="invalid name or usage"):
        load_tools(["list_documents"])


# Each interface


@dataclass
class Shelves:
    """Two collections that are searched together, and a tool that looks into everything."""

    agents: Agents
    tool: Prying

    @property
    def documents(self) -> dict[str, str]:
        """Ids of the documents by their names."""
        return {name: id for id, name in list_documents(self.agents.registry).items()}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scopes")
    for name in ("first", "second"):
        collection(folder / "shelves" / name, f"whales sing in {name}", f"ferries sail in {name}")
    return folder


@pytest.fixture
def shelves(places: Path, monkeypatch: pytest.MonkeyPatch) -> Shelves:
    tool = Prying()
    replies = ("<think>x</think><prying>it</prying>", "<think>x</think><answer>12</answer>")

    def load(_: object) -> dict[str, ToolPlugin]:
        return {"prying": tool}

    def open_policy(*_: object) -> ScriptedPolicy:
        return ScriptedPolicy(replies)

    monkeypatch.setattr("vrag.factory.agents.load_tools", load)
    monkeypatch.setattr("vrag.factory.agents.open_policy", open_policy)
    addresses = tuple(str(places / "shelves" / name) for name in ("first", "second"))
    settings = Settings(collections=addresses, workers=1)
    return Shelves(Agents(settings, CollectionRegistry.open(settings)), tool)


def expect_scope(shelves: Shelves, *names: str) -> None:
    """What the tool was given is what these documents hold."""
    assert shelves.tool.found
    for found, listed in zip(shelves.tool.found, shelves.tool.listed, strict=True):
        assert found
        assert set(found) <= set(names)
        assert listed == sorted(names)


@contextmanager
def serve(shelves: Shelves) -> Generator[httpx.Client]:
    service = Service(shelves.agents, shelves.agents.registry)
    with (
        serving(shelves.agents.registry, service=service) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        yield client


FIRST = ("first-0.md", "first-1.md")


def test_by_default_a_tool_sees_all_collections(shelves: Shelves) -> None:
    shelves.agents.agent(AgentSelection()).run("?")
    expect_scope(shelves, *FIRST, "second-0.md", "second-1.md")
    assert shelves.tool.seen[0].collections is None


def test_items_of_a_collection_that_was_not_chosen_are_refused(shelves: Shelves) -> None:
    shelves.agents.agent(AgentSelection(collection="first", user="ann")).run("?")
    context = shelves.tool.seen[0]
    assert (context.collections, context.documents, context.user) == (frozenset({"first"}), None, "ann")
    other = shelves.agents.registry.search([Query("whales", corpora=frozenset({"second"}))], 1)[0][0]
    for ask in (context.searcher.item, context.searcher.image):
        with pytest.raises(OutOfScopeError, match=r"second-0\.md is not among the documents"):
            ask(other.item)
    with pytest.raises(OutOfScopeError, match="'second' is not the one that is asked"):
        context.searcher.search([Query("whales", corpora=frozenset({"second"}))], 1)


@pytest.mark.parametrize("agent", ["vrag", "react"])
def test_a_run_on_the_page_keeps_a_tool_in_the_collection(shelves: Shelves, agent: str) -> None:
    with serve(shelves) as client:
        asked = {"question": "What sings?", "collection": "first", "agent": agent}
        run = client.post("/runs", json=asked).raise_for_status().json()["id"]
        events = client.get(f"/runs/{run}/events").raise_for_status().text
    expect_scope(shelves, *FIRST)
    assert "first-0.md" in events
    assert "second-" not in events


def test_a_run_on_the_page_keeps_a_tool_among_the_documents(shelves: Shelves) -> None:
    with serve(shelves) as client:
        asked = {"question": "What sings?", "documents": [shelves.documents["second-1.md"]]}
        run = client.post("/runs", json=asked).raise_for_status().json()["id"]
        assert "second-0.md" not in client.get(f"/runs/{run}/events").raise_for_status().text
    expect_scope(shelves, "second-1.md")


def test_openai_clients_keep_a_tool_in_the_collection(shelves: Shelves) -> None:
    with serve(shelves) as client:
        messages = [{"role": "user", "content": "What sings?"}]
        asked = {"model": "vrag", "messages": messages, "vrag": {"collection": "first"}}
        client.post("/v1/chat/completions", json=asked).raise_for_status()
    expect_scope(shelves, *FIRST)


def test_mcp_clients_keep_a_tool_in_the_collection(shelves: Shelves) -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    arguments = {"question": "What sings?", "collection": "first"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    with serve(shelves) as client:
        accepted = {"Accept": "application/json, text/event-stream"}
        asked = call | {"params": {"name": "ask", "arguments": arguments}}
        client.post("/mcp", json=asked, headers=accepted).raise_for_status()
    expect_scope(shelves, *FIRST)


def test_in_python_a_tool_stays_among_the_documents_of_the_session(
    shelves: Shelves, places: Path, tmp_path: Path
) -> None:
    session = vrag.open(places / "sources-first", collection=tmp_path / "mine")
    (chosen,) = (id for id, name in list_documents(session.searcher).items() if name == "first-1.md")
    session.agent(frozenset({chosen})).run("?")
    expect_scope(shelves, "first-1.md")


def test_in_the_terminal_a_tool_stays_among_the_documents_that_are_named(
    shelves: Shelves, places: Path, tmp_path: Path
) -> None:
    mine, sources = ["--collection", str(tmp_path / "mine")], places / "sources-first"
    run = CliRunner().invoke
    added = run(create_app(), ["index", "add", str(sources), *mine])
    assert added.exit_code == 0, added.output
    done = run(create_app(), ["ask", "What sails?", "--docs", str(sources / "first-1.md"), *mine])
    assert done.exit_code == 0, done.output
    expect_scope(shelves, "first-1.md")


def test_passages_of_a_tool_are_shown_in_scope_alone(shelves: Shelves) -> None:
    agent = shelves.agents.agent(AgentSelection(collection="second"))
    shown = [event.document for event in agent.stream("?") if isinstance(event, PassageShown)]
    assert shown
    assert all(name.startswith("second") for name in shown)


def test_the_example_corpus_lists_its_documents() -> None:
    assert list(list_documents(tiny_corpus()).values()) == ["ferry.pdf", "notes.md"]
