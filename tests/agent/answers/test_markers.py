"""Markers of models are taken out of answers; brackets that belong to the answer stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.agent.answers.markers import MAX_MARKER_NUMBERS, take_markers


def nothing_known(_: str) -> bool:
    return False


def read(answer: str, *known: str) -> tuple[str, list[tuple[int, tuple[str, ...]]]]:
    taken = take_markers(answer, lambda name: name in known)
    return taken.text, [(marker.at, marker.references) for marker in taken.markers]


@pytest.mark.parametrize(
    ("answer", "text", "markers"),
    [
        ("84,210 [2]", "84,210", [(6, ("2",))]),
        ("It rose [1].", "It rose.", [(7, ("1",))]),
        ("It rose.[1] It fell [2][3].", "It rose. It fell.", [(8, ("1",)), (16, ("2", "3"))]),
        ("It rose [1, 3] to 9.", "It rose to 9.", [(7, ("1", "3"))]),
        ("It rose [1–3].", "It rose.", [(7, ("1", "2", "3"))]),
        ("It rose [Image 2], it fell [Text 1].", "It rose, it fell.", [(7, ("2",)), (16, ("Text 1",))]),
        ("It rose (images 1 and 2).", "It rose.", [(7, ("1", "2"))]),
        ("It rose [^2].", "It rose.", [(7, ("2",))]),
        ("It rose 【2†source】.", "It rose.", [(7, ("2",))]),
        ("It rose [2](#2).", "It rose.", [(7, ("2",))]),
        ("涨了【1】。然后跌了[2]。", "涨了。然后跌了。", [(2, ("1",)), (7, ("2",))]),
        ("- x [1]\n- y [2]", "- x\n- y", [(3, ("1",)), (7, ("2",))]),
    ],
)
def test_markers_in_all_forms_are_read(
    answer: str, text: str, markers: list[tuple[int, tuple[str, ...]]]
) -> None:
    assert read(answer) == (text, markers)


@pytest.mark.parametrize(
    "answer",
    [
        "[1, 2]",
        "[3]",
        "The range is [0, 5].",
        "The range is [1, 5].",
        "Pages: [2, 3]",
        "['a', 'b']",
        "`a[1]` is the second",
        "```\na [1]\n```",
        "$$x [1]$$",
        "Tables [see below] say so",
        "In [2020] it rose",
        "a [link](http://example.org/1)",
    ],
)
def test_a_bracket_that_belongs_to_the_answer_stays(answer: str) -> None:
    assert read(answer) == (answer, [])


def test_names_are_markers_where_they_can_be_cited() -> None:
    assert read("It rose [fares; winter] and [sic] fell.", "fares", "winter") == (
        "It rose and [sic] fell.",
        [(7, ("fares", "winter"))],
    )
    assert read("It rose [fares, Picture 1].", "fares", "Picture 1", "fares, Picture 1")[1] == [
        (7, ("fares, Picture 1",))
    ]


def test_a_marker_refers_to_a_bounded_number_of_things() -> None:
    _, [(_, references)] = read("It rose [1–999].")
    assert len(references) == MAX_MARKER_NUMBERS


MESSY = st.text(st.sampled_from("ab 12,.[]()【】^†`$\n图-–;&"), max_size=60)


@given(MESSY)
def test_any_text_is_read_and_only_brackets_are_taken_out(answer: str) -> None:
    taken = take_markers(answer, nothing_known)
    assert all(0 <= marker.at <= len(taken.text) for marker in taken.markers)
    assert [marker.at for marker in taken.markers] == sorted(marker.at for marker in taken.markers)
    if not taken.markers:
        assert taken.text == answer
    else:
        assert any(character.isalnum() for character in taken.text)
        rest = iter(answer)
        assert all(character in rest for character in taken.text)  # nothing was added or moved


@given(MESSY)
def test_an_answer_without_markers_is_read_as_it_is(answer: str) -> None:
    once = take_markers(answer, nothing_known).text
    if "[" not in once and "【" not in once and "(" not in once:
        assert take_markers(once, nothing_known).text == once
