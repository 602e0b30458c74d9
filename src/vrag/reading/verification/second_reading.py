"""The second reading: whether the picture of a page shows what its stored text says.

A claim that the text supports is as good as the text. A PDF file may store other digits than it draws, and a
layer that a scanner made has errors. So the words that a claim rests on are read again, from the picture
alone, by OCR: the text only tells where to look. What is read the same is *seen*. Where digits differ, the
words are read twice more, alone and in other sizes; only if all readings agree on the same other number is
the claim *doubted*. Whatever OCR is unsure of stays *stated*: a false alarm is worse than none.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import NamedTuple, Protocol

from vrag.geometry import Box
from vrag.reading.page_text import PageText, read_page_text
from vrag.reading.verification.claim import VERIFIED, ClaimDoubt, ClaimKind, ClaimVerdict
from vrag.reading.verification.claim_evidence import ClaimCheck, ItemWords
from vrag.reading.views.text_lines import PlacedWord, around
from vrag.text.folding import fold_case
from vrag.text.terms import one_edit_apart
from vrag.types import Item, TextSource

RUN_HEIGHT, WORD_HEIGHTS = 40, (64, 32)
"""Pixels of the height of a line in which it is read, and those in which a word is read alone."""
MAX_GAP = 1.0
"""Space between two words of a run, in heights of the line; beyond it stands another cell."""
MAX_RUNS = 40
"""Runs of words of an answer that are read again; what rests on further ones stays stated."""
MAX_CLOSE = 12
"""Numbers of an answer that are read alone because the first reading differs."""
MIN_SCORE = 0.9
"""Score of OCR from which another number counts."""
MIN_WORDS_SEEN = 0.8
"""Share of the words of a sentence that must be seen on the picture."""
MIN_FUZZY = 4
"""Letters of a word of which OCR may misread one."""
_GROUPED = re.compile(r"(?<=\d)[.,'’\s](?=\d{3}(?!\d))")
_FIGURES = re.compile(r"\d+(?:\.\d+)*")
_POINT = re.compile(r"(?<=\d)[,.·](?=\d)")
_SIGNED = re.compile(r"(?:(?<![\w)])[-−–‒]|\()\s?[$€£¥]?\s?\d")
_LOOKALIKES = str.maketrans("OoIl|SB", "0011158")
"""Letters that OCR reads for digits."""
_LETTERS = re.compile(r"[^\W\d_]+")


class Strip(NamedTuple):
    """A part of a page with one line of text."""

    box: Box
    """In `Space.UNIT`."""
    angle: int
    """Degrees clockwise by which the line is turned."""


class StripText(NamedTuple):
    """The text that OCR reads on a strip."""

    text: str
    score: float
    """Mean probability of its characters, 0 to 1."""


class StripReader(Protocol):
    """The protocol of readers of strips."""

    def read(self, item: Item, strips: Sequence[Strip], height: int) -> list[StripText | None]:
        """Read parts of the picture of an item, drawn so that their lines are so many pixels high.

        None for a part that cannot be drawn.
        """
        ...


class _WordRun(NamedTuple):
    """Words that stand beside each other on a line."""

    item: str
    start: int
    """Start in the text of the item."""
    end: int
    strip: Strip


class _Reading(NamedTuple):
    """The outcome of reading words again."""

    verdict: ClaimVerdict
    """Seen, stated or doubted."""
    found: str = ""
    """What is read in place of a number that is doubted."""


_STATED = _Reading(ClaimVerdict.STATED)
_SEEN = _Reading(ClaimVerdict.SEEN)


def read_again(
    checks: Sequence[ClaimCheck], items: Mapping[str, Item], reader: StripReader
) -> tuple[ClaimCheck, ...]:
    """Return the verdicts on claims after a second reading of what the text supports.

    Args:
        checks: The verdicts by the text.
        items: The items of the evidence, by their ids.
        reader: The reader of the pictures.
    """
    stated = [check for check in checks if check.verdict is ClaimVerdict.STATED]
    pages = {id: read_page_text(item) for id, item in items.items() if can_read(item)}
    reading = _SecondReading(pages, reader)
    reading.prepare(stated)
    values = {
        check: reading.check_value(check) for check in stated if check.claim.kind is not ClaimKind.SENTENCE
    }
    known = [values.get(check, check) for check in checks]
    return tuple(
        reading.check_sentence(check, known)
        if check.claim.kind is ClaimKind.SENTENCE and check.verdict is ClaimVerdict.STATED
        else check
        for check in known
    )


def can_read(item: Item) -> bool:
    """Return whether an item has a picture and a text that was not made by OCR of it."""
    return item.size is not None and bool(item.words) and item.text_source is TextSource.LAYER


@dataclass(slots=True)
class _SecondReading:
    """The second reading of one answer."""

    pages: Mapping[str, PageText]
    reader: StripReader
    texts: dict[_WordRun, StripText | None] = field(default_factory=dict[_WordRun, "StripText | None"])
    """What was read on each run."""
    close: int = 0
    """Numbers that were read alone."""

    def prepare(self, checks: Sequence[ClaimCheck]) -> None:
        """Read all runs that the claims rest on, those of numbers first, each page in one drawing."""
        values = (words for check in checks for words in _values_of(check))
        others = (words for check in checks for words in check.words)
        runs = dict.fromkeys(run for words in (*values, *others) for run in self._runs(words))
        wanted = list(runs)[:MAX_RUNS]
        for id in dict.fromkeys(run.item for run in wanted):
            of_item = [run for run in wanted if run.item == id]
            found = self.reader.read(self.pages[id].item, [run.strip for run in of_item], RUN_HEIGHT)
            self.texts.update(zip(of_item, found, strict=True))

    def check_value(self, check: ClaimCheck) -> ClaimCheck:
        """Return the verdict on a number or a date that the text supports."""
        readings = [self._read_value(words) for words in _values_of(check)]
        doubted = next((one for one in readings if one.verdict is ClaimVerdict.DOUBTED), None)
        if doubted is not None:
            return _doubt(check, doubted.found)
        if not readings or any(one.verdict is not ClaimVerdict.SEEN for one in readings):
            return check
        return replace(check, verdict=ClaimVerdict.COMPUTED if check.is_computed else ClaimVerdict.SEEN)

    def check_sentence(self, check: ClaimCheck, known: Iterable[ClaimCheck]) -> ClaimCheck:
        """Return the verdict on a sentence, by those on the numbers in it and by its words."""
        claim = check.claim
        inside = [
            other
            for other in known
            if other is not check and claim.start <= other.claim.start and other.claim.end <= claim.end
        ]
        for other in inside:
            if other.verdict is ClaimVerdict.DOUBTED:
                return replace(other, claim=claim)
        if any(other.verdict not in VERIFIED for other in inside):
            return check
        seen = sum(self._shows(words) for words in check.words)
        if not (seen or inside) or seen < MIN_WORDS_SEEN * (len(check.words) + check.missing):
            return check
        computed = any(other.verdict is ClaimVerdict.COMPUTED for other in inside)
        return replace(check, verdict=ClaimVerdict.COMPUTED if computed else ClaimVerdict.SEEN)

    def _read_value(self, words: ItemWords) -> _Reading:
        """Return whether the picture shows a number or date, or another one at its place."""
        page = self.pages.get(words.item)
        runs = self._runs(words)
        if page is None or not runs:
            return _STATED
        written = _words_at(page, words)
        first, last = written[0][0], written[-1][1]
        wanted = page.text[first:last]
        texts = [self.texts.get(run) for run in runs]
        parts = [
            _part_of(page.text[run.start : run.end], first - run.start, last - run.start, read.text)
            for run, read in zip(runs, texts, strict=True)
            if read is not None
        ]
        if len(parts) < len(runs):
            return _STATED
        if is_same(wanted, " ".join(parts)):
            return _SEEN
        return self._read_closely(page, written, wanted) if len(runs) == 1 else _STATED

    def _read_closely(self, page: PageText, written: Sequence[PlacedWord], wanted: str) -> _Reading:
        """Read words alone, in two sizes."""
        if self.close >= MAX_CLOSE:
            return _STATED
        self.close += 1
        rect = around(rect for _, _, rect in written)
        strip = Strip(rect.box(), _angle_at(page, written[0][0])) if rect else None
        found = [self.reader.read(page.item, [strip], height)[0] for height in WORD_HEIGHTS] if strip else []
        texts = [read.text for read in found if read is not None]
        if any(is_same(wanted, text) for text in texts):
            return _SEEN
        is_sure = len(texts) == len(WORD_HEIGHTS) and all(read and read.score >= MIN_SCORE for read in found)
        if is_sure and len({_digits(text) for text in texts}) == 1 and is_other_number(wanted, texts[0]):
            return _Reading(ClaimVerdict.DOUBTED, texts[0])
        return _STATED

    def _shows(self, words: ItemWords) -> bool:
        """Return whether the picture shows words."""
        runs = self._runs(words)
        read = [text.text for run in runs if (text := self.texts.get(run)) is not None]
        return bool(read) and has_words(words.text, " ".join(read))

    def _runs(self, words: ItemWords) -> list[_WordRun]:
        """Return the runs that have some words; none on an item that is not read."""
        page = self.pages.get(words.item)
        if page is None:
            return []
        return list(dict.fromkeys(_run_around(page, word) for word in _words_at(page, words)))


def _values_of(check: ClaimCheck) -> tuple[ItemWords, ...]:
    """Return the words of a number or a date: its own, or those that it follows from."""
    if check.claim.kind is ClaimKind.SENTENCE:
        return ()
    if check.is_computed:
        return check.operands
    return (ItemWords(check.item, *check.span, check.found),) if check.span is not None else ()


def _doubt(check: ClaimCheck, found: str) -> ClaimCheck:
    return replace(check, verdict=ClaimVerdict.DOUBTED, found=found, doubt=ClaimDoubt.READING)


def _words_at(page: PageText, words: ItemWords) -> list[PlacedWord]:
    """Return the words of a page that touch a range of its text."""
    first = max(bisect_right(page.words, words.start, key=lambda word: word[0]) - 1, 0)
    found: list[PlacedWord] = []
    for word in page.words[first:]:
        if word[0] >= words.end:
            break
        if word[1] > words.start:
            found.append(word)
    return found


def _line_at(page: PageText, start: int) -> tuple[int, int, int]:
    """Return start, end and angle of the line at a place of the text."""
    number = max(bisect_right(page.lines, start, key=lambda line: line.start) - 1, 0)
    line = page.lines[number]
    return line.start, line.end, line.angle


def _angle_at(page: PageText, start: int) -> int:
    return _line_at(page, start)[2]


def _run_around(page: PageText, word: PlacedWord) -> _WordRun:
    """Return the words beside a word, without a wide gap between them."""
    start, end, angle = _line_at(page, word[0])
    line = _words_at(page, ItemWords(page.item.id, start, end, ""))
    at = next((number for number, other in enumerate(line) if other[0] == word[0]), None)
    if at is None:
        return _WordRun(page.item.id, word[0], word[1], Strip(word[2].box(), angle))
    first = last = at
    while first > 0 and _is_beside(page, line[first - 1], line[first], angle):
        first -= 1
    while last + 1 < len(line) and _is_beside(page, line[last], line[last + 1], angle):
        last += 1
    rect = around(other[2] for other in line[first : last + 1]) or word[2]
    return _WordRun(page.item.id, line[first][0], line[last][1], Strip(rect.box(), angle))


def _is_beside(page: PageText, one: PlacedWord, other: PlacedWord, angle: int) -> bool:
    """Return whether two words of a line stand close to each other."""
    aspect = page.aspect or 1.0
    if angle % 180:
        gap = max(other[2].y1 - one[2].y2, one[2].y1 - other[2].y2)
        return gap <= MAX_GAP * max(one[2].width, other[2].width) * aspect
    gap = max(other[2].x1 - one[2].x2, one[2].x1 - other[2].x2)
    return gap * aspect <= MAX_GAP * max(one[2].height, other[2].height)


def _part_of(text: str, start: int, end: int, read: str) -> str:
    """Return the words in a reading of a run that stand for a range of its text."""
    first, last = (len(" ".join(f"{text[:bound]}|".split())) - 1 for bound in (max(start, 0), max(end, 0)))
    wanted, shown = (" ".join(one.split()) for one in (text, read))
    begin, stop = len(shown), 0
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, wanted, shown, autojunk=False).get_opcodes():
        if i2 <= first or i1 >= last:
            continue
        is_even = tag == "equal" or i2 - i1 == j2 - j1
        begin = min(begin, j1 + (max(first - i1, 0) if is_even else 0))
        stop = max(stop, j2 - (max(i2 - last, 0) if is_even else 0))
    while 0 < begin < stop and not shown[begin - 1].isspace():
        begin -= 1
    while begin < stop < len(shown) and not shown[stop].isspace():
        stop += 1
    return shown[begin:stop]


def is_same(wanted: str, read: str) -> bool:
    """Return whether a number or date is read as it is written, whatever separates its thousands.

    >>> is_same("84,210", "84.210"), is_same("84,210", "84,270"), is_same("4.6 %", "46%")
    (True, False, False)
    """
    wanted, read = (unicodedata.normalize("NFKC", text) for text in (wanted, read))
    figures = _figures(wanted)
    words = [word for word in _LETTERS.findall(wanted) if len(word) > 2 or not figures]
    if figures and figures != _figures(read) and figures != _figures(read.translate(_LOOKALIKES)):
        return False
    if figures and (_SIGNED.search(wanted) is None) != (_SIGNED.search(read) is None):
        return False
    return bool(figures or words) and all(has_words(word, read) for word in words)


def is_other_number(wanted: str, read: str) -> bool:
    """Return whether as many digits are read as are written, and others, with the same letters around them.

    >>> is_other_number("84,210", "84,270"), is_other_number("84,210", "842,100")
    (True, False)
    >>> is_other_number("1,150", "1,l60")
    False
    """
    wanted, read = (unicodedata.normalize("NFKC", text) for text in (wanted, read))
    digits, other = _digits(wanted), _digits(read)
    if _LETTERS.findall(wanted.casefold()) != _LETTERS.findall(read.casefold()):
        return False
    return bool(digits) and len(digits) == len(other) and digits != other


def _figures(text: str) -> list[str]:
    """Return the numbers of a text, without separators of thousands."""
    return _FIGURES.findall(_POINT.sub(".", _GROUPED.sub("", text)))


def _digits(text: str) -> str:
    return "".join(sign for sign in text if sign.isdigit())


def has_words(wanted: str, read: str) -> bool:
    """Return whether all words of a text are read; in a longer one, one letter may be another.

    >>> has_words("Guillemot", "The Guillemol sails"), has_words("Oslo", "Orla")
    (True, False)
    """
    shown = fold_case(unicodedata.normalize("NFKC", read))
    whole = "".join(shown.split())
    others = list(_tokens(shown))
    return all(
        word in whole or (len(word) >= MIN_FUZZY and any(one_edit_apart(word, other) for other in others))
        for word in _tokens(fold_case(unicodedata.normalize("NFKC", wanted)))
    )


def _tokens(text: str) -> Iterator[str]:
    return (match.group() for match in re.finditer(r"\w+", text))
