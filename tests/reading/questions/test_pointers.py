from __future__ import annotations

from dataclasses import replace

import pytest

from vrag.reading.line_scoring import locate
from vrag.reading.page_text import read_page_text
from vrag.reading.questions.pointers import (
    CaptionFit,
    NamedPart,
    find_named_parts,
    find_positions,
    match_page,
    named_pages,
)
from vrag.reading.questions.query_analysis import parse, search_query
from vrag.types import Item, ItemFacts, ItemKind, item_id


def page(ordinal: int, label: str = "") -> Item:
    return Item(
        id=item_id("d" * 64, ordinal),
        document="d" * 64,
        document_name="book.pdf",
        kind=ItemKind.PAGE,
        ordinal=ordinal,
        text="The first boats came in 1874.",
        facts=ItemFacts(label=label),
    )


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("What is on page 12?", {"12"}),
        ("What does Page iv say?", {"iv"}),
        ("the appendix, page A-3", {"a-3"}),
        ("page XII of the foreword", {"xii"}),
        ("Compare p. 5 with pp. 7-9.", {"5", "7-9", "7", "8", "9"}),
        ("pages 3 to 5 and 9", {"3", "4", "5", "9"}),
        ("Was steht auf S. 12?", {"12"}),
        ("Auf Seite 7 oder 8?", {"7", "8"}),
        ("¿Qué dice la página 4?", {"4"}),
        ("第3页と12ページ", {"3", "12"}),
    ],
)
def test_page_numbers_are_found_as_people_write_them(text: str, numbers: set[str]) -> None:
    assert named_pages(text) == numbers


@pytest.mark.parametrize(
    "text",
    [
        "Which page I should read?",
        "the page about 5 fees",
        "the U.S. 12 times",
        "page civil servants",
        "a page 1,200 people read",
        "the step. 4 more",
        "Fig. 3",
    ],
)
def test_other_numbers_are_no_pages(text: str) -> None:
    assert named_pages(text) == frozenset()


@pytest.mark.parametrize("text", ["What does S. 12 say?", "What is on p. 5?", "What is on page iv?"])
def test_the_words_that_are_searched_name_the_same_pages(text: str) -> None:
    assert named_pages(search_query(text)) == named_pages(text)


def test_the_words_that_are_searched_name_no_page_that_the_question_does_not_name() -> None:
    assert named_pages(search_query("What is the page about 5 fees?")) == frozenset()


def test_a_page_number_is_no_word_to_look_for() -> None:
    assert [term.text for term in parse("What does S. 12 say about boats?").terms] == ["boat"]


def test_the_printed_number_is_meant_first_and_the_position_too() -> None:
    asked = frozenset({"2"})
    printed, second, neither = page(4, "2"), page(2, "ii"), page(3, "1")
    assert match_page(printed, asked) > match_page(second, asked) > match_page(neither, asked) == 0
    assert match_page(page(2), asked) == match_page(printed, asked)
    assert match_page(second, frozenset({"ii"})) == match_page(printed, asked)


