"""Files of separated values, csv and tsv → sections of whole rows, each with the names of the columns.

The sign between values is found: a comma, semicolon, tab or bar. Lines of a single value above the table are
its title. Rows that are too long for a line are written as records, "name: value".
"""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from typing import TYPE_CHECKING

from vrag.corpus.formats.texts.outline import Section
from vrag.corpus.formats.texts.table_lines import (
    CELL,
    MAX_CELL_CHARS,
    TableDraft,
    guess_header_rows,
)
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DELIMITERS = ",;\t|"
SAMPLE_LINES = 50
"""Rows by which the sign between values, and the names of columns, are found."""
MAX_TITLE_ROWS = 8
"""Rows above a table that may be its title."""
MAX_VALUE_CHARS = 8_000_000
"""Characters of a value beyond which a quotation mark has no end."""


def table_sections(text: str, size: int) -> Iterator[Section]:
    """Yield the rows of a file of separated values in sections of about `size` characters.

    Raises `CorpusError` if a value is too long.
    """
    rows = _read_rows(text)
    sample = list(itertools.islice(rows, SAMPLE_LINES))
    width = _usual_width(sample)
    title = list(itertools.takewhile(lambda row: sum(map(bool, row)) == 1 < width, sample[:MAX_TITLE_ROWS]))
    names = _find_names(sample[len(title) :])
    body = itertools.chain(sample[len(title) + bool(names) :], rows)
    before = "\n".join(filter(None, itertools.chain.from_iterable(title)))
    if names and len(CELL.join(names)) > size // 2:
        parts: Iterator[Section] = (Section((), _record(names, row)) for row in body)
    else:
        parts = _pack_rows(names, body, size, before)
        before = ""
    if before:
        yield Section((), before)
    yield from parts


def _read_rows(text: str) -> Iterator[list[str]]:
    """Yield the rows that are not empty, each value with single spaces."""
    first, _, rest = text.partition("\n")
    if first.lower().startswith("sep=") and len(first.strip()) == 5:
        delimiter, text = first[4], rest
    else:
        delimiter = find_delimiter(text)
    csv.field_size_limit(MAX_VALUE_CHARS)
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True):
            values = [" ".join(value.split()) for value in row]
            while values and not values[-1]:
                values.pop()
            if values:
                yield values
    except csv.Error as error:
        raise CorpusError(f"The rows cannot be read: {error}.") from error


def find_delimiter(text: str) -> str:
    r"""Return the sign that parts the first lines of a text into the same number of values most often.

    >>> find_delimiter("a;b;c\n1,5;2,5;3\n"), find_delimiter("a\tb\n1\t2\n")
    (';', '\t')
    """
    lines = text[:65_536].split("\n")[: SAMPLE_LINES + 1]
    sample = "\n".join(lines[:-1] if len(lines) > SAMPLE_LINES else lines)
    best, score = ",", (0.0, 0)
    for delimiter in DELIMITERS:
        try:
            rows = list(csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter))
        except csv.Error:
            continue
        widths = Counter(len(row) for row in rows if row)
        width, count = max(widths.items(), key=lambda pair: (pair[0] > 1, pair[1], pair[0]), default=(1, 0))
        found = count / max(widths.total(), 1), width
        if width > 1 and found > score:
            best, score = delimiter, found
    return best


def _usual_width(rows: Sequence[Sequence[str]]) -> int:
    widths = Counter(sum(map(bool, row)) for row in rows)
    return max(widths, key=lambda width: (widths[width], width), default=0)


def _find_names(rows: Sequence[list[str]]) -> list[str]:
    """Return the names of the columns, which the first row holds unless it has figures; [] without any."""
    if len(rows) < 2 or len(rows[0]) < 2:
        return []
    count = guess_header_rows(rows)
    is_named = len(set(rows[0])) == len(rows[0]) and all(rows[0])
    return rows[0] if count == 1 or (count is None and is_named) else []


def _pack_rows(names: list[str], rows: Iterable[list[str]], size: int, before: str) -> Iterator[Section]:
    """Yield sections of as many rows as `size` holds, with their names; `before` stands above the first."""
    room = size - len(CELL.join(names))
    packed: list[list[str]] = []
    used = len(before)
    is_first = True
    for row in rows:
        length = len(CELL.join(row)) + 1
        is_long = length > max(room, size // 2) or max(map(len, row)) > MAX_CELL_CHARS
        if packed and (is_long or used + length > room):
            yield _make_section(names, packed, before, is_part=True)
            packed, used, before, is_first = [], 0, "", False
        if is_long:
            yield Section((), "\n\n".join(filter(None, (before, _record(names, row)))))
            before, is_first = "", False
        else:
            packed.append(row)
            used += length
    if packed or (is_first and (names or before)):
        yield _make_section(names, packed, before, is_part=not is_first)


def _make_section(names: list[str], rows: Sequence[list[str]], before: str, *, is_part: bool) -> Section:
    table = TableDraft()
    for row in (names, *rows) if names else rows:
        table.begin_row(is_head=row is names)
        for value in row:
            table.begin_cell()
            table.add(value)
    lined = table.finish()
    if lined is None:
        lines = [CELL.join(row) for row in ((names, *rows) if names else rows)]
        return Section((), "\n".join(filter(None, (before, *lines))))
    start = len(before) + 2 if before else 0
    text = "\n\n".join(filter(None, (before, lined.text)))
    return Section((), text, (lined.moved(start)._replace(is_part=is_part),))


def _record(names: Sequence[str], row: Sequence[str]) -> str:
    """Return the values of a row with the names of their columns, a line for each."""
    pairs = itertools.zip_longest(names, row[: max(len(names), len(row))], fillvalue="")
    return "\n".join(f"{name}: {value}" if name else value for name, value in pairs if value)
