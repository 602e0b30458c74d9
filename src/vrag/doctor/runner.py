"""The checks of `vrag doctor`, in their order."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from vrag.agent.policy import Delta, Message, Policy, Reply, Retry
from vrag.doctor import endpoint, environment
from vrag.doctor.check import Check, CheckStep, examine_steps, failed, skipped
from vrag.errors import ModelError, SettingsError
from vrag.factory.families import FamilySource, ModelFamily, keep_measurement, open_family
from vrag.factory.indexing import apply_sandbox
from vrag.factory.models import chat_options, open_chat
from vrag.providers import LOCAL_PREFIX, is_embedding_server
from vrag.settings import Settings, SettingsReport

REPLY_TOKENS = 2048
"""Maximum tokens of a reply of a local model."""
MAX_PICTURES = 10
_LIMITS = re.compile(r"VRAG_(?:FIRST_TOKEN|TOKEN|CALL|CONNECT)_SECONDS")
"""Settings that the time limit of the doctor replaces."""

SETTINGS_HINT = "Correct it where it was set: a flag, the environment, .env or the settings file."
SEARCH_HINT = "For details: vrag index status, vrag index verify."
MODEL_HINT = "Check that the model server is running, and see its log."


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """The subjects of the checks, and their time limit."""

    coords: bool = False
    """True to measure the box coordinates of the model."""
    seconds: float = 60.0
    """Time limit of a check, and of each reply of a model."""
    local_servers: tuple[endpoint.LocalServer, ...] = endpoint.LOCAL_SERVERS
    """Addresses where model servers are looked for."""
    stop: threading.Event = field(default_factory=threading.Event, compare=False)
    """Set to end the checks of a model early: no further request is sent."""


def examine_all(report: SettingsReport | SettingsError, options: DoctorOptions) -> Iterator[Check]:
    """Run all checks, one after the other, and yield each result as soon as it is known.

    If the settings have an error, given instead of them, only the environment is checked.
    """
    if not isinstance(report, SettingsError):
        apply_sandbox(report.settings)
    steps = [
        CheckStep("settings", partial(environment.check_settings, report), hint=SETTINGS_HINT),
        CheckStep("python", environment.check_python),
        CheckStep("packages", environment.check_packages),
        *(
            CheckStep(f"extra {extra.name}", partial(environment.check_extra, extra))
            for extra in environment.EXTRAS
        ),
        CheckStep("libreoffice", environment.check_office),
        CheckStep("ocr", environment.check_ocr),
        CheckStep("sandbox", environment.check_sandbox),
    ]
    if not isinstance(report, SettingsError):
        settings = report.settings
        local = settings.model.startswith(LOCAL_PREFIX) or settings.tier == "cuda"
        embeds = bool(settings.embedder) and not is_embedding_server(settings.embedder)
        needed = bool(local or embeds or settings.reranker or settings.reader)
        accelerator = partial(environment.check_accelerator, settings, needed=needed)
        steps.append(CheckStep("accelerator", accelerator, slow=True, hint="Use the CPU: VRAG_DEVICE=cpu"))
        if settings.reader:
            steps.append(CheckStep("reader", partial(environment.check_reader, settings), slow=True))
        if settings.actions:
            steps.append(CheckStep("actions", partial(environment.check_actions, settings)))
        steps += _group("collection", _search_steps(report, options), SEARCH_HINT)
        steps.append(CheckStep("local servers", partial(endpoint.check_local_servers, options.local_servers)))
        steps += _group("model", _model_steps(report, options), MODEL_HINT)
    yield from examine_steps(steps, options.seconds)


def examine_model(report: SettingsReport, options: DoctorOptions, names: Collection[str]) -> Iterator[Check]:
    """Run the checks of a model that have one of these names, and yield each result as it is known."""
    steps = _group("model", _model_steps(report, options), MODEL_HINT)
    chosen = (step for step in steps if step.name in names)
    yield from examine_steps(chosen, options.seconds, options.stop)


def _group(name: str, steps: Iterator[CheckStep], hint: str) -> list[CheckStep]:
    """Return the checks of one subject; if its parts cannot be opened, one failed check with the reason."""
    try:
        return [replace(step, hint=hint) for step in steps]
    except Exception as error:  # noqa: BLE001 - reported as the failure of that check
        failure = error

    def fail() -> Check:
        raise failure

    return [CheckStep(name, fail, hint=hint)]


def _search_steps(report: SettingsReport, options: DoctorOptions) -> Iterator[CheckStep]:
    """Yield the checks of the search server and of the collections, whichever are set."""
    from vrag.index.location import is_url

    settings = report.settings
    if settings.search_url:
        probe = partial(environment.check_search_server, settings, options.seconds / 2)
        yield CheckStep("search server", probe)
    named = {report.origins["collection"], report.origins["collections"]} != {"default"}
    if not named and settings.search_url:
        return
    for number, place in enumerate(settings.places, 1):
        suffix = f" {number}" if len(settings.places) > 1 else ""
        name = f"collection{suffix}"
        embedder = partial(environment.check_embedder, report, place)
        yield CheckStep(name, partial(environment.check_collection, report, place), slow=True)
        yield CheckStep(f"embedder{suffix}", embedder, name, slow=True)
        if not is_url(place):
            yield CheckStep(f"disk{suffix}", partial(environment.check_disk, Path(place).absolute()))


def _model_steps(report: SettingsReport, options: DoctorOptions) -> Iterator[CheckStep]:
    """Yield the checks of the model: a checkpoint, or a server; without one, that none is set."""
    settings = report.settings
    if settings.model.startswith(LOCAL_PREFIX):
        from vrag.agent.policies.local import LocalOptions, open_local

        path, local = settings.model.removeprefix(LOCAL_PREFIX), LocalOptions(max_tokens=REPLY_TOKENS)
        policy = open_local(path, device=settings.device, dtype=settings.dtype, options=local)
        yield from _vision_steps(policy, _families_of(settings), settings, options, after="")
        return
    if not settings.model and (not settings.base_url or report.origins["base_url"] == "OPENAI_BASE_URL"):
        hint = "To check a model: vrag doctor --model MODEL --base-url URL"
        message = "No model is set: questions are answered without a model."
        yield CheckStep("model", lambda: skipped(message, hint))
        return
    from vrag.agent.policies.chat import ChatPolicy

    # A server is asked once, with short limits, to show what is wrong.
    connect = min(settings.connect_seconds, options.seconds / 2)
    limits = dict.fromkeys(("first_token_seconds", "token_seconds", "call_seconds"), options.seconds)
    model = settings.model or "-"  # check_models then lists those of the server
    changes = {"model": model, "model_retries": 0, **limits, "connect_seconds": connect}
    chat = open_chat(settings.model_copy(update=changes))
    families = _families_of(settings)
    plain = replace(chat_options(settings, families.used.profile), tools=(), logprobs=False, token_ids=False)
    models = partial(endpoint.check_models, chat, named=bool(settings.model))
    steps = (
        CheckStep("endpoint", partial(endpoint.check_address, chat.base_url, connect)),
        CheckStep("model", models, "endpoint"),
        CheckStep("reply", partial(endpoint.check_completion, chat), "model", slow=True),
        CheckStep("token ids", partial(endpoint.check_tokens, chat), "reply", slow=True),
        CheckStep("tools", partial(endpoint.check_tools, chat), "reply", slow=True),
        *_vision_steps(
            StoppablePolicy(ChatPolicy(chat, plain), options.stop), families, settings, options, after="reply"
        ),
    )
    for step in steps:
        yield replace(step, probe=partial(_with_doctor_limits, step.probe))


@dataclass(frozen=True, slots=True)
class StoppablePolicy:
    """A policy that sends nothing more when it is stopped."""

    inner: Policy
    stop: threading.Event

    @property
    def name(self) -> str:
        """The name of the policy."""
        return self.inner.name

    @property
    def sampling(self) -> Mapping[str, float | int | str | bool]:
        """The sampling parameters of the policy."""
        return self.inner.sampling

    async def reply(
        self, history: Sequence[Message], turn: int = 1
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        """Write the next reply. Raises `ModelError` if it is stopped."""
        if self.stop.is_set():
            raise ModelError("The check was stopped.")
        async with aclosing(self.inner.reply(history, turn)) as parts:
            async for part in parts:
                yield part
                if self.stop.is_set():
                    raise ModelError("The check was stopped.")

    async def aclose(self) -> None:
        """Close the policy."""
        await self.inner.aclose()


def _with_doctor_limits(probe: Callable[[], Check]) -> Check:
    """Run a check; let messages about time limits name the limit of the doctor, not the settings."""
    try:
        check = probe()
    except ModelError as error:
        check = failed(error.message, error.hint)
    message, hint = (_LIMITS.sub("--seconds", text) for text in (check.message, check.hint))
    return replace(check, message=message, hint=hint)


class _Families(NamedTuple):
    """The family that is used, and the one that would be if none were set."""

    used: ModelFamily
    found: ModelFamily


def _families_of(settings: Settings) -> _Families:
    automatic = settings.model_copy(update={"profile": "auto"})
    found = open_family(automatic, probe=False, quiet=True)
    return _Families(open_family(settings, probe=False, quiet=True), found)


def _vision_steps(
    policy: Policy, families: _Families, settings: Settings, options: DoctorOptions, after: str
) -> Iterator[CheckStep]:
    from vrag.doctor import vision

    profile, coords = families.used.profile, options.coords
    count = min(settings.max_steps or MAX_PICTURES, MAX_PICTURES)
    cost = partial(vision.check_picture_cost, policy, profile, coords=coords)
    yield CheckStep("profile", partial(vision.check_profile, families.used, families.found, coords=coords))
    yield CheckStep("pictures", partial(vision.check_pictures, policy, count), after, slow=True)
    yield CheckStep("picture cost", cost, "pictures", slow=True)
    if coords:
        decided = families.used.source not in {FamilySource.NOTHING, FamilySource.MEASUREMENT}
        measure = partial(
            vision.check_coords,
            policy,
            profile,
            model=settings.model,
            seconds=options.seconds,
            keep=None if decided else partial(keep_measurement, settings),
        )
        yield CheckStep("coordinates", measure, "pictures", slow=True)
