"""Detection of a model's family by its server, or by a measurement at first use.

Detected families are kept for the process, measurements in the cache folder of the user.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from vrag.agent.policies.chat import ChatPolicy
from vrag.chat.http_clients import base_of
from vrag.chat.identity import ModelIdentity, ask_identity
from vrag.factory.models import USUAL_PROFILE, FamilySource, ModelFamily, chat_options, open_chat
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
from vrag.model_profiles import PROFILES, profile_of

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from vrag.model_profiles import Profile
    from vrag.settings import Settings

__all__ = ["detect_family", "forget_families"]

Result = TypeVar("Result")
log = logging.getLogger("vrag")
IDENTITY_SECONDS = 5.0
"""Time limit for asking a server about a model."""
_decided: dict[tuple[str, str], ModelFamily] = {}
"""Families determined in this process by servers or measurements, by address and model."""
UNDECIDED_SECONDS = 300.0
"""Time for which an undecided model is not asked about again."""
_undecided_families: dict[tuple[object, ...], tuple[float, ModelFamily]] = {}
"""Undecided families by everything they depend on, with the time of the attempt."""
_locks: dict[tuple[str, str], threading.Lock] = {}
"""Locks by address and model: a server that hangs does not block others."""
_registry = threading.Lock()
"""Guards `_locks`; never held during a call over the network."""


def forget_families() -> None:
    """Forget the families determined in this process; measurements stay in the cache folder."""
    _decided.clear()
    _undecided_families.clear()


def detect_family(settings: Settings, probe: bool) -> ModelFamily:
    """Return the family of a model whose name does not decide it; cached in the process once decided."""
    if not settings.base_url:
        return _undecided(settings, read_model_name(settings.model), "no server is set that could be asked")
    subject = base_of(settings.base_url), settings.model
    with _registry:
        lock = _locks.setdefault(subject, threading.Lock())
    with lock:
        if decided := _decided.get(subject):
            return decided
        attempt = (*subject, probe, settings.probe, settings.key("model_key"))
        attempted, family = _undecided_families.get(attempt, (-UNDECIDED_SECONDS, None))
        if family is not None and time.monotonic() - attempted < UNDECIDED_SECONDS:
            return family
        family = _ask(settings, probe)
        if family.source is FamilySource.NOTHING:
            _undecided_families[attempt] = time.monotonic(), family
        else:
            _decided[subject] = family
        return family


def _ask(settings: Settings, probe: bool) -> ModelFamily:
    """Return the family by the server's description of the model, or by a measurement."""
    name = read_model_name(settings.model)
    identity = _identity(settings)
    profile_name = _family_from_server(identity, name)
    if profile_name is not None:
        return ModelFamily(PROFILES[profile_name], FamilySource.SERVER)
    if blind := _text_only_notice(settings.model, name, identity):
        return ModelFamily(_suggested(name, identity), FamilySource.NOTHING, blind)
    return _measure(settings, name, identity, probe)


def _identity(settings: Settings) -> ModelIdentity:
    """Ask the server about the model; return an empty identity if it says nothing."""
    key = settings.key("model_key")
    asked = ask_identity(base_of(settings.base_url), settings.model, key, IDENTITY_SECONDS)
    return _run(asked) or ModelIdentity()


def _family_from_server(identity: ModelIdentity, name: ModelName) -> str | None:
    """Return the profile that the server determines; None if it does not, or contradicts the name."""
    weights = profile_of(identity.weights) if identity.weights else None
    families = {family for family in (identity.family, weights and weights.name) if family}
    if name.family and not name.certain:
        families.add(name.family)
        if not (identity.family or weights):
            return None  # a fine-tune may write boxes differently: the name alone only suggests
    return families.pop() if len(families) == 1 else None


def _text_only_notice(model: str, name: ModelName, identity: ModelIdentity) -> str:
    """Return the notice for a model without vision; empty if it may have vision."""
    if name.kind is ModelKind.OTHER:
        return f"By its name, {model} computes vectors or scores and does not write replies."
    if identity.sees is False:
        return f"{identity.program} says that {model} reads text only: {_CHOOSE}"
    if name.kind is ModelKind.TEXT and identity.sees is None:
        return f"By its name, {model} reads text only: {_CHOOSE}"
    return ""


_CHOOSE = "it cannot see pages. Choose a vision-language model such as qwen3-vl."


def _suggested(name: ModelName, identity: ModelIdentity) -> Profile:
    return PROFILES[identity.family or name.family or USUAL_PROFILE]


def _measure(settings: Settings, name: ModelName, identity: ModelIdentity, probe: bool) -> ModelFamily:
    """Return the family by the coordinates that the model writes, measured now or before."""
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
            reason = (
                "it has not been measured" if settings.probe else "measuring is switched off (VRAG_PROBE)"
            )
            return _undecided(settings, name, reason, suggested)
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
        "The family of the model %s is unknown: sending it %d to %d short test questions about the positions "
        "of rectangles, once. Set VRAG_PROFILE to name the family, or VRAG_PROBE=false to skip them.",
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
