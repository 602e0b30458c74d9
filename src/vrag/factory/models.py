"""Models built from the settings: a served model or a checkpoint in this process, and their families.

A family is found by the settings, the checkpoint, its name, its server, or a measurement. It determines how
images are shown and in which coordinates boxes are read; a wrong one crops another part of the page without
an error. So nothing is guessed silently: if neither name nor server nor measurement decide, boxes are read in
the default convention and the run carries a notice.

Families found by servers and measurements are kept for the process, measurements also in the cache folder of
the user.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from cachetools import TTLCache
from pydantic import SecretStr

from vrag.errors import SettingsError
from vrag.model_profiles import PROFILES, ModelKind, profile_named, profile_of, read_model_name
from vrag.providers import LOCAL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from vrag.agent.policies.local import LocalPolicy
    from vrag.agent.tool_plugins import ToolPlugin
    from vrag.chat import ChatOptions, OpenAIChat
    from vrag.chat.identity import ModelIdentity
    from vrag.model_profiles import ModelName, Profile
    from vrag.reading.text_reader import TextReader
    from vrag.server.setup.choices import ChosenModel
    from vrag.settings import Settings

USUAL_PROFILE = "qwen2.5-vl"
"""Profile of unknown models and of the offline policy."""
_chats: WeakValueDictionary[tuple[object, ...], OpenAIChat] = WeakValueDictionary()
"""Served models in use, by everything that distinguishes them."""
_opening = threading.Lock()

Result = TypeVar("Result")
log = logging.getLogger("vrag")
IDENTITY_SECONDS = 5.0
"""Time limit for asking a server about a model."""
_decided: dict[tuple[str, str], ModelFamily] = {}
"""Families determined in this process by servers or measurements, by address and model."""
_undecided_families: TTLCache[tuple[object, ...], ModelFamily] = TTLCache(1024, ttl=300)
"""Undecided families by everything they depend on; these models are asked about again after five minutes."""
_locks: dict[tuple[str, str], threading.Lock] = {}
"""Locks by address and model: a server that hangs does not block others."""
_registry = threading.Lock()
"""Guards `_locks` and `_undecided_families`; never held during a call over the network."""
_CHOOSE = "it cannot see pages. Choose a vision-language model such as qwen3-vl."


class FamilySource(StrEnum):
    """The source that determined a family."""

    SETTING = "setting"
    CHECKPOINT = "checkpoint"
    NAME = "name"
    SERVER = "server"
    MEASUREMENT = "measurement"
    NOTHING = "nothing"
    """No source did: the profile is a guess."""


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """A profile and its source."""

    profile: Profile
    source: FamilySource
    notice: str = ""
    """Sentences about a family that is in doubt; empty otherwise."""


def open_chat(settings: Settings) -> OpenAIChat:
    """Return the client of the served model: one per process, so that a 429 response slows down all agents.

    Raises `SettingsError` if the model or its server is not set, the address is invalid, or the key is
    withheld: see `Settings.key`.
    """
    from vrag.chat import ChatRetries, ChatTimeouts, OpenAIChat
    from vrag.chat.http_clients import base_of

    if not settings.model:
        raise SettingsError(
            "No model is set.", "Choose one in the settings of the page, or with --model or VRAG_MODEL."
        )
    if not settings.base_url:
        raise SettingsError(
            f"The model {settings.model} has no server.",
            "Name it with --base-url (VRAG_BASE_URL) or a provider prefix (ollama:, openai:, …), or name a "
            "checkpoint as local:PATH.",
        )
    timeouts = ChatTimeouts(
        connect_seconds=settings.connect_seconds,
        first_token_seconds=settings.first_token_seconds,
        token_seconds=settings.token_seconds,
        call_seconds=settings.call_seconds,
    )
    retries, places = ChatRetries(times=settings.model_retries), settings.model_requests
    server, key = base_of(settings.base_url), settings.key("model_key")
    variable = settings.key_place("model_key")
    identity = (server, settings.model, key, variable, timeouts, retries, places)
    with _opening:
        if (chat := _chats.get(identity)) is None:
            chat = OpenAIChat(
                server,
                settings.model,
                api_key=key,
                key_variable=variable,
                timeouts=timeouts,
                retries=retries,
                concurrency=places,
            )
            _chats[identity] = chat
        return chat


async def close_chats() -> None:
    """Close the connections of all served models that belong to the running event loop."""
    for chat in list(_chats.values()):
        await chat.aclose()


def settings_of_choice(settings: Settings, chosen: ChosenModel) -> Settings:
    """Return the settings with the model that was chosen on the page; the prices of another are left out."""
    changes = {
        "model": chosen.model,
        "base_url": chosen.base_url,
        "model_key": chosen.key,
        "profile": chosen.profile,
        "thinking_switch": chosen.thinking_switch,
        **dict.fromkeys(("price_prompt", "price_completion", "price_cached")),
    }
    changed = settings.model_copy(update=changes).withholding({})
    return changed.with_key_place("model_key", "enter the key of this server under Settings")


def open_judge_model(settings: Settings) -> OpenAIChat:
    """Return the client of the judge model, which the settings name.

    Raises `SettingsError` if it is not set, it has no server, or its key is withheld.
    """
    if not settings.judge_model:
        raise SettingsError("No judge model is set.", "Set one: VRAG_JUDGE_MODEL and VRAG_JUDGE_URL.")
    if not settings.judge_url:
        raise SettingsError(f"The judge {settings.judge_model} has no server.", "Set VRAG_JUDGE_URL.")
    asked = {
        "model": settings.judge_model,
        "base_url": settings.judge_url,
        "model_key": SecretStr(settings.key("judge_key") or ""),
    }
    return open_chat(settings.model_copy(update=asked).withholding({}))


def open_text_reader(settings: Settings) -> TextReader:
    """Return the reader of running text: ours, or ours with the pretrained model that the settings name.

    A pretrained model is loaded once per process. Raises `ModelError` if it cannot be used and `MissingExtra`
    if its libraries are not installed.
    """
    from vrag.reading.spans.reader import load_span_model
    from vrag.reading.text_reader import CombinedReader, SpanReader

    ours = SpanReader(load_span_model())
    if not settings.reader:
        return ours
    with _opening:
        pretrained = _pretrained_reader(settings.reader, settings.device, settings.dtype, settings.batch)
    return CombinedReader(ours, pretrained)


@lru_cache(maxsize=1)
def _pretrained_reader(model: str, device: str, dtype: str, batch: int) -> TextReader:
    from vrag.agent.policies.pretrained_reader import PretrainedReader
    from vrag.embed.options import EmbedOptions

    return PretrainedReader(model, EmbedOptions(device=device, dtype=dtype, batch=batch))


def chat_options(
    settings: Settings, profile: Profile, tools: Mapping[str, ToolPlugin] | None = None
) -> ChatOptions:
    """Return the options of requests to a served model."""
    from vrag.agent.methods import METHODS
    from vrag.agent.replies.tool_calls import schemas
    from vrag.chat import ChatOptions, ThinkingSwitch

    temperature, top_p = _sampling(settings)
    tool_schemas: tuple[Mapping[str, Any], ...] = ()
    if settings.native_tools and METHODS[settings.agent].uses_graph:
        usages = {name: tool.usage for name, tool in (tools or {}).items()}
        tool_schemas = tuple(schemas(crop=settings.crop_nodes, tools=usages, profile=profile))
    return ChatOptions(
        temperature=temperature,
        top_p=top_p,
        max_tokens=settings.max_tokens,
        stop=profile.stop,
        seed=settings.seed,
        thinking=None if settings.thinking == "auto" else settings.thinking == "on",
        thinking_switch=ThinkingSwitch(settings.thinking_switch),
        logprobs=settings.token_details,
        token_ids=settings.token_details,
        tools=tool_schemas,
    )


def open_local_model(settings: Settings) -> LocalPolicy:
    """Return the checkpoint in this process that the settings name.

    Raises `ModelError` if it cannot be opened and `MissingExtra` if that needs the extra `models`.
    """
    from vrag.agent.policies.local import LocalOptions, open_local

    temperature, top_p = _sampling(settings)
    options = LocalOptions(
        temperature=temperature, top_p=top_p or 1.0, max_tokens=settings.max_tokens, seed=settings.seed
    )
    path = settings.model.removeprefix(LOCAL_PREFIX)
    return open_local(path, device=settings.device, dtype=settings.dtype, options=options)


def _sampling(settings: Settings) -> tuple[float, float | None]:
    """Return temperature and top-p: of the settings, or the defaults with and without thinking."""
    thinks = settings.thinking == "on"
    temperature = settings.temperature if settings.temperature is not None else 0.6 if thinks else 0.0
    return temperature, settings.top_p if settings.top_p is not None else 0.95 if thinks else None


def forget_families() -> None:
    """Forget the families determined in this process; measurements stay in the cache folder."""
    _decided.clear()
    with _registry:
        _undecided_families.clear()


def open_family(settings: Settings, *, probe: bool | None = None, quiet: bool = False) -> ModelFamily:
    """Return the family of the model that the settings name.

    If the name does not decide, the server is asked, and then the model is measured once; the result is
    cached.

    `probe` says whether the model may be measured; None stands for the value of the settings. With `quiet`
    the notice is left to the caller instead of being logged.

    Raises `SettingsError` if the profile does not exist, the server's address is invalid, or its key is
    missing or withheld, and `ModelError` if the family of the checkpoint is unknown.
    """
    if settings.profile != "auto":
        return ModelFamily(profile_named(settings.profile), FamilySource.SETTING)
    if settings.model.startswith(LOCAL_PREFIX):
        return ModelFamily(open_local_model(settings).profile, FamilySource.CHECKPOINT)
    if not settings.model:
        return ModelFamily(profile_named(USUAL_PROFILE), FamilySource.NOTHING)
    if known := profile_of(settings.model):
        return ModelFamily(known, FamilySource.NAME)
    family = _detect_family(settings, settings.probe if probe is None else probe)
    if family.source is FamilySource.NOTHING and not quiet:
        log.warning("%s", family.notice)
    return family


def _detect_family(settings: Settings, probe: bool) -> ModelFamily:
    """Return the family of a model whose name does not decide it; cached in the process once decided."""
    from vrag.chat.http_clients import base_of

    name = read_model_name(settings.model)
    if not settings.base_url:
        return _undecided(settings, name, "no server is set that could be asked")
    subject = base_of(settings.base_url), settings.model
    with _registry:
        lock = _locks.setdefault(subject, threading.Lock())
    with lock:
        if decided := _decided.get(subject):
            return decided
        attempt = (*subject, probe, settings.probe, settings.key("model_key"))
        with _registry:
            family = _undecided_families.get(attempt)
        if family is not None:
            return family
        family = _ask_server(settings, name, probe)
        if family.source is FamilySource.NOTHING:
            with _registry:
                _undecided_families[attempt] = family
        else:
            _decided[subject] = family
        return family


def _ask_server(settings: Settings, name: ModelName, probe: bool) -> ModelFamily:
    """Return the family by the server's description of the model, or by a measurement."""
    from vrag.chat.http_clients import base_of
    from vrag.chat.identity import ModelIdentity, ask_identity

    key = settings.key("model_key")
    question = ask_identity(base_of(settings.base_url), settings.model, key, IDENTITY_SECONDS)
    identity = _run(question) or ModelIdentity()
    weights = profile_of(identity.weights) if identity.weights else None
    families = {family for family in (identity.family, weights and weights.name) if family}
    if families and name.family and not name.certain:  # the name of a fine-tune only suggests a family
        families.add(name.family)
    if len(families) == 1:
        return ModelFamily(PROFILES[families.pop()], FamilySource.SERVER)
    suggested = PROFILES[identity.family or name.family or USUAL_PROFILE]
    blind = ""
    if name.kind is ModelKind.OTHER:
        blind = f"By its name, {settings.model} computes vectors or scores and does not write replies."
    elif identity.sees is False:
        blind = f"{identity.program} says that {settings.model} reads text only: {_CHOOSE}"
    elif name.kind is ModelKind.TEXT and identity.sees is None:
        blind = f"By its name, {settings.model} reads text only: {_CHOOSE}"
    if blind:
        return ModelFamily(suggested, FamilySource.NOTHING, blind)
    return _measure(settings, name, identity, suggested, probe)


