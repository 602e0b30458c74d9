"""Properties of the beginning of an answer without its markers."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vrag.agent.answers.certain_markers import take_certain_markers
from vrag.agent.answers.markers import take_markers

_PIECES = (
    *("[1]", "[2]", "[1, 3]", "[1–3]", "[[1]]", "【2†source】", "[^2]", "(see image 2)", "[Text 1]", "［1］"),
    *(
        "[9]",
        "[node_a]",
        "[node_b]",
        "[ids_7]",
        "(ids_7)",
        "[8]",
        "See ",
        "[7, 8]",
        "[0, 5]",
        "[1](http://a.b/c)",
        "[note](x)",
        "[x[1]",
        "(a [1])",
        "([2])",
        "[",
        "]",
    ),
    *(
        "(",
        ")",
        "^",
        "`",
        "```",
        "$",
        "$$",
        "\\(",
        "\\[",
        "\\)",
        "$5",
        "`a[1]`",
        "$x[1]$",
        "x[1]",
        "![",
        "`\n",
    ),
    *("It rose", " fell", "word", "According to", " and ", ", ", " – ", "; ", " says", "says", " indicates"),
    *(". ", ".", "\n", "\n\n", " ", "   ", "- ", "1. ", ": ", "|", "| a | b |\n", "is ", "range ", "7", "%"),
    *("Sources:", "Sources", "**References**", "来源：", "So", "[1] first", "[^1]: note", "- [2] second"),
    " " * 41,
)
_TEXTS = st.lists(st.sampled_from(_PIECES), max_size=14).map("".join)
_KNOWN = {
    "ids_7": "",
    "1": "a.pdf, page 1",
    "2": "b.pdf, page 2",
    "3": "c",
    "Text 1": "d.txt",
    "node_a": "node_a",
}


def describe(reference: str) -> str | None:
    return _KNOWN.get(reference)


@given(_TEXTS, st.data())
@example("It rose [1]. Then", None)
@example("It rose\n[1]\n\nSources:\n[1] first", None)
@example("[8] So\n- [9] So", None)
@example("[8] So\n- [1] So", None)
@example("So\n[1, 3]\n[8] So[1] first", None)
@example("So. [ids_7] So [ids_7], [8]", None)
@example("[1] says it rose\n\n[^1]: note", None)
def test_what_is_certain_is_the_beginning_of_the_answer_without_markers(
    text: str, data: st.DataObject | None
) -> None:
    text = text.strip()
    whole = take_markers(text, describe)
    ends = range(len(text) + 1) if data is None else [data.draw(st.integers(0, len(text)))]
    for end in ends:
        certain = take_certain_markers(text[:end], describe)
        assert whole.text.startswith(certain.text), text[:end]
        if whole.markers:  # an answer of markers alone keeps them in its text
            places = [marker.at for marker in certain.markers]
            assert places == [marker.at for marker in whole.markers[: len(places)]]


@given(_TEXTS)
def test_what_is_certain_only_grows(text: str) -> None:
    before = ""
    for end in range(len(text) + 1):
        certain = take_certain_markers(text[:end], describe).text
        assert certain.startswith(before)
        before = certain


@pytest.mark.parametrize(
    ("begun", "certain"),
    [
        ("The fares", "The fares"),
        ("The fares ", "The fares"),
        ("It rose [1", "It rose"),
        ("It rose [1]", "It rose"),
        ("It rose [1].", "It rose."),
        ("It rose [1] an", "It rose"),
        ("It rose [1] and [2", "It rose"),
        ("It rose [1] and fell", "It rose and fell"),
        ("According to [2], it", "According to b.pdf, page 2, it"),
        ("It cost $5 [1]. Then", "It cost $5. Then"),
        ("It rose (by 3 %", "It rose"),
        ("It rose (by 3 %) in", "It rose (by 3 %) in"),
        ("```\na[1] = 2", "```\na[1] = 2"),
        ("It rose.\n\nSou", "It rose."),
        ("It rose.\n\nSources:\n[1] fares", "It rose."),
        ("It rose.\n\nSource data is", "It rose.\n\nSource data is"),
        ("[1]", ""),
        ("[9] It rose", ""),
        ("It rose.\n[9] It fell.\nIt", "It rose."),
        ("[1] It rose.\n[9] It fell", "It rose.\nIt fell"),
    ],
)
def test_text_is_held_back_only_where_it_may_still_change(begun: str, certain: str) -> None:
    assert take_certain_markers(begun, describe).text == certain
