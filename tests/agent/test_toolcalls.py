"""The grammar of VimRAG: any text is taken apart, and parse and render are inverses."""

from __future__ import annotations

import json
import sys
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thread_time import at_most

from vrag.agent.actions import Flag, Invalid, Turn
from vrag.agent.replies.call_parser import parse_call
from vrag.agent.replies.tool_calls import (
    TOOLS,
    AnswerNode,
    Call,
    CropNode,
    Memorize,
    Note,
    SearchNode,
    ToolNode,
    render_call,
    schemas,
)

PIECES = [
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<TOOL_CALL >", "{", "}", "[", "]", '"', ":", ",",
    '{"name": "add_search_node", "arguments": ', '{"id": "a", "parent_ids": ["root"], "query": "q"}',
    '{"name": "add_answer_node", "arguments": {"parent_ids": ["root"], "answer": "yes"}}', "```json\n", "```",
    '{"name": "summarize_and_memorize", "arguments": {"summarize": "s", "memorize": [', '"is_useful": NaN',
    '{"information_id": "Image 1", "is_useful": "yes", "priority_score": 1e999}', "\\ud800", "\ud800", " ",
    '{"function": {"name": "add_crop_node", "arguments": "{\\"box\\": [1, 2, 3, Infinity]}"}}', "\n", "\x00",
    "null", "true", "-1", "[[[[", '{"a":' * 50, "9" * 5000,
]  # fmt: skip
any_reply = st.one_of(st.text(), st.lists(st.one_of(st.sampled_from(PIECES), st.text())).map("".join))
ids = st.one_of(
    st.text(st.sampled_from("abcé漢字_-09 ,?()"), min_size=1, max_size=120).map(str.strip),
    st.text(max_size=130),
)
parents = st.lists(st.one_of(ids, st.just("root")), min_size=1, max_size=4, unique=True).map(tuple)
texts = st.one_of(st.text(min_size=1), st.lists(st.sampled_from(PIECES)).map("".join)).map(str.strip)
labels = st.builds("{} {}".format, st.sampled_from(["Text", "Picture", "Video"]), st.integers(1, 9999))
times = st.lists(st.floats(0, 1e9), max_size=3).map(tuple)
sides = st.floats(allow_nan=False, allow_infinity=False)


ARGUMENTS: dict[str, object] = {"id": "a", "parent_ids": ["root"], "query": "q"}


def call_of(name: str, **arguments: object) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def search(**changed: object) -> str:
    return call_of("add_search_node", **ARGUMENTS | changed)


BARE = search().removeprefix("<tool_call>").removesuffix("</tool_call>")


def memorize(**changed: object) -> str:
    note: dict[str, object] = {"information_id": "Picture 1", "is_useful": True, "priority_score": 3}
    return call_of("summarize_and_memorize", summarize="s", memorize=[note | changed])


def note_of(reply: str) -> Note:
    action = parse_call(reply).action
    assert isinstance(action, Memorize), action
    return action.notes[0]


def reason_of(reply: str) -> str:
    action = parse_call(reply).action
    assert isinstance(action, Invalid), action
    return action.reason


@st.composite
def calls(draw: st.DrawFn) -> Call | None:
    """Any call that can be constructed; None where what was drawn cannot."""
    kind = draw(st.sampled_from([SearchNode, Memorize, AnswerNode, CropNode, ToolNode]))
    try:
        if kind is SearchNode:
            return SearchNode(draw(ids), draw(parents), draw(texts))
        if kind is AnswerNode:
            return AnswerNode(draw(parents), draw(texts))
        if kind is CropNode:
            return CropNode(
                draw(ids), draw(parents), draw(labels), draw(st.tuples(sides, sides, sides, sides))
            )
        if kind is ToolNode:
            return ToolNode(draw(ids), draw(parents), "next_page", draw(texts))
        useful = st.builds(Note, labels, st.just(True), st.integers(1, 5), times)
        useless = st.builds(Note, labels, st.just(False))
        return Memorize(draw(texts), tuple(draw(st.lists(st.one_of(useful, useless), max_size=4))))
    except ValueError:
        return None


