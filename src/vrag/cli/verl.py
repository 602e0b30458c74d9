"""`vrag train verl` and `vrag train doctor`: training on GPUs, with stock verl."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli import STOPPED
from vrag.cli.display import Json
from vrag.cli.doctor import tell_checks
from vrag.cli.signals import sigterm_received
from vrag.errors import MissingExtra, SettingsError, TrainingError

if TYPE_CHECKING:
    from vrag.rl.trainers.verl.options import VerlOptions

__all__ = ["doctor", "run_to_its_end", "verl"]


SearchServer = typer.Option("http://127.0.0.1:8001", "--search-url", help="Search server for the rollouts.")
JudgeUrl = typer.Option(
    "", help="Server of the model that judges, OpenAI-compatible; without it rules compare."
)
JudgeModel = typer.Option("", help="Name of that model. Its key is read from VRAG_JUDGE_KEY.")


def verl(
    configuration: str = typer.Argument(
        "qwen2_5_vl_7b", help="qwen2_5_vl_3b, qwen2_5_vl_7b, qwen3_vl_8b or lora_24gb."
    ),
    overrides: list[str] = typer.Argument(None, help="Further settings of verl: trainer.total_epochs=3"),
    agent: str = typer.Option("vrag", help="vrag (GRPO) or vimrag (GGPO)."),
    model: str = typer.Option("", help="Checkpoint to begin with, in place of the configuration's."),
    data: Path = typer.Option(Path("data/train.parquet"), help="Questions to train with, as parquet."),
    validation: Path = typer.Option(Path("data/validation.parquet"), help="Questions to validate with."),
    search_url: str = SearchServer,
    judge_url: str = JudgeUrl,
    judge_model: str = JudgeModel,
    dry_run: bool = typer.Option(False, "--dry-run", help="Check nothing and print the command."),
) -> None:
    """Train with verl 0.9.1 on GPUs, in an environment that has it.

    What is missing is said before anything starts. Further settings go to verl as they are.

    Example: vrag train verl qwen2_5_vl_7b --agent vimrag --data train.parquet trainer.total_epochs=3
    """
    from vrag.rl.trainers.verl.needs import shipped

    if configuration not in shipped():
        raise SettingsError(
            f"There is no configuration {configuration!r}.", f"Known: {', '.join(shipped())}."
        )
    if agent not in {"vrag", "vimrag"}:
        raise SettingsError(f"There is no agent {agent!r}.", "Known: vrag, vimrag.")
    settings = [
        f"agent={agent}",
        f"data.train_files={_quoted(str(data))}",
        f"data.val_files={_quoted(str(validation))}",
        f"vrag.search_url={_quoted(search_url)}",
        *([f"actor_rollout_ref.model.path={_quoted(model)}"] if model else []),
        *_judged(judge_url, judge_model),
        *(overrides or []),
    ]
    place = str(shipped()[configuration].parent)
    command = [sys.executable, "-m", "verl.trainer.main_ppo", "--config-path", place]
    command += ["--config-name", configuration, *settings]
    if dry_run:
        typer.echo(shlex.join(command))
        return
    _check(model, data, validation)
    raise typer.Exit(run_to_its_end(command))


def doctor(
    data: list[Path] = typer.Option([], "--data", help="Parquet of questions, repeatable."),
    search_url: str = SearchServer,
    judge_url: str = JudgeUrl,
    judge_model: str = JudgeModel,
    seconds: float = typer.Option(120.0, min=1.0, help="Time limit of each check."),
    as_json: bool = Json,
) -> None:
    """Check what training with verl needs: names, versions, GPUs, data, collection, judge.

    Exit status 1 when training cannot start.

    Example: vrag train doctor --data data/train.parquet --search-url http://127.0.0.1:8001
    """
    from vrag.doctor.verl import examine_verl

    checks = examine_verl(_options(search_url, judge_url, judge_model), data, seconds)
    raise typer.Exit(tell_checks(checks, as_json=as_json))


def _check(model: str, data: Path, validation: Path) -> None:
    """Whether training can start, as far as that is quick to say.

    Raises:
        MissingExtra: Without verl.
        TrainingError: If something else is missing.
    """
    from importlib.util import find_spec

    from vrag.rl.trainers.verl.needs import engine, missing_columns

    if find_spec("verl") is None:
        raise MissingExtra("verl", "verl")
    if engine() is None:
        raise TrainingError("Neither vLLM nor SGLang is installed.", "Run: pip install vllm")
    if model.startswith((".", "/", "~")) and not Path(model).expanduser().is_dir():
        raise TrainingError(f"There is no checkpoint {model}.", "Name a folder, or a model of the hub.")
    for path in (data, validation):
        if not path.is_file():
            raise TrainingError(f"There is no {path}.", "Make it: vrag data convert")
        if absent := missing_columns(path):
            raise TrainingError(f"{path} lacks: {', '.join(absent)}.", "Make it anew: vrag data convert")


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


def _judged(url: str, model: str) -> list[str]:
    """The judge as settings of verl.

    Raises:
        SettingsError: If only its server or only its name is given: every rollout would fail.
    """
    if not url and not model:
        return []
    if not url or not model:
        raise SettingsError("A judge has a server and a name.", "Give both: --judge-url and --judge-model.")
    named = (f"vrag.judge.base_url={_quoted(url)}", f"vrag.judge.model={_quoted(model)}")
    return ["vrag.judge.kind=endpoint", *named]


def _quoted(text: str) -> str:
    """A value as Hydra takes it, whatever characters it has."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _options(search_url: str, judge_url: str, judge_model: str) -> VerlOptions:
    from vrag.rl.trainers.verl.options import read_options

    judge: dict[str, Any] = {"kind": "endpoint", "base_url": judge_url, "model": judge_model}
    chosen = {"judge": judge} if judge_url or judge_model else {}
    return read_options({"search_url": search_url, **chosen})
