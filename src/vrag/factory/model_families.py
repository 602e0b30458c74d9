"""The family of a model: as set, by its checkpoint, its name, its server, or a measurement at first use.

A family says how pictures are shown and in which coordinates boxes are read; the wrong one crops another
part of the page without any error. So nothing is guessed in silence: where neither name nor server nor
measurement decide, boxes are read in a usual way and the run carries a notice that says so.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from vrag.agent.policies.chat import ChatPolicy
from vrag.chat.http_clients import base_of
from vrag.chat.identity import ModelIdentity, ask_identity
from vrag.factory.models import LOCAL, chat_options, open_chat, open_local_model
from vrag.grounding.conventions import Convention
from vrag.grounding.probe import (
    MAX_QUESTIONS,
    MIN_QUESTIONS,
    CoordinateProbe,
    ProbeCache,
    measured_profile,
    probe_model,
)
from vrag.model_names import ModelKind, ModelName, read_model_name
from vrag.model_profiles import PROFILES, profile_named, profile_of

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from vrag.model_profiles import Profile
    from vrag.settings import Settings

__all__ = ["USUAL_PROFILE", "FamilySource", "ModelFamily", "forget_families", "open_family"]

Result = TypeVar("Result")
log = logging.getLogger("vrag")
USUAL_PROFILE = "qwen2.5-vl"
"""For models of which nothing is known, and for the offline policy."""
IDENTITY_SECONDS = 5.0
"""Time limit for what a server says about a model."""
_decided: dict[tuple[str, str], ModelFamily] = {}
"""Families that servers or measurements decided in this process, by address and model."""
UNDECIDED_SECONDS = 300.0
"""Time for which a model that nothing decided is not asked about anew."""
_undecided_families: dict[tuple[object, ...], tuple[float, ModelFamily]] = {}
"""Guesses by all that they depend on, with the time at which they were made."""
_locks: dict[tuple[str, str], threading.Lock] = {}
"""Locks by address and model: a server that hangs holds up no other."""
_registry = threading.Lock()
"""Guards `_locks`; never held during a call over the network."""


class FamilySource(StrEnum):
    """What decided a family."""

    SETTING = "setting"
    CHECKPOINT = "checkpoint"
    NAME = "name"
    SERVER = "server"
    MEASUREMENT = "measurement"
    NOTHING = "nothing"
    """Nothing did: the profile is a guess."""


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """A profile and what speaks for it."""

    profile: Profile
    source: FamilySource
    notice: str = ""
    """What people must know about it, in sentences; empty where nothing is in doubt."""


def open_family(settings: Settings, *, probe: bool | None = None, quiet: bool = False) -> ModelFamily:
    """The family of the model that the settings name.

    A name that does not decide is a reason to ask the server, and then to measure, once: the result is kept.

    Args:
        settings: Name the model and its server.
        probe: Whether it may be measured; None for what the settings say.
        quiet: Whether the notice is left to the caller, and not logged.

    Raises:
        SettingsError: If there is no profile of the name that is set, or the server cannot be asked: its
            address is none, or its key is missing or not sent there.
        ModelError: If the checkpoint is of no family that is known.
    """
    if settings.profile != "auto":
        return ModelFamily(profile_named(settings.profile), FamilySource.SETTING)
    if settings.model.startswith(LOCAL):
        return ModelFamily(open_local_model(settings).profile, FamilySource.CHECKPOINT)
    if not settings.model:
        return ModelFamily(profile_named(USUAL_PROFILE), FamilySource.NOTHING)
    if known := profile_of(settings.model):
        return ModelFamily(known, FamilySource.NAME)
    family = _decide(settings, settings.probe if probe is None else probe)
    if family.source is FamilySource.NOTHING and not quiet:
        log.warning("%s", family.notice)
    return family


def forget_families() -> None:
    """Forgets what servers said in this process; what was measured is found again in the cache folder."""
    _decided.clear()
    _undecided_families.clear()


def _decide(settings: Settings, probe: bool) -> ModelFamily:
    """The family of a model whose name does not decide it; kept for the process once something did."""
    if not settings.base_url:
        return _undecided(settings, read_model_name(settings.model), "no server is named that could be asked")
    subject = base_of(settings.base_url), settings.model
    with _registry:
        lock = _locks.setdefault(subject, threading.Lock())
    with lock:
        if decided := _decided.get(subject):
            return decided
        attempt = (*subject, probe, settings.probe, settings.key("model_key"))
        made, family = _undecided_families.get(attempt, (-UNDECIDED_SECONDS, None))
        if family is not None and time.monotonic() - made < UNDECIDED_SECONDS:
            return family
        family = _ask(settings, probe)
        if family.source is FamilySource.NOTHING:
            _undecided_families[attempt] = time.monotonic(), family
        else:
            _decided[subject] = family
        return family


def _ask(settings: Settings, probe: bool) -> ModelFamily:
    """The family by what the server says, or by a measurement."""
    name = read_model_name(settings.model)
    identity = _identity(settings)
    told = _family_from_server(identity, name)
    if told is not None:
        return ModelFamily(PROFILES[told], FamilySource.SERVER)
    if blind := _text_only_notice(settings.model, name, identity):
        return ModelFamily(_suggested(name, identity), FamilySource.NOTHING, blind)
    return _measure(settings, name, identity, probe)


def _identity(settings: Settings) -> ModelIdentity:
    """What the server says about the model; an empty identity where it says nothing."""
    key = settings.key("model_key")
    asked = ask_identity(base_of(settings.base_url), settings.model, key, IDENTITY_SECONDS)
    return _run(asked) or ModelIdentity()


def _family_from_server(identity: ModelIdentity, name: ModelName) -> str | None:
    """The profile that the server decides; None where it does not, or contradicts the name."""
    weights = profile_of(identity.weights) if identity.weights else None
    told = {family for family in (identity.family, weights and weights.name) if family}
    if name.family and not name.certain:
        told.add(name.family)
        if not (identity.family or weights):
            return None  # a fine-tune may write boxes in a way of its own: the name alone only suggests
    return told.pop() if len(told) == 1 else None


def _text_only_notice(model: str, name: ModelName, identity: ModelIdentity) -> str:
    """The notice for a model that sees nothing; empty for one that may see."""
    if name.kind is ModelKind.OTHER:
        return f"By its name, {model} makes vectors or scores and writes no replies."
    if identity.sees is False:
        return f"{identity.program} says that {model} reads text only: {_CHOOSE}"
    if name.kind is ModelKind.TEXT and identity.sees is None:
        return f"By its name, {model} reads text only: {_CHOOSE}"
    return ""


_CHOOSE = "it cannot see pages. Choose a model that sees, such as qwen3-vl."


def _suggested(name: ModelName, identity: ModelIdentity) -> Profile:
    return PROFILES[identity.family or name.family or USUAL_PROFILE]


def _measure(settings: Settings, name: ModelName, identity: ModelIdentity, probe: bool) -> ModelFamily:
    """The family by the coordinates that the model writes, measured now or before."""
    subject = {
        "base_url": base_of(settings.base_url),
        "model": settings.model,
        "program": identity.program,
        "architecture": identity.architecture,
        "weights": identity.weights,
    }
    cache, suggested = ProbeCache.of_user(), _suggested(name, identity)
    found = cache.read(subject)
    if found is None:
        if not probe:
            off = "it has not been measured" if settings.probe else "measuring is switched off (VRAG_PROBE)"
            return _undecided(settings, name, off, suggested)
        found = _probe(settings, suggested)
        if found.lasting:
            cache.write(subject, found)
    profile = measured_profile(found, suggested)
    if profile is None:
        reason = f"test questions did not show how it writes boxes: {found.reason.rstrip('.')}"
        return _undecided(settings, name, reason, suggested)
    notice = f"{_unknown(settings, name)}: measured at its first use, it writes boxes in {found.convention}."
    return ModelFamily(profile, FamilySource.MEASUREMENT, notice)


def _probe(settings: Settings, suggested: Profile) -> CoordinateProbe:
    log.warning(
        "The family of the model %s is not known: asking it %d to %d small questions about where rectangles "
        "are, once. VRAG_PROFILE names the family, VRAG_PROBE=false leaves the questions out.",
        settings.model,
        MIN_QUESTIONS,
        MAX_QUESTIONS,
    )
    asked = settings.model_copy(update={"model_retries": 0})
    options = replace(chat_options(asked, suggested), tools=(), logprobs=False, token_ids=False)
    return _run(probe_model(ChatPolicy(open_chat(asked), options), suggested))


def _undecided(
    settings: Settings, name: ModelName, reason: str, suggested: Profile | None = None
) -> ModelFamily:
    profile = suggested or PROFILES[name.family or USUAL_PROFILE]
    notice = (
        f"{_unknown(settings, name)}, and {reason}. Boxes are read as {profile.name} writes them, in "
        f"{Convention(profile.boxes, profile.y_first)}: crops and evidence may show the wrong place. "
        "Name the family: VRAG_PROFILE; `vrag doctor --coords` measures it."
    )
    return ModelFamily(profile, FamilySource.NOTHING, notice)


def _unknown(settings: Settings, name: ModelName) -> str:
    if not name.family:
        return f"The family of the model {settings.model} is not known"
    words = ", ".join(name.unknown_words)
    return f"The name of the model {settings.model} suggests {name.family} and does not decide it ({words})"


def _run(work: Coroutine[None, None, Result]) -> Result:
    """Does asynchronous work in a thread of its own, since a caller may be inside an event loop."""
    with ThreadPoolExecutor(1, "vrag-family") as thread:
        return thread.submit(asyncio.run, work).result()
