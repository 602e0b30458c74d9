"""`vrag data demonstrate | sample | select | export-sft`: runs to learn from, by scripts and by experts."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn

from vrag.agent.agent import Agent
from vrag.agent.methods import METHODS
from vrag.cli import options as opt
from vrag.cli.session import index_documents
from vrag.cli.terminal import console
from vrag.cli.terminal.console import echo, plain, print_json, print_result, print_table, quote_argument, warn
from vrag.cli.terminal.files import read_questions, warn_missing_documents
from vrag.cli.terminal.help import common_options
from vrag.cli.terminal.process import DONE, FAILED, STOPPED
from vrag.cli.terminal.progress import RESUME_NOTE, note_on_interrupt, progress_line, warn_of_early_end
from vrag.distill.experts import read_experts
from vrag.distill.export import export_sft as export
from vrag.distill.sample_store import SampleOutcome, SampleStore
from vrag.distill.sampler import ExpertSampling, SamplingProgress, sample_cases
from vrag.distill.select import SelectionOptions, read_selected, select_samples, write_selection
from vrag.errors import CaseError, SampleError, SettingsError
from vrag.factory.agents import agent_of, open_environment
from vrag.factory.session import open_session
from vrag.factory.training import settings_to_train
from vrag.model_profiles import profile_named
from vrag.rollouts.batched_search import BatchedSearcher
from vrag.rollouts.rollout import RolloutAttempt
from vrag.rollouts.rollout_store import RolloutJob, open_rollout_store
from vrag.settings import Settings, load_settings
from vrag.synthesis.scripted_policy import ScriptedDemonstrator, names_in
from vrag.types import Case, item_id

DEFAULT_PROFILE = "qwen3-vl"
"""Without a model: the script sees no pictures, but they are shown to it at this family's size."""
CONCURRENCY = 8
SamplesArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="Output directory of `vrag data sample`.")
]
LearnerOption = Annotated[str, typer.Option("--profile", help="Family of the model to train.")]
LEARNER = "qwen2.5-vl"


