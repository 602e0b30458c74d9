"""The work of `vrag train local`: training runs that are started, resumed and published."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.terminal.console import duration, echo, err, plain, quote_argument, warn
from vrag.cli.terminal.progress import note_on_interrupt
from vrag.errors import SettingsError, TrainingError
from vrag.settings import load_settings

if TYPE_CHECKING:
    from vrag.agent.agent import Agent
    from vrag.agent.policy import Policy
    from vrag.embed.device import Device
    from vrag.reward import CompositeReward
    from vrag.rl.checkpoints import Checkpoints, SavedCheckpoint
    from vrag.rl.model import TrainableModel
    from vrag.rl.trainers.local import RlOptions, SftOptions
    from vrag.settings import Settings
    from vrag.types import Case

CHANGEABLE_OPTIONS = frozenset(
    {"steps", "save_every", "evaluate_every", "stop_at", "until_found", "keep_every", "keep_size"}
)
"""Options that may change when a run is resumed: they do not change the result of a step."""
STEP_MEASURES = (
    ("reward", "reward"),
    ("accuracy", "right"),
    ("reward/retrieval", "found"),
    ("reward/pattern", "form"),
    ("invalid", "invalid"),
    ("masked", "masked"),
    ("loss", "loss"),
    ("entropy", "entropy"),
    ("eval/reward/retrieval", "held out found"),
    ("eval/accuracy", "right"),
)
"""Measures in the line of a step, with their labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The device of a training run."""

    device: str | None
    """None for the device of the settings."""

    @property
    def place(self) -> Device:
        """The device, opened."""
        from vrag.rl.model import place_of

        return place_of(self.device or load_settings().settings.device)

    def open_model(self, model: Path) -> TrainableModel:
        """Load a checkpoint on the device."""
        from vrag.rl.model import open_network

        return open_network(model, device=self.place.name)

    def repeatable(self, *, wanted: bool = True) -> AbstractContextManager[None]:
        """Compute bit-identical results inside the context."""
        from vrag.rl.checkpoints import repeatable

        return repeatable(self.place.name, wanted=wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """A supervised training run."""

    options: SftOptions
    runs: list[Path]
    model: Path
    out: Path
    machine: Machine
    settings: Settings
    """Of the agent that is evaluated."""
    held_out: list[Case]
    """Questions to evaluate on; none for no evaluation."""
    max_tokens: int
    """Tokens of a reply in evaluations."""
    evaluate_samples: int
    """Rollouts of each of those questions."""
    evaluate_temperature: float
    loggers: tuple[str, ...] = ()
    """Names of `vrag.rl.metrics.LOGGERS`."""

    def run(self, *, again: bool) -> None:
        """Start or resume the run; delete an existing one first if `again`."""
        from vrag.rl.checkpoints import Checkpoints
        from vrag.rl.metrics import FILE, MetricsFile, require_loggers
        from vrag.rl.sft_dataset import digest_of, find_recordings, load_sft_dataset
        from vrag.rl.trainers.local import SupervisedTrainer

        require_loggers(self.loggers)
        recordings = find_recordings(self.runs)
        made_with = {
            "kind": "sft",
            "model": _model_digest(self.model),
            "runs": digest_of(recordings),
            **self.options.model_dump(mode="json"),
        }
        checkpoints = Checkpoints(self.out)
        with self.machine.repeatable(), checkpoints.held(), _note_on_interrupt(self.out):
            saved = checkpoints.begin(made_with, again=again, free=CHANGEABLE_OPTIONS)
            network = self.machine.open_model(saved.folder if saved else self.model)
            data = load_sft_dataset(network, recordings)
            reasons = [row.reason for row in data.dropped]
            for reason in sorted(set(reasons)):
                warn(f"{reasons.count(reason)} rows were left out: {reason}")
            echo(f"{len(data.rows)} rows of {len(recordings)} runs.")
            after = saved.step if saved else None
            with MetricsFile.open(self.out / FILE, after=after, loggers=self.loggers) as metrics:
                evaluate = self._open_evaluation(network) if self.held_out else None
                trainer = SupervisedTrainer(
                    network, data.rows, data.files, self.options, checkpoints, metrics, evaluate
                )
                printer = _StepPrinter(self.options.steps, saved)
                for step, values in trainer.train(saved):
                    printer.print_step(step, values)
            _publish(checkpoints, network)

    def _open_evaluation(self, network: TrainableModel) -> Callable[[], Mapping[str, float]]:
        """Return a function that measures the model by its answers to the held-out questions.

        Pages found are all that is decided by them, so that no judge model is asked: rules compare answers.
        """
        from vrag.reward import CompositeReward, Weights
        from vrag.reward.rules_judge import RulesJudge
        from vrag.rl.scored_rollouts import RolloutOptions, ScoredRollouts, mean_evaluation

        weights = Weights(retrieval=1.0, answer=0.0, pattern=0.0)
        scorer = CompositeReward(RulesJudge(exact=True), weights)
        options = RolloutOptions(max_tokens=self.max_tokens)
        rollouts = ScoredRollouts(network, _open_agents(self.settings, network, scorer).make, scorer, options)
        samples, temperature = self.evaluate_samples, self.evaluate_temperature
        return lambda: mean_evaluation(asyncio.run(rollouts.evaluate(self.held_out, samples, temperature)))


@dataclass(frozen=True, slots=True)
class _Agents:
    make: Callable[[Policy], Agent]
    """Makes the agent of a policy."""
    made_with: dict[str, Any]
    """What its runs depend on besides the policy."""


def _open_agents(
    settings: Settings, network: TrainableModel, scorer: CompositeReward, *, together: bool = True
) -> _Agents:
    """Open the environment of a network that is trained.

    The claims of answers are checked only where the reward needs it: that takes most of a rollout's time.

    Embedded in one batch with others, a query has a vector that differs in its last bits: for repeatable
    training (`together`), each query is embedded alone.
    """
    from vrag.factory.agents import agent_of, open_environment
    from vrag.factory.session import open_session
    from vrag.factory.training import settings_to_train
    from vrag.reward.combine import UnidocReward
    from vrag.rl.batched_policy import BatchedGenerator
    from vrag.rl.generation import SamplingOptions
    from vrag.rollouts.batched_search import BatchedSearcher

    settings = settings_to_train(settings, check_claims="support" in scorer.extras)
    settings = settings.model_copy(update={"repair": False})  # the model must learn the grammar
    searcher = open_session(settings).searcher
    alone = {"queries": 1, "wait": 0.0} if together else {}
    batched = BatchedSearcher(searcher, **alone)  # pyright: ignore[reportArgumentType] - by name
    environment = open_environment(settings, batched, network.checkpoint.profile)
    if isinstance(scorer, UnidocReward) and not environment.candidates:
        message = "The reward preset unidoc pays for selected pages, and the agent does not select any."
        raise SettingsError(message, "Set VRAG_SELECT=3.")

    def make(policy: Policy) -> Agent:
        return agent_of(settings, environment, policy, training=True)

    policy = BatchedGenerator(network, SamplingOptions()).open_handle(())
    excluded = {"policy", "sampling", "repair"}
    made_with = {
        "collection": searcher.version,
        "agent": make(policy).settings.model_dump(mode="json", exclude=excluded),
    }
    return _Agents(make, made_with)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reinforcement:
    """A reinforcement learning run."""

    options: RlOptions
    settings: Settings
    cases: list[Case]
    held_out: list[Case]
    weights: str
    """The weights of the reward, as given."""
    exact: bool
    model: Path
    out: Path
    machine: Machine
    loggers: tuple[str, ...] = ()
    """Names of `vrag.rl.metrics.LOGGERS`."""

    def run(self, *, again: bool) -> None:
        """Start or resume the run; delete an existing one first if `again`."""
        from vrag.rl.checkpoints import Checkpoints
        from vrag.rl.metrics import require_loggers

        require_loggers(self.loggers)
        checkpoints = Checkpoints(self.out)
        with self.machine.repeatable(wanted=self.options.together):
            scorer = open_weighted_scorer(self.settings, self.weights, exact=self.exact)
            network = self.machine.open_model(self.model)
            agents = _open_agents(self.settings, network, scorer, together=self.options.together)
            made_with = agents.made_with | self._made_with()
            with checkpoints.held(), _note_on_interrupt(self.out):
                saved = checkpoints.begin(made_with, again=again, free=CHANGEABLE_OPTIONS)
                reference = self.machine.open_model(self.model) if self.options.kl else None
                if saved is not None:
                    network = self.machine.open_model(saved.folder)
                asyncio.run(self._train(checkpoints, saved, network, reference, agents.make, scorer))
                _publish(checkpoints, network)

    async def _train(
        self,
        checkpoints: Checkpoints,
        saved: SavedCheckpoint | None,
        network: TrainableModel,
        reference: TrainableModel | None,
        make_agent: Callable[[Policy], Agent],
        scorer: CompositeReward,
    ) -> None:
        from vrag.rl.kept_rollouts import MEGABYTE, KeptRollouts
        from vrag.rl.metrics import FILE, MetricsFile
        from vrag.rl.trainers.local import LocalTrainer

        after, size = saved.step if saved else None, self.options.keep_size * MEGABYTE
        kept = KeptRollouts.open(self.out, after=after, max_bytes=size)
        with MetricsFile.open(self.out / FILE, after=after, loggers=self.loggers) as metrics:
            trainer = LocalTrainer(
                network,
                make_agent,
                scorer,
                self.cases,
                self.held_out,
                self.options,
                checkpoints,
                metrics,
                reference,
                kept,
            )
            printer = _StepPrinter(self.options.steps, saved)
            try:
                async with aclosing(trainer.train(saved)) as results:
                    async for result in results:
                        printer.print_step(result.step, result.values)
            finally:
                await scorer.aclose()

    def _made_with(self) -> dict[str, Any]:
        """Return what the run is made with, besides its agents."""
        return {
            "kind": "rl",
            "model": _model_digest(self.model),
            "cases": _hash(*map(repr, self.cases)),
            "held_out": _hash(*map(repr, self.held_out)),
            "weights": self.weights,
            "exact": self.exact,
            "judge": self.settings.judge_model,
            **self.options.model_dump(mode="json"),
        }


class _StepPrinter:
    def __init__(self, steps: int, saved: SavedCheckpoint | None) -> None:
        self._steps = steps
        self._done, self._seconds = 0, 0.0
        if saved is not None:
            echo(f"Resumed after step {saved.step} of {steps}.")

    def print_step(self, step: int, values: Mapping[str, float]) -> None:
        seconds = values.get("seconds", 0.0)
        self._done, self._seconds = self._done + (step > 0), self._seconds + seconds
        remaining = (self._steps - step) * self._seconds / max(self._done, 1)
        measures = (f"{label} {values[name]:.3f}" for name, label in STEP_MEASURES if name in values)
        text = "  ".join([f"{step:>5}/{self._steps}", *measures, f"{seconds:.1f} s"])
        err.print(f"{text}, {duration(remaining)} left", style="dim")


def open_weighted_scorer(settings: Settings, weights: str, *, exact: bool) -> CompositeReward:
    """Open the reward of `--weights`: a preset, three numbers, or weights and costs by name.

    Raises `BadParameter` if it is none of these, and `SettingsError` if the weights cannot be used.
    """
    from vrag.factory.training import open_judge, open_scorer
    from vrag.reward import Weights
    from vrag.reward.combine import OWN_PARTS, PRESETS, open_preset

    if not weights:
        return open_scorer(settings, exact=exact)
    if weights in PRESETS:
        return open_preset(weights, open_judge(settings, exact=exact))
    words = [word.strip() for word in weights.split(",")]
    pairs = [word.partition("=")[::2] for word in words if "=" in word]
    by_name: dict[str, float]
    try:
        if len(pairs) == len(words):
            by_name = {name.strip(): float(weight) for name, weight in pairs}
        else:
            by_name = {name: float(word) for name, word in zip(OWN_PARTS, words, strict=True)}
    except ValueError:
        message = (
            f"{weights}: give three numbers (0.2,0.7,0.1), named weights (answer=0.9,brevity=0.1) "
            f"or a preset ({', '.join(PRESETS)})."
        )
        raise typer.BadParameter(message, param_hint="--weights") from None
    if len(by_name) < len(words):
        raise typer.BadParameter(f"{weights}: a part is named twice.", param_hint="--weights")
    if by_name.get("support", 0.0) > 0 and settings.verify == "off":
        raise SettingsError(
            "The reward part 'support' has a weight, and claims are not checked.", "Set VRAG_VERIFY=tell."
        )
    return open_scorer(settings, Weights.of(by_name), exact=exact)


def _model_digest(model: Path) -> str:
    from vrag.embed.model_files import checkpoint_digest

    if not model.is_dir():
        raise TrainingError(f"The checkpoint {model} does not exist.", "Make one: vrag train make-tiny.")
    return checkpoint_digest(model)


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _publish(checkpoints: Checkpoints, network: TrainableModel) -> None:
    model = checkpoints.publish(network)
    echo(("Trained", "bold"), f" {plain(str(model))}")
    run = plain(quote_argument(str(checkpoints.run)))
    echo(f"Plot the curves: vrag train plot {run}")
    if (checkpoints.run / "rollouts").is_dir():
        echo(f"Read its rollouts: vrag train show {run}")
    echo(f"Ask it: vrag ask --model local:{plain(quote_argument(str(model)))} …")


def _note_on_interrupt(out: Path) -> AbstractContextManager[None]:
    return note_on_interrupt(f"Run the same command again to continue from the last checkpoint in {out}.")
