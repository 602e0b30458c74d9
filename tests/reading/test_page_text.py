"""The text of a page: terms stand where they say, and each part of it is found once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_reader import page

from vrag.reading import page_text
from vrag.reading.page_faults import collect_page_faults
from vrag.reading.page_text import read_page_text
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