def _measure(
    settings: Settings, name: ModelName, identity: ModelIdentity, suggested: Profile, probe: bool
) -> ModelFamily:
    """Return the family by the coordinates that the model writes, measured now or before."""
    from vrag.agent.policies.chat import ChatPolicy
    from vrag.chat.http_clients import base_of
    from vrag.grounding.probe import MAX_QUESTIONS, MIN_QUESTIONS, ProbeCache, measured_profile, probe_model

    subject = {
        "base_url": base_of(settings.base_url),
        "model": settings.model,
        "program": identity.program,
        "architecture": identity.architecture,
        "weights": identity.weights,
    }
    cache = ProbeCache.of_user()
    found = cache.read(subject)
    if found is None and not probe:
        reason = "it has not been measured" if settings.probe else "measuring is switched off (VRAG_PROBE)"
        return _undecided(settings, name, reason, suggested)
    if found is None:
        log.warning(
            "The family of the model %s is unknown: sending it %d to %d short test questions about the "
            "positions of rectangles, once. Set VRAG_PROFILE to name the family, or VRAG_PROBE=false to skip "
            "them.",
            settings.model,
            MIN_QUESTIONS,
            MAX_QUESTIONS,
        )
        once = settings.model_copy(update={"model_retries": 0})
        options = replace(chat_options(once, suggested), tools=(), logprobs=False, token_ids=False)
        found = _run(probe_model(ChatPolicy(open_chat(once), options), suggested))
        if found.lasting:
            cache.write(subject, found)
    profile = measured_profile(found, suggested)
    if profile is None:
        reason = f"test questions did not show how it writes boxes: {found.reason.rstrip('.')}"
        return _undecided(settings, name, reason, suggested)
    notice = f"{_unknown(settings, name)}: measured at its first use, it writes boxes in {found.convention}."
    return ModelFamily(profile, FamilySource.MEASUREMENT, notice)


def _undecided(
    settings: Settings, name: ModelName, reason: str, suggested: Profile | None = None
) -> ModelFamily:
    from vrag.grounding.conventions import Convention

    profile = suggested or PROFILES[name.family or USUAL_PROFILE]
    notice = (
        f"{_unknown(settings, name)}, and {reason}. Boxes are read in the convention of {profile.name}, in "
        f"{Convention(profile.boxes, profile.y_first)}: crops and evidence may show the wrong place. "
        "Set VRAG_PROFILE to its family, or measure it with `vrag doctor --coords`."
    )
    return ModelFamily(profile, FamilySource.NOTHING, notice)


def _unknown(settings: Settings, name: ModelName) -> str:
    if not name.family:
        return f"The family of the model {settings.model} is unknown"
    words = ", ".join(name.unknown_words)
    return f"The name of the model {settings.model} suggests {name.family} and does not decide it ({words})"


def _run(work: Coroutine[None, None, Result]) -> Result:
    """Run a coroutine in a thread of its own, since the caller may be inside an event loop."""
    with ThreadPoolExecutor(1, "vrag-family") as thread:
        return thread.submit(asyncio.run, work).result()
