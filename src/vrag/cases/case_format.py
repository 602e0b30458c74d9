"""What a source is: a kind of row in which a published data set comes, and the cases in it."""

from __future__ import annotations

import math
from ast import literal_eval
from typing import TYPE_CHECKING, Any, Protocol, cast

from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["UNANSWERABLE", "CaseFormat", "any_list", "hops", "literal_list", "plain_list", "text_of"]


UNANSWERABLE = "Not answerable"
"""The answer to a question that the documents do not answer, as MMLongBench-Doc writes it."""
LONGEST_LITERAL = 10_000
"""Characters of a list that is written as Python; what is longer is not read."""


class CaseFormat(Protocol):
    """A kind of row."""

    @property
    def name(self) -> str:
        """How `--from` calls it."""
        ...

    def data_source(self, split: str) -> str:
        """What the parquet calls the source of a split, as the reference does."""
        ...

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is of this kind, by its columns."""
        ...

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:
        """The cases of a row, in the dataset JSON of ours.

        Args:
            row: A row that fits.
            number: Its place in the file, from 0.

        Raises:
            CaseError: If the row is not as published.
        """
        ...


def text_of(row: Mapping[str, Any], *names: str) -> str:
    """The text in the first of some columns that is there; a number as its text.

    Raises:
        CaseError: If none holds a text.
    """
    for name in names:
        value = row.get(name)
        if isinstance(value, str) or (isinstance(value, int | float) and _is_number(value)):
            return str(value)
    raise CaseError(f"There is no {names[0]!r}.")


def _is_number(value: float) -> bool:
    """Neither a truth value nor "not a number", as some write what is missing."""
    return not isinstance(value, bool) and (isinstance(value, int) or math.isfinite(value))


def any_list(value: object) -> list[Any]:
    """A list; an empty one of anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def plain_list(row: Mapping[str, Any], name: str) -> list[Any]:
    """The list in a column.

    Raises:
        CaseError: If it holds none.
    """
    value = row.get(name)
    if not isinstance(value, list):
        raise CaseError(f"{name!r} is no list.")
    return cast("list[Any]", value)


def literal_list(row: Mapping[str, Any], name: str) -> list[Any]:
    """A list, also from its text in Python, as in "[3, 'a']"; its text is read, never executed.

    Raises:
        CaseError: If it is neither.
    """
    value = row.get(name)
    if isinstance(value, str) and len(value) <= LONGEST_LITERAL:
        try:
            value = literal_eval(value.strip())
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
            raise CaseError(f"{name!r} is no list: {row[name]!r:.80}.") from error
    if not isinstance(value, list):
        raise CaseError(f"{name!r} is no list.")
    return cast("list[Any]", value)


def hops(pages: Iterable[object]) -> str:
    """The query type of a question by its gold pages, for sets that name none."""
    return "Multi-Hop" if len(set(map(str, pages))) > 1 else "Single-Hop"
