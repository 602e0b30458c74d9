"""The work of `vrag eval run`: questions asked, judged and measured."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag.cli.terminal.console import duration
from vrag.cli.terminal.process import DONE, FAILED, STOPPED
from vrag.cli.terminal.progress import progress_line, should_give_up

if TYPE_CHECKING:
    from vrag.agent.agent import Agent
    from vrag.cli.eval.question_source import QuestionSource
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


@dataclass(kw_only=True)
class BenchmarkJob:
    """An evaluation, and how far it is."""

    questions: QuestionSource
    settings: Settings
    out: Path
    samples: int
    concurrency: int
    seconds: float | None
    blank: bool
    exact: bool
    extract: bool
    retry_failed: bool
    quiet: bool
    before: int = 0
    """Runs that were in the folder."""
    stopped: bool = False
    failures_in_a_row: int = 0
    """Failed runs since the latest one that did not fail."""
    given_up: bool = False
    """True if so many runs failed in a row that the rest would fail too."""
    start: float = 0.0
    """Start of the first new run, in seconds of `time.monotonic`."""
    records: dict[tuple[str, int], CaseRecord] = field(default_factory=dict[tuple[str, int], "CaseRecord"])

    @cached_property
    def attempts(self) -> list[RolloutAttempt]:
        """All runs of all questions."""
        from vrag.rollouts.rollout import RolloutAttempt

        cases = self.questions.cases
        return [RolloutAttempt(case=case, sample=sample) for case in cases for sample in range(self.samples)]

    @property
    def judge(self) -> str:
        """The name of the judge."""
        return self.settings.judge_model or ("rules, word for word" if self.exact else "rules")

    def check_folder(self) -> None:
        """Refuse a folder of something else, before documents are indexed.

        Raises:
            RunError: If it is one, or cannot be read.
        """
        from vrag.errors import RunError
        from vrag.rollouts.rollout_store import check_rollout_folder

        if self.out.exists() and not self.out.is_dir():
            raise RunError(f"{self.out} is not a directory.", "Choose another folder.")
        try:
            check_rollout_folder(self.out)
        except OSError as error:
            message = f"{self.out} cannot be read: {error.strerror or error}."
            raise RunError(message, "Choose another folder.") from error

    def run(self, session: Session) -> Evaluation:
        """Make the missing runs, and record all. Ctrl-C ends it early, with what is finished.

        Raises:
            RunError: If the folder cannot be continued.
            SettingsError: If a model is required as the judge, and none is set.
        """
        from vrag.evaluation.blank_searcher import BlankSearcher
        from vrag.evaluation.result_store import write_evaluation
        from vrag.factory import made_with, open_agent, open_extractor, open_judge
        from vrag.reward import CompositeReward
        from vrag.rollouts.batched_search import BatchedSearcher
        from vrag.rollouts.rollout_store import open_rollout_store

        searcher = BlankSearcher(session.searcher) if self.blank else session.searcher
        agent = open_agent(self.settings, BatchedSearcher(searcher))
        conditions = {
            **made_with(self.settings, agent, searcher),
            "cases": self.questions.digest,
            "deadline": self.seconds,
            "ranking": self.settings.ranking,
            "embedder": None if self.settings.search_url else _embedder_name(session),
        }
        with open_rollout_store(self.out, conditions) as store, progress_line(quiet=self.quiet) as show:
            judge = open_judge(self.settings, exact=self.exact, beside=self.out)
            extractor = open_extractor(self.settings, beside=self.out) if self.extract else None
            judges = _Judges(CompositeReward(judge, gate=False), judge.identity, extractor)
            recorder = self._open_recorder(session)
            asyncio.run(self._work(agent, judges, store, recorder, show))
            keys = ((attempt.case.uid, attempt.sample) for attempt in self.attempts)
            records = [self.records[key] for key in keys if key in self.records]
            return write_evaluation(self.out, self._conditions(conditions, judges, recorder), records)

    def _open_recorder(self, session: Session) -> _Recorder:
        """Measure how well a search for the question itself finds the gold pages, for the records."""
        from vrag.evaluation.relevance import DocumentNames
        from vrag.evaluation.result_store import searched_for
        from vrag.evaluation.retrieval import WordLocator, evaluate_retrieval

        cases = self.questions.cases
        locate = WordLocator(session.searcher)
        retrieval = evaluate_retrieval(cases, session.searcher, session.documents, locate=locate)
        places = tuple(
            str(collection.home.resolve()) if collection.home else collection.address
            for collection in session.collections.values()
        )
        searched = searched_for(cases, session.documents)
        return _Recorder(self.judge, DocumentNames.of(session.documents), retrieval, places, searched)

    async def _work(
        self,
        agent: Agent,
        judges: _Judges,
        store: RolloutStore,
        recorder: _Recorder,
        show: Callable[[str], None],
    ) -> None:
        from vrag.evaluation.result_store import record_rollouts

        def add(record: CaseRecord) -> None:
            self.records[record.subject.uid, record.sample] = record
            show(self._progress_text())

        try:
            async with aclosing(self._rollouts(agent, store)) as rollouts:
                await record_rollouts(
                    rollouts, judges.scorer, recorder, extractor=judges.extractor, progress=add
                )
        except asyncio.CancelledError:  # Ctrl-C
            self.stopped = True
        finally:
            await agent.aclose()
            await judges.aclose()

    async def _rollouts(self, agent: Agent, store: RolloutStore) -> AsyncGenerator[Rollout, None]:
        """Yield the stored runs, then the others as they finish, several at a time."""
        from vrag.factory import agent_by_seed
        from vrag.rollouts.rollout import roll_out

        missing = list(store.remaining(self.attempts, again=self.retry_failed))
        keys = {(attempt.case.uid, attempt.sample) for attempt in missing}
        self.before = len(self.attempts) - len(missing)
        async with aclosing(_read_rollouts(store.folder, self.questions.cases, self.samples)) as stored:
            async for rollout in stored:
                if (rollout.attempt.case.uid, rollout.attempt.sample) not in keys:
                    yield rollout
        self.start = time.monotonic()
        agents = agent_by_seed(self.settings, agent)
        rolling = roll_out(missing, agents, concurrency=self.concurrency, seconds=self.seconds)
        async with aclosing(rolling) as rollouts:
            async for rollout in rollouts:
                await store.keep_in_thread(rollout)
                yield rollout
                self.failures_in_a_row = self.failures_in_a_row + 1 if rollout.failure else 0
                if should_give_up(self.failures_in_a_row, self.concurrency):
                    self.given_up = True
                    return

    def _progress_text(self) -> str:
        from vrag.evaluation.record import CaseOutcome

        done, total = len(self.records), len(self.attempts)
        right = sum(record.outcome is CaseOutcome.RIGHT for record in self.records.values())
        parts = [f"{done}/{total} runs", f"{right} right"]
        if (new := done - self.before) > 0:
            remaining = (time.monotonic() - self.start) / new * (total - done)
            parts.append(f"{duration(remaining)} left")
        return " · ".join(parts)

    def _conditions(self, made_with: dict[str, Any], judges: _Judges, recorder: _Recorder) -> Conditions:
        from vrag import __version__
        from vrag.evaluation.result_store import MEASURES_VERSION, Conditions

        retrieval = recorder.retrieval
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
            retrieval={"pages": retrieval.pages, "seconds": round(retrieval.seconds, 3)},
            stopped=self.stopped or len(self.records) < len(self.attempts),
            asked=len(self.questions.cases),
            searched=recorder.searched,
            measures=MEASURES_VERSION,
        )

    def status(self, evaluation: Evaluation) -> int:
        """Return the exit status of the process."""
        from vrag.evaluation.record import CaseOutcome

        if self.stopped:
            return STOPPED
        unmeasured = (CaseOutcome.UNJUDGED, CaseOutcome.FAILED)
        measured = any(record.outcome not in unmeasured for record in evaluation.records)
        return DONE if measured and not self.given_up else FAILED


def _embedder_name(session: Session) -> str | None:
    """Return the embedder of the collection that is searched; None if only words are."""
    embedder = session.collection.header.embedder
    return embedder.name if embedder else None


async def _read_rollouts(folder: Path, cases: Sequence[Case], samples: int) -> AsyncGenerator[Rollout, None]:
    """Yield the stored runs of the cases, one at a time."""
    from vrag.agent.background import run_in_thread
    from vrag.rollouts.rollout_store import stored_rollouts

    stored = stored_rollouts(folder, cases)
    while (rollout := await run_in_thread(lambda: next(stored, None))) is not None:
        if rollout.attempt.sample < samples:
            yield rollout


@dataclass(frozen=True)
class _Judges:
    """The judge of answers, and the model that shortens them."""

    scorer: CompositeReward
    identity: str
    """Identity of the judge; different for another model, prompt or rule."""
    extractor: Extractor | None

    async def aclose(self) -> None:
        await self.scorer.aclose()
        if self.extractor is not None:
            await self.extractor.aclose()


@dataclass(frozen=True)
class _Recorder:
    """The maker of records from runs and their rewards."""

    judge: str
    names: DocumentNames
    retrieval: RetrievalReport
    """The results of a search for the questions themselves."""
    places: tuple[str, ...]
    """Directories or URLs of the collections."""
    searched: Searched | None
    """The documents that were searched; None if not known."""

    @cached_property
    def _retrieval_measures(self) -> dict[str, dict[str, float]]:
        return {score.uid: dict(score.measures) for score in self.retrieval.scores}

    def __call__(
        self, rollout: Rollout, reward: Reward | None, extraction: Extraction | None, /
    ) -> CaseRecord:
        """Make the record of a run."""
        from vrag.datasets.registry import published_measures
        from vrag.evaluation.record import record_of

        attempt = rollout.attempt
        return record_of(
            attempt.case,
            attempt.sample,
            rollout,
            reward,
            self.names,
            judge=self.judge,
            rule=published_measures,
            extraction=extraction,
            retrieval=self._retrieval_measures.get(attempt.case.uid, {}),
        )
