"""Model servers on this machine: their models, and the command that uses each.

The usual ports of known programs are asked, on the loopback address only, all at once and for two seconds.
"""

from __future__ import annotations

import asyncio
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from vrag.chat.http_clients import is_loopback
from vrag.chat.identity import ModelIdentity, ask_identity, list_models
from vrag.doctor.check import Check, ok, skipped, warning
from vrag.model_profiles import ModelKind, profile_of, read_model_name
from vrag.providers import PROVIDERS

TIMEOUT_SECONDS = 2.0
"""Time limit of the list of models, and of the identity of one."""
MAX_MODELS = 30
"""Models of a server that are described."""
VRAG_OWNER = "vrag"
"""Owner of the models of `vrag serve`: these are agents, which ask a model themselves."""
MAX_COMMANDS = 3
"""Commands that are printed."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """The default address of a program that serves models."""

    title: str
    base_url: str
    provider: str = ""
    """The prefix of `--model` that stands for the address; empty if there is none."""


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
    """A model of a server on this machine."""

    server: str
    base_url: str
    name: str
    sees: bool | None
    """True if it accepts pictures; None if neither its server nor its name says."""
    family: str | None
    """The name of its profile; None if it would have to be measured."""
    command: str
    """The command that uses it."""


def check_local_servers(servers: Sequence[LocalServer] = LOCAL_SERVERS) -> Check:
    """Find the model servers on this machine, and the commands that use their vision models."""
    models = asyncio.run(_find_models(servers))
    details = {"models": [asdict(model) for model in models]}
    if not models:
        return skipped("None answers at the usual ports of this machine.", details=details)
    counts = Counter((model.server, model.base_url) for model in models)
    counted = "; ".join(
        f"{title} at {url} has {count} model{'' if count == 1 else 's'}"
        for (title, url), count in counts.items()
    )
    useful = [model for model in models if model.sees] or [model for model in models if model.sees is None]
    if not useful:
        return warning(f"{counted}; none of them sees.", "Load a vision model.", details)
    useful.sort(key=lambda model: model.family is None)
    commands = "; or ".join(model.command for model in useful[:MAX_COMMANDS])
    names = ", ".join(model.name for model in useful)
    vision = f"{names} {'sees' if len(useful) == 1 else 'see'}"
    if not useful[0].sees:
        vision = f"it is not known whether {vision}"
    return ok(f"{counted}; {vision}.", commands, details)


async def _find_models(servers: Sequence[LocalServer]) -> list[LocalModel]:
    found = await asyncio.gather(*map(_models_of, servers))
    return [model for models in found for model in models]


async def _models_of(server: LocalServer) -> list[LocalModel]:
    """Return the models of a server; none if it does not answer."""
    listed = await list_models(server.base_url, TIMEOUT_SECONDS)
    names = [str(model["id"]) for model in listed if "id" in model and model.get("owned_by") != VRAG_OWNER]
    names = names[:MAX_MODELS]
    requests = (ask_identity(server.base_url, name, None, TIMEOUT_SECONDS) for name in names)
    identities = await asyncio.gather(*requests)
    return [_model(server, name, identity) for name, identity in zip(names, identities, strict=True)]


def _model(server: LocalServer, name: str, identity: ModelIdentity | None) -> LocalModel:
    identity = identity or ModelIdentity()
    kind = read_model_name(name).kind
    sees_by_name = {ModelKind.VISION: True, ModelKind.TEXT: False, ModelKind.OTHER: False}.get(kind)
    known = profile_of(name)
    if server.provider:
        flags = f"--model {shlex.quote(f'{server.provider}:{name}')}"
    else:
        flags = f"--model {shlex.quote(name)} --base-url {server.base_url}"
    return LocalModel(
        server=identity.program or server.title,
        base_url=server.base_url,
        name=name,
        sees=sees_by_name if identity.sees is None else identity.sees,
        family=known.name if known else identity.family,
        command=f'vrag ask PATH "QUESTION" {flags}',
    )
