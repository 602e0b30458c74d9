"""`vrag eval run` and `vrag eval retrieval`: answers and search, measured on questions with known answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path

import typer

from vrag.cli import options as opt
from vrag.cli.eval.job import BenchmarkJob, open_prepared, open_questions
from vrag.cli.eval.report import WrittenReport, interval_text, print_summary, write_report
from vrag.cli.session import ask_about_family, index_documents
from vrag.cli.terminal.console import echo, echo_problem, plain, print_result, print_table, warn
from vrag.cli.terminal.files import read_questions
from vrag.cli.terminal.help import common_options
from vrag.cli.terminal.progress import warn_of_early_end
from vrag.embed.embedder import Embedder
from vrag.embed.registry import DeferredEmbedder
from vrag.embed.similarity_map import SimilarityMatcher
from vrag.errors import CaseError, EmbedError
from vrag.evaluation.record import CaseOutcome
from vrag.evaluation.relevance import has_gold
from vrag.evaluation.report.labels import judged_by_rules
from vrag.evaluation.result_store import Evaluation
from vrag.evaluation.retrieval import Locate, MatchLocator, RetrievalReport, WordLocator, evaluate_retrieval
from vrag.evaluation.summary import Estimate
from vrag.factory.training import open_extractor, open_judge
from vrag.search.searcher import Searcher
from vrag.settings import load_settings
from vrag.text.numerals import count

NO_MODEL_NOTE = (
    "No model is set: questions are answered without a model. --seed and --temperature have no effect."
)
MIN_SENTENCE_WORDS = 6
"""Words from which a wrong answer may be a sentence with the right one in it."""
STRICT_RULES = (
    "Judged by rules, which reject whole sentences; a reader would accept many of these answers."
    " Set a model as the judge: VRAG_JUDGE_MODEL, VRAG_JUDGE_URL."
)
GROUP_MEASURES = (
    "ndcg@5",
    "recall@1",
    "recall@10",
    "document_recall@10",
    "region_recall@5",
    "region_precision@5",
)
"""Measures that are printed for groups; --json has all."""


@common_options(
    "out", "questions", "collections", "agent", "model", "base_url", "limit", "concurrency", "as_json"
)
def run(
    out: opt.RunsOutOption,
    questions: Path = typer.Argument(
        ..., metavar="PREPARED|FILE", help="Output folder of `vrag eval prepare`, or a file of questions."
    ),
    collections: list[str] | None = typer.Option(
        None,
        "--collection",
        "-c",
        help="Collection of the documents; repeatable.",
        show_default="PREPARED/collection",
    ),
    search_url: opt.SearchUrlOption = None,
    image_root: opt.ImageRootOption = None,
    agent: opt.AgentOption = None,
    model: opt.ModelOption = None,
    base_url: opt.BaseUrlOption = None,
    max_steps: opt.MaxStepsOption = None,
    hits: opt.TopKOption = None,
    temperature: float | None = typer.Option(
        None, min=0, max=2, help="Sampling temperature.", show_default="VRAG_TEMPERATURE"
    ),
    seed: int | None = typer.Option(
        None, min=0, help="Random seed; each run gets its own seed derived from it.", show_default="VRAG_SEED"
    ),
    samples: int = typer.Option(1, "--samples", "-n", min=1, help="Number of runs per question."),
    limit: int | None = typer.Option(None, min=1, help="Ask only the first questions."),
    concurrency: int = typer.Option(8, min=1, help="Number of questions asked at a time."),
    seconds: float | None = typer.Option(
        None, min=0.001, help="Time limit of a run, in seconds.", show_default="none"
    ),
    blank: bool = typer.Option(False, help="Show blank pictures: measures answers without looking."),
    exact: bool = typer.Option(False, help="Judge by rules: a number must stand alone and is not rounded."),
    extract: bool = typer.Option(
        False,
        "--extract/--no-extract",
        help="Let the judge's model shorten long answers before published rules compare them.",
    ),
    retry_failed: opt.RetryFailedOption = False,
    embedder: opt.EmbedderOption = None,
    device: opt.DeviceOption = None,
    ranking: opt.RankingOption = None,
    wait: opt.WaitOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Ask questions with known answers, judge the answers, and write a report.

    The documents of a benchmark are indexed first; a file of questions (JSON, JSON lines, parquet) uses
    existing collections. Each run is stored before it counts, and can be replayed; after the command was
    stopped or killed, the same command continues, with the same result in the end. The judge is the model
    VRAG_JUDGE_MODEL, or rules. Failed runs count as wrong; questions without a verdict are counted
    separately. OUT/report.html shows the results question by question.

    With --extract the judge's model shortens long answers before published rules compare them, as
    the authors of MMLongBench-Doc do.

    Exit status: 0 measured, 1 given up or nothing could be measured, 2 wrong usage, 4 another process is
    writing to the collection, 130 stopped.

    Examples:

      vrag eval run mmlongbench --out no-model

      vrag eval run merged --out vimrag --agent vimrag --model Qwen3-VL-8B --base-url http://localhost:8002/v1

      vrag eval run held_out.json --collection corpus --out trained --model local:trained/model
    """
    flags = locals()
    source = open_questions(questions, limit)
    report = opt.load_flags(flags | {"collections": None} | source.collection_settings(collections or ()))
    open_model = open_extractor if extract else open_judge
    open_model(report.settings)  # reports missing settings before any work is done
    job = BenchmarkJob(
        questions=source,
        settings=report.settings,
        out=out,
        samples=samples,
        concurrency=concurrency,
        seconds=seconds,
        blank=blank,
        exact=exact,
        extract=extract,
        retry_failed=retry_failed,
        quiet=as_json,
    )
    job.check_folder()
    if not report.settings.model:
        warn(NO_MODEL_NOTE)
    ask_about_family(report.settings)
    session = source.open_session(report)
    evaluation = job.run(session)
    written = write_report(evaluation, out, session)
    facts = {
        "folder": str(out),
        "before": job.rollouts.before,
        "stopped": job.rollouts.stopped,
        "given_up": job.rollouts.given_up,
        "files": list(map(str, written.files)),
        **written.summary,
    }
    print_result(facts, lambda: _print_evaluation(job, evaluation, written), as_json=as_json)
    raise typer.Exit(job.status(evaluation))


