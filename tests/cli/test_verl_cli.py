"""`vrag train doctor` and the script, without verl; tests/live/test_verl.py has the rest."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner

from vrag.cli.train.verl import doctor
from vrag.doctor.verl import ask_judge, count_questions
from vrag.errors import SettingsError, TrainingError
from vrag.rl.episodes.options import JudgeOptions

SCRIPT = Path(__file__).parents[2] / "train_grpo_qwen2_5_vl_7b.sh"
APP = typer.Typer()
APP.command()(doctor)
KEY = "not-to-be-printed"
ARROW: Any = pa
PARQUET: Any = importlib.import_module("pyarrow.parquet")
ROW = {
    "id": "x",
    "prompt": [{"role": "user", "content": "How many?"}],
    "data_source": "rag",
    "reward_model": {"style": "rule", "ground_truth": "3"},
    "extra_info": {"question": "How many?", "answer": "3", "index": 0, "reference_page": [1]},
    "file_name": "a.pdf",
    "reference_page": [1],
}


def test_without_verl_it_says_what_to_install() -> None:
    done = CliRunner().invoke(APP, ["qwen2_5_vl_7b", "agent=vimrag", "--json"])
    assert done.exit_code == 1
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks.pop("verl")["hint"] == "In an environment of its own: pip install 'vrag-agent[verl]'"
    assert {check["status"] for check in checks.values()} == {"skipped"}
    assert list(checks) == ["packages", "names", "qwen2_5_vl_7b", "gpus", "data", "collection", "judge"]


def test_without_a_name_every_configuration_is_checked() -> None:
    done = CliRunner().invoke(APP, [])
    for name in ("lora_24gb", "qwen2_5_vl_3b", "qwen2_5_vl_7b", "qwen3_vl_8b"):
        assert f"skipped  {name}" in done.output
    assert "collection" not in done.output


def test_unknown_configurations_are_refused() -> None:
    done = CliRunner().invoke(APP, ["nothing"])
    assert isinstance(done.exception, SettingsError)
    assert "Known: lora_24gb" in str(done.exception)


def test_data_must_have_the_columns_of_the_reward(tmp_path: Path) -> None:
    path = tmp_path / "train set.parquet"
    with pytest.raises(TrainingError, match="does not exist"):
        count_questions(path)
    PARQUET.write_table(ARROW.table({"id": ["x"]}), path)
    with pytest.raises(TrainingError, match="has no columns: prompt, data_source"):
        count_questions(path)
    PARQUET.write_table(ARROW.Table.from_pylist([ROW]).slice(0, 0), path)
    with pytest.raises(TrainingError, match="has no rows"):
        count_questions(path)
    PARQUET.write_table(ARROW.Table.from_pylist([ROW]), path)
    assert count_questions(path) == 1


class Refusing(BaseHTTPRequestHandler):
    """A server that wants another key."""

    def do_GET(self) -> None:
        self.send_response(200 if self.headers["Authorization"] == f"Bearer {KEY}" else 401)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def test_the_judge_must_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "has no server or no model" in ask_judge(JudgeOptions(kind="endpoint", model="m")).message
    gone = ask_judge(JudgeOptions(kind="endpoint", base_url="http://127.0.0.1:9/v1", model="m"))
    assert gone.status == "failed"
    assert "http://127.0.0.1:9/v1 cannot be reached" in gone.message
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        judge = JudgeOptions(kind="endpoint", base_url=f"http://127.0.0.1:{server.server_port}/v1", model="m")
        assert ask_judge(judge).hint == "Check the key in VRAG_JUDGE_KEY."
        monkeypatch.setenv("VRAG_JUDGE_KEY", KEY)
        assert ask_judge(judge).status == "ok"
        server.shutdown()


def run_script(*given: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHON", "JUDGE_URL"}}
    return subprocess.run(
        [SCRIPT, *given], capture_output=True, text=True, check=False, env=environment | variables
    )


@pytest.mark.slow
def test_the_script_helps() -> None:
    done = run_script("--help")
    assert done.returncode == 0
    assert "MODEL_PATH" in done.stdout
    assert "set -eu" not in done.stdout


@pytest.mark.slow
def test_the_script_does_not_start_what_the_doctor_rejects() -> None:
    done = run_script(PYTHON=sys.executable, VRAG_JUDGE_KEY=KEY)
    assert done.returncode == 1
    assert "pip install 'vrag-agent[verl]'" in done.stdout
    assert "No module named" not in done.stderr
    assert KEY not in done.stdout + done.stderr


@pytest.mark.slow
def test_the_script_hands_its_arguments_on(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    variables = {
        "TRAIN_FILE": "train set.parquet",
        "MODEL_PATH": "m",
        "JUDGE_URL": "http://j",
        "PYTHON": str(python),
    }
    done = run_script("trainer.total_epochs=3", "a b", **variables)
    assert done.returncode == 0
    said = done.stdout.splitlines()
    settings = [
        "agent=vrag",
        "data.train_files='train set.parquet'",
        "data.val_files='data/validation.parquet'",
        "vrag.search_url='http://127.0.0.1:8001'",
        "actor_rollout_ref.model.path='m'",
        "vrag.judge.kind=endpoint",
        "vrag.judge.base_url='http://j'",
        "trainer.total_epochs=3",
        "a b",
    ]
    checked = ["-m", "vrag", "train", "doctor", "qwen2_5_vl_7b", *settings]
    begun = ["-m", "verl.trainer.main_ppo", "--config-path", "pkg://vrag.rl.configs"]
    assert said == [*checked, *begun, "--config-name", "qwen2_5_vl_7b", *settings]
    assert run_script(CHECK="1", **variables).stdout.splitlines() == checked[: 5 + 7]
