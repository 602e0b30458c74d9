"""ANLS (Biten et al. 2019, arXiv 1905.13648, eq. 1), of ST-VQA and DocVQA: `anls`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.metrics import anls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.types import Case

__all__ = ["measures"]


def measures(case: Case, answer: str | None) -> Mapping[str, float]:
    """`anls`: the likeness in letters to the nearest reference, 0 where half of them or more are wrong.

    At exactly one half papers differ. By the equation of ST-VQA, which is ours, it counts as 0, and so it
    does for MMLongBench-Doc; the text of DocVQA keeps it. An abstention is compared as "Not answerable".
    """
    if answer is None:
        return {"anls": 0.0}
    return {"anls": max(anls(answer, reference) for reference in case.references)}
