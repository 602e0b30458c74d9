"""Paths that somebody named: whether they are there, and what is said when nothing came of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vrag.cli.terminal.console import plain, warn
from vrag.render.text_format import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from vrag.types import Case, Document

__all__ = ["exists", "tell_absent"]


def exists(word: str | Path) -> bool:
    """Whether a word names something on disk; a long question is too long for a name."""
    try:
        return os.path.lexists(word)
    except (OSError, ValueError):
        return False


def tell_absent(cases: Sequence[Case], documents: Iterable[Document]) -> None:
    """Prints how many questions nothing can be found for, and what they are about: they waste what they cost.

    Args:
        cases: The questions.
        documents: What is searched; without any nothing is known, as where a server searches.
    """
    from vrag.evaluation.result_store import searched_for

    searched = searched_for(cases, documents)
    if searched is None or not searched.absent:
        return
    asked = f"{count(searched.questions, 'question')} {'asks' if searched.questions == 1 else 'ask'}"
    told = f"{asked} about documents that could not be read or are not searched"
    warn(f"{told}: {_some(searched.absent)}")


def _some(names: Sequence[str]) -> str:
    """The first of them; a name may have been made to mislead a terminal."""
    return ", ".join(plain(name, 80) for name in names[:3]) + (" …" if len(names) > 3 else "")
