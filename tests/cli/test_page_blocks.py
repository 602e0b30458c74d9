"""Lines of a page become paragraphs, headings and lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.cli.convert.page_blocks import HeadingSizes, find_heading_sizes, join_blocks, list_blocks
from vrag.geometry import Box, Size
from vrag.types import Item, ItemFacts, ItemKind, MarkedHeading, TextSource, Word

if TYPE_CHECKING:
    from collections.abc import Sequence

LETTER = 0.01
"""Width of a letter of text in 12 pixels, in that of the page."""


def make_page(
    *lines: tuple[str, float, float, float],
    headings: Sequence[str] = (),
    source: TextSource = TextSource.LAYER,
) -> Item:
    """A page of lines: text, left and upper end as fractions of the page, and size in pixels."""
    words: list[Word] = []
    text = "\n".join(line[0] for line in lines)
    at = 0
    for content, left, top, size in lines:
        for word in content.split():
            start = text.index(word, at)
            at = start + len(word)
            x = left + (start - text.rfind("\n", 0, start) - 1) * LETTER * size / 12
            box = Box.unit(x, top, x + len(word) * LETTER * size / 12, top + 0.72 * size / 1000)
            words.append(Word(start, at, box))
    marked = (MarkedHeading(text.index(each), text.index(each) + len(each), 2) for each in headings)
    return Item(
        id="0" * 16 + "-1",
        document="0" * 64,
        document_name="a.pdf",
        kind=ItemKind.PAGE,
        ordinal=1,
        text=text,
        words=tuple(words),
        text_source=source,
        size=Size(800, 1000),
        image="x/1.png",
        facts=ItemFacts(headings=tuple(marked)),
    )


def markdown(page: Item, sizes: HeadingSizes | None = None) -> list[str]:
    sizes = find_heading_sizes([page]) if sizes is None else sizes
    return list(join_blocks(list_blocks(page, [True] * len(page.text), sizes)))


def column(
    *lines: str, left: float = 0.1, top: float = 0.3, size: float = 12
) -> list[tuple[str, float, float, float]]:
    return [(line, left, top + number * 0.017, size) for number, line in enumerate(lines)]


def test_lines_of_a_paragraph_are_joined_where_the_next_word_had_no_room() -> None:
    page = make_page(
        *column(
            "The ferry leaves the harbour of Sandvik each",
            "morning at eight and comes back at noon with",
            "all fish.",
            "Dogs travel free of charge on every day but",
            "one.",
        )
    )
    assert markdown(page) == [
        "The ferry leaves the harbour of Sandvik each morning at eight and comes back at noon with all fish.",
        "Dogs travel free of charge on every day but one.",
    ]


def test_short_lines_stay_apart() -> None:
    assert markdown(make_page(*column("Sloop", "Ketch", "Yawl"))) == ["Sloop", "Ketch", "Yawl"]


def test_two_columns_below_a_wide_title_are_joined_within_each() -> None:
    left = column("The piers of Holm are", "old and were built of", "stone and timber by", "the monks.")
    right = column(
        "The piers of Vik were", "built a century later", "by one rich merchant", "alone.", left=0.55
    )
    page = make_page(
        ("A short history of the piers of two towns in the far north by Ada Quist", 0.1, 0.2, 12),
        *left,
        *right,
    )
    assert markdown(page)[1:] == [
        "The piers of Holm are old and were built of stone and timber by the monks.",
        "The piers of Vik were built a century later by one rich merchant alone.",
    ]


def test_entries_of_lists_and_their_states_are_entries_of_markdown() -> None:
    page = make_page(
        *column("• Sloop", "o Ketch", "o Yawl", "☒ Paid", "☐ Open", "1. First", "b) Second", "Three")
    )
    assert markdown(page) == [
        "- Sloop\n- Ketch\n- Yawl\n- [x] Paid\n- [ ] Open\n1. First\nb) Second",
        "Three",
    ]


def test_one_small_letter_is_no_bullet() -> None:
    assert markdown(make_page(*column("o mar de Sandvik", "azul"))) == ["o mar de Sandvik azul"]


def test_larger_lines_are_headings_by_their_size_and_marked_ones_have_their_level() -> None:
    body = column(*["The harbour is open all year to boats of any size."] * 20, top=0.4)
    page = make_page(
        ("Harbour report", 0.1, 0.1, 24),
        ("Fees", 0.1, 0.2, 16),
        ("Moorings", 0.1, 0.3, 12),
        *body,
        headings=["Moorings"],
    )
    assert markdown(page)[:3] == ["# Harbour report", "## Fees", "## Moorings"]


def test_sentences_and_words_of_ocr_in_larger_letters_are_no_headings() -> None:
    body = column(*["The harbour is open all year to boats of any size."] * 20, top=0.4)
    sentence = ("We close in May.", 0.1, 0.1, 24)
    assert "#" not in "".join(markdown(make_page(sentence, *body)))
    scan = make_page(("Harbour report", 0.1, 0.1, 24), *body, source=TextSource.OCR)
    assert "#" not in "".join(markdown(scan))


def test_a_page_of_large_letters_alone_has_no_headings() -> None:
    page = make_page(
        *column("Sale today", "Everything must go", "Really", top=0.1, size=48), ("Ask us", 0.1, 0.9, 12)
    )
    assert "#" not in "".join(markdown(page))


def test_what_markdown_would_take_for_something_else_is_escaped() -> None:
    page = make_page(*column("# of boats", "> 12 boats", "Use <br> here", "- 5 degrees", "19th - 20th"))
    assert markdown(page) == [
        r"\# of boats",
        r"\> 12 boats",
        "Use &lt;br> here",
        r"\- 5 degrees",
        "19th - 20th",
    ]


def test_a_line_of_a_list_of_contents_stays_apart() -> None:
    page = make_page(
        *column("Fees of all the piers . . . . . . . . 12", "Piers of all the towns . . . . . . . 13")
    )
    assert len(markdown(page)) == 2


def test_radio_buttons_keep_their_state_and_small_circles_are_bullets() -> None:
    lines = ("Berth:", "○ Indoor hall", "◉ Open yard", "○ In the water")
    found = "\n".join(markdown(make_page(*column(*lines))))
    assert "- ○ Indoor hall\n- ◉ Open yard\n- ○ In the water" in found
    plain = "\n".join(markdown(make_page(*column("Berths:", "○ indoor", "○ outdoor"))))
    assert "- indoor\n- outdoor" in plain
