"""The models that people choose on the page: for one browser's session, or for all users of the server.

The choice of a session is held in memory, as long as the session is used. The choice for all is in the
server's database as well, which only the owner of the server can read, so that it survives a restart; a key
that was replaced or removed is erased there. Neither is ever sent to a browser with its key, logged, or
recorded with a run: a run records the name of the model alone.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cachetools import TTLCache
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from vrag.chat.http_clients import base_of
from vrag.errors import ServerStateError, SettingsError
from vrag.providers import LOCAL_PREFIX

if TYPE_CHECKING:
    from vrag.server.options import ServerOptions
    from vrag.server.state.sessions import BrowserSessions
    from vrag.storage.connection import Connection

log = logging.getLogger("vrag.server")
NO_KEY = SecretStr("")
_COLUMNS = ("model", "base_url", "key", "profile", "thinking_switch")
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
    """The row of the database."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    """The models that were chosen on the page. Used from several threads."""

    def __init__(self, sessions: BrowserSessions, options: ServerOptions) -> None:
        self._state = options.state
        self.closed = closed_reason(options, sessions)
        """The reason why nobody may choose a model on the page; empty if they may."""
        self._lock = threading.Lock()
        """Guards `_by_session`."""
        self._saving = threading.Lock()
        self._by_session: TTLCache[bytes, ChosenModel] = TTLCache(
            max(1, options.sessions), options.session_seconds
        )
        self.problem = self._state.problem
        """The reason why the choice for all could not be read at the start; empty if it could."""
        self._for_all = None if options.fixed_models else self._read()
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

        Raises `ServerStateError` if it cannot be saved; the former choice then stays.
        """

        def write(connection: Connection) -> None:
            connection.execute("DELETE FROM chosen_model")
            if chosen is not None:
                key = chosen.key.get_secret_value()
                row = (chosen.model, chosen.base_url, key, chosen.profile, chosen.thinking_switch)
                connection.execute("INSERT INTO chosen_model VALUES (?, ?, ?, ?, ?)", row)

        with self._saving:
            if self._state.write(write):
                self._state.erase()  # the former key
            self._for_all = chosen
            self.problem = ""

    def _read(self) -> ChosenModel | None:
        """Read the choice for all; if it cannot be used, `problem` says so."""
        try:
            rows = self._state.select(f"SELECT {', '.join(_COLUMNS)} FROM chosen_model")  # noqa: S608
            if rows:
                chosen = _SavedChoice.model_validate(dict(zip(_COLUMNS, rows[0], strict=True))).chosen()
                log.info("Questions are answered by %s, as it was chosen for all on the page.", chosen.model)
                return chosen
        except ServerStateError as error:
            self.problem = f"The saved model cannot be read: {error.message}"
        except (ValidationError, SettingsError):
            self.problem = "The saved model cannot be used: it is damaged."
        if self.problem:
            log.warning("%s Choose a model again under Settings.", self.problem)
        return None


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