@given(any_reply)
def test_any_text_yields_a_call_or_a_reason(reply: str) -> None:
    turn = parse_call(reply, frozenset({"next_page"}))
    assert reply.startswith(turn.executed)
    if isinstance(turn.action, Invalid):
        assert turn.action.reason.endswith(".")
        assert len(turn.action.reason) < 400
    else:
        assert parse_call(render_call(turn.action), frozenset({"next_page"})).action == turn.action


@given(any_reply)
def test_what_is_executed_reads_the_same_without_what_was_dropped(reply: str) -> None:
    turn = parse_call(reply)
    if not isinstance(turn.action, Invalid):
        again = parse_call(turn.executed)
        assert again == Turn(turn.thought, turn.action, turn.executed, turn.flags - {Flag.TRAILING_TEXT})


@given(calls())
def test_parse_is_the_inverse_of_render(call: Call | None) -> None:
    if call is not None:
        said = f"<think>why</think>{render_call(call)}"
        assert parse_call(said, frozenset({"next_page"})) == Turn("why", call, said)


@pytest.mark.parametrize(
    "text", ["</tool_call>", "<think>", "</think> <tool_call>{}", "half a \\ud800", "𝟏\n\x00"]
)
def test_a_text_that_holds_tags_is_the_same_text_again(text: str) -> None:
    said = render_call(AnswerNode(("root",), text))
    assert parse_call(said).action == AnswerNode(("root",), text)
    assert parse_call(said).executed == said


@pytest.mark.parametrize(
    "reply",
    [
        search(),
        "<tool_call>\n" + BARE + "\n</tool_call>",
        "<tool_call>```json\n" + BARE + "\n```</tool_call>",
        BARE,
        "```json\n" + BARE + "\n```",
        search()[:-12],
        search(parent_ids="root"),
        search(parent_ids=["root", "root"]),
        search(id=" a "),
        json.dumps({"name": "add_search_node", "arguments": json.dumps(ARGUMENTS)}),
        '<tool_call>{"function": ' + BARE + "}</tool_call>",
        search().replace('"arguments"', '"parameters"'),
        "I would use <tool_call> here: " + search(),
    ],
)
def test_calls_as_models_write_them(reply: str) -> None:
    assert parse_call(f"<think>t</think>{reply}").action == SearchNode("a", ("root",), "q"), reply


def test_the_first_complete_call_runs_and_what_follows_is_dropped() -> None:
    turn = parse_call(search() + search(id="b"))
    assert turn == Turn(
        None, SearchNode("a", ("root",), "q"), search(), frozenset({Flag.NO_THOUGHT, Flag.TRAILING_TEXT})
    )


def test_a_call_inside_a_thought_does_not_run() -> None:
    turn = parse_call(f"<think>maybe {search()}</think>{search(id='b')}")
    assert turn.action == SearchNode("b", ("root",), "q")
    assert turn.thought == f"maybe {search()}"
    assert not turn.flags
    begun = parse_call(f"the template opened the block {search()}</think>{search(id='b')}")
    assert begun.action == SearchNode("b", ("root",), "q")


def test_a_call_that_is_closed_and_cannot_be_read_is_told_to_the_model_and_no_later_one_runs() -> None:
    turn = parse_call('<tool_call>{"name": }</tool_call>' + search())
    assert isinstance(turn.action, Invalid)
    assert "cannot" not in turn.executed
    assert turn.executed == '<tool_call>{"name": }</tool_call>'
    assert Flag.TRAILING_TEXT in turn.flags


