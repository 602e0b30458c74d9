"""The work of `vrag eval run`: questions asked, judged and measured."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag.cli.terminal.console import duration
from vrag.cli.terminal.process import DONE, FAILED, STOPPED
from vrag.cli.terminal.progress import progress_line

if TYPE_CHECKING:
    from vrag.agent.agent import Agent
    from vrag.cli.eval.question_source import QuestionSource
    from vrag.evaluation.answer_extraction import Extractor
    from vrag.evaluation.record import CaseRecord, Extraction
    from vrag.evaluation.result_store import Conditions, Evaluation
    from vrag.evaluation.retrieval import RetrievalReport
    from vrag.factory import Session
    from vrag.reward import Reward
    from vrag.reward.reward import IdentifiedJudge
    from vrag.rollouts.job import RolloutJob
    from vrag.rollouts.rollout import Rollout
    from vrag.settings import Settings


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
    rollouts: RolloutJob = field(init=False)
    """The runs; set by `run`."""
    records: dict[tuple[str, int], CaseRecord] = field(default_factory=dict[tuple[str, int], "CaseRecord"])

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
        from vrag.rollouts.batched_search import BatchedSearcher
        from vrag.rollouts.job import RolloutJob
        from vrag.rollouts.rollout import attempts_of
        from vrag.rollouts.rollout_store import open_rollout_store

        searcher = BlankSearcher(session.searcher) if self.blank else session.searcher
        agent = open_agent(self.settings, BatchedSearcher(searcher))
        embedder = session.collection.header.embedder if not self.settings.search_url else None
        conditions = {
            **made_with(self.settings, agent, searcher),
            "cases": self.questions.digest,
            "deadline": self.seconds,
            "ranking": self.settings.ranking,
            "embedder": embedder.name if embedder else None,
        }
        with open_rollout_store(self.out, conditions) as store, progress_line(quiet=self.quiet) as show:
            judge = open_judge(self.settings, exact=self.exact, beside=self.out)
            extractor = open_extractor(self.settings, beside=self.out) if self.extract else None
            attempts = attempts_of(self.questions.cases, self.samples)
            self.rollouts = RolloutJob(
                store=store,
                attempts=attempts,
                concurrency=self.concurrency,
                seconds=self.seconds,
                retry_failed=self.retry_failed,
            )
            retrieval = self._measure_retrieval(session)
            self.rollouts.run(self._record_runs(agent, judge, extractor, session, retrieval, show))
            records = [record for attempt in attempts if (record := self.records.get(attempt.key))]
            identity = "" if extractor is None else extractor.identity
            found = self._conditions(conditions, judge.identity, identity, session, retrieval)
            return write_evaluation(self.out, found, records)

    def _measure_retrieval(self, session: Session) -> RetrievalReport:
        """Measure how well a search for the question itself finds the gold pages, for the records."""
        from vrag.evaluation.retrieval import WordLocator, evaluate_retrieval

        locate = WordLocator(session.searcher)
        return evaluate_retrieval(self.questions.cases, session.searcher, session.documents, locate=locate)

    async def _record_runs(
        self,
        agent: Agent,
        judge: IdentifiedJudge,
        extractor: Extractor | None,
        session: Session,
        retrieval: RetrievalReport,
        show: Callable[[str], None],
    ) -> None:
        """Judge and measure the stored runs and the others as they finish."""
        from vrag.datasets.registry import published_measures
        from vrag.evaluation.record import record_of
        from vrag.evaluation.relevance import DocumentNames
        from vrag.evaluation.result_store import record_rollouts
        from vrag.reward import CompositeReward

        names = DocumentNames.of(session.documents)
        searched = {score.uid: score.measures for score in retrieval.scores}

        def record(rollout: Rollout, reward: Reward | None, extraction: Extraction | None) -> CaseRecord:
            case = rollout.attempt.case
            return record_of(
                case,
                rollout.attempt.sample,
                rollout,
                reward,
                names,
                judge=self.judge,
                rule=published_measures,
                extraction=extraction,
                retrieval=searched.get(case.uid),
            )

        def add(record: CaseRecord) -> None:
            self.records[record.subject.uid, record.sample] = record
            show(self._progress_text())

        scorer = CompositeReward(judge, gate=False)
        try:
            async with aclosing(self._all_rollouts(agent)) as rollouts:
                await record_rollouts(rollouts, scorer, record, extractor=extractor, progress=add)
        finally:
            await agent.aclose()
            await scorer.aclose()
            if extractor is not None:
                await extractor.aclose()

    async def _all_rollouts(self, agent: Agent) -> AsyncGenerator[Rollout, None]:
        """Yield the stored runs, then the others as they finish, several at a time."""
        from vrag.background import run_in_thread
        from vrag.factory import agent_by_seed
        from vrag.rollouts.rollout_store import stored_rollouts

        missing = {attempt.key for attempt in self.rollouts.missing}
        stored = stored_rollouts(self.out, self.questions.cases)
        while (rollout := await run_in_thread(lambda: next(stored, None))) is not None:
            if rollout.attempt.sample < self.samples and rollout.attempt.key not in missing:
                yield rollout
        async with aclosing(self.rollouts.rollouts(agent_by_seed(self.settings, agent))) as rollouts:
            async for rollout in rollouts:
                yield rollout

    def _progress_text(self) -> str:
        from vrag.evaluation.record import CaseOutcome

        done, total = len(self.records), len(self.rollouts.attempts)
        right = sum(record.outcome is CaseOutcome.RIGHT for record in self.records.values())
        parts = [f"{done}/{total} runs", f"{right} right"]
        if (new := done - self.rollouts.before) > 0:
            parts.append(f"{duration(self.rollouts.elapsed_seconds / new * (total - done))} left")
        return " · ".join(parts)

    def _conditions(
        self,
        made_with: dict[str, Any],
        judge: str,
        extractor: str,
        session: Session,
        retrieval: RetrievalReport,
    ) -> Conditions:
        """Describe the evaluation; `judge` and `extractor` are their identities."""
        from vrag import __version__
        from vrag.evaluation.result_store import MEASURES_VERSION, Conditions, searched_for

        return Conditions(
            version=__version__,
            benchmarks=self.questions.parts,
            cases=self.questions.digest,
            samples=self.samples,
            judge=self.judge,
            judge_identity=judge,
            extractor=extractor,
            made_with=made_with,
            places=tuple(
                str(collection.home.resolve()) if collection.home else collection.address
                for collection in session.collections.values()
            ),
            retrieval={"pages": retrieval.pages, "seconds": round(retrieval.seconds, 3)},
            stopped=self.rollouts.stopped or len(self.records) < len(self.rollouts.attempts),
            asked=len(self.questions.cases),
            searched=searched_for(self.questions.cases, session.documents),
            measures=MEASURES_VERSION,
        )

    def status(self, evaluation: Evaluation) -> int:
        """Return the exit status of the process."""
        from vrag.evaluation.record import CaseOutcome

        if self.rollouts.stopped:
            return STOPPED
        unmeasured = (CaseOutcome.UNJUDGED, CaseOutcome.FAILED)
        measured = any(record.outcome not in unmeasured for record in evaluation.records)
        return DONE if measured and not self.rollouts.given_up else FAILED
