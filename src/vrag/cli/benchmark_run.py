"""`vrag eval run`: an agent is asked a benchmark's questions, and measured; resumable."""

from __future__ import annotations

import asyncio
import hashlib
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli import DONE, FAILED, STOPPED
from vrag.cli.asking import MaxSteps, TopK
from vrag.cli.benchmark_report import Written, tell_report_of, write_report
from vrag.cli.display import (
    Agent,
    BaseUrl,
    Device,
    Embedder,
    Json,
    Model,
    RankBy,
    add_progress,
    duration,
    emit_json,
    plain,
    progress_line,
    say,
    tell_report,
    warn,
)
from vrag.cli.stopping import GOES_ON
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

    from vrag.agent.loop import Agent as AgentOf
    from vrag.assemble import Workbench
    from vrag.evaluation.names import Names
    from vrag.evaluation.preparing import Prepared
    from vrag.evaluation.record import Record
    from vrag.evaluation.running import Conditions, Evaluation
    from vrag.reward import CompositeReward, Reward
    from vrag.rollouts.campaign import Campaign
    from vrag.rollouts.rollout import Attempt, Rollout
    from vrag.settings import Settings, SettingsReport
    from vrag.types import Case

__all__ = ["run"]


def run(
    prepared: Path = typer.Argument(..., help="A folder of `vrag eval prepare`."),
    out: Path = typer.Option(
        ..., "--out", "-o", help="Folder of the runs; one that holds some is gone on with."
    ),
    collection: str | None = typer.Option(
        None, "--collection", "-c", help="Collection of the documents.", show_default="PREPARED/collection"
    ),
    agent: str | None = Agent,
    model: str | None = Model,
    base_url: str | None = BaseUrl,
    max_steps: int | None = MaxSteps,
    top_k: int | None = TopK,
    temperature: float | None = typer.Option(
        None, min=0, max=2, help="Of sampling.", show_default="VRAG_TEMPERATURE"
    ),
    samples: int = typer.Option(1, "--samples", "-n", min=1, help="Runs of each question."),
    limit: int | None = typer.Option(None, min=1, help="The first questions alone."),
    concurrency: int = typer.Option(8, min=1, help="Questions that are asked at once."),
    seconds: float | None = typer.Option(None, min=0.001, help="Deadline of a run.", show_default="none"),
    blank: bool = typer.Option(False, help="Show white pictures: what is answered without looking."),
    exact: bool = typer.Option(False, help="Rules take an answer for right only word for word."),
    retry_failed: bool = typer.Option(False, "--retry-failed", help="Ask those again whose runs failed."),
    embedder: str | None = Embedder,
    device: str | None = Device,
    ranking: str | None = RankBy,
    as_json: bool = Json,
) -> None:
    """Ask a benchmark's questions, judge the answers, and write a report.

    The documents are indexed first. Each run is on disk before it counts, and can be replayed: stopped or
    killed, the same command goes on from there, and tells the same in the end. A judge says what is right:
    the model of VRAG_JUDGE_MODEL, or rules; questions without a verdict are counted apart and are not wrong.
    What failed is wrong, and told with its reason. OUT/report.html tells all of it, question by question.

    Exit status: 0 measured, 1 not one question has a verdict, 2 wrong use, 130 stopped.

    Examples of use:

      vrag eval run mmlongbench --out offline

      vrag eval run merged --out vimrag --agent vimrag --model Qwen3-VL-8B --base-url http://localhost:8002/v1
    """
    from vrag.evaluation.preparing import read_prepared

    folder = read_prepared(prepared)
    report = load_settings(
        collection=collection or str(prepared / "collection"),
        agent=agent,
        model=model,
        base_url=base_url,
        max_steps=max_steps,
        hits=top_k,
        temperature=temperature,
        embedder=embedder,
        device=device,
        ranking=ranking,
    )
    job = _Job(
        prepared=folder,
        cases=folder.cases()[:limit],
        settings=report.settings.model_copy(update={"collections": ()}),
        out=out,
        samples=samples,
        concurrency=concurrency,
        seconds=seconds,
        blank=blank,
        exact=exact,
        again=retry_failed,
        quiet=as_json,
    )
    bench = _indexed(report, folder)
    done = job.run(bench)
    written = write_report(done, out, bench)
    if as_json:
        emit_json(job.facts(written))
    else:
        _tell(job, done)
        tell_report_of(written)
    raise typer.Exit(job.status(done))


