"""Pages that a question names by their numbers: "on page 12", "pages iv and v", "auf S. 12", "第3页"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from vrag.types import Item

BY_LABEL, BY_POSITION, BY_SECOND_MEANING = 1.0, 1.0, 0.5
"""How well a page fits a number that is printed on it, its position, or its position where it has another
number printed on it: readers mean the printed one first."""
PAGE_ABBREVIATIONS = frozenset("p. pp. s. pág. págs. pag. pags. стр.".split())
MAX_RANGE = 20
"""Pages of a range; a longer one names its first and last page."""

_ROMAN = r"(?=[ivxlc])(?:x[cl]|l?x{0,3})(?:i[xv]|v?i{0,3})"
_DECIMAL = r"(?:[A-Za-z]{1,2}-?)?\d{1,5}(?:[-–.]\d{1,5})?(?!\d|[.,]\d)"
_NUMBER = rf"(?:{_DECIMAL}|{_ROMAN}(?!\w)|(?!I\b)(?i:{_ROMAN})(?!\w))"
_AND = r"\s*(?:,|&|-|–|\b(?:and|or|to|und|oder|bis|et|ou|à|y|o|e|и)\b)\s*"
_HEAD = (
    r"(?:(?i:\b(?:pages?|seiten?|páginas?|paginas?|pagine|страниц[аеуыах]{0,2}|stron(?:a|ie|y))\b|"
    r"(?<![\w.])(?:pp?|págs?|pags?|стр)\.)|(?<![\w.])S\.)"
)
_MENTION = re.compile(
    rf"{_HEAD}\.?\s*(?:(?i:numbers?|no\.|nr\.|№|#)\s*)?(?P<numbers>{_NUMBER}(?:{_AND}{_NUMBER})*)"
    r"|第\s*(?P<chinese>\d{1,5})\s*[页頁]|(?P<eastern>\d{1,5})\s*(?:ページ|페이지|쪽)"
)
_PART = re.compile(rf"(?P<dash>\s*(?:-|–|\b(?:to|bis|à)\b)\s*)?(?P<number>{_NUMBER})")


class PageMention(NamedTuple):
    """Pages named at one place of a text."""

    start: int
    end: int
    numbers: tuple[str, ...]
    """As they are written, roman ones in lower case."""


def find_page_mentions(text: str) -> list[PageMention]:
    """Return the places of a text that name pages by their numbers.

    >>> [mention.numbers for mention in find_page_mentions("Compare pages iv and 12-14 with S. 3.")]
    [('iv', '12-14', '12', '13', '14'), ('3',)]
    """
    mentions: list[PageMention] = []
    for match in _MENTION.finditer(text):
        numbers: dict[str, None] = {}
        for written in filter(None, (match["numbers"], match["chinese"], match["eastern"])):
            numbers |= dict.fromkeys(_numbers_in(written))
        mentions.append(PageMention(*match.span(), tuple(numbers)))
    return mentions


def named_pages(text: str) -> frozenset[str]:
    """Return all page numbers that a text names."""
    return frozenset(number for mention in find_page_mentions(text) for number in mention.numbers)


def match_page(item: Item, numbers: frozenset[str]) -> float:
    """Return how well an item fits page numbers that a question names, from 0."""
    label = item.facts.label.casefold()
    if label and label in numbers:
        return BY_LABEL
    if str(item.ordinal) in numbers:
        return BY_SECOND_MEANING if label else BY_POSITION
    return 0.0


def _numbers_in(written: str) -> list[str]:
    numbers: list[str] = []
    for part in _PART.finditer(written):
        number = part["number"].casefold().replace("–", "-")
        if part["dash"] and numbers:
            numbers += _between(numbers[-1], number)
        numbers.append(number)
        if re.fullmatch(r"\d+-\d+", number):
            first, last = number.split("-")
            numbers += [first, *_between(first, last), last]
    return numbers


def _between(first: str, last: str) -> list[str]:
    """Return the numbers between two, if they are few.

    >>> _between("12", "15"), _between("iv", "vi")
    (['13', '14'], [])
    """
    if not (first.isdecimal() and last.isdecimal()):
        return []
    numbers = range(int(first) + 1, int(last))
    return [str(number) for number in numbers] if len(numbers) <= MAX_RANGE else []