@pytest.mark.parametrize(
    ("said", "label"),
    [
        ("Picture 3", "Picture 3"), ("picture 3", "Picture 3"), ("Image 3", "Picture 3"),
        ("PICTURE_3", "Picture 3"),
        ("picture3", "Picture 3"), ("[Image #3]", "Picture 3"), ("Text 01", "Text 1"), ("video-1", "Video 1"),
        ("Passage 2", "Text 2"), (" Clip 1: ", "Video 1"),
    ],
)  # fmt: skip
def test_labels_are_brought_to_one_spelling(said: str, label: str) -> None:
    assert note_of(memorize(information_id=said)).information == label


@pytest.mark.parametrize("said", [5, 5.0, "5", " 5 "])
def test_priorities_are_read_from_numbers_and_texts(said: object) -> None:
    assert note_of(memorize(priority_score=said)).priority == 5


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ([12, 30.5], (12, 30.5)), ("<12.0 seconds>", (12,)), (["1:05", "1:00:01"], (65, 3601)), (7, (7,)),
        (["12s", "13 sec"], (12, 13)), (None, ()), ([], ()),
    ],
)  # fmt: skip
def test_times_are_read_from_numbers_and_texts(said: object, seconds: tuple[float, ...]) -> None:
    assert note_of(memorize(key_timestamp=said)).timestamps == seconds


@pytest.mark.parametrize("said", [True, "true", "Yes", 1])
def test_yes_is_yes(said: object) -> None:
    assert note_of(memorize(is_useful=said)).useful


@pytest.mark.parametrize("said", [False, "false", "NO", 0])
def test_what_is_not_useful_has_no_priority_and_no_times_whatever_is_said_of_them(said: object) -> None:
    note = note_of(memorize(is_useful=said, priority_score="none", key_timestamp=["never"]))
    assert note == Note("Picture 1", useful=False)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "no complete tool call"),
        ("<think>never", "never closed"),
        ("<think>done</think>", "no complete tool call"),
        (f"well: {BARE}", "no complete tool call"),
        (f"First this. <think>t</think>{BARE}", "no complete tool call"),
        (f"{BARE} and more", "no complete tool call"),
        (search()[:-15], "not complete"),
        ("<tool_call>search</tool_call>", "does not begin with {"),
        ('<tool_call>{"a": [}</tool_call>', "cannot be read|can be read"),
        ("<tool_call>" + '{"a":' * 200_000 + "</tool_call>", "nested too deeply"),
        ('<tool_call>{"a": ' + "9" * 5000 + "}</tool_call>", "too many digits"),
        (
            "<tool_call>{}</tool_call>",
            "no name; the tools are add_search_node, summarize_and_memorize, add_crop",
        ),
        (call_of("search", query="q"), "no tool 'search'; the tools are add_search_node"),
        (call_of("x" * 999), "no tool 'xxx"),
        ('<tool_call>{"name": 3}</tool_call>', "no tool '3'"),
        ('<tool_call>{"name": "add_search_node"}</tool_call>', "id is missing"),
        ('<tool_call>{"name": "add_search_node", "arguments": [1]}</tool_call>', "must be a JSON object"),
        ('<tool_call>{"name": "add_search_node", "arguments": "{"}</tool_call>', "arguments cannot be read"),
        (search(id="root"), "not root"),
        (search(id=" \n"), "id must be a text of 1 to 120 characters"),
        (search(id="x" * 121), "id must be a text of 1 to 120 characters"),
        (search(id=7), "id must be a text of 1 to 120 characters"),
        (search(parent_ids=[]), "parent_ids must name at least one node"),
        (search(parent_ids=[3]), "parent_ids must be a list of ids"),
        (search(query=" "), "query must be a text"),
        (search(query=["q"]), "query must be a text"),
        (search(limit=3), "In add_search_node, there is no argument 'limit'"),
        (call_of("add_answer_node", parent_ids=["a"]), "In add_answer_node, answer is missing"),
        (call_of("summarize_and_memorize", memorize=[]), "summarize is missing"),
        (call_of("summarize_and_memorize", summarize="s", memorize={}), "memorize must be a list"),
        (
            call_of("summarize_and_memorize", summarize="s", memorize=["Text 1"]),
            "memorize must be a JSON object",
        ),
        (memorize(information_id="the chart"), 'such as "Text 1", "Picture 3" or "Video 1"'),
        (memorize(information_id="Picture 0"), "information_id must be the label"),
        (memorize(is_useful="perhaps"), "for Picture 1: is_useful must be true or false"),
        (memorize(priority_score=6), "priority_score of Picture 1 must be a whole number from 1 to 5"),
        (memorize(priority_score=0), "priority_score of Picture 1 must be a whole number from 1 to 5"),
        (memorize(priority_score=2.5), "for Picture 1: priority_score must be a whole number"),
        (memorize(priority_score=True), "priority_score must be a number"),
        (memorize(priority_score=None), "priority_score must be a number"),
        (memorize(key_timestamp=["soon"]), "key_timestamp must be a list of seconds"),
        (memorize(key_timestamp=[-1]), "key_timestamp of Picture 1 must hold seconds from 0"),
        (memorize(key_timestamp=[10**399]), "key_timestamp must be a list of seconds"),
        (memorize(key_timestamp=[1]).replace("[1]", "[1e999]"), "key_timestamp must be a list of seconds"),
        (memorize(key_timestamp=[1]).replace("[1]", "[NaN]"), "NaN is no JSON"),
        (memorize(why="w"), "for Picture 1: there is no argument 'why'"),
        (
            call_of("add_crop_node", id="c", parent_ids=["a"], information_id="Picture 1", box=[1, 2, 3]),
            "box must be four numbers",
        ),
    ],
)
def test_faults_are_named(reply: str, reason: str) -> None:
    said = reason_of(reply)
    assert any(part in said for part in reason.split("|")), said
    assert said.endswith(".")


