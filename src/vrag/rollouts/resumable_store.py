"""A folder of records that can be interrupted at any moment and resumed.

::

    <settings>.json   what the records are made with; written first
    <records>.jsonl   one record a line, appended whole and forced to disk
    lock              held by the one process that writes

A process that dies leaves at worst half a line at the end, which is not a record: reading leaves it out, and
the next writer removes it. Records made with other settings are refused, since a folder would mix them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, ValidationError

from vrag.atomic_io import Journal, bind, one_writer, read_lines, write_lines
from vrag.errors import VragError
from vrag.parsing import parse_json

LOCK = "lock"
SCHEMA_VERSION = 1
MAX_VALUE_CHARACTERS = 40
"""Maximum length of a value in a message; longer ones, such as digests, are not readable."""

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class RecordFile(Generic[M]):
    """A JSON Lines file of records of one pydantic model."""

    path: Path
    model: type[M]
    error: type[VragError]
    """Raised with the reason and advice."""

    def read(self) -> list[M]:
        """Read all records; raise `error` if a line is damaged or the file cannot be read."""
        with report_disk_errors(self.path, self.error, "read"):
            lines = read_lines(self.path, missing_ok=True)
        records: list[M] = []
        for number, line in enumerate(lines, 1):
            try:
                records.append(self.model.model_validate_json(line))
            except ValidationError as error:
                raise self.error(
                    f"Line {number} of {self.path} is damaged: {error.errors()[0]['msg']}.",
                    "Remove the line, and its record is made again; or use another folder.",
                ) from error
        return records

    def open(self) -> Journal:
        """Open the file for `append`; there may be one writer at a time."""
        with report_disk_errors(self.path, self.error):
            return Journal(self.path)

    def append(self, journal: Journal, record: M) -> None:
        """Append a record; it is on disk when this returns, or not in the file at all."""
        with report_disk_errors(self.path, self.error):
            journal.append(record.model_dump_json().encode())

    def rewrite(self, records: Iterable[M]) -> None:
        """Replace all records at once while the file is not open."""
        with report_disk_errors(self.path, self.error):
            write_lines(self.path, (record.model_dump_json().encode() for record in records))


class ResumableStore(Generic[M]):
    """A folder of records with its settings and its lock; created when it is opened.

    `settings` and `records` are names of files; `error` is raised with the reason and advice.
    """

    def __init__(
        self, folder: Path, settings: str, records: str, model: type[M], error: type[VragError]
    ) -> None:
        self.folder, self._error = folder, error
        self.settings_file = folder / settings
        self.records = RecordFile(folder / records, model, error)

    @contextmanager
    def locked(self, made_with: Mapping[str, Any]) -> Generator[None]:
        """Hold the lock, once the folder is found to be made with these settings, JSON values by name.

        Raises `error` if another process writes, the settings are others, missing or damaged, or the disk
        refuses.
        """
        hint = "Wait until it ends, or use another folder."
        busy = self._error(f"Another process is writing to {self.folder}.", hint)
        with ExitStack() as stack:
            with report_disk_errors(self.folder, self._error):
                self.folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(one_writer(self.folder / LOCK, busy))
                self._check_settings(made_with)
            yield

    def _check_settings(self, made_with: Mapping[str, Any]) -> None:
        path = self.settings_file
        if not path.exists() and self.records.path.exists():
            raise self._error(
                f"{path} is missing: {self.folder} does not say what its records were made with.",
                "Restore the file, or use another folder.",
            )
        try:
            names = bind(path, {"schema_version": SCHEMA_VERSION, **made_with})
        except ValueError as error:
            raise self._error(f"{path} is damaged: {error}.", "Use another folder.") from error
        if names:
            differences = describe_differences(names, parse_json(path.read_bytes()), made_with)
            raise self._error(
                f"{self.folder} was made with {differences}.", "Use the same settings, or another folder."
            )


@contextmanager
def report_disk_errors(path: Path, error: type[VragError], action: str = "written") -> Generator[None]:
    """Raise `error` instead of an `OSError`, with the reason and what to do."""
    try:
        yield
    except OSError as reason:
        raise error(
            f"{path} cannot be {action}: {reason.strerror or reason}.",
            "Free some disk space or fix the permissions, then run the same command again.",
        ) from reason


def describe_differences(names: Iterable[str], before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Describe settings that differ, with both values where they are numbers or short text.

    >>> describe_differences(["model", "sampling"], {"model": "a", "sampling": {"seed": 3, "top_p": 1}},
    ...                      {"model": "b", "sampling": {"seed": 4, "top_p": 1}})
    'model a, not b, seed 3, not 4'
    """
    differences = [part for name in names for part in _differences(name, before.get(name), now.get(name))]
    opaque = [name for name, values in differences if not values]
    shown = [f"{name} {values}" for name, values in differences if values]
    return ", ".join([*shown, *([f"other {', '.join(opaque)}"] if opaque else [])])


def _differences(name: str, before: object, now: object) -> Iterator[tuple[str, str]]:
    """Yield names with both values, or with "" for values that are not readable."""
    readable = _is_readable(before) and _is_readable(now)
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        first, second = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", now)
        for part in sorted(first.keys() | second.keys()):
            if (part in first, first.get(part)) != (part in second, second.get(part)):
                yield from _differences(part, first.get(part), second.get(part))
    else:
        yield name, f"{before}, not {now}" if readable else ""


def _is_readable(value: object) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= MAX_VALUE_CHARACTERS and value.isprintable()
    return isinstance(value, int | float)
