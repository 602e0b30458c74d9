"""`vrag train rollout`: many rollouts of a served model at once, in a folder that can be gone on with."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli import DONE, FAILED, STOPPED
from vrag.cli.ask.prepare import ImageRoot, MaxSteps, TopK
from vrag.cli.terminal.console import (
    Agent,
    BaseUrl,
    Collections,
    Json,
    Model,
    SearchUrl,
    duration,
    emit_json,
    plain,
    progress_line,
    say,
    show_table,
    warn,
)
from vrag.cli.terminal.interrupts import GOES_ON, hopeless
from vrag.cli.terminal.paths import tell_absent
from vrag.cli.terminal.questions import read_questions
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vrag.agent.agent import Agent as AgentOf
    from vrag.rollouts.rollout import RolloutAttempt
    from vrag.rollouts.rollout_store import RolloutEntry, RolloutStore
    from vrag.settings import Settings
    from vrag.types import Case

__all__ = ["rollout"]


def rollout(
    dataset: Path = typer.Argument(..., metavar="CASES", help="Questions: JSON, JSON lines or parquet."),
    out: Path = typer.Option(
        ..., "--out", "-o", help="Folder of the rollouts; one that holds some is gone on with."
    ),
    samples: int = typer.Option(5, "--samples", "-n", min=1, help="Rollouts of each question."),
    agent: str | None = Agent,
    model: str | None = Model,
    base_url: str | None = BaseUrl,
    collections: list[str] | None = Collections,
    search_url: str | None = SearchUrl,
    image_root: str | None = ImageRoot,
    max_steps: int | None = MaxSteps,
    top_k: int | None = TopK,
    max_tokens: int | None = typer.Option(
        None, min=1, help="Tokens of a reply at most.", show_default="VRAG_MAX_TOKENS"
    ),
    temperature: float = typer.Option(1.0, min=0, max=2, help="Of sampling."),
    seed: int | None = typer.Option(
        None, help="Of sampling; each rollout gets one of its own made from it.", show_default="VRAG_SEED"
    ),
    concurrency: int = typer.Option(64, min=1, max=4096, help="Rollouts in flight at most."),
    seconds: float = typer.Option(300.0, min=0.001, help="Deadline of a rollout."),
    retry_failed: bool = typer.Option(False, "--retry-failed", help="Make those that failed again as well."),
    as_json: bool = Json,
) -> None:
    """Roll out every question several times against a served model.

    Rollouts advance independently, each as fast as its own model calls and searches; searches of the same
    moment are made together. The server is asked for token ids and log-probabilities, which training rows
    are made of. A rollout that fails is recorded with its reason. Stop at any moment: the same command goes
    on from there, nothing is lost that was recorded, and nothing is made twice.

    Exit status: 0 all made, 1 given up or all that the folder holds failed, 2 wrong use, 130 stopped.

    Examples of use:

      vrag train rollout questions.json --out rollouts --model Qwen2.5-VL-7B --base-url http://localhost:8002/v1

      vrag train rollout questions.json --out rollouts --samples 8 --concurrency 128 --retry-failed
    """
    settings = load_settings(
        agent=agent,
        model=model,
        base_url=base_url,
        collections=collections or None,
        search_url=search_url,
        image_root=image_root,
        max_steps=max_steps,
        hits=top_k,
        max_tokens=max_tokens,
        temperature=temperature,
        seed=seed,
        token_details=True,
        model_requests=concurrency,
    ).settings
    cases = read_questions(dataset)
    job = _RolloutJob(settings, cases, samples, out, concurrency, seconds, retry_failed, quiet=as_json)
    told = job.run()
    if as_json:
        emit_json(told.as_json(out))
    else:
        _tell(told, out)
    raise typer.Exit(told.status)


@dataclass
class _RolloutSummary:
    """What came of the work so far."""

    attempts: int
    """All that the folder is to hold."""
    before: int
    """Of them, those that needed not be made."""
    model: bool
    """Whether one that can tell its tokens was asked."""
    begun: float = field(default_factory=time.perf_counter)
    made: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, str] = field(default_factory=dict[str, str])
    """A failure of each reason."""
    failed_before: int = 0
    """Recorded failures that stand in the folder from before, and are not made again."""
    in_a_row: int = 0
    """Failures since the last rollout that came to its end."""
    steps: int = 0
    tokens: int = 0
    stopped: bool = False
    given_up: bool = False

    def add(self, entry: RolloutEntry) -> None:
        """Takes one that was recorded."""
        self.made += 1
        self.steps += entry.steps
        self.tokens += entry.tokens
        self.in_a_row = self.in_a_row + 1 if entry.failure else 0
        if entry.failure and entry.reason:
            self.failures[entry.reason] += 1
            self.examples[entry.reason] = entry.failure.partition(":")[2].strip()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self.begun

    @property
    def rate(self) -> float:
        """Rollouts a second."""
        return self.made / max(self.seconds, 1e-9)

    @property
    def status(self) -> int:
        """Of the process."""
        if self.stopped:
            return STOPPED
        failed, done = self.failed_before + self.failures.total(), self.before + self.made
        return FAILED if self.given_up or failed == done else DONE

    @property
    def line(self) -> str:
        """How far it is."""
        left = self.attempts - self.before - self.made
        parts = [f"{self.before + self.made}/{self.attempts} rollouts"]
        if self.made:
            parts.append(f"{self.rate:.2f}/s" if self.rate >= 0.1 else f"{60 * self.rate:.1f}/min")
            parts.append(f"{self.tokens / max(self.seconds, 1e-9):,.0f} tokens/s")
        if self.failures:
            parts.append(f"{self.failures.total()} failed")
        if left and self.made:
            parts.append(f"{duration(left / self.rate)} left")
        return " · ".join(parts)

    def as_json(self, out: Path) -> dict[str, Any]:
        """For machines."""
        return {
            "folder": str(out),
            "attempts": self.attempts,
            "done": self.before + self.made,
            "made": self.made,
            "failed": dict(self.failures.most_common()),
            "failed_before": self.failed_before,
            "examples": self.examples,
            "steps": self.steps,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 3),
            "stopped": self.stopped,
            "given_up": self.given_up,
        }


@dataclass
class _RolloutJob:
    """What is to be rolled out, and how."""

    settings: Settings
    cases: list[Case]
    samples: int
    out: Path
    concurrency: int
    seconds: float
    again: bool
    quiet: bool

    def run(self) -> _RolloutSummary:
        """Makes what is left. Ctrl-C ends it early, with what is done."""
        from vrag.factory import made_with, open_agent, open_session
        from vrag.rollouts.batched_search import BatchedSearcher
        from vrag.rollouts.rollout_store import open_campaign

        session = open_session(self.settings)
        tell_absent(self.cases, session.documents)
        session.warm_up()
        agent = open_agent(self.settings, BatchedSearcher(session.searcher))
        with open_campaign(self.out, made_with(self.settings, agent, session.searcher)) as campaign:
            left = sum(1 for _ in campaign.left(self._attempts(), again=self.again))
            attempts = len(self.cases) * self.samples
            told = _RolloutSummary(attempts, attempts - left, model=bool(self.settings.model))
            told.failed_before = 0 if self.again else self._failed(campaign)
            with progress_line(quiet=self.quiet) as tell:
                asyncio.run(self._made(campaign, agent, told, tell))
        return told

    def _failed(self, campaign: RolloutStore) -> int:
        """How many of the attempts failed before."""
        entries = (campaign.entries.get((one.case.uid, one.sample)) for one in self._attempts())
        return sum(entry is not None and entry.failure is not None for entry in entries)

    def _attempts(self) -> Iterator[RolloutAttempt]:
        """All of a case one after the other: they open the same pages, and begin with the same prompt."""
        from vrag.rollouts.rollout import RolloutAttempt

        return (
            RolloutAttempt(case=case, sample=sample) for case in self.cases for sample in range(self.samples)
        )

    async def _made(
        self, campaign: RolloutStore, agent: AgentOf, told: _RolloutSummary, tell: Callable[[str], None]
    ) -> None:
        from vrag.factory import agent_by_seed

        making = campaign.made(
            campaign.left(self._attempts(), again=self.again),
            agent_by_seed(self.settings, agent),
            concurrency=self.concurrency,
            seconds=self.seconds,
        )
        try:
            async with aclosing(making) as entries:
                async for entry in entries:
                    told.add(entry)
                    tell(told.line)
                    if hopeless(told.in_a_row, self.concurrency):
                        told.given_up = True
                        break
        except asyncio.CancelledError:  # Ctrl-C
            told.stopped = True
        finally:
            await agent.aclose()


def _tell(told: _RolloutSummary, out: Path) -> None:
    """What was made, why others failed, and how to go on."""
    if told.stopped:
        warn(f"Stopped. {GOES_ON}")
    say(f"{told.made} rollouts made in {duration(told.seconds)}: {told.line}. They lie in {plain(str(out))}.")
    if told.failed_before:
        warn(f"{told.failed_before} of those made before failed. Make them again with --retry-failed.")
    if told.failures:
        rows = [(reason, str(n), told.examples[reason]) for reason, n in told.failures.most_common()]
        show_table(("failed", "times", "for example"), rows)
        say("Make those again: the same command with --retry-failed.")
    if told.given_up:
        warn(f"Given up: the last {told.in_a_row} rollouts all failed. Mend that and add --retry-failed.")
    if told.model and told.steps and not told.tokens:
        warn(
            "The server told no token ids: no training rows can be made of these. vLLM and SGLang tell them."
        )
