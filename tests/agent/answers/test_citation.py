"""Markers stand behind what they cite, and their offsets are those of the text with markers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.agent.answers.citation import Citation, with_markers


def cite(start: int, end: int, *numbers: int) -> Citation:
    return Citation(start=start, end=end, numbers=numbers, source="matched")


@pytest.mark.parametrize(
    ("text", "citations", "marked"),
    [
        ("84,210", [cite(0, 6, 1)], "84,210 [1]"),
        ("It rose. It fell.", [cite(9, 17, 2), cite(0, 8, 1, 3)], "It rose [1][3]. It fell [2]."),
        ("涨了。", [cite(0, 3, 1)], "涨了 [1]。"),
        ("…", [cite(0, 1, 1)], "… [1]"),
        ("| a |\n| - |\n| 1 |", [cite(0, 17, 1)], "| a |\n| - |\n| 1 [1] |"),
        ("| a | 1 |\n| b | 2 |", [cite(0, 9, 1), cite(10, 19, 2)], "| a | 1 [1] |\n| b | 2 [2] |"),
        ("So:\n```\nx\n```", [cite(0, 13, 1)], "So:\n```\nx\n```\n\n[1]"),
        ("Nothing cited.", [], "Nothing cited."),
    ],
)
def test_markers_stand_before_the_stop_of_what_they_cite(
    text: str, citations: list[Citation], marked: str
) -> None:
    assert with_markers(text, citations).text == marked


@given(
    st.text(st.sampled_from("ab .!。\n|`"), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(1, 9)), max_size=5),
)
def test_offsets_are_those_of_the_markers_and_the_text_is_kept(
    text: str, places: list[tuple[int, int, int]]
) -> None:
    citations = [cite(min(a, b, len(text)), min(max(a, b), len(text)), number) for a, b, number in places]
    marked = with_markers(text, citations)
    assert all(marked.text[m.start : m.end] == f"[{m.number}]" for m in marked.markers)
    rest = iter(marked.text)
    assert all(character in rest for character in text)
