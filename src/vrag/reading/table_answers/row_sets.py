"""Sets of records that the words of a question may select: by their cells, by comparison, place and rank."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto

import numpy as np

from vrag.reading.table_answers.matching import CellMatch, TermMatches, match_cells
from vrag.reading.table_answers.question import TableQuestion
from vrag.reading.table_answers.records import GridColumn, RecordGrid, fold

MAX_MATCHES = 22
"""Sets by cells that are kept."""
MAX_SETS = 420
"""Sets of one grid that are kept."""
MAX_RANK = 1_000_000
"""The largest number that may be a rank, or a count of rows."""


class Selection(IntEnum):
    """The way that a set of records is selected."""

    ALL = 0
    MATCH = auto()
    NOT = auto()
    GREATER = auto()
    LESS = auto()
    AT_LEAST = auto()
    AT_MOST = auto()
    BETWEEN = auto()
    EITHER = auto()
    BOTH = auto()
    SAME = auto()
    ABOVE = auto()
    BELOW = auto()
    FIRST = auto()
    LAST = auto()
    NEXT = auto()
    PREVIOUS = auto()
    RANK = auto()
    MAXIMUM = auto()
    MINIMUM = auto()
    RANK_OF_SORTED = auto()
    EMPTY = auto()
    TOP = auto()


@dataclass(frozen=True, slots=True)
class RowSet:
    """Records that a part of the question selects."""

    selection: Selection
    records: tuple[int, ...]
    mask: int = 0
    """Terms of the question that it uses."""
    columns: tuple[int, ...] = ()
    """Columns whose cells were compared."""
    coverage: float = 0.0
    weight: float = 0.0
    parent: Selection = Selection.ALL
    """The way that the records were selected out of which this set was chosen."""
    key: int = -1
    """The column of a comparison or a superlative."""
    depth: int = 0
    """Number of operations."""
    heads: tuple[tuple[int, int], ...] = ()
    """Cells that matched, as (record, column)."""


def select_rows(question: TableQuestion, grid: RecordGrid, matches: TermMatches) -> list[RowSet]:
    """Return the sets of records that the question may mean, without duplicates."""
    body = tuple(record for record in range(grid.size) if record not in grid.totals)
    everything = RowSet(Selection.ALL, body or tuple(range(grid.size)))
    cells = _cell_sets(grid, matches)
    compared = _comparisons(question, grid, matches, everything)
    compared += _first_rows(question, everything, matches)
    both = _intersections([*cells[:10], *compared[:8]], matches)
    either = [*_unions(cells[:14]), *_union_of_all(cells)]
    parents = _distinct([everything, *cells, *compared, *both, *either])
    if question.has("not", "other", "except", "only"):
        parents += [*_negations(cells[:6], everything), *_empties(grid, everything)]
    sets = [*parents]
    sets += _relatives(question, grid, [*cells[:8], *both[:4]])
    ranked = [everything, *sorted(parents[1:], key=lambda rows: -rows.weight)[:10]]
    ranked += [rows for rows in sets if rows.selection in {Selection.BELOW, Selection.ABOVE}][:2]
    for rows in _distinct([*ranked, *either[:3]]):
        sets += _places(question, rows)
        sets += _extremes(question, grid, rows)
    if question.has("next", "after", "before", "greater", "less"):  # also "above" and "below"
        sets += _neighbours(grid, [rows for rows in sets if len(rows.records) == 1][:14])
    return _distinct(sets)[:MAX_SETS]


def _distinct(sets: Iterable[RowSet]) -> list[RowSet]:
    found: dict[tuple[object, ...], RowSet] = {}
    for rows in sets:
        if rows.records:
            found.setdefault((rows.selection, rows.records, rows.key, rows.parent), rows)
    return list(found.values())


def _cell_sets(grid: RecordGrid, matches: TermMatches) -> list[RowSet]:
    found: list[CellMatch] = []
    for column in grid.columns:
        found += match_cells(matches, column, 6)
    found.sort(key=lambda match: match.weight * (0.4 + match.coverage), reverse=True)
    best: dict[tuple[tuple[int, ...], int], CellMatch] = {}
    for match in found:
        best.setdefault((match.records, match.mask), match)
    return [
        RowSet(
            Selection.MATCH,
            match.records,
            match.mask,
            (match.column,),
            match.coverage,
            match.weight,
            depth=1,
            heads=tuple((record, match.column) for record in match.records[:20]),
        )
        for match in list(best.values())[:MAX_MATCHES]
    ]


_UP = {"greater", "at least", "after", "comparative", "difference"}
_DOWN = {"less", "at most", "before", "comparative"}


def _comparisons(
    question: TableQuestion, grid: RecordGrid, matches: TermMatches, everything: RowSet
) -> list[RowSet]:
    names = set(question.triggers)
    up, down, between = bool(names & _UP), bool(names & _DOWN), "between" in names
    if not (up or down or between):
        return []
    points = [(float(q.value), matches.numbers.get(q.value, 0)) for q in question.quantities if not q.ordinal]
    if question.day is not None and question.day.month:
        points.append((question.day.position, 0))
    found: list[RowSet] = []
    body = np.asarray(everything.records)
    for column in grid.columns:
        values = column.positions[body] if len(body) else column.positions[:0]
        if column.numeric + column.dated + column.leads < 0.6:
            continue
        for point, mask in points[:5]:
            kinds: list[tuple[Selection, np.ndarray[tuple[int], np.dtype[np.bool_]]]] = []
            if up:
                kinds += [(Selection.GREATER, values > point), (Selection.AT_LEAST, values >= point)]
            if down:
                kinds += [(Selection.LESS, values < point), (Selection.AT_MOST, values <= point)]
            found += [
                _compared(kind, body[chosen], mask, column.index, matches)
                for kind, chosen in kinds
                if 0 < chosen.sum() < len(body)
            ]
        if between and len(points) > 1:
            (low, first), (high, second) = sorted(points[:2])
            chosen = (values >= low) & (values <= high)
            found.append(_compared(Selection.BETWEEN, body[chosen], first | second, column.index, matches))
    found.sort(key=lambda rows: -_head_weight(grid.columns[rows.key], matches))
    return found[:24]


def _compared(
    kind: Selection, records: Iterable[int], mask: int, column: int, matches: TermMatches
) -> RowSet:
    chosen = tuple(int(record) for record in records)
    return RowSet(kind, chosen, mask, (column,), 1.0, matches.weight(mask), key=column, depth=1)


def _head_weight(column: GridColumn, matches: TermMatches) -> float:
    return matches.weight(matches.match(column.terms)[0])


def _intersections(sets: Sequence[RowSet], matches: TermMatches) -> list[RowSet]:
    found: list[RowSet] = []
    for number, one in enumerate(sets):
        for two in sets[number + 1 :]:
            mask = one.mask | two.mask
            if one.columns == two.columns or mask in (one.mask, two.mask):
                continue
            other = set(two.records)
            records = tuple(record for record in one.records if record in other)
            if records and len(records) < min(len(one.records), len(two.records)):
                key = one.key if one.key >= 0 else two.key
                found.append(
                    RowSet(
                        Selection.BOTH,
                        records,
                        mask,
                        (*one.columns, *two.columns),
                        min(one.coverage, two.coverage),
                        matches.weight(mask),
                        key=key,
                        depth=2,
                        heads=tuple(head for head in (*one.heads, *two.heads) if head[0] in records),
                    )
                )
    return sorted(found, key=lambda rows: -rows.weight)[:14]


def _unions(sets: Sequence[RowSet]) -> list[RowSet]:
    found = [
        RowSet(
            Selection.EITHER,
            tuple(sorted({*one.records, *two.records})),
            one.mask | two.mask,
            one.columns,
            min(one.coverage, two.coverage),
            one.weight + two.weight,
            depth=2,
            heads=(*one.heads, *two.heads),
        )
        for number, one in enumerate(sets)
        for two in sets[number + 1 :]
        if one.columns == two.columns and not one.mask & two.mask and not set(one.records) & set(two.records)
    ]
    return sorted(found, key=lambda rows: -rows.weight * (0.5 + rows.coverage))[:6]


def _union_of_all(sets: Sequence[RowSet]) -> list[RowSet]:
    """Return for each column with three or more named records the union of them."""
    found: list[RowSet] = []
    for column in {rows.columns for rows in sets}:
        named: list[RowSet] = []
        for rows in sets:
            taken = {record for other in named for record in other.records}
            if rows.columns == column and len(rows.records) <= 3 and not taken & set(rows.records):
                named.append(rows)
        if len(named) > 2:
            mask = 0
            for rows in named:
                mask |= rows.mask
            records = tuple(sorted({record for rows in named for record in rows.records}))
            weight = sum(rows.weight for rows in named)
            heads = tuple(head for rows in named for head in rows.heads)
            coverage = min(rows.coverage for rows in named)
            found.append(
                RowSet(Selection.EITHER, records, mask, column, coverage, weight, depth=3, heads=heads)
            )
    return found


def _first_rows(question: TableQuestion, everything: RowSet, matches: TermMatches) -> list[RowSet]:
    """Return the first rows that a phrase such as "the top ten" or "the first 5" means."""
    found: list[RowSet] = []
    for quantity in question.quantities:
        before = question.text[: quantity.start].rstrip().lower().rsplit(" ", 1)[-1]
        number = int(min(quantity.amount, MAX_RANK))
        if 1 < number < len(everything.records) and before in {"top", "first", "前"}:
            mask = matches.numbers.get(quantity.value, 0)
            found.append(RowSet(Selection.TOP, everything.records[:number], mask, weight=1.0, depth=1))
    return found


def _empties(grid: RecordGrid, everything: RowSet) -> list[RowSet]:
    """Return for each column the records without a value."""
    return [
        RowSet(
            Selection.EMPTY,
            tuple(record for record in everything.records if not fold(column.texts[record])),
            columns=(column.index,),
            key=column.index,
            depth=1,
        )
        for column in grid.columns
        if 0 < column.filled < 1
    ]


def _negations(sets: Sequence[RowSet], everything: RowSet) -> list[RowSet]:
    return [
        RowSet(
            Selection.NOT,
            tuple(record for record in everything.records if record not in set(rows.records)),
            rows.mask,
            rows.columns,
            rows.coverage,
            rows.weight,
            depth=1,
        )
        for rows in sets
    ]


def _relatives(question: TableQuestion, grid: RecordGrid, sets: Sequence[RowSet]) -> list[RowSet]:
    """Return the records that compare in some way with a single one that the question names."""
    found: list[RowSet] = []
    singles = [rows for rows in sets if len(rows.records) == 1][:4]
    for rows in singles:
        record = rows.records[0]
        if question.has("after", "before", "next", "first", "last"):
            found += [
                _related(Selection.BELOW, rows, range(record + 1, grid.size), grid),
                _related(Selection.ABOVE, rows, range(record), grid),
            ]
        for column in grid.columns:
            if question.has("same") and column.index not in rows.columns and column.distinct < 1:
                same = column.members.get(" ".join(column.texts[record].casefold().split()), ())
                found.append(
                    _related(Selection.SAME, rows, (r for r in same if r != record), grid, column.index)
                )
            own = column.positions[record]
            if (
                question.has("comparative", "greater", "less", "than")
                and not math.isnan(own)
                and column.index not in rows.columns
            ):
                for kind, chosen in (
                    (Selection.GREATER, column.positions > own),
                    (Selection.LESS, column.positions < own),
                ):
                    found.append(_related(kind, rows, np.flatnonzero(chosen).tolist(), grid, column.index))
    return found[:60]


def _related(
    kind: Selection, rows: RowSet, records: Iterable[int], grid: RecordGrid, key: int = -1
) -> RowSet:
    chosen = tuple(record for record in records if record not in grid.totals)
    return RowSet(
        kind, chosen, rows.mask, rows.columns, rows.coverage, rows.weight, rows.selection, key,
        rows.depth + 1, rows.heads,
    )  # fmt: skip


def _chosen(kind: Selection, rows: RowSet, records: Sequence[int], key: int = -1) -> RowSet:
    """Return a part of a set of records."""
    return RowSet(
        kind, tuple(records), rows.mask, rows.columns, rows.coverage, rows.weight, rows.selection, key,
        rows.depth + 1, rows.heads,
    )  # fmt: skip


def _places(question: TableQuestion, rows: RowSet) -> list[RowSet]:
    if len(rows.records) < 2:
        return []
    found = [
        _chosen(Selection.FIRST, rows, rows.records[:1]),
        _chosen(Selection.LAST, rows, rows.records[-1:]),
    ]
    for quantity in question.quantities:
        number = int(min(quantity.amount, MAX_RANK))
        if (quantity.ordinal and 1 < number <= len(rows.records)) or (
            not quantity.ordinal and question.has("highest") and 1 < number < 12
        ):
            found.append(_chosen(Selection.RANK, rows, rows.records[number - 1 : number]))
            if question.has("first", "highest") and 1 < number < len(rows.records):
                found.append(_chosen(Selection.RANK, rows, rows.records[:number]))
    return found


def _extremes(question: TableQuestion, grid: RecordGrid, rows: RowSet) -> list[RowSet]:
    if len(rows.records) < 2:
        return []
    named = question.has(
        "most", "least", "highest", "lowest", "superlative", "comparative", "first", "last", "or", "than"
    )
    if not named and rows.selection not in {Selection.ALL, Selection.EITHER}:
        return []
    found: list[RowSet] = []
    records = np.asarray(rows.records)
    ranks = [int(q.amount) for q in question.quantities if q.ordinal and 1 < q.amount < 10]
    for column in grid.columns:
        values = column.positions[records]
        known = np.isfinite(values)
        if known.sum() < max(2, 0.3 * len(records)):
            continue
        high, low = values[known].max(), values[known].min()
        if high == low:
            continue
        found.append(_chosen(Selection.MAXIMUM, rows, records[values == high].tolist(), column.index))
        found.append(_chosen(Selection.MINIMUM, rows, records[values == low].tolist(), column.index))
        for rank in ranks[:1]:
            ordered = np.unique(values[known])
            if rank <= len(ordered):
                for value in (ordered[-rank], ordered[rank - 1]):
                    chosen = records[values == value].tolist()
                    found.append(_chosen(Selection.RANK_OF_SORTED, rows, chosen, column.index))
    return found


def _neighbours(grid: RecordGrid, sets: Sequence[RowSet]) -> list[RowSet]:
    found: list[RowSet] = []
    for rows in sets:
        record = rows.records[0]
        if rows.selection in {Selection.MAXIMUM, Selection.MINIMUM, Selection.FIRST, Selection.LAST}:
            continue
        if record + 1 < grid.size:
            found.append(_chosen(Selection.NEXT, rows, (record + 1,)))
        if record:
            found.append(_chosen(Selection.PREVIOUS, rows, (record - 1,)))
    return found
