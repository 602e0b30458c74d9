"""Users: who sends a request, by the token that it came with; the file of the tokens of a server.

The file is TOML, with a table for each user. It has digests of the tokens and no tokens:

    [alice]
    sha256 = "9f86d081…"
    role = "upload"

It is read again when it changes. Files of former releases have `admin = true` or `false` in place of a role;
these users keep the rights that they had. Tokens are random and long, so a digest tells nothing about its
token; but whoever can write the file can add a user, and therefore nobody else may.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from stat import S_IMODE

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from vrag.atomic_io import make_directory, write_whole
from vrag.errors import SettingsError, first_line
from vrag.parsing import parse_toml

log = logging.getLogger("vrag.server.users")
_HEAD = "# Users of `vrag serve --tokens`; `vrag tokens add`, `role` and `remove` change it.\n"
_NAME = re.compile(r"\w[\w.@-]{0,63}")
_NAME_HINT = "Use up to 64 letters, digits and . _ @ - and begin with a letter or digit."
_MAX_BYTES = 4 * 1024 * 1024
"""Size of a file of tokens: some ten thousand users."""
_FORBIDDEN_MODE = 0o027
"""Nobody but the owner may write the file, and only the owner's group may read it."""


class UserRole(StrEnum):
    """Role of the user of a token; each role includes those before it."""

    ASK = "ask"
    """Search, look at documents, ask, and manage their own runs."""
    UPLOAD = "upload"
    """Also add, replace, retry, cancel and remove documents, whoever uploaded them."""
    MANAGE = "manage"
    """Also create and delete collections."""
    ADMINISTER = "administer"
    """Also see and delete the runs of all users, and choose the model for all."""

    def includes(self, other: UserRole) -> bool:
        """Return whether this role may do everything that another one may."""
        roles = list(UserRole)
        return roles.index(self) >= roles.index(other)


DEFAULT_ROLE = UserRole.MANAGE
"""The role of a user for whom none is named: what every user could do before there were roles."""


@dataclass(frozen=True, slots=True)
class User:
    """A user. `AuthMiddleware` puts that of each request into `scope["state"]["user"]`."""

    name: str
    """The name of the token; empty where the server has no tokens, and for a request without one."""
    role: UserRole | None
    """None for a request without a token where one is needed."""

    def may(self, role: UserRole) -> bool:
        """Return whether the user may do what needs a role."""
        return self.role is not None and self.role.includes(role)

    @property
    def is_admin(self) -> bool:
        """True if the user sees the runs of all users and may change the set-up of the server."""
        return self.may(UserRole.ADMINISTER)


EVERYBODY = User("", UserRole.ADMINISTER)
"""The one user of a server without tokens."""
NOBODY = User("", None)
"""The user of a request that has no token where one is needed: it reaches only public routes."""
SERVER_ADMIN = User("admin", UserRole.ADMINISTER)
"""The user of the server's own token, `--token`."""


def digest_of(secret: bytes) -> bytes:
    """Hash a secret to one length, so that a comparison takes the same time for every input."""
    return hashlib.sha256(secret).digest()


