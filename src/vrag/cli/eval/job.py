"""The work of `vrag eval run`: questions of a prepared benchmark or a file, asked, judged and measured."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import typer

from vrag import __version__
from vrag.agent.agent import Agent
from vrag.background import run_in_thread
from vrag.cli.session import index_documents
from vrag.cli.terminal.console import duration, warn
from vrag.cli.terminal.files import read_questions, warn_missing_documents
from vrag.cli.terminal.process import DONE, FAILED, STOPPED
from vrag.cli.terminal.progress import progress_line
from vrag.datasets.registry import published_measures
from vrag.errors import CaseError, CollectionError, RunError, SearchError
from vrag.evaluation.answer_extraction import Extractor
from vrag.evaluation.fact_judge import FactJudge
from vrag.evaluation.measures.docscope import cited_facts
from vrag.evaluation.prepare import ABOUT, CASES, LOCK, Prepared, PreparedPart, read_prepared
from vrag.evaluation.record import CaseOutcome, CaseRecord, Extraction, record_of
from vrag.evaluation.relevance import DocumentNames
from vrag.evaluation.result_store import (
    MEASURES_VERSION,
    Conditions,
    Evaluation,
    record_rollouts,
    searched_for,
    write_evaluation,
)
from vrag.evaluation.retrieval import BlankSearcher, RetrievalReport, WordLocator, evaluate_retrieval
from vrag.factory.agents import agent_by_seed, open_agent
from vrag.factory.session import Session, open_session
from vrag.factory.training import made_with, open_extractor, open_fact_judge, open_judge
from vrag.reward import CompositeReward, Reward
from vrag.reward.reward import IdentifiedJudge
from vrag.rollouts.batched_search import BatchedSearcher
from vrag.rollouts.rollout import Rollout, attempts_of
from vrag.rollouts.rollout_store import RolloutJob, check_rollout_folder, open_rollout_store, stored_rollouts
from vrag.search.searcher import ItemStore
from vrag.settings import Settings, SettingsReport
from vrag.text.numerals import count
from vrag.types import Case, Item


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSource:
    """Questions with their answers, and their documents."""

    cases: tuple[Case, ...]
    parts: tuple[PreparedPart, ...]
    """The benchmarks of the questions."""
    digest: str
    """SHA-256 of their file."""
    documents: Path | None
    """Folder of their documents, to be indexed; None if a collection has them."""

    def collection_settings(self, named: Sequence[str]) -> dict[str, Any]:
        """Return the settings that name the collections: those of the user, or the benchmark's own."""
        if self.documents is None:
            return {"collections": tuple(named) or None}
        if len(named) > 1:
            message = "A benchmark is indexed into one collection. Name only one."
            raise typer.BadParameter(message, param_hint="--collection")
        return {"collection": named[0] if named else str(self.documents.parent / "collection")}

    def open_session(self, report: SettingsReport) -> Session:
        """Open what searches the documents; index those of a benchmark first, unless a server has them."""
        if self.documents is None or report.settings.search_url:
            session = open_session(report.settings)
        else:
            session, _ = index_documents(report, [self.documents])
            names = {path.name for path in self.documents.iterdir()}
            others = sum(each.items > 0 and each.name not in names for each in session.documents)
            if others:
                warn(f"The search also covers {count(others, 'document')} that no question is about.")
        warn_missing_documents(self.cases, session.documents)
        return session


def open_questions(path: Path, limit: int | None) -> QuestionSource:
    """Read the first `limit` questions of a prepared folder, or of a file."""
    if path.is_file():
        cases, file, documents = tuple(read_questions(path, limit)), path, None
        part = PreparedPart(
            name="",
            title=path.name,
            licence="",
            source=str(path),
            split=None,
            cases=len(cases),
            documents=len({case.file_name for case in cases}),
            measures=(),
            notes=(),
        )
        parts: tuple[PreparedPart, ...] = (part,)
    else:
        prepared = open_prepared(path)
        cases, file, documents = tuple(prepared.cases()[:limit]), path / CASES, prepared.documents
        parts = prepared.parts
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return QuestionSource(cases=cases, parts=parts, digest=digest, documents=documents)


