"""Terms of a text: inflected words share a stem, and each term stands where it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_reader import page

from vrag.reading import text_layout
from vrag.reading.text_layout import layout, one_edit_apart, stem, tokens


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
    found = layout(item)
    monkeypatch.setattr(text_layout, "_find_layout", None)

    assert layout(replace(item)) is found
    assert found.line_terms == (("harbour", "of", "lindholm"), ("fee", "of", "2026"))
    assert [item.text[start:end] for start, end in found.segments] == ["Harbour of Lindholm", "Fees of 2026"]
    assert found.segments is layout(item).segments


def test_another_version_of_an_item_is_read_anew() -> None:
    item = page((0.1, 0.1, "Harbour of Lindholm"), name="moved.pdf")
    moved = page((0.5, 0.6, "Harbour of Lindholm"), name="moved.pdf")

    assert layout(item).lines[0].rect.y1 == pytest.approx(0.1)
    assert layout(moved).lines[0].rect.y1 == pytest.approx(0.6)
    assert layout(item).lines[0].rect.y1 == pytest.approx(0.1)
