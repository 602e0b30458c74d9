"""`vrag eval`: how good the search is, and the answers, on questions that have been answered before."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.asking import MaxSteps, TopK
from vrag.cli.display import (
    Agent,
    BaseUrl,
    Collection,
    Collections,
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
    show_table,
    tell_report,
    warn,
)
from vrag.cli.paths import nothing_read, tell_absent
from vrag.cli.questions import read_questions
from vrag.cli.saving import STDOUT, check_out, write_file
from vrag.errors import CaseError
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from vrag.agent.loop import Agent as AgentOf
    from vrag.agent.trajectory import Trajectory
    from vrag.evaluation.answers import AnswerReport, AnswerScore
    from vrag.reward import Scorer
    from vrag.types import Case

__all__ = ["app"]

DONE, FAILED, STOPPED = 0, 1, 130

app = typer.Typer(help="Measure on questions whose answers are known.", no_args_is_help=True)


@app.callback()
def evaluate() -> None:
    """Measure on questions whose answers are known."""


@app.command()
def retrieval(
    dataset: Path = typer.Argument(..., help="Questions with gold pages: JSON, JSON lines or parquet."),
    docs: list[Path] = typer.Option(..., "--docs", "-d", help="The documents; indexed if they are not yet."),
    collection: str | None = Collection,
    ocr: bool | None = typer.Option(None, "--ocr/--no-ocr", help="Read pages without text by OCR."),
    embedder: str | None = Embedder,
    device: str | None = Device,
    ranking: str | None = RankBy,
    as_json: bool = Json,
) -> None:
    """Measure nDCG, recall and MRR of the search over a folder of documents.

    All documents are searched together. Questions without a gold page are left out and counted.

    Example: vrag eval retrieval rag_dataset.json --docs pdf/
    """
    from vrag.assemble import documents_under, open_for_adding, open_workbench
    from vrag.evaluation.retrieval import evaluate_retrieval
    from vrag.index.build import add

    cases = read_questions(dataset)
    report = load_settings(collection=collection, ocr=ocr, embedder=embedder, device=device, ranking=ranking)
    opened, options, model = open_for_adding(report)
    with add_progress() as progress:
        done = add(opened, docs, options, embedder=model, progress=progress)
    tell_report(done, quiet_when_unchanged=True)
    bench = open_workbench(report.settings.model_copy(update={"collections": ()}), model)
    documents = documents_under(opened, docs)
    if not documents:
        raise nothing_read(docs)
    if not any(case.reference_page for case in cases):
        raise CaseError(f"No question in {dataset} has a gold page.", "Nothing can be measured without.")
    result = evaluate_retrieval(cases, bench.searcher, documents)
    if as_json:
        emit_json(result.as_dict())
        return
    show_table(["figure", "value"], ((name, f"{value:.3f}") for name, value in result.measures.items()))
    say(f"{len(result.scores)} questions over {result.pages} pages in {result.seconds:.1f} s.")
    say(f"{result.skipped} questions have no gold page and were left out.")
    for name in result.missing:
        say(("  ! ", "yellow"), f"{plain(name)} is a gold document and is not among the documents.")


@app.command()
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
    out: str | None = typer.Option(
        None, "--out", "-o", help="File for the report as JSON, question by question; - for standard output."
    ),
    as_json: bool = Json,
) -> None:
    """Ask every question, and measure how many answers are right.

    A judge says so: the model of VRAG_JUDGE_MODEL, or rules. Gold pages that were shown count as found.
    Stopped by Ctrl-C, it tells of the questions that were answered by then.

    Exit status: 0 measured, 1 not one question has a verdict, 2 wrong use, 130 stopped.

    Example: vrag eval answers held_out.json --collection corpus --model local:trained/model
    """
    from vrag.assemble import open_agent, open_scorer, open_workbench
    from vrag.evaluation.blank import BlankSearcher

    if out is not None:
        check_out(out, as_json=as_json)
    cases = read_questions(dataset)
    settings = load_settings(
        collections=tuple(collections) if collections else None,
        agent=agent,
        model=model,
        base_url=base_url,
        max_steps=max_steps,
        hits=top_k,
    ).settings
    bench = open_workbench(settings)
    tell_absent(cases, bench.documents)
    searcher = bench.searcher
    asked = open_agent(settings, BlankSearcher(searcher) if blank else searcher)
    job = _Job(cases, asked, open_scorer(settings, exact=exact), concurrency)
    with progress_line() as tell:
        report = asyncio.run(job.report(tell))
    facts = {**report.as_dict(), "stopped": job.stopped}
    if out is not None:
        write_file(out, (json.dumps(facts, indent=2, ensure_ascii=False) + "\n").encode())
    if as_json:
        emit_json(facts)
    elif out != STDOUT:
        _tell(report, len(cases))
    raise typer.Exit(STOPPED if job.stopped else FAILED if report.unjudged == len(report.scores) else DONE)


@dataclass
class _Job:
    """Questions that are asked and judged."""

    cases: Sequence[Case]
    agent: AgentOf
    scorer: Scorer
    concurrency: int
    stopped: bool = False
    begun: float = field(default_factory=time.monotonic)
    scores: dict[str, AnswerScore] = field(default_factory=dict[str, "AnswerScore"])

    async def report(self, tell: Callable[[str], None]) -> AnswerReport:
        """Asks them; ends early, with what is done, at Ctrl-C."""
        from vrag.evaluation.answers import AnswerReport, score_answers

        def progress(score: AnswerScore) -> None:
            self.scores[score.case.uid] = score
            tell(self._line)

        try:
            return await score_answers(self.cases, self._runs(), self.scorer, progress=progress)
        except asyncio.CancelledError:  # Ctrl-C
            self.stopped = True
            done = (self.scores[case.uid] for case in self.cases if case.uid in self.scores)
            return AnswerReport(tuple(done))
        finally:
            await self.agent.aclose()

    @property
    def _line(self) -> str:
        """How far it is."""
        done, right = len(self.scores), sum(one.reward.correct is True for one in self.scores.values())
        left = (time.monotonic() - self.begun) / done * (len(self.cases) - done)
        return f"{done}/{len(self.cases)} questions · {right} right · {duration(left)} left"

    async def _runs(self) -> AsyncGenerator[tuple[Case, Trajectory], None]:
        """All questions, several at once, as they finish."""
        from vrag.rl.rollout import Attempt, roll_out

        attempts = (Attempt(case=case, sample=0) for case in self.cases)
        rolling = roll_out(attempts, lambda _: self.agent, concurrency=self.concurrency)
        async with aclosing(rolling) as rollouts:
            async for rollout in rollouts:
                yield rollout.attempt.case, rollout.trajectory


def _tell(report: AnswerReport, asked: int) -> None:
    """Prints what was measured, and why there are questions on which nothing was."""
    if len(report.scores) < asked:
        warn(
            f"Stopped: this is of the {len(report.scores)} questions that were answered, not of all {asked}."
        )
    if not report.scores:
        return
    show_table(["figure", "value"], ((name, f"{value:.3f}") for name, value in report.measures.items()))
    say(
        f"{len(report.scores)} questions; {report.failed} failed, {report.unjudged} without a verdict; "
        "the accuracy is of the others."
        if report.unjudged
        else f"{len(report.scores)} questions, all with a verdict."
    )
    for score in [one for one in report.scores if one.reward.correct is None][:3]:
        say(("  ! ", "yellow"), plain(f"{score.case.uid}: {score.failure or score.reward.why}", 300))
