"""`vrag train local sft | rl`: small models learn in this process."""

from __future__ import annotations

from pathlib import Path

import typer

from vrag.cli.terminal.console import Agent, Collections
from vrag.cli.terminal.questions import read_questions
from vrag.cli.train.local_jobs import Machine, Reinforcement, Supervision, as_settings
from vrag.settings import load_settings

__all__ = ["rl", "sft"]

RUN, ROLLOUTS, REWARD = "Run", "Rollouts", "Reward and credit"
UPDATE, MACHINE = "Update", "Memory and speed"
"""Under which headings help shows options."""

Out = typer.Option(
    ...,
    "--out",
    "-o",
    help="Folder of the run; the same command goes on with one that stopped.",
    rich_help_panel=RUN,
)
Again = typer.Option(
    False, "--again", help="Throw away what the folder holds, and begin anew.", rich_help_panel=RUN
)
Begin = typer.Option(..., "--model", "-m", help="Checkpoint to begin with.", rich_help_panel=RUN)
Steps = typer.Option(100, min=1, help="Updates of the weights.", rich_help_panel=RUN)
Warmup = typer.Option(0, min=0, help="Steps in which it rises to that.", rich_help_panel=UPDATE)
WeightDecay = typer.Option(0.0, min=0, help="Of AdamW.", rich_help_panel=UPDATE)
FreezeVision = typer.Option(
    False,
    "--freeze-vision",
    help="Leave the vision tower and its projector as they are.",
    rich_help_panel=UPDATE,
)
Where = typer.Option(
    None, "--device", help="cpu, cuda, cuda:1.", show_default="VRAG_DEVICE", rich_help_panel=MACHINE
)
DType = typer.Option(
    "float32", help="Precision of weights; in half precision small steps round away.", rich_help_panel=MACHINE
)
Cast = typer.Option(
    "auto",
    help="In what layers multiply while weights stay float32: bfloat16, off; auto: bfloat16 on CUDA.",
    rich_help_panel=MACHINE,
)
PileTokens = typer.Option(
    16_384, min=1, help="Tokens of rows that are computed together at most.", rich_help_panel=MACHINE
)
LogitTokens = typer.Option(
    1024, min=1, help="Of them, tokens whose logits are held at once.", rich_help_panel=MACHINE
)
Recompute = typer.Option(
    False,
    "--checkpoint-activations",
    help="Compute layers twice: much less memory, a third more time.",
    rich_help_panel=MACHINE,
)


def sft(
    runs: list[Path] = typer.Argument(
        ..., help="Folders of recorded runs: demonstrations, samples, rollouts."
    ),
    model: Path = Begin,
    out: Path = Out,
    steps: int = Steps,
    seed: int = typer.Option(0, min=0, help="Of the order of rows.", rich_help_panel=RUN),
    save_every: int = typer.Option(
        100, min=1, help="Steps from one checkpoint to the next.", rich_help_panel=RUN
    ),
    again: bool = Again,
    batch: int = typer.Option(16, min=1, help="Rows of a step.", rich_help_panel=UPDATE),
    lr: float = typer.Option(
        1e-5, help="Learning rate; about 2e-3 for a tiny model.", rich_help_panel=UPDATE
    ),
    warmup: int = Warmup,
    weight_decay: float = WeightDecay,
    freeze_vision: bool = FreezeVision,
    device: str | None = Where,
    dtype: str = DType,
    autocast: str = Cast,
    pile_tokens: int = PileTokens,
    logit_tokens: int = LogitTokens,
    checkpoint_activations: bool = Recompute,
) -> None:
    """Teach a model what recorded runs said: supervised training.

    Example: vrag train local sft demonstrations --model tiny --out taught --steps 400 --lr 2e-3
    """
    from vrag.rl.trainers.supervised import SftOptions
    from vrag.rl.update import UpdateOptions

    with as_settings():
        update = UpdateOptions(
            lr=lr,
            warmup=warmup,
            weight_decay=weight_decay,
            freeze_vision=freeze_vision,
            pile_tokens=pile_tokens,
            logit_tokens=logit_tokens,
            checkpoint_activations=checkpoint_activations,
        )
        options = SftOptions(steps=steps, batch=batch, seed=seed, save_every=save_every, update=update)
    machine = _machine(device, dtype, autocast)
    Supervision(options=options, runs=runs, model=model, out=out, machine=machine).run(again=again)


