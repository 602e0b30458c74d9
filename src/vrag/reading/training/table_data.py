"""Questions over tables with their answers: WikiTableQuestions and TAT-QA."""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from pathlib import Path
from typing import Any

from vrag.reading.table_answers.records import is_year
from vrag.reading.table_answers.values import Day, find_day, parse_cell
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.text.numerals import strip_zeros

_NEAR, _NEAR_ROUNDED = Decimal("1e-6"), Decimal("0.0101")
"""Difference below which two numbers count as one, and two that were rounded to two decimals."""


@dataclass(frozen=True, slots=True, eq=False)
class TableCase:
    """A question over a table and what counts as its answer."""

    id: str
    question: str
    table: DocumentTable
    answers: tuple[str, ...]
    canonical: tuple[str, ...] = ()
    """The answers as numbers and dates (yyyy-mm-dd) where the data set gives them."""
    scale: str = ""
    """"thousand", "million", "billion" or "percent", as TAT-QA states it."""
    computed: bool = False
    """True if TAT-QA says that the answer was computed or counted."""
    rounded: bool = False
    """True if numbers are right when they agree after rounding to two decimals."""
    source: str = ""
    """The source of the answer, as TAT-QA states it: table, text, table-text."""


def read_wiki_cases(folder: Path, name: str) -> list[TableCase]:
    """Read a split of WikiTableQuestions, such as `pristine-unseen-tables`, from a copy of its repository."""
    canonical = _read_canonical(folder / "tagged" / "data" / f"{name}.tagged")
    cases: list[TableCase] = []
    for row in _read_rows(folder / "data" / f"{name}.tsv"):
        answers = tuple(_unescape(text) for text in row["targetValue"].split("|"))
        table = read_wiki_table(folder / row["context"])
        cases.append(
            TableCase(row["id"], _unescape(row["utterance"]), table, answers, canonical.get(row["id"], ()))
        )
    return cases


def _read_rows(path: Path) -> list[dict[str, str]]:
    head, *lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    names = head.split("\t")
    return [dict(zip(names, line.split("\t"), strict=False)) for line in lines]


def _read_canonical(path: Path) -> dict[str, tuple[str, ...]]:
    if not path.is_file():
        return {}
    return {
        row["id"]: tuple(_unescape(text) for text in row["targetCanon"].split("|"))
        for row in _read_rows(path)
        if row.get("targetCanon")
    }


def _unescape(text: str) -> str:
    return text.replace(r"\n", "\n").replace(r"\p", "|").replace("\\\\", "\\")


@lru_cache(maxsize=4096)
def read_wiki_table(path: Path) -> DocumentTable:
    """Read a table of WikiTableQuestions; its first column holds heads if each row has another name."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, doublequote=False, escapechar="\\"))
    names = [row[0].strip() for row in rows[1:] if row]
    numbers = sum(parse_cell(name).whole for name in names)
    heads = len(set(names)) == len(names) and numbers < 0.5 * len(names)
    return make_table(rows, header_rows=1, header_columns=int(heads))


def make_table(
    rows: Sequence[Sequence[str]], *, header_rows: int, header_columns: int, caption: str = ""
) -> DocumentTable:
    """Make a table of texts without spans."""
    cells = tuple(
        Cell(row=r, column=c, text=" ".join(text.split()))
        for r, row in enumerate(rows)
        for c, text in enumerate(row)
    )
    return DocumentTable(cells=cells, header_rows=header_rows, header_columns=header_columns, caption=caption)


_SCALE = re.compile(
    r"\b(?:in|of|\$|€|£)?\s*(thousand|million|billion)s?\b|[$€£](?:'|’)?(000|m|k|bn)\b|(?:'|’)000",
    re.IGNORECASE,
)


def read_tat_cases(path: Path) -> list[TableCase]:
    """Read the questions of a file of TAT-QA, those about running text included."""
    cases: list[TableCase] = []
    for record in read_tat_records(path.read_text(encoding="utf-8")):
        texts = [paragraph["text"] for paragraph in record["paragraphs"]]
        table = read_tat_table(record["table"]["table"], texts)
        cases += (read_tat_question(question, table) for question in record["questions"])
    return cases


def read_tat_records(text: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a JSON list, as many as are whole: a stored copy may be cut off."""
    decoder = json.JSONDecoder()
    at = text.find("[") + 1
    while match := re.compile(r"[\s,]*(?=\{)").match(text, at):
        try:
            record, at = decoder.raw_decode(text, match.end())
        except json.JSONDecodeError:
            return
        yield record


def read_tat_question(question: dict[str, Any], table: DocumentTable) -> TableCase:
    """Read a question of a record of TAT-QA."""
    answer = question["answer"]
    answers: list[Any] = list(answer) if isinstance(answer, list) else [answer]  # pyright: ignore[reportUnknownArgumentType]
    return TableCase(
        question["uid"],
        question["question"],
        table,
        tuple(str(text) for text in answers),
        scale=question["scale"],
        computed=question["answer_type"] in {"arithmetic", "count"},
        rounded=True,
        source=question["answer_from"],
    )


