"""Sampling: experts answer questions whose answers are known, and a judge scores the answers.

Each attempt is an ordinary recorded run of VRAG in the one environment. A case is over when it has a
record; everything before that may be cut off at any moment and is taken up again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from contextlib import aclosing
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from vrag.agent.actions import ABSTENTION
from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import RunFailed
from vrag.agent.methods.vrag import VragMethod
from vrag.distill.expert import Tally
from vrag.distill.judge import score_answer
from vrag.distill.oracle_search import OracleSearcher
from vrag.distill.policy import ExpertPolicy
from vrag.distill.sample_store import ExpertUsage, Sample, SampleAttempt, SampleOutcome, is_complete
from vrag.errors import ModelError, SampleError, VragError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vrag.agent.runs.run_store import Recording, StoredRun
    from vrag.distill.expert import Expert, Experts
    from vrag.distill.sample_store import SampleWriter
    from vrag.model_profiles import Profile
    from vrag.search.engine import Searcher
    from vrag.types import Case

__all__ = ["ExpertSampling", "SamplingProgress", "sample_cases"]

log = logging.getLogger("vrag.distill")
_INTERRUPTIONS = 10
"""Attempts of a case that may be cut off; then it is at fault itself: it exhausts the machine, say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertSampling:
    """How cases are sampled."""

    searcher: Searcher
    experts: Experts
    learner: Profile
    """The family of the model that learns: what it is shown, and how it writes boxes."""
    documents: frozenset[str] | None = None
    """Ids of the documents that may be searched; None for all."""
    oracle: bool = True
    """Whether a search shows an unseen gold page, when it found one."""
    hits: int = 10
    steps: int = 10
    """Turns of a run at most, replies that were refused by the environment included."""
    attempts: int = 3
    """Runs of a case at most that break off; then it has failed. The judge is asked as often."""
    concurrency: int = 4
    """Cases at once."""
    seconds: float = 1800.0
    """Of a run."""
    give_up: int = 20
    """Cases in a row that fail before sampling ends: then it is not the cases."""

    @property
    def made_with(self) -> dict[str, Any]:
        """What samples of one set have in common, as JSON values by name; how often it is tried is free."""
        names = "\n".join(sorted(self.documents or ()))
        experts = {expert.role: expert.identity for expert in self.experts.all}
        return {
            "profile": self.learner.name,
            "oracle": self.oracle,
            "hits": self.hits,
            "steps": self.steps,
            "collection": self.searcher.version,
            "documents": None if self.documents is None else sha256(names.encode()).hexdigest()[:16],
            **experts,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingProgress:
    """How far sampling is."""

    cases: int
    """Of the data set."""
    before: int
    """Cases that were over before."""
    outcomes: dict[str, int]
    """Cases by outcome, those before included."""
    experts: dict[str, Tally]
    """What this process asked of each expert, by its role."""

    @property
    def over(self) -> int:
        """Cases that are over."""
        return sum(self.outcomes.values())


async def sample_cases(
    cases: Sequence[Case],
    sampling: ExpertSampling,
    writer: SampleWriter,
    tell: Callable[[SamplingProgress], None] = lambda _: None,
) -> SamplingProgress:
    """Samples every case that has no record.

    Args:
        cases: The data set.
        sampling: How.
        writer: Where records are kept.
        tell: Is told whenever a case is over.

    Raises:
        SampleError: If a record is of another question, the disk refuses, or the experts fail case after
            case. What was finished is kept.
    """
    _check(cases, writer)
    work = _SamplingWork(cases, sampling, writer, tell)
    waiting = iter([case for case in cases if case.uid not in writer.records])

    async def draw() -> None:
        for case in waiting:
            work.over(await _case(case, sampling, writer, work.tallies))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(sampling.concurrency):
                group.create_task(draw())
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    finally:
        await sampling.experts.aclose()
    return work.progress()


def _check(cases: Sequence[Case], writer: SampleWriter) -> None:
    """Refuses a directory with samples of other questions."""
    for case in cases:
        record = writer.records.get(case.uid)
        if record and (record.query, record.reference_answer) != (case.query, case.reference_answer):
            raise SampleError(
                f"The case {case.uid!r} was sampled with another question or reference.",
                "Name another --out for another data set.",
            )


@dataclass(slots=True)
class _SamplingWork:
    """What all cases of one call have in common."""

    cases: Sequence[Case]
    sampling: ExpertSampling
    writer: SampleWriter
    tell: Callable[[SamplingProgress], None]
    tallies: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict[str, Tally](Tally))
    before: int = 0
    failed: int = 0
    """In a row."""

    def __post_init__(self) -> None:
        self.before = self._over()

    def over(self, sample: Sample) -> None:
        """Keeps the record of a case, and ends everything where no case succeeds."""
        self.writer.finish(sample)
        self.tell(self.progress())
        if sample.attempts or sample.outcome is not SampleOutcome.FAILED:  # else nobody was asked
            self.failed = self.failed + 1 if sample.outcome is SampleOutcome.FAILED else 0
        if self.failed >= self.sampling.give_up:
            raise SampleError(
                f"{self.failed} cases in a row failed; the last: {sample.why}",
                "Mend that, then sample again with --retry-failed.",
            )

    def progress(self) -> SamplingProgress:
        """Now."""
        uids = {case.uid for case in self.cases}
        outcomes = dict.fromkeys(map(str, SampleOutcome), 0)
        for record in self.writer.records.values():
            outcomes[record.outcome] += record.uid in uids
        return SamplingProgress(
            cases=len(self.cases), before=self.before, outcomes=outcomes, experts=dict(self.tallies)
        )

    def _over(self) -> int:
        return sum(case.uid in self.writer.records for case in self.cases)


