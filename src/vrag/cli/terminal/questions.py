"""Files of questions that somebody named."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from vrag.errors import CaseError

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.types import Case

__all__ = ["read_questions"]


def read_questions(path: Path, limit: int | None = None) -> list[Case]:
    """The questions of a file of any kind that `vrag data convert` reads.

    Args:
        path: Our JSON, JSON lines or parquet, or a published data set.
        limit: How many of the first are read; None for all.

    Raises:
        CaseError: If it cannot be read, or holds none.
    """
    from vrag.datasets.registry import open_cases

    cases = list(islice(open_cases(path)[1], limit))
    if not cases:
        raise CaseError(f"{path} holds no questions.")
    return cases
