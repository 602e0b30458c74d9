"""The audit log: who did what on a server, one JSON object a line, in a file that is only appended to.

An entry is on the disk when `AuditLog.write` returns, and not only in the file, if the log is `durable`. The
server and the command line may write to one file: each holds a lock for the moment of writing, and opens the
file again when it was renamed (as logrotate does) or when another process has written to it since. An entry
is ASCII, so that nothing in it ends a line or steers a terminal.
"""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from getpass import getuser
from pathlib import Path
from typing import IO, cast

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vrag.atomic_io import Journal
from vrag.errors import SettingsError
from vrag.server.http.users import UserRole

SERVER_ROLE, LOCAL_ROLE = "server", "local"
"""In place of a role: the server itself, and somebody at the command line of its machine."""
_MAX_CHARS = 1024
"""Characters of a value of an entry."""
_MAX_QUESTION_CHARS = 8192


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
    """Refused requests of this address in the minute before that have no entries."""
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
        self._journal: Journal | None = None
        self._stamp: tuple[int, int, int] | None = None
        """Device, inode and size of the file after the last entry."""

    def check(self) -> None:
        """Check that entries can be written. Raises `SettingsError` if not."""
        try:
            with self._lock, self._file_lock():
                self._open()
        except OSError as error:
            message = f"The audit log {self.path} cannot be written: {error.strerror}."
            hint = "Fix the permissions of its folder, or change VRAG_AUDIT_LOG."
            raise SettingsError(message, hint) from error

    def write(self, entry: AuditEntry) -> None:
        """Append an entry; it is in the file when this returns. Raises `OSError` if the disk refuses."""
        with self._lock, self._file_lock():
            self._open().append(entry.line)
            self._stamp = self._current_stamp()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._journal is not None:
                self._journal.close()
            self._journal = self._stamp = None

    def _file_lock(self) -> FileLock:
        return FileLock(self.path.with_name(f".{self.path.name}.lock"), is_singleton=False)

    def _open(self) -> Journal:
        """Return the open file; it is opened again if it is another one, or if it has grown."""
        if self._journal is not None and self._stamp == self._current_stamp():
            return self._journal
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        os.close(os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
        self._journal = Journal(self.path, durable=self._durable)
        self._stamp = self._current_stamp()
        return self._journal

    def _current_stamp(self) -> tuple[int, int, int] | None:
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return None
        return stat.st_dev, stat.st_ino, stat.st_size


def write_local(log: AuditLog | None, action: AuditAction, result: AuditResult, **fields: str | int) -> None:
    """Write an entry of somebody at the command line. Raises `SettingsError` if it cannot be written."""
    if log is None:
        return
    try:
        user = getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        user = str(os.getuid()) if hasattr(os, "getuid") else ""
    entry = AuditEntry(user=user, role=LOCAL_ROLE, action=action, result=result, **fields)  # type: ignore[arg-type]
    try:
        log.write(entry)
    except OSError as error:
        message = f"The audit log {log.path} cannot be written: {error.strerror}."
        state = "Nothing was done." if result is AuditResult.BEGUN else "The command was carried out."
        hint = f"{state} Free some disk space or fix the permissions."
        raise SettingsError(message, hint) from error
    finally:
        log.close()


def read_entries(path: Path) -> Iterator[AuditEntry]:
    """Yield the entries of an audit log, the oldest first, with those of its rotated files.

    These are files of its folder whose names begin with that of the log and `.` or `-`, compressed by gzip or
    not. Lines that are no entries are left out. Raises `OSError` if a file cannot be read.
    """
    names = [each for sign in ".-" for each in path.parent.glob(f"{path.name}{sign}*")]
    entries: list[AuditEntry] = []
    for each in (*names, path):
        if each.is_file():
            with _open_text(each) as lines:
                for line in lines:
                    try:
                        entries.append(AuditEntry.model_validate_json(line))
                    except ValidationError:  # torn, or of another program
                        continue
    yield from sorted(entries, key=lambda entry: entry.time)


def _open_text(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _printable(text: str) -> str:
    """Replace halves of surrogate pairs, which are no text."""
    return text.encode("utf-8", "replace").decode()


def _format_time(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z"
