"""`vrag data demonstrate`: synthetic questions answered by a script, as runs to learn a grammar from."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.terminal.console import Agent, Collections, Json, emit_json, plain, progress_line, say, warn
from vrag.cli.terminal.interrupts import GOES_ON, stoppable
from vrag.cli.terminal.questions import read_questions
from vrag.errors import CaseError, SettingsError
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vrag.agent.agent import Agent as AgentOf
    from vrag.rollouts.rollout import RolloutAttempt
    from vrag.rollouts.rollout_store import RolloutStore
    from vrag.settings import Settings
    from vrag.types import Case

__all__ = ["demonstrate"]

PROFILE = "qwen3-vl"
"""Where nothing else is said: a script sees no pictures, but they are shown to it at that family's size."""


def demonstrate(
    dataset: Path = typer.Argument(
        ..., metavar="CASES", help="Questions of the templates emblem and emblem_pair."
    ),
    out: Path = typer.Option(
        ..., "--out", "-o", help="Folder of the runs; one that holds some is gone on with."
    ),
    count: int = typer.Option(400, "--count", "-n", min=1, help="Runs, the questions in turn."),
    searching: float = typer.Option(0.0, min=0, max=1, help="How often the right name is looked for."),
    reading: float = typer.Option(0.0, min=0, max=1, help="How often the right colour is said."),
    detours: float = typer.Option(0.0, min=0, max=1, help="How often something else is looked for first."),
    model: Path | None = typer.Option(
        None, "--model", "-m", help="Checkpoint at whose sizes pictures are shown."
    ),
    collections: list[str] | None = Collections,
    agent: str | None = Agent,
    hits: int | None = typer.Option(None, min=1, help="Hits a search of the agent returns."),
    seed: int = typer.Option(0, min=0, help="Of what is done at random."),
    as_json: bool = Json,
) -> None:
    """Answer synthetic questions by a script that keeps to the grammar, right as often as you ask for.

    The runs go through the same agent and environment as all others: `vrag train local sft` learns from them.
    It may be stopped at any moment; the same command goes on from there.

    Example: vrag data demonstrate corpus/train.json --out demonstrations --model tiny --searching 0.5
    """
    from vrag.rollouts.rollout_store import open_campaign

    settings = load_settings(agent=agent, collections=collections or None, hits=hits).settings
    if settings.agent not in {"vrag", "vimrag"}:
        raise SettingsError(f"{settings.agent} is not demonstrated.", "Known: vrag, vimrag.")
    cases = read_questions(dataset)
    skills = {"searching": searching, "reading": reading, "detours": detours}
    script = _Script(settings, cases, skills, seed, model)
    with open_campaign(out, script.made_with) as campaign:
        before = len(campaign.entries)
        with stoppable(GOES_ON), progress_line(quiet=as_json) as tell:
            asyncio.run(_made(campaign, _attempts(cases, count), script, tell))
        entries = list(campaign.entries.values())
    failures = [entry.failure for entry in entries if entry.failure is not None]
    new = len(entries) - before
    if as_json:
        emit_json({"folder": str(out), "runs": len(entries), "new": new, "failed": len(failures)})
    else:
        say(
            ("Recorded", "bold"),
            f" {new} runs in {plain(str(out))}; it holds {len(entries)}, {len(failures)} of them failed.",
        )
        if failures:
            warn(f"The last that failed: {failures[-1]}")
    if len(failures) == len(entries):
        raise typer.Exit(1)


async def _made(
    campaign: RolloutStore, attempts: Iterator[RolloutAttempt], script: _Script, tell: Callable[[str], None]
) -> None:
    """Makes those that are left."""
    making = campaign.made(campaign.left(attempts), script.agent, concurrency=8)
    async with aclosing(making) as entries:
        async for _ in entries:
            tell(f"{len(campaign.entries)} runs in {campaign.folder}")


def _attempts(cases: list[Case], count: int) -> Iterator[RolloutAttempt]:
    from vrag.rollouts.rollout import RolloutAttempt

    return (RolloutAttempt(case=cases[at % len(cases)], sample=at // len(cases)) for at in range(count))


class _Script:
    """What makes the agent of an attempt."""

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
        profile = profile_named(PROFILE) if model is None else family_of(model)
        self._environment = open_environment(settings, searcher, profile)
        self._names, self._colours = _vocabulary(cases)
        told = self.agent(RolloutAttempt(case=cases[0], sample=0)).settings.model_dump(mode="json")
        self.made_with = {**told, **skills, "seed": seed, "collection": searcher.version}

    def agent(self, attempt: RolloutAttempt) -> AgentOf:
        """The agent of an attempt."""
        from vrag.factory import agent_of
        from vrag.synthesis.scripted_policy import ScriptedDemonstrator

        chance = random.Random(f"{self._seed} {attempt.case.uid} {attempt.sample}")
        policy = ScriptedDemonstrator(
            attempt.case,
            chance,
            **self._skills,
            graph=self._settings.agent == "vimrag",
            names=self._names,
            colours=self._colours,
        )
        return agent_of(self._settings, self._environment, policy)


def _vocabulary(cases: list[Case]) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, ...]]:
    """Words of names, first and second, and colours, as the questions have them."""
    from vrag.synthesis.scripted_policy import names_in

    names = [name.split() for case in cases for name in names_in(case.query)]
    if not names or any(len(name) != 2 for name in names):
        raise CaseError(
            "These questions hold no names in quotes.",
            "Make some: vrag data synthesize --template emblem, or --template emblem_pair.",
        )
    firsts, seconds = (tuple(sorted({name[at] for name in names})) for at in (0, 1))
    if odd := next((case for case in cases if len(_colours(case)) != len(names_in(case.query))), None):
        raise CaseError(
            f"The case {odd.uid} does not ask for one colour of each name in quotes.",
            "Make such cases: vrag data synthesize --template emblem, or --template emblem_pair.",
        )
    colours = tuple(sorted({colour for case in cases for colour in _colours(case)}))
    return (firsts, seconds), colours


def _colours(case: Case) -> list[str]:
    return case.reference_answer.split()
