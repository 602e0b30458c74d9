"""The audit log: who did what on a server, one JSON object a line, in a file that is only appended to.

An entry is on the disk when `AuditLog.write` returns, and not only in the file, if the log is `durable`. The
server and the command line may write to one file: each holds a lock for the moment of writing, and opens the
file again when it was renamed (as logrotate does). What a process that died left of a line is never cut off:
the next entry begins a new line. An entry is ASCII, so that nothing in it ends a line or steers a terminal.
"""

from __future__ import annotations

import errno
import glob
import gzip
import heapq
import json
import os
import secrets
import threading
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from getpass import getuser
from itertools import dropwhile
from pathlib import Path
from typing import IO, NamedTuple, cast

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vrag.atomic_io import sync, sync_handle
from vrag.errors import SettingsError, first_line
from vrag.server.http.users import UserRole

SERVER_ROLE, LOCAL_ROLE = "server", "local"
"""In place of a role: the server itself, and somebody at the command line of its machine."""
_HINT = "Free some disk space, fix the permissions of its folder, or change VRAG_AUDIT_LOG."
_MAX_CHARS = 1024
"""Characters of a value of an entry."""
_MAX_QUESTION_CHARS = 8192
_LINE_BEGIN = b'{"time": "'
"""The beginning of every line."""
_FIRST_BYTES = 1 << 18
"""Bytes that have the first whole entry of a log."""


class AuditAction(StrEnum):
    """Actions in the audit log."""

    SIGN_IN = "sign_in"
    SIGN_OUT = "sign_out"
    SEARCH = "search"
    ASK = "ask"
    EXPORT = "export"
    CHANGE_RUN = "change_run"
    """A new title, pin or sharing of a conversation."""
    STOP_RUN = "stop_run"
    DELETE_RUN = "delete_run"
    PURGE_RUNS = "purge_runs"
    UPLOAD = "upload"
    REPLACE = "replace"
    RETRY = "retry"
    CANCEL_UPLOAD = "cancel_upload"
    REMOVE_DOCUMENT = "remove_document"
    CREATE_COLLECTION = "create_collection"
    DELETE_COLLECTION = "delete_collection"
    CHOOSE_MODEL = "choose_model"
    REMOVE_MODEL = "remove_model"
    ADD_TOKEN = "add_token"  # noqa: S105 - no secret
    CHANGE_ROLE = "change_role"
    REMOVE_TOKEN = "remove_token"  # noqa: S105
    REQUEST = "request"
    """Any other request; such entries are only of refused ones."""


class AuditResult(StrEnum):
    """Results in the audit log."""

    BEGUN = "begun"
    """The entry before a change."""
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"


class AuditEntry(BaseModel):
    """One line of the audit log. Fields without a value are left out of the line."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    time: str = Field(default_factory=lambda: _format_time(datetime.now(UTC)))
    """UTC, as 2026-03-14T09:26:53.589Z."""
    id: str = ""
    """Shared by the entries before and after one request."""
    user: str = ""
    """Name of the token; empty without one. Of `local` entries, the user of the operating system."""
    role: UserRole | str = ""
    """UserRole of the token; `server` or `local` without a request; empty if the user is unknown."""
    address: str = ""
    """Address of the client, past trusted proxies."""
    action: AuditAction | str
    collection: str = ""
    document: str = ""
    """Id of a document: SHA-256 of its bytes."""
    file: str = ""
    """Name of an uploaded or removed file."""
    run: str = ""
    job: str = ""
    """Id of an upload."""
    runs: int | None = None
    """Number of runs that were deleted."""
    scope: str = ""
    """For whom a model was chosen: `session` or `all`."""
    model: str = ""
    subject: str = ""
    """Name of the user whose token was added, changed or removed, or whose runs were deleted."""
    new_role: UserRole | str = ""
    question: str = ""
    """Question or queries; only with the setting `audit_questions`."""
    result: AuditResult | str = ""
    """`begun` before a change, then `done`, `failed` or `refused`."""
    status: int | None = None
    """Status of the response."""
    reason: str = ""
    """Why a request was refused, in one word."""
    omitted: int | None = None
    """Refused requests of this address before this one that have no entries."""
    method: str = ""
    path: str = ""
    """Method and path of a refused request without an action of its own."""
    request: str = ""
    """Id of the request in the server's log."""

    @property
    def line(self) -> bytes:
        """The entry as JSON in ASCII, with values of limited length."""
        fields = self.model_dump(mode="json", exclude_defaults=True) | {"time": self.time}
        limits = {"question": _MAX_QUESTION_CHARS}
        cut = {
            name: _printable(value)[: limits.get(name, _MAX_CHARS)] if isinstance(value, str) else value
            for name, value in fields.items()
        }
        return json.dumps({"time": cut.pop("time"), **cut}).encode("ascii")


