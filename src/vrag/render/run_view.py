"""A run as pages and reports show it: its events in steps, its images, its cost and how it was made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import groupby
from typing import TypeVar

from vrag.agent import events as agent_events
from vrag.agent.events import Event, ImageShown, RunSettings, RunStarted, UsageReported
from vrag.agent.evidence import Evidence
from vrag.agent.methods import METHODS
from vrag.agent.runs.run_result import RunResult, RunUsage
from vrag.agent.runs.run_store import RunState, StoredRun
from vrag.render.text_format import OutcomeText, amount, money, outcome, seconds, when
from vrag.text.numerals import count

E = TypeVar("E", bound=agent_events.EventBase)
_TITLES: dict[type[agent_events.EventBase], tuple[str, str]] = {
    agent_events.RunFailed: ("Failed", "fault"),
    agent_events.SearchRequested: ("Search", "search"),
    agent_events.CropRequested: ("Closer look", "crop"),
    agent_events.MemoryUpdated: ("Summarise and remember", "memory"),
    agent_events.InvalidAction: ("Refused", "fault"),
    agent_events.AnswerDoubted: ("Answer in doubt", "fault"),
}
"""Titles and kinds of steps, by the first event of one of these types."""


@dataclass(frozen=True)
class StepView:
    """A step: one model call and its results."""

    number: int
    """0 for events before the first call."""
    events: tuple[Event, ...]

    def first(self, kind: type[E]) -> E | None:
        """Return its first event of a kind."""
        return next((event for event in self.events if isinstance(event, kind)), None)

    @property
    def title(self) -> tuple[str, str]:
        """Its title and kind: `search`, `crop`, `tool`, `memory`, `answer`, `fault` or `open`."""
        for event in self.events:
            if isinstance(event, agent_events.ActionRequested):
                return event.name, "tool"
            if isinstance(event, agent_events.AnswerGiven) and event.text is not None:
                return "Answer", "answer"
            if isinstance(event, agent_events.AnswerDoubted) and event.conflicts:
                return "Sources disagree", "fault"
            if type(event) in _TITLES:
                return _TITLES[type(event)]
        return "No action", "open"

    @property
    def thought(self) -> str:
        """The thought; of an interrupted step, as far as it was written."""
        if (complete := self.first(agent_events.ThoughtGiven)) is not None:
            return complete.text
        partial = ""
        for event in self.events:
            if isinstance(event, agent_events.ThoughtDelta):
                partial += event.text
            elif isinstance(event, agent_events.ModelRetried):
                partial = ""
        return partial

    @property
    def usage(self) -> UsageReported | None:
        """Its cost."""
        return self.first(UsageReported)


@dataclass(frozen=True)
class RunView:
    """A run, finished or not."""

    events: tuple[Event, ...]
    under_way: bool = False
    """True if a process still adds events."""

    @classmethod
    def of_run(cls, run: StoredRun) -> RunView:
        """Return the view of a stored run; raise `RunError` if its events do not begin with its start."""
        view = cls.of(run.events)
        if view.result.stop_reason is not None:
            return view
        stored, state = run.store.settled(run.id)
        return replace(cls.of(stored.events), under_way=state is RunState.RUNNING)

    @classmethod
    def of(cls, events: Iterable[Event]) -> RunView:
        """Return the view of the events of one run.

        Raises `RunError` if they do not begin with the start of a run.
        """
        view = cls(tuple(events))
        _ = view.result  # an error if there is no start
        return view

    @cached_property
    def result(self) -> RunResult:
        """The run as one value."""
        return RunResult.of(self.events)

    @property
    def outcome(self) -> OutcomeText:
        """Its outcome in words, or its state if it has not ended."""
        return outcome(self.result, under_way=self.under_way)

    @property
    def started(self) -> RunStarted:
        """Its first event."""
        return self.result.started

    @property
    def settings(self) -> RunSettings:
        """Its settings."""
        return self.started.settings

    @property
    def is_without_model(self) -> bool:
        """True if no model wrote its answer: it is a quote."""
        return self.result.is_without_model

    @property
    def method_name(self) -> str:
        """The display name of its agent."""
        name = self.settings.agent
        return METHODS[name].title if name in METHODS else name

    @cached_property
    def step_views(self) -> tuple[StepView, ...]:
        """Its steps, in order, without events that belong to none."""
        steps = groupby((event for event in self.events if event.step), key=lambda event: event.step)
        return tuple(StepView(number, tuple(group)) for number, group in steps)

    @cached_property
    def pictures(self) -> tuple[ImageShown, ...]:
        """All images that the model was shown for the first time, in order."""
        return self.all(ImageShown)

    def all(self, kind: type[E]) -> tuple[E, ...]:
        """Return events of a kind, in order."""
        return tuple(event for event in self.events if isinstance(event, kind))

    def seen_at(self, node: str, label: str, item: str = "") -> tuple[ImageShown, ...]:
        """Return the images of an item of a node: by its label there, or else by the item alone."""
        here = tuple(shown for shown in self.pictures if shown.node == node and shown.label == label)
        return here or tuple(shown for shown in self.pictures if item and shown.item == item)

    def images_of(self, evidence: Evidence) -> tuple[ImageShown | None, ImageShown | None]:
        """Find the images of evidence that the model was shown: of the whole item, and of the part.

        The whole item of a clip is the first frame of the stretch.
        """
        exact = next((shown for shown in self.pictures if shown.sha256 == evidence.crop_sha256), None)
        if exact is not None and not exact.crop:
            return exact, None
        if evidence.seconds is not None:
            start, end = evidence.seconds
            frames = (s for s in self.pictures if s.item == evidence.item and s.seconds is not None)
            inside = next((frame for frame in frames if start <= (frame.seconds or 0) <= end), None)
            if inside is not None:
                return inside, exact
        wholes = (shown for shown in self.pictures if shown.item == evidence.item and not shown.crop)
        return next(wholes, None), exact

    def content_of(self, shown: ImageShown) -> tuple[float, float]:
        """Return the part of an image that is not margin, as fractions of its width and height.

        Memory never enlarges whole items, so one that is smaller than its image is in the upper left corner.
        """
        width, height = shown.region[2] - shown.region[0], shown.region[3] - shown.region[1]
        fits = 0 < width <= shown.width and 0 < height <= shown.height
        if shown.crop or self.settings.memory is None or not fits:
            return 1.0, 1.0
        return width / shown.width, height / shown.height

    @property
    def provenance(self) -> dict[str, str]:
        """Agent, model, collection, time and id, in words; what is unknown is left out."""
        documents = self.started.settings.environment.documents
        facts = {
            "agent": self.method_name,
            "model": "none" if self.is_without_model else self.settings.policy,
            "collection": self.started.collection,
            "documents": f"only {count(len(documents), 'chosen document')}" if documents else "",
            "asked": when(self.started.ts),
            "run": self.started.run_id,
        }
        return {name: value for name, value in facts.items() if value}


def cost_figures(runs: Sequence[RunView]) -> dict[str, str]:
    """Return the cost of runs together, in words by name; what is unknown is left out."""
    usages = (step.usage for run in runs for step in run.result.steps if step.usage)
    usage = reduce(RunUsage.plus, usages, RunUsage())
    figures = {
        "steps": amount(sum(len(run.step_views) for run in runs)),
        "searches": amount(sum(len(run.all(agent_events.SearchRequested)) for run in runs)),
    }
    if usage.prompt_tokens is not None:
        figures["tokens"] = amount(usage.prompt_tokens + (usage.completion_tokens or 0))
    figures["visual tokens"] = amount(usage.visual_tokens)
    figures["time"] = seconds(sum(run.result.seconds for run in runs))
    return figures if usage.cost is None else figures | {"cost": money(usage.cost)}


@dataclass(frozen=True, slots=True)
class RunTable:
    """Provenance and cost of several runs side by side, in words."""

    shared: dict[str, str]
    """The facts that all of them share, by name."""
    columns: tuple[str, ...]
    """Names of the rest."""
    rows: tuple[tuple[str, ...], ...]
    """One per run; a dash for what is unknown."""
    together: tuple[str, ...]
    """The same columns of all runs together; empty where there is no sum, or only one run."""

    @classmethod
    def of(cls, runs: Sequence[RunView]) -> RunTable:
        """Return the table of one run or more."""
        facts = [run.provenance for run in runs]
        shared = dict(set(facts[0].items()).intersection(*(fact.items() for fact in facts)))
        rows = [fact | cost_figures([run]) for fact, run in zip(facts, runs, strict=True)]
        total = cost_figures(runs)
        columns = (*total, *dict.fromkeys(name for fact in facts for name in fact if name not in shared))
        return cls(
            {name: value for name, value in facts[0].items() if name in shared},
            columns,
            tuple(tuple(row.get(name, "–") for name in columns) for row in rows),
            tuple(total.get(name, "") for name in columns) if len(runs) > 1 else (),
        )
