"""`vrag train doctor`: checks of a training run with verl."""

from __future__ import annotations

import typer

from vrag.cli import options as opt
from vrag.cli.doctor import print_checks


def doctor(
    configuration: str = typer.Argument(
        "",
        help="qwen2_5_vl_3b, qwen2_5_vl_7b, qwen3_vl_8b or lora_24gb.",
        show_default="all",
    ),
    overrides: list[str] = typer.Argument(None, help="Settings of verl, as for the run: agent=vimrag"),
    seconds: float = typer.Option(120.0, min=1.0, help="Time limit of each check, in seconds."),
    as_json: opt.JsonOption = False,
) -> None:
    """Check a training run with verl: versions, registered names, the configuration, and what it names.

    The configuration is composed and checked by verl, with the same settings as for the run. Its GPUs, data,
    search server and judge are looked at. Without a configuration, all that come with vrag are checked.

    The exit status is 1 if training cannot start.

    Example: vrag train doctor qwen2_5_vl_7b agent=vimrag data.train_files=data/train.parquet
    """
    from vrag.doctor.verl import examine_verl

    checks = examine_verl(configuration, overrides or (), seconds)
    raise typer.Exit(print_checks(checks, as_json=as_json))
