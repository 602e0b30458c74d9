"""The memory graph: what may be done to it, and that it has no circles whatever is done."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from vrag.agent.memory.memory_graph import ROOT, Graph, Node, NodeKind, RememberedItem
from vrag.agent.replies.tool_calls import AnswerNode, Call, CropNode, Memorize, Note, SearchNode, ToolNode

PICTURE = RememberedItem(label="Picture 1", item="p1", position=1)
USELESS = RememberedItem(label="Picture 2", item="p2", position=2, useful=False, priority=0)


def searched(graph: Graph, name: str, *parents: str, memory: tuple[RememberedItem, ...] = ()) -> Graph:
    """With a search that is summarised."""
    query = f"query of {name}"
    return graph.add(id=name, kind=NodeKind.SEARCH, parents=parents or (ROOT,), query=query).complete(
        f"summary of {name}", memory
    )


def diamond() -> Graph:
    """root → a → (b, c) → d, and root → e."""
    graph = searched(Graph.of("When?"), "a", memory=(PICTURE, USELESS))
    graph = searched(searched(graph, "b", "a"), "c", "a")
    return searched(searched(graph, "d", "b", "c"), "e")


def test_a_graph_begins_with_the_question() -> None:
    graph = Graph.of("When?")
    assert graph.nodes == (Node(id="root", kind=NodeKind.ROOT, query="When?", summary="", order=0),)
    assert graph.pending is None
    assert not graph.answered


def test_a_change_gives_another_graph_and_leaves_the_first() -> None:
    before = Graph.of("When?")
    after = before.add(id="a", kind=NodeKind.SEARCH, parents=(ROOT,), query="q")
    assert len(before.nodes) == 1
    assert after.pending == after.newest == after.node("a")
    done = after.complete("found", (PICTURE,))
    assert after.pending is not None
    assert done.pending is None
    assert done.node("a").memory == (PICTURE,)


def test_relatives_come_in_the_order_of_creation() -> None:
    graph = diamond()
    assert [node.id for node in graph.children("a")] == ["b", "c"]
    assert [node.id for node in graph.ancestors(("d",))] == ["root", "a", "b", "c", "d"]
    assert [node.id for node in graph.ancestors(("e", "b"))] == ["root", "a", "b", "e"]
    assert graph.ancestors(()) == ()


def test_an_answer_ends_the_run() -> None:
    graph = diamond().answer(("d", "e"), "In 1990")
    assert graph.newest == Node(
        id="answer", kind=NodeKind.ANSWER, parents=("d", "e"), query="In 1990", summary="", order=6
    )
    assert graph.answered
    for call in [
        SearchNode("f", (ROOT,), "more"),
        AnswerNode((ROOT,), "no"),
        CropNode("f", ("a",), "Picture 1", (0, 0, 1, 1)),
        Memorize("more"),
    ]:
        assert graph.fault_of(call) == "The answer has been given; nothing can follow it."


def test_an_answer_has_a_name_of_its_own() -> None:
    graph = searched(searched(Graph.of("?"), "answer"), "answer_2").answer((ROOT,), "yes")
    assert graph.newest.id == "answer_3"


def test_an_answer_from_fresh_results_completes_the_pending_node_even_if_it_does_not_name_it() -> None:
    graph = diamond().add(id="f", kind=NodeKind.SEARCH, parents=("a",), query="new")
    for parents in [("f",), (ROOT,)]:
        assert graph.fault_of(AnswerNode(parents, "yes")) is None
        ended = graph.answer(parents, "yes", (replace(PICTURE, reviewed=False),))
        assert ended.pending is None
        assert [memo.reviewed for memo in ended.node("f").memory] == [False]
        assert ended.newest.kind is NodeKind.ANSWER


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (SearchNode("f", ("x",), "new"), "There is no node 'x'; the nodes are root, a, b, c, d, e."),
        (SearchNode("a", (ROOT,), "new"), "There is a node a already; give the new one an id of its own."),
        (
            SearchNode("f", (ROOT,), "Query, of: (A)!  a"),
            "Node a has searched for that already: ask for something else, or answer.",
        ),
        (
            Memorize("s"),
            "No results are waiting to be summarised; search first, or answer.",
        ),
        (AnswerNode(("x", "d"), "yes"), "There is no node 'x'; the nodes are root, a, b, c, d, e."),
        (
            CropNode("f", ("a", "b"), "Picture 2", (0, 0, 1, 1)),
            "No parent remembers Picture 2; the parents named remember Picture 1 of a.",
        ),
        (
            CropNode("f", ("b",), "Picture 1", (0, 0, 1, 1)),
            "No parent remembers Picture 1; the parents named remember nothing.",
        ),
        (ToolNode("f", ("y",), "next_page", "2"), "There is no node 'y'; the nodes are root, a, b, c, d, e."),
    ],
)
def test_faults_of_calls_are_sentences_that_name_what_is_there(call: Call, reason: str) -> None:
    assert diamond().fault_of(call) == reason


@pytest.mark.parametrize(
    "call",
    [
        SearchNode("f", ("d", "e"), "query of f"),
        SearchNode("f", (ROOT,), "When?"),
        AnswerNode(("d",), "yes"),
        CropNode("f", ("b", "a"), "Picture 1", (0, 0, 1, 1)),
        ToolNode("f", ("a",), "next_page", "query of a"),
    ],
)
def test_calls_that_fit_have_no_fault(call: Call) -> None:
    assert diamond().fault_of(call) is None


@pytest.mark.parametrize(
    "call",
    [
        SearchNode("f", (ROOT,), "new"),
        CropNode("f", ("a",), "Picture 1", (0, 0, 1, 1)),
        ToolNode("f", (ROOT,), "next_page", "2"),
    ],
)
def test_no_second_node_before_the_first_is_summarised(call: Call) -> None:
    graph = diamond().add(id="p", kind=NodeKind.SEARCH, parents=(ROOT,), query="new")
    assert graph.fault_of(call) == (
        "Node p has not been summarised: call summarize_and_memorize for its results first, or answer."
    )


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ([], "memorize must have an entry for every result; Text 1, Picture 1, Video 1 is missing."),
        (["Text 1", "Video 1"], "memorize must have an entry for every result; Picture 1 is missing."),
        (
            ["Text 1", "Picture 1", "Video 1", "Picture 2"],
            "p returned no Picture 2; the results are Text 1, Picture 1, Video 1.",
        ),
        (["Video 1", "Picture 1", "Text 1"], None),
    ],
)
def test_a_review_names_every_result_and_no_other(named: list[str], reason: str | None) -> None:
    graph = diamond().add(id="p", kind=NodeKind.SEARCH, parents=(ROOT,), query="new")
    call = Memorize("s", tuple(Note(label, useful=False) for label in named))
    assert graph.fault_of(call, ["Text 1", "Picture 1", "Video 1"]) == reason


def test_nothing_found_is_reviewed_with_nothing() -> None:
    graph = Graph.of("?").add(id="p", kind=NodeKind.SEARCH, parents=(ROOT,), query="new")
    assert graph.fault_of(Memorize("Nothing was relevant.")) is None
    assert graph.fault_of(Memorize("s", (Note("Text 1", useful=False),))) == (
        "p returned no Text 1; nothing was returned."
    )


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("fare of 2023", "FARE of, 2023!", True),
        ("fare of 2023", "of 2023 fare fare", True),
        ("fare of 2023", "２０２３ fare of", True),
        ("fare of 2023", "fare of 2022", False),
        ("fare of 2023", "the fare of 2023", False),
        ("?!", "?!", True),
        ("?!", "!!", False),
        ("收入 增长", "增长 收入", True),
    ],
)
def test_queries_are_the_same_when_their_words_are(first: str, second: str, same: bool) -> None:
    graph = Graph.of("?").add(id="a", kind=NodeKind.SEARCH, parents=(ROOT,), query=first).complete("s")
    assert (graph.fault_of(SearchNode("b", (ROOT,), second)) is not None) is same


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"parents": ()}, "Name at least one parent"),
        ({"parents": ("a", "a")}, "every parent once"),
        ({"parents": ("b",)}, "no node 'b'"),
        ({"id": ""}, "cannot be the id"),
        ({"id": " x"}, "cannot be the id"),
        ({"id": "x\ny"}, "cannot be the id"),
        ({"id": "a"}, "is a node a already"),
        ({"id": "root"}, "is a node root already"),
    ],
)
def test_what_does_not_fit_is_not_added(changes: dict[str, Any], reason: str) -> None:
    graph = searched(Graph.of("?"), "a")
    wanted: dict[str, Any] = {"id": "n", "kind": NodeKind.SEARCH, "parents": ("a",), "query": "new"} | changes
    with pytest.raises(ValueError, match=reason):
        graph.add(**wanted)


def test_only_what_is_there_can_be_completed_answered_and_looked_up() -> None:
    graph = diamond()
    with pytest.raises(ValueError, match="No results are waiting"):
        graph.complete("s")
    with pytest.raises(ValueError, match="no node 'x'"):
        graph.answer(("x",), "yes")
    with pytest.raises(ValueError, match="no node 'x'"):
        graph.node("x")


def test_a_label_means_what_the_first_parent_named_remembers_by_it() -> None:
    other = replace(PICTURE, item="p9")
    graph = searched(diamond(), "f", memory=(other,))
    assert graph.remembered(("a", "f"), "Picture 1") == (graph.node("a"), PICTURE)
    assert graph.remembered(("f", "a"), "Picture 1") == (graph.node("f"), other)


def test_the_text_of_a_graph_is_compact_and_says_what_is_open() -> None:
    graph = searched(Graph.of("Wann?"), "früh", memory=(PICTURE, USELESS))
    graph = graph.add(id="n", kind=NodeKind.TOOL, parents=("früh",), query="2", tool="next_page")
    assert graph.as_json() == (
        '[{"id":"root","kind":"root","query":"Wann?"},\n'
        '{"id":"früh","kind":"search","parents":["root"],"query":"query of früh",'
        '"summary":"summary of früh","remembered":["Picture 1"]},\n'
        '{"id":"n","kind":"tool","parents":["früh"],"query":"2","tool":"next_page","summary":null}]'
    )
    assert [node["id"] for node in json.loads(graph.as_json())] == ["root", "früh", "n"]


def test_a_stored_graph_is_read_back_and_a_damaged_one_refused() -> None:
    adapter = TypeAdapter(Graph)
    stored = adapter.dump_json(diamond())
    assert adapter.validate_json(stored) == diamond()
    with pytest.raises(ValidationError, match="does not stand where it may"):
        adapter.validate_json(stored.replace(b'"parents":["b","c"]', b'"parents":["e"]'))
    with pytest.raises(ValidationError, match="does not stand where it may"):
        adapter.validate_json(stored.replace(b'"id":"e"', b'"id":"d"'))


names = st.sampled_from(["root", "a", "b", "c", "d", "e", "f", "answer", "x y"])
parent_lists = st.lists(names, max_size=3).map(tuple)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), names, parent_lists, st.sampled_from(["p", "q", "r s", "s r", "t"])),
        st.tuples(st.just("complete")),
        st.tuples(st.just("answer"), parent_lists),
    ),
    max_size=25,
)


@given(steps)
def test_no_script_of_actions_makes_a_circle_or_two_open_nodes(script: list[tuple[Any, ...]]) -> None:
    graph = Graph.of("?")
    for step in script:
        try:
            match step:
                case ("add", name, parents, query):
                    graph = graph.add(id=name, kind=NodeKind.SEARCH, parents=parents, query=query)
                case ("answer", parents):
                    graph = graph.answer(parents, "yes")
                case _:
                    graph = graph.complete("s")
        except ValueError as error:
            assert str(error).endswith(".")  # noqa: PT017 - most scripts hold faults; each must be a sentence
        assert_sound(graph)


def assert_sound(graph: Graph) -> None:
    """Kahn's algorithm takes every node away; one root, one open node and one final answer at most."""
    left = {node.id: set(node.parents) for node in graph.nodes}
    assert len(left) == len(graph.nodes)
    while free := [name for name, parents in left.items() if not parents & left.keys()]:
        for name in free:
            del left[name]
    assert not left
    assert [node.id for node in graph.nodes if not node.parents] == ["root"]
    assert sum(node.pending for node in graph.nodes) <= 1
    assert all(node.kind is not NodeKind.ANSWER for node in graph.nodes[:-1])
    assert json.loads(graph.as_json())


@given(steps)
def test_a_call_has_a_fault_exactly_when_it_cannot_be_carried_out(script: list[tuple[Any, ...]]) -> None:
    graph = Graph.of("?")
    for step in script:
        match step:
            case ("add", name, parents, query) if name not in {"root", "x y"}:
                try:
                    call = SearchNode(name, parents, query)
                except ValueError:
                    continue
                fault = graph.fault_of(call)
                try:
                    graph = graph.add(id=name, kind=NodeKind.SEARCH, parents=parents, query=query)
                except ValueError as error:
                    assert fault == str(error)  # noqa: PT017
                else:
                    assert fault is None
            case ("complete",) if graph.fault_of(Memorize("s")) is None:
                graph = graph.complete("s")
            case _:
                pass
