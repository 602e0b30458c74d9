"""The evidence of an answer as text: which statements share words with a claim, and where words stand."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrag.geometry import Box
from vrag.reading.answer import MarkRole, Reading, ReadPage
from vrag.reading.verification.claim import Claim, ClaimDoubt, ClaimVerdict
from vrag.reading.verification.source_text import SourceText, read_source
from vrag.reading.views.neighbour_pages import read_tables
from vrag.reading.views.text_lines import Rect
from vrag.text.terms import STOP_WORDS, is_cjk, one_edit_apart, tokens

Support = list[NDArray[np.float64]]
"""For each text, how many of some words stand around each of its statements, 0 to 1."""
MIN_WORDS, MIN_REGION_WORDS = 12, 6
"""Words below which a page, and a rectangle on it, has too little text to tell anything."""
INSIDE = 0.1
"""Advantage of statements in the rectangles of the evidence."""
MIN_SHARE, MIN_WHOLE_SHARE = 0.5, 0.8
"""Share of the pairs of characters of a Chinese or Japanese name that must stand together: of one that was
cut out of a sentence, and of one that is the whole answer."""


@dataclass(frozen=True, slots=True)
class ClaimSource:
    """A piece of evidence: a page, or a rectangle on it."""

    page: ReadPage
    region: Box | None = None
    """In `Space.UNIT`; None for the whole page or a passage."""


class ItemWords(NamedTuple):
    """Words of an item."""

    item: str
    """Id of the item."""
    start: int
    """`item.text[start:end]`."""
    end: int
    text: str
    """The words, with single spaces."""


@dataclass(frozen=True, slots=True)
class ClaimCheck:
    """A claim with the verdict on it."""

    claim: Claim
    verdict: ClaimVerdict
    sources: tuple[int, ...] = ()
    """Positions of the sources that say it, or something else in its place."""
    found: str = ""
    """The words that say so; of a computed number the computation."""
    item: str = ""
    """Id of the item that has these words."""
    span: tuple[int, int] | None = None
    """Where they stand in the text of the item; None for words that stand nowhere, as computed numbers."""
    boxes: tuple[Box, ...] = ()
    """Where they stand, in `Space.UNIT`: one rectangle for each line."""
    outside: bool = False
    """True if the words stand outside of the rectangles of the evidence, on the same page."""
    doubt: ClaimDoubt | None = None
    """What speaks against the claim; None where nothing does."""
    needs_picture: bool = False
    """True where no text can tell, so that only a look at the picture can: the evidence has almost no text,
    or the claim is about colours, counts or drawings, or in another language."""
    is_computed: bool = False
    """True for a number that stands nowhere and follows from others."""
    operands: tuple[ItemWords, ...] = ()
    """The numbers that it follows from; empty where they are not known, or their table is not complete."""
    words: tuple[ItemWords, ...] = ()
    """Of a sentence, its own words and those of its names, as the evidence has them."""
    missing: int = 0
    """Of a sentence, the number of its own words that the evidence does not have around the place."""


@dataclass(frozen=True, slots=True)
class TextPlace:
    """A range of the flat text of a page."""

    page: int
    """Number of the page among those of the evidence."""
    statement: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class WeighedWords:
    """Words of a sentence, and how much each belongs to each statement of the evidence."""

    words: tuple[str, ...]
    weights: NDArray[np.float64]
    """Higher for rare words."""
    present: NDArray[np.bool_]
    """Which words the evidence has."""
    strengths: tuple[NDArray[np.float64], ...]
    """For each text, 0 to 1, shape (words, statements)."""

    def support(self, least: float, without: Collection[str] = ()) -> Support:
        """Return the share of the words around each statement, 0 to 1.

        Words that the evidence lacks do not count, except that it must have a share of `least` of all.

        Args:
            least: That share.
            without: Words that are left out, unless nothing would remain.
        """
        kept = np.asarray([word not in without for word in self.words], np.bool_)
        weights = self.weights * kept if kept.any() else self.weights
        total = max(float(weights[self.present].sum()), least * float(weights.sum())) or 1.0
        return [weights @ strengths / total for strengths in self.strengths]

    def shared(self, least: float, everywhere: Collection[str]) -> Support:
        """Return the share of the words that each statement has, all alike, 0 to 1.

        Args:
            least: How much a word must belong to a statement.
            everywhere: Words that count as those of every statement.
        """
        known = np.asarray([word in everywhere for word in self.words], np.bool_)[:, None]
        count = max(len(self.words), 1)
        return [((strengths >= least) | known).sum(axis=0) / count for strengths in self.strengths]


@dataclass(frozen=True, slots=True)
class ClaimEvidence:
    """The texts of all pages of the evidence."""

    sources: tuple[ClaimSource, ...]
    texts: tuple[SourceText, ...]
    inside: tuple[NDArray[np.bool_], ...]
    """For each text, which of its statements lie in a rectangle of the evidence."""
    vocabulary: frozenset[str]
    """The words of all texts."""

    @classmethod
    def read(cls, sources: Sequence[ClaimSource]) -> ClaimEvidence:
        """Read the pages of the sources, each once."""
        pages = {source.page.item.id: source.page for source in sources}
        texts = tuple(read_source(page) for page in pages.values())
        inside = tuple(
            _inside(text, [source.region for source in sources if source.page.item.id == text.item.id])
            for text in texts
        )
        terms = frozenset(term for text in texts for term in (*text.places, *text.title))
        return cls(tuple(sources), texts, inside, terms)

    @property
    def has_text(self) -> bool:
        """False if pages or their rectangles have too few words to tell anything."""
        words = {text.item.id: text for text in self.texts}
        return any(_has_text(words[source.page.item.id], source.region) for source in self.sources)

    def resolve(self, term: str) -> tuple[str, ...]:
        """Return the words of the evidence that a word may stand for: itself, or else similar ones."""
        if term in self.vocabulary:
            return (term,)
        if len(term) < 5 or any(letter.isdigit() for letter in term) or is_cjk(term):
            return ()
        return tuple(word for word in self.vocabulary if _is_variant(term, word))

    def weigh(self, terms: Iterable[str]) -> WeighedWords:
        """Return how much each of some words belongs to each statement, weighed by rarity."""
        words = tuple(dict.fromkeys(terms))
        forms = [self.resolve(word) for word in words]
        count = sum(len(text.statements) for text in self.texts)
        having = [
            sum(len(text.places.get(form, ())) for form in some for text in self.texts) for some in forms
        ]
        return WeighedWords(
            words,
            np.log1p(count / (0.5 + np.asarray(having, np.float64))),
            np.asarray([bool(some) for some in forms], np.bool_),
            tuple(_strengths(text, forms) for text in self.texts),
        )

    def is_of_part(self, page: int, rect: Rect | None) -> bool:
        """Return whether a place lies in a table of which only a part is known."""
        source = next(one for one in self.sources if one.page.item.id == self.texts[page].item.id)
        tables = [table for table in read_tables(source.page) if table.is_part]
        point = rect.box().center if rect is not None else None
        return any(table.box is None or point is None or table.box.covers(*point) for table in tables)

    def find_marked(self, reading: Reading) -> list[ItemWords]:
        """Return the cells that an answer of the reader was computed from; none of a part of a table."""
        pages = [self._find_marked_on_page(part) for part in (reading, *reading.further)]
        return [words for found in pages for words in found] if all(pages) else []

    def _find_marked_on_page(self, reading: Reading) -> list[ItemWords]:
        page = next((at for at, text in enumerate(self.texts) if text.item.id == reading.item), None)
        boxes = [mark.box for mark in reading.marks if mark.role is MarkRole.OPERAND]
        if page is None or any(self.is_of_part(page, Rect(*box.as_tuple())) for box in boxes):
            return []
        text = self.texts[page].page
        found: list[ItemWords] = []
        for box in boxes:
            inside = [(start, end) for start, end, rect in text.words if box.covers(*rect.box().center)]
            if not inside:
                return []
            start, end = min(inside)[0], max(end for _, end in inside)
            found.append(ItemWords(reading.item, start, end, " ".join(text.text[start:end].split())))
        return found

    def find_name(self, name: str, share: float = MIN_WHOLE_SHARE) -> Iterator[TextPlace]:
        """Yield the places that have all words of a name near each other, in any order.

        Of a name in Chinese or Japanese, a share of its pairs of characters is enough, since where it begins
        and ends is not written.
        """
        terms = [token.term for token in tokens(name)]
        words = list(dict.fromkeys(term for term in terms if term not in STOP_WORDS)) or terms
        forms = [frozenset(self.resolve(word)) for word in words]
        wide = is_cjk(name)
        needed = math.ceil(share * len(forms)) if wide else len(forms)
        if not words or sum(map(bool, forms)) < needed:
            return
        for page, text in enumerate(self.texts):
            found = [sorted(at for form in some for at in text.places.get(form, ())) for some in forms]
            present = [places for places in found if places]
            if len(present) < needed:
                continue
            anchors = sorted({at for some in present for at in some}) if wide else min(present, key=len)
            for anchor in anchors:
                near = [min(some, key=lambda at: abs(at - anchor)) for some in present]
                near = [at for at in near if abs(at - anchor) <= len(terms) + 2]
                if len(near) >= needed:
                    start = min(text.tokens[at].start for at in near)
                    end = max(text.tokens[at].end for at in near)
                    yield TextPlace(page, text.statement_at(start), start, end)

    def find_word(self, term: str, page: int, span: tuple[int, int]) -> tuple[int, int] | None:
        """Return where a word stands in the flat text of a page, nearest to a span of the item's text."""
        text = self.texts[page]
        numbers = [number for form in self.resolve(term) for number in text.places.get(form, ())]
        if not numbers:
            return None
        at = bisect_left(text.tokens, text.flat.offset_of(span[0]), key=lambda token: token.start)
        nearest = min(numbers, key=lambda number: abs(number - at))
        return text.tokens[nearest].start, text.tokens[nearest].end

    def words_at(self, page: int, start: int, end: int) -> ItemWords:
        """Return the words in a range of the flat text of a page."""
        text = self.texts[page]
        return ItemWords(
            text.item.id, *text.flat.original(start, end), " ".join(text.text[start:end].split())
        )

    def words(self, place: TextPlace) -> str:
        """Return the words at a place, with single spaces."""
        return " ".join(self.texts[place.page].text[place.start : place.end].split())

    def check(
        self, claim: Claim, verdict: ClaimVerdict, place: TextPlace, doubt: ClaimDoubt | None = None
    ) -> ClaimCheck:
        """Return a verdict with the words at a place."""
        text = self.texts[place.page]
        boxes = text.boxes(place.start, place.end)
        of_item = [at for at, source in enumerate(self.sources) if source.page.item.id == text.item.id]
        covering = [at for at in of_item if _covers(self.sources[at].region, boxes)]
        return ClaimCheck(
            claim,
            verdict,
            tuple(covering or of_item[:1]),
            self.words(place),
            text.item.id,
            text.flat.original(place.start, place.end),
            boxes,
            outside=not covering,
            doubt=doubt,
        )


