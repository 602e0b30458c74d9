"""Features of programs: how well a program fits a question, without any word of its topic."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vrag.reading.table_answers.matching import TermMatches, as_bits, positions_of
from vrag.reading.table_answers.operations import OPERATIONS, Program
from vrag.reading.table_answers.question import TableQuestion
from vrag.reading.table_answers.records import GridColumn, RecordGrid, cell_terms, is_year
from vrag.reading.table_answers.row_sets import RowSet, Selection
from vrag.reading.table_answers.triggers import HEAD_CLASSES, TRIGGERS
from vrag.reading.table_answers.values import parse_cell
from vrag.text.numerals import NumberStyle

_HEAD_PATTERNS = [re.compile(pattern, re.IGNORECASE) for pattern in HEAD_CLASSES.values()]

_ROW_NAMES = (
    *(f"rows {selection.name}" for selection in Selection),
    *(f"parent {selection.name}" for selection in Selection),
    "rows log", "rows share", "rows one", "rows weight", "rows coverage", "rows exact", "rows depth",
    "rows head cells", "rows phrase", "key none", "key weight", "key coverage", "key near extreme",
    "key near asked", "key dated", "key numeric", "key index", "rows mask head",
    *(f"key {name}" for name in HEAD_CLASSES),
)  # fmt: skip
_COLUMN_NAMES = (
    "column none", "column weight", "column share", "column coverage", "asked 0", "asked 1", "asked 2",
    "asked 3", "extreme 0", "extreme 1", "extreme 2", "numeric", "dated", "leads", "distinct", "filled",
    "first", "second", "last", "index", "head", "constrained", "column phrase",
    *(f"column {name}" for name in HEAD_CLASSES),
)  # fmt: skip
_PROGRAM_NAMES = (
    "matched", "unmatched", "unmatched names", "unmatched numbers", "column in rows", "column is key",
    "other weight", "values log", "values one", "value number", "value year", "value day", "value text",
    "value in question", "value share in question", "value length", "computed", "zero", "one", "negative",
    "integer", "repeated", "across", "grid log", "grid columns", "column order", "other column order",
    "small", "unit percent", "pair", "later first", "mentioned first", "pair positive", "after from",
    "second total", "unmatched in table", "unmatched in heads", "unmatched in cells", "rows weight behind",
    "count agrees", "plural and many", "plural and one", "triggers held", "triggers free",
)  # fmt: skip
TABLE_FEATURES: tuple[str, ...] = (
    *(f"trigger {name}" for name in TRIGGERS),
    *(f"operation {operation}" for operation in OPERATIONS),
    *_ROW_NAMES,
    *_COLUMN_NAMES,
    *_PROGRAM_NAMES,
)
"""Names of the features of a program."""

_OPERATION_TRIGGERS = (
    *("total", "average", "difference", "change", "percent", "ratio", "most", "least", "highest", "lowest"),
    *("how many", "first", "last"),
)
_PLURAL = re.compile(
    r"\b(?:which|what|name|list)(?: \w+){0,2} (?!is\b|was\b|has\b|does\b|years ago)\w{2,}[^s\W]s\b",
    re.IGNORECASE,
)

Floats = NDArray[np.float32]


def describe_programs(
    question: TableQuestion,
    grid: RecordGrid,
    matches: TermMatches,
    sets: Sequence[RowSet],
    programs: Sequence[Program],
) -> Floats:
    """Return the features of programs; shape (programs, features)."""
    if not programs:
        return np.zeros((0, len(TABLE_FEATURES)), np.float32)
    column_masks = [matches.match(column.terms) for column in grid.columns]
    columns = np.asarray(
        [
            _describe_column(question, grid, matches, number, column_masks[number])
            for number in range(len(grid.columns))
        ]
        + [[1.0] + [0.0] * (len(_COLUMN_NAMES) - 1)],
        np.float32,
    )
    rows = np.asarray(
        [_describe_rows(question, grid, matches, one, column_masks) for one in sets], np.float32
    )
    count = len(programs)
    trigger = np.asarray([name in question.triggers for name in TRIGGERS], np.float32)
    operation = np.zeros((count, len(OPERATIONS)), np.float32)
    operation[np.arange(count), [OPERATIONS.index(program.operation) for program in programs]] = 1
    return np.concatenate(
        [
            np.broadcast_to(trigger, (count, len(trigger))),
            operation,
            rows[[program.rows for program in programs]],
            columns[[program.column for program in programs]],
            _describe_programs(question, grid, matches, sets, programs, column_masks),
        ],
        axis=1,
    )


def _classes(name: str) -> list[float]:
    return [float(pattern.search(name) is not None) for pattern in _HEAD_PATTERNS]


def _describe_column(
    question: TableQuestion, grid: RecordGrid, matches: TermMatches, number: int, match: tuple[int, float]
) -> list[float]:
    column, (mask, coverage) = grid.columns[number], match
    weight = matches.weight(mask)
    positions = positions_of(mask)
    asked = question.distance(positions, question.asked)
    extreme = question.distance(positions, question.extremes)
    last = len(grid.columns) - 1
    return [
        0.0,
        weight,
        weight / (sum(matches.weights) + 0.1),
        coverage,
        *(float(asked == distance) for distance in range(3)),
        float(3 <= asked < 6),
        *(float(extreme == distance) for distance in range(3)),
        column.numeric,
        column.dated,
        column.leads,
        column.distinct,
        column.filled,
        float(number == 0),
        float(number == 1),
        float(number == last),
        number / max(last, 1),
        float(column.is_head),
        float(weight > 0.4),
        _phrase(question, column.terms),
        *_classes(column.name),
    ]


def _describe_rows(
    question: TableQuestion,
    grid: RecordGrid,
    matches: TermMatches,
    rows: RowSet,
    column_masks: Sequence[tuple[int, float]],
) -> list[float]:
    kinds = [0.0] * len(Selection)
    kinds[rows.selection] = 1.0
    parents = [0.0] * len(Selection)
    parents[rows.parent] = 1.0
    key, classes = _describe_key(question, grid, matches, rows.key, column_masks)
    heads = [grid.columns[column].is_head for column in rows.columns]
    named = [column_masks[column][0] for column in rows.columns]
    return [
        *kinds,
        *parents,
        math.log1p(len(rows.records)),
        len(rows.records) / max(grid.size, 1),
        float(len(rows.records) == 1),
        rows.weight,
        rows.coverage,
        float(rows.coverage > 0.99),
        float(rows.depth),
        float(any(heads)),
        max((_phrase(question, cell_terms(text)) for text in _matched_texts(grid, rows)), default=0.0),
        *key,
        max((matches.weight(mask) for mask in named), default=0.0),
        *classes,
    ]


def _matched_texts(grid: RecordGrid, rows: RowSet) -> list[str]:
    return [grid.columns[column].texts[record] for record, column in rows.heads[:8]]


def _phrase(question: TableQuestion, terms: Sequence[str]) -> float:
    """Return the number of terms of a text, up to 5, if they follow each other in the question; 0 if not."""
    count = len(terms)
    if not 0 < count <= len(question.terms):
        return 0.0
    asked = [token.term for token in question.terms]
    begins = (place for place in range(len(asked) - count + 1) if asked[place] == terms[0])
    return float(min(count, 5)) if any(asked[at : at + count] == list(terms) for at in begins) else 0.0


def _describe_key(
    question: TableQuestion,
    grid: RecordGrid,
    matches: TermMatches,
    key: int,
    column_masks: Sequence[tuple[int, float]],
) -> tuple[list[float], list[float]]:
    """Describe the column of a comparison or a superlative, and its head; -1 is none."""
    if key < 0:
        return [1.0] + [0.0] * 7, [0.0] * len(HEAD_CLASSES)
    column: GridColumn = grid.columns[key]
    mask, coverage = column_masks[key]
    positions = positions_of(mask)
    place = [
        0.0,
        matches.weight(mask),
        coverage,
        1.0 / (1 + question.distance(positions, question.extremes)),
        1.0 / (1 + question.distance(positions, question.asked)),
        column.dated,
        column.numeric,
        key / len(grid.columns),
    ]
    return place, _classes(column.name)


def _describe_programs(
    question: TableQuestion,
    grid: RecordGrid,
    matches: TermMatches,
    sets: Sequence[RowSet],
    programs: Sequence[Program],
    column_masks: Sequence[tuple[int, float]],
) -> Floats:
    used = [_used(program, sets, column_masks) for program in programs]
    bits = as_bits(used, max(len(question.terms), 1))
    terms = {token.term for token in question.terms}
    cache: dict[tuple[str, ...], list[float]] = {}
    rest: list[list[float]] = []
    for program in programs:
        known = cache.get(program.values) if program.values else None
        if known is None:
            known = _describe_answer(program, terms, grid.table.number_style)
            if program.values:
                cache[program.values] = known
        rest.append(
            [
                *_describe_relation(program, grid, sets, matches),
                *known,
                *_describe_place(program, grid, sets),
                *_describe_pair(program, question, grid, sets),
            ]
        )
    best = max((one.weight for one in sets if one.selection is Selection.MATCH), default=0.0)
    behind = np.asarray([[best - sets[program.rows].weight] for program in programs], np.float32)
    return np.concatenate(
        [
            _describe_coverage(question, bits),
            np.asarray(rest, np.float32),
            _describe_unmatched(matches, column_masks, bits),
            behind,
            _describe_number_of_answers(question, programs),
            _describe_triggers(question, bits),
        ],
        axis=1,
    ).astype(np.float32)


def _describe_coverage(question: TableQuestion, bits: NDArray[np.bool_]) -> Floats:
    """Return how much of the question the programs account for, and what names and numbers they ignore."""
    weights = np.asarray(question.weights if len(question.weights) else [0.0], np.float32)
    words = [question.text[token.start : token.end] for token in question.terms] or [""]
    names = np.asarray([word[:1].isupper() for word in words], np.float32) * (weights > 0.5)
    names[0] = 0
    digits = np.asarray([word[:1].isdigit() for word in words], np.float32)
    content = weights * (weights > 0.3)
    total = float(content.sum()) + 0.1
    rest = _sums(~bits, np.stack([content, names, digits]))
    return np.concatenate([_sums(bits, content[None]) / total, rest], axis=1)


def _describe_unmatched(
    matches: TermMatches, column_masks: Sequence[tuple[int, float]], bits: NDArray[np.bool_]
) -> Floats:
    """Return the weights of terms in the table, in heads and in cells, that a program ignores."""
    known = heads = 0
    for mask in matches.bits.values():
        known |= mask
    for mask, _ in column_masks:
        heads |= mask
    weights = np.asarray(matches.weights or [0.0], np.float32)
    table = as_bits([known, heads, known & ~heads], bits.shape[1]) * weights * (weights > 0.2)
    return _sums(~bits, table)


def _sums(bits: NDArray[np.bool_], weights: Floats) -> Floats:
    """Return sums of the weights of terms; shape (programs, rows of weights).

    Not by `@`, which was seen to warn of an invalid value, as BLAS may, though all factors are finite.
    """
    return np.einsum("pt,wt->pw", bits, weights).astype(np.float32)


def _describe_triggers(question: TableQuestion, bits: NDArray[np.bool_]) -> Floats:
    """Return how many words that name operations are parts of matched heads or cells, and how many not."""
    places = {place for name in _OPERATION_TRIGGERS for place in question.triggers.get(name, ())}
    names = [any(token.start <= place < token.end for place in places) for token in question.terms] or [False]
    held = bits[:, np.asarray(names)].sum(axis=1)
    return np.stack([held, sum(names) - held], axis=1).astype(np.float32)


def _describe_number_of_answers(question: TableQuestion, programs: Sequence[Program]) -> Floats:
    wanted = {quantity.value for quantity in question.quantities}
    plural = _PLURAL.search(question.text) is not None
    counts = [len(program.values) for program in programs]
    return np.asarray(
        [[count > 1 and count in wanted, plural and count > 1, plural and count == 1] for count in counts],
        np.float32,
    )


def _describe_pair(
    program: Program, question: TableQuestion, grid: RecordGrid, sets: Sequence[RowSet]
) -> list[float]:
    """Return how two operands stand to each other: in time, in the question, in size."""
    if program.other < 0:
        return [0.0] * 6
    one, two = sets[program.rows], sets[program.other]
    first, second = one.records[0], two.records[0]
    times = [
        column.positions[first] - column.positions[second]
        for column in grid.columns
        if column.dated > 0.5 or column.is_head
    ]
    later = next((float(np.sign(time)) for time in times if math.isfinite(time) and time), 0.0)
    own, others = one.mask & ~two.mask, two.mask & ~one.mask
    order = float(np.sign((others & -others) - (own & -own))) if own and others else 0.0
    start = (others & -others).bit_length() - 1
    words = question.terms[max(start - 2, 0) : start] if others else ()
    after_from = any(question.text[word.start : word.end].lower() in {"from", "than"} for word in words)
    return [
        1.0,
        later,
        order,
        float(np.sign(float(program.number))) if program.number is not None else 0.0,
        float(after_from),
        float(second in grid.totals),
    ]


def _used(program: Program, sets: Sequence[RowSet], masks: Sequence[tuple[int, float]]) -> int:
    """Return the terms of the question that a program accounts for."""
    used = sets[program.rows].mask
    if program.other >= 0:
        used |= sets[program.other].mask
    if program.column >= 0:
        used |= masks[program.column][0]
    if program.other < -1:
        used |= masks[-2 - program.other][0]
    key = sets[program.rows].key
    if key >= 0:
        used |= masks[key][0]
    return used


def _describe_relation(
    program: Program, grid: RecordGrid, sets: Sequence[RowSet], matches: TermMatches
) -> list[float]:
    rows = sets[program.rows]
    index = program.column
    other = sets[program.other].weight if program.other >= 0 else 0.0
    if program.other < -1:
        other = matches.weight(matches.match(grid.columns[-2 - program.other].terms)[0])
    return [float(index in rows.columns), float(index == rows.key and index >= 0), other]


def _describe_answer(program: Program, terms: set[str], style: NumberStyle) -> list[float]:
    count = max(len(program.values), 1)
    if program.number is not None:
        number = program.number
        year = float(is_year(number))
        return [
            math.log1p(count), 1.0, 1.0, year, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, float(number == 0),
            float(number == 1), float(number < 0), float(number == round(number)),
        ]  # fmt: skip
    first = program.values[0]
    value = parse_cell(first, style)
    whole = value.whole and value.number is not None
    answer = [term for text in program.values[:4] for term in cell_terms(text)]
    shared = sum(term in terms for term in answer) / max(len(answer), 1)
    return [
        math.log1p(count),
        float(count == 1),
        float(whole),
        float(whole and is_year(value.number or 0)),
        float(value.day is not None),
        float(value.number is None and value.day is None),
        float(shared > 0.99),
        shared,
        min(math.log1p(len(first)), 6.0),
        0.0,
        float(whole and value.number == 0),
        float(whole and value.number == 1),
        float(whole and (value.number or 0) < 0),
        float(whole and value.number == round(value.number or 0)),
    ]


def _describe_place(program: Program, grid: RecordGrid, sets: Sequence[RowSet]) -> list[float]:
    rows = sets[program.rows]
    other = rows.key if rows.key >= 0 else (rows.columns[0] if rows.columns else program.column)
    percent = 0.0
    if program.column >= 0 and program.records:
        percent = float(grid.columns[program.column].values[program.records[0]].unit == "%")
    return [
        len(program.records) / max(len(program.values), 1) - 1 if program.values else 0.0,
        float(grid.across),
        math.log1p(grid.size),
        math.log1p(len(grid.columns)),
        float(np.sign(program.column - other)),
        float(program.other < -1 and -2 - program.other == program.column + 1),
        float(grid.size <= 3),
        percent,
    ]
