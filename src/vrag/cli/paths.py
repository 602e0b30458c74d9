"""Paths that somebody named: whether they are there, and what is said when nothing came of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vrag.cli.display import supported, warn
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from vrag.types import Case, Document

__all__ = ["exists", "missing", "nothing_read", "tell_absent"]


def exists(word: str | Path) -> bool:
    """Whether a word names something on disk; a long question is too long for a name."""
    try:
        return os.path.lexists(word)
    except (OSError, ValueError):
        return False


def missing(paths: Sequence[Path]) -> CorpusError | None:
    """What is wrong when none of the paths is there; None when there is something to read."""
    if any(map(os.path.exists, paths)):
        return None
    named = ", ".join(map(str, paths))
    if len(paths) > 1:
        return CorpusError(f"None of these exists: {named}.", "Are the paths right?")
    if exists(paths[0]):
        return CorpusError(f"{named} is a link that leads nowhere.", "Name what it should lead to.")
    return CorpusError(f"{named} does not exist.", "Is the path right?")


def nothing_read(paths: Sequence[Path]) -> CorpusError:
    """What to say when nothing under these paths could be read."""
    return missing(paths) or CorpusError(
        f"Nothing could be read in {', '.join(map(str, paths))}.", supported()
    )


def tell_absent(cases: Sequence[Case], documents: Iterable[Document]) -> None:
    """Prints which documents questions are about that are not searched: such questions waste what they cost.

    Args:
        cases: The questions.
        documents: What is searched; without any nothing is known, as where a server searches.
    """
    there = {document.name for document in documents if document.status.served}
    about = {case.file_name for case in cases}
    if there and (absent := sorted(about - there)):
        some = ", ".join(absent[:3]) + (" …" if len(absent) > 3 else "")
        warn(f"{len(absent)} of {len(about)} documents that questions are about are not searched: {some}")
