"""`vrag train rollout`: many rollouts of a served model, in a resumable folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

from vrag.cli import options as opt
from vrag.cli.terminal.console import duration, echo, plain, print_result, print_table, warn
from vrag.cli.terminal.files import read_questions, warn_missing_documents
from vrag.cli.terminal.process import DONE, FAILED, STOPPED
from vrag.cli.terminal.progress import RESUME_NOTE, progress_line
from vrag.factory import agent_by_seed, made_with, open_agent, open_session
from vrag.rollouts.batched_search import BatchedSearcher
from vrag.rollouts.job import RolloutJob
from vrag.rollouts.rollout import attempts_of
from vrag.rollouts.rollout_store import open_rollout_store


def rollout(
    out: opt.RunsOutOption,
    dataset: Path = typer.Argument(..., metavar="CASES", help="Questions: JSON, JSON lines or parquet."),
    samples: int = typer.Option(5, "--samples", "-n", min=1, help="Rollouts per question."),
    agent: opt.AgentOption = None,
    model: opt.ModelOption = None,
    base_url: opt.BaseUrlOption = None,
    collections: opt.CollectionsOption = None,
    search_url: opt.SearchUrlOption = None,
    image_root: opt.ImageRootOption = None,
    max_steps: opt.MaxStepsOption = None,
    hits: opt.TopKOption = None,
    max_tokens: int | None = typer.Option(
        None, min=1, help="Maximum tokens per reply.", show_default="VRAG_MAX_TOKENS"
    ),
    temperature: float = typer.Option(1.0, min=0, max=2, help="Sampling temperature."),
    seed: int | None = typer.Option(
        None, help="Random seed; each rollout gets its own seed derived from it.", show_default="VRAG_SEED"
    ),
    concurrency: int = typer.Option(64, min=1, max=4096, help="Maximum rollouts at a time."),
    seconds: float = typer.Option(300.0, min=0.001, help="Time limit of a rollout, in seconds."),
    retry_failed: opt.RetryFailedOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Roll out every question several times with a served model.

    Rollouts advance independently, each as fast as its model calls and searches; simultaneous searches are
    batched. The server is asked for token ids and log-probabilities, which training requires. A failed
    rollout is recorded with its reason. You can stop at any time: the same command continues, no
    recorded rollout is lost, and none is repeated.

    Exit status: 0 all done, 1 given up or every rollout in the folder failed, 2 wrong usage, 130 stopped.

    Examples:

      vrag train rollout questions.json --out rollouts --model Qwen2.5-VL-7B --base-url http://localhost:8002/v1

      vrag train rollout questions.json --out rollouts --samples 8 --concurrency 128 --retry-failed
    """
    settings = opt.load_flags(locals(), token_details=True, model_requests=concurrency).settings
    cases = read_questions(dataset)
    session = open_session(settings)
    warn_missing_documents(cases, session.documents)
    session.warm_up()
    runner = open_agent(settings, BatchedSearcher(session.searcher))
    with open_rollout_store(out, made_with(settings, runner, session.searcher)) as store:
        job = RolloutJob(
            store=store,
            attempts=attempts_of(cases, samples),
            concurrency=concurrency,
            seconds=seconds,
            retry_failed=retry_failed,
        )

        async def make_rollouts(show: Callable[[str], None]) -> None:
            try:
                await job.make_all(agent_by_seed(settings, runner), lambda: show(progress_text(job)))
            finally:
                await runner.aclose()

        with progress_line(quiet=as_json) as show:
            job.run(make_rollouts(show))
    facts = {
        "folder": str(out),
        "attempts": len(job.attempts),
        "done": job.before + job.made,
        "made": job.made,
        "failed": dict(job.failures.most_common()),
        "failed_before": job.failed_before,
        "examples": job.examples,
        "steps": job.steps,
        "tokens": job.tokens,
        "seconds": round(job.elapsed_seconds, 3),
        "stopped": job.stopped,
        "given_up": job.given_up,
    }
    print_result(facts, lambda: _print_summary(job, bool(settings.model)), as_json=as_json)
    all_failed = job.failed_before + job.failures.total() == job.before + job.made
    raise typer.Exit(STOPPED if job.stopped else FAILED if job.given_up or all_failed else DONE)


def progress_text(job: RolloutJob) -> str:
    """Describe how far the rollouts are, in one line."""
    done, total = job.before + job.made, len(job.attempts)
    seconds = max(job.elapsed_seconds, 1e-9)
    rate = job.made / seconds
    parts = [f"{done}/{total} rollouts"]
    if job.made:
        parts.append(f"{rate:.2f}/s" if rate >= 0.1 else f"{60 * rate:.1f}/min")
    if job.tokens:
        parts.append(f"{job.tokens / seconds:,.0f} tokens/s")
    if job.failures:
        parts.append(f"{job.failures.total()} failed")
    if job.made and done < total:
        parts.append(f"{duration((total - done) / rate)} left")
    return " · ".join(parts)


def _print_summary(job: RolloutJob, by_model: bool) -> None:
    """Print what was made, why others failed, and how to continue."""
    if job.stopped:
        warn(f"Stopped. {RESUME_NOTE}")
    made = f"{job.made} rollouts made in {duration(job.elapsed_seconds)}"
    echo(f"{made}: {progress_text(job)}. They are in {plain(str(job.store.folder))}.")
    if job.failed_before:
        warn(f"{job.failed_before} earlier rollouts failed. Repeat them with --retry-failed.")
    if job.failures:
        rows = [(reason, str(n), job.examples[reason]) for reason, n in job.failures.most_common()]
        print_table(("failed", "times", "for example"), rows)
        echo("To repeat failed rollouts, add --retry-failed to the same command.")
    if job.given_up:
        failures = job.failures_in_a_row
        warn(f"Given up: the last {failures} rollouts failed. Fix the cause and add --retry-failed.")
    if by_model and job.steps and not job.tokens:
        warn("The server reported no token ids, which training requires. vLLM and SGLang report them.")
