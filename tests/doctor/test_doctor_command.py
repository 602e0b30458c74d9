"""`vrag doctor` as a command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import typer
from chat_server import ChatServer
from grounding.seeing_server import Seeing
from typer.testing import CliRunner

from vrag.cli.doctor import doctor
from vrag.corpus.workers.sandbox import Protection
from vrag.doctor import Convention
from vrag.doctor import environment as env
from vrag.geometry import Space

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

app = typer.Typer()
app.command()(doctor)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, terminal_width=200)


def as_json(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = run(*arguments, "--json")
    report = json.loads(done.stdout)
    assert set(report) == {"ok", "checks"}
    return done.exit_code, {check["name"]: check for check in report["checks"]}


def test_a_fresh_installation_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "start_worker", lambda: Protection(7, seccomp=True))
    done = run()
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split()[:2] == ["ok", "settings"]
    assert any(line.split()[:2] == ["warning", "collection"] for line in lines)
    assert "→ Make one: vrag index add PATH" in done.stdout
    assert lines[-1].endswith("checks: 0 failed, 1 with a warning.")


def test_a_failure_gives_status_1_on_the_terminal_and_in_json(tmp_path: Path) -> None:
    arguments = ("--collection", str(tmp_path / "none"))
    done = run(*arguments)
    status, checks = as_json(*arguments)
    assert (done.exit_code, status) == (1, 1)
    assert "failed   collection" in done.stdout
    assert checks["collection"]["status"] == "failed"
    assert set(checks["collection"]) == {"name", "status", "message", "hint", "details", "seconds"}


def test_the_coordinates_are_told_with_the_profile_that_fits() -> None:
    with ChatServer(Seeing(Convention(Space.MILLE), noise=0.02, missing=0.1, factor=32)) as server:
        arguments = ("--model", "scripted", "--base-url", server.url, "--coords")
        done = run(*arguments)
        status, checks = as_json(*arguments, "--profile", "qwen3-vl")
    assert (done.exit_code, status) == (0, 0)
    assert "Boxes are written in 0 to 1000, x first." in done.stdout
    assert "VRAG_PROFILE=qwen3-vl" in done.stdout
    coordinates = checks["coordinates"]
    assert coordinates["status"] == "ok"
    assert coordinates["details"]["profiles"][0] == "qwen3-vl"
    assert coordinates["details"]["scores"][0]["median_iou"] > 0.6
    assert len(coordinates["details"]["scores"]) == 6


def test_coordinates_of_no_model_are_a_mistake_of_usage() -> None:
    done = run("--coords")
    assert done.exit_code == 2
    assert "model" in done.output


def test_settings_that_cannot_be_used_are_told_beside_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAG_DPI", "many")
    status, checks = as_json()
    assert (status, checks["settings"]["status"], checks["python"]["status"]) == (1, "failed", "ok")
    assert "dpi" in checks["settings"]["message"]


def test_what_a_server_says_cannot_play_with_the_terminal() -> None:
    with ChatServer(Seeing(), models=("\x1b[2Jevil[red]",)) as server:
        done = run("--model", "m", "--base-url", server.url)
    assert done.exit_code == 1
    assert "evil[red]" in done.stdout
    assert "\x1b" not in done.stdout