def _indexed(report: SettingsReport, prepared: Prepared) -> Workbench:
    """The documents of a benchmark, ready to be searched; what is indexed already is not indexed again."""
    from vrag.assemble import open_for_adding, open_workbench
    from vrag.index.build import add

    opened, options, model = open_for_adding(report)
    with add_progress() as progress:
        done = add(opened, [prepared.documents], options, embedder=model, progress=progress)
    tell_report(done, quiet_when_unchanged=True)
    bench = open_workbench(report.settings.model_copy(update={"collections": ()}), model)
    if others := _others(bench, prepared):
        warn(f"{others} documents of the collection are of no question here, and are searched as well.")
    return bench


def _others(bench: Workbench, prepared: Prepared) -> int:
    """How many documents that can be found are not of the benchmark, such as those of an earlier one."""
    names = {path.name for path in prepared.documents.iterdir()}
    return sum(document.items > 0 and document.name not in names for document in bench.documents)


@dataclass(kw_only=True)
class _Job:
    """Questions that are asked, judged and measured."""

    prepared: Prepared
    cases: Sequence[Case]
    settings: Settings
    out: Path
    samples: int
    concurrency: int
    seconds: float | None
    blank: bool
    exact: bool
    again: bool
    quiet: bool
    before: int = 0
    """Runs that were there."""
    stopped: bool = False
    begun: float = 0.0
    """When the first of the others began, in seconds of `time.monotonic`."""
    made: dict[tuple[str, int], Record] = field(default_factory=dict[tuple[str, int], "Record"])

    def run(self, bench: Workbench) -> Evaluation:
        """Makes what is left, and records all. Ctrl-C ends it early, with what is done.

        Raises:
            RunError: If the folder cannot be gone on with.
        """
        from vrag.assemble import made_with, open_agent, open_judge
        from vrag.evaluation.blank import BlankSearcher
        from vrag.evaluation.names import Names
        from vrag.evaluation.running import write_evaluation
        from vrag.reward import CompositeReward
        from vrag.rollouts.campaign import open_campaign
        from vrag.rollouts.searching import GatheredSearcher

        searcher = BlankSearcher(bench.searcher) if self.blank else bench.searcher
        agent = open_agent(self.settings, GatheredSearcher(searcher))
        conditions = {
            **made_with(self.settings, agent, searcher),
            "cases": self.digest,
            "deadline": self.seconds,
        }
        with open_campaign(self.out, conditions) as campaign, progress_line(quiet=self.quiet) as tell:
            found = self._found(bench)
            recorder = _Recorder(self, Names.of(bench.documents), found)
            scorer = CompositeReward(open_judge(self.settings, exact=self.exact, beside=self.out), gate=False)
            asyncio.run(self._work(agent, scorer, campaign, recorder, tell))
            ordered = [self.made[key] for key in self._keys() if key in self.made]
            return write_evaluation(self.out, self._conditions(conditions), ordered)

    @property
    def digest(self) -> str:
        """SHA-256 of the questions as they were prepared."""
        from vrag.evaluation.preparing import CASES

        return hashlib.sha256((self.prepared.folder / CASES).read_bytes()).hexdigest()

    def status(self, done: Evaluation) -> int:
        """Of the process."""
        from vrag.evaluation.record import Outcome

        if self.stopped:
            return STOPPED
        judged = any(record.outcome is not Outcome.UNJUDGED for record in done.records)
        return DONE if judged else FAILED

    def facts(self, written: Written) -> dict[str, object]:
        """What was measured, for machines."""
        told = {"folder": str(self.out), "before": self.before, "stopped": self.stopped}
        return {**told, "files": list(map(str, written.files)), **written.summary}

    def _attempts(self) -> Iterator[Attempt]:
        from vrag.rollouts.rollout import Attempt

        return (Attempt(case=case, sample=sample) for case in self.cases for sample in range(self.samples))

    def _keys(self) -> Iterator[tuple[str, int]]:
        return ((attempt.case.uid, attempt.sample) for attempt in self._attempts())

    async def _work(
        self,
        agent: AgentOf,
        scorer: CompositeReward,
        campaign: Campaign,
        recorder: _Recorder,
        tell: Callable[[str], None],
    ) -> None:
        from vrag.evaluation.running import record_rollouts

        def progress(record: Record) -> None:
            self.made[record.subject.uid, record.sample] = record
            tell(self._line)

        try:
            async with aclosing(self._rollouts(agent, campaign)) as rollouts:
                await record_rollouts(rollouts, scorer, recorder.record, progress=progress)
        except asyncio.CancelledError:  # Ctrl-C
            self.stopped = True
        finally:
            await agent.aclose()
            await scorer.aclose()

    async def _rollouts(self, agent: AgentOf, campaign: Campaign) -> AsyncGenerator[Rollout, None]:
        """Those that are kept, then the others, several at once, as they finish."""
        from vrag.rollouts.rollout import roll_out

        left = list(campaign.left(self._attempts(), again=self.again))
        keys = {(attempt.case.uid, attempt.sample) for attempt in left}
        self.before = len(self.cases) * self.samples - len(left)
        async with aclosing(_stored(campaign.folder, self.cases, self.samples)) as stored:
            async for rollout in stored:
                if (rollout.attempt.case.uid, rollout.attempt.sample) not in keys:
                    yield rollout
        self.begun = time.monotonic()
        rolling = roll_out(left, lambda _: agent, concurrency=self.concurrency, seconds=self.seconds)
        async with aclosing(rolling) as rollouts:
            async for rollout in rollouts:
                await campaign.kept(rollout)
                yield rollout

    @property
    def _line(self) -> str:
        """How far it is."""
        from vrag.evaluation.record import Outcome

        done, asked = len(self.made), len(self.cases) * self.samples
        right = sum(record.outcome is Outcome.RIGHT for record in self.made.values())
        parts = [f"{done}/{asked} runs", f"{right} right"]
        if (new := done - self.before) > 0:
            left = (time.monotonic() - self.begun) / new * (asked - done)
            parts.append(f"{duration(left)} left")
        return " · ".join(parts)

    def _found(self, bench: Workbench) -> dict[str, dict[str, float]]:
        """How well the search by the question alone finds the gold pages, by uid."""
        from vrag.evaluation.retrieval import evaluate_retrieval

        result = evaluate_retrieval(self.cases, bench.searcher, bench.documents)
        return {score.uid: dict(score.measures) for score in result.scores}

    def _conditions(self, made_with: dict[str, Any]) -> Conditions:
        from vrag import __version__
        from vrag.evaluation.running import Conditions

        return Conditions(
            version=__version__,
            benchmarks=self.prepared.parts,
            cases=self.digest,
            samples=self.samples,
            judge=self.judge,
            made_with=made_with,
            stopped=self.stopped or len(self.made) < len(self.cases) * self.samples,
        )

    @property
    def judge(self) -> str:
        """Who says what is right."""
        return self.settings.judge_model or ("rules, word for word" if self.exact else "rules")