def test_a_result_that_is_named_twice_is_refused() -> None:
    note = {"information_id": "Picture 1", "is_useful": False}
    reply = call_of(
        "summarize_and_memorize", summarize="s", memorize=[note, note | {"information_id": "image 1"}]
    )
    assert reason_of(reply) == "In summarize_and_memorize, memorize names Picture 1 twice."


def test_a_missing_priority_is_named_for_what_is_useful_only() -> None:
    useful = {"information_id": "Video 2", "is_useful": True}
    reply = call_of("summarize_and_memorize", summarize="s", memorize=[useful])
    assert reason_of(reply) == "In summarize_and_memorize, memorize for Video 2: priority_score is missing."
    useless = useful | {"is_useful": False}
    assert not note_of(call_of("summarize_and_memorize", summarize="s", memorize=[useless])).useful


def test_half_a_surrogate_pair_becomes_what_a_file_can_hold() -> None:
    action = parse_call(search(query="a\ud800b")).action
    assert action == SearchNode("a", ("root",), "a\ufffdb")
    with pytest.raises(ValueError, match="query"):
        SearchNode("a", ("root",), "a\ud800b")


def test_ids_are_the_models_own_words_on_one_line() -> None:
    action = parse_call(search(id=" Ferry fares,\n\u202e2023? ")).action
    assert action == SearchNode("Ferry fares, 2023?", ("root",), "q")


def test_ids_are_composed_so_that_one_name_is_one_node() -> None:
    assert parse_call(search(id="cafe\u0301")).action == SearchNode("caf\u00e9", ("root",), "q")


def test_actions_of_others_are_tools_and_the_crop_is_one_when_it_is_offered() -> None:
    page = call_of("next_page", id="p", parent_ids=["a"], text="2")
    assert parse_call(page, frozenset({"next_page"})).action == ToolNode("p", ("a",), "next_page", "2")
    assert "no tool 'next_page'" in reason_of(page)
    crop = render_call(CropNode("c", ("a",), "Picture 1", (1, 2, 3, 4)))
    assert isinstance(parse_call(crop).action, CropNode)
    refused = parse_call(crop, crop=False).action
    assert isinstance(refused, Invalid)
    assert refused.reason.endswith("the tools are add_search_node, summarize_and_memorize, add_answer_node.")


