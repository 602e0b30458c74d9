"""`vrag train local sft | rl`: small models learn in this process."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.display import Agent, Collections, Device, duration, err, plain, say, warn
from vrag.errors import CaseError, SettingsError, TrainingError
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from vrag.agent.loop import Agent as AgentOf
    from vrag.agent.policy import Policy
    from vrag.rl.checkpoints import Checkpoints, Saved
    from vrag.rl.network import Network
    from vrag.rl.rows import RunRows
    from vrag.settings import Settings

__all__ = ["rl", "sft"]

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

Out = typer.Option(
    ..., "--out", "-o", help="Folder of the run; the same command goes on with one that stopped."
)
Again = typer.Option(False, "--again", help="Throw away what the folder holds, and begin anew.")
DType = typer.Option("float32", help="Precision of the weights; in half precision small steps round away.")


def sft(
    runs: list[Path] = typer.Argument(
        ..., help="Folders of recorded runs: demonstrations, samples, rollouts."
    ),
    model: Path = typer.Option(..., "--model", "-m", help="Checkpoint to begin with."),
    out: Path = Out,
    steps: int = typer.Option(100, min=1, help="Updates of the weights."),
    batch: int = typer.Option(16, min=1, help="Rows of a step."),
    lr: float = typer.Option(1e-5, help="Learning rate; about 2e-3 for a tiny model."),
    warmup: int = typer.Option(0, min=0, help="Steps in which it rises to that."),
    freeze_vision: bool = typer.Option(False, help="Leave the vision tower and its projector as they are."),
    seed: int = typer.Option(0, min=0, help="Of the order of rows."),
    save_every: int = typer.Option(100, min=1, help="Steps from one checkpoint to the next."),
    device: str | None = Device,
    dtype: str = DType,
    again: bool = Again,
) -> None:
    """Teach a model what recorded runs said: supervised training.

    Example: vrag train local sft demonstrations --model tiny --out taught --steps 400 --lr 2e-3
    """
    from vrag.rl.metrics import FILE, MetricsFile
    from vrag.rl.trainers.supervised import SftOptions, SupervisedTrainer
    from vrag.rl.update import UpdateOptions

    with _as_settings():
        update = UpdateOptions(lr=lr, warmup=warmup, freeze_vision=freeze_vision)
        options = SftOptions(steps=steps, batch=batch, seed=seed, save_every=save_every, update=update)
    stored = _stored(runs)
    runs_made = _hash(*(run for run, _ in stored))
    made = {"kind": "sft", "model": _digest(model), "runs": runs_made, "dtype": dtype}
    checkpoints, begun = _begun(out, made | options.model_dump(mode="json"), again=again)
    network = _opened(begun.folder if begun else model, device, dtype)
    rows, files = _taught(network, stored)
    with MetricsFile.open(out / FILE, after=begun.step if begun else None) as metrics:
        trainer = SupervisedTrainer(network, rows, files, options, checkpoints, metrics)
        shown = _Steps(steps, begun)
        try:
            for step, values in trainer.train(begun):
                shown.tell(step, values)
        except KeyboardInterrupt:
            raise _stopped(out) from None
    _done(checkpoints, network)


def rl(
    cases: Path = typer.Argument(..., help="Questions to train on, in the dataset JSON format."),
    model: Path = typer.Option(..., "--model", "-m", help="Checkpoint to begin with."),
    out: Path = Out,
    held_out: Path | None = typer.Option(None, help="Questions to evaluate on, asked without sampling."),
    collections: list[str] | None = Collections,
    agent: str | None = Agent,
    algorithm: str = typer.Option("grpo", help="grpo, ggpo, or ggpo-permuted: a control for studies."),
    steps: int = typer.Option(100, min=1, help="Updates of the weights."),
    questions: int = typer.Option(8, min=1, help="Questions of a step."),
    group: int = typer.Option(8, min=2, help="Rollouts of each question."),
    lr: float = typer.Option(1e-6, help="Learning rate; about 1e-3 for a tiny model."),
    clip_norm: float = typer.Option(1.0, min=1e-6, help="Norm of the gradient at most."),
    temperature: float = typer.Option(1.0, min=0.01, help="Of sampling."),
    max_steps: int | None = typer.Option(None, min=1, help="Model calls of a rollout at most."),
    max_tokens: int = typer.Option(256, min=1, help="Tokens of a reply at most."),
    hits: int | None = typer.Option(None, min=1, help="Hits a search of the agent returns."),
    weights: str = typer.Option(
        "",
        help="Of the reward: retrieval, answer and pattern, as 0.2,0.7,0.1.",
        show_default="the agent's own",
    ),
    exact: bool = typer.Option(False, help="Rules take an answer for right only word for word."),
    kl: float = typer.Option(0.0, min=0, help="Weight of the divergence from the model it began as."),
    entropy: float = typer.Option(0.0, min=0, help="Weight of the entropy; about 0.01 for a tiny model."),
    penalty: float | None = typer.Option(
        None, min=0, help="What a segment with an invalid action costs.", show_default="0.5, or 0 for grpo"
    ),
    ratio: str = typer.Option(
        "token", help="What is clipped: the ratio of each token, or of a segment (GSPO)."
    ),
    together: bool = typer.Option(True, help="Join rollouts at a barrier: repeatable bit by bit."),
    seed: int = typer.Option(0, min=0, help="Of everything that is random."),
    evaluate_every: int = typer.Option(10, min=1, help="Steps from one evaluation to the next."),
    save_every: int = typer.Option(10, min=1, help="Steps from one checkpoint to the next."),
    stop_at: float | None = typer.Option(None, help="Accuracy on held-out questions to stop at."),
    device: str | None = Device,
    dtype: str = DType,
    again: bool = Again,
) -> None:
    """Train a model by reinforcement: rollouts, rewards, advantages, an update, again.

    Rollouts go through the same agent and environment as serving. Stop at any moment: the same command
    goes on from the last checkpoint, and ends with the same weights, bit by bit, as if it had not been
    stopped.

    Example: vrag train local rl train.json --model taught/model --out trained --lr 1e-3 --entropy 0.01
    """
    from vrag.cases import read_cases
    from vrag.rl.losses import RatioKind
    from vrag.rl.metrics import FILE, MetricsFile
    from vrag.rl.trainers.local import ALGORITHMS, LocalTrainer, RlOptions
    from vrag.rl.update import UpdateOptions

    settings = load_settings(
        agent=agent, collections=tuple(collections) if collections else None, max_steps=max_steps, hits=hits
    ).settings
    if algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise typer.BadParameter(f"{algorithm} is none of {known}.", param_hint="--algorithm")
    if ratio not in set(RatioKind):
        raise typer.BadParameter(f"{ratio} is neither token nor segment.", param_hint="--ratio")
    with _as_settings():
        options = RlOptions(
            algorithm=algorithm,
            steps=steps,
            questions=questions,
            group=group,
            seed=seed,
            together=together,
            temperature=temperature,
            max_tokens=max_tokens,
            penalty=penalty,
            ratio=RatioKind(ratio),
            kl=kl,
            entropy=entropy,
            evaluate_every=evaluate_every,
            save_every=save_every,
            stop_at=stop_at,
            update=UpdateOptions(lr=lr, clip_norm=clip_norm),
        )
    asked = read_cases(cases)
    if not asked:
        raise CaseError(f"{cases} holds no questions.")
    kept = read_cases(held_out) if held_out else []
    scorer = _scorer(settings, weights, exact=exact)
    network = _opened(model, device, dtype)
    agents, version, described = _agents(settings, network)
    made = {
        "kind": "rl",
        "model": _digest(model),
        "cases": _hash(*map(repr, asked)),
        "held_out": _hash(*map(repr, kept)),
        "collection": version,
        "agent": described,
        "weights": weights,
        "exact": exact,
        "judge": settings.judge_model,
        "dtype": dtype,
    }
    checkpoints, begun = _begun(out, made | options.model_dump(mode="json"), again=again)
    reference = _opened(model, device, dtype) if kl else None
    if begun:
        network = _opened(begun.folder, device, dtype)

    async def run() -> None:
        with MetricsFile.open(out / FILE, after=begun.step if begun else None) as metrics:
            trainer = LocalTrainer(
                network, agents, scorer, asked, kept, options, checkpoints, metrics, reference
            )
            shown = _Steps(steps, begun)
            async with aclosing(trainer.train(begun)) as done:
                async for one in done:
                    shown.tell(one.step, one.values)

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        raise _stopped(out) from None
    _done(checkpoints, network)


@contextmanager
def _as_settings() -> Generator[None]:
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

    def __init__(self, steps: int, begun: Saved | None) -> None:
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


def _stored(folders: list[Path]) -> list[tuple[str, Path]]:
    """Ids and folders of recorded runs, in order."""
    found = [
        path.parent
        for folder in folders
        for path in sorted(folder.rglob("events.jsonl"))
        if not path.parent.name.startswith(".")  # of a process that died while it wrote it
    ]
    if not found:
        named = ", ".join(map(str, folders))
        raise TrainingError(f"There are no recorded runs in {named}.", "Record some: vrag data demonstrate.")
    return [(path.name, path) for path in found]


def _taught(network: Network, stored: list[tuple[str, Path]]) -> tuple[list[Any], dict[str, bytes]]:
    """Rows of recorded runs, and their pictures; what is left out is told."""
    from vrag.agent.runs import RunStore
    from vrag.rl.teaching import taught_rows

    rows: list[Any] = []
    files: dict[str, bytes] = {}
    dropped: list[str] = []
    for _, folder in stored:
        run = RunStore(folder.parent).read(folder.name)
        own = {path.name: path.read_bytes() for path in (folder / "files").iterdir()}
        made: RunRows = taught_rows(network, run.events, own)
        rows += made.rows
        dropped += [one.reason for one in made.dropped]
        files |= {name: data for name, data in own.items() if name.endswith(".jpg")}
    for reason in sorted(set(dropped)):
        warn(f"{dropped.count(reason)} rows were left out: {reason}")
    say(f"{len(rows)} rows of {len(stored)} runs.")
    return rows, files


def _agents(settings: Settings, network: Network) -> tuple[Callable[[Policy], AgentOf], str, dict[str, Any]]:
    """What makes the agent of a policy, as serving does; the version of what it searches; its settings."""
    from vrag.assemble import agent_of, open_environment, open_workbench
    from vrag.rl.batching import Scribe
    from vrag.rl.generation import Sampling
    from vrag.rl.searching import GatheredSearcher

    searcher = GatheredSearcher(open_workbench(settings).searcher)
    environment = open_environment(settings, searcher, network.checkpoint.profile)
    anybody = agent_of(settings, environment, Scribe(network, Sampling()).seat(()))
    described = anybody.settings.model_dump(mode="json", exclude={"policy", "sampling"})
    return lambda policy: agent_of(settings, environment, policy), searcher.version, described


def _scorer(settings: Settings, weights: str, *, exact: bool) -> Any:  # noqa: ANN401
    from vrag.assemble import open_scorer
    from vrag.reward import Weights

    if not weights:
        return open_scorer(settings, exact=exact)
    try:
        retrieval, answer, pattern = map(float, weights.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"{weights} is not three numbers, as 0.2,0.7,0.1.", param_hint="--weights"
        ) from None
    return open_scorer(settings, Weights(retrieval=retrieval, answer=answer, pattern=pattern), exact=exact)


def _begun(out: Path, made: dict[str, Any], *, again: bool) -> tuple[Checkpoints, Saved | None]:
    from vrag.rl.checkpoints import Checkpoints

    checkpoints = Checkpoints(out)
    return checkpoints, checkpoints.begin(made, again=again)


def _opened(model: Path, device: str | None, dtype: str) -> Network:
    from vrag.rl.network import open_network

    return open_network(model, device=device or load_settings().settings.device, dtype=dtype)


def _digest(model: Path) -> str:
    from vrag.embed.checkpoint import checkpoint_digest

    if not model.is_dir():
        raise TrainingError(f"There is no checkpoint {model}.", "Make one: vrag train make-tiny.")
    return checkpoint_digest(model)


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _stopped(out: Path) -> KeyboardInterrupt:
    warn(f"Stopped. The same command goes on from the last checkpoint in {plain(str(out))}.")
    return KeyboardInterrupt()


def _done(checkpoints: Checkpoints, network: Network) -> None:
    model = checkpoints.publish(network)
    say(("Trained", "bold"), f" {plain(str(model))}")
    say(f"Look at it: vrag train plot {plain(str(checkpoints.run))}")
    say(f"Ask it: vrag ask --model local:{plain(str(model))} …")