@common_options("out", "count", "model", "collections", "agent", "seed", "as_json")
def demonstrate(
    out: opt.RunsOutOption,
    dataset: Path = typer.Argument(
        ..., metavar="CASES", help="Questions made with the templates emblem and emblem_pair."
    ),
    count: int = typer.Option(400, "--count", "-n", min=1, help="Number of runs; questions take turns."),
    searching: float = typer.Option(0.0, min=0, max=1, help="Share of runs that search for the right name."),
    reading: float = typer.Option(0.0, min=0, max=1, help="Share of runs that answer the right colour."),
    detours: float = typer.Option(
        0.0, min=0, max=1, help="Share of runs that search for something else first."
    ),
    selecting: float = typer.Option(
        0.0, min=0, max=1, help="Share of selections of the right page, with VRAG_SELECT."
    ),
    model: Path | None = typer.Option(
        None, "--model", "-m", help="Checkpoint that determines the size of pictures."
    ),
    collections: opt.CollectionsOption = None,
    agent: opt.AgentOption = None,
    hits: int | None = typer.Option(None, min=1, help="Hits that each search of the agent returns."),
    seed: int = typer.Option(0, min=0, help="Random seed."),
    as_json: opt.JsonOption = False,
) -> None:
    """Answer synthetic questions by a script that follows the grammar, as often right as you choose.

    The runs use the same agent and environment as all others; `vrag train local sft` learns from them.
    You can stop the command at any time; the same command continues.

    Example: vrag data demonstrate corpus/train.json --out demonstrations --model tiny --searching 0.5
    """
    settings = opt.load_flags({"agent": agent, "collections": collections, "hits": hits}).settings
    settings = settings_to_train(settings)
    if not METHODS[settings.agent].trainable:
        trainable = " or ".join(name for name, method in METHODS.items() if method.trainable)
        raise SettingsError(f"The agent {settings.agent} has no demonstrations.", f"Use {trainable}.")
    cases = read_questions(dataset)
    skills = {"searching": searching, "reading": reading, "detours": detours}
    if settings.select:
        skills["selecting"] = selecting
    make_agent, made_with = _open_script(settings, cases, skills, seed, model)
    attempts = [RolloutAttempt(case=cases[n % len(cases)], sample=n // len(cases)) for n in range(count)]
    with open_rollout_store(out, made_with) as store, progress_line(quiet=as_json) as show:
        job = RolloutJob(store=store, attempts=attempts, concurrency=CONCURRENCY)
        job.run(job.make_all(make_agent, lambda: show(f"{len(store.entries)} runs in {store.folder}")))
        entries = list(store.entries.values())
    failures = [entry.failure for entry in entries if entry.failure is not None]
    warn_of_early_end(job, "runs", "Fix the cause; the same command makes the rest.")
    if as_json:
        print_json({"folder": str(out), "runs": len(entries), "new": job.made, "failed": len(failures)})
    else:
        total = f"it now has {len(entries)}, {len(failures)} of them failed"
        echo(("Recorded", "bold"), f" {job.made} runs in {plain(str(out))}; {total}.")
        if failures:
            warn(f"The latest failure: {failures[-1]}")
    all_failed = len(failures) == len(entries)
    raise typer.Exit(STOPPED if job.stopped else FAILED if all_failed or job.given_up else DONE)


def _open_script(
    settings: Settings, cases: list[Case], skills: dict[str, float], seed: int, model: Path | None
) -> tuple[Callable[[RolloutAttempt], Agent], dict[str, Any]]:
    """Return a function that makes the agent of an attempt, and everything that the runs are made with."""
    from vrag.agent.policies.local_model import family_of

    session = open_session(settings)
    searcher = BatchedSearcher(session.searcher)
    ids = {document.name: document.id for document in session.documents}
    profile = profile_named(DEFAULT_PROFILE) if model is None else family_of(model)
    environment = open_environment(settings, searcher, profile)
    names, colours = _vocabulary(cases)
    selects = environment.candidates > 0 and METHODS[settings.agent].follows_checkpoints

    def make_agent(attempt: RolloutAttempt) -> Agent:
        policy = ScriptedDemonstrator(
            attempt.case,
            random.Random(f"{seed} {attempt.case.uid} {attempt.sample}"),
            **skills,
            graph=METHODS[settings.agent].uses_graph,
            names=names,
            colours=colours,
            pages=_gold_pages(attempt.case, ids),
            selects=selects,
            labelled=profile.labelled,
        )
        return agent_of(settings, environment, policy, training=True)

    run_settings = make_agent(RolloutAttempt(case=cases[0], sample=0)).settings.model_dump(mode="json")
    return make_agent, {**run_settings, **skills, "seed": seed, "collection": searcher.version}


def _gold_pages(case: Case, ids: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ids of the pages of a case, in order; none where its document or a page is not known."""
    pages = case.reference_page if len(case.reference_page) == len(names_in(case.query)) else ()
    return tuple(item_id(ids[case.file_name], page) for page in pages) if case.file_name in ids else ()


def _vocabulary(cases: list[Case]) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, ...]]:
    """Return the first and second words of names, and the colours, of the questions."""
    hint = "Make such cases: vrag data synthesize --template emblem, or --template emblem_pair."
    names = [name.split() for case in cases for name in names_in(case.query)]
    if not names or any(len(name) != 2 for name in names):
        raise CaseError("These questions have no names in quotes.", hint)
    colours = {case.uid: case.reference_answer.split() for case in cases}
    for case in cases:
        if len(colours[case.uid]) != len(names_in(case.query)):
            message = f"The case {case.uid} does not ask for one colour of each name in quotes."
            raise CaseError(message, hint)
    firsts, seconds = (tuple(sorted({name[at] for name in names})) for at in (0, 1))
    return (firsts, seconds), tuple(sorted({colour for each in colours.values() for colour in each}))


@common_options("out", "docs", "experts", "steps", "limit", "retry_failed", "collection", "as_json")
def sample(
    dataset: Path = typer.Argument(..., help="Questions with answers: JSON, JSON lines or parquet."),
    out: Path = typer.Option(..., "--out", "-o", help="Output directory of the samples."),
    docs: list[Path] = typer.Option(
        [], "--docs", "-d", help="The documents; indexed first.", show_default="the whole collection"
    ),
    experts: Path | None = typer.Option(
        None, "--experts", help="TOML file of the expert models.", show_default="models of DashScope"
    ),
    profile: LearnerOption = LEARNER,
    oracle: bool = typer.Option(True, help="Show a found gold page first if it has not been seen."),
    steps: int = typer.Option(10, min=2, max=10, help="Maximum turns per run."),
    attempts: int = typer.Option(3, min=1, help="Maximum runs per case, if a run breaks off."),
    concurrency: int = typer.Option(4, min=1, max=256, help="Number of cases at a time."),
    limit: int | None = typer.Option(None, min=1, help="Sample only the first cases."),
    retry_failed: opt.RetryFailedOption = False,
    collection: opt.CollectionOption = None,
    wait: opt.WaitOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Let expert models answer questions with known answers, and score their answers.

    A planner decides each turn, a grounder draws the boxes, a judge scores the answer from 1 to 5.
    Every case is an ordinary recorded run. Finished cases are kept: the same command continues after it
    was stopped or killed.

    Example: vrag data sample train.json --docs pdf/ --out samples/ --experts experts.toml
    """
    cases = read_questions(dataset, limit)
    models, learner = read_experts(experts, os.environ), profile_named(profile)
    report = load_settings(collection=collection, wait=wait)
    if docs:
        session, indexed = index_documents(report, docs)
        documents = indexed.documents
    else:
        session = open_session(report.settings)
        documents = session.documents
    warn_missing_documents(cases, documents)
    sampling = ExpertSampling(
        searcher=session.searcher,
        experts=models,
        learner=learner,
        documents=frozenset(document.id for document in documents) if docs else None,
        oracle=oracle,
        steps=steps,
        attempts=attempts,
        concurrency=concurrency,
    )
    with SampleStore(out).writer(sampling.made_with) as writer, _sampling_progress() as show:
        if retry_failed:
            uids = {case.uid for case in cases}
            records = list(writer.records.values())
            writer.retry(r.uid for r in records if r.outcome is SampleOutcome.FAILED and r.uid in uids)
        done = asyncio.run(sample_cases(cases, sampling, writer, show))
    facts = {
        "cases": done.cases,
        "before": done.before,
        "outcomes": done.outcomes,
        "experts": {role: usage.model_dump() for role, usage in done.experts.items()},
    }

    def render() -> None:
        rows = (
            [
                role,
                *map(str, (usage.calls, usage.retries, usage.faults)),
                *map(str, (usage.prompt_tokens, usage.completion_tokens)),
                "unknown" if usage.cost is None else f"{usage.cost:.4f}",
            ]
            for role, usage in done.experts.items()
        )
        print_table(["expert", "calls", "retries", "faults", "prompt tokens", "reply tokens", "cost"], rows)
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in done.outcomes.items())
        finished = f"{done.over} of {done.cases} cases are finished, {done.before} of them from before"
        echo(f"{finished}: {outcomes}.")
        echo(("Next", "bold"), f": vrag data select {quote_argument(str(out))}")

    print_result(facts, render, as_json=as_json)


@contextmanager
def _sampling_progress() -> Generator[Callable[[SamplingProgress], None]]:
    """Show a progress bar on a terminal, and a line now and then elsewhere."""
    columns = (TextColumn("Sampling"), BarColumn(), TextColumn("{task.fields[state]}"))
    bar = Progress(*columns, console=console.err, transient=True, disable=not console.err.is_terminal)
    task = bar.add_task("", total=None, state="")

    def show(now: SamplingProgress) -> None:
        outcomes = " · ".join(f"{count} {outcome}" for outcome, count in now.outcomes.items() if count)
        cost = sum(usage.cost or 0.0 for usage in now.experts.values())
        state = f"{now.over}/{now.cases} cases · {outcomes}{f' · cost {cost:.2f}' if cost else ''}"
        bar.update(task, completed=now.over, total=now.cases, state=state)
        if not console.err.is_terminal and (now.over % 10 == 0 or now.over == now.cases):
            console.err.print(state)

    with note_on_interrupt(RESUME_NOTE), bar:
        yield show


def select(
    samples: SamplesArgument,
    score: int = typer.Option(5, min=1, max=5, help="Minimum score."),
    most: int | None = typer.Option(
        None,
        min=1,
        help="Maximum number of samples, shared evenly among the kinds.",
        show_default="as many of each kind as the median kind has",
    ),
    seed: int = typer.Option(0, help="Random seed of the choice among samples of one kind."),
    as_json: opt.JsonOption = False,
) -> None:
    """Select the samples for training, and give the reason for every sample that is dropped.

    Selected samples have the best score, 1 to 6 pictures, 2 to 6 turns, every box inside its picture and
    no failed turn; they are then balanced by length, and by runs with and without crops. Writes
    selected.jsonl, dropped.jsonl and selection.json into the directory.

    Example: vrag data select samples/ --most 3000
    """
    store = _open_samples(samples)
    with note_on_interrupt("Nothing was selected; an earlier selection is unchanged."):
        selection = select_samples(store, SelectionOptions(score=score, most=most, seed=seed))
    write_selection(store, selection)
    report = selection.as_dict()

    def render() -> None:
        kinds, reasons = report["kinds"].items(), report["reasons"].items()
        print_table(["kind", "found", "kept"], ([kind, str(n["found"]), str(n["kept"])] for kind, n in kinds))
        if reasons:
            print_table(["dropped for", "samples"], ([reason, str(n)] for reason, n in reasons))
        file = plain(str(samples / "dropped.jsonl"))
        echo(f"{report['kept']} kept, {report['dropped']} dropped; the reasons are in {file}.")

    print_result(report, render, as_json=as_json)


def export_sft(
    samples: SamplesArgument,
    out: Path = typer.Option(..., "--out", "-o", help="Output directory of the data set."),
    profile: LearnerOption = LEARNER,
    name: str = typer.Option("vrag_sft", help="Name of the data set in the trainer."),
    as_json: opt.JsonOption = False,
) -> None:
    """Write the selected samples as a data set of LLaMA-Factory, with pictures.

    Pictures have exactly the size at which models of the profile see them, and boxes have the format of
    the profile.

    Example: vrag data export-sft samples/ --out sft/ --profile qwen2.5-vl
    """
    store = _open_samples(samples)
    selected = read_selected(store)
    note = f"The data set in {out} is incomplete. Run the same command again to write it."
    with note_on_interrupt(note), progress_line(quiet=as_json) as show:

        def shown_ids() -> Iterator[str]:
            for number, id in enumerate(selected, 1):
                show(f"{number}/{len(selected)} samples")
                yield id

        done = export(store.runs, shown_ids(), profile_named(profile), out, name)
    if as_json:
        refused = [{"run": run, "reason": reason} for run, reason in done.refused]
        print_json({"file": done.file, "samples": done.samples, "images": done.images, "refused": refused})
        return
    echo(f"{done.samples} samples with {done.images} pictures: {plain(str(done.file))}")
    for run, reason in done.refused:
        console.echo_problem(run, reason)


def _open_samples(directory: Path) -> SampleStore:
    store = SampleStore(directory)
    if not store.samples.path.is_file():
        raise SampleError(f"{directory} has no samples.", "Make some: vrag data sample.")
    return store