@pytest.mark.parametrize("word", ["Not answerable", "not answerable."])
def test_the_answer_that_says_there_is_none_is_known(word: str) -> None:
    assert AnswerNode(("root",), word).abstains
    assert not AnswerNode(("root",), "Not answerable, or 3").abstains


@pytest.mark.parametrize(
    "make",
    [
        lambda: SearchNode("root", ("root",), "q"),
        lambda: SearchNode("a", (), "q"),
        lambda: SearchNode("a", ("b", "b"), "q"),
        lambda: SearchNode("a", ("root",), " q"),
        lambda: Note("picture 1", useful=True, priority=1),
        lambda: Note("Picture 1", useful=True),
        lambda: Note("Picture 1", useful=False, priority=1),
        lambda: Note("Video 1", useful=True, priority=1, timestamps=(float("nan"),)),
        lambda: Memorize("", ()),
        lambda: CropNode("c", ("a",), "Picture 1", (0, 0, float("inf"), 1)),
        lambda: CropNode("c", ("a",), "it", (0, 0, 1, 1)),
        lambda: ToolNode("t", ("a",), "add_answer_node", "x"),
        lambda: ToolNode("t", ("a",), "Next page", "x"),
    ],
)
def test_what_could_not_be_read_back_cannot_be_constructed(make: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match=r"\w"):
        make()


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "<think></think>",
        "<think>",
        "</think>",
        "<tool_call>",
        "<tool_call>{",
        '<tool_call>{"a":"',
        "{",
        "```",
    ],
)
def test_a_hostile_reply_does_not_take_time_with_the_square_of_its_length(piece: str) -> None:
    reply = piece * 100_000
    with at_most(20):  # some tenths of a second; with the square, half a minute on an idle machine
        assert isinstance(parse_call(reply).action, Invalid)


def test_a_call_after_a_few_that_hold_none_is_found() -> None:
    assert parse_call("<tool_call>{ " * 60 + search()).action == SearchNode("a", ("root",), "q")


def test_a_deep_stack_does_not_make_parsing_raise() -> None:
    nested = "<tool_call>" + "[" * (sys.getrecursionlimit() * 2) + "</tool_call>"
    assert isinstance(parse_call(nested).action, Invalid)


def test_the_schemas_teach_what_parse_understands() -> None:
    offered = schemas(crop=True, tools={"next_page": "Show the next page."})
    functions = [cast("dict[str, Any]", entry["function"]) for entry in offered]
    assert [entry["name"] for entry in functions] == [*TOOLS[:3], "next_page", TOOLS[3]]
    assert [entry["function"]["name"] for entry in schemas(crop=False)] == [TOOLS[0], TOOLS[1], TOOLS[3]]
    for entry in functions:
        example = {name: _example(schema) for name, schema in entry["parameters"]["properties"].items()}
        said = call_of(entry["name"], **example)
        assert not isinstance(parse_call(said, frozenset({"next_page"})).action, Invalid), said
        for name in entry["parameters"]["required"]:
            left = {other: value for other, value in example.items() if other != name}
            if name != "memorize":  # nothing to say of no results
                assert f"{name} is missing" in reason_of_tool(call_of(entry["name"], **left))


def reason_of_tool(reply: str) -> str:
    action = parse_call(reply, frozenset({"next_page"})).action
    assert isinstance(action, Invalid)
    return action.reason


def _example(schema: dict[str, Any]) -> object:
    """The plainest value that a schema describes."""
    match schema["type"]:
        case "string":
            return "Picture 1" if "Picture" in schema.get("description", "") else "a"
        case "array":
            return [_example(schema["items"])] * schema.get("minItems", 1)
        case "object":
            return {name: _example(part) for name, part in schema["properties"].items()}
        case "boolean":
            return True
        case _:
            return 1
