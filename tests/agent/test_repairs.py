"""Replies that break the grammar: what is repaired, and that nothing else is read otherwise."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from agent_scripts import answers, enlarges, environment, events_of, memorizes, note, of, searches
from hypothesis import given
from hypothesis import strategies as st
from thread_time import at_most
from vimrag_runs import KEEP, METHOD, SEARCH, end_of, graph_of

from vrag.agent.actions import Answer, Crop, Flag, Invalid, Search, Turn, parse, render
from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.events import (
    ImageShown,
    InvalidAction,
    MemoryUpdated,
    ModelCalled,
    SearchRequested,
    StopReason,
    event_from_json,
)
from vrag.agent.memory.memory_graph import Graph, NodeKind
from vrag.agent.methods.baselines import Rag, React
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.replies.call_parser import parse_call, read_call
from vrag.agent.replies.known_nodes import KnownNodes
from vrag.agent.replies.reply_text import plain_answer, unquoted
from vrag.agent.replies.tag_repair import read_tags
from vrag.agent.replies.tool_calls import AnswerNode, CropNode, Memorize, SearchNode, ToolNode, render_call
from vrag.agent.runs.replay import differences, replay
from vrag.agent.runs.run_result import RunResult
from vrag.agent.runs.run_store import RunStore, StoredRun
from vrag.testing import ScriptedPolicy, tiny_corpus

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = KnownNodes(("root", "a"), ())
OTHERS = frozenset({"next_page"})
TAGS = [
    "<think>", "</think>", "<search>", "</search>", "<bbox>", "</bbox>", "<answer>", "</answer>", "</answer",
    "<bbox image='2'>", "<bbox image=x>", "[1, 2, 3, 4]", "[[1,2,3,4]]", '{"bbox_2d": [1, 2, 3, 4]}', "ferry",
    "<passage>", "</passage>", "<tool_call>", "</tool_call>", "<function=answer>", "<parameter=text>", "{",
    '{"name": "search", "arguments": {"query": "q"}}', "</parameter>", "</function>", "```json\n", "```",
    "Answer: 12", "\\boxed{12}", "<evidence>", "</evidence>", "\n", " ",
]  # fmt: skip
CALLS = [
    "<think>", "</think>", "<passage>", "</passage>", "<tool_call>", "</tool_call>", "{", "}", '"', "'", ",",
    '{"name": "add_search_node", "arguments": {"id": "b", "parent_ids": ["root"], "query": "q"}}',
    "{'name': 'add_answer_node', 'arguments': {'answer': 12,}}", '{"name": "add_crop_node"', '"arguments": {',
    "<function=add_search_node>", "<parameter=id>", "<parameter=query>", "b c", "</parameter>", "</function>",
    "add_answer_node", "<arg_key>answer</arg_key>", "<arg_value>12</arg_value>", "[TOOL_CALLS]", "```json\n",
    "```", "\n", " ", "Answer: 12", "\\boxed{12}", '{"answer": 3}', "<|python_tag|>",
]  # fmt: skip


def replies(pieces: list[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.text(), st.lists(st.one_of(st.sampled_from(pieces), st.text(max_size=4)), max_size=14).map("".join)
    )


def read(grammar: str, reply: str, **how: bool) -> Turn[Any]:
    last, cut = how.get("last", False), how.get("cut", False)
    if grammar == "tags":
        return read_tags(reply, OTHERS, last=last, cut=cut)
    return read_call(reply, KNOWN, OTHERS, last=last, cut=cut)


def strict(grammar: str, reply: str) -> Turn[Any]:
    return parse(reply, OTHERS) if grammar == "tags" else parse_call(reply, OTHERS)


either = st.one_of(st.tuples(st.just("tags"), replies(TAGS)), st.tuples(st.just("calls"), replies(CALLS)))


@given(either, st.booleans(), st.booleans())
def test_any_text_yields_an_action_or_a_reason(said: tuple[str, str], last: bool, cut: bool) -> None:
    turn = read(*said, last=last, cut=cut)
    assert said[1].startswith(turn.executed)
    assert bool(turn.repairs) == (Flag.REPAIRED in turn.flags)
    if isinstance(turn.action, Invalid):
        assert turn.action.reason.endswith(".")
        assert not turn.repairs
    else:
        write: Any = render if said[0] == "tags" else render_call
        assert strict(said[0], write(turn.action)).action == turn.action


@given(either, st.booleans(), st.booleans())
def test_what_the_strict_grammar_reads_is_read_just_so(said: tuple[str, str], last: bool, cut: bool) -> None:
    turn = strict(*said)
    is_answer = isinstance(turn.action, Answer | AnswerNode)
    if not isinstance(turn.action, Invalid) and (is_answer or not last):
        assert read(*said, last=last, cut=cut) == turn


@given(either)
def test_in_the_last_reply_nothing_but_an_answer_takes_the_place_of_an_action(said: tuple[str, str]) -> None:
    before, last = read(*said), read(*said, last=True)
    assert last.action == before.action or isinstance(last.action, Answer | AnswerNode)


@given(either, st.booleans())
def test_what_is_executed_reads_the_same_without_what_was_dropped(said: tuple[str, str], last: bool) -> None:
    turn = read(*said, last=last)
    if not isinstance(turn.action, Invalid):
        again = read(said[0], turn.executed, last=last)
        assert (again.action, again.thought) == (turn.action, turn.thought)


@given(either, st.booleans(), st.sampled_from(["think", "passage"]))
def test_nothing_inside_a_thought_or_a_quoted_passage_becomes_an_action(
    said: tuple[str, str],
    last: bool,
    quote: str,
) -> None:
    grammar, text = said
    inside = (
        text.replace("<think>", "").replace("</think>", "").replace("<passage>", "").replace("</passage>", "")
    )
    reply = f"<{quote}>{inside}</{quote}>"
    assert isinstance(read(grammar, reply, last=last).action, Invalid)


@given(replies(TAGS))
def test_blanks_keep_every_place_in_a_reply(reply: str) -> None:
    said = unquoted(reply)
    if said is not None:
        assert len(said) == len(reply)
        assert all(now in {before, " "} for now, before in zip(said, reply, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    ["<passage>", "<think></think>", "<tool_call>", "<function=a>", "<arg_key>a</arg_key><arg_value>", "```",
     "\n", "<bbox ", "Answer: ", "\\boxed{", "[TOOL_CALLS][", "<parameter=a>", "{'", "I need to "],
)  # fmt: skip
@pytest.mark.parametrize("grammar", ["tags", "calls"])
def test_a_hostile_reply_takes_no_time_with_the_square_of_its_length(grammar: str, piece: str) -> None:
    with at_most(10):  # tenths of a second; with the square, minutes
        read(grammar, piece * 50_000, last=True)
        read(grammar, f"<function=add_answer_node>{piece * 50_000}", last=True)


LONG = 50_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "filler", [" ", "7", "0", "[", "]", "(", ")", '"', "'", "<", ">", "\t\n", "1 ", "_", "*"]
)
@pytest.mark.parametrize(
    "form",
    [
        "<bbox image={}x>[1, 2, 3, 4]</bbox>",
        "<bbox image='{}'>[[1, 2, 3, 4]]</bbox>",
        "<bbox>[[1, 2, 3, 4{}x]]</bbox>",
        "<bbox>{}",
        "<search>ferry</{}x",
        "<tool_call{}x>",
        "<tool_call>{{'name': 'answer', 'arguments': {{'answer': {}x}}}}</tool_call>",
        (
            '<tool_call>{{"name": "add_search_node", "arguments": {{"id": "b", "query": "q", '
            '"parent_ids": "{}x"}}}}</tool_call>'
        ),
        (
            '<tool_call>{{"name": "add_crop_node", "arguments": {{"id": "b", "information_id": "image{}x", '
            '"box": "1{}x"}}}}</tool_call>'
        ),
        "<function{}={}a>",
        "<function=answer><parameter={}x>",
        "<function=answer><parameter=text>{}</parameter{}x",
        "<tool_call>answer<arg_key>{}x</arg_key>",
        "<passage{}x>",
        "Answer{}x",
        "\\boxed{{{}x",
        "'arguments'{}x",
        "I{} need to x",
        "{{'answer': 1.{}1, }}",
    ],
)
def test_a_hostile_reply_of_one_long_part_is_read_in_time(form: str, filler: str) -> None:
    reply = form.replace("{}", filler * (LONG // len(filler))).replace("{{", "{").replace("}}", "}")
    with at_most(2):  # hundredths of a second; with the square, many seconds
        for grammar in ("tags", "calls"):
            for text in (reply, reply.replace(filler * 40_000, "", 1)):
                read(grammar, text, last=True)


@pytest.mark.parametrize("broken", ["", ","], ids=["valid", "with a comma too many"])
def test_parents_that_are_ids_stay_what_they_are(broken: str) -> None:
    said = (
        '<tool_call>{"name": "add_search_node", "arguments": {"id": "b", '
        f'"parent_ids": ["_a", "-c-", "A b"], "query": "q"{broken}}}}}</tool_call>'
    )
    action = read_call(said, KnownNodes(("root", "_a", "a", "-c-", "a_b"))).action
    assert action == SearchNode("b", ("_a", "-c-", "a_b"), "q")


ANY_NAME = st.one_of(
    st.sampled_from(["root", "Ferry fares, 2023?", "ferry_fares-2023", "the question", "?!", ""]),
    st.text(max_size=150),
    st.none(),
    st.integers(),
    st.dictionaries(st.just("id"), st.text(max_size=3)),
)


@given(st.one_of(ANY_NAME, st.lists(ANY_NAME)), st.booleans())
def test_no_answer_is_refused_for_its_parents(parents: object, last: bool) -> None:
    nodes = ("root", "Ferry fares, 2023?", "b")
    call = {"name": "add_answer_node", "arguments": {"parent_ids": parents, "answer": "12"}}
    turn = read_call(f"<tool_call>{json.dumps(call)}</tool_call>", KnownNodes(nodes), last=last)
    assert isinstance(turn.action, AnswerNode)
    assert turn.action.text == "12"
    assert set(turn.action.parents) <= set(nodes)


@given(st.one_of(ANY_NAME, st.text(min_size=100, max_size=200)))
def test_no_search_is_refused_for_its_id(name: object) -> None:
    graph = Graph.of("?").add(id="Ferry fares, 2023?", kind=NodeKind.SEARCH, parents=("root",), query="x")
    graph = graph.complete("s")
    call = {"name": "add_search_node", "arguments": {"id": name, "parent_ids": ["root"], "query": "ferry"}}
    turn = read_call(f"<tool_call>{json.dumps(call)}</tool_call>", known_of(graph))
    if not isinstance(name, dict):
        assert isinstance(turn.action, SearchNode)
        assert graph.fault_of(turn.action) is None


def known_of(graph: Graph, **how: bool) -> KnownNodes:
    nodes = graph.nodes
    return KnownNodes(tuple(node.id for node in nodes), (), tuple(node.query for node in nodes), **how)


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("Ferry fares, 2023?", "Ferry fares, 2023?"),
        ("ferry_fares_2023", "Ferry fares, 2023?"),
        ("Node: FERRY fares 2023", "Ferry fares, 2023?"),
        ("prices of ferries", "Ferry fares, 2023?"),
        ("How many?", "root"),
        ("Question", "root"),
        ("Ferry fares, 2024?", None),
    ],
)
def test_nodes_are_found_by_their_titles_and_queries(named: str, found: str | None) -> None:
    graph = Graph.of("How many?")
    graph = graph.add(
        id="Ferry fares, 2023?", kind=NodeKind.SEARCH, parents=("root",), query="Prices of ferries"
    )
    assert known_of(graph).find(named) == found


def test_what_is_repaired_of_names_is_said_with_their_spelling() -> None:
    said = """<tool_call>{'name': 'add_answer_node', 'arguments': {'parent_ids': ['Tariff of the Saltby ferries, 2023 (final).PDF'], 'answer': 'x',}}"""  # noqa: E501
    (_, repair) = read_call(said, KNOWN).repairs
    expected = "there is no node 'Tariff of the Saltby ferries, 2023 (final).PDF'; parent_ids are read as a"
    assert repair == expected


# Runs that were recorded when titles were no ids


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ({"id": "Ferry fares, 2022?", "parent_ids": ["a"]}, SearchNode("Ferry_fares_2022", ("a",), "q")),
        ({"id": "b", "parent_ids": ["Not there?"]}, SearchNode("b", ("Not_there",), "q")),
        ({"id": "a", "parent_ids": ["A"]}, SearchNode("a", ("a",), "q")),
        ({"parent_ids": ["a"]}, Invalid("In add_search_node, id is missing.")),
    ],
)
def test_replies_of_older_runs_are_read_as_they_were(arguments: dict[str, Any], read: object) -> None:
    call = {"name": "add_search_node", "arguments": arguments | {"query": "q"}}
    known = KnownNodes(("root", "a"), own_ids=False)
    assert read_call(f"<tool_call>{json.dumps(call)}</tool_call>", known).action == read


def test_without_repairs_titles_were_refused_in_older_runs() -> None:
    call = {"name": "add_search_node", "arguments": {"id": "a b", "parent_ids": ["root"], "query": "q"}}
    said = f"<tool_call>{json.dumps(call)}</tool_call>"
    assert parse_call(said).action == SearchNode("a b", ("root",), "q")
    reason = "In add_search_node, id must be 1 to 64 letters, digits, _ or -."
    assert parse_call(said, own_ids=False).action == Invalid(reason)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("48,200", "48,200"),
        ("  The fare is 12.\n", "The fare is 12."),
        ("```\n48,200\n```", "48,200"),
        ('{"answer": "48,200"}', "48,200"),
        ("{'answer': ['red', 'blue'],}", "red, blue"),
        ('```json\n{"final_answer": 12}\n```', "12"),
        ("Answer: 48,200", "48,200"),
        ("Because of the table.\nFinal answer: **48,200**", "48,200"),
        ("### Answer: 48,200", "48,200"),
        ("The answer is: 48,200", "48,200"),
        ("so $\\boxed{\\text{48,200}}$", "48,200"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("<answer>48,200", "48,200"),
        ("<|begin_of_box|>48,200<|end_of_box|>", "48,200"),
        ("I see 48,200 passengers.", "I see 48,200 passengers."),
        ("I counted 48,200 passengers.", "I counted 48,200 passengers."),
        ("", None),
        ("```json\n```", None),
        ('{"name": "add_answer_node", "arguments": {"answer": "x"}}', None),
        ('The page says {"arguments": {"answer": "x"}}', None),
        ("<tool_call>", None),
        ("<search>ferry", None),
        ("<function=answer>", None),
        ("Okay, let me search for the fares.", None),
        ("[1, 2, 3, 4]", None),
        ("x" * 20_001, None),
        ("<foo></foo>", None),
        ("<lookup>ferry prices</lookup>", None),
        ("<tool>\n<name>search</name>\n</tool>", None),
        ("<unknown/>", None),
        ("<p>It is <b>12</b>.</p>", "<p>It is <b>12</b>.</p>"),
        ("<b>12</b>", "<b>12</b>"),
        ("a < b and c > d", "a < b and c > d"),
    ],
)
def test_what_a_plain_text_answers(said: str, answer: str | None) -> None:
    assert plain_answer(said) == answer


@pytest.mark.parametrize(
    "said",
    [
        "We use AdamW with a learning rate of 0.001.",
        "We use AdamW.",
        "We find that the ferry carried 48,200 passengers.",
        "We examine two models, a small one and a large one.",
        "We call this the residual connection.",
        "I use the table on page 3: 48,200.",
        "We can use at most 5 kg.",
        "Let us look at Table 2: the total is 48,200.",
        "Let me look at the table. The total is 48,200.",
        "I will use the table on page 3: 48,200.",
        "We should use 5 kg.",
        "First we check the engine, then the brakes.",
        "Let's call it twelve crowns, since the fare is rounded.",
    ],
)
def test_prose_in_the_first_person_is_an_answer(said: str) -> None:
    assert plain_answer(said) == said
    for reply in (said, f"<think>x</think>{said}"):
        assert read_tags(reply, last=True).action == Answer(said)
        assert read_call(reply, KNOWN, last=True).action == AnswerNode(("a",), said)


@pytest.mark.parametrize(
    "said",
    [
        "I need to search for the price.",
        "I will look at page 3.",
        "Let me zoom in on image 2",
        "I should check the report of 2023.",
        "Now I'll search for the fares.",
        "Let me search for the fares. I need to find the price.",
        "Okay, so we have to find the table first.",
        "I'm going to search for it.",
    ],
)
def test_a_text_that_only_says_what_the_model_means_to_do_is_no_answer(said: str) -> None:
    assert plain_answer(said) is None
    assert isinstance(read_tags(f"<think>x</think>{said}", last=True).action, Invalid)
    assert isinstance(read_call(f"<think>x</think>{said}", KNOWN, last=True).action, Invalid)


ADD_SEARCH = """<tool_call>{"name": "add_search_node", "arguments": {"id": "b", "parent_ids": ["root"], "query": "q"}}</tool_call>"""  # noqa: E501


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("The answer is 48.", "48"),
        ("The final answer is **48.5 kg**.", "48.5 kg"),
        ("So, the answer is no. I will check it.", "no"),
        ("The table lists it. Thus the answer is Mr. Hill.", "Mr. Hill"),
        ("The answer is 48", "48"),
        ("The answer is not answerable.", "not answerable"),
        ("The answer is not on this page.", None),
        ("The answer is probably on page 3.", None),
        ("The answer is in the next table.", None),
        ("If the answer is 48, the fare is right.", None),
    ],
)
def test_an_answer_that_a_sentence_states_beside_an_action_counts_in_the_last_reply(
    said: str, answer: str | None
) -> None:
    tags, call = f"{said}<search>q</search>", f"{said}{ADD_SEARCH}"
    search, node = Search("q"), SearchNode("b", ("root",), "q")
    assert read_tags(tags, last=True).action == (search if answer is None else Answer(answer))
    assert read_call(call, KNOWN, last=True).action == (
        node if answer is None else AnswerNode(("a",), answer)
    )
    assert read_tags(tags).action == search
    assert read_call(call, KNOWN).action == node


@pytest.mark.parametrize("answer", ["<ul>", "<video>", "<br/>", "</table>", "<ul> <li>", "<my-element>"])
@pytest.mark.parametrize("last", [False, True])
def test_a_tag_that_is_the_answer_stands(answer: str, last: bool) -> None:
    assert parse(f"<answer>{answer}</answer>").action == Answer(answer)
    assert read_tags(f"<answer>{answer}</answer>", OTHERS, last=last).action == Answer(answer)
    call = {"name": "add_answer_node", "arguments": {"parent_ids": ["a"], "answer": answer}}
    said = f"<tool_call>{json.dumps(call)}</tool_call>"
    assert read_call(said, KNOWN, last=last).action == AnswerNode(("a",), answer)
    assert read_call(f"<answer>{answer}</answer>", KNOWN, last=True).action == AnswerNode(("a",), answer)


@pytest.mark.parametrize(
    "answer", ["<lookup></lookup>", "<ul> </ul>", "<tool_call>", "<next_page>", "<parameter=q>"]
)
@pytest.mark.parametrize("last", [False, True])
def test_an_empty_element_or_the_tag_of_an_action_is_no_answer(answer: str, last: bool) -> None:
    assert isinstance(read_tags(f"<answer>{answer}</answer>", OTHERS, last=last).action, Invalid)


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("<think>t</think><search>ferry", Search("ferry")),
        ("<think>t</think><bbox>[1, 2, 3, 4]", Crop((1, 2, 3, 4))),
        ("I would use <search> to find it", None),
        ("<think>t</think><search>ferry\n\nI wait.", None),
        ("<think>t</think><answer>two\nlines", Answer("two\nlines")),
    ],
)
def test_an_element_that_is_never_closed_must_be_all_that_is_said(said: str, action: object) -> None:
    found = read_tags(said).action
    assert (None if isinstance(found, Invalid) else found) == action
    assert isinstance(read_tags(said, cut=True).action, Invalid)


@pytest.mark.parametrize("said", ["<foo></foo>", "<answer><foo></foo></answer>", "<tool>", "<foo>x</foo>"])
@pytest.mark.parametrize("method", [VragMethod(), Vimrag()])
def test_a_model_that_writes_nothing_but_an_unknown_tag_has_given_no_answer(
    method: VragMethod | Vimrag, said: str
) -> None:
    agent = Agent(ScriptedPolicy((said,) * 3), environment(), method, Limits(steps=2))
    run = agent.run("How many passengers?")
    assert run.answer is None
    assert said not in run.checked_text


def test_an_action_that_there_is_not_here_is_none_in_another_form_either() -> None:
    call = '<tool_call>{"name": "bbox", "arguments": {"bbox_2d": [1, 2, 3, 4]}}</tool_call>'
    action = read_tags(call, without=frozenset({"bbox"})).action
    assert action == Invalid("There is no bbox here, only: search, answer.")


def test_of_several_calls_in_a_list_the_first_runs_and_the_rest_is_flagged() -> None:
    call = {"name": "add_answer_node", "arguments": {"parent_ids": ["root"], "answer": "x"}}
    turn = read_call(f"<tool_call>{json.dumps([call, call | {'name': 'other'}])}</tool_call>", KNOWN)
    assert turn.action == AnswerNode(("root",), "x")
    assert {Flag.REPAIRED, Flag.TRAILING_TEXT} <= turn.flags


def test_actions_of_others_are_read_in_other_forms_too() -> None:
    call = "<function=next_page><parameter=id>p</parameter><parameter=text>2</parameter></function>"
    assert read_call(call, KNOWN, OTHERS).action == ToolNode("p", ("a",), "next_page", "2")


def test_a_box_of_a_crop_node_is_read_in_other_brackets() -> None:
    arguments = {"id": "c", "parent_ids": ["a"], "information_id": "Picture 1", "bbox_2d": "[[1, 2, 3, 4]]"}
    said = f"<tool_call>{json.dumps({'name': 'add_crop_node', 'arguments': arguments})}</tool_call>"
    assert read_call(said, KNOWN).action == CropNode("c", ("a",), "Picture 1", (1, 2, 3, 4))


# In a run


TITLED = """<tool_call>{'name': 'add_search_node', 'arguments':
 {'id': 'Ferry passengers, 2023?', 'query': 'ferry passengers',}}</tool_call>"""


def test_a_title_is_the_same_node_whenever_it_is_named() -> None:
    reply = answers("Ferry passengers, 2023?")
    events, policy = events_of(METHOD, TITLED, memorizes(note("Text 1", 0)), reply)
    assert not of(InvalidAction, events)
    assert [node.id for node in graph_of(events).nodes] == ["root", "Ferry passengers, 2023?", "answer"]
    assert graph_of(events).newest.parents == ("Ferry passengers, 2023?",)
    assert [Flag.REPAIRED in event.flags for event in of(ModelCalled, events)] == [True, True, False]
    assert "Ferry passengers, 2023?" in policy.told[1][-1].text


def test_events_name_nodes_in_the_words_of_the_model() -> None:
    reply = answers("ferry passengers 2023", text="It rose [ferry_passengers_2023].")
    events, _ = events_of(METHOD, TITLED, memorizes(note("Text 1", 0), note("Picture 1", 5)), reply)
    title = "Ferry passengers, 2023?"
    assert [event.node for event in of(SearchRequested, events)] == [title]
    assert {event.node for event in of(ImageShown, events)} == {title}
    assert [event.node for event in of(MemoryUpdated, events)] == [title]
    assert {item.node for item in end_of(events).evidence} == {title}
    assert (end_of(events).text, end_of(events).unsupported) == ("It rose.", ())


@pytest.mark.parametrize(
    ("text", "answer", "cited"),
    [
        ("It rose. [fares_2024]", "It rose.", "fares_2024"),
        ("According to [9], it rose.", "According to …, it rose.", "9"),
        ("The key is unique, see [user_id].", "The key is unique, see [user_id].", None),
        ("The column is called [order_id].", "The column is called [order_id].", None),
    ],
)
def test_only_an_id_that_stands_nowhere_is_a_citation_of_nothing(
    text: str, answer: str, cited: str | None
) -> None:
    asked = searches("a", "which user_id")
    events, _ = events_of(METHOD, asked, memorizes(note("Text 1", 0)), answers("a", text=text))
    unsupported = () if cited is None else (f"The answer cites [{cited}], which was not shown.",)
    assert (end_of(events).text, end_of(events).unsupported) == (answer, unsupported)


def record(store: RunStore, method: Vimrag, *replies: str) -> StoredRun:
    agent = Agent(ScriptedPolicy(replies), environment(), method)
    with store.record() as recording:
        for event in agent.record("How many?", recording):
            assert event.run_id == recording.id
    return store.read("last")


@pytest.mark.parametrize("own_ids", [True, False])
def test_runs_are_replayed_with_the_ids_that_they_were_recorded_with(tmp_path: Path, own_ids: bool) -> None:
    script = (TITLED, memorizes(note("Picture 1", 5)), answers("Ferry passengers, 2023?"))
    run = record(RunStore(tmp_path), Vimrag(own_ids=own_ids), *script)
    title = "Ferry passengers, 2023?" if own_ids else "Ferry_passengers_2023"
    assert [event.node for event in of(SearchRequested, run.events)] == [title]
    started = run.events[0].model_dump(mode="json")
    if not own_ids:  # as earlier versions wrote it
        del started["settings"]["own_ids"]
    events = (event_from_json(json.dumps(started)), *run.events[1:])
    stored = StoredRun(run.id, run.store, events)
    assert differences(events, list(replay(stored, tiny_corpus()))) == []


def test_a_crop_finds_its_picture_where_one_node_alone_has_it() -> None:
    crop = enlarges("closer", "Nowhere", "Picture 1 of the report", [0, 0, 300, 200])
    script = (SEARCH, KEEP, searches("prices", "ticket costs"), memorizes(), crop, answers("closer"))
    events, _ = events_of(METHOD, *script)
    assert not of(InvalidAction, events)
    assert graph_of(events).node("closer").parents == ("report", "prices")
    assert end_of(events).evidence[0].node == "closer"


def test_results_without_an_entry_are_not_useful() -> None:
    events, _ = events_of(METHOD, SEARCH, memorizes(note("Picture 1", 5)), answers("report"))
    node = graph_of(events).node("report")
    assert [(memo.label, memo.useful) for memo in node.memory] == [("Picture 1", True), ("Picture 2", False)]


def test_unknown_parents_and_ids_given_twice_lose_nothing_and_are_told_as_repairs() -> None:
    again = TITLED.replace("passengers',}", "prices',}")
    events, _ = events_of(METHOD, TITLED, memorizes(), again, memorizes(), answers("Nowhere, at all"))
    title = "Ferry passengers, 2023?"
    assert not of(InvalidAction, events)
    assert [node.id for node in graph_of(events).nodes] == ["root", title, f"{title}_2", "answer"]
    assert end_of(events).text == "48,200"
    repairs = [repair for event in of(ModelCalled, events) for repair in event.repairs]
    assert f"there is a node '{title}' already; read as {title}_2" in repairs
    assert f"there is no node 'Nowhere, at all'; parent_ids are read as {title}_2" in repairs


@pytest.mark.parametrize("repair", [True, False])
def test_without_repairs_unknown_parents_and_ids_given_twice_are_refused(repair: bool) -> None:
    script = (SEARCH, KEEP, searches("report", "prices"), answers("nowhere"), answers("root"))
    events, _ = events_of(Vimrag(repair=repair), *script)
    reasons = [event.reason for event in of(InvalidAction, events)]
    assert (
        reasons == []
        if repair
        else [
            "There is a node report already; give the new one an id of its own.",
            "There is no node 'nowhere'; the nodes are root, report.",
        ]
    )


@given(
    st.lists(
        st.one_of(
            ANY_NAME,
            st.dictionaries(
                st.sampled_from(["information_id", "id", "is_useful", "priority_score", "key_timestamp"]),
                st.one_of(ANY_NAME, st.lists(ANY_NAME), st.booleans(), st.just("Picture 1")),
            ),
        )
    )
)
def test_any_ratings_are_a_review_or_a_reason(notes: list[object]) -> None:
    call = {"name": "summarize_and_memorize", "arguments": {"summarize": "s", "memorize": notes}}
    known = KnownNodes(("root", "a"), ("Picture 1",))
    action = read_call(f"<tool_call>{json.dumps(call)}</tool_call>", known).action
    if isinstance(action, Invalid):
        assert action.reason.startswith("In summarize_and_memorize, ")
    else:
        assert isinstance(action, Memorize)
        assert {note.information for note in action.notes if not note.useful} <= {"Picture 1"}


@pytest.mark.parametrize("last", [True, False])
def test_the_thought_that_is_never_closed_ends_before_the_answer(last: bool) -> None:
    said = "<think>It says so. <answer>48,200</answer>"
    for turn in (read_tags(said, last=last), read_call(said, KNOWN, last=last)):
        assert turn.thought == ("It says so." if last else "It says so. <answer>48,200</answer>")


METHODS_AND_SEARCHES = [
    pytest.param(VragMethod(), "<think>a</think><search>ferry</search>", id="vrag"),
    pytest.param(React(), "<think>a</think><search>ferry</search>", id="react"),
    pytest.param(Rag(), "<think>a</think><search>ferry</search>", id="rag"),
    pytest.param(Vimrag(), SEARCH, id="vimrag"),
]


@pytest.mark.parametrize(("method", "search"), METHODS_AND_SEARCHES)
@pytest.mark.parametrize(
    "said",
    [
        "48,200",
        "{search}\n**Answer:** 48,200",
        "{search}<answer>48,200</answer>",
        "<think>It says so. <answer>48,200</answer>",
        '{search}<tool_call>{"name": "answer", "arguments": {"answer": "48,200", // done\n}}</tool_call>',
        'answer(answer="48,200")',
    ],
)
def test_in_the_last_reply_of_every_agent_any_readable_answer_counts(
    method: Any,  # noqa: ANN401
    search: str,
    said: str,
) -> None:
    agent = Agent(ScriptedPolicy((said.replace("{search}", search),)), environment(), method, Limits(steps=1))
    end = end_of(list(agent.stream("How many?")))
    assert (end.text, end.stop_reason) == ("48,200", StopReason.ANSWERED)


@pytest.mark.parametrize("method", [VragMethod(), Vimrag()], ids=["vrag", "vimrag"])
def test_on_the_last_step_a_readable_answer_counts_and_before_it_does_not(method: Any) -> None:  # noqa: ANN401
    agent = Agent(ScriptedPolicy(("48,200",) * 3), environment(), method, Limits(steps=2))
    events = list(agent.stream("How many?"))
    assert len(of(InvalidAction, events)) == 1
    assert (end_of(events).text, end_of(events).stop_reason) == ("48,200", StopReason.ANSWERED)
    assert [step.repairs for step in RunResult.of(events).steps] == [(), ("the text is read as the answer",)]
