"""`vrag data demonstrate`: synthetic questions answered by a script, as runs to learn the grammar from."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli import options as opt
from vrag.cli.terminal.console import echo, plain, print_json, warn
from vrag.cli.terminal.inputs import read_questions
from vrag.cli.terminal.process import DONE, FAILED, STOPPED
from vrag.cli.terminal.progress import RESUME_NOTE, progress_line
from vrag.errors import CaseError, SettingsError

if TYPE_CHECKING:
    from vrag.agent.agent import Agent
    from vrag.rollouts.rollout import RolloutAttempt
    from vrag.settings import Settings
    from vrag.types import Case

DEFAULT_PROFILE = "qwen3-vl"
"""Without a model: the script sees no pictures, but they are shown to it at this family's size."""
CONCURRENCY = 8


def demonstrate(
    dataset: Path = typer.Argument(
        ..., metavar="CASES", help="Questions made with the templates emblem and emblem_pair."
    ),
    out: Path = typer.Option(
        ..., "--out", "-o", help="Output folder of the runs; an existing one is continued."
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
    from vrag.agent.methods import METHODS
    from vrag.rollouts.job import RolloutJob
    from vrag.rollouts.rollout import RolloutAttempt
    from vrag.rollouts.rollout_store import open_rollout_store

    if not METHODS[settings.agent].trainable:
        trainable = " or ".join(name for name, method in METHODS.items() if method.trainable)
        raise SettingsError(f"The agent {settings.agent} has no demonstrations.", f"Use {trainable}.")
    cases = read_questions(dataset)
    skills = {"searching": searching, "reading": reading, "detours": detours}
    script = _Script(settings, cases, skills, seed, model)
    attempts = [RolloutAttempt(case=cases[n % len(cases)], sample=n // len(cases)) for n in range(count)]
    with open_rollout_store(out, script.made_with) as store, progress_line(quiet=as_json) as show:
        job = RolloutJob(store=store, attempts=attempts, concurrency=CONCURRENCY)
        job.run(job.make_all(script.agent, lambda: show(f"{len(store.entries)} runs in {store.folder}")))
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


class _Script:
    """The demonstrator: makes the agent of each attempt."""

    def __init__(
        self,
        settings: Settings,
        cases: list[Case],
        skills: dict[str, float],
        seed: int,
        model: Path | None,
    ) -> None:
        from vrag.agent.policies.local_model import family_of
        from vrag.factory import open_environment, open_session
        from vrag.model_profiles import profile_named
        from vrag.rollouts.batched_search import BatchedSearcher
        from vrag.rollouts.rollout import RolloutAttempt

        self._settings, self._skills, self._seed = settings, skills, seed
        searcher = BatchedSearcher(open_session(settings).searcher)
        profile = profile_named(DEFAULT_PROFILE) if model is None else family_of(model)
        self._environment = open_environment(settings, searcher, profile)
        self._names, self._colours = _vocabulary(cases)
        first = self.agent(RolloutAttempt(case=cases[0], sample=0))
        agent_settings = first.settings.model_dump(mode="json")
        self.made_with = {**agent_settings, **skills, "seed": seed, "collection": searcher.version}

    def agent(self, attempt: RolloutAttempt) -> Agent:
        """Make the agent of an attempt."""
        from vrag.agent.methods import METHODS
        from vrag.factory import agent_of
        from vrag.synthesis.scripted_policy import ScriptedDemonstrator

        policy = ScriptedDemonstrator(
            attempt.case,
            random.Random(f"{self._seed} {attempt.case.uid} {attempt.sample}"),
            **self._skills,
            graph=METHODS[self._settings.agent].uses_graph,
            names=self._names,
            colours=self._colours,
        )
        return agent_of(self._settings, self._environment, policy)


def _vocabulary(cases: list[Case]) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, ...]]:
    """Return the first and second words of names, and the colours, of the questions."""
    from vrag.synthesis.scripted_policy import names_in

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
