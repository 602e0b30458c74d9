"""Sampling: experts answer questions whose answers are known, and a judge scores the answers.

Each attempt is an ordinary recorded run of VRAG in the one environment. A case is over when it has a
record; everything before that may be interrupted at any moment and is resumed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from vrag.agent.actions import ABSTENTION
from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import RunFailed
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.prompts import material
from vrag.agent.runs.run_store import StoredRun
from vrag.cases.annotations import gold_documents, gold_pages, is_gold
from vrag.chat.messages import ChatMessage, ChatText
from vrag.distill.expert_messages import read_score
from vrag.distill.experts import Experts, consult, prompt
from vrag.distill.policy import ExpertPolicy
from vrag.distill.sample_store import (
    ExpertUsage,
    Sample,
    SampleAttempt,
    SampleOutcome,
    SampleWriter,
    is_complete,
)
from vrag.distill.select import cited_evidence
from vrag.errors import ModelError, SampleError, VragError
from vrag.model_profiles import Profile
from vrag.search.searcher import ForwardedItems, Searcher
from vrag.types import Case, Hit, Query

log = logging.getLogger("vrag.distill")
MAX_INTERRUPTIONS = 10
"""Attempts of a case that may be interrupted; after that the case is at fault: it may exhaust the machine."""


class OracleSearcher(ForwardedItems):
    """The searcher of one case: its gold pages come first among the hits.

    The environment shows the first hit that was not shown yet. So that is a gold page when an unseen one
    was found, else the best of the others. No hit is added, and each keeps its score and its rank.
    """

    def __init__(self, searcher: Searcher, case: Case) -> None:
        self._searcher = self._items = searcher
        self._case = case

    @property
    def version(self) -> str:
        """The version of the collection and of the order: equal versions find the same hits."""
        gold = json.dumps([self._case.file_name, self._case.reference_page]).encode()
        return f"{self._searcher.version}+gold-{sha256(gold).hexdigest()[:12]}"

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Search; gold pages come first, others in the order found. See `Searcher.search`."""
        found = self._searcher.search(queries, top_k)
        return [sorted(hits, key=lambda hit: not is_gold(hit, self._case)) for hits in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertSampling:
    """The options of sampling."""

    searcher: Searcher
    experts: Experts
    learner: Profile
    """The family of the model that learns: the images that it sees, and how it writes boxes."""
    documents: frozenset[str] | None = None
    """Ids of the documents that may be searched; None for all."""
    oracle: bool = True
    """True if a search shows an unseen gold page, when it found one."""
    hits: int = 10
    steps: int = 10
    """Maximum of turns of a run, replies that the environment refused included."""
    attempts: int = 3
    """Maximum of runs of a case that fail; then the case has failed. The judge is asked as often."""
    concurrency: int = 4
    """Cases at once."""
    seconds: float = 1800.0
    """Of a run."""
    give_up: int = 20
    """Cases in a row that fail before sampling ends: then it is not the cases."""

    @property
    def made_with(self) -> dict[str, Any]:
        """The JSON values that all samples of one set share; the numbers of attempts may change."""
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
    """The progress of sampling."""

    cases: int
    """Of the data set."""
    before: int
    """Cases that were over before."""
    outcomes: dict[str, int]
    """Cases by outcome, those before included."""
    experts: dict[str, ExpertUsage]
    """The calls of this process to each expert, by its role."""

    @property
    def over(self) -> int:
        """The number of cases that are over."""
        return sum(self.outcomes.values())


async def sample_cases(
    cases: Sequence[Case],
    sampling: ExpertSampling,
    writer: SampleWriter,
    report: Callable[[SamplingProgress], None] = lambda _: None,
) -> SamplingProgress:
    """Sample every case that has no record; `report` is called whenever a case is over.

    Raises `SampleError` if a record is of another question, the disk refuses, or the experts fail case after
    case. What was finished is kept.
    """
    _check_records(cases, writer)
    uids = {case.uid for case in cases}
    before = len(uids & writer.records.keys())
    usage: dict[str, ExpertUsage] = {}
    waiting = iter([case for case in cases if case.uid not in writer.records])
    failed_in_a_row = 0

    def progress() -> SamplingProgress:
        outcomes = dict.fromkeys(map(str, SampleOutcome), 0)
        for record in writer.records.values():
            outcomes[record.outcome] += record.uid in uids
        return SamplingProgress(cases=len(cases), before=before, outcomes=outcomes, experts=dict(usage))

    async def sample_waiting() -> None:
        """Keep the records of cases, and end everything where no case succeeds."""
        nonlocal failed_in_a_row
        for case in waiting:
            trial = _Trial(case, sampling, writer)
            try:
                sample = await trial.sample()
            finally:
                for role, used in trial.usage.items():
                    usage.setdefault(role, ExpertUsage(model=used.model)).add(used)
            writer.finish(sample)
            report(progress())
            if sample.attempts or sample.outcome is not SampleOutcome.FAILED:  # else no expert was asked
                failed_in_a_row = failed_in_a_row + 1 if sample.outcome is SampleOutcome.FAILED else 0
            if failed_in_a_row >= sampling.give_up:
                raise SampleError(
                    f"{failed_in_a_row} cases in a row failed; the last: {sample.why}",
                    "Fix the cause, then sample again with --retry-failed.",
                )

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(sampling.concurrency):
                group.create_task(sample_waiting())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        await sampling.experts.aclose()
    return progress()


def _check_records(cases: Sequence[Case], writer: SampleWriter) -> None:
    """Raise `SampleError` if a record is of another question than its case."""
    for case in cases:
        record = writer.records.get(case.uid)
        if record and (record.query, record.reference_answer) != (case.query, case.reference_answer):
            raise SampleError(
                f"The case {case.uid!r} was sampled with another question or reference.",
                "Use another --out for another data set.",
            )


@dataclass(slots=True)
class _Trial:
    """A case while it is tried, until it has a score, or no more attempts."""

    case: Case
    sampling: ExpertSampling
    writer: SampleWriter
    usage: dict[str, ExpertUsage] = field(default_factory=dict[str, ExpertUsage])
    attempts: list[SampleAttempt] = field(default_factory=list[SampleAttempt])

    async def sample(self) -> Sample:
        """Return the record of the case."""
        if not self.case.reference_answer.strip():
            return self._record(None, why="It has no reference answer to be scored by.")
        run = self.writer.finished_run(self.case.uid)
        interrupted = 0
        started = [] if run else self.writer.started.get(self.case.uid, [])
        for id in started:  # by processes that were killed
            earlier = self.writer.read(id)
            if earlier is not None and earlier.has_end:
                self.attempts.append(SampleAttempt(run=id, reason=_describe_failure(earlier)))
            else:
                self.attempts.append(SampleAttempt(run=id, reason="The process was stopped."))
                interrupted = min(interrupted + 1, MAX_INTERRUPTIONS)
        while run is None and len(self.attempts) < self.sampling.attempts + interrupted:
            run = await self._run()
        if run is None:
            return self._record(None, why=self.attempts[-1].reason)
        return await self._score_run(run)

    async def _run(self) -> StoredRun | None:
        """Make one attempt; None where it failed."""
        sampling = self.sampling
        searcher = OracleSearcher(sampling.searcher, self.case) if sampling.oracle else sampling.searcher
        options = EnvironmentOptions(hits=sampling.hits, documents=sampling.documents)
        policy = ExpertPolicy(sampling.experts, sampling.learner, sampling.steps, self.usage)
        limits = Limits(steps=sampling.steps, seconds=sampling.seconds)
        environment = Environment(searcher, sampling.learner, options)
        agent = Agent(policy, environment, VragMethod(repair=False), limits, locate=False)
        with self.writer.store.runs.record() as recording:
            self.writer.start(self.case.uid, recording.id)
            events = agent.arecord(self.case.query, recording)
            try:
                async with aclosing(events):
                    async for _ in events:
                        pass
            except VragError:  # a run records its own errors; this one is the disk's
                raise
            except Exception as error:  # a bug fails this case only
                log.debug("A run of the case %s failed.", self.case.uid, exc_info=True)
                reason = f"{type(error).__name__}: {error}"
                self.attempts.append(SampleAttempt(run=recording.id, reason=reason))
                return None
        run = self.writer.store.runs.read(recording.id)
        if is_complete(run):
            return run
        self.attempts.append(SampleAttempt(run=run.id, reason=_describe_failure(run)))
        return None

    async def _score_run(self, run: StoredRun) -> Sample:
        case, answer, reason = self.case, run.result.answer or ABSTENTION, ""
        facts = {"question": case.query, "reference": case.reference_answer, "answer": answer}
        text = material(json.dumps(facts, ensure_ascii=False, indent=1))  # data of the prompt
        system = ChatMessage("system", (ChatText(prompt("judge.md")),))
        messages = [system, ChatMessage("user", (ChatText(text),))]
        judge = self.sampling.experts.judge
        usage = self.usage.setdefault(judge.role, ExpertUsage(model=judge.model.name))
        for _ in range(self.sampling.attempts):
            try:
                score = await consult(judge, messages, read_score, usage)
            except ModelError as error:
                reason = str(error)
                self.attempts.append(SampleAttempt(run=run.id, reason=reason))
            else:
                return self._record(run, score=score.score, why=score.why)
        return self._record(run, why=reason)

    def _record(self, run: StoredRun | None, *, score: int | None = None, why: str) -> Sample:
        last = self.attempts[-1].run if self.attempts else None
        return Sample(
            uid=self.case.uid,
            query=self.case.query,
            reference_answer=self.case.reference_answer,
            outcome=SampleOutcome.FAILED if score is None else SampleOutcome.SCORED,
            run=run.id if run else last,
            score=score,
            why=why,
            cites_gold=_cites_gold(run, self.case) if run else None,
            attempts=tuple(self.attempts),
            experts={
                expert.role: self.usage[expert.role]
                for expert in self.sampling.experts.all
                if expert.role in self.usage
            },
        )


def _cites_gold(run: StoredRun, case: Case) -> bool | None:
    """Check whether the answer of a run cites a gold page; None without an answer, and without gold."""
    pages, documents = gold_pages(case), gold_documents(case)
    if run.result.answer is None or not (pages or documents):
        return None
    cited = cited_evidence(run)
    return any(place.document in documents or (place.document, place.page) in pages for place in cited)


def _describe_failure(run: StoredRun) -> str:
    """Describe why a run has no answer."""
    end = run.events[-1]
    if isinstance(end, RunFailed):
        return end.message
    reason = run.result.stop_reason
    return f"The run ended without an answer: {(reason or 'unknown').replace('_', ' ')}."
