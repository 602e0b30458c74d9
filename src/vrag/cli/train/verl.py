"""`vrag train verl` and `vrag train doctor`: training on GPUs with verl."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer

from vrag.cli import options as opt
from vrag.cli.doctor import print_checks
from vrag.cli.terminal.console import err
from vrag.cli.terminal.help import common_options
from vrag.cli.terminal.process import STOPPED, sigterm_received
from vrag.errors import MissingExtra, TrainingError

SearchUrlOption = Annotated[str, typer.Option("--search-url", help="Search server of the rollouts.")]
SEARCH_URL = "http://127.0.0.1:8001"
JudgeUrlOption = Annotated[
    str, typer.Option(help="OpenAI-compatible server of the judge; without it rules compare the answers.")
]
JudgeModelOption = Annotated[
    str, typer.Option(help="Name of the judge's model. Its key is read from VRAG_JUDGE_KEY.")
]
ConfigurationArgument = Annotated[
    str, typer.Argument(help="qwen2_5_vl_3b, qwen2_5_vl_7b, qwen3_vl_8b or lora_24gb.")
]
CONFIGURATION = "qwen2_5_vl_7b"
AgentOption = Annotated[str, typer.Option("--agent", help="vrag (GRPO) or vimrag (GGPO).")]
ModelOption = Annotated[
    str, typer.Option("--model", help="Checkpoint to start from instead of the configuration's.")
]
AttentionOption = Annotated[
    str,
    typer.Option(
        "--attention", help="sdpa, flash_attention_2, or auto: whatever is installed and the GPUs support."
    ),
]


def verl(
    configuration: ConfigurationArgument = CONFIGURATION,
    overrides: list[str] = typer.Argument(None, help="Further settings of verl: trainer.total_epochs=3"),
    agent: AgentOption = "vrag",
    model: ModelOption = "",
    attention: AttentionOption = "auto",
    data: Path = typer.Option(Path("data/train.parquet"), help="Training questions, as parquet."),
    validation: Path = typer.Option(
        Path("data/validation.parquet"), help="Validation questions, as parquet."
    ),
    search_url: SearchUrlOption = SEARCH_URL,
    judge_url: JudgeUrlOption = "",
    judge_model: JudgeModelOption = "",
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Print the command and take its steps up to the first call of CUDA."
    ),
) -> None:
    """Train with verl 0.9.1 on GPUs, in an environment where it is installed.

    Missing requirements are reported before anything starts. Further settings are passed to verl.

    Example: vrag train verl qwen2_5_vl_7b --agent vimrag --data train.parquet trainer.total_epochs=3
    """
    from vrag.doctor.verl_dry_run import dry_run as check_steps
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
    err.print(f"Attention: {launch.attention.name}, because {launch.attention.reason}.")
    if dry_run:
        typer.echo(shlex.join(launch.command))
    _check_requirements(model, data, validation)
    if dry_run:  # exit status 0 if only GPUs are missing
        raise typer.Exit(print_checks(check_steps(launch), as_json=False))
    check_gpus()
    raise typer.Exit(run_command(launch.command))


@common_options("agent", "model", "data", "search_url", "as_json")
def doctor(
    configuration: ConfigurationArgument = CONFIGURATION,
    agent: AgentOption = "vrag",
    model: ModelOption = "",
    attention: AttentionOption = "auto",
    data: list[Path] = typer.Option([], "--data", help="Parquet of questions; repeatable."),
    search_url: SearchUrlOption = SEARCH_URL,
    judge_url: JudgeUrlOption = "",
    judge_model: JudgeModelOption = "",
    seconds: float = typer.Option(120.0, min=1.0, help="Time limit of each check, in seconds."),
    as_json: opt.JsonOption = False,
) -> None:
    """Check the requirements of training with verl: versions, names, GPUs, memory, data, collection, judge.

    The exit status is 1 if training cannot start.

    Example: vrag train doctor qwen2_5_vl_7b --data data/train.parquet --search-url http://127.0.0.1:8001
    """
    from vrag.doctor.verl import examine_verl
    from vrag.rl.trainers.verl.launch import prepare_launch, quote
    from vrag.rl.trainers.verl.options import read_options

    settings = (f"actor_rollout_ref.model.path={quote(model)}",) if model else ()
    launch = prepare_launch(configuration, agent=agent, attention=attention, settings=settings)
    judge: dict[str, Any] = {"kind": "endpoint", "base_url": judge_url, "model": judge_model}
    judge_options = {"judge": judge} if judge_url or judge_model else {}
    options = read_options({"search_url": search_url, **judge_options})
    checks = examine_verl(launch, options, data, model, seconds)
    raise typer.Exit(print_checks(checks, as_json=as_json))


def _check_requirements(model: str, data: Path, validation: Path) -> None:
    from importlib.util import find_spec

    from vrag.rl.trainers.verl.launch import INSTALL, engine, missing_columns

    if find_spec("verl") is None:
        raise MissingExtra("verl", "verl")
    if engine() is None:
        raise TrainingError("Neither vLLM nor SGLang is installed.", f"Run: {INSTALL}")
    if model.startswith((".", "/", "~")) and not Path(model).expanduser().is_dir():
        hint = "Name a folder, or a model on the hub."
        raise TrainingError(f"The checkpoint {model} does not exist.", hint)
    for path in (data, validation):
        if not path.is_file():
            raise TrainingError(f"{path} does not exist.", "Make it: vrag data convert")
        if absent := missing_columns(path):
            message = f"{path} has no columns: {', '.join(absent)}."
            raise TrainingError(message, "Make it again: vrag data convert")


def check_gpus() -> None:
    """Check that there is a GPU: verl itself waits for one without a message."""
    from vrag.rl.trainers.verl.options import library

    if not os.environ.get("RAY_ADDRESS") and not library("torch").cuda.device_count():
        hint = "To test without a GPU: --dry-run. To use the GPUs of a cluster: RAY_ADDRESS"
        raise TrainingError("torch sees no GPU.", hint)


def run_command(command: list[str]) -> int:
    """Run a command and return its exit status, as shells report it; 130 after Ctrl-C.

    Ctrl-C also reaches the command, which has many processes and connections to close: this waits for it.
    SIGTERM is passed on.
    """
    stopped = False
    with subprocess.Popen(command) as process:  # noqa: S603 - our own command
        while True:
            try:
                status = process.wait()
                break
            except KeyboardInterrupt:
                stopped = True
                if sigterm_received():
                    process.terminate()
    return STOPPED if stopped else status if status >= 0 else 128 - status
