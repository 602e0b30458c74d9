"""`vrag eval run`: an agent is asked questions whose answers are known, and measured; resumable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.ask.prepare import ImageRoot, MaxSteps, TopK
from vrag.cli.eval.job import BenchmarkJob
from vrag.cli.eval.question_source import questions_at
from vrag.cli.eval.report import tell_report_of, write_report
from vrag.cli.terminal.console import (
    Agent,
    BaseUrl,
    Device,
    Embedder,
    Json,
    Model,
    RankBy,
    SearchUrl,
    emit_json,
    plain,
    say,
    warn,
)
from vrag.cli.terminal.interrupts import GOES_ON
from vrag.render.text_format import count
from vrag.settings import load_settings

if TYPE_CHECKING:
    from vrag.cli.eval.report import WrittenReport
    from vrag.evaluation.result_store import Evaluation

__all__ = ["run"]

OFFLINE = (
    "No model is named: the offline policy answers, the same for every agent;"
    " --agent, --seed and --temperature change nothing."
)
STRICT_RULES = (
    "Judged by rules, which take a whole sentence for wrong."
    " Name a model that judges: VRAG_JUDGE_MODEL, VRAG_JUDGE_URL."
)
"""A reader would take many of these answers for right."""


def run(
    asked: Path = typer.Argument(
        ..., metavar="PREPARED|FILE", help="A folder of `vrag eval prepare`, or a file of questions."
    ),
    out: Path = typer.Option(
        ..., "--out", "-o", help="Folder of the runs; one that holds some is gone on with."
    ),
    collections: list[str] | None = typer.Option(
        None, "--collection", "-c", help="Of the documents; repeatable.", show_default="PREPARED/collection"
    ),
    search_url: str | None = SearchUrl,
    image_root: str | None = ImageRoot,
    agent: str | None = Agent,
    model: str | None = Model,
    base_url: str | None = BaseUrl,
    max_steps: int | None = MaxSteps,
    top_k: int | None = TopK,
    temperature: float | None = typer.Option(
        None, min=0, max=2, help="Of sampling.", show_default="VRAG_TEMPERATURE"
    ),
    seed: int | None = typer.Option(
        None, min=0, help="Of sampling; each run gets one of its own made from it.", show_default="VRAG_SEED"
    ),
    samples: int = typer.Option(1, "--samples", "-n", min=1, help="Runs of each question."),
    limit: int | None = typer.Option(None, min=1, help="The first questions alone."),
    concurrency: int = typer.Option(8, min=1, help="Questions that are asked at once."),
    seconds: float | None = typer.Option(None, min=0.001, help="Deadline of a run.", show_default="none"),
    blank: bool = typer.Option(False, help="Show white pictures: what is answered without looking."),
    exact: bool = typer.Option(False, help="Rules take an answer for right only word for word."),
    extract: bool = typer.Option(
        False,
        "--extract/--no-extract",
        help="Have the judge's model make short answers of long ones, for published rules to compare.",
    ),
    retry_failed: bool = typer.Option(False, "--retry-failed", help="Ask those again whose runs failed."),
    embedder: str | None = Embedder,
    device: str | None = Device,
    ranking: str | None = RankBy,
    as_json: bool = Json,
) -> None:
    """Ask questions whose answers are known, judge what is said, and write a report.

    The documents of a benchmark are indexed first; a file of questions (JSON, JSON lines, parquet) is about
    collections that are there. Each run is on disk before it counts, and can be replayed: stopped or killed,
    the same command goes on from there, and tells the same in the end. A judge says what is right: the model
    of VRAG_JUDGE_MODEL, or rules; questions without a verdict are counted apart and are not wrong. What
    failed is wrong, and told with its reason. OUT/report.html tells all of it, question by question.

    With --extract the judge's model makes short answers of long ones before published rules compare them, as
    the authors of MMLongBench-Doc do.

    Exit status: 0 measured, 1 given up or nothing could be measured, 2 wrong use, 130 stopped.

    Examples of use:

      vrag eval run mmlongbench --out offline

      vrag eval run merged --out vimrag --agent vimrag --model Qwen3-VL-8B --base-url http://localhost:8002/v1

      vrag eval run held_out.json --collection corpus --out trained --model local:trained/model
    """
    from vrag.factory import open_extractor, open_judge

    questions = questions_at(asked, limit)
    report = load_settings(
        **questions.places(collections or ()),
        search_url=search_url,
        image_root=image_root,
        agent=agent,
        model=model,
        base_url=base_url,
        max_steps=max_steps,
        hits=top_k,
        temperature=temperature,
        seed=seed,
        embedder=embedder,
        device=device,
        ranking=ranking,
    )
    open_judged_by = open_extractor if extract else open_judge
    open_judged_by(report.settings)  # what is missing shows before anything is done
    job = BenchmarkJob(
        questions=questions,
        settings=report.settings,
        out=out,
        samples=samples,
        concurrency=concurrency,
        seconds=seconds,
        blank=blank,
        exact=exact,
        extract=extract,
        again=retry_failed,
        quiet=as_json,
    )
    job.check_folder()
    if not report.settings.model:
        warn(OFFLINE)
    session = questions.session(report)
    done = job.run(session)
    written = write_report(done, out, session)
    if as_json:
        emit_json(_facts(job, written))
    else:
        _tell(job, done)
        tell_report_of(written, again=f"vrag eval report {plain(str(out))} ")
        _tell_judge(done)
    raise typer.Exit(job.status(done))


def _facts(job: BenchmarkJob, written: WrittenReport) -> dict[str, object]:
    """What was measured, for machines."""
    told = {"folder": str(job.out), "before": job.before, "stopped": job.stopped, "given_up": job.given_up}
    return {**told, "files": list(map(str, written.files)), **written.summary}


def _tell(job: BenchmarkJob, done: Evaluation) -> None:
    """Prints how far it came, and where the runs are."""
    from vrag.evaluation.record import CaseOutcome

    if job.stopped:
        warn(f"Stopped. {GOES_ON}")
    if job.given_up:
        warn(f"Given up: the last {job.in_a_row} runs all failed. Mend that and add --retry-failed.")
    if failed := [record for record in done.records if record.outcome is CaseOutcome.FAILED]:
        told = f"{count(len(failed), 'run')} failed, and {'counts' if len(failed) == 1 else 'count'} as wrong"
        warn(f"{told}, such as: {plain(failed[0].why, 300)}")
        say("Ask those again: the same command with --retry-failed.")
    _tell_gaps(done)
    before = f"{job.before} from earlier. " if job.before else ""
    say(f"{count(len(done.records), 'run')}. {before}They lie in {plain(str(job.out))}.")


def _tell_judge(done: Evaluation) -> None:
    """Prints why answers may be wrong that people take for right."""
    from vrag.evaluation.record import CaseOutcome
    from vrag.evaluation.report.run_facts import judged_by_rules

    wrong = any(record.outcome is CaseOutcome.WRONG and record.answer for record in done.records)
    if wrong and judged_by_rules(done.conditions):
        say(STRICT_RULES)


def _tell_gaps(done: Evaluation) -> None:
    """Prints what the judge's model did not say, and why."""
    from vrag.evaluation.record import CaseOutcome

    unjudged = [record.why for record in done.records if record.outcome is CaseOutcome.UNJUDGED]
    given = (record.extracted for record in done.records)
    unmeasured = [one.why for one in given if one is not None and one.answer is None]
    if unjudged:
        warn(f"{count(len(unjudged), 'answer')} without a verdict, such as: {plain(unjudged[0], 300)}")
    if unmeasured:
        told = f"{count(len(unmeasured), 'answer')} without a short one, such as: {plain(unmeasured[0], 300)}"
        warn(told)
    if unjudged or unmeasured:
        say("The same command asks the judge's model for these again.")