def rl(
    cases: Path = typer.Argument(..., help="Questions to train on: JSON, JSON lines or parquet."),
    model: Path = Begin,
    out: Path = Out,
    held_out: Path | None = typer.Option(None, help="Questions to evaluate on.", rich_help_panel=RUN),
    collections: list[str] | None = Collections,
    agent: str | None = Agent,
    algorithm: str = typer.Option(
        "grpo", help="grpo, ggpo, or ggpo-permuted: a control for studies.", rich_help_panel=REWARD
    ),
    steps: int = Steps,
    questions: int = typer.Option(8, min=1, help="Questions of a step.", rich_help_panel=ROLLOUTS),
    group: int = typer.Option(8, min=2, help="Rollouts of each question.", rich_help_panel=ROLLOUTS),
    lr: float = typer.Option(
        1e-6, help="Learning rate; about 1e-3 for a tiny model.", rich_help_panel=UPDATE
    ),
    warmup: int = Warmup,
    weight_decay: float = WeightDecay,
    freeze_vision: bool = FreezeVision,
    clip_norm: float = typer.Option(
        1.0, min=1e-6, help="Norm of the gradient at most.", rich_help_panel=UPDATE
    ),
    temperature: float = typer.Option(1.0, min=0.01, help="Of sampling.", rich_help_panel=ROLLOUTS),
    max_steps: int | None = typer.Option(
        None, min=1, help="Model calls of a rollout at most.", rich_help_panel=ROLLOUTS
    ),
    max_tokens: int = typer.Option(256, min=1, help="Tokens of a reply at most.", rich_help_panel=ROLLOUTS),
    hits: int | None = typer.Option(
        None, min=1, help="Hits a search of the agent returns.", rich_help_panel=ROLLOUTS
    ),
    weights: str = typer.Option(
        "",
        help="Of the reward: retrieval, answer and pattern, as 0.2,0.7,0.1; or by name, those of installed "
        "parts too: retrieval=0.2,answer=0.7,brevity=0.1.",
        show_default="the agent's own",
        rich_help_panel=REWARD,
    ),
    exact: bool = typer.Option(
        False, help="Rules take an answer for right only word for word.", rich_help_panel=REWARD
    ),
    kl: float = typer.Option(
        0.0, min=0, help="Weight of the divergence from the model it began as.", rich_help_panel=UPDATE
    ),
    entropy: float = typer.Option(
        0.0, min=0, help="Weight of the entropy; about 0.01 for a tiny model.", rich_help_panel=UPDATE
    ),
    penalty: float | None = typer.Option(
        None,
        min=0,
        help="What a segment with an invalid action costs.",
        show_default="0.5, or 0 for grpo",
        rich_help_panel=REWARD,
    ),
    ratio: str = typer.Option(
        "token",
        help="What is clipped: the ratio of each token, or of a segment (GSPO).",
        rich_help_panel=UPDATE,
    ),
    together: bool = typer.Option(
        True,
        help="Join rollouts at a barrier: repeatable bit by bit, on the same machine.",
        rich_help_panel=ROLLOUTS,
    ),
    seed: int = typer.Option(0, min=0, help="Of everything that is random.", rich_help_panel=RUN),
    evaluate_every: int = typer.Option(
        10, min=1, help="Steps from one evaluation to the next.", rich_help_panel=RUN
    ),
    evaluate_samples: int = typer.Option(
        1, min=1, help="Rollouts of a held-out question.", rich_help_panel=RUN
    ),
    evaluate_temperature: float = typer.Option(
        0.0, min=0, help="Of those; 0: without sampling.", rich_help_panel=RUN
    ),
    save_every: int = typer.Option(
        10, min=1, help="Steps from one checkpoint to the next.", rich_help_panel=RUN
    ),
    stop_at: float | None = typer.Option(
        None, help="Accuracy on held-out questions to stop at.", rich_help_panel=RUN
    ),
    again: bool = Again,
    device: str | None = Where,
    dtype: str = DType,
    autocast: str = Cast,
    batch: int = typer.Option(
        64, min=1, help="Replies that are written together at most.", rich_help_panel=MACHINE
    ),
    pile_tokens: int = PileTokens,
    logit_tokens: int = LogitTokens,
    checkpoint_activations: bool = Recompute,
) -> None:
    """Train a model by reinforcement: rollouts, rewards, advantages, an update, again.

    Rollouts go through the same agent and environment as serving. Stop at any moment: the same command
    goes on from the last checkpoint, and ends with the same weights, bit by bit, as if it had not been
    stopped: on the same machine, with the same libraries and number of threads. On CUDA slower operations
    are taken for it; --no-together does without.

    Example: vrag train local rl train.json --model taught/model --out trained --lr 1e-3 --entropy 0.01
    """
    from vrag.rl.objectives.losses import RatioKind
    from vrag.rl.trainers.local import ALGORITHMS, RlOptions
    from vrag.rl.update import UpdateOptions

    settings = load_settings(
        agent=agent, collections=collections or None, max_steps=max_steps, hits=hits
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
            batch=batch,
            update=UpdateOptions(
                lr=lr,
                warmup=warmup,
                weight_decay=weight_decay,
                freeze_vision=freeze_vision,
                clip_norm=clip_norm,
                pile_tokens=pile_tokens,
                logit_tokens=logit_tokens,
                checkpoint_activations=checkpoint_activations,
            ),
        )
    asked = read_questions(cases)
    kept = read_questions(held_out) if held_out else []
    Reinforcement(
        options=options,
        settings=settings,
        cases=asked,
        held_out=kept,
        weights=weights,
        exact=exact,
        model=model,
        out=out,
        machine=_machine(device, dtype, autocast),
    ).run(again=again)


def _machine(device: str | None, dtype: str, autocast: str) -> Machine:
    from vrag.embed.options import DTYPES
    from vrag.rl.model import AUTOCASTS

    if dtype not in DTYPES:
        raise typer.BadParameter(f"{dtype} is none of {', '.join(DTYPES)}.", param_hint="--dtype")
    for known in AUTOCASTS:
        if autocast == known:
            return Machine(device=device, dtype=dtype, autocast=known)
    raise typer.BadParameter(f"{autocast} is none of {', '.join(AUTOCASTS)}.", param_hint="--autocast")
