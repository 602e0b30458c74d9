"""`vrag train verl`, `vrag train doctor` and the script, without verl: what is missing, and what to do."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner

from vrag.cli.verl import doctor, run_to_its_end, verl
from vrag.errors import MissingExtra, SettingsError, TrainingError
from vrag.rl.trainers.verl import needs

SCRIPT = Path(__file__).parents[2] / "train_grpo_qwen2_5_vl_7b.sh"
APP = typer.Typer()
APP.command("verl")(verl)
APP.command("doctor")(doctor)
KEY = "not-to-be-printed"
ARROW: Any = pa
PARQUET: Any = importlib.import_module("pyarrow.parquet")


def found(_name: str) -> object:
    """Whatever is looked for."""
    return object()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "train set.parquet"
    question = {"question": "How many?", "answer": "3", "index": 0, "reference_page": [1]}
    row = {
        "id": "x",
        "prompt": [{"role": "user", "content": "How many?"}],
        "data_source": "rag",
        "reward_model": {"style": "rule", "ground_truth": "3"},
        "extra_info": question,
        "file_name": "a.pdf",
        "reference_page": [1],
    }
    PARQUET.write_table(ARROW.Table.from_pylist([row]), path)
    return path


def test_the_command_is_printed_with_overrides_last(data: Path) -> None:
    given = ["verl", "qwen3_vl_8b", "trainer.total_epochs=3", "--agent", "vimrag", "--data", str(data)]
    done = CliRunner().invoke(APP, [*given, "--judge-url", "http://j/v1", "--judge-model", "m", "--dry-run"])
    assert done.exit_code == 0
    assert "-m verl.trainer.main_ppo --config-path" in done.output
    assert "--config-name qwen3_vl_8b agent=vimrag" in done.output
    assert str(data) in done.output
    assert "vrag.judge.kind=endpoint" in done.output
    assert done.output.strip().endswith("trainer.total_epochs=3")


def test_without_verl_nothing_starts(data: Path) -> None:
    done = CliRunner().invoke(APP, ["verl", "--data", str(data), "--validation", str(data)])
    assert isinstance(done.exception, MissingExtra)
    assert "vrag-agent[verl]" in str(done.exception)


@pytest.mark.parametrize("given", [["--judge-url", "http://j/v1"], ["--judge-model", "m"]])
def test_half_a_judge_is_refused_before_it_fails_every_rollout(given: list[str]) -> None:
    done = CliRunner().invoke(APP, ["verl", *given, "--dry-run"])
    assert isinstance(done.exception, SettingsError)
    assert "--judge-url and --judge-model" in str(done.exception)


ENDING = """
import sys, time
try:
    print("began", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.6)  # longer than `subprocess.run` would wait before it kills
    print("ended", flush=True)
