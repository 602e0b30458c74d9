"""`vrag train plot`: a picture and the last values, of trainings that may still go on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from vrag.cli.train import plot
from vrag.errors import RunError

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the metrics of two trainings, one of them torn at its end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    for name, steps in (("grpo", 2), ("ggpo", 3)):
        lines = [json.dumps({"step": step, "reward": step / 4}) for step in range(1, steps + 1)]
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text("\n".join([*lines, '{"step": 9, "rew']))
    with (tmp_path / "grpo" / "metrics.jsonl").open("w") as stream:
        stream.write('{"step": 1, "reward": 0.25, "kl": 0.5}\n{"step": 2, "reward": 0.5, "loss": null}\n')
    return tmp_path


def call(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(plot)
    return CliRunner().invoke(app, arguments)


def test_it_writes_the_picture_and_tells_the_last_values(desk: Path) -> None:
    done = call("grpo", "ggpo")
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.output.splitlines()]
    assert rows[:4] == [
        ["measure", "grpo", "ggpo"],
        ["step", "2", "3"],
        ["reward", "0.5", "0.75"],
        ["kl", "0.5", "–"],
    ]
    assert rows[4][:3] == ["Written", "to", "curves.svg:"]
    assert (desk / "curves.svg").read_text().startswith("<svg ")


def test_it_writes_no_svg_into_a_file_of_another_kind(desk: Path) -> None:
    done = call("grpo", "--out", "curves.png")
    assert done.exit_code == 2
    assert "the picture is SVG" in " ".join(done.output.split())
    assert not (desk / "curves.png").exists()


def test_it_prints_json_for_machines(desk: Path) -> None:
    done = call("ggpo", "--json", "--out", "x.svg")
    assert json.loads(done.output) == {
        "file": "x.svg",
        "bytes": (desk / "x.svg").stat().st_size,
        "runs": {"ggpo": {"reward": {"step": 3, "value": 0.75}}},
    }


def test_it_prints_the_picture_alone_where_that_is_asked_for(desk: Path) -> None:
    done = call("grpo/metrics.jsonl", "-o", "-", "--title", "Ours & theirs")
    assert done.output.startswith("<svg ")
    assert done.output.endswith("</svg>\n")
    assert "<title>Ours &amp; theirs</title>" in done.output
    assert sorted(child.name for child in desk.iterdir()) == ["ggpo", "grpo"]


def test_trainings_of_one_name_are_told_apart_by_the_folders_above(desk: Path) -> None:
    for place in ("a/run", "b/run"):
        (desk / place).mkdir(parents=True)
        (desk / place / "metrics.jsonl").write_text('{"step": 1, "loss": 1}\n')
    assert call("a/run", "b/run/metrics.jsonl").output.splitlines()[0].split() == [
        "measure",
        "a/run",
        "b/run",
    ]
    assert "run (1)" in call("a/run", "a/run").output


@pytest.mark.parametrize("wrong", [("none",), ("grpo", "--out", "absent/x.svg"), ("grpo", "--out", ".")])
def test_what_cannot_be_read_or_written_is_told(desk: Path, wrong: tuple[str, ...]) -> None:
    done = call(*wrong)
    assert isinstance(done.exception, RunError)
    assert not (desk / "curves.svg").exists()
