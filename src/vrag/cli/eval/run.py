"""`vrag eval run`: an agent answers questions with known answers, and is measured; resumable."""

from __future__ import annotations

from pathlib import Path

import typer

from vrag.cli import options as opt
from vrag.cli.eval.job import BenchmarkJob, open_questions
from vrag.cli.eval.report import WrittenReport, print_summary, write_report
from vrag.cli.terminal.console import echo, plain, print_result, warn
from vrag.cli.terminal.progress import RESUME_NOTE
from vrag.evaluation.record import CaseOutcome
from vrag.evaluation.report.labels import judged_by_rules
from vrag.evaluation.result_store import Evaluation
from vrag.factory import open_extractor, open_judge
from vrag.render.text_format import count

OFFLINE = (
    "No model is set: the offline policy answers, the same for every agent."
    " --agent, --seed and --temperature have no effect."
)
STRICT_RULES = (
    "Judged by rules, which reject whole sentences; a reader would accept many of these answers."
    " Set a model as the judge: VRAG_JUDGE_MODEL, VRAG_JUDGE_URL."
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
    exact: bool = typer.Option(False, help="Judge by rules that accept only exact matches."),
    extract: bool = typer.Option(
        False,
        "--extract/--no-extract",
        help="Let the judge's model shorten long answers before published rules compare them.",
    ),
    retry_failed: opt.RetryFailedOption = False,
    embedder: opt.EmbedderOption = None,
    device: opt.DeviceOption = None,
    ranking: opt.RankingOption = None,
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

    Exit status: 0 measured, 1 given up or nothing could be measured, 2 wrong usage, 130 stopped.

    Examples:

      vrag eval run mmlongbench --out offline

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
        warn(OFFLINE)
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
    if job.rollouts.stopped:
        warn(f"Stopped. {RESUME_NOTE}")
    if job.rollouts.given_up:
        failures = job.rollouts.failures_in_a_row
        warn(f"Given up: the last {failures} runs failed. Fix the cause and add --retry-failed.")
    if failed := [record for record in evaluation.records if record.outcome is CaseOutcome.FAILED]:
        runs = f"{count(len(failed), 'run')} failed and {'counts' if len(failed) == 1 else 'count'} as wrong"
        warn(f"{runs}, for example: {plain(failed[0].why, 300)}")
        echo("To repeat failed runs, add --retry-failed to the same command.")
    _print_missing_verdicts(evaluation)
    before = f"{job.rollouts.before} from earlier. " if job.rollouts.before else ""
    echo(f"{count(len(evaluation.records), 'run')}. {before}The runs are in {folder}.")
    print_summary(written, command=f"vrag eval report {folder} ")
    wrong = any(record.outcome is CaseOutcome.WRONG and record.answer for record in evaluation.records)
    if wrong and judged_by_rules(evaluation.conditions):
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
