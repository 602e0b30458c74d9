"""The test of a model on the web page: checks of the doctor, in words for people who see no command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Event

from vrag.doctor import endpoint
from vrag.doctor.check import Check
from vrag.doctor.runner import DoctorOptions, examine_model
from vrag.factory.models import open_chat, settings_of_choice
from vrag.server.setup.choices import ChosenModel
from vrag.server.setup.schema import CheckResult, FoundModel, FoundServer, PlannedCheck
from vrag.settings import Settings, SettingsReport

PLAN = tuple(
    PlannedCheck(name=name, title=title, subject=subject)
    for name, title, subject in (
        ("endpoint", "Address", "whether the server can be reached"),
        ("model", "Key and model", "whether the key is accepted and the server has the model"),
        ("reply", "Reply", "whether the model writes, and how fast"),
        ("profile", "Family", "how pictures are shown to the model, and how it writes places on them"),
        ("pictures", "Pictures", "whether the model sees pictures, and several at once"),
        ("picture cost", "Size of pictures", "what pictures cost, in tokens"),
        ("coordinates", "Places", "whether the model points at the right place of a page"),
    )
)
"""The checks of the doctor that are made, in order; the others are for training."""
_SKIPPED = re.compile(r"Skipped, because this failed: (.+)\.")
_PAGE_WORDS = (
    (re.compile(r"--base-url|the base URL of the model|the base URL"), "the address"),
    (re.compile(r"base URL"), "address"),
    (re.compile(r": --model \S+$"), "."),
    (
        re.compile(r"Raise --seconds(?: if it is only slow)?\."),
        "It may still be loading the model: test again soon.",
    ),
    (re.compile(r", or allow more time: --seconds$"), "."),
    (re.compile(r"VRAG_PROFILE=(\S+) fits\."), r"The family \1 fits."),
    (re.compile(r"otherwise: VRAG_PROFILE=(\S+)"), r"otherwise, choose the family \1."),
    (re.compile(r"Set VRAG_PROFILE=(\S+)"), r"Choose the family \1"),
    (re.compile(r"Then set VRAG_PROFILE\."), "Then choose that family."),
    (re.compile(r"profiles"), "families"),
    (re.compile(r"profile"), "family"),
    (re.compile(r"--json shows what it writes instead of boxes\. For example:"), "It writes, for example:"),
    (re.compile(r"Report this, with the output of `vrag doctor --json`\."), "Report this as a bug of vrag."),
)
"""Words of the terminal, and what stands for them on the page."""


@dataclass(frozen=True, slots=True)
class DoctorInspector:
    """Looks at servers and models as the doctor does; a `ModelInspector`."""

    settings: Settings
    servers: tuple[endpoint.LocalServer, ...] = endpoint.LOCAL_SERVERS
    """Addresses where model servers are looked for."""
    seconds: float = 60.0
    """Time limit of a check, and of each reply of the model."""

    @property
    def plan(self) -> Sequence[PlannedCheck]:
        """The checks of `test`, in order."""
        return PLAN

    def find_servers(self) -> Sequence[FoundServer]:
        """Find the model servers on this machine, those whose models see pictures first."""
        found: dict[str, FoundServer] = {}
        for model in endpoint.find_local_models(self.servers):
            listed = FoundModel(name=model.name, sees=model.sees)
            server = found.get(model.base_url) or FoundServer(
                title=model.server, server=model.base_url, models=()
            )
            found[model.base_url] = server.model_copy(update={"models": (*server.models, listed)})
        return tuple(
            server.model_copy(update={"models": tuple(sorted(server.models, key=_rank_by_vision))})
            for server in sorted(found.values(), key=lambda server: min(map(_rank_by_vision, server.models)))
        )

    def list_models(self, chosen: ChosenModel) -> Sequence[FoundModel]:
        """List the models of a server, those that see pictures first. Raises `ModelError` if it does not."""
        chat = open_chat(settings_of_choice(self.settings, chosen))
        names = (model.name.removeprefix("models/") for model in endpoint.run_chat(chat, chat.models()))
        models = (FoundModel(name=name, sees=endpoint.sees_by_name(name)) for name in names)
        return tuple(sorted(models, key=_rank_by_vision))

    def test(self, chosen: ChosenModel, stop: Event) -> Iterator[CheckResult]:
        """Check a model and yield each result as soon as it is known; end soon after `stop` is set."""
        settings = settings_of_choice(self.settings, chosen)
        report = SettingsReport(settings, dict.fromkeys(type(settings).model_fields, "flag"), None)
        options = DoctorOptions(coords=True, seconds=self.seconds, stop=stop)
        names = {check.name for check in PLAN}
        for check in examine_model(report, options, names):
            if not stop.is_set():
                yield _result(check)


def _rank_by_vision(model: FoundModel) -> int:
    """Rank models: first those that see pictures, then those of which nothing is known."""
    return {True: 0, None: 1, False: 2}[model.sees]


def _result(check: Check) -> CheckResult:
    check = replace(check, message=page_words(check.message), hint=page_words(check.hint))
    return CheckResult(
        name=check.name,
        status=check.status.value,
        message=check.message,
        hint=check.hint,
        seconds=check.seconds,
    )


def page_words(text: str) -> str:
    """Replace flags, settings, commands and names of checks in a message by what people see on the page."""
    if skipped := _SKIPPED.fullmatch(text):
        title = next((check.title for check in PLAN if check.name == skipped[1]), skipped[1])
        return f"Not checked: “{title}” comes first."
    for pattern, words in _PAGE_WORDS:
        text = pattern.sub(words, text)
    return text
