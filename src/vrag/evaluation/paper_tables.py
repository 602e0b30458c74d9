"""Tables of several runs as in papers: a row for each, columns by kind of question.

Columns are those that the runs have, or those of a paper's table (`LAYOUTS`), in its order and with its
names. Shares are in percent, and the last column is the mean over all questions, not over columns: a
benchmark with more questions weighs more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vrag.errors import CaseError
from vrag.evaluation.measures.run_measures import COUNTS
from vrag.evaluation.pairs import ACCURACY, value
from vrag.evaluation.report.labels import value_text
from vrag.evaluation.summary import GROUPS
from vrag.render.markdown_text import inline, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vrag.evaluation.pairs import Key
    from vrag.evaluation.record import CaseRecord

ALL, OVERALL = "all", "Overall"
"""The last column, and its name in papers."""


@dataclass(frozen=True, slots=True)
class PaperCell:
    """One run on one kind of question."""

    mean: float | None
    """None if it was not measured."""
    n: int
    """Number of questions and samples."""


@dataclass(frozen=True, slots=True)
class PaperColumn:
    """A column of a paper's table: questions of a benchmark, or of one kind of them."""

    benchmark: str
    """Name above the column."""
    kind: str
    """Name below that; empty for the whole benchmark."""
    prefixes: tuple[str, ...]
    """Prefixes of uids of its benchmark; of the prefixes of a table the longest that fits counts."""
    by: str = ""
    """One of `GROUPS`, for a column of one kind."""
    labels: tuple[str, ...] = ()
    """Prefixes of the labels of that kind, in lower case and with hyphens: spellings of a label differ."""

    def holds(self, record: CaseRecord) -> bool:
        """Return whether a question of its benchmark belongs to it."""
        return not self.by or any(
            _spelled(label).startswith(self.labels) for label in GROUPS[self.by](record.subject)
        )


def _hops(
    benchmark: str, prefixes: tuple[str, ...], single: str, multi: str
) -> tuple[PaperColumn, PaperColumn]:
    return (
        PaperColumn(benchmark, single, prefixes, "query_type", (_spelled(single), "single-hop")),
        PaperColumn(benchmark, multi, prefixes, "query_type", (_spelled(multi), "multi-hop")),
    )


def _spelled(label: str) -> str:
    return "-".join(label.lower().replace("_", " ").split())


_SLIDEVQA = ("slidevqa-", "vidoseek-slidevqa_refined-")
"""As published, and as the authors of ViDoSeek rewrote the questions for whole collections."""

LAYOUTS: Mapping[str, tuple[PaperColumn, ...]] = {
    "vrag": (
        *_hops("SlideVQA", _SLIDEVQA, "Single-hop", "Multi-hop"),
        *_hops("ViDoSeek", ("vidoseek-",), "Extraction", "Logic"),
        *(
            PaperColumn("MMLongBench", kind, ("mmlongbench-",), "source_type", labels)
            for kind, labels in {
                "Text": ("pure-text", "text"),
                "Table": ("table",),
                "Chart": ("chart",),
                "Figure": ("figure",),
                "Layout": ("generalized-text", "layout"),
            }.items()
        ),
    ),
    "vimrag": tuple(
        PaperColumn(name, "", prefixes)
        for name, prefixes in {
            "HotpotQA": ("hotpotqa-",),
            "SQuAD": ("squad-",),
            "WebQA": ("webqa-",),
            "SlideVQA": _SLIDEVQA,
            "MMLongBench": ("mmlongbench-",),
            "LVBench": ("lvbench-",),
        }.items()
    ),
}
"""Tables of papers by name: `vrag` (VRAG-RL, arXiv 2505.22019) and `vimrag` (VimRAG, arXiv 2602.12735: text,
pictures, documents, videos; without its sets WikiHowQA, SyntheticQA and XVBench). Extraction and Logic are
what ViDoSeek's files call single-hop and multi-hop. A question with several kinds of evidence stands in the
column of each; one with none, as what cannot be answered, counts in the last column alone."""


@dataclass(frozen=True, slots=True)
class PaperLayout:
    """A table of runs."""

    measure: str
    columns: tuple[tuple[str, str], ...]
    """Benchmark and kind of question, which is empty for all of a benchmark. The last is (`ALL`, "")."""
    rows: Mapping[str, tuple[PaperCell, ...]]
    """By the name of the run, a cell for each column."""

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of columns; with the benchmark where there are several, or nothing else to name."""
        several = len({benchmark for benchmark, _ in self.columns}) > 2
        return tuple(
            " ".join(filter(None, (benchmark if several or not kind else "", kind)))
            for benchmark, kind in self.columns
        )

    @property
    def markdown(self) -> str:
        """The table in Markdown; shares in percent, the best of each column in bold."""
        heads = ["", *map(inline, self.heads)]
        lines = [[inline(name), *map(self.cell_text, row)] for name, row in self.rows.items()]
        for at, column in enumerate(zip(*self.rows.values(), strict=True), start=1):
            means = [cell.mean for cell in column if cell.mean is not None]
            if len(column) == 1 or self.measure in COUNTS or not means:
                continue
            if len(means) > 1 and min(means) == max(means):  # none of them is better
                continue
            for line, cell in zip(lines, column, strict=True):
                line[at] = f"**{line[at]}**" if cell.mean == max(means) else line[at]
        return table(heads, lines)

    def cell_text(self, cell: PaperCell) -> str:
        """Format a cell: a share in percent, an amount as it is."""
        if cell.mean is None or self.measure in COUNTS:
            return value_text(self.measure, cell.mean)
        return f"{100 * cell.mean:.1f}"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the table; means are fractions."""
        return {
            "measure": self.measure,
            "columns": [list(column) for column in self.columns],
            "rows": {
                name: [{"mean": cell.mean, "n": cell.n} for cell in row] for name, row in self.rows.items()
            },
        }


