"""Questions that are asked, judged and measured: the work of `vrag eval run`."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vrag.cli import DONE, FAILED, STOPPED
from vrag.cli.terminal.console import duration, progress_line
from vrag.cli.terminal.interrupts import hopeless

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
    from pathlib import Path

    from vrag.agent.agent import Agent
    from vrag.cli.eval.question_source import Questions
    from vrag.evaluation.answer_extraction import Extractor
    from vrag.evaluation.record import CaseRecord, Extraction
    from vrag.evaluation.relevance import DocumentNames
    from vrag.evaluation.result_store import Conditions, Evaluation, Searched
    from vrag.evaluation.retrieval import RetrievalReport
    from vrag.factory import Session
    from vrag.reward import CompositeReward, Reward
    from vrag.rollouts.rollout import Rollout, RolloutAttempt
    from vrag.rollouts.rollout_store import RolloutStore
    from vrag.settings import Settings
    from vrag.types import Case

__all__ = ["BenchmarkJob"]


@dataclass(kw_only=True)
class BenchmarkJob:
    """Questions that are asked, judged and measured."""

    questions: Questions
    settings: Settings
    out: Path
    samples: int
    concurrency: int
    seconds: float | None
    blank: bool
    exact: bool
    extract: bool
    again: bool
    quiet: bool
    before: int = 0
    """Runs that were there."""
    stopped: bool = False
    in_a_row: int = 0
    """How many of the latest runs failed, with none between that did not."""
    given_up: bool = False
    """Whether so many failed that nothing is to be hoped of the others."""
    begun: float = 0.0
    """When the first of the others began, in seconds of `time.monotonic`."""
    made: dict[tuple[str, int], CaseRecord] = field(default_factory=dict[tuple[str, int], "CaseRecord"])

    def check_folder(self) -> None:
        """Refuses a folder of something else, before documents are indexed.

        Raises:
            RunError: If it is one, or cannot be read.
        """
        from vrag.errors import RunError
        from vrag.rollouts.rollout_store import check_campaign

        if self.out.exists() and not self.out.is_dir():
            raise RunError(f"{self.out} is no folder.", "Name another one.")
        try:
            check_campaign(self.out)
        except OSError as error:
            told = f"{self.out} cannot be read: {error.strerror or error}."
            raise RunError(told, "Name another folder.") from error

    def run(self, session: Session) -> Evaluation:
        """Makes what is left, and records all. Ctrl-C ends it early, with what is done.

        Raises:
            RunError: If the folder cannot be gone on with.
            SettingsError: If no model is named that could judge, and one is needed.
        """
        from vrag.evaluation.blank_searcher import BlankSearcher
        from vrag.evaluation.result_store import write_evaluation
        from vrag.factory import made_with, open_agent
        from vrag.rollouts.batched_search import BatchedSearcher
        from vrag.rollouts.rollout_store import open_campaign

        searcher = BlankSearcher(session.searcher) if self.blank else session.searcher
        agent = open_agent(self.settings, BatchedSearcher(searcher))
        conditions = {
            **made_with(self.settings, agent, searcher),
            "cases": self.questions.digest,
            "deadline": self.seconds,
            "ranking": self.settings.ranking,
            "embedder": None if self.settings.search_url else _embedder(session),
        }
        with open_campaign(self.out, conditions) as campaign, progress_line(quiet=self.quiet) as tell:
            judges, recorder = self._open_judges(), self._recorder(session)
            asyncio.run(self._work(agent, judges, campaign, recorder, tell))
            ordered = [self.made[key] for key in self._keys() if key in self.made]
            return write_evaluation(self.out, self._conditions(conditions, judges, recorder), ordered)

    def _open_judges(self) -> _Judges:
        from vrag.factory import open_extractor, open_judge
        from vrag.reward import CompositeReward

        judge = open_judge(self.settings, exact=self.exact, beside=self.out)
        extractor = open_extractor(self.settings, beside=self.out) if self.extract else None
        return _Judges(CompositeReward(judge, gate=False), judge.identity, extractor)

    def _recorder(self, session: Session) -> _Recorder:
        """Knows how well the search by the question alone finds what is gold."""
        from vrag.evaluation.region_search import WordLocator
        from vrag.evaluation.relevance import DocumentNames
        from vrag.evaluation.result_store import searched_for
        from vrag.evaluation.retrieval import evaluate_retrieval

        locate = WordLocator(session.searcher)
        found = evaluate_retrieval(self.cases, session.searcher, session.documents, locate=locate)
        searched = searched_for(self.cases, session.documents)
        return _Recorder(self, DocumentNames.of(session.documents), found, tuple(_places(session)), searched)

    @property
    def cases(self) -> Sequence[Case]:
        """What is asked."""
        return self.questions.cases

    def status(self, done: Evaluation) -> int:
        """Of the process."""
        from vrag.evaluation.record import CaseOutcome

        if self.stopped:
            return STOPPED
        measured = any(
            record.outcome not in (CaseOutcome.UNJUDGED, CaseOutcome.FAILED) for record in done.records
        )
        return DONE if measured and not self.given_up else FAILED

    def _attempts(self) -> Iterator[RolloutAttempt]:
        from vrag.rollouts.rollout import RolloutAttempt

        return (
            RolloutAttempt(case=case, sample=sample) for case in self.cases for sample in range(self.samples)
        )

    def _keys(self) -> Iterator[tuple[str, int]]:
        return ((attempt.case.uid, attempt.sample) for attempt in self._attempts())

    async def _work(
        self,
        agent: Agent,
        judges: _Judges,
        campaign: RolloutStore,
        recorder: _Recorder,
        tell: Callable[[str], None],
    ) -> None:
        from vrag.evaluation.result_store import record_rollouts

        def progress(record: CaseRecord) -> None:
            self.made[record.subject.uid, record.sample] = record
            tell(self._line)

        try:
            async with aclosing(self._rollouts(agent, campaign)) as rollouts:
                await record_rollouts(
                    rollouts, judges.scorer, recorder, extractor=judges.extractor, progress=progress
                )
        except asyncio.CancelledError:  # Ctrl-C
            self.stopped = True
        finally:
            await agent.aclose()
            await judges.aclose()

    async def _rollouts(self, agent: Agent, campaign: RolloutStore) -> AsyncGenerator[Rollout, None]:
        """Those that are kept, then the others, several at once, as they finish."""
        from vrag.factory import agent_by_seed
        from vrag.rollouts.rollout import roll_out

        left = list(campaign.left(self._attempts(), again=self.again))
        keys = {(attempt.case.uid, attempt.sample) for attempt in left}
        self.before = len(self.cases) * self.samples - len(left)
        async with aclosing(_stored(campaign.folder, self.cases, self.samples)) as stored:
            async for rollout in stored:
                if (rollout.attempt.case.uid, rollout.attempt.sample) not in keys:
                    yield rollout
        self.begun = time.monotonic()
        own = agent_by_seed(self.settings, agent)
        rolling = roll_out(left, own, concurrency=self.concurrency, seconds=self.seconds)
        async with aclosing(rolling) as rollouts:
            async for rollout in rollouts:
                await campaign.kept(rollout)
                yield rollout
                self.in_a_row = self.in_a_row + 1 if rollout.failure else 0
                if hopeless(self.in_a_row, self.concurrency):
                    self.given_up = True
                    return

    @property
    def _line(self) -> str:
        """How far it is."""
        from vrag.evaluation.record import CaseOutcome

        done, asked = len(self.made), len(self.cases) * self.samples
        right = sum(record.outcome is CaseOutcome.RIGHT for record in self.made.values())
        parts = [f"{done}/{asked} runs", f"{right} right"]
        if (new := done - self.before) > 0:
            left = (time.monotonic() - self.begun) / new * (asked - done)
            parts.append(f"{duration(left)} left")
        return " · ".join(parts)

    def _conditions(self, made_with: dict[str, Any], judges: _Judges, recorder: _Recorder) -> Conditions:
        from vrag import __version__
        from vrag.evaluation.result_store import MEASURES_VERSION, Conditions

        return Conditions(
            version=__version__,
            benchmarks=self.questions.parts,
            cases=self.questions.digest,
            samples=self.samples,
            judge=self.judge,
            judge_identity=judges.identity,
            extractor="" if judges.extractor is None else judges.extractor.identity,
            made_with=made_with,
            places=recorder.places,
            retrieval={"pages": recorder.found.pages, "seconds": round(recorder.found.seconds, 3)},
            stopped=self.stopped or len(self.made) < len(self.cases) * self.samples,
            asked=len(self.cases),
            searched=recorder.searched,
            measures=MEASURES_VERSION,
        )

    @property
    def judge(self) -> str:
        """Who says what is right."""
        return self.settings.judge_model or ("rules, word for word" if self.exact else "rules")


def _places(session: Session) -> Iterator[str]:
    """Of its collections, wherever the report is made."""
    for collection in session.collections.values():
        yield str(collection.home.resolve()) if collection.home else collection.address


def _embedder(session: Session) -> str | None:
    """Of the collection that is searched; None where words alone are."""
    mark = session.collection.header.embedder
    return mark.name if mark else None


@dataclass(frozen=True)
class _Judges:
    """Says what is right."""

    scorer: CompositeReward
    identity: str
    """Of the judge: another model, prompt or rule has another one."""
    extractor: Extractor | None
    """Makes short answers for rules to compare."""

    async def aclose(self) -> None:
        """Closes what was asked."""
        await self.scorer.aclose()
        if self.extractor is not None:
            await self.extractor.aclose()


@dataclass(frozen=True)
class _Recorder:
    """Makes records of runs and what they earned."""

    job: BenchmarkJob
    names: DocumentNames
    found: RetrievalReport
    """How well the search by the question alone finds what is gold."""
    places: tuple[str, ...]
    """Of the collections."""
    searched: Searched | None
    """Which documents; None where it is not known."""

    @cached_property
    def _retrieval(self) -> dict[str, dict[str, float]]:
        return {score.uid: dict(score.measures) for score in self.found.scores}

    def __call__(
        self, rollout: Rollout, reward: Reward | None, extraction: Extraction | None, /
    ) -> CaseRecord:
        """The record of a run."""
        from vrag.datasets.registry import published_measures
        from vrag.evaluation.record_builder import record_of

        attempt = rollout.attempt
        return record_of(
            attempt.case,
            attempt.sample,
            rollout,
            reward,
            self.names,
            judge=self.job.judge,
            rule=published_measures,
            extraction=extraction,
            retrieval=self._retrieval.get(attempt.case.uid, {}),
        )


async def _stored(folder: Path, cases: Sequence[Case], samples: int) -> AsyncGenerator[Rollout, None]:
    """The runs of a folder that are asked for, one at a time."""
    from vrag.agent.background import run_in_thread
    from vrag.rollouts.rollout_store import stored_rollouts

    stored = stored_rollouts(folder, cases)
    while (rollout := await run_in_thread(lambda: next(stored, None))) is not None:
        if rollout.attempt.sample < samples:
            yield rollout