def test_a_page_with_the_number_asked_for_is_read_before_another_with_the_same_words() -> None:
    question = parse("What does page 2 say about the first boats?")

    def best_page(items: list[Item]) -> int:
        scored = locate(question, [read_page_text(item) for item in items])
        return max(scored, key=lambda each: float(each.score.max())).page.item.ordinal

    pages = [page(1, "i"), page(2, "ii"), page(3, "1"), page(4, "2")]
    plain = [replace(each, facts=ItemFacts()) for each in pages]
    assert best_page(pages) == 4
    assert best_page(plain) == 2


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("Who is on the cover?", [1]),
        ("the date on the title page", [1]),
        ("the second cover page", [2]),
        ("What stands on the first slide and on the last page?", [1, -1]),
        ("the second-to-last page", [-2]),
        ("Was steht auf der letzten Seite, was auf dem Deckblatt?", [-1, 1]),
        ("la dernière page", [-1]),
        ("封面和最后一页", [1, -1]),
        ("第二页", [2]),
        ("What does the insurance cover?", []),
        ("the last page of chapter 2", []),
        ("Did the cover letter come?", []),
        ("the first time that pages were counted", []),
    ],
)
def test_pages_are_named_by_their_place(text: str, places: list[int]) -> None:
    assert find_positions(text) == places


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("What does Figure 3 show?", {("figure", "3")}),
        ("Fig. 2-1 and Table1-1", {("figure", "2-1"), ("table", "1-1")}),
        ("Compare figures 5, 6 and 7.", {("figure", "5"), ("figure", "6"), ("figure", "7")}),
        ("section 2.3 of chapter 4", {("section", "2.3"), ("chapter", "4")}),
        ("Appendix B, exhibit 2", {("appendix", "B"), ("exhibit", "2")}),
        ("Abb. 3 und Tabelle 4", {("figure", "3"), ("table", "4")}),
        ("图3和表2-1，第4章", {("figure", "3"), ("table", "2-1"), ("chapter", "4")}),
        ("the table of contents", {("contents", "")}),
        ("Which tables are there?", set[tuple[str, str]]()),
        ("a table a customer sat at", set[tuple[str, str]]()),
        ("What does the balance sheet say?", {("balance sheet", "")}),
        ("the gross margin of 2023", {("income statement", "")}),
        ("What is the ROE?", {("balance sheet", ""), ("income statement", "")}),
        ("free cash flow in 2023", {("cash flow statement", "")}),
        ("the roe of a sturgeon, in debt to nobody", set[tuple[str, str]]()),
    ],
)
def test_numbered_parts_are_found_as_people_write_them(text: str, parts: set[tuple[str, str]]) -> None:
    assert set(find_named_parts(text)) == parts


@pytest.mark.parametrize(
    ("text", "fit"),
    [
        ("Some words.\nFigure 3: Boats by year", CaptionFit.CAPTION),
        ("Figure 3 Boats by year", CaptionFit.CAPTION),
        ("FIG. 3", CaptionFit.CAPTION),
        ("Figure 3. Boats by year", CaptionFit.SENTENCE),
        ("Figure 3 shows boats by year", CaptionFit.MENTION),
        ("as we see in Figure 3.", CaptionFit.MENTION),
        ("which is seen in\nFigure 3. ", CaptionFit.MENTION),
        ("Figure 3 Boats by year . . . . . 12", CaptionFit.MENTION),
        ("Figure 31: Boats", None),
        ("Figure 3-1 Boats", None),
        ("Table 3: Boats", None),
    ],
)
def test_captions_are_told_from_mentions(text: str, fit: CaptionFit | None) -> None:
    assert NamedPart("figure", "3").fit(text) == fit


@pytest.mark.parametrize(
    ("part", "text", "fit"),
    [
        (NamedPart("section", "2.3"), "2.3 Results of the year", CaptionFit.CAPTION),
        (NamedPart("section", "2.3"), "2.3 million boats", None),
        (NamedPart("section", "2.3"), "Section 2.3: Results", CaptionFit.CAPTION),
        (NamedPart("chapter", "4"), "CHAPTER 4\nBoats", CaptionFit.CAPTION),
        (NamedPart("chapter", "4"), "第4章 船", CaptionFit.CAPTION),
        (NamedPart("appendix", "B"), "Appendix B\nBoats", CaptionFit.CAPTION),
        (NamedPart("figure", "3"), "图3 船", CaptionFit.CAPTION),
        (NamedPart("contents", ""), "Preface\nTable of Contents\nBoats ... 3", CaptionFit.CAPTION),
        (NamedPart("contents", ""), "the contents of the box", None),
        (NamedPart("balance sheet"), "Consolidated Balance Sheets\n$ in millions", CaptionFit.CAPTION),
        (NamedPart("balance sheet"), "as the consolidated balance sheets say", None),
        (
            NamedPart("income statement"),
            "CONSOLIDATED STATEMENTS OF OPERATIONS (unaudited)",
            CaptionFit.CAPTION,
        ),
    ],
)
def test_headings_are_found_by_name_and_number(part: NamedPart, text: str, fit: CaptionFit | None) -> None:
    assert part.fit(text) == fit


def test_a_list_of_figures_only_mentions_them() -> None:
    entries = "\n".join(f"Figure {number}: Boats ........ {number + 10}" for number in range(1, 6))
    assert NamedPart("figure", "3").fit(f"List of figures\n{entries}") == CaptionFit.MENTION
