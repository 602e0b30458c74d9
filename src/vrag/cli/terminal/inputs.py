"""Paths and files of questions on the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.terminal.console import plain, warn
from vrag.errors import CaseError
from vrag.render.text_format import count

if TYPE_CHECKING:
    from vrag.types import Case, Document


def parse_path(text: str) -> Path:
    """Parse a path. An empty one is a shell variable that is not set, not the current folder."""
    if not text:
        raise typer.BadParameter("The path is empty.")
    return Path(text)


def exists(word: str | Path) -> bool:
    """Return whether a word names something on disk; a long question is too long for a file name."""
    try:
        return os.path.lexists(word)
    except (OSError, ValueError):
        return False


def read_questions(path: Path, limit: int | None = None) -> list[Case]:
    """Read the first `limit` questions of a file of any kind that `vrag data convert` reads.

    Raises:
        CaseError: If it cannot be read, or has no questions.
    """
    from vrag.datasets.registry import open_cases

    cases = list(islice(open_cases(path)[1], limit))
    if not cases:
        raise CaseError(f"{path} has no questions.")
    return cases


def warn_missing_documents(cases: Sequence[Case], documents: Iterable[Document]) -> None:
    """Print how many questions are about documents that are not searched: asking them is a waste.

    Without documents nothing is known, as where a server searches.
    """
    from vrag.evaluation.result_store import searched_for

    searched = searched_for(cases, documents)
    if searched is None or not searched.absent:
        return
    questions = f"{count(searched.questions, 'question')} {'is' if searched.questions == 1 else 'are'}"
    names = ", ".join(plain(name, 80) for name in searched.absent[:3])
    more = " …" if len(searched.absent) > 3 else ""
    warn(f"{questions} about documents that could not be read or are not searched: {names}{more}")