async def _case(
    case: Case, sampling: ExpertSampling, writer: SampleWriter, totals: defaultdict[str, Tally]
) -> Sample:
    """Tries a case until it has a score, or no more attempts."""
    trial = _Trial(case, sampling, writer)
    try:
        return await trial.sample()
    finally:
        for role, tally in trial.tallies.items():
            totals[role].join(tally)


@dataclass(slots=True)
class _Trial:
    """A case while it is tried."""

    case: Case
    sampling: ExpertSampling
    writer: SampleWriter
    tallies: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict[str, Tally](Tally))
    attempts: list[SampleAttempt] = field(default_factory=list[SampleAttempt])

    async def sample(self) -> Sample:
        """The record of the case."""
        if not self.case.reference_answer.strip():
            return self._record(SampleOutcome.FAILED, None, why="It has no reference answer to be scored by.")
        run = self.writer.finished_run(self.case.uid)
        interrupted = 0 if run else self._look_back()
        while run is None and len(self.attempts) < self.sampling.attempts + interrupted:
            run = await self._run()
        if run is None:
            return self._record(SampleOutcome.FAILED, None, why=self.attempts[-1].reason)
        return await self._judged(run, run.trajectory.answer or ABSTENTION)

    def _look_back(self) -> int:
        """Takes in the attempts of processes that were killed; how many of them broke off for that."""
        interrupted = 0
        for id in self.writer.started.get(self.case.uid, ()):
            run = self.writer.read(id)
            if run is not None and run.has_end:
                self.attempts.append(SampleAttempt(run=id, reason=_failure(run)))
            else:
                self.attempts.append(SampleAttempt(run=id, reason="The process was stopped."))
                interrupted += 1
        return min(interrupted, _INTERRUPTIONS)

    async def _run(self) -> StoredRun | None:
        """One attempt; None where it broke off."""
        with self.writer.store.runs.record() as recording:
            self.writer.start(self.case.uid, recording.id)
            try:
                await self._recorded(recording)
            except VragError:  # a run records its own; what is left is the disk's
                raise
            except Exception as error:  # a fault of the program is this case's, and ends no other
                log.debug("A run of the case %s broke off.", self.case.uid, exc_info=True)
                reason = f"{type(error).__name__}: {error}"
                self.attempts.append(SampleAttempt(run=recording.id, reason=reason))
                return None
        run = self.writer.store.runs.read(recording.id)
        if is_complete(run):
            return run
        self.attempts.append(SampleAttempt(run=run.id, reason=_failure(run)))
        return None

    async def _recorded(self, recording: Recording) -> None:
        """Runs the case."""
        events = self._agent().astream(self.case.query, run_id=recording.id, save=recording.save)
        async with aclosing(events):
            async for event in events:
                recording.write(event)

    def _agent(self) -> Agent:
        sampling = self.sampling
        searcher = OracleSearcher(sampling.searcher, self.case) if sampling.oracle else sampling.searcher
        options = EnvironmentOptions(hits=sampling.hits, documents=sampling.documents)
        environment = Environment(searcher, sampling.learner, options)
        policy = ExpertPolicy(sampling.experts, sampling.learner, sampling.steps, self.tallies)
        return Agent(
            policy,
            environment,
            VragMethod(repair=False),
            Limits(steps=sampling.steps, seconds=sampling.seconds),
        )

    async def _judged(self, run: StoredRun, answer: str) -> Sample:
        reason = ""
        judge = self.sampling.experts.judge
        for _ in range(self.sampling.attempts):
            try:
                score = await score_answer(judge, self.case, answer, self.tallies[judge.role])
            except ModelError as error:
                reason = str(error)
                self.attempts.append(SampleAttempt(run=run.id, reason=reason))
            else:
                return self._record(SampleOutcome.SCORED, run, score=score.score, why=score.why)
        return self._record(SampleOutcome.FAILED, run, why=reason)

    def _record(
        self, outcome: SampleOutcome, run: StoredRun | None, *, score: int | None = None, why: str
    ) -> Sample:
        last = self.attempts[-1].run if self.attempts else None
        return Sample(
            uid=self.case.uid,
            query=self.case.query,
            reference_answer=self.case.reference_answer,
            outcome=outcome,
            run=run.id if run else last,
            score=score,
            why=why,
            attempts=tuple(self.attempts),
            experts={expert.role: self._usage(expert) for expert in self._used()},
        )

    def _used(self) -> list[Expert]:
        return [expert for expert in self.sampling.experts.all if expert.role in self.tallies]

    def _usage(self, expert: Expert) -> ExpertUsage:
        return ExpertUsage(model=expert.model.name, **self.tallies[expert.role].as_dict())


def _failure(run: StoredRun) -> str:
    """Why a run came to nothing."""
    end = run.events[-1]
    if isinstance(end, RunFailed):
        return end.message
    reason = run.trajectory.stop_reason
    return f"The run ended without an answer: {(reason or 'unknown').replace('_', ' ')}."