class AuditLog:
    """The file of an audit log. Used from several threads and processes."""

    def __init__(self, path: Path, *, with_questions: bool = False, durable: bool = True) -> None:
        self.path = path
        self._durable = durable
        self.with_questions = with_questions
        self._lock = threading.Lock()
        self._stream: IO[bytes] | None = None

    def check(self) -> None:
        """Check that entries can be written. Raises `SettingsError` if not."""
        try:
            with self._lock, self._file_lock():
                self._open()
        except OSError as error:
            message = f"The audit log {self.path} cannot be written: {error.strerror}."
            raise SettingsError(message, _HINT) from error

    def write(self, entry: AuditEntry) -> None:
        """Append an entry; it is in the file when this returns.

        Raises `OSError` if the disk refuses, or the file is of another kind.
        """
        with self._lock, self._file_lock():
            stream = self._open()
            data = entry.line + b"\n"
            if _is_torn(stream):
                data = b"\n" + data
            if stream.write(data) < len(data):  # a disk that is all but full takes a part
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._durable:
                sync_handle(stream.fileno())

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _file_lock(self) -> FileLock:
        return FileLock(self.path.with_name(f".{self.path.name}.lock"), is_singleton=False)

    def _open(self) -> IO[bytes]:
        """Return the open file; it is opened again if it was renamed."""
        if self._stream is not None:
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._stream.fileno()), self.path.stat()):
                    return self._stream
            self._close()
        os.close(os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
        with ExitStack() as stack:
            stream = stack.enter_context(self.path.open("a+b", buffering=0))
            _check_first_lines(stream)
            if self._durable:
                sync(self.path.parent)
            stack.pop_all()
        self._stream = stream
        return stream


def _is_torn(stream: IO[bytes]) -> bool:
    """Return whether a file has a last line without its end."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - 1))
    return size > 0 and stream.read(1) != b"\n"


def _check_first_lines(stream: IO[bytes]) -> None:
    """Check that a file is empty, or begins with an entry, also after torn ones. Raises `OSError` if not."""
    stream.seek(0)
    lines = list(dropwhile(_may_be_torn, stream.read(_FIRST_BYTES).split(b"\n")))
    if lines not in ([], [b""]) and not _is_entry(lines[0]):
        raise OSError(errno.EINVAL, "the file is not an audit log")


def _may_be_torn(line: bytes) -> bool:
    begin = line[: len(_LINE_BEGIN)]
    return begin != b"" and _LINE_BEGIN.startswith(begin) and not line.endswith(b"}")


def _is_entry(line: bytes) -> bool:
    try:
        AuditEntry.model_validate_json(line)
    except ValidationError:
        return False
    return True


@contextmanager
def audited_change(log: AuditLog | None, entry: AuditEntry) -> Generator[dict[str, int]]:
    """Write the entries before and after a change without a request; without a log do nothing.

    The object that it yields takes fields of the last entry. Raises `SettingsError` if an entry cannot be
    written: nothing is done then, or the change is made. If the change fails, the last entry is `failed`.
    """
    facts: dict[str, int] = {}
    if log is None:
        yield facts
        return
    entry = entry.model_copy(update={"id": secrets.token_hex(8)})
    with closing(log):
        _write(log, entry, AuditResult.BEGUN, "Nothing was done.")
        try:
            yield facts
        except BaseException:
            with suppress(SettingsError):  # the reason of the failure counts
                _write(log, entry.model_copy(update=facts), AuditResult.FAILED, "")
            raise
        _write(log, entry.model_copy(update=facts), AuditResult.DONE, "The change was made.")


def local_entry(action: AuditAction, **fields: str) -> AuditEntry:
    """Build the entry of somebody at the command line."""
    try:
        user = getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        user = str(os.getuid()) if hasattr(os, "getuid") else ""
    return AuditEntry(user=user, role=LOCAL_ROLE, action=action, **fields)  # type: ignore[arg-type]


def _write(log: AuditLog, entry: AuditEntry, result: AuditResult, state: str) -> None:
    now = _format_time(datetime.now(UTC))
    try:
        log.write(entry.model_copy(update={"result": result, "time": now}))
    except OSError as error:
        message = f"The audit log {log.path} cannot be written: {error.strerror}."
        raise SettingsError(message, f"{state} {_HINT}") from error


class DamagedLog(NamedTuple):
    """A file of an audit log that cannot be read to its end."""

    path: Path
    reason: str


def read_entries(
    path: Path,
    *,
    wanted: Callable[[AuditEntry], bool] = lambda _: True,
    limit: int | None = None,
    damaged: list[DamagedLog] | None = None,
) -> list[AuditEntry]:
    """Return the entries of an audit log, the oldest first, with those of its rotated files.

    These are files of its folder whose names begin with that of the log and `.` or `-`, compressed by gzip or
    not. Lines that are no entries are left out. With `limit`, only the newest are returned, and no others are
    held in memory. A file that cannot be read to its end is added to `damaged`.
    """
    entries = (entry for entry in _read_files(path, [] if damaged is None else damaged) if wanted(entry))
    numbered = ((entry.time, number, entry) for number, entry in enumerate(entries))
    newest = sorted(numbered) if limit is None else reversed(heapq.nlargest(limit, numbered))
    return [entry for _, _, entry in newest]


def _read_files(path: Path, damaged: list[DamagedLog]) -> Iterator[AuditEntry]:
    name = glob.escape(path.name)
    for each in (*path.parent.glob(f"{name}.*"), *path.parent.glob(f"{name}-*"), path):
        try:
            if each.is_file():
                yield from _read_file(each)
        except (OSError, EOFError, zlib.error) as error:
            damaged.append(DamagedLog(each, getattr(error, "strerror", None) or first_line(error)))


def _read_file(path: Path) -> Iterator[AuditEntry]:
    with _open_binary(path) as lines:
        for line in lines:
            with suppress(ValidationError):  # torn, or of another program
                yield AuditEntry.model_validate_json(line)


def _open_binary(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _printable(text: str) -> str:
    """Replace halves of surrogate pairs, which are no text."""
    return text.encode("utf-8", "replace").decode()


def _format_time(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z"
