"""Words are found whatever their case, accents, hyphens and line ends, and at their places."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.geometry import Box, Size
from vrag.server.viewer.text_search import FoldedText, find_matches, fold_query
from vrag.types import Item, ItemKind, Word


def found(text: str, query: str) -> list[str]:
    """What stands at the places where words are found."""
    return [text[start:end] for start, end, _ in FoldedText(text).matches(fold_query(query))]


@pytest.mark.parametrize(
    ("text", "query", "matches"),
    [
        ("Über den WOLKEN", "uber den wolken", ["Über den WOLKEN"]),
        ("cafe\u0301 and café", "CAFÉ", ["cafe\u0301"[:4], "café"]),
        ("the govern-\n  ment met", "government met", ["govern-\n  ment met"]),
        ("co-operation and cooperation", "co-operation", ["co-operation", "cooperation"]),
        ("in 2019–2020", "2019-2020", ["2019–2020"]),
        ("net\nrevenue\n\ngrew", "net revenue grew", ["net\nrevenue\n\ngrew"]),
        ("a\u00adb of\u00a0it", "ab of it", ["a\u00adb of\u00a0it"]),
        ("Straße, STRASSE", "strasse", ["Straße", "STRASSE"]),
        ("the ﬁrst oﬃce", "first office", ["ﬁrst oﬃce"]),
        ("日本\n語の文書", "日本語", ["日本\n語"]),
        ("日本語", "本", ["本"]),
        ("ガス", "カス", []),
        ("한국어 문서", "한국어", ["한국어"]),
        ("하루", "한", []),
        ("שָׁלוֹם", "שלום", ["שָׁלוֹם"]),
        ("أحمد", "احمد", ["أحمد"]),
        ("It’s “so”", 'it\'s "so"', ["It’s “so”"]),
        ("word—word", "word word", ["word—word"]),
        ("aaaa", "aa", ["aa", "aa"]),
        ("nothing", "thinx", []),
    ],
)
def test_words_are_found(text: str, query: str, matches: list[str]) -> None:
    assert found(text, query) == matches


@pytest.mark.parametrize("query", ["-", " \n ", "\u00ad", "\u0301"])
def test_a_query_of_nothing_that_is_compared_is_empty(query: str) -> None:
    assert fold_query(query) == ""


WORDS = st.lists(st.sampled_from(["alpha", "Beta", "gämma", "ДЕЛЬТА", "e\u0301psilon", "ﬁve"]), min_size=1)
GAPS = st.lists(st.sampled_from([" ", "\n", "  ", "\r\n", " \n\n "]), min_size=30, max_size=30)


@given(WORDS, GAPS, st.integers(0, 3), st.integers(0, 3))
def test_words_in_a_row_are_found_where_they_stand(
    words: list[str], gaps: list[str], before: int, after: int
) -> None:
    words = words[:30]
    pieces = [part for pair in zip(words, gaps, strict=False) for part in pair]
    sought = words[before : len(words) - after]
    if not sought:
        return
    text = "".join(pieces)
    start = sum(len(word) + len(gap) for word, gap in zip(words[:before], gaps, strict=False))
    places = list(FoldedText(text).matches(fold_query(" ".join(sought))))
    starts = {match.start for match in places}
    if len(sought) == len(words):
        assert starts == {start}
    assert places


@given(st.text(max_size=60), st.data())
def test_what_stands_at_a_place_has_the_words(text: str, data: st.DataObject) -> None:
    folded = FoldedText(text)
    start = data.draw(st.integers(0, len(folded.text)))
    query = folded.text[start : data.draw(st.integers(start, len(folded.text)))].strip()
    if not query:
        return
    places = list(folded.matches(query))
    assert len(places) == folded.text.count(query)
    for first, second in itertools.pairwise(places):
        assert first.start < second.start
    for match in places:
        assert 0 <= match.start < match.end <= len(text)
        assert query in FoldedText(text[match.start : match.end]).text


def item(*words: tuple[str, float, float, float, float], glue: str = " ") -> Item:
    """A page with these words and their boxes, joined in order."""
    text, placed = "", list[Word]()
    for word, *sides in words:
        text += glue if text else ""
        placed.append(Word(len(text), len(text) + len(word), Box.unit(*sides)))
        text += word
    return Item(
        id="0" * 16 + "-1",
        document="0" * 64,
        document_name="a.pdf",
        kind=ItemKind.PAGE,
        ordinal=1,
        text=text,
        words=tuple(placed),
        size=Size(1000, 1000),
    )


def test_a_match_has_a_rectangle_for_each_line() -> None:
    page = item(
        ("net", 0.7, 0.1, 0.8, 0.12), ("revenue", 0.82, 0.1, 0.95, 0.12), ("grew", 0.1, 0.14, 0.2, 0.16)
    )
    (match,) = find_matches(page, fold_query("net revenue grew"))
    assert match.boxes == ((0.7, 0.1, 0.95, 0.12), (0.1, 0.14, 0.2, 0.16))


def test_a_part_of_a_word_has_a_part_of_its_rectangle() -> None:
    (match,) = find_matches(item(("abcd", 0.2, 0.1, 0.6, 0.2)), "bc")
    assert match.boxes == (pytest.approx((0.3, 0.1, 0.5, 0.2)),)


def test_words_of_two_columns_have_two_rectangles() -> None:
    page = item(("left", 0.1, 0.1, 0.2, 0.12), ("right", 0.6, 0.1, 0.7, 0.12))
    (match,) = find_matches(page, fold_query("left right"))
    assert len(match.boxes) == 2


def test_a_text_without_words_has_places_without_rectangles() -> None:
    passage = Item(
        id="0" * 16 + "-1",
        document="0" * 64,
        document_name="a.md",
        kind=ItemKind.PASSAGE,
        ordinal=1,
        text="One ferry and another Ferry.",
    )
    assert [match[:2] for match in find_matches(passage, "ferry")] == [(4, 9), (22, 27)]


def test_words_written_sideways_have_one_rectangle() -> None:
    page = item(("net", 0.1, 0.5, 0.12, 0.56), ("revenue", 0.1, 0.36, 0.12, 0.49))
    (match,) = find_matches(page, fold_query("net revenue"))
    assert match.boxes == ((0.1, 0.36, 0.12, 0.56),)