def read_tat_table(rows: Sequence[Sequence[str]], paragraphs: Sequence[str]) -> DocumentTable:
    """Make a table of TAT-QA: heads at the top are rows without numbers other than years."""
    rows = [[" ".join(text.split()) for text in row] for row in rows]
    header = next((number for number, row in enumerate(rows) if _has_numbers(row[1:])), 1)
    while header > 1 and rows[header - 1][0] and not any(rows[header - 1][1:]):
        header -= 1
    header = min(max(header, 1), max(len(rows) - 1, 1), 4)
    cells: list[Cell] = []
    for number, row in enumerate(rows):
        cells += (
            _head_cells(number, row)
            if number < header
            else (Cell(row=number, column=column, text=text) for column, text in enumerate(row))
        )
    sections = frozenset(n for n in range(header, len(rows)) if rows[n][0] and not any(rows[n][1:]))
    caption = " ".join(
        sentence
        for paragraph in paragraphs
        for sentence in re.split(r"(?<=[.:])\s", paragraph)
        if re.search(r"\bin (?:thousand|million|billion)s?", sentence)
    )
    return DocumentTable(
        cells=tuple(cells), header_rows=header, header_columns=1, sections=sections, caption=caption[:600]
    )


def _has_numbers(row: Sequence[str]) -> bool:
    values = [parse_cell(text) for text in row]
    return any(
        value.whole and value.number is not None and not (is_year(value.number) and not value.unit)
        for value in values
    )


def _head_cells(number: int, row: Sequence[str]) -> Iterator[Cell]:
    """Yield heads; each spans the empty places at its right, a single one all columns but the first."""
    filled = [column for column in range(1, len(row)) if row[column]]
    if row:
        yield Cell(row=number, column=0, text=row[0])
    if not filled:
        return
    starts = [1, *filled[1:]] if len(filled) == 1 else filled
    for start, end in zip(starts, [*starts[1:], len(row)], strict=True):
        text = row[filled[0]] if len(filled) == 1 else row[start]
        yield Cell(row=number, column=start, columns=end - start, text=text)


def normalise_answer(text: str) -> str:
    """Return an answer without case, accents, citations, details in brackets and outer marks."""
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if unicodedata.category(c) != "Mn")
    text = re.sub("[‘’´`]", "'", text)
    text = re.sub("[“”]", '"', text)
    text = re.sub("[‐‑‒–—−]", "-", text)
    while True:
        old = text
        text = re.sub(r"((?<!^)\[[^\]]*\]|\[\d+\]|[•♦†‡*#+])*$", "", text.strip())
        text = re.sub(r"(?<!^)( \([^)]*\))*$", "", text.strip())
        text = re.sub(r'^"([^"]*)"$', r"\1", text.strip())
        if text == old:
            break
    return re.sub(r"\s+", " ", text.removesuffix(".")).lower().strip()


def canonical_value(text: str) -> str:
    """Return a whole number or a full date in the form of the official evaluation; other text as it is.

    >>> canonical_value("12,467"), canonical_value("June 4, 1998"), canonical_value("4th, Western")
    ('12467', '1998-6-4', '4th, Western')
    """
    value = parse_cell(normalise_answer(text))
    if value.whole and value.number is not None and value.unit in {"", "$"}:
        return f"{strip_zeros(value.number):f}"
    day: Day | None = find_day(text)
    if day is not None and day.day and len(text) <= 24:
        return f"{day.year or 'xx'}-{day.month}-{day.day}"
    return text


def parse_number(text: str) -> Decimal | None:
    """Parse a plain number."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


@lru_cache(maxsize=262_144)
def _forms(text: str) -> tuple[str, str]:
    return normalise_answer(text), canonical_value(text)


def matches_answer(values: Sequence[str], number: Decimal | None, case: TableCase) -> bool:
    """Return whether an answer, read or computed, is right: the same set of values."""
    if case.rounded:
        return _matches_rounded(values, number, case)
    canonical = case.canonical or tuple(canonical_value(text) for text in case.answers)
    targets = {(normalise_answer(text), form) for text, form in zip(case.answers, canonical, strict=False)}
    if number is not None:
        known = next(iter(targets))
        wanted = parse_number(known[1])
        return len(targets) == 1 and wanted is not None and abs(wanted - number) < _NEAR
    forms = {_forms(text) for text in values}
    if len(forms) != len(targets):
        return False
    return all(
        any(target[0] == form[0] or same_value(target[1], form[1]) for form in forms) for target in targets
    )


def same_value(one: str, two: str) -> bool:
    """Return whether two canonical numbers or dates are equal."""
    a, b = parse_number(one), parse_number(two)
    if a is not None and b is not None:
        return abs(a - b) < _NEAR
    dates = re.compile(r"(xx|\d+)-(xx|\d+)-(xx|\d+)")
    return bool(dates.fullmatch(one) and dates.fullmatch(two)) and [
        part.lstrip("0") for part in one.split("-")
    ] == [part.lstrip("0") for part in two.split("-")]


def _matches_rounded(values: Sequence[str], number: Decimal | None, case: TableCase) -> bool:
    if number is not None:
        wanted = parse_cell(case.answers[0]).number if len(case.answers) == 1 else None
        return wanted is not None and case.computed and abs(round(number, 2) - wanted) < _NEAR_ROUNDED
    if case.computed:
        wanted = parse_number(case.answers[0])
        have = parse_cell(values[0]).number if len(values) == 1 else None
        return wanted is not None and have is not None and abs(wanted - have) < _NEAR
    return {_plain(text) for text in values} == {_plain(text) for text in case.answers}


def _plain(text: str) -> str:
    folded = re.sub(r"[\s$€£%(),.]|^the\b", "", text.lower())
    return re.sub("[‐‑‒–—−]", "-", folded)
