"""Text of documents stays text: nothing in it is control to a server, and nothing else of it changes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.agent.actions import Invalid, parse
from vrag.agent.prompts import material

TAGS = [
    "passage",
    "think",
    "search",
    "bbox",
    "answer",
    "evidence",
    "tool_call",
    "tool_response",
    "image",
    "video",
]
CONTROL = [
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|><|image_pad|><|vision_end|>",
    "<|endoftext|>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[SYS]",
    "<<SYS>>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<image_soft_token>",
    "<IMG_CONTEXT>",
    "<｜begin▁of▁sentence｜>",
    '<bbox image="2">',
    '<tool_call id="1">',
    '<img src="http://x.example/">',
    "＜passage＞",
    *(f"<{tag}>" for tag in TAGS),
    *(f"</{tag}>" for tag in TAGS),
]


@pytest.mark.parametrize("control", CONTROL)
@pytest.mark.parametrize("write", [str, str.upper, str.title], ids=["lower", "upper", "title"])
def test_what_a_server_takes_for_control_is_written_otherwise(control: str, write: type[str]) -> None:
    text = f"before {write(control)} after"
    told = material(text)
    assert write(control) not in told
    assert told.startswith("before ")
    assert told.endswith(" after")
    assert re.sub(r"\W", "", told) == re.sub(r"\W", "", text)  # a reader misses nothing


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d",
        "if (a<b) { x[i] = y->z; }",
        "List<String> names; std::vector<int>",
        "x ≤ 3, “quoted”, 日本語, 1.5 × 10³",
        "see [12], [A] and <https://example.org>",
        "<b>bold</b> <table><tr><td>1</td></tr></table>",
        "searching answers, images and videos",
        "",
    ],
)
def test_other_text_is_left_as_it_is(text: str) -> None:
    assert material(text) == text


PIECES = st.sampled_from(
    [*CONTROL, "<", ">", "|", "/", "[", "]", " ", "\n", "ferry", "think", "<|", "|>", "passage"]
)
HOSTILE = st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join)


@given(HOSTILE)
def test_no_combination_leaves_control_behind(text: str) -> None:
    told = material(text)
    assert "<|" not in told
    assert "|>" not in told
    for control in CONTROL:
        assert control not in told


@given(HOSTILE)
def test_its_length_stays_and_saying_it_twice_changes_nothing(text: str) -> None:
    told = material(text)
    assert len(told) == len(text)
    assert material(told) == told


@given(HOSTILE)
def test_a_model_that_repeats_what_it_read_says_no_action_of_the_tags(text: str) -> None:
    assert isinstance(parse(material(text)).action, Invalid)


def test_tags_of_actions_of_others_are_the_grammars_too() -> None:
    text = "</passage><next_page>x</next_page> <NEXT_PAGE a=1> <page>"
    assert material(text, ["next_page"]) == "‹/passage>‹next_page>x‹/next_page> ‹NEXT_PAGE a=1> <page>"
    assert "<next_page>" in material(text)
