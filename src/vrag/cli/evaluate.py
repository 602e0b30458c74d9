"""`vrag eval`: how good the search is on questions whose pages are known."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
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
    emit_json,
    plain,
    say,
    show_table,
    tell_report,
)
from vrag.cli.paths import nothing_read
from vrag.errors import CaseError
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from vrag.agent.loop import Agent as AgentOf
    from vrag.agent.trajectory import Trajectory
    from vrag.evaluation.answers import AnswerReport
    from vrag.types import Case

__all__ = ["app"]

app = typer.Typer(help="Measure on questions whose answers are known.", no_args_is_help=True)


@app.callback()
def evaluate() -> None:
    """Measure on questions whose answers are known."""


@app.command()
def retrieval(
    dataset: Path = typer.Argument(..., help="Questions with gold pages, in the dataset JSON format."),
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
    from vrag.cases import read_cases
    from vrag.evaluation.retrieval import evaluate_retrieval
    from vrag.index.build import add

    cases = read_cases(dataset)
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
    dataset: Path = typer.Argument(..., help="Questions with reference answers, in the dataset JSON format."),
    collections: list[str] | None = Collections,
    agent: str | None = Agent,
    model: str | None = Model,
    base_url: str | None = BaseUrl,
    max_steps: int | None = MaxSteps,
    top_k: int | None = TopK,
    concurrency: int = typer.Option(8, min=1, help="Questions that are asked at once."),
    blank: bool = typer.Option(False, help="Show white pictures: what is answered without looking."),
    exact: bool = typer.Option(False, help="Rules take an answer for right only word for word."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="File for the report as JSON, question by question."
    ),
    as_json: bool = Json,
) -> None:
    """Ask every question, and measure how many answers are right.

    A judge says so: the model of VRAG_JUDGE_MODEL, or rules. Gold pages that were shown count as found.

    Example: vrag eval answers held_out.json --collection corpus --model local:trained/model
    """
    from vrag.assemble import open_agent, open_scorer, open_workbench
    from vrag.cases import read_cases
    from vrag.evaluation.answers import score_answers
    from vrag.evaluation.blank import BlankSearcher

    cases = read_cases(dataset)
    settings = load_settings(
        collections=tuple(collections) if collections else None,
        agent=agent,
        model=model,
        base_url=base_url,
        max_steps=max_steps,
        hits=top_k,
    ).settings
    searcher = open_workbench(settings).searcher
    asked = open_agent(settings, BlankSearcher(searcher) if blank else searcher)
    scorer = open_scorer(settings, exact=exact)

    async def measured() -> AnswerReport:
        try:
            return await score_answers(cases, _runs(asked, cases, concurrency), scorer)
        finally:
            await asked.aclose()

    report = asyncio.run(measured())
    if out is not None:
        out.write_text(json.dumps(report.as_dict(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if as_json:
        emit_json(report.as_dict())
        return
    show_table(["figure", "value"], ((name, f"{value:.3f}") for name, value in report.measures.items()))
    told = report.as_dict()
    say(f"{len(report.scores)} questions; {told['failed']} failed, {told['unjudged']} without a verdict.")


async def _runs(
    agent: AgentOf, cases: Sequence[Case], concurrency: int
) -> AsyncGenerator[tuple[Case, Trajectory], None]:
    """All questions, several at once, as they finish."""
    from vrag.rl.rollout import Attempt, roll_out

    attempts = (Attempt(case=case, sample=0) for case in cases)
    async with aclosing(roll_out(attempts, lambda _: agent, concurrency=concurrency)) as rollouts:
        async for rollout in rollouts:
            yield rollout.attempt.case, rollout.trajectory
