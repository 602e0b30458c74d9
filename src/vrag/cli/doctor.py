"""`vrag doctor`: what works, what does not, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from vrag.cli.terminal.console import BaseUrl, Collections, Device, Json, Model, emit_json, plain, say
from vrag.cli.terminal.hints import again
from vrag.errors import SettingsError
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from vrag.doctor import Check
    from vrag.settings import SettingsReport

__all__ = ["doctor", "tell_checks"]

STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}


def doctor(
    model: str | None = Model,
    base_url: str | None = BaseUrl,
    local: str | None = typer.Option(None, help="Checkpoint to run in this process in place of a server."),
    coords: bool = typer.Option(
        False, "--coords", help="Measure in which coordinates the model answers boxes: 24 questions."
    ),
    profile: str | None = typer.Option(
        None, help="Model family to compare with.", show_default="VRAG_PROFILE"
    ),
    search_url: str | None = typer.Option(
        None, help="Search server to look at.", show_default="VRAG_SEARCH_URL"
    ),
    collection: list[str] | None = Collections,
    device: str | None = Device,
    seconds: float = typer.Option(60.0, min=1.0, help="Time limit of each check and each reply."),
    as_json: bool = Json,
) -> None:
    """Check the environment, the collection, the search server and the model; say what to do.

    Exit status 1 when a check failed. Keys are read from the environment: VRAG_MODEL_KEY for the model,
    VRAG_SEARCH_KEY for the search server.

    Examples of use:

      vrag doctor

      vrag doctor --model Qwen/Qwen3-VL-8B-Instruct --base-url http://localhost:8002/v1 --coords
    """
    from vrag.doctor import DoctorOptions, examine_all

    report = _settings(
        model=f"local:{local}" if local else model,
        base_url=base_url,
        profile=profile,
        search_url=search_url,
        device=device,
        collections=collection or None,
    )
    if coords and not isinstance(report, SettingsError) and not report.settings.model:
        raise typer.BadParameter(
            "it needs a model: --model MODEL --base-url URL, or --local PATH", param_hint="--coords"
        )
    order = DoctorOptions(coords=coords, seconds=seconds)
    raise typer.Exit(tell_checks(examine_all(report, order), as_json=as_json))


def tell_checks(checks: Iterable[Check], *, as_json: bool) -> int:
    """Prints checks as they are made, and how many failed; the exit status, 1 when one did."""
    from vrag.doctor import CheckStatus

    made: list[Check] = []
    for check in checks:
        made.append(check)
        if not as_json:
            _tell(check)
    failed = sum(check.status is CheckStatus.FAILED for check in made)
    if as_json:
        emit_json({"ok": not failed, "checks": [asdict(check) for check in made]})
    else:
        warned = sum(check.status is CheckStatus.WARNING for check in made)
        say(f"{len(made)} checks: {failed} failed, {warned} with a warning.")
    return 1 if failed else 0


def _settings(**flags: Any) -> SettingsReport | SettingsError:  # noqa: ANN401 - validated by the settings
    """The settings, or what is wrong with them: that is for the doctor to tell, beside the rest."""
    try:
        return load_settings(**flags)
    except SettingsError as error:
        return error


def _tell(check: Check) -> None:
    """Prints a check as a row of a table, as soon as it is made."""
    say((f"{check.status:<8}", STYLES[check.status]), f" {check.name:<13} ", plain(check.message))
    if check.hint:
        say(" " * 23, ("→ ", "bold"), plain(again(check.hint)))
