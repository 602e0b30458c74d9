"""Requests and responses of the set-up, and the protocol of what looks at models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Event
from typing import Annotated, Literal, Protocol

from pydantic import AfterValidator, Field, SecretStr, StringConstraints

from vrag.server.collections.jobs import UploadJobInfo
from vrag.server.http.errors import FrozenModel
from vrag.server.runs.schema import CollectionChoice, RunSummary
from vrag.server.setup.choices import ChosenModel

Scope = Literal["session", "all"]
CheckStatusName = Literal["ok", "warning", "failed", "skipped"]
MAX_KEY_CHARS = 500


def _key_characters(key: SecretStr) -> SecretStr:
    """Check a key without repeating it."""
    text = key.get_secret_value().strip()
    if len(text) > MAX_KEY_CHARS:
        raise ValueError(f"it has more than {MAX_KEY_CHARS} characters")
    if not text.isascii() or not all(character.isprintable() and character != " " for character in text):
        raise ValueError("it contains a character that no key has")
    return key


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it contains a character that cannot be printed")
    return text


class ModelRequest(FrozenModel):
    """A served model to use or test."""

    model: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=300),
        AfterValidator(_printable),
    ] = Field(description="Its name on the server, or with the prefix of a provider.")
    server: Annotated[str, StringConstraints(max_length=500), AfterValidator(_printable)] = Field(
        default="", description="Name of an offered server; for administrators also an address."
    )
    key: Annotated[SecretStr, AfterValidator(_key_characters)] | None = Field(
        default=None,
        description="Key of the server; empty for none. If absent, the key that is known for the address.",
    )
    profile: Annotated[str, StringConstraints(max_length=100)] = Field(
        default="auto", description="Family of the model; `auto` to find it out."
    )


class ModelChoiceRequest(ModelRequest):
    """A served model to use from now on."""

    scope: Scope = Field(default="session", description="For this browser's session, or for all users.")


class ServerRequest(FrozenModel):
    """A server whose models are listed."""

    server: Annotated[str, StringConstraints(max_length=500), AfterValidator(_printable)]
    key: Annotated[SecretStr, AfterValidator(_key_characters)] | None = None


class ChosenInfo(FrozenModel):
    """A chosen model, without its key."""

    model: str
    server: str = Field(description="Title of its server.")
    server_name: str = Field(description="Name among `servers`; empty if its address is not offered.")
    address: str | None = Field(description="Address of its server; null if it is not for this user.")
    has_key: bool
    key_end: str = Field(description="The last four characters of a long key.")
    profile: str


class OfferedServer(FrozenModel):
    """A server that this user may choose."""

    name: str
    title: str
    address: str | None = Field(description="Null if it is not for this user.")
    needs_key: bool = Field(description="Whether a key has to be entered.")
    has_key: bool = Field(description="Whether the server has a key for it.")
    models: tuple[str, ...] = Field(description="The models that may be chosen; empty for any.")


class Activity(FrozenModel):
    """The present work of the server: for administrators all of it, for others their own runs."""

    model: str = Field(description="Title of the model that answers questions which name none.")
    source: Literal["session", "all", "settings", "none"] = Field(description="Who chose it.")
    runs: tuple[RunSummary, ...] = Field(description="Runs that wait or are in progress, the newest first.")
    uploads: tuple[UploadJobInfo, ...] = Field(description="Files that are read or wait.")
    collections: tuple[CollectionChoice, ...]


class SetupState(FrozenModel):
    """The chosen models, those that may be chosen, and the present work of the server."""

    changeable: bool = Field(description="Whether models may be chosen here.")
    reason: str = Field(description="Why not.")
    admin: bool = Field(description="Whether this user may choose for all, and name addresses.")
    session: ChosenInfo | None = Field(description="The choice of this browser's session.")
    for_all: ChosenInfo | None = Field(description="The choice for all users.")
    problem: str = Field(description="What is wrong with the saved choice; empty if nothing is.")
    servers: tuple[OfferedServer, ...]
    families: tuple[str, ...] = Field(description="Names of model families.")
    activity: Activity


class FoundModel(FrozenModel):
    """A model that a server lists."""

    name: str
    sees: bool | None = Field(description="Whether it reads pictures; null if nothing says so.")


class FoundServer(FrozenModel):
    """A model server on the machine of this server."""

    title: str
    server: str = Field(description="What to send as `server`.")
    models: tuple[FoundModel, ...]


class FoundServers(FrozenModel):
    """The model servers on this machine."""

    servers: tuple[FoundServer, ...]


class FoundModels(FrozenModel):
    """The models of a server."""

    models: tuple[FoundModel, ...]


class PlannedCheck(FrozenModel):
    """A check of a test."""

    name: str
    title: str
    subject: str = Field(description="What it finds out.")


class CheckResult(FrozenModel):
    """The result of a check."""

    name: str
    status: CheckStatusName
    message: str
    hint: str = Field(description="What to do; empty if nothing has to be done.")
    seconds: float


class TestLine(FrozenModel):
    """A line of the response to a test: the plan first, then results, and the end."""

    __test__ = False  # no test, whatever its name says

    checks: tuple[PlannedCheck, ...] | None = None
    result: CheckResult | None = None
    end: Literal["finished", "late"] | None = None


class ModelInspector(Protocol):
    """Looks at servers and models. All methods block; they are called in threads."""

    @property
    def plan(self) -> Sequence[PlannedCheck]:
        """The checks of `test`, in order."""
        ...

    def find_servers(self) -> Sequence[FoundServer]:
        """Find the model servers on this machine."""
        ...

    def list_models(self, chosen: ChosenModel) -> Sequence[FoundModel]:
        """List the models of a server. Raises `ModelError` if it does not answer with a list."""
        ...

    def test(self, chosen: ChosenModel, stop: Event) -> Iterator[CheckResult]:
        """Check a model and yield each result as soon as it is known; end soon after `stop` is set."""
        ...
