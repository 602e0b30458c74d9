"""What makes two runs of a benchmark hard to compare, and is no reason to refuse it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrag.evaluation.running import Conditions

__all__ = ["differences"]


def differences(a: Conditions, b: Conditions) -> list[str]:
    """In sentences, for people; what cannot be compared at all, `pairing.pair` refuses."""
    told: list[str] = []
    if a.cases != b.cases:
        told.append("The two were asked questions of other preparations; those with equal ids are compared.")
    if a.samples != b.samples:
        told.append(
            f"Questions were asked {a.samples} and {b.samples} times; the samples of both are compared."
        )
    if a.extractor != b.extractor:
        told.append(
            f"Rules compared {_compared(a)} in the first run, and {_compared(b)} in the second:"
            " the difference in what they measure (em, f1, anls, the benchmark's own) may be that alone."
        )
    if a.stopped or b.stopped:
        told.append("One was stopped before all questions were asked.")
    return told


def _compared(conditions: Conditions) -> str:
    by = conditions.extractor
    return f"short answers that {by} extracted" if by else "answers as they were given"