class _Entry(BaseModel):
    """The entry of a user in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    role: UserRole | None = None
    admin: bool | None = None
    """Of former releases, in place of a role."""

    @model_validator(mode="after")
    def _check_rights(self) -> _Entry:
        if self.role is not None and self.admin is not None:
            raise ValueError("it has both role and admin: remove admin")
        return self

    @property
    def effective_role(self) -> UserRole:
        """The role; for an entry without one, what it could do before there were roles."""
        return self.role or (UserRole.ADMINISTER if self.admin else DEFAULT_ROLE)


_ENTRIES = TypeAdapter(dict[str, _Entry])


class TokenFile:
    """The users of a server by their tokens, in a file. Used from several threads and processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, ...] | None = None
        self._users: dict[bytes, User] = {}

    def check(self) -> None:
        """Check that the file can be used and has a user.

        Raises `SettingsError` if it is missing, damaged or has no user, or others may write it.
        """
        if not self.path.exists():
            raise SettingsError(
                f"There is no file of tokens {self.path}.", self._add_hint("--role administer")
            )
        if not self._read():
            raise SettingsError(
                f"The file of tokens {self.path} has no users.", self._add_hint("--role administer")
            )

    @property
    def users(self) -> list[User]:
        """The users, sorted by name. Raises `SettingsError` if the file cannot be used."""
        return sorted(self._read().values(), key=lambda user: user.name)

    def find(self, digest: bytes) -> User | None:
        """Return the user whose token has a digest; None if there is none.

        Takes the same time for every input. A file that was changed is read again; while what it has is
        damaged, the former users stay.
        """
        self._refresh()
        found = None
        for known, user in self._users.items():
            if hmac.compare_digest(known, digest):
                found = user
        return found

    def add(self, name: str, role: UserRole = DEFAULT_ROLE) -> str:
        """Add a user; return the token, which is stored nowhere.

        Raises `SettingsError` if the name cannot be used or exists, or the file cannot be used.
        """
        name = unicodedata.normalize("NFC", name)
        _check_name(name)
        token = f"vrag_{secrets.token_urlsafe(32)}"

        def change(entries: dict[str, _Entry]) -> None:
            if _find_name(entries, name) is not None:
                hint = f"Remove it first, or choose another name: vrag tokens remove {name}"
                raise SettingsError(f"There is a user {name!r} already.", hint)
            entries[name] = _Entry(sha256=digest_of(token.encode()).hex(), role=role)

        self._change(change)
        return token

    def set_role(self, name: str, role: UserRole) -> None:
        """Give a user another role, which a running server knows at the next request.

        Raises `SettingsError` if there is no such user, or the file cannot be used.
        """

        def change(entries: dict[str, _Entry]) -> None:
            found = _known_name(entries, name)
            entries[found] = _Entry(sha256=entries[found].sha256, role=role)

        self._change(change)

    def remove(self, name: str) -> None:
        """Remove a user, whose token and sessions end at once.

        Raises `SettingsError` if there is no such user, or the file cannot be used.
        """

        def change(entries: dict[str, _Entry]) -> None:
            del entries[_known_name(entries, name)]

        self._change(change)

    def _change(self, change: Callable[[dict[str, _Entry]], None]) -> None:
        """Change the file as a whole, one process at a time; it is created if it is missing."""
        try:
            make_directory(self.path.parent)
            with FileLock(self.path.with_name(f".{self.path.name}.lock"), is_singleton=False):
                entries = self._parse() if self.path.exists() else {}
                change(entries)
                write_whole(self.path, _render(entries).encode(), mode=0o600)
        except OSError as error:
            raise self._unusable(f"cannot be written: {error.strerror}") from error

    def _refresh(self) -> None:
        """Read the file again if it was changed; a file that is gone has no users."""
        try:
            stat = self.path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino, stat.st_mode, stat.st_uid)
        except OSError:
            stamp = ()
        if stamp == self._stamp:
            return
        try:
            self._users = self._read() if stamp else {}
        except SettingsError as error:
            log.error("%s The users of before stay.", error)  # noqa: TRY400 - says it all
        self._stamp = stamp

    def _read(self) -> dict[bytes, User]:
        return {
            bytes.fromhex(entry.sha256): User(name, entry.effective_role)
            for name, entry in self._parse().items()
        }

    def _parse(self) -> dict[str, _Entry]:
        """Read the file. Raises `SettingsError` if it is damaged, or others may write it."""
        try:
            with self.path.open("rb") as file:
                self._check_access(os.fstat(file.fileno()))
                data = file.read(_MAX_BYTES + 1)
            if len(data) > _MAX_BYTES:
                raise self._unusable("is too large")
            entries = _ENTRIES.validate_python(parse_toml(data))
        except OSError as error:
            raise self._unusable(f"cannot be read: {error.strerror}") from error
        except ValidationError as error:
            raise self._damage(error) from error
        except ValueError as error:
            raise self._unusable(f"is damaged: {first_line(error)}") from error
        folded: set[str] = set()
        for name in entries:
            _check_name(name)
            if name.casefold() in folded:
                raise self._unusable(f"has the name {name!r} twice")
            folded.add(name.casefold())
        if len({entry.sha256 for entry in entries.values()}) < len(entries):
            raise self._unusable("has one token for two users")
        return entries

    def _check_access(self, stat: os.stat_result) -> None:
        if os.name == "nt":
            return
        if S_IMODE(stat.st_mode) & _FORBIDDEN_MODE:
            message = f"Others may read or write the file of tokens {self.path}."
            raise SettingsError(message, f"Run: chmod 600 {self.path}")
        if stat.st_uid not in {0, os.geteuid()}:
            message = f"The file of tokens {self.path} belongs to another user of this machine."
            raise SettingsError(message, "Its owner must be the user that runs the server, or root.")

    def _damage(self, error: ValidationError) -> SettingsError:
        """Return the error for the first value that the file must not have."""
        fault = error.errors()[0]
        name, *fields = map(str, fault["loc"])
        if fields == ["role"]:
            role = str(fault["input"])[:40]
            message = f"In the file of tokens {self.path}, the user {name!r} has the role {role!r}."
            return SettingsError(message, f"Write one of these roles in the file: {', '.join(UserRole)}.")
        reason = fault["msg"].removeprefix("Value error, ")
        return self._unusable(f"is damaged at {'.'.join((name, *fields))!r}: {reason}")

    def _unusable(self, reason: str) -> SettingsError:
        return SettingsError(
            f"The file of tokens {self.path} {reason}.", "Fix the file, or remove it and add the users again."
        )

    def _add_hint(self, *options: str) -> str:
        return f"Add one: vrag tokens add NAME {' '.join(options)} --tokens {self.path}"


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{name[:80]!r} cannot be the name of a user.", _NAME_HINT)
    if name.casefold() == SERVER_ADMIN.name:
        message = f"The name {name!r} is that of the server's own token, VRAG_API_KEY."
        raise SettingsError(
            message, "Choose another name; with --role administer the user has the same rights."
        )


def _find_name(entries: dict[str, _Entry], name: str) -> str | None:
    """Return the name as the file has it; names that differ only in case are one."""
    return next((known for known in entries if known.casefold() == name.casefold()), None)


def _known_name(entries: dict[str, _Entry], name: str) -> str:
    """Return the name of a user as the file has it. Raises `SettingsError` if there is no such user."""
    found = _find_name(entries, unicodedata.normalize("NFC", name))
    if found is None:
        raise SettingsError(f"There is no user {name!r}.", "See `vrag tokens list`.")
    return found


def _render(entries: dict[str, _Entry]) -> str:
    tables = (
        f"\n[{json.dumps(name, ensure_ascii=False)}]\n"
        f'sha256 = "{entry.sha256}"\nrole = "{entry.effective_role}"\n'
        for name, entry in sorted(entries.items())
    )
    return _HEAD + "".join(tables)