def open_prepared(path: Path) -> Prepared:
    """Read the benchmark of a prepared folder."""
    if not path.exists():
        hint = "Name a folder made by `vrag eval prepare`, or a file of questions."
        raise CaseError(f"{path} does not exist.", hint)
    if not any((path / name).exists() for name in (ABOUT, LOCK)):
        hint = f"Prepare it: vrag eval prepare dataset={path} --out PREPARED"
        raise CaseError(f"{path} is not a prepared benchmark.", hint)
    return read_prepared(path)


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
    records: dict[tuple[str, int], CaseRecord] = field(default_factory=dict[tuple[str, int], CaseRecord])

    @property
    def judge(self) -> str:
        """The name of the judge."""
        return self.settings.judge_model or ("rules, numbers exact" if self.exact else "rules")

    def check_folder(self) -> None:
        """Refuse a folder of something else, before documents are indexed."""
        if self.out.exists() and not self.out.is_dir():
            raise RunError(f"{self.out} is not a directory.", "Choose another folder.")
        try:
            check_rollout_folder(self.out)
        except OSError as error:
            message = f"{self.out} cannot be read: {error.strerror or error}."
            raise RunError(message, "Choose another folder.") from error

    def run(self, session: Session) -> Evaluation:
        """Make the missing runs, and record all. Ctrl-C ends it early, with what is finished."""
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
            show(f"0/{len(attempts)} runs")  # the first run ends later, and searches come before it
            self.rollouts = RolloutJob(
                store=store,
                attempts=attempts,
                concurrency=self.concurrency,
                seconds=self.seconds,
                retry_failed=self.retry_failed,
            )
            retrieval = evaluate_retrieval(  # how well a search for the question itself finds the gold pages
                self.questions.cases,
                session.searcher,
                session.documents,
                locate=WordLocator(session.searcher),
            )
            self.rollouts.run(self._record_runs(agent, judge, extractor, session, retrieval, show))
            records = [record for attempt in attempts if (record := self.records.get(attempt.key))]
            identity = "" if extractor is None else extractor.identity
            found = self._conditions(conditions, judge.identity, identity, session, retrieval)
            return write_evaluation(self.out, found, records)

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
        names = DocumentNames.of(session.documents)
        searched = {score.uid: score.measures for score in retrieval.scores}

        def record(
            rollout: Rollout,
            reward: Reward | None,
            extraction: Extraction | None,
            facts: Sequence[bool] | None,
        ) -> CaseRecord:
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
                items=partial(_find_item, session.searcher),
                facts=facts,
            )

        def add(record: CaseRecord) -> None:
            self.records[record.subject.uid, record.sample] = record
            show(self._progress_text())

        async def judge_facts(rollout: Rollout) -> Sequence[bool] | None:
            assert fact_judge is not None
            pages = cited_facts(rollout.attempt.case, rollout.trajectory, names)
            return await fact_judge.judge(rollout.attempt.case.query, pages)

        scorer = CompositeReward(judge, gate=False)
        fact_judge = self._open_fact_judge()
        try:
            async with aclosing(self._all_rollouts(agent)) as rollouts:
                await record_rollouts(
                    rollouts,
                    scorer,
                    record,
                    extractor=extractor,
                    judge_facts=None if fact_judge is None else judge_facts,
                    progress=add,
                )
        finally:
            await agent.aclose()
            await scorer.aclose()
            for model in (extractor, fact_judge):
                if model is not None:
                    await model.aclose()

    async def _all_rollouts(self, agent: Agent) -> AsyncGenerator[Rollout, None]:
        """Yield the stored runs, then the others as they finish, several at a time."""
        missing = {attempt.key for attempt in self.rollouts.missing}
        stored = stored_rollouts(self.out, self.questions.cases)
        while (rollout := await run_in_thread(lambda: next(stored, None))) is not None:
            if rollout.attempt.sample < self.samples and rollout.attempt.key not in missing:
                yield rollout
        async with aclosing(self.rollouts.rollouts(agent_by_seed(self.settings, agent))) as rollouts:
            async for rollout in rollouts:
                yield rollout

    def _open_fact_judge(self) -> FactJudge | None:
        """Open the judge of gold facts; None without a judge model, or a case with facts."""
        if not self.settings.judge_model or not any(case.facts for case in self.questions.cases):
            return None
        return open_fact_judge(self.settings, beside=self.out)

    def _progress_text(self) -> str:
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
        if self.rollouts.stopped:
            return STOPPED
        unmeasured = (CaseOutcome.UNJUDGED, CaseOutcome.FAILED)
        measured = any(record.outcome not in unmeasured for record in evaluation.records)
        return DONE if measured and not self.rollouts.given_up else FAILED


def _find_item(store: ItemStore, id: str) -> Item | None:
    """Return the item with an id; None where there is none or it cannot be read."""
    try:
        return store.item(id)
    except (SearchError, CollectionError):
        return None
