"""`vrag train verl` and `vrag train doctor`: training on GPUs, with stock verl."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli import STOPPED
from vrag.cli.doctor import tell_checks
from vrag.cli.terminal.console import Json, err
from vrag.cli.terminal.signals import sigterm_received
from vrag.errors import MissingExtra, TrainingError

if TYPE_CHECKING:
    from vrag.rl.trainers.verl.launch import Launch
    from vrag.rl.trainers.verl.options import VerlOptions

__all__ = ["check_gpus", "doctor", "run_to_its_end", "verl"]


SearchServer = typer.Option("http://127.0.0.1:8001", "--search-url", help="Search server for the rollouts.")
JudgeUrl = typer.Option(
    "", help="Server of the model that judges, OpenAI-compatible; without it rules compare."
)
JudgeModel = typer.Option("", help="Name of that model. Its key is read from VRAG_JUDGE_KEY.")
Configuration = typer.Argument(
    "qwen2_5_vl_7b", help="qwen2_5_vl_3b, qwen2_5_vl_7b, qwen3_vl_8b or lora_24gb."
)
AgentName = typer.Option("vrag", "--agent", help="vrag (GRPO) or vimrag (GGPO).")
ModelPath = typer.Option("", "--model", help="Checkpoint to begin with, in place of the configuration's.")
AttentionName = typer.Option(
    "auto", "--attention", help="sdpa or flash_attention_2; auto: by what is installed and the GPUs support."
)


def verl(
    configuration: str = Configuration,
    overrides: list[str] = typer.Argument(None, help="Further settings of verl: trainer.total_epochs=3"),
    agent: str = AgentName,
    model: str = ModelPath,
    attention: str = AttentionName,
    data: Path = typer.Option(Path("data/train.parquet"), help="Questions to train with, as parquet."),
    validation: Path = typer.Option(Path("data/validation.parquet"), help="Questions to validate with."),
    search_url: str = SearchServer,
    judge_url: str = JudgeUrl,
    judge_model: str = JudgeModel,
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Print the command and take its steps up to the first call of CUDA."
    ),
) -> None:
    """Train with verl 0.9.1 on GPUs, in an environment that has it.

    What is missing is said before anything starts. Further settings go to verl as they are.

    Example: vrag train verl qwen2_5_vl_7b --agent vimrag --data train.parquet trainer.total_epochs=3
    """
    from vrag.rl.trainers.verl.launch import judge_settings, prepare_launch, quote

    launch = prepare_launch(
        configuration,
        agent=agent,
        attention=attention,
        settings=(
            f"data.train_files={quote(data)}",
            f"data.val_files={quote(validation)}",
            f"vrag.search_url={quote(search_url)}",
            *((f"actor_rollout_ref.model.path={quote(model)}",) if model else ()),
            *judge_settings(judge_url, judge_model),
        ),
        overrides=tuple(overrides or ()),
    )
    err.print(f"Attention: {launch.attention.name}, since {launch.attention.reason}.")
    if dry_run:
        typer.echo(shlex.join(launch.command))
    _check(model, data, validation)
    if dry_run:
        raise typer.Exit(_dry_run(launch))
    check_gpus()
    raise typer.Exit(run_to_its_end(launch.command))


def doctor(
    configuration: str = Configuration,
    agent: str = AgentName,
    model: str = ModelPath,
    attention: str = AttentionName,
    data: list[Path] = typer.Option([], "--data", help="Parquet of questions, repeatable."),
    search_url: str = SearchServer,
    judge_url: str = JudgeUrl,
    judge_model: str = JudgeModel,
    seconds: float = typer.Option(120.0, min=1.0, help="Time limit of each check."),
    as_json: bool = Json,
) -> None:
    """Check what training with verl needs: versions, names, GPUs, memory, data, collection, judge.

    Exit status 1 when training cannot start.

    Example: vrag train doctor qwen2_5_vl_7b --data data/train.parquet --search-url http://127.0.0.1:8001
    """
    from vrag.doctor.verl import examine_verl
    from vrag.rl.trainers.verl.launch import prepare_launch, quote

    settings = (f"actor_rollout_ref.model.path={quote(model)}",) if model else ()
    launch = prepare_launch(configuration, agent=agent, attention=attention, settings=settings)
    options = _options(search_url, judge_url, judge_model)
    checks = examine_verl(launch, options, data, model, seconds)
    raise typer.Exit(tell_checks(checks, as_json=as_json))


def _dry_run(launch: Launch) -> int:
    """The exit status: 0 where nothing but GPUs is missing."""
    from vrag.doctor.verl_dry_run import dry_run

    return tell_checks(dry_run(launch), as_json=False)


def _check(model: str, data: Path, validation: Path) -> None:
    """Whether training can start, as far as that is quick to say.

    Raises:
        MissingExtra: Without verl.
        TrainingError: If something else is missing.
    """
    from importlib.util import find_spec

    from vrag.rl.trainers.verl.preflight import INSTALL, engine, missing_columns

    if find_spec("verl") is None:
        raise MissingExtra("verl", "verl")
    if engine() is None:
        raise TrainingError("Neither vLLM nor SGLang is installed.", f"Run: {INSTALL}")
    if model.startswith((".", "/", "~")) and not Path(model).expanduser().is_dir():
        raise TrainingError(f"There is no checkpoint {model}.", "Name a folder, or a model of the hub.")
    for path in (data, validation):
        if not path.is_file():
            raise TrainingError(f"There is no {path}.", "Make it: vrag data convert")
        if absent := missing_columns(path):
            raise TrainingError(f"{path} lacks: {', '.join(absent)}.", "Make it anew: vrag data convert")


def check_gpus() -> None:
    """Whether there is a GPU: verl itself waits for one without a word.

    Raises:
        TrainingError: If none is visible, and no cluster is named that may have some.
    """
    from vrag.rl.trainers.verl.options import library

    if not os.environ.get("RAY_ADDRESS") and not library("torch").cuda.device_count():
        raise TrainingError(
            "torch sees no GPU.", "See what a run would do: --dry-run. GPUs of a cluster: RAY_ADDRESS"
        )


def run_to_its_end(command: list[str]) -> int:
    """The exit status of a command, as shells have it; 130 after Ctrl-C.

    Ctrl-C reaches the command as well, which has many processes and connections to end: it is waited for.
    SIGTERM is passed on.
    """
    stopped = False
    with subprocess.Popen(command) as process:  # noqa: S603 - ours
        while True:
            try:
                status = process.wait()
                break
            except KeyboardInterrupt:
                stopped = True
                if sigterm_received():
                    process.terminate()
    return STOPPED if stopped else status if status >= 0 else 128 - status


def _options(search_url: str, judge_url: str, judge_model: str) -> VerlOptions:
    from vrag.rl.trainers.verl.options import read_options

    judge: dict[str, Any] = {"kind": "endpoint", "base_url": judge_url, "model": judge_model}
    chosen = {"judge": judge} if judge_url or judge_model else {}
    return read_options({"search_url": search_url, **chosen})
