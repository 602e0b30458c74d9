"""`vrag data demonstrate`: synthetic questions answered by a script, as runs to learn the grammar from."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from vrag.agent.agent import Agent
from vrag.agent.methods import METHODS
from vrag.cli import options as opt
from vrag.cli.terminal.console import echo, plain, print_json, warn
from vrag.cli.terminal.files import read_questions
from vrag.cli.terminal.process import DONE, FAILED, STOPPED
from vrag.cli.terminal.progress import RESUME_NOTE, progress_line
from vrag.errors import CaseError, SettingsError
from vrag.factory import agent_of, open_environment, open_session
from vrag.model_profiles import profile_named
from vrag.rollouts.batched_search import BatchedSearcher
from vrag.rollouts.job import RolloutJob
from vrag.rollouts.rollout import RolloutAttempt
from vrag.rollouts.rollout_store import open_rollout_store
from vrag.settings import Settings
from vrag.synthesis.scripted_policy import ScriptedDemonstrator, names_in
from vrag.types import Case

DEFAULT_PROFILE = "qwen3-vl"
"""Without a model: the script sees no pictures, but they are shown to it at this family's size."""
CONCURRENCY = 8


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
    if not METHODS[settings.agent].trainable:
        trainable = " or ".join(name for name, method in METHODS.items() if method.trainable)
        raise SettingsError(f"The agent {settings.agent} has no demonstrations.", f"Use {trainable}.")
    cases = read_questions(dataset)
    skills = {"searching": searching, "reading": reading, "detours": detours}
    make_agent, made_with = _open_script(settings, cases, skills, seed, model)
    attempts = [RolloutAttempt(case=cases[n % len(cases)], sample=n // len(cases)) for n in range(count)]
    with open_rollout_store(out, made_with) as store, progress_line(quiet=as_json) as show:
        job = RolloutJob(store=store, attempts=attempts, concurrency=CONCURRENCY)
        job.run(job.make_all(make_agent, lambda: show(f"{len(store.entries)} runs in {store.folder}")))
        entries = list(store.entries.values())
    failures = [entry.failure for entry in entries if entry.failure is not None]
    if job.stopped:
        warn(f"Stopped. {RESUME_NOTE}")
    if job.given_up:
        warn(f"Given up: the last {job.failures_in_a_row} runs failed.")
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

    searcher = BatchedSearcher(open_session(settings).searcher)
    profile = profile_named(DEFAULT_PROFILE) if model is None else family_of(model)
    environment = open_environment(settings, searcher, profile)
    names, colours = _vocabulary(cases)

    def make_agent(attempt: RolloutAttempt) -> Agent:
        policy = ScriptedDemonstrator(
            attempt.case,
            random.Random(f"{seed} {attempt.case.uid} {attempt.sample}"),
            **skills,
            graph=METHODS[settings.agent].uses_graph,
            names=names,
            colours=colours,
        )
        return agent_of(settings, environment, policy)

    run_settings = make_agent(RolloutAttempt(case=cases[0], sample=0)).settings.model_dump(mode="json")
    return make_agent, {**run_settings, **skills, "seed": seed, "collection": searcher.version}


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
