"""`vrag train local sft | rl`: small models are trained in this process."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrag.cli import options as opt
from vrag.cli.terminal.files import read_questions
from vrag.cli.terminal.help import common_options
from vrag.cli.train.local_jobs import Machine, Reinforcement, Supervision
from vrag.errors import SettingsError
from vrag.settings import load_settings

if TYPE_CHECKING:
    from pydantic import BaseModel

RUN, ROLLOUTS, REWARD = "Run", "Rollouts", "Reward and credit"
UPDATE, MACHINE = "Update", "Memory and speed"
"""Panels of the help texts."""


def _option(
    panel: str, default: object, help: str, *, min: float | None = None, shown: bool | str = True
) -> Any:  # noqa: ANN401
    return typer.Option(default, help=help, min=min, show_default=shown, rich_help_panel=panel)


ModelOption = Annotated[Path, opt.option(RUN, "Checkpoint to start from.", True, "--model", "-m")]
_OUT = "Output folder of the run; the same command continues a stopped run."
OutOption = Annotated[Path, opt.option(RUN, _OUT, True, "--out", "-o")]
_AGAIN = "Delete the run in the folder and start again."
AgainOption = Annotated[bool, opt.option(RUN, _AGAIN, True, "--again")]
StepsOption = Annotated[int, opt.option(RUN, "Number of updates of the weights.", True, min=1)]
SeedOption = Annotated[int, opt.option(RUN, "Random seed.", True, min=0)]
SaveEveryOption = Annotated[int, opt.option(RUN, "Steps between checkpoints.", True, min=1)]
WarmupOption = Annotated[int, opt.option(UPDATE, "Steps until the full learning rate.", True, min=0)]
WeightDecayOption = Annotated[float, opt.option(UPDATE, "Weight decay of AdamW.", True, min=0)]
_LOG = "Also show the measures in `tensorboard` or `wandb`; repeatable. Each needs the extra of its name."
LogOption = Annotated[list[str], opt.option(RUN, _LOG, "none", "--log")]
_FREEZE_VISION = "Do not train the vision tower and its projector."
FreezeVisionOption = Annotated[bool, opt.option(UPDATE, _FREEZE_VISION, True, "--freeze-vision")]
_LORA_RANK = "Train LoRA adapters of this rank instead of all weights; the final model has them merged."
LoraRankOption = Annotated[int | None, opt.option(UPDATE, _LORA_RANK, "all weights", min=1)]
DeviceOption = Annotated[str | None, opt.option(MACHINE, "cpu, cuda, cuda:1.", "VRAG_DEVICE")]


@common_options("model", "out", "runs", "steps", "held_out", "until_found", "collections", "seed", "device")
def sft(
    model: ModelOption,
    out: OutOption,
    runs: list[Path] = typer.Argument(
        ..., help="Folders of recorded runs: demonstrations, samples, rollouts."
    ),
    steps: StepsOption = 100,
    seed: SeedOption = 0,
    save_every: SaveEveryOption = 100,
    log: LogOption = [],  # noqa: B006 - Typer copies it
    again: AgainOption = False,
    held_out: Path | None = _option(
        RUN, None, "Questions on which the model is evaluated, by its own searches."
    ),
    until_found: float | None = _option(
        RUN, None, "Stop when its searches find this share of their pages; fail if --steps end before."
    ),
    evaluate_every: int = _option(RUN, 50, "Steps between evaluations.", min=1),
    evaluate_samples: int = _option(RUN, 1, "Rollouts per held-out question.", min=1),
    evaluate_temperature: float = _option(RUN, 0.0, "Temperature of evaluations; 0: greedy.", min=0),
    collections: opt.CollectionsOption = None,
    agent: opt.AgentOption = None,
    max_steps: int | None = _option(ROLLOUTS, None, "Maximum model calls per evaluated run.", min=1),
    max_tokens: int = _option(ROLLOUTS, 256, "Maximum tokens per reply of those.", min=1),
    hits: int | None = _option(ROLLOUTS, None, "Hits that each search of the agent returns.", min=1),
    batch: int = _option(UPDATE, 16, "Rows per step.", min=1),
    lr: float = _option(UPDATE, 1e-5, "Learning rate; about 2e-3 for a tiny model."),
    warmup: WarmupOption = 0,
    weight_decay: WeightDecayOption = 0.0,
    freeze_vision: FreezeVisionOption = False,
    lora_rank: LoraRankOption = None,
    device: DeviceOption = None,
) -> None:
    """Train a model on the model replies of recorded runs (supervised fine-tuning).

    With --held-out and --until-found, the training ends when the model's own searches find that share of the
    gold pages of these questions (the mean nDCG of the pages that it was shown). The steps that this takes
    differ by seed and machine.

    Example: vrag train local sft demonstrations --model tiny --out taught --steps 400 --lr 2e-3
    """
    flags = locals()
    agent_flags = {name: flags[name] for name in ("agent", "max_steps", "hits")}
    settings = load_settings(**agent_flags, collections=collections or None).settings
    if until_found is not None and held_out is None:
        raise SettingsError("--until-found needs questions.", "Name them with --held-out.")
    from vrag.rl.trainers.local import SftOptions
    from vrag.rl.update import UpdateOptions

    with _invalid_options_as_settings():
        update = UpdateOptions(**_fields(UpdateOptions, flags))
        options = SftOptions(**_fields(SftOptions, flags), update=update)
    Supervision(
        options=options,
        runs=runs,
        model=model,
        out=out,
        machine=Machine(device=device),
        settings=settings,
        held_out=read_questions(held_out) if held_out else [],
        max_tokens=max_tokens,
        evaluate_samples=evaluate_samples,
        evaluate_temperature=evaluate_temperature,
        loggers=_parse_loggers(log),
    ).run(again=again)


@common_options("model", "out", "cases", "held_out", "collections", "agent", "algorithm", "steps", "device")
def rl(
    model: ModelOption,
    out: OutOption,
    cases: Path = typer.Argument(..., help="Questions to train on: JSON, JSON lines or parquet."),
    held_out: Path | None = _option(RUN, None, "Questions to evaluate on."),
    collections: opt.CollectionsOption = None,
    agent: opt.AgentOption = None,
    algorithm: str = _option(REWARD, "grpo", "grpo, ggpo, or ggpo-permuted (a control for studies)."),
    steps: StepsOption = 100,
    questions: int = _option(ROLLOUTS, 8, "Questions per step.", min=1),
    group: int = _option(ROLLOUTS, 8, "Rollouts per question.", min=2),
    lr: float = _option(UPDATE, 1e-6, "Learning rate; about 1e-3 for a tiny model."),
    warmup: WarmupOption = 0,
    weight_decay: WeightDecayOption = 0.0,
    freeze_vision: FreezeVisionOption = False,
    lora_rank: LoraRankOption = None,
    clip_norm: float = _option(UPDATE, 1.0, "Maximum norm of the gradient.", min=1e-6),
    temperature: float = _option(ROLLOUTS, 1.0, "Sampling temperature.", min=0.01),
    max_steps: int | None = _option(ROLLOUTS, None, "Maximum model calls per rollout.", min=1),
    max_tokens: int = _option(ROLLOUTS, 256, "Maximum tokens per reply.", min=1),
    hits: int | None = _option(ROLLOUTS, None, "Hits that each search of the agent returns.", min=1),
    weights: str = _option(
        REWARD,
        "",
        "Weights of the reward: a preset (vrag, vrag-after-sft, attribution, unidoc); retrieval, answer and "
        "pattern, as 0.2,0.7,0.1; or by name, with region, attribution, support, selection, installed parts "
        "and costs: retrieval=0.2,answer=0.7,region=0.1,turn_cost=0.02,repeat_cost=0.05.",
        shown="the agent's own",
    ),
    exact: bool = _option(REWARD, False, "Judge by rules: a number must stand alone and is not rounded."),
    kl: float = _option(UPDATE, 0.0, "Weight of the KL from the start model.", min=0),
    entropy: float = _option(UPDATE, 0.0, "Weight of the entropy; about 0.01 for a tiny model.", min=0),
    truncate: float | None = _option(
        UPDATE, None, "Weight tokens by trainer over sampler probability, up to this; 2 is usual."
    ),
    penalty: float | None = _option(
        REWARD, None, "Penalty of a segment with an invalid action.", min=0, shown="0.5, or 0 for grpo"
    ),
    ratio: str = _option(UPDATE, "token", "Clip the ratio of each `token`, or of each `segment` (GSPO)."),
    together: bool = _option(
        ROLLOUTS, True, "Synchronize rollouts: bit-identical results on the same machine."
    ),
    seed: SeedOption = 0,
    evaluate_every: int = _option(RUN, 10, "Steps between evaluations.", min=1),
    evaluate_samples: int = _option(RUN, 1, "Rollouts per held-out question.", min=1),
    evaluate_temperature: float = _option(RUN, 0.0, "Temperature of evaluations; 0: greedy.", min=0),
    save_every: SaveEveryOption = 10,
    stop_at: float | None = _option(RUN, None, "Stop at this accuracy on held-out questions."),
    keep_every: int = _option(
        RUN,
        20,
        "Steps between those whose rollouts are kept for `vrag train show`; the last one is, too. 0: none.",
        min=0,
    ),
    keep_size: int = _option(RUN, 1000, "Maximum megabytes of kept rollouts.", min=1),
    log: LogOption = [],  # noqa: B006 - Typer copies it
    again: AgainOption = False,
    device: DeviceOption = None,
    batch: int = _option(MACHINE, 64, "Maximum replies generated at a time.", min=1),
) -> None:
    """Train a model by reinforcement learning: rollouts, rewards, advantages, an update, and again.

    Rollouts use the same agent and environment as `vrag ask` and `vrag serve`. You can stop at any time: the
    same command continues from the last checkpoint, and the final weights are bit-identical to those of an
    uninterrupted run, on the same machine with the same libraries and number of threads. On CUDA this
    requires slower operations; --no-together does without.

    Example: vrag train local rl train.json --model taught/model --out trained --lr 1e-3 --entropy 0.01
    """
    flags = locals()
    from vrag.rl.losses import RatioKind
    from vrag.rl.trainers.local import ALGORITHMS, RlOptions
    from vrag.rl.update import UpdateOptions

    agent_flags = {name: flags[name] for name in ("agent", "max_steps", "hits")}
    settings = load_settings(**agent_flags, collections=collections or None).settings
    if stop_at is not None and held_out is None:
        raise SettingsError("--stop-at needs questions.", "Name them with --held-out.")
    _check_choice("--algorithm", algorithm, ALGORITHMS)
    _check_choice("--ratio", ratio, [*RatioKind])
    with _invalid_options_as_settings():
        update = UpdateOptions(**_fields(UpdateOptions, flags))
        options = RlOptions(**_fields(RlOptions, flags), update=update)
    Reinforcement(
        options=options,
        settings=settings,
        cases=read_questions(cases),
        held_out=read_questions(held_out) if held_out else [],
        weights=weights,
        exact=exact,
        model=model,
        out=out,
        machine=Machine(device=device),
        loggers=_parse_loggers(log),
    ).run(again=again)


def _fields(options: type[BaseModel], flags: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if name in options.model_fields}


def _check_choice(option: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        message = f"{value} is not one of {', '.join(choices)}."
        raise typer.BadParameter(message, param_hint=option)


def _parse_loggers(names: Sequence[str]) -> tuple[str, ...]:
    from vrag.rl.metrics import LOGGERS

    for name in names:
        _check_choice("--log", name, [*LOGGERS])
    return tuple(dict.fromkeys(names))


@contextmanager
def _invalid_options_as_settings() -> Generator[None]:
    """Report an invalid option like an invalid setting."""
    from pydantic import ValidationError

    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        name = "--" + "-".join(map(str, first["loc"][-1:])).replace("_", "-")
        raise SettingsError(f"{name} {first['input']}: {first['msg'].lower()}.") from None
