"""Cases out of any file that is understood, one after the other."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from vrag.cases.dataset import case_of, overhang_of
from vrag.cases.formats import SOURCES
from vrag.cases.row_files import read_rows
from vrag.errors import CaseError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from vrag.cases.case_format import CaseFormat
    from vrag.types import Case

__all__ = ["open_cases", "read_cases", "source_named", "with_distinct_ids"]

log = logging.getLogger("vrag.cases")

_OURS = {"query", "meta_info", "reference_answer"}
"""Fields that make a row one of our JSON that lacks something, when nothing else knows it."""


def open_cases(path: Path, source: str | None = None) -> tuple[CaseFormat, Iterator[Case]]:
    """Opens a file of cases; its kind is told by its first row, or named.

    Args:
        path: JSON, JSON lines or parquet.
        source: One of `SOURCES`.

    Returns:
        The kind, and the cases, which are read while they are taken. Reading on raises `CaseError` as
        well, and says which row is to blame. Gold boxes that were cut at the edge of their page are
        logged at the end.

    Raises:
        CaseError: If the file cannot be read, is empty, or nothing knows its rows.
        SettingsError: If there is no such source.
    """
    named = source_named(source) if source else None
    rows = read_rows(path)
    first = next(rows, None)
    if first is None:
        raise CaseError(f"{path} holds no questions.")
    found = named or _recognised(first, path)
    return found, _cases(chain([first], rows), found, path)


def read_cases(path: Path, source: str | None = None) -> list[Case]:
    """All cases of a file; see `open_cases`.

    Raises:
        CaseError: If the file cannot be read, is empty, or a row of it is no case.
        SettingsError: If there is no such source.
    """
    return list(open_cases(path, source)[1])


def source_named(name: str) -> CaseFormat:
    """A source by its name.

    Raises:
        SettingsError: If there is none.
    """
    if name not in SOURCES:
        raise SettingsError(f"There is no data set {name!r}.", f"Known: {', '.join(SOURCES)}.")
    return SOURCES[name]


def _recognised(row: object, path: Path) -> CaseFormat:
    fields = _fields(row, f"{path}, row 1")
    if found := next((source for source in SOURCES.values() if source.fits(fields)), None):
        return found
    if _OURS & fields.keys():
        return SOURCES["dataset"]  # which says what is wrong with it
    columns = ", ".join(list(fields)[:8]) or "none"
    raise CaseError(
        f"The rows of {path} are of no kind that is known; their columns: {columns}.",
        f"Known: {', '.join(SOURCES)}. Name one: vrag data convert --from.",
    )


def with_distinct_ids(cases: Iterable[tuple[str, Case]]) -> Iterator[tuple[str, Case]]:
    """Pass on the cases of several files, each with the name of its data source, under distinct uids.

    A uid that came before, as files that number their questions have, gets its data source in front:
    `mmlongdoc-7`.

    Raises:
        CaseError: If that came before as well.
    """
    known: set[str] = set()
    for data_source, case in cases:
        uid = case.uid if case.uid not in known else f"{data_source}-{case.uid}"
        if uid in known:
            raise CaseError(
                f"The uid {case.uid!r} occurs more than once in {data_source}.",
                "Name each file once, or give the files different names: --data-source.",
            )
        known.add(uid)
        yield data_source, case if uid == case.uid else replace(case, uid=uid)


def _cases(rows: Iterator[object], source: CaseFormat, path: Path) -> Iterator[Case]:
    known: dict[str, int] = {}
    overhangs: dict[str, float] = {}
    for number, row in enumerate(rows, 1):
        where = f"{path}, row {number}"
        for case, overhang in _within(row, source, number, where):
            if overhang:
                overhangs[case.uid] = overhang
            if case.uid in known:
                raise CaseError(
                    f"{where}: The uid {case.uid!r} is that of row {known[case.uid]} too.",
                    "Take one of them out, or rename it.",
                )
            known[case.uid] = number
            yield case
    if overhangs:
        log.warning(
            "%s: gold boxes reach beyond their page, by %.4f of it at most, and were cut at its edge. "
            "Questions: %d; the first is %r.",
            path,
            max(overhangs.values()),
            len(overhangs),
            next(iter(overhangs)),
        )


def _within(row: object, source: CaseFormat, number: int, where: str) -> Iterator[tuple[Case, float]]:
    """The cases of a row, each with how far its boxes reach beyond the page; none where one is at fault."""
    fields = _fields(row, where)
    try:
        made = list(source.cases(fields, number - 1))
    except CaseError as error:
        raise CaseError(f"{where}: {error.message}", error.hint) from error
    yield from [(case_of(each, where), overhang_of(each)) for each in made]


def _fields(row: object, where: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise CaseError(
            f"{where} is no object.",
            "A row is one JSON object: a question, or a document with its questions.",
        )
    return cast("dict[str, Any]", row)
