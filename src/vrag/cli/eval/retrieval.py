"""`vrag eval retrieval`: the quality of the search for known pages, without an agent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path

import typer

from vrag.cli import options as opt
from vrag.cli.eval.job import open_prepared
from vrag.cli.eval.report import interval_text
from vrag.cli.session import index_documents
from vrag.cli.terminal.console import echo, echo_problem, print_result, print_table
from vrag.cli.terminal.files import read_questions
from vrag.embed.embedder import Embedder
from vrag.embed.registry import DeferredEmbedder
from vrag.embed.similarity_map import SimilarityMatcher
from vrag.errors import CaseError, EmbedError
from vrag.evaluation.relevance import has_gold
from vrag.evaluation.retrieval import Locate, MatchLocator, RetrievalReport, WordLocator, evaluate_retrieval
from vrag.evaluation.statistics.summary import Estimate
from vrag.render.text_format import count
from vrag.search.searcher import Searcher
from vrag.settings import load_settings

GROUP_MEASURES = (
    "ndcg@5",
    "recall@1",
    "recall@10",
    "document_recall@10",
    "region_recall@5",
    "region_precision@5",
)
"""Measures that are printed for groups; --json has all."""


class By(StrEnum):
    """Groups of questions."""

    BENCHMARK = "benchmark"
    SOURCE_TYPE = "source_type"
    QUERY_TYPE = "query_type"
    DOCUMENT_TYPE = "document_type"


class Regions(StrEnum):
    """Ways to find the regions of a page."""

    WORDS = "words"
    MATCH = "match"


def retrieval(
    dataset: Path = typer.Argument(
        ...,
        metavar="PREPARED|FILE",
        help="Output folder of `vrag eval prepare`; or a file of questions with gold pages.",
    ),
    docs: list[Path] | None = typer.Option(
        None, "--docs", "-d", help="The documents; indexed first.", show_default="PREPARED/documents"
    ),
    collection: str | None = typer.Option(
        None,
        "--collection",
        "-c",
        help="Directory of the collection.",
        show_default="PREPARED/collection, or VRAG_COLLECTION",
    ),
    by: By | None = typer.Option(None, "--by", help="Also print the measures of each group of questions."),
    regions: Regions = typer.Option(
        Regions.WORDS,
        help="Find regions by the `words` of the question, or where the collection's embedder finds a "
        "`match`; this requires a multi-vector model, which runs on ten pages for each question.",
    ),
    ocr: opt.OcrOption = None,
    embedder: opt.EmbedderOption = None,
    device: opt.DeviceOption = None,
    ranking: opt.RankingOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Measure how well the search finds gold pages, documents and regions, without an agent.

    Every question is used as the query, over all documents together. Questions without a gold page are
    left out and counted.

    Pages: nDCG, recall and MRR. Documents: the share of gold documents among the first ten pages. Regions, of
    questions with gold boxes: parts of the first ten pages are ranked. region_recall@k is the share of the
    gold area that the first k parts cover, region_precision@k is the share of the covered area that is gold.
    Read both: a whole page covers all gold on it, but little of it is gold.

    The 95 % intervals are over documents; a star marks those from fewer than six, which say little.

    Examples:

      vrag eval retrieval mmlongbench --by source_type

      vrag eval retrieval rag_dataset.json --docs pdf/
    """
    if dataset.is_file():
        cases, place, paths = read_questions(dataset), collection, docs or []
        if not paths:
            raise typer.BadParameter("Name the documents of the questions.", param_hint="--docs")
    else:
        prepared = open_prepared(dataset)
        cases, place = prepared.cases(), collection or str(prepared.folder / "collection")
        paths = docs or [prepared.documents]
    report = load_settings(collection=place, ocr=ocr, embedder=embedder, device=device, ranking=ranking)
    session, indexed = index_documents(report, paths)
    if not any(map(has_gold, cases)):
        raise CaseError(f"No question in {dataset} has a gold page.", "Add gold pages: reference_page.")
    locate = _open_locator(regions, session.searcher, indexed.embedder)
    result = evaluate_retrieval(cases, session.searcher, indexed.documents, locate=locate)
    facts = result.as_dict()
    if by is not None:
        estimates = {
            label: {name: asdict(estimate) for name, estimate in measures.items()}
            for label, measures in result.estimates_by(by).items()
        }
        facts |= {"by": by.value, "estimates_by": estimates}
    print_result(facts, lambda: _print_retrieval(result, by), as_json=as_json)


def _open_locator(regions: Regions, searcher: Searcher, embedder: Embedder | None) -> Locate:

    if regions is Regions.WORDS:
        return WordLocator(searcher)
    model = embedder.open() if isinstance(embedder, DeferredEmbedder) else embedder
    if not isinstance(model, SimilarityMatcher):
        reason = (
            f"{model.name} cannot show where a page matches" if model else "The collection has no embedder"
        )
        raise EmbedError(f"{reason}.", "Index the documents with a multi-vector model: --embedder colqwen2")
    return MatchLocator(searcher, model)


def _print_retrieval(result: RetrievalReport, by: By | None) -> None:
    print_table(["figure", "value", "95 %", "questions"], _rows(result.estimates, result.estimates))
    if by is not None:
        groups = result.estimates_by(by)
        rows = [
            (label if at == 0 else "", *row)
            for label, estimates in groups.items()
            for at, row in enumerate(_rows(estimates, GROUP_MEASURES))
        ]
        if groups:
            echo()
            print_table([by.value, "figure", "value", "95 %", "questions"], rows)
            echo()
        else:
            echo(f"No question has a {by.value}.")
    questions, pages = count(len(result.scores), "question"), count(result.pages, "page")
    echo(f"{questions} over {pages} in {result.seconds:.1f} s.")
    echo(f"Left out, without a gold page: {count(result.skipped, 'question')}.")
    for name in result.missing:
        echo_problem(name, "a gold document that is not among the documents")


def _rows(estimates: Mapping[str, Estimate], names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    for name in names:
        if found := estimates.get(name):
            interval = interval_text(found.low, found.high, few=found.few)
            yield name, f"{found.mean:.3f}", interval, str(found.n)
