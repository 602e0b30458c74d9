"""The text of a page: terms stand where they say, and each part of it is found once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_reader import page
from thread_time import at_most

from vrag.reading import page_text
from vrag.reading.page_faults import collect_page_faults
from vrag.reading.page_text import read_page_text
from vrag.reading.views.text_lines import list_sentences
from vrag.text.terms import one_edit_apart, stem, tokens


def test_inflected_words_share_a_stem() -> None:
    for forms in (
        ("report", "Reports", "reported", "reporting"),
        ("city", "cities"),
        ("cause", "causes", "causing"),
    ):
        assert len({stem(form) for form in forms}) == 1, forms


@given(st.text(max_size=80))
def test_tokens_stand_where_they_say(text: str) -> None:
    for token in tokens(text):
        assert 0 <= token.start < token.end <= len(text)
        assert token.term


@given(st.text(alphabet="abc", min_size=1, max_size=5), st.integers(0, 4), st.sampled_from("abc"))
def test_one_lost_letter_is_one_edit(word: str, at: int, letter: str) -> None:
    longer = word[:at] + letter + word[at:]
    assert one_edit_apart(word, longer)
    assert one_edit_apart(longer, word)


def test_the_text_of_an_item_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    item = page((0.1, 0.1, "Harbour of Lindholm"), (0.1, 0.3, "Fees of 2026"), name="once.pdf")
    found = read_page_text(item)
    monkeypatch.setattr(page_text, "_place_words", None)

    assert read_page_text(replace(item)) is found
    assert found.line_terms == (("harbour", "of", "lindholm"), ("fee", "of", "2026"))
    assert [item.text[start:end] for start, end in found.segments] == ["Harbour of Lindholm", "Fees of 2026"]
    assert found.segments is read_page_text(item).segments


def test_another_version_of_an_item_is_read_anew() -> None:
    item = page((0.1, 0.1, "Harbour of Lindholm"), name="moved.pdf")
    moved = page((0.5, 0.6, "Harbour of Lindholm"), name="moved.pdf")

    assert read_page_text(item).lines[0].rect.y1 == pytest.approx(0.1)
    assert read_page_text(moved).lines[0].rect.y1 == pytest.approx(0.6)
    assert read_page_text(item).lines[0].rect.y1 == pytest.approx(0.1)


def test_tables_values_and_straight_words_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    item = page((0.1, 0.1, "58"), (0.1, 0.13, "miss the bakery on board"), name="parts.pdf")
    found = read_page_text(item)
    first = found.tables(lambda: None), found.values
    assert [value.text for value in found.values] == ["58"]
    for part in ("find_tables", "find_labelled_values", "list_straight_views"):
        monkeypatch.setattr(page_text, part, None)

    assert (found.tables(lambda: None), found.values) == first
    assert found.views[0].words.item is item


def test_what_could_not_be_found_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read_page_text(page((0.1, 0.1, "58"), (0.1, 0.13, "of the bakery"), name="again.pdf"))
    with monkeypatch.context() as broken, collect_page_faults() as faults:
        broken.setattr(page_text, "find_labelled_values", None)
        assert found.values == ()

    assert len(faults) == 1
    assert found.values


def test_each_form_has_the_line_on_which_it_stands() -> None:
    found = read_page_text(page((0.1, 0.1, "Harbour fees"), (0.1, 0.3, "of 1,234"), name="forms.pdf"))
    assert [(form.key, found.form_lines[number]) for number, form in enumerate(found.forms)] == [
        ("harbour", 0),
        ("fees", 0),
        ("of", 1),
        ("1234", 1),
    ]
    assert found.form_places["1234"] == [3]


@pytest.mark.parametrize(
    "sentences",
    [
        ["The sales tax is 9.25 % of the price.", "It is due in May."],
        ["Growth was low (less than 0.5%).", "It rose to 2.5% at example.org, they said.", "Good!"],
        ["He said “Go.”", "Then he left."],
        ["一共四百。", "没有！"],
        ["Wait...", "what?"],
    ],
)
def test_a_sentence_of_a_text_without_picture_ends_at_no_point_inside_a_number(sentences: list[str]) -> None:
    text = " ".join(sentences)
    assert [text[line.start : line.end] for line in list_sentences(text)] == sentences


@pytest.mark.parametrize(
    "text", [" " * 40_000, "." * 40_000, ".a" * 20_000, "a" + " " * 40_000, "a.. " * 10_000]
)
def test_sentences_of_a_text_are_found_in_time(text: str) -> None:
    with at_most(5):
        list_sentences(text)