"""
OUTER = "import sys; from vrag.cli.verl import run_to_its_end; sys.exit(run_to_its_end(sys.argv[1:]))"


def test_ctrl_c_leaves_verl_the_time_to_end() -> None:
    line = [sys.executable, "-c", OUTER, sys.executable, "-c", ENDING]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "began\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.read() == "ended\n"
        assert process.wait(30) == 130


def test_the_status_of_verl_is_that_of_the_command() -> None:
    ends = ("sys.exit(3)", "os.kill(os.getpid(), 9)")
    assert [run_to_its_end([sys.executable, "-c", f"import os, sys; {end}"]) for end in ends] == [3, 137]


@pytest.mark.parametrize("given", [["nothing"], ["qwen2_5_vl_7b", "--agent", "other"]])
def test_unknown_names_are_refused(given: list[str]) -> None:
    done = CliRunner().invoke(APP, ["verl", *given])
    assert isinstance(done.exception, SettingsError)
    assert "Known:" in str(done.exception)


def test_with_verl_data_is_looked_at_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", found)
    done = CliRunner().invoke(APP, ["verl"])
    assert isinstance(done.exception, TrainingError)
    assert "vLLM" in str(done.exception)
    monkeypatch.setattr(needs, "engine", lambda: "vllm")
    done = CliRunner().invoke(APP, ["verl", "--data", str(tmp_path / "none.parquet")])
    assert "vrag data convert" in str(done.exception)
    poor = tmp_path / "poor.parquet"
    PARQUET.write_table(ARROW.table({"id": ["x"]}), poor)
    done = CliRunner().invoke(APP, ["verl", "--data", str(poor)])
    assert "lacks: prompt, data_source" in str(done.exception)
    done = CliRunner().invoke(APP, ["verl", "--data", str(data), "--model", "./none"])
    assert "There is no checkpoint ./none." in str(done.exception)


def test_the_doctor_says_what_to_install(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAG_JUDGE_KEY", KEY)
    given = ["doctor", "--data", str(data), "--search-url", "http://127.0.0.1:9", "--json"]
    done = CliRunner().invoke(APP, given)
    assert done.exit_code == 1
    checks = {check["name"]: check for check in json.loads(done.output)["checks"]}
    assert checks["verl"]["status"] == checks["engine"]["status"] == "failed"
    assert checks["names"]["status"] == "skipped"
    assert "pip install 'vrag-agent[verl]'" in checks["verl"]["hint"]
    assert checks["data train set.parquet"]["status"] == "ok"
    assert checks["data train set.parquet"]["message"] == "1 questions."
    assert checks["collection"]["status"] == "failed"
    assert checks["judge"]["status"] == "warning"
    assert KEY not in done.output


def test_the_doctor_prints_a_table(tmp_path: Path) -> None:
    given = ["doctor", "--data", str(tmp_path / "none"), "--search-url", "http://127.0.0.1:9"]
    done = CliRunner().invoke(APP, given)
    assert done.exit_code == 1
    assert "failed   verl" in done.output
    assert "→ Make it: vrag data convert" in done.output
    assert "7 checks" in done.output


def test_the_doctor_says_where_the_judge_cannot_be_asked(tmp_path: Path) -> None:
    given = ["doctor", "--judge-url", "http://127.0.0.1:9/v1", "--judge-model", "m", "--json"]
    checks = json.loads(CliRunner().invoke(APP, given).output)["checks"]
    [judge] = [check for check in checks if check["name"] == "judge"]
    assert judge["status"] == "failed"
    assert "http://127.0.0.1:9/v1 cannot be reached" in judge["message"]
    assert "--judge-url" in judge["hint"]


def run_script(*given: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHON", "JUDGE_URL"}}
    return subprocess.run(
        [SCRIPT, *given], capture_output=True, text=True, check=False, env=environment | variables
    )


def test_the_script_helps() -> None:
    done = run_script("--help")
    assert done.returncode == 0
    assert "MODEL_PATH" in done.stdout
    assert "set -eu" not in done.stdout


def test_the_script_says_all_that_is_missing_and_no_keys() -> None:
    done = run_script(PYTHON=sys.executable, TRAIN_FILE="none.parquet", VRAG_JUDGE_KEY=KEY)
    assert done.returncode == 1
    for missing in ("none.parquet", "data/validation.parquet", "the package verl"):
        assert f"Missing: {missing}" in done.stderr
    assert "pip install 'vrag-agent[verl]' vllm" in done.stderr
    assert KEY not in done.stdout + done.stderr


def test_the_script_hands_its_arguments_on(tmp_path: Path, data: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" = -c ] || printf "%s\\n" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    variables = {"TRAIN_FILE": str(data), "VAL_FILE": str(data), "MODEL_PATH": "m", "JUDGE_URL": "http://j"}
    done = run_script("trainer.total_epochs=3", "a b", PYTHON=str(python), **variables)
    assert done.returncode == 0
    said = done.stdout.splitlines()
    assert said[:5] == ["-m", "vrag", "train", "verl", "qwen2_5_vl_7b"]
    assert said[-2:] == ["trainer.total_epochs=3", "a b"]
    assert said[said.index("--model") + 1] == "m"
    assert str(data) in said
