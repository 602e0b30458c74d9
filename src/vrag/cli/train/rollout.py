"""`vrag train rollout`: many rollouts of a served model, in a resumable folder."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli import options as opt
from vrag.cli.terminal.console import duration, echo, plain, print_result, print_table, warn
from vrag.cli.terminal.inputs import read_questions, warn_missing_documents
from vrag.cli.terminal.process import DONE, FAILED, STOPPED
from vrag.cli.terminal.progress import RESUME_NOTE, progress_line, should_give_up

if TYPE_CHECKING:
    from vrag.agent.agent import Agent
    from vrag.rollouts.rollout import RolloutAttempt
    from vrag.rollouts.rollout_store import RolloutEntry, RolloutStore
    from vrag.settings import Settings
    from vrag.types import Case


def rollout(
    dataset: Path = typer.Argument(..., metavar="CASES", help="Questions: JSON, JSON lines or parquet."),
    out: Path = typer.Option(
        ..., "--out", "-o", help="Output folder of the rollouts; an existing one is continued."
    ),
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
    retry_failed: bool = typer.Option(False, "--retry-failed", help="Repeat failed rollouts."),
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
    job = _RolloutJob(settings, cases, samples, out, concurrency, seconds, retry_failed, quiet=as_json)
    summary = job.run()
    print_result(summary.as_dict(out), lambda: _print_summary(summary, out), as_json=as_json)
    raise typer.Exit(summary.status)


@dataclass
class _RolloutSummary:
    """The results so far."""

    attempts: int
    """Rollouts in the complete folder."""
    before: int
    """Rollouts that were in the folder."""
    model: bool
    """True if a model is asked, which may report token ids."""
    start: float = field(default_factory=time.perf_counter)
    made: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])
    """Number of failures by reason."""
    examples: dict[str, str] = field(default_factory=dict[str, str])
    """One failure of each reason."""
    failed_before: int = 0
    """Failed rollouts that were in the folder and are not repeated."""
    failures_in_a_row: int = 0
    steps: int = 0
    tokens: int = 0
    stopped: bool = False
    given_up: bool = False

    def add(self, entry: RolloutEntry) -> None:
        """Count a recorded rollout."""
        self.made += 1
        self.steps += entry.steps
        self.tokens += entry.tokens
        self.failures_in_a_row = self.failures_in_a_row + 1 if entry.failure else 0
        if entry.failure and entry.reason:
            self.failures[entry.reason] += 1
            self.examples[entry.reason] = entry.failure.partition(":")[2].strip()

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return time.perf_counter() - self.start

    @property
    def status(self) -> int:
        """The exit status of the process."""
        if self.stopped:
            return STOPPED
        failed, done = self.failed_before + self.failures.total(), self.before + self.made
        return FAILED if self.given_up or failed == done else DONE

    @property
    def line(self) -> str:
        """The progress, in one line."""
        remaining = self.attempts - self.before - self.made
        rate = self.made / max(self.seconds, 1e-9)
        parts = [f"{self.before + self.made}/{self.attempts} rollouts"]
        if self.made:
            parts.append(f"{rate:.2f}/s" if rate >= 0.1 else f"{60 * rate:.1f}/min")
            parts.append(f"{self.tokens / max(self.seconds, 1e-9):,.0f} tokens/s")
        if self.failures:
            parts.append(f"{self.failures.total()} failed")
        if remaining and self.made:
            parts.append(f"{duration(remaining / rate)} left")
        return " · ".join(parts)

    def as_dict(self, out: Path) -> dict[str, Any]:
        """Return the object that `--json` prints."""
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
    """The rollouts to make."""

    settings: Settings
    cases: list[Case]
    samples: int
    out: Path
    concurrency: int
    seconds: float
    retry_failed: bool
    quiet: bool

    def run(self) -> _RolloutSummary:
        """Make the missing rollouts. Ctrl-C ends it early, with what is finished."""
        from vrag.factory import made_with, open_agent, open_session
        from vrag.rollouts.batched_search import BatchedSearcher
        from vrag.rollouts.rollout_store import open_rollout_store

        session = open_session(self.settings)
        warn_missing_documents(self.cases, session.documents)
        session.warm_up()
        agent = open_agent(self.settings, BatchedSearcher(session.searcher))
        with open_rollout_store(self.out, made_with(self.settings, agent, session.searcher)) as store:
            missing = sum(1 for _ in store.remaining(self._attempts(), again=self.retry_failed))
            attempts = len(self.cases) * self.samples
            summary = _RolloutSummary(attempts, attempts - missing, model=bool(self.settings.model))
            if not self.retry_failed:
                entries = (store.entries.get((each.case.uid, each.sample)) for each in self._attempts())
                summary.failed_before = sum(entry is not None and bool(entry.failure) for entry in entries)
            with progress_line(quiet=self.quiet) as show:
                asyncio.run(self._make(store, agent, summary, show))
        return summary

    def _attempts(self) -> Iterator[RolloutAttempt]:
        """Yield all attempts, case by case: those of a case open the same pages, and share their prompt."""
        from vrag.rollouts.rollout import RolloutAttempt

        cases, samples = self.cases, range(self.samples)
        return (RolloutAttempt(case=case, sample=sample) for case in cases for sample in samples)

    async def _make(
        self, store: RolloutStore, agent: Agent, summary: _RolloutSummary, show: Callable[[str], None]
    ) -> None:
        from vrag.factory import agent_by_seed

        rollouts = store.make(
            store.remaining(self._attempts(), again=self.retry_failed),
            agent_by_seed(self.settings, agent),
            concurrency=self.concurrency,
            seconds=self.seconds,
        )
        try:
            async with aclosing(rollouts) as entries:
                async for entry in entries:
                    summary.add(entry)
                    show(summary.line)
                    if should_give_up(summary.failures_in_a_row, self.concurrency):
                        summary.given_up = True
                        break
        except asyncio.CancelledError:  # Ctrl-C
            summary.stopped = True
        finally:
            await agent.aclose()


def _print_summary(summary: _RolloutSummary, out: Path) -> None:
    """Print what was made, why others failed, and how to continue."""
    if summary.stopped:
        warn(f"Stopped. {RESUME_NOTE}")
    made = f"{summary.made} rollouts made in {duration(summary.seconds)}"
    echo(f"{made}: {summary.line}. They are in {plain(str(out))}.")
    if summary.failed_before:
        warn(f"{summary.failed_before} earlier rollouts failed. Repeat them with --retry-failed.")
    if summary.failures:
        rows = [(reason, str(n), summary.examples[reason]) for reason, n in summary.failures.most_common()]
        print_table(("failed", "times", "for example"), rows)
        echo("To repeat failed rollouts, add --retry-failed to the same command.")
    if summary.given_up:
        failures = summary.failures_in_a_row
        warn(f"Given up: the last {failures} rollouts failed. Fix the cause and add --retry-failed.")
    if summary.model and summary.steps and not summary.tokens:
        warn("The server reported no token ids, which training requires. vLLM and SGLang report them.")