def joined(parts: Iterable[tuple[str, Sequence[CaseRecord]]]) -> dict[str, list[CaseRecord]]:
    """Join the records of runs with one name, as of benchmarks that were run apart.

    Raises `CaseError` if two runs of one name have the same question.
    """
    found: dict[str, dict[Key, CaseRecord]] = {}
    for name, records in parts:
        known = found.setdefault(name, {})
        for record in records:
            if record.key in known:
                raise CaseError(
                    f"Two runs that are called {name} both have {record.subject.uid}.",
                    "Runs of one name are joined: give those of the same questions other names.",
                )
            known[record.key] = record
    return {name: list(records.values()) for name, records in found.items()}


def lay_out(
    runs: Mapping[str, Sequence[CaseRecord]], *, by: str = "benchmark", measure: str = ACCURACY
) -> PaperLayout:
    """Lay out runs in a table.

    Each cell is of the questions that its run has; a run that was not asked about a benchmark has none there.
    A question without a verdict is left out of accuracy, a run that broke off counts 0. Raises `CaseError` if
    there is no such kind, or no run has the measure. Columns within a benchmark are `by` one of `GROUPS`;
    "benchmark" for none.
    """
    if by not in GROUPS:
        raise CaseError(f"There are no columns by {by!r}.", f"Known: {', '.join(GROUPS)}.")

    def labels(record: CaseRecord) -> Iterable[str]:
        return [""] if by == "benchmark" else filter(None, GROUPS[by](record.subject))

    sorted_out: dict[str, dict[tuple[str, str], list[CaseRecord]]] = {}
    for name, records in runs.items():
        found = sorted_out.setdefault(name, {})
        for record in records:
            for label in dict.fromkeys(labels(record)):
                found.setdefault((record.subject.benchmark or "–", label), []).append(record)
    columns = (*sorted({column for found in sorted_out.values() for column in found}), (ALL, ""))
    rows = {
        name: tuple(
            _cell(runs[name] if column == (ALL, "") else found.get(column, ()), measure) for column in columns
        )
        for name, found in sorted_out.items()
    }
    if not any(cell.n for row in rows.values() for cell in row):
        known = sorted({name for records in runs.values() for record in records for name in record.measures})
        raise CaseError(
            f"{measure} is not a measure of single questions in any of the runs.",
            f"They have: {', '.join(dict.fromkeys((ACCURACY, *known)))}.",
        )
    return PaperLayout(measure, columns, rows)


def lay_out_as(
    runs: Mapping[str, Sequence[CaseRecord]], columns: Sequence[PaperColumn], *, measure: str = ACCURACY
) -> PaperLayout:
    """Lay out runs in the columns of a paper's table; the last is over all questions of its benchmarks.

    A column that a run has no question of is empty, and so is its last where it has the measure of no
    question of a whole benchmark of the table: a mean over fewer would stand beside means over more. Raises
    `CaseError` if no run has a question of the table with the measure.
    """
    heads = (*((column.benchmark, column.kind) for column in columns), (OVERALL, ""))
    rows = {name: _row(records, columns, measure) for name, records in runs.items()}
    if not any(cell.n for row in rows.values() for cell in row):
        wanted = ", ".join(dict.fromkeys(column.benchmark for column in columns))
        raise CaseError(
            f"None of the runs has {measure} of a question of {wanted}.",
            "Run these benchmarks, one by one or together; or leave the layout out.",
        )
    return PaperLayout(measure, heads, rows)


def _row(
    records: Sequence[CaseRecord], columns: Sequence[PaperColumn], measure: str
) -> tuple[PaperCell, ...]:
    parts: dict[str, list[CaseRecord]] = {column.benchmark: [] for column in columns}
    prefixes = sorted(
        {(prefix, column.benchmark) for column in columns for prefix in column.prefixes},
        key=lambda pair: -len(pair[0]),
    )
    for record in records:
        name = next((name for prefix, name in prefixes if record.subject.uid.startswith(prefix)), None)
        if name is not None:
            parts[name].append(record)
    cells = [_cell(filter(column.holds, parts[column.benchmark]), measure) for column in columns]
    every = _cell((record for records in parts.values() for record in records), measure)
    whole = all(_cell(records, measure).n for records in parts.values())
    return (*cells, every if whole else PaperCell(None, 0))


def _cell(records: Iterable[CaseRecord], measure: str) -> PaperCell:
    values = [found for record in records if (found := value(record, measure)) is not None]
    return PaperCell(math.fsum(values) / len(values) if values else None, len(values))
