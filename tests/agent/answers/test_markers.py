"""Markers of models are taken out of answers; brackets that belong to the answer stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.agent.answers.markers import MAX_MARKER_NUMBERS, NODE_ID, take_markers

SHOWN = "1", "2", "3", "Image 1", "Image 2", "Text 1", "Picture 2"


def read(answer: str, *known: str) -> tuple[str, list[tuple[int, tuple[str, ...]]]]:
    names = {*SHOWN, *known}
    taken = take_markers(answer, lambda name: f"<{name}>" if name in names else None)
    return taken.text, [(marker.at, marker.references) for marker in taken.markers]


def read_with_ids(answer: str) -> tuple[str, list[tuple[int, tuple[str, ...]]]]:
    """Read an answer whose evidence has ids."""
    taken = take_markers(
        answer,
        lambda name: f"<{name}>" if name in {*SHOWN, "fares"} else "" if NODE_ID.fullmatch(name) else None,
    )
    return taken.text, [(marker.at, marker.references) for marker in taken.markers]


@pytest.mark.parametrize(
    ("answer", "text", "markers"),
    [
        ("84,210 [2]", "84,210", [(6, ("2",))]),
        ("It rose [1].", "It rose.", [(7, ("1",))]),
        ("It rose.[1] It fell [2][3].", "It rose. It fell.", [(8, ("1",)), (16, ("2", "3"))]),
        ("It rose [1, 3] to 9.", "It rose to 9.", [(7, ("1", "3"))]),
        ("It rose [1–3].", "It rose.", [(7, ("1", "2", "3"))]),
        ("It rose [Image 2], it fell [Text 1].", "It rose, it fell.", [(7, ("Image 2",)), (16, ("Text 1",))]),
        ("It rose (images 1 and 2).", "It rose.", [(7, ("Image 1", "Image 2"))]),
        ("It rose (see image 2).", "It rose.", [(7, ("Image 2",))]),
        ("It rose [[1]].", "It rose.", [(7, ("1",))]),
        ("It rose ［1］.", "It rose.", [(7, ("1",))]),
        ("It rose [Text 1, Image 2].", "It rose.", [(7, ("Text 1", "Image 2"))]),
        ("It rose [1: page 3].", "It rose.", [(7, ("1",))]),
        ("It rose [1]–[3] at once.", "It rose at once.", [(7, ("1", "2", "3"))]),
        ("It rose [1], [2].", "It rose.", [(7, ("1", "2"))]),
        ("**84,210** [1]", "**84,210**", [(10, ("1",))]),
        ("It rose [9].", "It rose.", [(7, ("9",))]),
        ("It rose [^2].", "It rose.", [(7, ("2",))]),
        ("It rose 【2†source】.", "It rose.", [(7, ("2",))]),
        ("It rose [1](http://example.org/1).", "It rose.", [(7, ("1",))]),
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
        "The 95% CI [12, 15] was found.",
        "The values [4, 12] are the fares.",
        "x = a[1] + b[2]",
        "It costs $x[1]$.",
        "x lies in [7, 9].",
        "Set [max_value] to 5.",
        "array[start_index].",
        "The total is [9].",
    ],
)
def test_a_bracket_that_belongs_to_the_answer_stays(answer: str) -> None:
    assert read(answer) == (answer, [])


@pytest.mark.parametrize(
    "answer",
    [
        "The column is called [user_id], and it is unique.",
        "The column is called [user_id].",
        "The primary key is [order_id]. It is unique.",
        "SELECT [first_name], [last_name] FROM t.",
        "SELECT [first_name] FROM [dbo_users] WHERE [user_id] = 7",
        "SELECT * FROM t ORDER BY [created_at].",
        "SELECT [a_b]\nFROM [c_d]\nWHERE [e_f] IS NULL",
        "The options are [dry_run], [no_cache].",
        "Use the options [dry_run] and [no_cache].",
        "Call it with the flag (no_cache).",
        "Run it once. (no_cache) is the default.",
        "It is an int (user_id, order_id).",
        "There are two keys. [user_id], [order_id] make the row unique.",
        "There are two keys. [user_id] is the first.",
        "- [user_id]: the user\n- [order_id]: the order",
        "Sort the rows by [created_at].",
        "The value in [5] is 3.",
        "The element at [5] is 3.",
        "The value at index [5] is 3.",
        "The keys are [7], [8], [9].",
        "[5] is a list of one number.",
        "[5], [6] are lists.",
        "[5] + [6] = [5, 6]",
        "- [5] apples\n- [4] pears",
        "- [5] Apples\n- [4] Pears",
        "[5] Apples\nThey are red.\n\n[4] Pears",
        "1. [5] Apples\n2. [4] Pears",
        "[5] apples",
        "x ∈ [7, 9].",
        "The values lie within [7, 9].",
        "The rates [6, 12].",
    ],
)
def test_words_and_values_in_brackets_that_may_be_of_the_answer_stay(answer: str) -> None:
    assert read(answer) == (answer, [])
    assert read_with_ids(answer) == (answer, [])


@pytest.mark.parametrize(
    ("answer", "text", "markers"),
    [
        ("It rose. [fares_2024]", "It rose.", [(8, ("fares_2024",))]),
        ("It rose. [fares_2024] It fell.", "It rose. It fell.", [(8, ("fares_2024",))]),
        ("It rose. [fares_2024][fares_2025]", "It rose.", [(8, ("fares_2024", "fares_2025"))]),
        ("See [fares_2024].", "See ….", [(5, ("fares_2024",))]),
        ("According to [node fares_2024], it rose.", "According to …, it rose.", [(14, ("fares_2024",))]),
        ("It rose [1], [fares_2024].", "It rose.", [(7, ("1", "fares_2024"))]),
        ("It rose [fares; fares_2024] fast.", "It rose fast.", [(7, ("fares", "fares_2024"))]),
        ("It rose [1] (fares_2024).", "It rose (fares_2024).", [(7, ("1",))]),
        ("According to [9], it rose.", "According to …, it rose.", [(14, ("9",))]),
    ],
)
def test_an_id_that_names_nothing_is_a_marker_where_evidence_has_ids_and_something_is_cited(
    answer: str, text: str, markers: list[tuple[int, tuple[str, ...]]]
) -> None:
    assert read_with_ids(answer) == (text, markers)


def test_names_are_markers_where_they_can_be_cited() -> None:
    assert read("It rose [fares; winter] and [sic] fell.", "fares", "winter") == (
        "It rose and [sic] fell.",
        [(7, ("fares", "winter"))],
    )
    assert read("It rose [fares, Picture 1].", "fares", "Picture 1", "fares, Picture 1")[1] == [
        (7, ("fares, Picture 1",))
    ]


@pytest.mark.parametrize(
    ("answer", "text", "markers"),
    [
        ("According to [2], it rose.", "According to <2>, it rose.", [(16, ("2",))]),
        ("[2] says so. [1] says no.", "<2> says so. <1> says no.", [(3, ("2",)), (16, ("1",))]),
        ("See [1] and [2] too.", "See <1> and <2> too.", [(7, ("1",)), (15, ("2",))]),
        ("The total is [2].", "The total is 2.", []),
    ],
)
def test_a_marker_that_is_a_word_becomes_the_name_of_what_it_cites(
    answer: str, text: str, markers: list[tuple[int, tuple[str, ...]]]
) -> None:
    assert read(answer) == (text, markers)


@pytest.mark.parametrize(
    ("answer", "text", "markers"),
    [
        ("According to [9], it rose.", "According to …, it rose.", [(14, ("9",))]),
        ("[9] shows that it rose.", "… shows that it rose.", [(1, ("9",))]),
        ("[9] It rose.", "It rose.", [(0, ("9",))]),
        ("See [1] and [9] too.", "See <1> too.", [(7, ("1",)), (7, ("9",))]),
        ("It fell [1]. See [9] too.", "It fell. See … too.", [(7, ("1",)), (14, ("9",))]),
        ("It rose [7, 8].", "It rose.", [(7, ("7", "8"))]),
        ("As shown in [9], it rose.", "As shown in …, it rose.", [(13, ("9",))]),
        ("In [9], it rose.", "In …, it rose.", [(4, ("9",))]),
        ("The table in [9] lists it.", "The table in … lists it.", [(14, ("9",))]),
        ("The fares in [Image 9] rose.", "The fares in … rose.", [(14, ("Image 9",))]),
        ("[1] It rose.\n[9] It fell.", "It rose.\nIt fell.", [(0, ("1",)), (9, ("9",))]),
        ("[[9]] It rose.", "It rose.", [(0, ("9",))]),
        ("It rose 5% [9].", "It rose 5%.", [(10, ("9",))]),
        ("根据[9]，涨了。", "根据…，涨了。", [(3, ("9",))]),
    ],
)
def test_a_marker_that_names_nothing_shown_is_taken_out_wherever_it_stands(
    answer: str, text: str, markers: list[tuple[int, tuple[str, ...]]]
) -> None:
    assert read(answer) == (text, markers)


def test_a_marker_before_its_sentence_leads() -> None:
    taken = take_markers("- [1] It rose.\n- [2] It fell.", lambda name: name)
    assert taken.text == "- It rose.\n- It fell."
    assert [(marker.at, marker.leads) for marker in taken.markers] == [(2, True), (13, True)]


@pytest.mark.parametrize(
    "references",
    [
        "\n\nSources:\n[1] prices.pdf, page 1\n[2] winter.pdf, page 1",
        "\n\n[^1]: prices.pdf\n",
        "\n参考：\n- [1] a",
    ],
)
def test_a_list_of_references_at_the_end_is_dropped(references: str) -> None:
    assert read(f"It rose [1].{references}") == ("It rose.", [(7, ("1",))])


def test_nodes_are_named_in_several_ways() -> None:
    assert read("It rose [node fares] there [fares: Picture 2].", "fares", "fares, Picture 2") == (
        "It rose there.",
        [(7, ("fares",)), (13, ("fares, Picture 2",))],
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "[ ",
        " ",
        "x [1] ",
        "\n[9] So",
        "[9] ",
        "[",
        "((",
        "[1",
        "$ a ",
        "`a",
        "\\[",
        "【",
        "\n",
        "[^1]: x\n",
        "[ ^",
    ],
)
def test_long_answers_that_repeat_a_piece_are_read(piece: str) -> None:
    """The time is linear: with a quadratic expression, this test does not end."""
    taken = take_markers("x" + piece * 40_000 + "y", lambda name: name if name == "1" else None)
    assert taken.text.startswith("x")


def test_a_marker_refers_to_a_bounded_number_of_things() -> None:
    _, [(_, references)] = read("It rose [1–999].")
    assert len(references) <= MAX_MARKER_NUMBERS


MESSY = st.text(st.sampled_from("ab 12,.[]()【】^†`$\n图-–;&"), max_size=60)


@given(MESSY)
def test_any_text_is_read_and_only_brackets_are_taken_out(answer: str) -> None:
    taken = take_markers(answer, lambda _: None)
    assert all(0 <= marker.at <= len(taken.text) for marker in taken.markers)
    assert [marker.at for marker in taken.markers] == sorted(marker.at for marker in taken.markers)
    rest = iter(answer)
    assert all(character in rest for character in taken.text)  # nothing was added or moved
    if taken.markers:
        assert any(character.isalnum() for character in taken.text)


@given(MESSY)
def test_no_number_of_the_model_that_was_shown_remains_by_itself(answer: str) -> None:
    taken = take_markers(f"It rose [1] {answer}", lambda name: "it" if name == "1" else None)
    assert "[1]" not in taken.text or "`" in answer or "$" in answer or "[" in answer