@dataclass(frozen=True)
class _Recorder:
    """Makes records of runs and what they earned."""

    job: _Job
    names: Names
    found: dict[str, dict[str, float]]
    """Measures of the search by the question, by uid."""

    def record(self, rollout: Rollout, reward: Reward | None) -> Record:
        """The record of a run."""
        from vrag.evaluation.recording import record_of

        attempt = rollout.attempt
        return record_of(
            attempt.case,
            attempt.sample,
            rollout,
            reward,
            self.names,
            judge=self.job.judge,
            rule=_scores,
            retrieval=self.found.get(attempt.case.uid, {}),
        )


def _scores(case: Case, answer: str | None) -> dict[str, float]:
    """What the published rules say: those that fit any answer, and that of the benchmark."""
    from vrag.evaluation.rules import RULES
    from vrag.types import AnswerFormat

    formatted = "mmlongbench" if case.answer_format is not AnswerFormat.UNKNOWN else ""
    names = dict.fromkeys(("squad", "anls", formatted, case.benchmark))
    told = (RULES[name](case, answer) for name in names if name in RULES)
    return {name: value for measures in told for name, value in measures.items()}


async def _stored(folder: Path, cases: Sequence[Case], samples: int) -> AsyncGenerator[Rollout, None]:
    """The runs of a folder that are asked for, one at a time."""
    from vrag.agent.aside import aside
    from vrag.rollouts.campaign import stored_rollouts

    stored = stored_rollouts(folder, cases)
    while (rollout := await aside(lambda: next(stored, None))) is not None:
        if rollout.attempt.sample < samples:
            yield rollout


def _tell(job: _Job, done: Evaluation) -> None:
    """Prints the headline, and where the report is."""
    if job.stopped:
        warn(f"Stopped after {len(done.records)} of {len(job.cases) * job.samples} runs. {GOES_ON}")
    say(f"{job.before} of the runs were made before. They lie in {plain(str(job.out))}.")
