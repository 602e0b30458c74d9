"""Which checks are made, in which order, and which of them have no sense once another has failed."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.doctor import environment
from vrag.doctor.check import Check, CheckStatus, examine
from vrag.doctor.local_servers import LOCAL_SERVERS, LocalServer, check_local_servers
from vrag.errors import ModelError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vrag.agent.policy import Policy
    from vrag.factory import ModelFamily
    from vrag.settings import Settings, SettingsReport

__all__ = ["CheckStep", "DoctorOptions", "examine_all", "examine_steps"]

REPLY_TOKENS = 2048
"""Tokens of a reply of a local model, at most."""
MAX_PICTURES = 10
UNNAMED = "-"
"""In place of the name of a model where none is named."""
_LIMITS = re.compile(r"VRAG_(?:FIRST_TOKEN|TOKEN|CALL|CONNECT)_SECONDS")
"""Settings in whose place the doctor has a limit of its own."""
SLOW = 10
"""How much longer than others a check may take that loads or asks a model."""

SETTINGS_HINT = "Correct it where it was set: a flag, the environment, .env or the settings file."
SEARCH_HINT = "Look closer: vrag index status, vrag index verify."
MODEL_HINT = "See the log of the model's server, and whether it is up still."


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """What is to be looked at, and for how long."""

    coords: bool = False
    """Whether to measure in which convention the model answers boxes."""
    seconds: float = 60.0
    """Time limit of a check, and of each reply of a model."""
    local_servers: tuple[LocalServer, ...] = LOCAL_SERVERS
    """Where model servers are looked for."""


@dataclass(frozen=True, slots=True)
class CheckStep:
    """A check to be made."""

    name: str
    probe: Callable[[], Check]
    after: str = ""
    """The check without which this one has no sense; empty for none."""
    slow: bool = False
    """Whether it loads a model or asks one."""
    hint: str = ""
    """What to do about an error that says nothing of that itself."""


def examine_all(report: SettingsReport | SettingsError, order: DoctorOptions) -> Iterator[Check]:
    """Makes all checks, one after the other.

    Args:
        report: The settings, or why there are none: then only what needs none is looked at.
        order: What to look at.

    Yields:
        What each found, as soon as it is known.
    """
    steps = [CheckStep("settings", partial(_settings, report), hint=SETTINGS_HINT), *_environment_steps()]
    if not isinstance(report, SettingsError):
        steps.append(_accelerator_step(report.settings))
        if report.settings.actions:
            steps.append(CheckStep("actions", partial(environment.check_actions, report.settings)))
        steps += _group("collection", _search_steps(report, order), SEARCH_HINT)
        steps.append(CheckStep("local servers", partial(check_local_servers, order.local_servers)))
        steps += _group("model", _model_steps(report, order), MODEL_HINT)
    yield from examine_steps(steps, order.seconds)


def examine_steps(steps: Iterable[CheckStep], seconds: float) -> Iterator[Check]:
    """Makes checks in their order; those whose foundation has failed are skipped.

    Args:
        steps: The checks.
        seconds: Time limit of each; ten times as long for slow ones.

    Yields:
        What each found.
    """
    gone: set[str] = set()
    for step in steps:
        if step.after in gone:
            check = Check(step.name, CheckStatus.SKIPPED, f"Not looked at, since this failed: {step.after}.")
            gone.add(step.name)
        else:
            check = examine(step.name, step.probe, seconds * SLOW if step.slow else seconds, step.hint)
        if check.status is CheckStatus.FAILED:
            gone.add(step.name)
        yield check


def _group(name: str, steps: Iterator[CheckStep], hint: str) -> list[CheckStep]:
    """Checks of one subject; where what they need cannot even be opened, one check that says so."""
    try:
        return [replace(step, hint=hint) for step in steps]
    except Exception as error:  # noqa: BLE001 - it is told as the failure of that check
        failure = error

    def fail() -> Check:
        raise failure

    return [CheckStep(name, fail, hint=hint)]


def _settings(report: SettingsReport | SettingsError) -> Check:
    if isinstance(report, SettingsError):
        raise report
    from vrag.doctor.collection import check_settings

    return check_settings(report)


def _environment_steps() -> Iterator[CheckStep]:
    yield CheckStep("python", environment.check_python)
    yield CheckStep("packages", environment.check_packages)
    for extra in environment.EXTRAS:
        yield CheckStep(f"extra {extra.name}", partial(environment.check_extra, extra))
    yield CheckStep("libreoffice", environment.check_office)
    yield CheckStep("ocr", environment.check_ocr)


def _accelerator_step(settings: Settings) -> CheckStep:
    local = settings.model.startswith("local:") or settings.tier == "cuda"
    needed = bool(local or settings.reranker or (settings.embedder and "://" not in settings.embedder))
    probe = partial(environment.check_accelerator, settings, needed=needed)
    return CheckStep("accelerator", probe, slow=True, hint="Set the device to cpu: VRAG_DEVICE=cpu")


def _search_steps(report: SettingsReport, order: DoctorOptions) -> Iterator[CheckStep]:
    """What is searched: a server, collections, or both where both are named."""
    from vrag.doctor import collection

    settings = report.settings
    if settings.search_url:
        yield CheckStep("search server", partial(collection.check_search_server, settings, order.seconds / 2))
    named = {report.origins["collection"], report.origins["collections"]} != {"default"}
    if named or not settings.search_url:
        for number, place in enumerate(settings.places, 1):
            yield from _collection_steps(report, place, f" {number}" if len(settings.places) > 1 else "")


def _collection_steps(report: SettingsReport, place: str, suffix: str) -> Iterator[CheckStep]:
    from vrag.doctor import collection
    from vrag.index.remote.object_storage import is_url

    name = f"collection{suffix}"
    yield CheckStep(name, partial(collection.check_collection, report, place), slow=True)
    yield CheckStep(f"embedder{suffix}", partial(collection.check_embedder, report, place), name, slow=True)
    if not is_url(place):
        yield CheckStep(f"disk{suffix}", partial(environment.check_disk, Path(place).absolute()))


def _model_steps(report: SettingsReport, order: DoctorOptions) -> Iterator[CheckStep]:
    from vrag.factory import LOCAL

    settings = report.settings
    if settings.model.startswith(LOCAL):
        yield from _local_steps(settings, order)
    elif settings.model or (settings.base_url and report.origins["base_url"] != "OPENAI_BASE_URL"):
        for step in _served_steps(settings, order):
            yield replace(step, probe=partial(_naming_seconds, step.probe))
    else:
        hint = "To look at one: vrag doctor --model MODEL --base-url URL"
        message = "None is named: the offline policy answers, which needs none."
        yield CheckStep("model", lambda: Check("", CheckStatus.SKIPPED, message, hint))


def _local_steps(settings: Settings, order: DoctorOptions) -> Iterator[CheckStep]:
    from vrag.agent.policies.local import LocalOptions, open_local
    from vrag.factory import LOCAL, open_family

    path, options = settings.model.removeprefix(LOCAL), LocalOptions(max_tokens=REPLY_TOKENS)
    policy = open_local(path, device=settings.device, dtype=settings.dtype, options=options)
    yield from _sight_steps(policy, open_family(settings), settings, order, after="")


def _served_steps(settings: Settings, order: DoctorOptions) -> Iterator[CheckStep]:
    """Of a server: it is asked once and with little patience, since a check is to show what is wrong."""
    from vrag.agent.policies.chat import ChatPolicy
    from vrag.doctor import endpoint
    from vrag.factory import chat_options, open_chat, open_family

    connect = min(settings.connect_seconds, order.seconds / 2)
    limits = dict.fromkeys(("first_token_seconds", "token_seconds", "call_seconds"), order.seconds)
    limits = {**limits, "connect_seconds": connect}
    asked = {"model": settings.model or UNNAMED, "model_retries": 0, **limits}
    chat, family = (
        open_chat(settings.model_copy(update=asked)),
        open_family(settings, probe=False, quiet=True),
    )
    yield CheckStep("endpoint", lambda: endpoint.check_address(chat.base_url, connect))
    yield CheckStep("model", lambda: endpoint.check_models(chat, named=bool(settings.model)), "endpoint")
    yield CheckStep("reply", lambda: endpoint.check_completion(chat), "model", slow=True)
    yield CheckStep("token ids", lambda: endpoint.check_tokens(chat), "reply", slow=True)
    yield CheckStep("tools", lambda: endpoint.check_tools(chat), "reply", slow=True)
    options = replace(chat_options(settings, family.profile), tools=(), logprobs=False, token_ids=False)
    yield from _sight_steps(ChatPolicy(chat, options), family, settings, order, after="reply")


def _naming_seconds(probe: Callable[[], Check]) -> Check:
    """Makes a check; what it says about time limits is about the doctor's own, not the settings'."""
    try:
        check = probe()
    except ModelError as error:
        check = Check("", CheckStatus.FAILED, error.message, error.hint)
    message, hint = (_LIMITS.sub("--seconds", text) for text in (check.message, check.hint))
    return replace(check, message=message, hint=hint)


def _sight_steps(
    policy: Policy, family: ModelFamily, settings: Settings, order: DoctorOptions, after: str
) -> Iterator[CheckStep]:
    from vrag.doctor import vision

    profile = family.profile
    count = min(settings.max_steps or MAX_PICTURES, MAX_PICTURES)
    yield CheckStep("profile", partial(vision.check_profile, settings, family, coords=order.coords))
    yield CheckStep("pictures", partial(vision.check_pictures, policy, count), after, slow=True)
    cost = partial(vision.check_picture_cost, policy, profile, coords=order.coords)
    yield CheckStep("picture cost", cost, "pictures", slow=True)
    if order.coords:
        asked = partial(vision.check_coords, policy, profile, model=settings.model, seconds=order.seconds)
        yield CheckStep("coordinates", asked, "pictures", slow=True)
