"""What `vrag train local` does: trainings that are begun, told of, gone on with and published."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.terminal.console import duration, err, plain, say, warn
from vrag.cli.terminal.interrupts import stoppable
from vrag.errors import SettingsError, TrainingError
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from vrag.agent.agent import Agent as AgentOf
    from vrag.agent.policy import Policy
    from vrag.embed.device import Device
    from vrag.reward import CompositeReward
    from vrag.rl.checkpoints import Checkpoints, SavedCheckpoint
    from vrag.rl.model import Autocast, TrainableModel
    from vrag.rl.sft_dataset import SftDataset
    from vrag.rl.trainers.local import RlOptions
    from vrag.rl.trainers.supervised import SftOptions
    from vrag.settings import Settings
    from vrag.types import Case

__all__ = ["Machine", "Reinforcement", "Supervision", "as_settings"]

FREE = frozenset({"steps", "save_every", "evaluate_every", "stop_at"})
"""Options that say how far a run goes and when it is looked at, not what comes of a step."""
_TOLD = (
    ("reward", "reward"),
    ("accuracy", "right"),
    ("reward/retrieval", "found"),
    ("reward/pattern", "form"),
    ("invalid", "invalid"),
    ("masked", "masked"),
    ("loss", "loss"),
    ("entropy", "entropy"),
    ("eval/accuracy", "held out"),
)
"""What is told of a step, and how it is called there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """On what a training computes, and how precisely; what of it may be None is as the settings say."""

    device: str | None
    dtype: str
    autocast: Autocast

    @property
    def place(self) -> Device:
        """The device that is there."""
        from vrag.rl.model import place_of

        return place_of(self.device or load_settings().settings.device, self.dtype)

    @property
    def made(self) -> dict[str, str]:
        """What of it changes what comes of a training."""
        from vrag.rl.model import autocast_of

        return {"dtype": self.dtype, "autocast": autocast_of(self.place, self.autocast)}

    def opened(self, model: Path) -> TrainableModel:
        """A checkpoint on it."""
        from vrag.rl.model import open_network

        return open_network(model, device=self.place.name, dtype=self.dtype, autocast=self.autocast)

    def repeatable(self, *, wanted: bool = True) -> AbstractContextManager[None]:
        """Inside, it computes the same bits each time."""
        from vrag.rl.determinism import repeatable

        return repeatable(self.place.name, wanted=wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """A supervised training."""

    options: SftOptions
    runs: list[Path]
    model: Path
    out: Path
    machine: Machine

    def run(self, *, again: bool) -> None:
        """Makes what is left of it.

        Args:
            again: Whether what is there is thrown away.
        """
        from vrag.rl.checkpoints import Checkpoints
        from vrag.rl.metrics import FILE, MetricsFile
        from vrag.rl.sft_dataset import digest_of, find_recordings
        from vrag.rl.trainers.supervised import SupervisedTrainer

        stored = find_recordings(self.runs)
        made = {
            "kind": "sft",
            "model": _digest(self.model),
            "runs": digest_of(stored),
            **self.machine.made,
        }
        checkpoints = Checkpoints(self.out)
        with self.machine.repeatable(), checkpoints.held(), _stoppable(self.out):
            begun = checkpoints.begin(made | self.options.model_dump(mode="json"), again=again, free=FREE)
            network = self.machine.opened(begun.folder if begun else self.model)
            told = _taught(network, stored)
            with MetricsFile.open(self.out / FILE, after=begun.step if begun else None) as metrics:
                trainer = SupervisedTrainer(
                    network, told.rows, told.files, self.options, checkpoints, metrics
                )
                shown = _Steps(self.options.steps, begun)
                for step, values in trainer.train(begun):
                    shown.tell(step, values)
            _done(checkpoints, network)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reinforcement:
    """A training by reinforcement."""

    options: RlOptions
    settings: Settings
    cases: list[Case]
    held_out: list[Case]
    weights: str
    """Of the reward, as they were given."""
    exact: bool
    model: Path
    out: Path
    machine: Machine

    def run(self, *, again: bool) -> None:
        """Makes what is left of it.

        Args:
            again: Whether what is there is thrown away.
        """
        with self.machine.repeatable(wanted=self.options.together):
            self._run(again=again)

    def _run(self, *, again: bool) -> None:
        from vrag.rl.checkpoints import Checkpoints

        checkpoints = Checkpoints(self.out)
        scorer = _scorer(self.settings, self.weights, exact=self.exact)
        network = self.machine.opened(self.model)
        agents, made = self._agents(network)
        with checkpoints.held(), _stoppable(self.out):
            begun = checkpoints.begin(made, again=again, free=FREE)
            reference = self.machine.opened(self.model) if self.options.kl else None
            if begun is not None:
                network = self.machine.opened(begun.folder)
            asyncio.run(self._trained(checkpoints, begun, network, reference, agents, scorer))
            _done(checkpoints, network)

    async def _trained(
        self,
        checkpoints: Checkpoints,
        begun: SavedCheckpoint | None,
        network: TrainableModel,
        reference: TrainableModel | None,
        agents: Callable[[Policy], AgentOf],
        scorer: CompositeReward,
    ) -> None:
        from vrag.rl.metrics import FILE, MetricsFile
        from vrag.rl.trainers.local import LocalTrainer

        with MetricsFile.open(self.out / FILE, after=begun.step if begun else None) as metrics:
            trainer = LocalTrainer(
                network,
                agents,
                scorer,
                self.cases,
                self.held_out,
                self.options,
                checkpoints,
                metrics,
                reference,
            )
            shown = _Steps(self.options.steps, begun)
            try:
                async with aclosing(trainer.train(begun)) as done:
                    async for one in done:
                        shown.tell(one.step, one.values)
            finally:
                await scorer.aclose()

    def _agents(self, network: TrainableModel) -> tuple[Callable[[Policy], AgentOf], dict[str, Any]]:
        """What makes the agent of a policy, as serving does; and all that the run is made with.

        Embedded in one batch with others, a query has a vector that differs in its last bits: where a
        training is to be repeated, each is embedded alone.
        """
        from vrag.factory import agent_of, open_environment, open_session
        from vrag.rl.batched_policy import BatchedGenerator
        from vrag.rl.generation import SamplingOptions
        from vrag.rollouts.batched_search import BatchedSearcher

        settings = self.settings.model_copy(update={"repair": False})  # the grammar is to be learned
        searcher = open_session(settings).searcher
        alone = {"queries": 1, "wait": 0.0} if self.options.together else {}
        gathered = BatchedSearcher(searcher, **alone)  # pyright: ignore[reportArgumentType] - by name
        environment = open_environment(settings, gathered, network.checkpoint.profile)
        anybody = agent_of(
            settings, environment, BatchedGenerator(network, SamplingOptions()).open_handle(())
        )
        made = {
            "kind": "rl",
            "model": _digest(self.model),
            "cases": _hash(*map(repr, self.cases)),
            "held_out": _hash(*map(repr, self.held_out)),
            "collection": searcher.version,
            "agent": anybody.settings.model_dump(mode="json", exclude={"policy", "sampling", "repair"}),
            "weights": self.weights,
            "exact": self.exact,
            "judge": self.settings.judge_model,
            **self.machine.made,
            **self.options.model_dump(mode="json"),
        }
        return lambda policy: agent_of(settings, environment, policy), made


@contextmanager
def as_settings() -> Generator[None]:
    """What an option cannot be is said as of any other setting."""
    from pydantic import ValidationError

    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        name = "--" + "-".join(map(str, first["loc"][-1:])).replace("_", "-")
        raise SettingsError(f"{name} {first['input']}: {first['msg'].lower()}.") from None


class _Steps:
    """Tells steps as they are made: one line for each, on standard error."""

    def __init__(self, steps: int, begun: SavedCheckpoint | None) -> None:
        self._steps = steps
        self._done, self._seconds = 0, 0.0
        if begun is not None:
            say(f"Going on after step {begun.step} of {steps}.")

    def tell(self, step: int, values: Mapping[str, float]) -> None:
        """One more step."""
        seconds = values.get("seconds", 0.0)
        self._done, self._seconds = self._done + (step > 0), self._seconds + seconds
        left = (self._steps - step) * self._seconds / max(self._done, 1)
        told = "  ".join(f"{called} {values[name]:.3f}" for name, called in _TOLD if name in values)
        err.print(f"{step:>5}/{self._steps}  {told}  {seconds:.1f} s, {duration(left)} left", style="dim")


def _taught(network: TrainableModel, runs: list[Path]) -> SftDataset:
    """What is learned from recorded runs; what is left out is told."""
    from vrag.rl.sft_dataset import material_of

    material = material_of(network, runs)
    reasons = [one.reason for one in material.dropped]
    for reason in sorted(set(reasons)):
        warn(f"{reasons.count(reason)} rows were left out: {reason}")
    say(f"{len(material.rows)} rows of {len(runs)} runs.")
    return material


def _scorer(settings: Settings, weights: str, *, exact: bool) -> CompositeReward:
    from vrag.factory import open_scorer
    from vrag.reward import Weights
    from vrag.reward.combine import OWN_PARTS

    if not weights:
        return open_scorer(settings, exact=exact)
    given = _named(weights)
    retrieval, answer, pattern = (given.pop(name, 0.0) for name in OWN_PARTS)
    counted = Weights(retrieval=retrieval, answer=answer, pattern=pattern, extras=given)
    return open_scorer(settings, counted, exact=exact)


def _named(weights: str) -> dict[str, float]:
    """Weights by the name of their part; three numbers are those of our own."""
    from vrag.reward.combine import OWN_PARTS

    words = [word.strip() for word in weights.split(",")]
    pairs = [word.partition("=")[::2] for word in words if "=" in word]
    try:
        if len(pairs) == len(words):
            return {name.strip(): float(weight) for name, weight in pairs}
        return dict(zip(OWN_PARTS, map(float, words), strict=True))
    except ValueError:
        raise typer.BadParameter(
            f"{weights} is not three numbers, as 0.2,0.7,0.1, nor name=number, as answer=0.9,brevity=0.1.",
            param_hint="--weights",
        ) from None


def _digest(model: Path) -> str:
    from vrag.embed.model_files import checkpoint_digest

    if not model.is_dir():
        raise TrainingError(f"There is no checkpoint {model}.", "Make one: vrag train make-tiny.")
    return checkpoint_digest(model)


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _done(checkpoints: Checkpoints, network: TrainableModel) -> None:
    model = checkpoints.publish(network)
    say(("Trained", "bold"), f" {plain(str(model))}")
    say(f"Look at it: vrag train plot {plain(shlex.quote(str(checkpoints.run)))}")
    say(f"Ask it: vrag ask --model local:{plain(shlex.quote(str(model)))} …")


def _stoppable(out: Path) -> AbstractContextManager[None]:
    """Says on Ctrl-C how to go on."""
    return stoppable(f"The same command goes on from the last checkpoint in {out}.")
