"""`vrag train`: models learn to search, look and answer; tiny models, rollouts and curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import typer

from vrag.cli import options as opt
from vrag.cli.session import ask_about_family
from vrag.cli.terminal import files
from vrag.cli.terminal.console import (
    duration,
    echo,
    plain,
    print_json,
    print_result,
    print_table,
    quote_argument,
    warn,
)
from vrag.cli.terminal.files import STDOUT, read_questions
from vrag.cli.terminal.help import common_options
from vrag.cli.terminal.process import DONE, FAILED, STOPPED
from vrag.cli.terminal.progress import note_on_interrupt, progress_line, warn_of_early_end
from vrag.cli.train import local, verl
from vrag.cli.train.show import show
from vrag.factory.agents import agent_by_seed, open_agent
from vrag.factory.session import open_session
from vrag.factory.training import made_with, settings_to_train
from vrag.rollouts.batched_search import BatchedSearcher
from vrag.rollouts.rollout import attempts_of
from vrag.rollouts.rollout_store import RolloutJob, open_rollout_store

app = typer.Typer(help="Train a model to search, look and answer.", no_args_is_help=True)
local_app = typer.Typer(
    help="Train a small model in this process, on a CPU or one GPU.", no_args_is_help=True
)


@app.command("make-tiny")
def make_tiny(
    folder: Path = typer.Argument(..., help="Output folder of the checkpoint; must not exist."),
    cases: list[Path] = typer.Option(
        ..., "--cases", help="Data set or .txt file whose words become the vocabulary; repeatable."
    ),
    family: str = typer.Option("qwen3-vl", help="Model family: qwen3-vl or qwen2.5-vl."),
    hidden: int = typer.Option(64, help="Width of the language model, a multiple of 32."),
    layers: int = typer.Option(2, min=1, help="Number of layers of the language model."),
    picture_tokens: int = typer.Option(4, min=1, help="Visual tokens per picture."),
    seed: int = typer.Option(0, min=0, help="Random seed of the weights."),
    as_json: opt.JsonOption = False,
) -> None:
    """Make a tiny Qwen-VL model with random weights and its own tokenizer, to train on one CPU core.

    Example: vrag train make-tiny tiny --cases corpus/train.json --cases corpus/held_out.json
    """
    from vrag.rl.tiny import TinyOptions
    from vrag.rl.tiny import make_tiny as make

    words = [text for path in cases for text in _read_texts(path)]
    options = TinyOptions(
        family=family, hidden=hidden, layers=layers, picture_tokens=picture_tokens, seed=seed
    )
    with note_on_interrupt("No checkpoint was made."):
        profile = make(folder, words, options)
    size = sum(path.stat().st_size for path in folder.iterdir())

    def render() -> None:
        echo(("Made", "bold"), f" {plain(str(folder))}, a random {family} of {size / 1e6:.1f} MB.")
        echo("Next, teach it: vrag train local sft RUNS --model", f" {plain(quote_argument(str(folder)))} …")

    print_result({"folder": str(folder), "profile": profile.name, "bytes": size}, render, as_json=as_json)


def _read_texts(path: Path) -> list[str]:
    """Read the questions and answers of a data set, or the lines of a text."""
    from vrag.errors import CaseError

    if path.suffix == ".txt":
        try:
            return path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise CaseError(f"{path} cannot be read: {error}.") from error
    return [text for case in read_questions(path) for text in (case.query, case.reference_answer)]


@app.command()
def plot(
    runs: list[Path] = typer.Argument(
        ..., metavar="RUN...", help="Output folders of training, or their metrics.jsonl; one colour each."
    ),
    out: str = typer.Option("curves.svg", "--out", "-o", help="Output file (SVG); - for standard output."),
    title: str = typer.Option(
        "", "--title", help="Title of the picture.", show_default="the name of the run"
    ),
    as_json: opt.JsonOption = False,
) -> None:
    """Draw the curves of training runs: reward, accuracy, length, KL and more, and print the latest values.

    A run in progress is drawn up to its latest step.

    Example: vrag train plot runs/grpo runs/ggpo --out curves.svg
    """
    files.check_out(out, as_json=as_json)
    if out != STDOUT and (suffix := Path(out).suffix.lower()) not in {"", ".svg"}:
        raise typer.BadParameter(f"{out} ends in {suffix}, but the picture is SVG.", param_hint="--out")
    from vrag.render.axes import short
    from vrag.rl.metrics import latest, read_metrics
    from vrag.rl.plots import PlottedTraining, curves_svg, measures_of

    records = [read_metrics(run) for run in runs]
    trainings = [PlottedTraining(*pair) for pair in zip(_short_names(runs), records, strict=True)]
    facts = files.write_file(out, curves_svg(trainings, title).encode())
    if as_json:
        runs_json: dict[str, object] = {}
        for training in trainings:
            end = latest(training.records).items()
            runs_json[training.name] = {name: {"step": step, "value": value} for name, (step, value) in end}
        print_json(facts | {"runs": runs_json})
    elif out != STDOUT:
        ends = [latest(training.records) for training in trainings]
        steps = [max((record.step for record in training.records), default=0) for training in trainings]
        rows = [["step", *(f"{step:,}" for step in steps)]]
        for measure in measures_of(trainings):
            values = [end.get(measure.name) for end in ends]
            rows.append([measure.name, *("–" if value is None else short(value[1]) for value in values)])
        print_table(["measure", *(training.name for training in trainings)], rows)
        files.print_saved(facts)


def _short_names(runs: Sequence[Path]) -> list[str]:
    """Return the shortest ends of the paths that differ."""
    folders = [path.parent if path.is_file() else path for path in map(Path.resolve, runs)]
    for length in range(1, max(len(folder.parts) for folder in folders)):
        names = ["/".join(folder.parts[-length:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
    return [f"{folder.name} ({number})" for number, folder in enumerate(folders, 1)]


@common_options("out", "samples", "agent", "model", "collections", "as_json")
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
    settings = settings_to_train(settings)
    cases = read_questions(dataset)
    ask_about_family(settings)
    session = open_session(settings)
    files.warn_missing_documents(cases, session.documents)
    session.warm_up()
    opened = open_agent(settings, BatchedSearcher(session.searcher))
    runner = replace(opened, conflicts=False, locate=False)
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
        "failed": dict(job.failures.most_common()),
        "seconds": round(job.elapsed_seconds, 3),
        "made": job.made,
        "failed_before": job.failed_before,
        "examples": job.examples,
        "steps": job.steps,
        "tokens": job.tokens,
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
    warn_of_early_end(job, "rollouts", "Fix the cause and add --retry-failed.")
    made = f"{job.made} rollouts made in {duration(job.elapsed_seconds)}"
    echo(f"{made}: {progress_text(job)}. They are in {plain(str(job.store.folder))}.")
    if job.failed_before:
        warn(f"{job.failed_before} earlier rollouts failed. Repeat them with --retry-failed.")
    if job.failures:
        rows = [(reason, str(n), job.examples[reason]) for reason, n in job.failures.most_common()]
        print_table(("failed", "times", "for example"), rows)
        echo("To repeat failed rollouts, add --retry-failed to the same command.")
    if by_model and job.steps and not job.tokens:
        warn("The server reported no token ids, which training requires. vLLM and SGLang report them.")


local_app.command("sft")(local.sft)
local_app.command("rl")(local.rl)
app.add_typer(local_app, name="local")
for command in (show, rollout, verl.doctor):
    app.command()(command)
