"""The models that people choose on the page: for one browser's session, or for all users of the server.

The choice of a session is held in memory, as long as the session is used. The choice for all is held in a
file as well, which only the owner of the server can read, so that it survives a restart. Neither is ever
sent to a browser with its key, logged, or recorded with a run: a run records the name of the model alone.
"""

from __future__ import annotations

import json
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cachetools import TTLCache
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from vrag.atomic_io import write_whole
from vrag.chat.http_clients import base_of
from vrag.errors import SettingsError, first_line
from vrag.providers import LOCAL_PREFIX

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.server.http.auth import BrowserSessions
    from vrag.server.options import ServerOptions

log = logging.getLogger("vrag.server")
NO_KEY = SecretStr("")
_SHOWN_CHARS, _LONG_KEY_CHARS = 4, 16
"""Characters of a key's end that are shown, and the length from which they are."""


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """A served model, as it was chosen on the page."""

    model: str
    base_url: str
    key: SecretStr = NO_KEY
    profile: str = "auto"
    """The name of the model's family; `auto` to find it out."""
    thinking_switch: str = "top"
    owners_key: bool = False
    """True if the key is one that the owner of vrag's server has set, not one that was entered."""
    server: str = ""
    """The name by which the page offers its server; empty for an address that it does not offer."""

    @property
    def has_key(self) -> bool:
        """True if a key is sent to the server."""
        return bool(self.key.get_secret_value())

    @property
    def key_end(self) -> str:
        """The last characters of the key, by which its owner knows it; empty if it is short or missing."""
        key = self.key.get_secret_value()
        return key[-_SHOWN_CHARS:] if len(key) >= _LONG_KEY_CHARS else ""


class _SavedChoice(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    model: str = Field(min_length=1)
    base_url: str
    key: SecretStr = SecretStr("")
    profile: str = "auto"
    thinking_switch: Literal["top", "template", "both", "effort", "reasoning"] = "top"

    def chosen(self) -> ChosenModel:
        """Return the choice. Raises `SettingsError` if it names no server, or a file of this machine."""
        if self.model.startswith(LOCAL_PREFIX):
            raise SettingsError("It names a checkpoint.")
        return ChosenModel(self.model, base_of(self.base_url), self.key, self.profile, self.thinking_switch)


class ModelChoices:
    """The models that were chosen on the page. Used from several threads.

    `path` is the file with the choice for all; without one it lives in memory only.
    """

    def __init__(self, path: Path | None, sessions: BrowserSessions, options: ServerOptions) -> None:
        self._path = None if options.fixed_models else path
        self.closed = closed_reason(options, sessions)
        """The reason why nobody may choose a model on the page; empty if they may."""
        self._lock = threading.Lock()
        """Guards `_by_session`."""
        self._saving = threading.Lock()
        self._by_session: TTLCache[bytes, ChosenModel] = TTLCache(
            max(1, options.sessions), options.session_seconds
        )
        self.problem = ""
        """The reason why the choice for all could not be read at the start; empty if it could."""
        self._for_all = self._read()
        sessions.on_close.append(self.forget)

    @property
    def for_all(self) -> ChosenModel | None:
        """The choice for all users."""
        return self._for_all

    def of_session(self, session: bytes | None) -> ChosenModel | None:
        """Return the choice of a browser's session, given its digest. Its time begins anew."""
        if session is None:
            return None
        with self._lock:
            chosen = self._by_session.pop(session, None)
            if chosen is not None:
                self._by_session[session] = chosen
            return chosen

    def current(self, session: bytes | None = None) -> ChosenModel | None:
        """Return the model of questions that name none; None for that of the settings."""
        return self.of_session(session) or self._for_all

    def find(self, name: str | None, session: bytes | None = None) -> ChosenModel | None:
        """Return the chosen model that a question names, or the current one if it names none."""
        if name is None:
            return self.current(session)
        own = self.of_session(session)
        return next((chosen for chosen in (own, self._for_all) if chosen and chosen.model == name), None)

    def choose(self, session: bytes, chosen: ChosenModel) -> None:
        """Set the choice of a session. Runs in progress keep their model."""
        with self._lock:
            self._by_session[session] = chosen

    def forget(self, session: bytes) -> None:
        """Remove the choice of a session."""
        with self._lock:
            self._by_session.pop(session, None)

    def choose_for_all(self, chosen: ChosenModel | None) -> None:
        """Set the choice for all users, or remove it. Blocks.

        Raises `OSError` if the file cannot be written; the former choice then stays.
        """
        with self._saving:
            if self._path is not None:
                self._write(self._path, chosen)
            self._for_all = chosen
            self.problem = ""

    def _write(self, path: Path, chosen: ChosenModel | None) -> None:
        if chosen is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = {
            "version": 1,
            "model": chosen.model,
            "base_url": chosen.base_url,
            "key": chosen.key.get_secret_value(),
            "profile": chosen.profile,
            "thinking_switch": chosen.thinking_switch,
        }
        write_whole(path, json.dumps(content, indent=2).encode() + b"\n", mode=0o600)

    def _read(self) -> ChosenModel | None:
        """Read the file; one that cannot be used is renamed, and `problem` says so."""
        if self._path is None:
            return None
        try:
            chosen = _SavedChoice.model_validate_json(self._path.read_bytes()).chosen()
        except FileNotFoundError:
            return None
        except OSError as error:
            self.problem = f"The saved model cannot be read: {error.strerror or first_line(error)}."
        except (ValidationError, SettingsError):
            self.problem = (
                f"The saved model cannot be used: its file is damaged.{self._keep_damaged(self._path)}"
            )
        else:
            log.info("Questions are answered by %s, as it was chosen for all on the page.", chosen.model)
            return chosen
        log.warning("%s Choose a model again under Settings.", self.problem)
        return None

    def _keep_damaged(self, path: Path) -> str:
        """Rename a damaged file; return a sentence with its new name, or nothing."""
        kept = path.with_suffix(".damaged")
        with suppress(OSError):
            path.replace(kept)
            return f" It is kept as {kept.name}."
        return ""


def closed_reason(options: ServerOptions, sessions: BrowserSessions) -> str:
    """Return why nobody may choose a model on the page; empty if they may.

    Without tokens everybody is an administrator. That is right on the machine itself, and wrong as soon as
    others reach the server.
    """
    if options.fixed_models:
        return "The model of this server is set by its administrator."
    reachable = not options.local or bool(options.hosts or options.proxies or options.origins)
    if reachable and not sessions.needed:
        return "Others can reach this server without a token. Models can be chosen here once it has one."
    return ""
