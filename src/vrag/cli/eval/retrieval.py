"""`vrag eval retrieval`: how well the search finds what questions are about, without asking an agent."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from vrag.cli.eval.question_source import index_documents, prepared_at
from vrag.cli.terminal.console import Device, Embedder, Json, RankBy, emit_json, plain, say, show_table
from vrag.cli.terminal.questions import read_questions
from vrag.errors import CaseError, EmbedError
from vrag.render.text_format import count
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vrag.cli.eval.question_source import Indexed
    from vrag.evaluation.region_search import Locate
    from vrag.evaluation.retrieval import RetrievalReport
    from vrag.evaluation.statistics.summary import Estimate
    from vrag.types import Case

__all__ = ["retrieval"]

SHOWN = ("ndcg@5", "recall@1", "recall@10", "document_recall@10", "region_recall@5", "region_precision@5")
"""Measures that are told of groups; --json tells all."""


class By(StrEnum):
    """What a question is grouped by."""

    BENCHMARK = "benchmark"
    SOURCE_TYPE = "source_type"
    QUERY_TYPE = "query_type"
    DOCUMENT_TYPE = "document_type"


class Regions(StrEnum):
    """What says where on a page to look."""

    WORDS = "words"
    MATCH = "match"


class _RetrievalTask(NamedTuple):
    """What to measure on."""

    cases: list[Case]
    docs: list[Path]
    collection: str | None


def retrieval(
    dataset: Path = typer.Argument(
        ...,
        metavar="PREPARED|FILE",
        help="A folder of `vrag eval prepare`; or questions with gold pages: JSON, JSON lines or parquet.",
    ),
    docs: list[Path] | None = typer.Option(
        None,
        "--docs",
        "-d",
        help="The documents; indexed if they are not yet.",
        show_default="PREPARED/documents",
    ),
    collection: str | None = typer.Option(
        None,
        "--collection",
        "-c",
        help="Directory of the collection.",
        show_default="PREPARED/collection, or VRAG_COLLECTION",
    ),
    by: By | None = typer.Option(None, "--by", help="Tell it of each kind of question as well."),
    regions: Regions = typer.Option(
        Regions.WORDS,
        help="What says where on a page to look: the `words`, or where the collection's embedder finds a "
        "`match`. That takes a model of many vectors, and runs it on ten pages for each question.",
    ),
    ocr: bool | None = typer.Option(None, "--ocr/--no-ocr", help="Read pages without text by OCR."),
    embedder: str | None = Embedder,
    device: str | None = Device,
    ranking: str | None = RankBy,
    as_json: bool = Json,
) -> None:
    """Measure how well the search finds gold pages, documents and regions. No agent is asked.

    Each question is searched for word for word, in all documents together. Questions without a gold page are
    left out and counted.

    Pages: nDCG, recall and MRR. Documents: the share of the gold ones among the first ten pages. Regions, of
    questions with gold boxes: parts of the first ten pages are ranked. region_recall@k is the share of the
    gold area that the first k parts cover, region_precision@k the share of what they cover that is gold. A
    whole page covers all gold on it, but little of it is gold: read both.

    The intervals are of 95 %, over documents; a star marks those of fewer than six, which say little.

    Examples of use:

      vrag eval retrieval mmlongbench --by source_type

      vrag eval retrieval rag_dataset.json --docs pdf/
    """
    from vrag.evaluation.relevance import has_gold
    from vrag.evaluation.retrieval import evaluate_retrieval

    asked = _asked(dataset, docs or [], collection)
    report = load_settings(
        collection=asked.collection, ocr=ocr, embedder=embedder, device=device, ranking=ranking
    )
    indexed = index_documents(report, asked.docs)
    if not any(map(has_gold, asked.cases)):
        raise CaseError(f"No question in {dataset} has a gold page.", "Nothing can be measured without.")
    locate = _locate(regions, indexed)
    result = evaluate_retrieval(asked.cases, indexed.session.searcher, indexed.documents, locate=locate)
    if as_json:
        emit_json(result.as_dict() | _groups_told(result, by))
    else:
        _tell(result, by)


def _asked(dataset: Path, docs: list[Path], collection: str | None) -> _RetrievalTask:
    if not dataset.is_file():
        prepared = prepared_at(dataset)
        place = collection or str(prepared.folder / "collection")
        return _RetrievalTask(prepared.cases(), docs or [prepared.documents], place)
    cases = read_questions(dataset)
    if not docs:
        raise typer.BadParameter("Name the documents that the questions are about.", param_hint="--docs")
    return _RetrievalTask(cases, docs, collection)


def _locate(by: Regions, indexed: Indexed) -> Locate:
    from vrag.embed.registry import DeferredEmbedder
    from vrag.embed.similarity_map import SimilarityMatcher
    from vrag.evaluation.region_search import MatchLocator, WordLocator

    if by is Regions.WORDS:
        return WordLocator(indexed.session.searcher)
    model = indexed.embedder
    opened = model.open() if isinstance(model, DeferredEmbedder) else model
    if not isinstance(opened, SimilarityMatcher):
        what = (
            f"{opened.name} cannot say where a page matched" if opened else "The collection has no embedder"
        )
        raise EmbedError(f"{what}.", "Index the documents with a model of many vectors: --embedder colqwen2")
    return MatchLocator(indexed.session.searcher, opened)


def _groups_told(result: RetrievalReport, by: By | None) -> dict[str, object]:
    """The estimates of groups, for JSON."""
    from dataclasses import asdict

    if by is None:
        return {}
    told = {
        label: {name: asdict(estimate) for name, estimate in estimates.items()}
        for label, estimates in result.estimates_by(by).items()
    }
    return {"by": by.value, "estimates_by": told}


def _tell(result: RetrievalReport, by: By | None) -> None:
    show_table(["figure", "value", "95 %", "questions"], _rows(result.estimates))
    if by is not None:
        _tell_groups(result, by)
    asked, pages = count(len(result.scores), "question"), count(result.pages, "page")
    say(f"{asked} over {pages} in {result.seconds:.1f} s.")
    say(f"Left out, without a gold page: {count(result.skipped, 'question')}.")
    for name in result.missing:
        say(("  ! ", "yellow"), f"{plain(name)} is a gold document and is not among the documents.")


def _tell_groups(result: RetrievalReport, by: By) -> None:
    groups = result.estimates_by(by)
    if not groups:
        say(f"No question says its {by.value}.")
        return
    say()
    rows = [
        (label if at == 0 else "", *row)
        for label, estimates in groups.items()
        for at, row in enumerate(_rows(estimates, SHOWN))
    ]
    show_table([by.value, "figure", "value", "95 %", "questions"], rows)
    say()


def _rows(estimates: Mapping[str, Estimate], names: Sequence[str] = ()) -> Iterator[tuple[str, ...]]:
    """A row for each measure: all of them, or those named."""
    chosen: Iterable[str] = names or estimates
    for name in chosen:
        if one := estimates.get(name):
            yield name, f"{one.mean:.3f}", _spread(one), str(one.n)


def _spread(one: Estimate) -> str:
    if one.low is None or one.high is None:
        return ""
    return f"{one.low:.3f} – {one.high:.3f}{'*' if one.few else ''}"
