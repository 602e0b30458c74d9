"""Row formats of published data sets, and the fields of their rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from ast import literal_eval
from typing import TYPE_CHECKING, Any, ClassVar, cast

from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_LITERAL_CHARACTERS = 10_000
"""Length of a list that is written as Python; a longer one is refused."""


class CaseFormat(ABC):
    """A row format: the columns that identify it, and the cases of a row."""

    __slots__ = ()
    name: str
    """Name for `--from`."""
    columns: ClassVar[tuple[frozenset[str], ...]]
    """A row has this format if it has all columns of one of these sets."""

    def data_source(self, split: str) -> str:  # noqa: ARG002 - most have one name for every split
        """Return the data source in the training parquet, as the reference names it."""
        return self.name

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row has this format, by its columns."""
        return any(columns <= row.keys() for columns in self.columns)

    @abstractmethod
    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:
        """Convert a row to cases in the dataset JSON (`vrag.cases.case_json`).

        Args:
            row: A row that fits.
            number: Its place in the file, from 0.

        Raises:
            CaseError: If the row is not as published.
        """


def text_of(row: Mapping[str, Any], *names: str) -> str:
    """Return the text in the first of these columns that holds a text or a finite number.

    Raises `CaseError` if none does.
    """
    for name in names:
        value = row.get(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
        if isinstance(value, str) or is_number:
            return str(value)
    raise CaseError(f"There is no {names[0]!r}.")


def any_list(value: object) -> list[Any]:
    """Return a list as it is, and an empty list for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def any_object(value: object) -> dict[str, Any]:
    """Return a JSON object as it is, and an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def object_of(value: object, name: str) -> dict[str, Any]:
    """Return a JSON object.

    Raises `CaseError` if the value is something else; `name` says in the message what it is.
    """
    if not isinstance(value, dict):
        raise CaseError(f"{name} is not an object.")
    return cast("dict[str, Any]", value)


def plain_list(row: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list in a column. Raises `CaseError` if the column holds none."""
    value = row.get(name)
    if not isinstance(value, list):
        raise CaseError(f"{name!r} is not a list.")
    return cast("list[Any]", value)


def literal_list(row: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list in a column, also from Python source such as "[3, 'a']", which is never executed.

    Raises `CaseError` if the column holds neither.
    """
    value = row.get(name)
    if isinstance(value, str) and len(value) <= MAX_LITERAL_CHARACTERS:
        try:
            value = literal_eval(value.strip())
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
            raise CaseError(f"{name!r} is not a list: {row[name]!r:.80}.") from error
    return plain_list({name: value}, name)


def hops(pages: Iterable[object]) -> str:
    """Return the query type of a question by its gold pages, for data sets that have no column for it."""
    return "Multi-Hop" if len(set(map(str, pages))) > 1 else "Single-Hop"
