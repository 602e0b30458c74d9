"""`vrag train local sft | rl`: small models learn in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.display import Agent, Collections, Device
from vrag.cli.learning import Reinforcement, Supervision, as_settings
from vrag.errors import CaseError
from vrag.settings import load_settings

if TYPE_CHECKING:
    pass

__all__ = ["rl", "sft"]

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
    from vrag.rl.trainers.supervised import SftOptions
    from vrag.rl.update import UpdateOptions

    with as_settings():
        update = UpdateOptions(lr=lr, warmup=warmup, freeze_vision=freeze_vision)
        options = SftOptions(steps=steps, batch=batch, seed=seed, save_every=save_every, update=update)
    Supervision(options=options, runs=runs, model=model, out=out, device=device, dtype=dtype).run(again=again)


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
    evaluate_samples: int = typer.Option(1, min=1, help="Rollouts of a held-out question."),
    evaluate_temperature: float = typer.Option(0.0, min=0, help="Of those; 0: without sampling."),
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
    from vrag.rl.trainers.local import ALGORITHMS, RlOptions
    from vrag.rl.update import UpdateOptions

    settings = load_settings(
        agent=agent, collections=tuple(collections) if collections else None, max_steps=max_steps, hits=hits
    ).settings
    if algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise typer.BadParameter(f"{algorithm} is none of {known}.", param_hint="--algorithm")
    if ratio not in set(RatioKind):
        raise typer.BadParameter(f"{ratio} is neither token nor segment.", param_hint="--ratio")
    with as_settings():
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
            evaluate_samples=evaluate_samples,
            evaluate_temperature=evaluate_temperature,
            save_every=save_every,
            stop_at=stop_at,
            update=UpdateOptions(lr=lr, clip_norm=clip_norm),
        )
    asked = read_cases(cases)
    if not asked:
        raise CaseError(f"{cases} holds no questions.")
    kept = read_cases(held_out) if held_out else []
    Reinforcement(
        options=options,
        settings=settings,
        cases=asked,
        held_out=kept,
        weights=weights,
        exact=exact,
        model=model,
        out=out,
        device=device,
        dtype=dtype,
    ).run(again=again)
