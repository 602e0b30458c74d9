"""Records as columns: a number for each record and measure, so that many groups are measured quickly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vrag.evaluation.measures.cost import COUNTS
from vrag.evaluation.record import CaseOutcome
from vrag.evaluation.statistics.intervals import SHARE, ClusteredSample, sample_of
from vrag.evaluation.statistics.pairs import document_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from vrag.evaluation.record import CaseRecord

__all__ = ["MMLONGBENCH_F1", "Columns"]

MMLONGBENCH_F1 = "mmlongbench/f1"
"""A ratio over questions, and no mean of theirs."""
_ENDLESS = 1e15
"""What no measure comes to."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """What some records have measured."""

    documents: NDArray[np.intp]
    """The number of the document that each record's question is about."""
    questions: NDArray[np.intp]
    """The number of each record's question: samples of a question have the same."""
    values: Mapping[str, NDArray[np.float64]]
    """By measure and record; NaN where it was not measured, or is no number. Those of the outcomes first."""
    f1: NDArray[np.float64]
    """Numerator and denominator of MMLongBench-Doc's F1, shape (records, 2); NaN where it is not measured."""

    @classmethod
    def of(cls, records: Sequence[CaseRecord]) -> Columns:
        """The columns of records, in their order."""
        names = sorted({name for record in records for name in record.measures})
        nan = float("nan")
        measured = {
            name: np.array([record.measures.get(name, nan) for record in records], np.float64)
            for name in names
        }
        shares = {
            name: np.array([share(record) for record in records], np.float64)
            for name, share in _SHARES.items()
        }
        return cls(
            documents=_numbered(document_of(record.subject) for record in records),
            questions=_numbered((record.subject.benchmark, record.subject.uid) for record in records),
            values={name: _numbers(column) for name, column in (shares | measured).items()},
            f1=np.array([_f1_part(record) for record in records], np.float64).reshape(-1, 2),
        )

    def samples(self, rows: NDArray[np.intp]) -> dict[str, tuple[int, ClusteredSample]]:
        """By measure, on how many of these records it was measured, and what its interval is taken of."""
        means = {name: self._mean(name, rows) for name in self.values}
        return {name: one for name, one in (means | {MMLONGBENCH_F1: self._f1(rows)}).items() if one[0]}

    def known(self, name: str, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """The values of a measure, of those of the records that have it."""
        found = self.values[name][rows] if name in self.values else np.empty(0)
        return found[~np.isnan(found)]

    def _mean(self, name: str, rows: NDArray[np.intp]) -> tuple[int, ClusteredSample]:
        held = rows[~np.isnan(self.values[name][rows])]
        values = self.values[name][held]
        share = name not in COUNTS and bool(np.all((values >= SHARE[0]) & (values <= SHARE[1])))
        return len(held), sample_of(
            values,
            self.documents[held],
            questions=len(np.unique(self.questions[held])),
            limits=SHARE if share else None,
        )

    def _f1(self, rows: NDArray[np.intp]) -> tuple[int, ClusteredSample]:
        """It is no share of questions, so of one document there is no interval."""
        held = rows[~np.isnan(self.f1[rows, 0])]
        held = held[np.lexsort(self.f1[held].T)]  # rounding must not depend on the order of the records
        _, places = np.unique(self.documents[held], return_inverse=True)
        parts = np.zeros((len(np.unique(places)), 2))
        np.add.at(parts, places, self.f1[held])
        return len(held), ClusteredSample(parts, len(parts), SHARE if len(parts) > 1 else None)


def _numbered(names: Iterable[Hashable]) -> NDArray[np.intp]:
    """A number for each, the same for the same."""
    known: dict[Hashable, int] = {}
    return np.fromiter((known.setdefault(name, len(known)) for name in names), np.intp)


def _numbers(column: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.abs(column) < _ENDLESS, column, np.nan)


def _accuracy(record: CaseRecord) -> float | None:
    return None if record.outcome is CaseOutcome.UNJUDGED else float(record.outcome is CaseOutcome.RIGHT)


def _abstention_precision(record: CaseRecord) -> float | None:
    return float(not record.subject.answerable) if record.declined else None


def _abstention_recall(record: CaseRecord) -> float | None:
    return None if record.subject.answerable else float(record.declined)


def _false_abstention(record: CaseRecord) -> float | None:
    return float(record.declined) if record.subject.answerable else None


_SHARES: Mapping[str, Callable[[CaseRecord], float | None]] = {
    "accuracy": _accuracy,
    "abstention_precision": _abstention_precision,
    "abstention_recall": _abstention_recall,
    "false_abstention": _false_abstention,
}
"""What of the outcomes is a share, as values of the records that it is a share of."""


def _f1_part(record: CaseRecord) -> tuple[float, float]:
    """Twice the score of an answerable question; and one for such a question, and one for an attempt."""
    score, answerable = record.measures.get("mmlongbench", float("nan")), record.subject.answerable
    return 2 * score * answerable, answerable + (not record.declined) + 0 * score
