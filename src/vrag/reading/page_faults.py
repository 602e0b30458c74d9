"""Faults of the parts that read a page. Each costs what the part would have found there, and ends nothing.

A part that raises is a fault of this program, never of the document. It is counted, and logged or told by
whoever collects the faults of a run or of a command.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from pathlib import PurePath
from traceback import extract_tb
from typing import TypeVar

from vrag.errors import VragError
from vrag.types import Item, ItemKind

T = TypeVar("T")
log = logging.getLogger("vrag.reading")


class UnreadPart(StrEnum):
    """The part of a page that could not be read, as it is named in messages and metrics."""

    TABLES = "tables"
    CHARTS = "charts"
    VALUES = "labelled values"
    TEXT = "text"
    ANSWERS = "answers"
    EVIDENCE = "evidence"


FAULT_COUNTS: Counter[UnreadPart] = Counter()
"""The faults since this process began."""
_collected: ContextVar[dict[str, None] | None] = ContextVar("page_faults", default=None)


@contextmanager
def collect_page_faults(faults: dict[str, None] | None = None) -> Generator[dict[str, None]]:
    """Collect the faults of a run or a command, also those in threads that it starts: a line each, in order.

    `faults` are those collected so far.
    """
    collected: dict[str, None] = {} if faults is None else faults
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)


def read_part(part: UnreadPart, item: Item, read: Callable[[], T], default: T) -> T:
    """Return what `read` finds on a page; `default` after a fault, see `tolerate_fault`."""
    page = "passage" if item.kind is ItemKind.PASSAGE else "page"
    line = f"{item.document_name}, {page} {item.ordinal}: its {part} could not be read"
    return tolerate_fault(part, line, read, default)


def tolerate_fault(part: UnreadPart, line: str, read: Callable[[], T], default: T) -> T:
    """Return what `read` does; after a fault report `line`, which has no full stop, and return `default`.

    Errors that a user can act on are raised: they are no faults.
    """
    try:
        return read()
    except (VragError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the rest can be read
        report_fault(part, line, error)
        return default


def report_fault(part: UnreadPart, line: str, error: Exception) -> None:
    """Count a fault, and tell it: in a line to who collects them, else as a warning of the log."""
    FAULT_COUNTS[part] += 1
    collected = _collected.get()
    if collected is None:
        level = logging.WARNING
    else:
        level = logging.DEBUG if f"{line}." in collected else logging.INFO
        collected[f"{line}."] = None
    log.log(level, "%s (%s).", line, describe_fault(error), extra={"fault": error})


def describe_fault(error: BaseException) -> str:
    """Return the class of an error and where it was raised; not its message, which may hold values."""
    frames = extract_tb(error.__traceback__)
    place = f" in {PurePath(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
