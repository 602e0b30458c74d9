"""Replay: the recorded replies go through the environment once more.

On the same version of the collection this gives the same events, except run id, times and setup notices:
failed attempts of the model and the pieces of its replies included. Where it does not, something changed:
the collection, the environment or this code.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias

from vrag.agent.agent import Agent
from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.answers.claim_judge import ClaimsToJudge
from vrag.agent.environment import Environment
from vrag.agent.events import (
    AnswerCited,
    AnswerDoubted,
    AnswerGiven,
    ConflictFound,
    ContextShortened,
    Event,
    ImageShown,
    ModelCalled,
    ModelFailed,
    ModelRetried,
    PassageShown,
    RunFailed,
    RunSettings,
    RunStarted,
    StopReason,
    ThoughtDelta,
    UsageReported,
)
from vrag.agent.method import Method
from vrag.agent.methods import METHODS, build_method
from vrag.agent.policy import Delta, Message, PictureOrigin, Reply, Retry, Sampled, Tokens
from vrag.agent.runs.run_store import StoredRun
from vrag.agent.tool_plugins import load_tools
from vrag.errors import ContextTooLong, ModelError, RunError
from vrag.geometry import Box, Size, Space, View
from vrag.model_profiles import PROFILES, Profile
from vrag.search.searcher import ForwardedItems, Searcher

if TYPE_CHECKING:
    from PIL.Image import Image

    from vrag.agent.evidence import BoxSides
    from vrag.reading.text_reader import TextReader
    from vrag.types import Hit, Item, Query

_Part: TypeAlias = Delta | Retry | Reply | ContextShortened
_PagePart: TypeAlias = "tuple[str, BoxSides]"
"""Id of an item, and a part of it in fractions."""

NO_FURTHER_REPLY = "The record holds no further reply."


@dataclass(frozen=True, slots=True)
class RecordedPolicy:
    """A policy that repeats recorded replies in the same pieces, failed attempts included."""

    name: str
    calls: Mapping[int, tuple[_Part, ...]]
    """The parts of each reply, by the number of the call, from 1."""
    failure: ModelError
    """The error to raise when the record ends without an answer."""
    sampling: Mapping[str, float | int | str | bool]
    parts_replayed: dict[int, int] = field(default_factory=dict[int, int])
    """Number of parts replayed per call before its context was too long; the repeated call continues
    there."""

    @classmethod
    def of(cls, events: Sequence[Event]) -> RecordedPolicy:
        """Return the policy of a recorded run."""
        calls: dict[int, list[_Part]] = {}
        tokens = {event.step: event for event in events if isinstance(event, UsageReported)}
        thoughts: list[str] = []
        for event in events:
            parts = calls.setdefault(event.step, [])
            match event:
                case ThoughtDelta():
                    thoughts.append(event.text)
                    continue
                case ModelRetried():
                    parts += [*_pieces(event.partial, event.chunks), Retry(event.reason, event.seconds)]
                case ModelFailed():
                    parts += _pieces(event.partial, event.chunks)
                case ContextShortened():
                    pieces = list(_pieces(event.partial, event.chunks))
                    parts += [*(pieces or _unfinished(thoughts)), event]
                case ModelCalled():
                    usage = tokens.get(event.step)
                    used = Tokens()
                    if usage is not None:
                        used = Tokens(
                            prompt=usage.prompt_tokens,
                            completion=usage.completion_tokens,
                            cached=usage.cached_tokens,
                        )
                    sampled = Sampled(prompt_ids=event.prompt_ids, ids=event.ids, logprobs=event.logprobs)
                    reply = Reply(event.reply, event.finish, used, sampled)
                    parts += [*_pieces(event.reply, event.chunks), reply]
                case _:
                    continue
            thoughts = []
        started, last = events[0], events[-1]
        calls[last.step] += _unfinished(thoughts)
        assert isinstance(started, RunStarted)
        failure = ModelError(NO_FURTHER_REPLY)
        if isinstance(last, RunFailed):
            kind = ContextTooLong if last.boundary == ContextTooLong.__name__ else ModelError
            failure = kind(last.message)
        parts_by_call = {number: tuple(parts) for number, parts in calls.items()}
        return cls(started.settings.policy, parts_by_call, failure, started.settings.sampling)

    async def reply(
        self,
        history: Sequence[Message],  # noqa: ARG002 - recorded replies ignore the history
        turn: int = 1,
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        """Repeat the recorded reply of a turn.

        Raises `ModelError` if the record ends before it.
        """
        first = self.parts_replayed.pop(turn, 0)
        for number, part in enumerate(self.calls.get(turn, ())[first:], first):
            if isinstance(part, ContextShortened):
                self.parts_replayed[turn] = number + 1
                raise ContextTooLong(part.reason)
            yield part
            if isinstance(part, Reply):
                return
        raise self.failure

    async def aclose(self) -> None:
        """Do nothing: no resources are held."""


@dataclass(frozen=True, slots=True)
class RecordedJudge:
    """A judge of claims that repeats its recorded verdicts."""

    reviews: list[tuple[str, tuple[CheckedClaim, ...]]]
    """The answers that were reviewed with their claims, in order; those that were replayed are taken off."""

    @classmethod
    def of(cls, events: Sequence[Event]) -> RecordedJudge:
        """Return the judge of a recorded run."""
        reviews: list[tuple[str, tuple[CheckedClaim, ...]]] = []
        for event in events:
            if isinstance(event, AnswerDoubted | AnswerGiven):
                withdrawn = event.withdrawn if isinstance(event, AnswerGiven) else None
                reviews.append((event.text or withdrawn or "", event.claims))
        return cls(reviews)

    async def judge(self, claims: ClaimsToJudge) -> tuple[CheckedClaim, ...]:
        """Return the claims with the recorded verdicts of a model; the others are those of the rules."""
        at = next((at for at, (answer, _) in enumerate(self.reviews) if answer == claims.answer), None)
        known = () if at is None else self.reviews.pop(at)[1]
        recorded = {(claim.start, claim.end, claim.kind): claim for claim in known if claim.judge}
        return tuple(recorded.get((claim.start, claim.end, claim.kind), claim) for claim in claims.claims)

    async def aclose(self) -> None:
        """Do nothing: no resources are held."""


def _pieces(text: str, lengths: Sequence[int]) -> Iterator[Delta]:
    at = 0
    for length in lengths:
        yield Delta(text[at : at + length])
        at += length


def _unfinished(thoughts: Sequence[str]) -> list[Delta]:
    """Return the pieces of a call that failed, of a run without drafts: its events hold only the thought."""
    return [Delta(f"<think>{text}" if number == 0 else text) for number, text in enumerate(thoughts)]


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """A difference between a replay and its record; None stands for an event that is missing."""

    recorded: Event | None
    replayed: Event | None


def replay(
    run: StoredRun,
    searcher: Searcher,
    profile: Profile | None = None,
    text_reader: TextReader | None = None,
) -> Iterator[Event]:
    """Run the recorded replies through the environment.

    Args:
        run: The recorded run.
        searcher: The collection that it searched.
        profile: The profile of the run, where it is none of `PROFILES`; otherwise it is found by its name.
        text_reader: The reader of running text of the run; None for that of the package.

    Raises:
        RunError: If the run never ended or was stopped from outside, the collection has changed since, a file
            that it showed parts of is no longer as it was, its profile is not known, or a picture that came
            with its question is gone.
        ActionError: If it took a custom tool that is not installed.
    """
    started = run.started
    reason = run.result.stop_reason
    timed_out = reason is StopReason.OUT_OF_BUDGET and started.settings.limits.seconds is not None
    if reason in {None, StopReason.CANCELLED} or timed_out:
        raise RunError(f"The run {run.id} did not finish, so there is nothing to compare with.")
    if started.collection != searcher.version:
        raise RunError(
            f"The collection has changed since the run {run.id}: a replay would find other pages.",
            "Ask the question again instead, or restore the documents as they were.",
        )
    settings = started.settings
    profile = profile or settings.own_profile or PROFILES.get(settings.profile)
    if profile is None:
        raise RunError(
            f"The run {run.id} was made with the model profile {settings.profile!r}, which is not built in.",
            "Replay it in Python: replay(run, searcher, profile) with that profile.",
        )
    tools = load_tools(settings.actions)
    parts = _recorded_parts(run.events)
    _check_sources(run, parts, searcher)
    environment = Environment(
        _RecordedItems(searcher, parts, _recorded_names(run.events)),
        profile,
        settings.environment,
        tools,
        text_reader,
    )
    limits = settings.limits.model_copy(update={"seconds": None})
    agent = Agent(
        RecordedPolicy.of(run.events),
        environment,
        method_of(settings),
        limits,
        settings.prices,
        judge=RecordedJudge.of(run.events),
        draft=settings.draft,
        drawn=searcher,
        conflicts=settings.conflicts,
        locate=settings.locate,
    )
    return agent.stream(run.read_question(), run_id=run.id)


class _RecordedItems(ForwardedItems):
    """A `Searcher` whose items have the names that they had in the run.

    It draws from source files what the run drew from them, and nothing else. Runs that were recorded before
    parts were drawn from files, or while a file was gone, were shown the stored pictures.
    """

    def __init__(self, searcher: Searcher, parts: Collection[_PagePart], names: Mapping[str, str]) -> None:
        """`names` are those of documents, by the ids of their items."""
        self._searcher = self._items = searcher
        self._parts = parts
        self._names = names

    @property
    def version(self) -> str:
        return self._searcher.version

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        return self._searcher.search(queries, top_k)

    def item(self, id: str) -> Item:
        item = self._searcher.item(id)
        return replace(item, shown_name=self._names.get(id, ""))

    def part(self, id: str, view: View) -> Image | None:
        box = view.convert(view.region, Space.UNIT).as_tuple()
        return self._searcher.part(id, view) if (id, box) in self._parts else None


def _recorded_names(events: Sequence[Event]) -> dict[str, str]:
    """Return the names of the documents of all items that a run was shown or cites."""
    shown = [event for event in events if isinstance(event, ImageShown | PassageShown)]
    answers = [event for event in events if isinstance(event, AnswerGiven | AnswerCited)]
    evidence = [entry for event in answers for entry in event.evidence]
    found = [event.conflict for event in events if isinstance(event, ConflictFound)]
    sides = [side for conflict in found for side in conflict.sides]
    return {entry.item: entry.document for entry in (*sides, *shown, *evidence)}


def _recorded_parts(events: Sequence[Event]) -> frozenset[_PagePart]:
    """Return the parts of pages that a run drew from source files, for the model or as evidence."""
    shown = [event for event in events if isinstance(event, ImageShown)]
    answers = [event for event in events if isinstance(event, AnswerGiven | AnswerCited)]
    evidence = [entry for event in answers for entry in event.evidence]
    return frozenset(
        (entry.item, entry.box)
        for entry in (*shown, *evidence)
        if entry.origin is PictureOrigin.SOURCE and entry.box is not None
    )


def _check_sources(run: StoredRun, parts: Collection[_PagePart], searcher: Searcher) -> None:
    """Raise `RunError` if the file of one of the parts is gone or has changed."""
    for id, box in parts:
        item = searcher.item(id)
        if item.size is None:
            continue
        region = View.whole(item.size, item.size).cut(Box.unit(*box))
        size = Size(int(region.width), int(region.height))
        if searcher.part(id, View(item.size, region, size)) is None:
            raise RunError(
                f"The run {run.id} was shown parts of {item.document_name} drawn from its file, which is no "
                "longer as it was: a replay would show other pictures.",
                "Put the file back, or set VRAG_SOURCES=true if it is off.",
            )


def method_of(settings: RunSettings) -> Method:
    """Return the method of a recorded run; raise `RunError` if there is none of its name."""
    if settings.agent not in METHODS:
        raise RunError(f"There is no agent {settings.agent!r} here.", "Upgrade vrag to replay it.")
    return build_method(
        settings.agent,
        instruction=settings.instruction,
        reselect=settings.reselect,
        repair=settings.repair,
        own_ids=settings.own_ids,
        verify=settings.verify,
        second_reading=settings.second_reading,
        memory=settings.memory,
    )


def differences(recorded: Sequence[Event], replayed: Sequence[Event]) -> list[ReplayDifference]:
    """Return pairs of events that differ in more than run id, times and setup notices."""
    pairs = zip_longest(recorded, replayed)
    return [
        ReplayDifference(a, b)
        for a, b in pairs
        if a is None or b is None or _comparable_fields(a) != _comparable_fields(b)
    ]


def _comparable_fields(event: Event) -> dict[str, Any]:
    """Return the part of an event that a replay must reproduce: all but run id, version, times, notices.

    Why nothing was found is told about the collection as it was; earlier runs have no choices.
    """
    kept = event.model_dump(exclude={"run_id", "ts", "model_seconds"})
    if isinstance(event, UsageReported):
        del kept["seconds"]
    if isinstance(event, RunStarted):
        del kept["settings"]["limits"]["seconds"], kept["notices"], kept["schema_version"]
    if isinstance(event, AnswerGiven):
        del kept["absence"], kept["choices"]
    return kept