def _strengths(text: SourceText, forms: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """Return how much each word, in any of its forms, belongs to each statement; see `WeighedWords`."""
    strengths = np.zeros((len(forms), len(text.statements)))
    for number, some in enumerate(forms):
        if some:
            strengths[number] = [
                max(text.weight(form, statement) for form in some) for statement in text.statements
            ]
    return strengths


def _has_text(text: SourceText, region: Box | None) -> bool:
    if region is None or not text.page.words:
        return len(text.tokens) >= MIN_WORDS
    inside = (rect for _, _, rect in text.page.words if region.covers(*rect.box().center))
    return sum(1 for _ in inside) >= MIN_REGION_WORDS


def _inside(text: SourceText, regions: Sequence[Box | None]) -> NDArray[np.bool_]:
    return np.asarray(
        [
            statement.rect is None or any(_covers(region, (statement.rect.box(),)) for region in regions)
            for statement in text.statements
        ],
        np.bool_,
    )


def _covers(region: Box | None, boxes: Sequence[Box]) -> bool:
    """Return whether a rectangle has the centres of all boxes."""
    return region is None or all(region.covers(*box.center) for box in boxes)


def _is_variant(term: str, word: str) -> bool:
    """Return whether two words begin alike, or differ by one letter, as by an error of recognition."""
    if len(word) < 5 or (word[0] != term[0] and word[1:] != term[1:]):
        return False
    short, long = sorted((len(term), len(word)))
    same = next((n for n in range(short) if term[n] != word[n]), short)
    return (same >= 5 and same >= 0.65 * long) or (short >= 6 and one_edit_apart(term, word))
