"""`vrag eval answers`: how many answers are right, of questions that have been answered before."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli import DONE, FAILED, STOPPED
from vrag.cli.asking import MaxSteps, TopK
from vrag.cli.display import (
    Agent,
    BaseUrl,
    Collections,
    Json,
    Model,
    duration,
    emit_json,
    plain,
    progress_line,
    say,
    show_table,
    warn,
)
from vrag.cli.paths import tell_absent
from vrag.cli.questions import read_questions
from vrag.cli.saving import STDOUT, check_out, write_file
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from vrag.agent.loop import Agent as AgentOf
    from vrag.agent.trajectory import Trajectory
    from vrag.evaluation.answers import AnswerReport, AnswerScore
    from vrag.reward import CompositeReward
    from vrag.rollouts.campaign import Campaign
    from vrag.rollouts.rollout import Attempt, Rollout
    from vrag.settings import Settings
    from vrag.types import Case

__all__ = ["answers"]


def answers(
    dataset: Path = typer.Argument(..., help="Questions with answers: JSON, JSON lines or parquet."),
    collections: list[str] | None = Collections,
    agent: str | None = Agent,
    model: str | None = Model,
    base_url: str | None = BaseUrl,
    max_steps: int | None = MaxSteps,
    top_k: int | None = TopK,
    concurrency: int = typer.Option(8, min=1, help="Questions that are asked at once."),
    blank: bool = typer.Option(False, help="Show white pictures: what is answered without looking."),
    exact: bool = typer.Option(False, help="Rules take an answer for right only word for word."),
    runs: Path | None = typer.Option(
        None, "--runs", help="Folder that keeps the runs; one that holds some is gone on with."
    ),
    retry_failed: bool = typer.Option(
        False, "--retry-failed", help="Ask the questions again whose runs there failed."
    ),
    out: str | None = typer.Option(
        None, "--out", "-o", help="File for the report as JSON, question by question; - for standard output."
    ),
    as_json: bool = Json,
) -> None:
    """Ask every question, and measure how many answers are right.

    A judge says so: the model of VRAG_JUDGE_MODEL, or rules. Gold pages that were shown count as found.
    Stopped by Ctrl-C, it tells of the questions that were answered by then. With --runs each run is on disk
    before it counts: stopped or killed, the same command goes on from there.

    Exit status: 0 measured, 1 not one question has a verdict, 2 wrong use, 130 stopped.

    Example: vrag eval answers held_out.json --collection corpus --model local:trained/model --runs runs
    """
    if retry_failed and runs is None:
        raise typer.BadParameter("no runs are kept: name their folder by --runs", param_hint="--retry-failed")
    if out is not None:
        check_out(out, as_json=as_json)
    settings = load_settings(
        collections=collections or None,
        agent=agent,
        model=model,
        base_url=base_url,
        max_steps=max_steps,
        hits=top_k,
    ).settings
    job = _Job(
        cases=read_questions(dataset),
        settings=settings,
        runs=runs,
        concurrency=concurrency,
        blank=blank,
        exact=exact,
        again=retry_failed,
    )
    report = job.run()
    if out is not None:
        write_file(out, (json.dumps(job.facts(report), indent=2, ensure_ascii=False) + "\n").encode())
    if as_json:
        emit_json(job.facts(report))
    elif out != STDOUT:
        _tell(report, job)
    raise typer.Exit(STOPPED if job.stopped else FAILED if report.unjudged == len(report.scores) else DONE)


@dataclass(kw_only=True)
class _Job:
    """Questions that are asked and judged."""

    cases: Sequence[Case]
    settings: Settings
    runs: Path | None
    """The folder that keeps them."""
    concurrency: int
    blank: bool
    exact: bool
    again: bool
    """Whether runs of that folder that failed are made again."""
    before: int = 0
    """Runs that were there."""
    stopped: bool = False
    begun: float = 0.0
    """When the first of the others began, in seconds of `time.monotonic`."""
    scores: dict[str, AnswerScore] = field(default_factory=dict[str, "AnswerScore"])

    def run(self) -> AnswerReport:
        """Makes and scores what is left, and scores what is there. Ctrl-C ends it early, with what is done.

        Raises:
            RunError: If the folder of the runs cannot be gone on with.
        """
        from vrag.assemble import made_with, open_agent, open_scorer, open_workbench
        from vrag.evaluation.blank import BlankSearcher
        from vrag.rollouts.campaign import open_campaign

        bench = open_workbench(self.settings)
        tell_absent(self.cases, bench.documents)
        searcher = BlankSearcher(bench.searcher) if self.blank else bench.searcher
        agent = open_agent(self.settings, searcher)
        kept = (
            nullcontext()
            if self.runs is None
            else open_campaign(self.runs, made_with(self.settings, agent, searcher))
        )
        with kept as campaign, progress_line() as tell:
            scorer = open_scorer(self.settings, exact=self.exact, beside=self.runs)
            return asyncio.run(self._report(agent, scorer, campaign, tell))

    def facts(self, report: AnswerReport) -> dict[str, object]:
        """The report for machines."""
        kept = {} if self.runs is None else {"runs": str(self.runs), "before": self.before}
        return {**report.as_dict(), "stopped": self.stopped, **kept}

    async def _report(
        self,
        agent: AgentOf,
        scorer: CompositeReward,
        campaign: Campaign | None,
        tell: Callable[[str], None],
    ) -> AnswerReport:
        from vrag.evaluation.answers import AnswerReport, score_answers

        def progress(score: AnswerScore) -> None:
            self.scores[score.case.uid] = score
            tell(self._line)

        try:
            async with aclosing(self._runs(agent, campaign)) as runs:
                return await score_answers(self.cases, runs, scorer, progress=progress)
        except asyncio.CancelledError:  # Ctrl-C
            self.stopped = True
            done = (self.scores[case.uid] for case in self.cases if case.uid in self.scores)
            return AnswerReport(tuple(done))
        finally:
            await agent.aclose()
            await scorer.aclose()

    @property
    def _line(self) -> str:
        """How far it is."""
        done, right = len(self.scores), sum(one.reward.correct is True for one in self.scores.values())
        parts = [f"{done}/{len(self.cases)} questions", f"{right} right"]
        if (made := done - self.before) > 0:
            left = (time.monotonic() - self.begun) / made * (len(self.cases) - done)
            parts.append(f"{duration(left)} left")
        return " · ".join(parts)

    async def _runs(
        self, agent: AgentOf, campaign: Campaign | None
    ) -> AsyncGenerator[tuple[Case, Trajectory], None]:
        """Those that are kept, then the others, several at once, as they finish."""
        from vrag.rollouts.rollout import Attempt, roll_out

        left = [Attempt(case=case, sample=0) for case in self.cases]
        if campaign is not None:
            left = list(campaign.left(left, again=self.again))
            self.before = len(self.cases) - len(left)
            async with aclosing(_stored(campaign.folder, self.cases, left)) as stored:
                async for rollout in stored:
                    yield rollout.attempt.case, rollout.trajectory
        self.begun = time.monotonic()
        rolling = roll_out(left, lambda _: agent, concurrency=self.concurrency)
        async with aclosing(rolling) as rollouts:
            async for rollout in rollouts:
                if campaign is not None:
                    await campaign.kept(rollout)
                yield rollout.attempt.case, rollout.trajectory


async def _stored(
    folder: Path, cases: Sequence[Case], left: Sequence[Attempt]
) -> AsyncGenerator[Rollout, None]:
    """The runs of a folder that need not be made, one at a time."""
    from vrag.agent.aside import aside
    from vrag.rollouts.campaign import stored_rollouts

    asked = {attempt.case.uid for attempt in left}
    stored = stored_rollouts(folder, [case for case in cases if case.uid not in asked])
    while (rollout := await aside(lambda: next(stored, None))) is not None:
        if rollout.attempt.sample == 0:
            yield rollout


def _tell(report: AnswerReport, job: _Job) -> None:
    """Prints what was measured, and why there are questions on which nothing was."""
    done, asked = len(report.scores), len(job.cases)
    if done < asked:
        on = (
            "With --runs FOLDER it could be gone on with."
            if job.runs is None
            else "The same command goes on."
        )
        warn(f"Stopped: this is of the {done} questions that were answered, not of all {asked}. {on}")
    if not report.scores:
        return
    show_table(["figure", "value"], ((name, f"{value:.3f}") for name, value in report.measures.items()))
    say(
        f"{done} questions; {report.failed} failed, {report.unjudged} without a verdict; "
        "the accuracy is of the others."
        if report.unjudged
        else f"{done} questions, all with a verdict."
    )
    for score in [one for one in report.scores if one.reward.correct is None][:3]:
        say(("  ! ", "yellow"), plain(f"{score.case.uid}: {score.failure or score.reward.why}", 300))
    if job.runs is not None:
        _tell_kept(report, job.before, job.runs)


def _tell_kept(report: AnswerReport, before: int, runs: Path) -> None:
    """Prints where the runs are, and what to do about those that failed."""
    say(f"{before} of the runs were made before. They lie in {plain(str(runs))}.")
    if report.failed:
        say("Ask those again that failed: the same command with --retry-failed.")
