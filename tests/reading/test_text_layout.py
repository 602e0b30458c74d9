"""Terms of a text: inflected words share a stem, and each term stands where it says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vrag.reading.text_layout import one_edit_apart, stem, tokens


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
