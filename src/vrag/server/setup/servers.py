"""The servers whose models may be chosen on the page, and who may choose which.

The server of vrag sends requests to the address that is chosen. If anybody could name one, anybody could look
around in its network (server-side request forgery). So only administrators name addresses; others choose
among the server that the settings name, with the models that the settings offer, and well-known providers,
with a key of their own.

A key is sent only to the address for which it was entered, or for which the owner of the server set it. Who
changes the address enters the key again: otherwise a stored key could be sent anywhere by naming a server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import SecretStr

from vrag.chat.http_clients import base_of, is_loopback
from vrag.errors import SettingsError
from vrag.providers import LOCAL_PREFIX, split_model
from vrag.server.http.errors import Refusal
from vrag.server.setup.choices import NO_KEY, ChosenModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vrag.server.http.users import User
    from vrag.server.setup.schema import ModelRequest

OWN_SERVER = "own"
"""Name of the server that the settings name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServer:
    """A server that the page offers."""

    name: str
    """The prefix of a provider, or `OWN_SERVER`."""
    title: str
    base_url: str
    for_everybody: bool = False
    """True if users without admin rights may choose it."""
    models: tuple[str, ...] = ()
    """The models that these users may choose, with the key of the owner; empty for any, with their own."""
    needs_key: bool = False
    key: SecretStr = NO_KEY
    """The key that the owner of vrag's server has set for it."""
    thinking_switch: str = "top"


@dataclass(frozen=True, slots=True)
class ModelServers:
    """All servers that the page offers."""

    servers: tuple[ModelServer, ...]

    def offered_to(self, user: User) -> tuple[ModelServer, ...]:
        """Return the servers that a user may choose."""
        return tuple(server for server in self.servers if user.is_admin or server.for_everybody)

    def title_of(self, chosen: ChosenModel, user: User) -> str:
        """Return what people call the server of a choice: its title, or host and port."""
        if hides_address(chosen, user):
            return next((server.title for server in self.servers if server.name == chosen.server), "")
        at = (server for server in reversed(self.servers) if server.base_url == chosen.base_url)
        found = next(at, None)
        return found.title if found and found.name != OWN_SERVER else urlsplit(chosen.base_url).netloc

    def resolve(self, request: ModelRequest, user: User, former: Sequence[ChosenModel]) -> ChosenModel:
        """Return the model that a request describes.

        `former` are choices whose key is used again if the request has none and names the same server.

        Raises `Refusal` if the address is not one (422), or the user may not choose it (403).
        """
        provider, model = split_model(request.model.strip())
        name = request.server.strip() or (provider.name if provider else "")
        if provider is None or provider.name != name:
            model = request.model.strip()
        if model.startswith(LOCAL_PREFIX):
            hint = "The administrator of this server can set it as VRAG_MODEL."
            raise Refusal(422, "A checkpoint on the server's disk cannot be chosen here.", hint)
        server = next((server for server in self.servers if server.name == name), None)
        if server is None:
            server = self._named_by_address(name, user)
        elif not (user.is_admin or server.for_everybody):
            raise _admins_only()
        if not user.is_admin and server.models and model not in server.models:
            hint = f"Choose {' or '.join(server.models)}, or another server with a key of your own."
            raise Refusal(403, f"The model {model!r} of this server is not offered.", hint)
        key, owners = _key(request, server, user, former)
        return ChosenModel(
            model,
            server.base_url,
            key,
            request.profile,
            server.thinking_switch,
            owners_key=owners,
            server=server.name,
        )

    def _named_by_address(self, address: str, user: User) -> ModelServer:
        try:
            base = base_of(address)
        except SettingsError as error:
            hint = f"{error.hint} Or choose a server from the list."
            raise Refusal(422, "This is not the address of a server.", hint) from error
        if not user.is_admin:
            raise _admins_only()
        known = next((server for server in self.servers if server.base_url == base), None)
        switch = "template" if is_loopback(base) else "top"
        return known or ModelServer(name="", title=base, base_url=base, thinking_switch=switch)


def hides_address(chosen: ChosenModel, user: User) -> bool:
    """Return whether a user may not see the address and the key of a choice, since they are the owner's."""
    return chosen.owners_key and not user.is_admin


def _admins_only() -> Refusal:
    hint = "Choose one from the list, or ask the administrator to add it for everyone."
    return Refusal(403, "Only an administrator may name a server by its address.", hint)


def _key(
    request: ModelRequest, server: ModelServer, user: User, former: Iterable[ChosenModel]
) -> tuple[SecretStr, bool]:
    """Return the key to send to a server, and whether it is the owner's.

    It is the one of the request, or one that is known for this address. Users without admin rights use the
    owner's key for the models that the settings offer alone, though another server may have the same address.
    """
    if not user.is_admin and server.models:
        return server.key, True
    if request.key is not None:
        return SecretStr(request.key.get_secret_value().strip()), False
    for chosen in former:
        usable = user.is_admin or not chosen.owners_key
        if usable and chosen.base_url == server.base_url and chosen.has_key:
            return chosen.key, chosen.owners_key
    return (server.key, True) if user.is_admin else (NO_KEY, False)
