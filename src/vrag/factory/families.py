"""The family of a model: its profile, by the settings, a checkpoint, a server, a name or a measurement.

A family determines how images are shown and in which coordinates boxes are read; a wrong one crops another
part of the page without an error. A name is what somebody called a model: `vllm serve CHECKPOINT
--served-model-name NAME` serves any weights under any name. So what a server says of its weights outranks the
name, and nothing is guessed silently: if neither server nor name nor measurement decide, boxes are read in
the default convention and the run carries a notice.

Families are kept for some minutes in the process, measurements in the cache folder of the user. A server that
is silent or refuses a request is asked again after half a minute, and takes back nothing that it said before.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from cachetools import LRUCache

from vrag.factory.models import chat_options, open_chat, open_local_model
from vrag.model_profiles import (
    PROFILES,
    ModelKind,
    model_stem,
    profile_named,
    profile_of,
    published_profile,
    read_model_name,
)
from vrag.providers import LOCAL_PREFIX, is_hosted

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from vrag.chat.identity import ModelIdentity
    from vrag.grounding.probe import CoordinateProbe
    from vrag.grounding.questions import ProbeAnswer
    from vrag.model_profiles import ModelName, Profile
    from vrag.settings import Settings

USUAL_PROFILE = "qwen2.5-vl"
"""Profile of unknown models, and without a model."""
IDENTITY_SECONDS = 5.0
"""Time limit for asking a server about a model."""
KEPT_SECONDS = 300.0
"""Time after which a server is asked again: it may have been started again with other weights."""
RETRY_SECONDS = 30.0
"""Time after which a server is asked again that did not answer, or refused a request."""
_CHOOSE = "it cannot see pages. Choose a vision-language model such as qwen3-vl."
_UNNAMED_WEIGHTS = re.compile(
    r"[-.\d]*|sha256[-:]?[0-9a-f]+|(?:ggml-)?model(?:[-.].*)?|data|mnt|opt|ml|app|srv|home|root|tmp|var|pvc|cache"
    r"|volumes?|workspace|repository|checkpoints?|runs?|outputs?|llm|vlm"
)
"""Names of files and folders that say nothing of a model, beside those that `model_stem` leaves out."""
_NOT_MEASURED = {
    None: "it has not been measured",
    True: "it has not been measured",
    False: "measuring is switched off (VRAG_PROBE)",
}
"""Reasons by the setting `probe`."""

Result = TypeVar("Result")
log = logging.getLogger("vrag")


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


class _Attempt(NamedTuple):
    """The values that a family depends on where the server does not decide it."""

    key: str | None
    """Key for the server, which may refuse another one."""
    probe: bool | None
    unasked: bool
    """True if nobody can be asked whether to measure."""
    setting: bool | None


@dataclass(frozen=True, slots=True)
class _Detected:
    """A family with what it was found with."""

    family: ModelFamily
    attempt: _Attempt
    identity: ModelIdentity
    """The report that the family was found with."""
    silent: bool
    """True if the server did not answer."""
    expires: float
    """Seconds of the monotonic clock."""

    @property
    def decided(self) -> bool:
        """True if there is a source."""
        return self.family.source is not FamilySource.NOTHING

    def holds_for(self, attempt: _Attempt) -> bool:
        """Return whether another attempt would find nothing else yet."""
        if time.monotonic() >= self.expires:
            return False
        if not self.decided and not self.silent:  # the other attempt may measure it
            return attempt == self.attempt
        by_weights = self.family.source in {FamilySource.SERVER, FamilySource.MEASUREMENT}
        return by_weights or attempt.key == self.attempt.key


_detected: LRUCache[tuple[str, str], _Detected] = LRUCache(1024)
"""Families of served models, by address and model."""
_locks: dict[tuple[str, str], threading.Lock] = {}
"""Locks by address and model: a server that hangs does not block others."""
_registry = threading.Lock()
"""Guards `_locks` and `_detected`; never held during a call over the network."""


def forget_families() -> None:
    """Forget the families determined in this process; measurements stay in the cache folder."""
    with _registry:
        _detected.clear()


def open_family(
    settings: Settings,
    *,
    probe: bool | None = None,
    confirm: Callable[[str], bool] | None = None,
    quiet: bool = False,
) -> ModelFamily:
    """Return the family of the model that the settings name.

    The server is asked, and the model is measured if that is wanted and neither server nor name decide.

    `probe` says whether the model may be measured; None stands for the setting, without which nothing is
    measured unless `confirm` agrees: it is given what a measurement costs, and its refusal is remembered.
    With `quiet` the notice is left to the caller instead of being logged.

    Raises `SettingsError` if the profile does not exist, the server's address is invalid, or its key is
    missing or withheld, and `ModelError` if the family of the checkpoint is unknown.
    """
    if settings.profile != "auto":
        return ModelFamily(profile_named(settings.profile), FamilySource.SETTING)
    if settings.model.startswith(LOCAL_PREFIX):
        return ModelFamily(open_local_model(settings).profile, FamilySource.CHECKPOINT)
    if not settings.model:
        return ModelFamily(profile_named(USUAL_PROFILE), FamilySource.NOTHING)
    known = profile_of(settings.model)
    if known and (not settings.base_url or is_hosted(settings.base_url)):
        return ModelFamily(known, FamilySource.NAME)
    request = _FamilyRequest(settings, settings.probe if probe is None else probe, confirm)
    family = request.detect()
    if family.notice and family.source is not FamilySource.MEASUREMENT and not quiet:
        log.warning("%s", family.notice)
    return family


def family_by_report(model: str, identity: ModelIdentity) -> ModelFamily | None:
    """Return the family of a served model by its server's report and its name; None if neither decides.

    The weights decide, if their name does; then the architecture, unless a word in the name stands for a
    fine-tune, and the name of the model last.
    """
    name, architecture = _name_of_weights(model, identity), PROFILES.get(identity.family or "")
    decided = published_profile(identity.label) or profile_of(name.name)
    reported = name.name != model or decided is not profile_of(name.name)
    if identity.parent and profile_of(identity.weights) is None:  # an adapter is a fine-tune
        return None
    if decided and (architecture is None or _same_conventions(decided, architecture)):
        if reported or architecture:
            return ModelFamily(decided, FamilySource.SERVER)
        return ModelFamily(decided, FamilySource.NAME, _notice_of_weights(model, identity.weights, decided))
    if architecture and (name.family in {None, architecture.name} or (decided and not reported)):
        return ModelFamily(architecture, FamilySource.SERVER)
    return None


def _name_of_weights(model: str, identity: ModelIdentity) -> ModelName:
    """Return the name that tells the family: that of the weights, or the one that was asked for."""
    weights = read_model_name(identity.weights)
    tells = weights.kind is not ModelKind.UNKNOWN or profile_of(identity.weights) is not None
    return weights if tells else read_model_name(model)


def _notice_of_weights(model: str, weights: str, profile: Profile) -> str:
    """Return the notice that a server's weights are not known to be what the model is called; or none.

    Folders of containers and of checkpoints say nothing, and a name may be derived from that of the weights.
    """
    called, stem = model_stem(model), model_stem(f"-/{weights}")
    if not weights or _UNNAMED_WEIGHTS.fullmatch(stem) or called in stem or stem in called:
        return ""
    return (
        f"The server says that {model} has the weights {weights}, whose name does not tell their family. "
        f"The model is taken for {profile.name} by its own name: if that is wrong, crops and evidence "
        "show the wrong place. Set VRAG_PROFILE to the family of the weights."
    )


def _same_conventions(first: Profile, second: Profile) -> bool:
    """Return whether two profiles show pictures and read boxes alike, as those of fine-tunes do."""
    return (first.boxes, first.y_first, first.factor) == (second.boxes, second.y_first, second.factor)


@dataclass(frozen=True, slots=True)
class _FamilyRequest:
    """The detection of the family of a served model."""

    settings: Settings
    probe: bool | None
    """True to measure; None or False for not."""
    confirm: Callable[[str], bool] | None

    def detect(self) -> ModelFamily:
        """Return the family, kept in the process for some minutes."""
        from vrag.chat.http_clients import base_of

        settings = self.settings
        if not settings.base_url:
            name = read_model_name(settings.model)
            return _undecided(settings, name, "no server is set that could be asked")
        subject = base_of(settings.base_url), settings.model
        attempt = _Attempt(settings.key("model_key"), self.probe, self.confirm is None, settings.probe)
        with _registry:
            lock = _locks.setdefault(subject, threading.Lock())
        with lock:
            with _registry:
                kept = _detected.get(subject)
            if kept is None or not kept.holds_for(attempt):
                kept = self._ask(subject[0], attempt, kept)
                with _registry:
                    _detected[subject] = kept
            return kept.family

    def _ask(self, address: str, attempt: _Attempt, kept: _Detected | None) -> _Detected:
        """Ask the server; what was found before stands where it is silent or refuses a request."""
        from vrag.chat.identity import ModelIdentity, ask_identity

        model = self.settings.model
        report = _run(ask_identity(address, model, attempt.key, IDENTITY_SECONDS))
        silent, identity = report is None, report or ModelIdentity(failed=True)
        family = family_by_report(model, identity)
        by_server = family is not None and family.source is FamilySource.SERVER
        if identity.failed and kept and not (by_server and kept.identity.failed):
            if kept.decided:
                return replace(kept, attempt=attempt, expires=time.monotonic() + RETRY_SECONDS)
            if not kept.identity.failed:
                identity = kept.identity
                family = family_by_report(model, identity)
        family = family or self._without_report(identity, silent=silent)
        measured = family.source is FamilySource.NOTHING and self._may_measure and not silent
        retry = (report is None or report.failed) and not measured  # questions are not sent that often
        seconds = RETRY_SECONDS if retry else KEPT_SECONDS
        return _Detected(family, attempt, identity, silent, time.monotonic() + seconds)

    @property
    def _may_measure(self) -> bool:
        """True if the model may be sent test questions."""
        return bool(self.probe or (self.probe is None and self.confirm))

    def _without_report(self, identity: ModelIdentity, *, silent: bool) -> ModelFamily:
        """Return the family where neither name nor server decide; `silent` if it did not answer."""
        model = self.settings.model
        name = _name_of_weights(model, identity)
        parent = profile_of(identity.parent) if identity.parent else None
        suggested = parent or PROFILES[identity.family or name.family or USUAL_PROFILE]
        blind = ""
        if name.kind is ModelKind.OTHER:
            blind = f"By its name, {name.name} computes vectors or scores and does not write replies."
        elif identity.sees is False:
            blind = f"{identity.program} says that {model} reads text only: {_CHOOSE}"
        elif name.kind is ModelKind.TEXT and identity.sees is None:
            blind = f"By its name, {name.name} reads text only: {_CHOOSE}"
        if blind:
            return ModelFamily(suggested, FamilySource.NOTHING, blind)
        if silent:
            return _undecided(self.settings, name, "its server does not answer", suggested)
        return self._measure(name, identity, suggested)

    def _measure(self, name: ModelName, identity: ModelIdentity, suggested: Profile) -> ModelFamily:
        """Return the family by the coordinates that the model writes, measured now or before."""
        from vrag.grounding.probe import DECLINED, ProbeCache, measured_profile

        settings, cache, subject = self.settings, ProbeCache.of_user(), probe_subject(self.settings, identity)
        found = cache.read(subject)
        declined = found is not None and found == DECLINED
        if found is None or (declined and self.probe):
            unknown = _unknown(settings, name)
            if self.probe or (self.probe is None and self.confirm and self.confirm(_cost(unknown, settings))):
                found = self._probe(suggested, unknown)
                if found.lasting:
                    cache.write(subject, found)
            elif self.probe is None and self.confirm:
                found = DECLINED
                cache.write(subject, found)
            else:
                return _undecided(settings, name, _NOT_MEASURED[settings.probe], suggested)
        profile = measured_profile(found, suggested)
        if profile is None:
            reason = "test questions did not show how it writes boxes: "
            reason = found.reason if found == DECLINED else reason + found.reason.rstrip(".")
            return _undecided(settings, name, reason, suggested)
        notice = f"{_unknown(settings, name)}: measured at its first use, it writes boxes in "
        return ModelFamily(profile, FamilySource.MEASUREMENT, f"{notice}{found.convention}.")

    def _probe(self, suggested: Profile, unknown: str) -> CoordinateProbe:
        """Send the test questions."""
        from vrag.agent.policies.chat import ChatPolicy
        from vrag.grounding.probe import MAX_QUESTIONS, MIN_QUESTIONS, probe_model

        if self.probe:
            log.warning(
                "%s: sending it %d to %d short test questions about the positions of rectangles, once. Set "
                "VRAG_PROFILE to name the family, or VRAG_PROBE=false to skip them.",
                unknown,
                MIN_QUESTIONS,
                MAX_QUESTIONS,
            )
        once = self.settings.model_copy(update={"model_retries": 0})
        options = replace(chat_options(once, suggested), tools=(), logprobs=False, token_ids=False)
        return _run(probe_model(ChatPolicy(open_chat(once), options), suggested))


def probe_subject(settings: Settings, identity: ModelIdentity) -> dict[str, object]:
    """Return what a measurement belongs to: a model of a server, with the weights that it reports."""
    from vrag.chat.http_clients import base_of

    subject: dict[str, object] = {
        "base_url": base_of(settings.base_url),
        "model": settings.model,
        "program": identity.program,
        "architecture": identity.architecture,
        "weights": identity.weights,
    }
    further = {"label": identity.label, "parent": identity.parent}
    return subject | {name: value for name, value in further.items() if value}


def keep_measurement(settings: Settings, answers: Sequence[ProbeAnswer]) -> None:
    """Keep a measurement of the served model that the settings name, for later runs with it."""
    from vrag.chat.http_clients import base_of
    from vrag.chat.identity import ModelIdentity, ask_identity
    from vrag.grounding.probe import ProbeCache, result_of

    address, model = base_of(settings.base_url), settings.model
    report = _run(ask_identity(address, model, settings.key("model_key"), IDENTITY_SECONDS))
    subject = probe_subject(settings, report or ModelIdentity())
    ProbeCache.of_user().write(subject, result_of(answers))
    with _registry:
        _detected.pop((address, model), None)


def _cost(unknown: str, settings: Settings) -> str:
    """Return what a measurement sends, for people who decide about it."""
    from vrag.chat.http_clients import base_of
    from vrag.grounding.probe import MAX_QUESTIONS, MIN_QUESTIONS, QUESTION_TOKENS

    return (
        f"{unknown}, so that it is not known how it writes places on a page. vrag can find out with "
        f"{MIN_QUESTIONS} to {MAX_QUESTIONS} requests to {base_of(settings.base_url)}, each with a small "
        f"picture (about {MAX_QUESTIONS * QUESTION_TOKENS:,} tokens in all). The result is kept."
    )


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
    asked = name.name == settings.model
    subject = (
        f"The name of the model {name.name}"
        if asked
        else f"The name of the weights of {settings.model}, {name.name},"
    )
    if not name.unknown_words:
        return f"{subject} does not decide its family"
    words = ", ".join(name.unknown_words)
    return f"{subject} suggests {name.family} and does not decide it ({words})"


def _run(work: Coroutine[None, None, Result]) -> Result:
    """Run a coroutine in a thread of its own, since the caller may be inside an event loop."""
    with ThreadPoolExecutor(1, "vrag-family") as thread:
        return thread.submit(asyncio.run, work).result()
