"""Model servers that run on this machine, with the models they have and the command that uses each.

Asked are the usual ports of known programs, on the loopback address alone, all at once and for two seconds.
"""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from vrag.chat.http_clients import is_loopback
from vrag.chat.identity import ModelIdentity, ask_identity, list_models
from vrag.doctor.check import Check, CheckStatus
from vrag.model_names import ModelKind, read_model_name
from vrag.model_profiles import profile_of
from vrag.providers import PROVIDERS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LOCAL_SERVERS", "LocalServer", "check_local_servers"]

SECONDS = 2.0
"""Time limit for the list of models, and for what is said about one."""
MAX_MODELS = 30
"""Models of a server that are looked at."""
OURS = "vrag"
"""Owner of the models of a server of `vrag serve`: agents, which ask a model themselves."""
SHOWN = 3
"""Commands that are printed."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """Where a program serves models unless it is told otherwise."""

    title: str
    base_url: str
    provider: str = ""
    """The word that stands for the address in `--model`; empty where there is none."""


LOCAL_SERVERS = (
    *(
        LocalServer(provider.title, provider.base_url, provider.name)
        for provider in PROVIDERS.values()
        if is_loopback(provider.base_url)
    ),
    LocalServer("vLLM", "http://localhost:8002/v1"),
    LocalServer("llama.cpp", "http://localhost:8080/v1"),
    LocalServer("SGLang", "http://localhost:30000/v1"),
)


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model that a server on this machine has."""

    server: str
    base_url: str
    name: str
    sees: bool | None
    """Whether it takes pictures; None where neither server nor name say."""
    family: str | None
    """Name of the profile that name or server decide; None where it would be measured."""
    command: str
    """What to type."""


def check_local_servers(servers: Sequence[LocalServer] = LOCAL_SERVERS) -> Check:
    """Which model servers run here, and how their models that see are used."""
    found = asyncio.run(_find_models(servers))
    details = {"models": [asdict(model) for model in found]}
    if not found:
        return Check(
            "", CheckStatus.SKIPPED, "None answers at the usual ports of this machine.", details=details
        )
    places = {(model.server, model.base_url): 0 for model in found}
    for model in found:
        places[model.server, model.base_url] += 1
    counted = "; ".join(
        f"{title} at {url} has {count} model{'' if count == 1 else 's'}"
        for (title, url), count in places.items()
    )
    useful = [model for model in found if model.sees] or [model for model in found if model.sees is None]
    if not useful:
        return Check(
            "", CheckStatus.WARNING, f"{counted}; none of them sees.", "Load one that sees.", details
        )
    useful.sort(key=lambda model: model.family is None)
    commands = "; or ".join(model.command for model in useful[:SHOWN])
    names = ", ".join(model.name for model in useful)
    sight = "sees" if len(useful) == 1 else "see"
    said = f"{names} {sight}" if useful[0].sees else f"whether {names} {sight} is not known"
    return Check("", CheckStatus.OK, f"{counted}; {said}.", commands, details)


async def _find_models(servers: Sequence[LocalServer]) -> list[LocalModel]:
    found = await asyncio.gather(*map(_models_of, servers))
    return [model for models in found for model in models]


async def _models_of(server: LocalServer) -> list[LocalModel]:
    """The models of a server; none where it does not answer."""
    listed = await list_models(server.base_url, SECONDS)
    names = [str(model["id"]) for model in listed if "id" in model and model.get("owned_by") != OURS]
    names = names[:MAX_MODELS]
    asked = (ask_identity(server.base_url, name, None, SECONDS) for name in names)
    identities = await asyncio.gather(*asked)
    return [_model(server, name, identity) for name, identity in zip(names, identities, strict=True)]


def _model(server: LocalServer, name: str, identity: ModelIdentity | None) -> LocalModel:
    said = identity or ModelIdentity()
    kind = read_model_name(name).kind
    by_name = {ModelKind.VISION: True, ModelKind.TEXT: False, ModelKind.OTHER: False}.get(kind)
    known = profile_of(name)
    where = (
        f"--model {shlex.quote(f'{server.provider}:{name}')}"
        if server.provider
        else f"--model {shlex.quote(name)} --base-url {server.base_url}"
    )
    return LocalModel(
        server=said.program or server.title,
        base_url=server.base_url,
        name=name,
        sees=by_name if said.sees is None else said.sees,
        family=known.name if known else said.family,
        command=f'vrag ask PATH "QUESTION" {where}',
    )
