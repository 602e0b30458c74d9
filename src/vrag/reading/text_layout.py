"""The text of a page: its words as terms that can be compared, its lines, blocks and boxes.

Letters are folded and inflection is left out of a term. Words of scripts with spaces become light stems;
runs of Chinese, Japanese and Korean characters become overlapping pairs, which need no dictionary. Morphology
only: no synonyms.

It is found once for each version of an item, and passed on.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from threading import Lock
from typing import NamedTuple

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from vrag.reading.page_faults import UnreadPart, read_part
from vrag.reading.views.text_lines import (
    CELL_GAP,
    PlacedWord,
    Rect,
    TextLine,
    around,
    group_turned_words,
    group_words,
    list_sentences,
)
from vrag.reading.views.turned_text import turn_upright
from vrag.text.folding import DIGIT_SEPARATORS, INVISIBLE, MARKS, fold, fold_case
from vrag.types import Item, TextTable

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
_TOKEN = re.compile(
    rf"""(?P<skip>(?<=\w)['’]s\b) | (?P<run>[{CJK}]+) | \d+(?:[.,{DIGIT_SEPARATORS}]\d+)+
    | (?:\b[A-Z]\.){{2,}} | [^\W_{CJK}]+(?:[{MARKS}{INVISIBLE}]+[^\W_{CJK}]+)*[{MARKS}]*""",
    re.VERBOSE,
)
_CHARACTER = re.compile("[\uff66-\uff9d][\uff9e\uff9f]|.", re.DOTALL)
"""A character of Chinese, Japanese or Korean; a narrow letter with its mark is one."""
_ORDINAL = re.compile(r"^(\d+)(?:st|nd|rd|th)$")
_NUMBER = re.compile(r"\d[\d.]*")
_VOWEL = re.compile(r"[aeiouy]")

STOP_WORDS = frozenset(
    """a about according after all also among an and any are as at be been before being both but by can
    could did do does doing down during each either every few following for from given had has
    have having he her here him his how i if in include included includes including into is it
    its itself just like look looks many me mention mentioned more most much my name named no
    nor not of on one only or other our out over own per please provide same say says shall she
    should show shown shows so some such tell than that the their them then there these they
    this those through to too under until up us use used uses using very was we were what when
    where whether which while who whom whose why will with would you your""".split()
)
"""English words that say nothing about what a question looks for."""


class Token(NamedTuple):
    """One term of a text: `text[start:end]`, folded to `term`."""

    term: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """Return the terms of a text in order, stop words included.

    >>> [token.term for token in tokens("Studies of 1,234 gross margins")]
    ['study', 'of', '1234', 'gross', 'margin']
    >>> [token.term for token in tokens("总收入")]
    ['总收', '收入']
    """
    terms: list[Token] = []
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        if match["skip"]:
            continue
        if match["run"] and end - start > 1:
            terms += _pair_characters(text, start, end)
        else:
            terms.append(Token(stem(match.group()), start, end))
    return terms


def _pair_characters(text: str, start: int, end: int) -> Iterator[Token]:
    """Yield the pairs of neighbours in a run of Chinese, Japanese or Korean, or its only character."""
    spans = [match.span() for match in _CHARACTER.finditer(text, start, end)]
    for (first, _), (_, last) in pairwise(spans) if len(spans) > 1 else [(spans[0], spans[0])]:
        yield Token(fold(text[first:last]), first, last)


def is_cjk(text: str) -> bool:
    """Return whether the text starts with a Chinese, Japanese or Korean character."""
    return re.match(f"[{CJK}]", text) is not None


def is_number(term: str) -> bool:
    """Return whether a term is a plain number."""
    return _NUMBER.fullmatch(term) is not None


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the folded word without thousands separators and the commonest English endings.

    >>> [stem(word) for word in ("Companies", "cited", "running", "1,383", "21st", "loss")]
    ['company', 'cit', 'run', '1383', '21', 'loss']
    """
    folded = fold(word).rstrip(".")
    if folded in STOP_WORDS and not word.isascii():  # no English word, as Vietnamese "đo"
        return fold_case(word)
    if folded[:1].isdigit():
        return _ORDINAL.sub(r"\1", folded.replace(",", ""))
    word = folded.replace(".", "")
    if not word.isascii():
        return word

    # The s of a plural or of a verb.
    if len(word) >= 4 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        if word.endswith("ies"):
            word = word[:-3] + "y"
        else:
            word = word[:-2] if word.endswith(("sses", "xes", "ches", "shes")) else word[:-1]

    # The endings ed, ing and ly, and a final e, where a stem with a vowel and three letters remains.
    for ending in ("ing", "ed", "ly"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= 3 and _VOWEL.search(rest):
            doubled = rest[-1] == rest[-2] and rest[-1] not in "lsz"
            word = rest[:-1] if doubled else rest
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def one_edit_apart(a: str, b: str) -> bool:
    """Return whether one inserted, lost, changed or swapped letter turns one word into the other.

    >>> one_edit_apart("goverment", "government"), one_edit_apart("fourth", "fifth")
    (True, False)
    """
    if abs(len(a) - len(b)) > 1:
        return False
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    left, right = a[same:], b[same:]
    swapped = left[1::-1] + left[2:] if len(left) > 1 else left
    return left[1:] == right[1:] or left[1:] == right or left == right[1:] or swapped == right


CACHE_SIZE = 256
"""Items whose text is kept."""


@dataclass
class PageLayout:
    """The text of one version of an item: its words with boxes, its lines in the order of the text."""

    item: Item
    words: list[PlacedWord]
    """Words with a usable box, by start."""
    lines: list[TextLine]
    rects: NDArray[np.float64]
    """Rectangles of the lines, shape (lines, 4)."""
    blocks: list[list[int]]
    """Numbers of the lines of each block."""
    aspect: float
    """Width over height."""

    def rect_of_block(self, number: int) -> Rect:
        """Return the rectangle around the lines of a block."""
        return around(self.lines[line].rect for line in self.blocks[number]) or Rect(0.0, 0.0, 0.0, 0.0)

    def rect_of(self, start: int, end: int) -> Rect | None:
        """Return the rectangle around the words that touch a span of the text; None when no word does."""
        return around(rect for first, last, rect in self.words if first < end and start < last)

    @cached_property
    def line_terms(self) -> tuple[tuple[str, ...], ...]:
        """The terms of each line."""
        text = self.item.text
        return tuple(
            tuple(token.term for token in tokens(text[line.start : line.end])) for line in self.lines
        )

    @cached_property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """The ranges of the text that stand together, in order.

        They are runs of lines of one block, and the pieces of lines with wide gaps, such as cells.
        """
        segments: list[tuple[int, int]] = []
        for block in self.blocks:
            begun = False  # a run of lines without gaps
            for number in block:
                pieces = _pieces(self, self.lines[number])
                if begun and len(pieces) == 1:
                    segments[-1] = segments[-1][0], max(segments[-1][1], pieces[0][1])
                else:
                    segments += pieces
                begun = len(pieces) == 1
        return tuple(sorted(segments))


_TEXTS: LRUCache[tuple[str, str], PageLayout] = LRUCache(CACHE_SIZE)
_LOCK = Lock()


def layout(item: Item) -> PageLayout:
    """Return the text of an item; that of the items read last is kept.

    Words without a usable box are left out. A fault costs the item its lines, see `page_faults`.
    """
    key = item.id, item.text
    with _LOCK:
        known = _TEXTS.get(key)
    if known is not None and known.item == item:
        return known
    found = read_part(UnreadPart.TEXT, item, lambda: _find_layout(item), None)
    if found is None:
        return PageLayout(item, [], [], np.empty((0, 4)), [], 1.0)
    with _LOCK:
        _TEXTS[key] = found
    return found


def _find_layout(item: Item) -> PageLayout:
    words: list[PlacedWord] = []
    for word in item.words:
        sides = word.box.as_tuple()
        if 0 <= word.start < word.end <= len(item.text) and all(map(math.isfinite, sides)):
            rect = Rect(*(min(max(side, 0.0), 1.0) for side in sides))
            if rect.area > 0:
                words.append((word.start, word.end, rect))
    words.sort(key=lambda word: word[:2])
    aspect = item.size.width / item.size.height if item.size and item.size.height > 0 else 1.0
    if words:
        lines, blocks = (
            group_turned_words(item, words, aspect) if item.facts.turned else group_words(item, words, aspect)
        )
    else:
        lines = list_sentences(item.text)
        blocks = [[number] for number in range(len(lines))]
    for number, block in enumerate(blocks):
        for line in block:
            lines[line].block = number
    rects = np.asarray([line.rect for line in lines], dtype=np.float64).reshape(-1, 4)
    return PageLayout(item, words, lines, rects, blocks, aspect)


def _pieces(page: PageLayout, line: TextLine) -> list[tuple[int, int]]:
    """Return the ranges of a line between gaps that are wider than those of words."""
    first = bisect_left(page.words, line.start, key=lambda word: word[0])
    last = bisect_left(page.words, line.end, key=lambda word: word[0])
    if not page.words and page.item.facts.tables:
        return _cells_of_line(page.item.facts.tables, line)
    pieces: list[tuple[int, int]] = []
    right = 0.0
    aspect = 1 / page.aspect if line.angle % 180 else page.aspect
    for start, end, shown in page.words[first:last]:
        rect = Rect(*turn_upright(shown, line.angle)) if line.angle else shown
        gap = (rect.x1 - right) * aspect
        if pieces and -CELL_GAP * rect.height <= gap <= CELL_GAP * rect.height:
            pieces[-1] = pieces[-1][0], max(end, pieces[-1][1])
        else:
            pieces.append((start, end))
        right = rect.x2
    return pieces or [(line.start, line.end)]


def _cells_of_line(tables: Sequence[TextTable], line: TextLine) -> list[tuple[int, int]]:
    """Return the ranges of the cells in a line of a text without picture; the line itself if it has none."""
    cells = [
        (cell.start, cell.end)
        for table in tables
        for cell in table.cells
        if line.start <= cell.start and cell.end <= line.end
    ]
    return sorted(cells) or [(line.start, line.end)]
