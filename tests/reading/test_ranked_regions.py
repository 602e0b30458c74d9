"""Parts of pages for a question: the block that answers comes first, and no place is offered twice."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from vrag.geometry import Box, Size
from vrag.reading.line_scoring import locate
from vrag.reading.page_text import read_page_text
from vrag.reading.places.evidence_region import (
    MOST,
    NEW,
    RankedRegion,
    end_between_words,
    ranked_regions,
    region_around,
)
from vrag.reading.questions.query_analysis import parse
from vrag.reading.views.text_lines import Rect
from vrag.testing import page, passage
from vrag.types import Item, ItemKind, Word

SIZE = Size(1000, 1400)
FERRY = page(
    "ferry.pdf",
    1,
    "\n".join(
        [
            "The Lantern Ferry",
            *[""] * 8,
            "The ferry carried 48,200 passengers in 2024",
            *[""] * 8,
            "Tickets for children are free",
        ]
    ),
)
PRICES = page("prices.pdf", 1, "Prices\n\n\n\n\n\n\n\n\n\nA return ticket costs 12 crowns")
NOTES = passage("notes.md", 1, "The ferry does not run in January. Ice is the reason.")
SCAN = Item(id="scan-1", document="scan", document_name="scan.pdf", kind=ItemKind.PAGE, ordinal=1, size=SIZE)
WHOLE = Box.unit(0, 0, 1, 1)


def ranked(question: str, *items: Item, most: int = 10) -> list[RankedRegion]:
    return ranked_regions(question, [read_page_text(item) for item in items], most)


def word(item: Item, text: str) -> Box:
    start = item.text.index(text)
    return next(word.box for word in item.words if word.start == start)


def test_the_block_with_the_words_of_the_question_comes_first() -> None:
    first, *rest = ranked("How many passengers did the ferry carry in 2024?", FERRY, PRICES)
    assert first.item == FERRY.id
    assert first.box.covers(*word(FERRY, "48,200").center)
    assert all(first.score >= one.score for one in rest)
    assert [one.score for one in rest] == sorted((one.score for one in rest), reverse=True)


def test_a_page_further_down_comes_first_where_it_holds_more_of_the_question() -> None:
    assert ranked("What does a return ticket cost in crowns?", FERRY, PRICES)[0].item == PRICES.id


def test_a_block_is_as_good_as_its_best_line() -> None:
    lines = ["Ferries", "Nobody knows", "The ferry carried 48,200 passengers", "Nor the tide"]
    pages = [read_page_text(PRICES), read_page_text(page("block.pdf", 1, "\n".join(lines)))]
    question = "How many passengers did the ferry carry?"
    best = max(float(score) for found in locate(parse(question), pages) for score in found.score)
    first, *_ = ranked_regions(question, pages)
    assert (first.item, first.score) == (pages[1].item.id, best)
    assert len(pages[1].blocks) == 1


def test_the_same_place_of_another_page_is_offered_as_well() -> None:
    twin = page("twin.pdf", 1, FERRY.text)
    found = ranked("How many passengers did the ferry carry in 2024?", FERRY, twin, most=2)
    assert [one.item for one in found] == [FERRY.id, twin.id]
    assert found[0].box == found[1].box


def test_the_region_around_a_line_is_the_one_that_is_ranked() -> None:
    first = ranked("How many passengers did the ferry carry in 2024?", FERRY, PRICES)[0]
    lines = read_page_text(FERRY).lines
    assert first.box in {region_around(read_page_text(FERRY), line.rect.box()) for line in lines}


def test_a_text_without_picture_is_one_region_and_a_page_without_words_is_none() -> None:
    found = ranked("When does the ferry not run?", SCAN, NOTES)
    assert [(one.item, one.box) for one in found] == [(NOTES.id, WHOLE)]
    assert ranked("When does the ferry not run?", SCAN) == []
    assert ranked("When does the ferry not run?") == []


def test_no_more_are_given_than_were_asked_for() -> None:
    assert len(ranked("ferry", FERRY, PRICES, NOTES)) > 2
    assert len(ranked("ferry", FERRY, PRICES, NOTES, most=2)) == 2
    assert ranked("ferry", FERRY, most=0) == []


@st.composite
def pages(draw: st.DrawFn) -> Item:
    """Words anywhere on a page, in boxes that may overlap."""
    said = draw(st.lists(st.sampled_from(["ferry", "ticket", "ice", "2024", "pier"]), max_size=12))
    words, text = list[Word](), ""
    for one in said:
        x, y = draw(st.tuples(st.integers(0, 9), st.integers(0, 19)))
        box = Box.unit(x / 10, y / 20, (x + 1) / 10, (y + 0.5) / 20)
        words.append(Word(len(text), len(text) + len(one), box))
        text += one + draw(st.sampled_from([" ", "\n"]))
    number = draw(st.integers(1, 10**6))
    return Item(
        id=f"p-{number}", document="p", document_name="p.pdf", kind=ItemKind.PAGE, ordinal=number, text=text,
        words=tuple(words), size=SIZE,
    )  # fmt: skip


@given(st.lists(pages(), max_size=3, unique_by=lambda item: item.id), st.sampled_from(["ferry 2024", "ice?"]))
def test_regions_lie_on_their_pages_and_are_news(items: list[Item], question: str) -> None:
    found = ranked(question, *items)
    assert {one.item for one in found} <= {item.id for item in items if item.words}
    for one in found:
        assert WHOLE.intersect(one.box) == one.box
        assert 0 < one.box.area <= MOST + 1e-9
    for before, after in combinations(found, 2):
        assert before.score >= after.score
        if before.item == after.item:
            assert after.box.intersect(before.box).area < (1 - NEW) * after.box.area + 1e-12


# Two columns of a page, each line of three words that stand where others do not in the next line.
COLUMNS = [
    Rect(left + 0.12 * word + shift, top, left + 0.12 * word + shift + 0.1, top + 0.03)
    for left in (0.08, 0.55)
    for line in range(16)
    for shift, top in [(0.03 * (line % 2), 0.1 + 0.05 * line)]
    for word in range(3)
]
SIDE = st.floats(0.0, 1.0)


def _overlap(a: Rect, b: Rect) -> float:
    return max(min(a.x2, b.x2) - max(a.x1, b.x1), 0.0) * max(min(a.y2, b.y2) - max(a.y1, b.y1), 0.0)


@given(SIDE, SIDE, SIDE, SIDE)
def test_a_rectangle_that_ends_between_words_cuts_none_and_keeps_its_own(
    a: float, b: float, c: float, d: float
) -> None:
    rect = Rect(min(a, b), min(c, d), max(a, b), max(c, d))
    moved = end_between_words(rect, COLUMNS)
    for word in COLUMNS:
        covered = _overlap(word, moved) / word.area
        assert covered < 1e-6 or covered > 1 - 1e-6
        if rect.box().covers(*word.box().center):
            assert covered > 1 - 1e-6
    assert end_between_words(moved, COLUMNS) == moved
    if rect.x1 < rect.x2 and rect.y1 < rect.y2:
        assert moved.x1 < moved.x2
        assert moved.y1 < moved.y2


def test_a_rectangle_between_two_centres_keeps_the_line_that_it_covers_most_of() -> None:
    moved = end_between_words(Rect(0.05, 0.118, 0.5, 0.164), COLUMNS)
    assert 0.13 < moved.y1 < 0.15
    assert 0.18 < moved.y2 < 0.2


def test_a_rectangle_ends_at_the_gap_between_columns_and_within_lines_that_overlap() -> None:
    moved = end_between_words(Rect(0.05, 0.11, 0.5, 0.24), COLUMNS)
    assert (moved.x1, moved.x2) == (0.05, 0.5)
    assert moved.y1 < 0.1
    assert 0.23 < moved.y2 < 0.25
    tight = [Rect(0.1, 0.1 + 0.05 * line, 0.9, 0.16 + 0.05 * line) for line in range(9)]
    moved = end_between_words(Rect(0.05, 0.18, 0.95, 0.27), tight)
    assert 0.15 <= moved.y1 <= 0.16
    assert 0.3 <= moved.y2 <= 0.31


def test_a_rectangle_without_words_around_it_stays() -> None:
    rect = Rect(0.2, 0.3, 0.4, 0.5)
    assert end_between_words(rect, []) == rect == end_between_words(rect, [Rect(0.5, 0.1, 0.9, 0.2)])
