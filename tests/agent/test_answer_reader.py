"""The answer in a reply as it comes in: what was given out is the beginning of what the parser finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vrag.agent.actions import Answer, parse
from vrag.agent.replies.answer_reader import MIN_PLAIN_CHARS, AnswerReader
from vrag.agent.replies.call_parser import read_call
from vrag.agent.replies.known_nodes import KnownNodes
from vrag.agent.replies.reply_text import MAX_ANSWER_CHARS
from vrag.agent.replies.tag_repair import read_tags
from vrag.agent.replies.tool_calls import ANSWER, AnswerNode, render_call

VARIANTS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "reply_variants.json").read_text(encoding="utf-8")
)
KNOWN = KnownNodes(("root", "Fares_2023"))
PROSE = "The ferry carried more passengers than in the year before, and the fares rose with the demand. " * 3

TEXTS = st.lists(
    st.sampled_from(
        [
            *(
                "It rose",
                " to 5 %",
                ". ",
                "\n",
                "a < b",
                "<b>",
                "</b>",
                "<",
                "</",
                "<ans",
                "</ans",
                "[1]",
                "ü",
                "答案",
            ),
            *(
                "<search>",
                "</search>",
                "<bbox>",
                "<answer>",
                '"',
                "\\",
                "{",
                "}",
                "](x)",
                "<|im_end|>",
                "``` ",
                "😀",
            ),
        ]
    ),
    min_size=1,
    max_size=8,
).map("".join)
CUTS = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def pieces(reply: str, cuts: list[int]) -> list[str]:
    cut: list[str] = []
    at = turn = 0
    while at < len(reply):
        length = cuts[turn % len(cuts)]
        cut.append(reply[at : at + length])
        at, turn = at + length, turn + 1
    return cut


def reader_of(grammar: str, *, last: bool) -> AnswerReader:
    if grammar == "vrag":
        return AnswerReader(is_last=last)
    return AnswerReader(ANSWER, frozenset({"answer"}), is_call_expected=True, is_last=last)


def read_in_pieces(reader: AnswerReader, reply: str, cuts: list[int]) -> str:
    """The answer; it only ever grows."""
    before = ""
    for piece in pieces(reply, cuts):
        answer = reader.add(piece)
        assert answer.startswith(before)
        before = answer
    return before


def final(grammar: str, reply: str, *, last: bool = False, cut: bool = False) -> str | None:
    turn: Any = (
        read_tags(reply, last=last, cut=cut)
        if grammar == "vrag"
        else read_call(reply, KNOWN, last=last, cut=cut)
    )
    return turn.action.text if isinstance(turn.action, Answer | AnswerNode) else None


@given(TEXTS, CUTS, st.booleans(), st.sampled_from(["", "<think>why</think>\n", "why</think> ", "Well. "]))
@example("12", [1], False, "Well. ")
def test_the_answer_in_an_element_is_that_of_the_parser(
    text: str, cuts: list[int], is_closed: bool, before: str
) -> None:
    reply = f"{before}<answer>{text}" + "</answer>" * is_closed
    read = read_in_pieces(reader_of("vrag", last=False), reply, cuts)
    answer = final("vrag", reply)
    if answer is not None:
        assert answer.startswith(read)
        assert not is_closed or read == answer


@given(TEXTS, CUTS, st.booleans(), st.sampled_from([None, 2]), st.booleans())
def test_the_answer_in_a_tool_call_is_that_of_the_parser(
    text: str, cuts: list[int], is_ascii: bool, indent: int | None, is_text: bool
) -> None:
    arguments: Any = {"parent_ids": ["root"], "answer": text}
    if is_text:
        arguments = json.dumps(arguments, ensure_ascii=is_ascii)
    written = json.dumps({"name": ANSWER, "arguments": arguments}, ensure_ascii=is_ascii, indent=indent)
    reply = f"<think>why</think><tool_call>{written}</tool_call>"
    reader = reader_of("vimrag", last=False)
    read = read_in_pieces(reader, reply, cuts)
    answer = final("vimrag", reply)
    assert (answer or "") == read
    assert answer is None or reader.parents == ("root",)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: f"{variant['grammar']}-{variant['id']}")
@pytest.mark.parametrize("cuts", [[1], [3], [1000]])
def test_replies_as_models_write_them_are_read_as_the_parser_reads_them(
    variant: dict[str, Any], cuts: list[int]
) -> None:
    reader = reader_of(variant["grammar"], last=variant["last"])
    read = read_in_pieces(reader, variant["reply"], cuts)
    answer = final(variant["grammar"], variant["reply"], last=variant["last"], cut=variant["cut"])
    assert answer is None or answer.startswith(read)


@pytest.mark.parametrize(
    ("grammar", "reply"),
    [
        ("vrag", "<think>a</think><answer>84 million</answer>"),
        ("vrag", "<answer>84 million"),
        ("vrag", "a</think>\n<answer>84 million</answer>"),
        ("vrag", '<tool_call>{"name": "answer", "arguments": {"answer": "84 million"}}</tool_call>'),
        ("vrag", '{"name": "answer", "arguments": {"answer": "84 million"}}'),
        ("vrag", "<function=answer><parameter=answer>84 million</parameter></function>"),
        ("vimrag", render_call(AnswerNode(("root",), "84 million"))),
        (
            "vimrag",
            '{"name": "add_answer_node", "arguments": {"parent_ids": ["root"], "answer": "84 million"}}',
        ),
        ("vimrag", '<tool_call>{"add_answer_node": {"answer": "84 million"}}</tool_call>'),
        ("vimrag", '<tool_call>{"name": "add_answer_node", "answer": "84 million"}</tool_call>'),
        ("vimrag", '[TOOL_CALLS][{"name": "add_answer_node", "arguments": {"answer": "84 million"}}]'),
        (
            "vimrag",
            "<tool_call><function=add_answer_node><parameter=answer>84 million</parameter></function>",
        ),
        (
            "vimrag",
            "<tool_call>add_answer_node<arg_key>answer</arg_key><arg_value>84 million</arg_value>",
        ),
        ("vimrag", '```json\n{"name": "add_answer_node", "arguments": {"answer": "84 million"}}\n```'),
    ],
)
def test_every_form_is_read_before_it_is_complete(grammar: str, reply: str) -> None:
    assert final(grammar, reply) == "84 million"
    begun = reply[: reply.index("million")]
    assert reader_of(grammar, last=False).add(begun) == "84"
    assert read_in_pieces(reader_of(grammar, last=False), reply, [1]) == "84 million"


@pytest.mark.parametrize(
    ("grammar", "reply"),
    [
        ("vrag", "<think>I would answer <answer>84"),
        ("vrag", "<search>ferry <answer>84"),
        ("vrag", "<passage>it says <answer>84</answer></passage>"),
        ("vrag", "It rose. <answer>84"),
        ("vimrag", "<answer>84"),
        ("vimrag", '<tool_call>{"name": "add_search_node", "arguments": {"id": "a", "answer": "84'),
        ("vimrag", '<tool_call>{"arguments": {"answer": "84'),
    ],
)
def test_nothing_is_given_out_where_it_may_be_no_answer(grammar: str, reply: str) -> None:
    assert read_in_pieces(reader_of(grammar, last=False), reply, [1]) == ""


@pytest.mark.parametrize("grammar", ["vrag", "vimrag"])
def test_plain_text_after_a_thought_is_given_out_in_the_last_reply_only(grammar: str) -> None:
    reply = f"<think>a</think>\n{PROSE}"
    assert final(grammar, reply, last=True) == PROSE.strip()
    read = read_in_pieces(reader_of(grammar, last=True), reply, [5])
    assert PROSE.startswith(read)
    assert len(read) >= MIN_PLAIN_CHARS
    assert read_in_pieces(reader_of(grammar, last=False), reply, [5]) == ""
    assert read_in_pieces(reader_of(grammar, last=True), PROSE, [5]) == ""  # it may be the thought


@pytest.mark.parametrize(
    "begin", ["Let me search for it. ", "I will look at the page. ", "```\n", '{"a": 1, ', "Answer: "]
)
def test_plain_text_that_may_be_something_else_is_held_back(begin: str) -> None:
    assert read_in_pieces(reader_of("vrag", last=True), f"<think>a</think>{begin}{PROSE}", [7]) == ""


def test_text_that_turns_into_a_call_is_no_longer_given_out() -> None:
    reply = f"<think>a</think>{PROSE}"
    read = read_in_pieces(reader_of("vrag", last=True), f"{reply} <search>ferry</search>", [7])
    assert PROSE.startswith(read)
    assert "<" not in read


@given(st.text(max_size=60), CUTS, st.booleans())
def test_no_reply_is_too_strange(reply: str, cuts: list[int], last: bool) -> None:
    for grammar in ("vrag", "vimrag"):
        read_in_pieces(reader_of(grammar, last=last), reply, cuts)


def test_a_reply_that_never_ends_is_given_out_up_to_a_limit() -> None:
    reader = reader_of("vrag", last=False)
    read = reader.add("<answer>")
    for _ in range(50):
        read = reader.add("word " * 100)
    assert MAX_ANSWER_CHARS - 1000 < len(read) <= MAX_ANSWER_CHARS


def test_a_custom_action_before_the_answer_is_the_action() -> None:
    reader = AnswerReader(names=frozenset({"lookup"}))
    assert read_in_pieces(reader, "<lookup>a</lookup><answer>84</answer>", [1]) == ""
    assert parse("<lookup>a</lookup><answer>84</answer>", frozenset({"lookup"})).executed.endswith("lookup>")


@pytest.mark.parametrize(("answer", "read"), [("<ul>", "<ul>"), ("<lookup></lookup>", "")])
def test_tags_alone_are_given_out_once_the_answer_ends(answer: str, read: str) -> None:
    reader = AnswerReader()
    assert reader.add(f"<think>t</think><answer>{answer}") == ""
    assert reader.add("</answer>") == read
