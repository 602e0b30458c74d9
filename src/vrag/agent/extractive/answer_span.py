"""The words to quote around the best line: a sentence, a row, or a heading with what follows it."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import pairwise

from vrag.agent.extractive.text_layout import PageLayout
from vrag.agent.extractive.tokens import STOP_WORDS, is_cjk, tokens

LONGEST = 300
"""Characters that a quote grows to at most; one line may be longer."""
PROSE = 0.2
"""Share of words such as "the" and "of" from which a block is prose and not rows or labels."""
FOLLOWING = 2
"""Lines added after a heading that says no more than the question."""

_STOP = re.compile(r"[.!?;](?=[\s\"”')\]]|$)|[。！？；]")


def span(page: PageLayout, number: int, asked: Collection[str]) -> tuple[int, int]:
    """Start and end in the item's text of what to quote for a line."""
    if _is_prose(page, number):
        return _sentence(page, number, asked)
    first, last = _row(page, number)
    start, end = page.lines[first].start, page.lines[last].end
    for following in range(last + 1, min(last + 1 + FOLLOWING, len(page.lines))):
        if _says_more(page.item.text[start:end], asked) or page.lines[following].end - start > LONGEST:
            break
        end = max(end, page.lines[following].end)
    return start, end


def _row(page: PageLayout, number: int) -> tuple[int, int]:
    """First and last of the lines around one that follow each other in the text and form one row."""
    first = last = number
    while (
        first > 0
        and _beside(page, first - 1, number)
        and page.lines[last].end - page.lines[first - 1].start <= LONGEST
    ):
        first -= 1
    while (
        last + 1 < len(page.lines)
        and _beside(page, last + 1, number)
        and page.lines[last + 1].end - page.lines[first].start <= LONGEST
    ):
        last += 1
    return first, last


def _beside(page: PageLayout, a: int, b: int) -> bool:
    """Return whether two lines overlap in height by more than half of the lower one."""
    one, other = page.lines[a].rect, page.lines[b].rect
    return min(one.y2, other.y2) - max(one.y1, other.y1) > 0.5 * min(one.height, other.height)


def _says_more(text: str, asked: Collection[str]) -> bool:
    """Return whether a text holds a word that is neither the question's nor empty."""
    return any(token.term not in asked and token.term not in STOP_WORDS for token in tokens(text))


def _is_prose(page: PageLayout, number: int) -> bool:
    """Return whether a line stands in a block of running text."""
    block = [page.lines[member] for member in page.blocks[page.lines[number].block]]
    words = [word for line in block for word in _folded(page.item.text[line.start : line.end])]
    empty = sum(is_cjk(word) or word in STOP_WORDS for word in words)
    return len(words) >= 8 and empty >= PROSE * len(words)


def _folded(text: str) -> list[str]:
    """Return the words of a text in lower case, unstemmed."""
    return [text[token.start : token.end].lower() for token in tokens(text)]


def _sentence(page: PageLayout, number: int, asked: Collection[str]) -> tuple[int, int]:
    """Return the sentence on a line that holds most of the question, over the lines of text around it."""
    text = page.item.text
    line = page.lines[number]
    low, high = page.lines[_stretch(page, number, -1)].start, page.lines[_stretch(page, number, +1)].end
    ends = [low, *(match.end() for match in _STOP.finditer(text, low, high)), high]
    pieces = [(a, b) for a, b in pairwise(ends) if a < line.end and b > line.start and text[a:b].strip()]
    start, end = max(
        pieces, key=lambda piece: _worth(text[slice(*piece)], asked), default=(line.start, line.end)
    )
    start, end = max(start, line.end - LONGEST), min(end, line.start + LONGEST)
    quoted = text[start:end].strip()
    start = text.index(quoted, start)
    return start, start + len(quoted)


def _worth(text: str, asked: Collection[str]) -> tuple[int, int]:
    """Return the number of terms of the question in a sentence, then its length."""
    return len({token.term for token in tokens(text)} & set(asked)), len(text)


def _stretch(page: PageLayout, number: int, step: int) -> int:
    """Return the last line in one direction, in the order of the text, that is of the same block."""
    block = page.lines[number].block
    at = number
    while 0 <= at + step < len(page.lines) and page.lines[at + step].block == block:
        at += step
        if abs(page.lines[at].start - page.lines[number].start) > LONGEST:
            break
    return at
