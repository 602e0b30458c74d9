"""`vrag eval list` and `vrag eval prepare` with questions of one's own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from vrag.cli.eval import app
from vrag.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_form_of_a_question_of_ones_own_is_shown_and_can_be_prepared(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["list", "dataset"]).stdout
    shown = " ".join(told.split()).partition("A question: ")[2].partition("}}")[0] + "}}"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "questions.json").write_text(json.dumps([json.loads(shown)]))
    (tmp_path / "own" / "report.pdf").write_bytes(b"%PDF-")

    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["prepare", f"dataset={tmp_path / 'own'}", "--out", str(out)])

    assert done.exit_code == 0, done.exception
    assert json.loads((out / "cases.json").read_text())["examples"][0]["uid"] == "dataset-question-1"


def test_a_folder_in_the_place_of_a_benchmark_is_told_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    refused = CliRunner().invoke(app, ["prepare", "own", "--out", "out"]).exception
    assert isinstance(refused, SettingsError)
    assert "vrag eval prepare dataset=own --out" in refused.hint