def _print_evaluation(job: BenchmarkJob, evaluation: Evaluation, written: WrittenReport) -> None:
    """Print how far the work is, what failed, the measures, and where the runs are."""
    folder = plain(str(job.out))
    warn_of_early_end(job.rollouts, "runs", " and add --retry-failed")
    if failed := [record for record in evaluation.records if record.outcome is CaseOutcome.FAILED]:
        runs = f"{count(len(failed), 'run')} failed and {'counts' if len(failed) == 1 else 'count'} as wrong"
        warn(f"{runs}, for example: {plain(failed[0].why, 300)}")
        echo("To repeat failed runs, add --retry-failed to the same command.")
    _print_missing_verdicts(evaluation)
    before = f"{job.rollouts.before} from earlier. " if job.rollouts.before else ""
    echo(f"{count(len(evaluation.records), 'run')}. {before}The runs are in {folder}.")
    print_summary(written, command=f"vrag eval report {folder} ")
    wrong = [record for record in evaluation.records if record.outcome is CaseOutcome.WRONG]
    sentences = sum(len((record.answer or "").split()) >= MIN_SENTENCE_WORDS for record in wrong)
    if 2 * sentences >= len(wrong) > 0 and judged_by_rules(evaluation.conditions):
        echo(STRICT_RULES)


def _print_missing_verdicts(evaluation: Evaluation) -> None:
    """Print how many answers the judge's model did not judge or shorten, and why."""
    unjudged = [record.why for record in evaluation.records if record.outcome is CaseOutcome.UNJUDGED]
    extractions = (record.extracted for record in evaluation.records)
    unshortened = [each.why for each in extractions if each is not None and each.answer is None]
    for reasons, missing in ((unjudged, "a verdict"), (unshortened, "a short answer")):
        if reasons:
            answers = count(len(reasons), "answer")
            warn(f"{answers} without {missing}, for example: {plain(reasons[0], 300)}")
    if unjudged or unshortened:
        echo("Run the same command to ask the judge's model again.")


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


@common_options("docs", "collection", "by", "embedder", "as_json")
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
        estimates: dict[str, object] = {}
        for label, measures in result.estimates_by(by).items():
            estimates[label] = {name: asdict(each) for name, each in measures.items()}
        facts |= {"by": by.value, "estimates_by": estimates}
    print_result(facts, lambda: _print_retrieval(result, by), as_json=as_json)


def _open_locator(regions: Regions, searcher: Searcher, embedder: Embedder | None) -> Locate:
    if regions is Regions.WORDS:
        return WordLocator(searcher)
    model = embedder.open() if isinstance(embedder, DeferredEmbedder) else embedder
    if isinstance(model, SimilarityMatcher):
        return MatchLocator(searcher, model)
    reason = f"{model.name} cannot show where a page matches" if model else "The collection has no embedder"
    raise EmbedError(f"{reason}.", "Index the documents with a multi-vector model: --embedder colqwen2")


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
