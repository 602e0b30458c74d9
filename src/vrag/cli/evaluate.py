"""`vrag eval`: how good the search is, and the answers, on questions that have been answered before."""

from __future__ import annotations

from pathlib import Path

import typer

from vrag.cli.answers import answers
from vrag.cli.benchmark_report import compare, report, table
from vrag.cli.benchmark_run import run
from vrag.cli.benchmarking import benchmark_list, prepare
from vrag.cli.display import (
    Collection,
    Device,
    Embedder,
    Json,
    RankBy,
    add_progress,
    emit_json,
    plain,
    say,
    show_table,
    tell_report,
)
from vrag.cli.paths import nothing_read
from vrag.cli.questions import read_questions
from vrag.errors import CaseError
from vrag.settings import load_settings

__all__ = ["app"]

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
    from vrag.evaluation.gold import has_gold
    from vrag.evaluation.retrieval import evaluate_retrieval
    from vrag.index.build import add

    cases = read_questions(dataset)
    asked = load_settings(collection=collection, ocr=ocr, embedder=embedder, device=device, ranking=ranking)
    opened, options, model = open_for_adding(asked)
    with add_progress() as progress:
        done = add(opened, docs, options, embedder=model, progress=progress)
    tell_report(done, quiet_when_unchanged=True)
    bench = open_workbench(asked.settings.model_copy(update={"collections": ()}), model)
    documents = documents_under(opened, docs)
    if not documents:
        raise nothing_read(docs)
    if not any(map(has_gold, cases)):
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


app.command("answers")(answers)
app.command("list")(benchmark_list)
app.command("prepare")(prepare)
app.command("run")(run)
app.command("report")(report)
app.command("compare")(compare)
app.command("table")(table)
