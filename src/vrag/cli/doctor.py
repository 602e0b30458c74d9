"""`vrag doctor`: what works, what does not, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from vrag.cli import options as opt
from vrag.cli.terminal.console import add_location, echo, plain, print_json
from vrag.cli.terminal.help import common_options
from vrag.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vrag.doctor import Check

STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}


@common_options("model", "base_url", "coords", "search_url", "collections", "as_json")
def doctor(
    model: opt.ModelOption = None,
    base_url: opt.BaseUrlOption = None,
    local: str | None = typer.Option(None, help="Checkpoint to load in this process instead of a server."),
    coords: bool = typer.Option(
        False, "--coords", help="Measure the box coordinates of the model with 24 questions."
    ),
    profile: opt.ProfileOption = None,
    search_url: opt.SearchUrlOption = None,
    collections: opt.CollectionsOption = None,
    device: opt.DeviceOption = None,
    seconds: float = typer.Option(60.0, min=1.0, help="Time limit of each check and each reply, in seconds."),
    as_json: opt.JsonOption = False,
) -> None:
    """Check the installation, the collection and the model.

    The search server is checked too, if there is one. Each problem comes with a way to fix it.

    The exit status is 1 if a check failed. Keys are read from the environment: VRAG_MODEL_KEY for the model,
    VRAG_SEARCH_KEY for the search server.

    Examples:

      vrag doctor

      vrag doctor --model Qwen/Qwen3-VL-8B-Instruct --base-url http://localhost:8002/v1 --coords
    """
    flags = locals() | {"model": f"local:{local}" if local else model}
    from vrag.doctor import DoctorOptions, examine_all

    try:
        report = opt.load_flags(flags)
    except SettingsError as error:  # reported as a failed check, with the other checks
        report = error
    if coords and not isinstance(report, SettingsError) and not report.settings.model:
        raise typer.BadParameter(
            "a model is required: --model MODEL --base-url URL, or --local PATH", param_hint="--coords"
        )
    options = DoctorOptions(coords=coords, seconds=seconds)
    raise typer.Exit(print_checks(examine_all(report, options), as_json=as_json))


def print_checks(checks: Iterable[Check], *, as_json: bool) -> int:
    """Print checks as they finish, and how many failed; return the exit status, 1 if one failed."""
    from vrag.doctor import CheckStatus

    finished: list[Check] = []
    for check in checks:
        finished.append(check)
        if as_json:
            continue
        echo((f"{check.status:<8}", STYLES[check.status]), f" {check.name:<13} ", plain(check.message))
        if check.hint:
            echo(" " * 23, ("→ ", "bold"), plain(add_location(check.hint)))
    failed = sum(check.status is CheckStatus.FAILED for check in finished)
    warnings = sum(check.status is CheckStatus.WARNING for check in finished)
    if as_json:
        print_json({"ok": not failed, "checks": [asdict(check) for check in finished]})
    else:
        echo(f"{len(finished)} checks: {failed} failed, {warnings} with a warning.")
    return 1 if failed else 0
