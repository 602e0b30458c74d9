"""The assertions of a page: sentences and cells of tables, with their words, scope and values."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from vrag.geometry import Box
from vrag.reading.answer import ReadPage
from vrag.reading.conflicts.fact_words import LIGHT, QUALIFIERS, STOPS, SYNONYMS, Span, split_words
from vrag.reading.page_text import read_page_text
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.reading.verification.comparison import ValueContext
from vrag.reading.verification.source_text import SourceText, Statement, read_source
from vrag.reading.verification.text_values import TextValue, find_values
from vrag.reading.verification.units import find_units
from vrag.reading.views.text_lines import Rect
from vrag.text.folding import fold
from vrag.text.terms import Token, is_number, tokens

MAX_TOKENS, MIN_TOKENS = 90, 3
"""Words of a sentence that is compared."""
MAX_HEADING_TOKENS = 9
"""Words of a line that may be a heading."""
MAX_CELLS = 1500
"""Cells of the tables of a page that are compared."""
KEY_VALUE_COLUMNS, MAX_PAIR_VALUES, MAX_PERIOD_WORDS = 2, 4, 3
"""Columns of a table of keys and values, values of one of its cells, and words of a head that is a period."""
MAX_LEADING = 0.5
"""Space between two lines of one cell, as part of their height, from which they are two rows."""
MAX_VALUES = 8
"""Values of a sentence that is compared; one with more is a list or a table without lines."""
NUMBER, DATE, YEAR = "#n", "#d", "#y"
"""Places of values in the words of an assertion."""

_CODE = re.compile(r"\w\(|[={}\[\]\\<>]|[^\W\d]_[^\W\d]|::|->")
"""Signs of a programming language."""
_ATTRIBUTION = re.compile(
    r"""^(?: (?:according\ to|per
      |as\ (?:stated|reported|noted|shown|described|confirmed|recorded|mentioned)\ (?:in|by))\b[^,:]{3,90},
    | (?:[\w’'-]+\s){0,7}(?:states?|says?|said|stated|notes?|noted|reports?|reported|confirms?|confirmed|wrote
      |writes|announced|records?|recorded|mentions|indicates?|shows?)\s+that\b )""",
    re.IGNORECASE | re.VERBOSE,
)
"""The beginning of a sentence that says who says the rest."""
_ENTRY = re.compile(r"[(\[]?\d{1,3}[.)\]]\s")
"""The number of an entry of a list."""
_IN_CODE = re.compile(r"[A-Za-z]{2,}[A-Za-z0-9]*[-–—/]?(?:\d+[-–—/])+$|[A-Za-z]{2,}[-–—]$")
"""The beginning of a code, of which a number is a part."""
_DOTS = re.compile(r"\.{4,}|(?:\. ){4,}|…{2,}|\bpage:?\s*\d+\s*(?:of|/)\s*\d+", re.IGNORECASE)
"""The dots of a table of contents, and the number of a page in a footer."""
_LABEL_NUMBER = re.compile(
    r"""\b(?:[A-Z][\w-]*|(?:route|line|room|phase|step|stage|type|class|level|grade|building|question|group
    |item|version|edition|revision|volume|issue|lot|gate|bus|unit|model|series|part|annex|no|nr|number|test
    |case|day|week|exercise|page|figure|table|chapter|section|clause|article|paragraph|option|zone|district
    |block|floor|flight|train|track|rev|v))\.?\s$""",
    re.VERBOSE,
)
"""The text before a number that is a name."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A value of an assertion, and what stands beside it."""

    value: TextValue
    """Its place is that in the text of the assertion."""
    place: int
    """Its number among the words of the assertion."""
    counted: str
    """The word behind it, such as what is counted; empty without one."""

    @property
    def mark(self) -> str:
        """Return the kind of value as it stands among the words."""
        day = self.value.day
        if day is None:
            return NUMBER if self.value.clock is None else DATE
        return DATE if day.month else YEAR


@dataclass(frozen=True, slots=True)
class CellPlace:
    """The places of a cell and of its heads, which an assertion of a table rests on."""

    box: Box | None
    frame: Box | None
    """The rectangle around the cell and the heads of its row."""
    heads: tuple[Box, ...]
    caption: frozenset[str]
    """The words of the caption."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """A sentence or a cell of a page that can be compared with others."""

    document: str
    item: str
    text: str
    """The sentence; of a cell the heads and the text of the cell."""
    start: int
    """Where a sentence begins in the flat text of its page; 0 of a cell."""
    words: tuple[str, ...]
    """All its terms in order; values are `#n`, `#d` and `#y`."""
    spans: tuple[tuple[int, int], ...]
    """The places of the words in the text."""
    terms: frozenset[str]
    """The terms that say what it is about: without stop words, light words, qualifiers and values."""
    qualifiers: frozenset[str]
    names: frozenset[str]
    """Its terms that begin with a capital letter, other than the first."""
    slots: tuple[Slot, ...]
    years: frozenset[int]
    """Years that stand in it as such."""
    heading: frozenset[str]
    """The terms of the headings above."""
    context: ValueContext
    said: str
    """Its words and numbers in order: two assertions that say the same have the same."""
    cell: CellPlace | None = None
    rect: Rect | None = None
    """The rectangle of a sentence; None of a cell, and without a picture."""
    asked: str = ""
    """The question that it answers; empty without one."""

    @property
    def is_listing(self) -> bool:
        """True if it has so many values that it is a list or a table without lines."""
        return len(self.slots) > MAX_VALUES

    @property
    def place(self) -> Box | None:
        """Return its rectangle: that of the sentence, or of the cell; None without a picture."""
        if self.cell is not None:
            return self.cell.box
        return None if self.rect is None else self.rect.box()

    @property
    def key(self) -> tuple[str, ...]:
        """Return its words without names, by which sentences of one template are the same."""
        return tuple(word for word in self.words if word not in self.names)


def read_assertions(page: ReadPage) -> list[Assertion]:
    """Return the assertions of a page in the order of its text."""
    source = read_source(page)
    tables = read_page_text(page.item).tables(page.picture)
    found = list(_read_sentences(page, source, tables))
    for table in tables:
        found += _read_cells(page, table)
    return found


def terms_of(text: str) -> frozenset[str]:
    """Return the terms of a title or a heading that say what it is about."""
    return frozenset(
        SYNONYMS.get(token.term, token.term)
        for token in tokens(text)
        if token.term not in STOPS and not is_number(token.term) and len(token.term) > 1
    )


def _read_sentences(
    page: ReadPage, source: SourceText, tables: Sequence[DocumentTable]
) -> Iterator[Assertion]:
    inside = _CellFinder(source, tables)
    heading = terms_of(page.item.heading)
    starts = [token.start for token in source.tokens]
    above: frozenset[str] = frozenset()
    asked = ""
    for statement in _split_lines(source):
        text = source.text[statement.start : statement.end]
        first, last = bisect_left(starts, statement.start), bisect_left(starts, statement.end)
        if inside.holds(statement):
            continue
        said = _ATTRIBUTION.match(text)
        begin = statement.start + (said.end() if said else 0)
        own = [
            Token(token.term, token.start - statement.start, token.end - statement.start)
            for token in source.tokens[first:last]
            if token.start >= begin
        ]
        if _is_heading(text, own) and not asked:
            above = terms_of(text)
            continue
        if text.endswith("?"):
            above, asked = terms_of(text), text
            continue
        question, asked = asked, ""
        if (
            (1 if question else 2 if ": " in text else MIN_TOKENS) <= len(own) <= MAX_TOKENS
            and not _DOTS.search(text)
            and not _CODE.search(text)
        ):
            yield _assertion(
                page,
                text,
                own,
                [value for value in find_values(text) if value.start >= begin - statement.start],
                heading=heading | above | (terms_of(said[0]) if said else frozenset[str]()),
                context=statement.context,
                place=statement,
                asked=question,
            )


_LABELLED = re.compile(r"[\s•*–-]*[A-ZÀ-Þ][^:.!?\n]{1,60}:\s+\S")
"""The beginning of a line with a label, as in "Length: 320 m"."""


def _split_lines(source: SourceText) -> Iterator[Statement]:
    """Yield the statements; those of several lines with labels line by line."""
    for statement in source.statements:
        start, end = source.flat.original(statement.start, statement.end)
        text = source.item.text[start:end]
        lines = [match.end() for match in re.finditer(r"\n", text)]
        if not any(_LABELLED.match(text, at) for at in lines):
            yield statement
            continue
        after_label = _LABELLED.match(text) is not None
        cuts: list[int] = []
        for at in lines:
            is_label = _LABELLED.match(text, at) is not None
            if is_label or (after_label and re.match(r"\s*[•*–-]", text[at:])):
                cuts.append(start + at)
            after_label = after_label or is_label
        yield from _cut(source, statement, cuts)


def _cut(source: SourceText, statement: Statement, cuts: Sequence[int]) -> Iterator[Statement]:
    """Yield the parts of a statement that begin at places of the original text."""
    tokens_of = [token for token in source.tokens if statement.start <= token.start < statement.end]
    pending = list(cuts)
    begin, before = statement.start, statement.start
    bounds: list[Span] = []
    for token in tokens_of:
        if pending and source.flat.original(token.start, token.end)[0] >= pending[0]:
            while pending and source.flat.original(token.start, token.end)[0] >= pending[0]:
                pending.pop(0)
            if before > begin:
                bounds.append((begin, token.start))
            begin = token.start
        before = token.end
    for start, last in [*bounds, (begin, statement.end)]:
        end = start + len(source.text[start:last].rstrip(" •*–-"))
        if start < end:
            rect = source.page.rect_of(*source.flat.original(start, end)) if source.page.words else None
            yield replace(statement, start=start, end=end, rect=rect)


class _CellFinder:
    """The statements that stand in tables."""

    def __init__(self, source: SourceText, tables: Sequence[DocumentTable]) -> None:
        self._source = source
        self._boxes = [table.box for table in tables if table.box is not None]
        self._spans = sorted(cell.span for table in tables for cell in table.cells if cell.span)

    def holds(self, statement: Statement) -> bool:
        """Return whether a statement stands in a table."""
        if statement.rect is not None:
            x, y = (statement.rect.x1 + statement.rect.x2) / 2, (statement.rect.y1 + statement.rect.y2) / 2
            return any(box.covers(x, y) for box in self._boxes)
        if not self._spans:
            return False
        start, _ = self._source.flat.original(statement.start, statement.end)
        at = bisect_right(self._spans, (start, 1 << 60)) - 1
        return at >= 0 and self._spans[at][0] <= start < self._spans[at][1]


def _is_heading(text: str, own: Sequence[Token]) -> bool:
    ends = text.rstrip()[-1:]
    is_short = 0 < len(own) <= MAX_HEADING_TOKENS and ends not in ".;:,!?。；：，"
    return is_short and ":" not in text and not any(is_number(token.term) for token in own[1:])


def _assertion(
    page: ReadPage,
    text: str,
    own: Sequence[Token],
    values: Sequence[TextValue],
    *,
    heading: frozenset[str],
    context: ValueContext,
    place: Statement | CellPlace,
    asked: str = "",
) -> Assertion:
    values = [value for value in values if not _is_label(text, value)]
    words: list[str] = []
    spans: list[tuple[int, int]] = []
    slots: list[Slot] = []
    pending = list(values)
    for token in own:
        while pending and pending[0].end <= token.start:
            pending.pop(0)
        if pending and pending[0].start < token.end:
            if slots and slots[-1].value is pending[0]:
                continue
            slots.append(Slot(pending[0], len(words), _counted(own, pending[0])))
            words.append(slots[-1].mark)
            spans.append((pending[0].start, pending[0].end))
        else:
            if token.term == "part" and words and words[-1] in {"tak", "took", "take"}:
                continue  # to take part
            words.append(SYNONYMS.get(token.term, token.term))
            spans.append((token.start, token.end))
    said = frozenset(word for word in words if not word.startswith("#"))
    qualifiers = said & QUALIFIERS
    years = frozenset(
        slot.value.day.year for slot in slots if slot.value.day is not None and slot.value.day.year
    )
    return Assertion(
        page.item.document,
        page.item.id,
        text,
        0 if isinstance(place, CellPlace) else place.start,
        tuple(words),
        tuple(spans),
        said - STOPS - LIGHT - qualifiers,
        qualifiers,
        _names(text, words, spans, is_cell=isinstance(place, CellPlace)),
        tuple(slots),
        years,
        heading,
        context,
        " ".join(word for word, _, _ in split_words(fold(text))),
        place if isinstance(place, CellPlace) else None,
        None if isinstance(place, CellPlace) else place.rect,
        asked,
    )


def _is_label(text: str, value: TextValue) -> bool:
    """Return whether a number is a name, as that of a route, a room or a list entry, or an ordinal."""
    if value.ordinal:
        return True
    if value.amount is None or value.units or value.scale != 1 or value.step != 1 or value.spelled:
        return False
    if value.start == 0 and _ENTRY.match(text):
        return True
    before = text[: value.start]
    if _IN_CODE.search(before):
        return True
    if re.search(r"\d[.,’' ]\d", text[value.start : value.end]) or re.search(r":\s+[A-Z][\w-]*\s$", before):
        return False
    return _LABEL_NUMBER.search(before[-24:]) is not None and not _begins(before)


def _begins(before: str) -> bool:
    """Return whether the only word before a number begins its sentence, as in "Over 50"."""
    return re.fullmatch(r"\W*[A-Z][a-z]+\s", before) is not None and before.strip().lower() in STOPS


def _counted(own: Sequence[Token], value: TextValue) -> str:
    return next(
        (
            SYNONYMS.get(token.term, token.term)
            for token in own
            if token.start >= value.end and token.term not in STOPS and not is_number(token.term)
        ),
        "",
    )


def _names(
    text: str, words: Sequence[str], spans: Sequence[tuple[int, int]], *, is_cell: bool
) -> frozenset[str]:
    """Return the terms with a capital letter: the first of a sentence only if the second has one, too."""
    capital = [text[start].isupper() for start, _ in spans]
    begins = is_cell or capital[:2] == [True, True]
    return frozenset(
        word
        for number, word in enumerate(words)
        if capital[number] and (number or begins) and word not in STOPS and word not in QUALIFIERS
    )


def _read_cells(page: ReadPage, table: DocumentTable) -> Iterator[Assertion]:
    caption = terms_of(table.caption)
    corner = table.cell_at(max(table.header_rows - 1, 0), 0) if table.header_columns else None
    heading = terms_of(f"{page.item.heading} {corner.text if corner is not None else ''}")
    is_pairs = table.width == KEY_VALUE_COLUMNS
    body = [cell for cell in table.cells if (_is_value(cell, table) if is_pairs else _is_body(cell, table))]
    for cell in body[:MAX_CELLS]:
        rows, columns = table.row_heads(cell.row), table.column_heads(cell.column)
        if is_pairs:
            rows = tuple(_key_lines(table, cell.row))
            columns = tuple(head for head in columns[:1] if head.row < cell.row and _is_plain_head(head.text))
        heads = [*dict.fromkeys(head for head in (*rows, *columns) if head is not cell)]
        if not heads:
            continue
        parts = [" ".join(key.text for key in rows), *(head.text for head in heads if head not in rows)]
        label = " · ".join(parts if is_pairs else [head.text for head in heads])
        text = f"{label}: {cell.text}"
        values = [value.moved(len(label) + 2) for value in find_values(cell.text)]
        if len(values) > (MAX_PAIR_VALUES if is_pairs else 1):
            continue
        heads_values = [value for value in find_values(label) if value.day is not None]
        around = [head.box for head in rows if head.box] + ([cell.box] if cell.box else [])
        units = find_units(label) or find_units(table.caption)
        context = _cell_context(label, table.caption, frozenset(units))
        yield _assertion(
            page,
            text,
            tokens(text),
            sorted([*heads_values, *values], key=lambda value: value.start),
            heading=heading,
            context=context,
            place=CellPlace(
                cell.box,
                Box.around(around) if cell.box and around else cell.box,
                tuple(head.box for head in heads if head.box),
                caption,
            ),
        )


def _cell_context(label: str, caption: str, units: frozenset[object]) -> ValueContext:
    from vrag.reading.table_answers.scales import find_scale

    powers = {"thousand": 3, "million": 6, "billion": 9}
    power = powers.get(find_scale(label) or find_scale(caption) or "")
    scales = frozenset({Decimal(10) ** power}) if power else frozenset[Decimal]()
    return ValueContext(units, scales, is_cell=True, words=label)  # pyright: ignore[reportArgumentType]


def _key_lines(table: DocumentTable, row: int) -> Iterator[Cell]:
    """Yield the key of a row, and the lines below on which it goes on: keys without a value, close to it."""
    key = table.cell_at(row, 0)
    while key is not None:
        yield key
        row += 1
        below, value = table.cell_at(row, 0), table.cell_at(row, 1)
        if below is None or below is key or (value is not None and value.text) or not _goes_on(key, below):
            return
        key = below


def _goes_on(key: Cell, below: Cell) -> bool:
    """Return whether a cell is the next line of the one above: closer than rows are."""
    if key.box is None or below.box is None:
        return below.text[:1].islower()
    return below.box.y1 - key.box.y2 < MAX_LEADING * (key.box.y2 - key.box.y1)


def _is_plain_head(text: str) -> bool:
    """Return whether a text is a head, or a period, and no value that was taken for a head."""
    values = find_values(text)
    return not values or (len(text.split()) <= MAX_PERIOD_WORDS and all(value.is_date for value in values))


def _is_value(cell: Cell, table: DocumentTable) -> bool:
    """Return whether a cell of two columns stands beside its key."""
    key = table.cell_at(cell.row, 0)
    is_first = cell.row < table.header_rows and not find_values(cell.text)
    return cell.column == 1 and bool(cell.text) and key is not None and key is not cell and not is_first


def _is_body(cell: Cell, table: DocumentTable) -> bool:
    return (
        bool(cell.text)
        and cell.row >= table.header_rows
        and cell.column >= table.header_columns
        and cell.row not in table.sections
    )
