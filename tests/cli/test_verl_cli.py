"""`vrag train verl`, `vrag train doctor` and the script, without verl: what is missing, and what to do."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from extras import require
from typer.testing import CliRunner

from vrag.cli.train.verl import check_gpus, doctor, run_command, verl
from vrag.doctor import Check
from vrag.doctor import verl as on_verl
from vrag.doctor.verl_dry_run import DryRun, dry_run
from vrag.errors import MissingExtra, SettingsError, TrainingError
from vrag.rl.trainers.verl import launch as preflight
from vrag.rl.trainers.verl.launch import prepare_launch

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
    assert isinstance(done.exception, MissingExtra)  # the steps of the dry run need verl
    command = done.stdout
    assert "-m verl.trainer.main_ppo --config-path" in command
    assert "--config-name qwen3_vl_8b agent=vimrag attention=sdpa" in command
    assert str(data) in command
    assert "vrag.judge.kind=endpoint" in command
    assert command.strip().endswith("trainer.total_epochs=3")
    assert "Attention: sdpa, because flash-attn is not installed." in done.stderr


def test_attention_can_be_asked_for_and_is_named_once(data: Path) -> None:
    given = ["verl", "qwen2_5_vl_7b", "--data", str(data), "--dry-run"]
    for more in (["--attention", "flash_attention_2"], ["attention=flash_attention_2"]):
        done = CliRunner().invoke(APP, [*given, *more])
        assert done.stdout.count("attention=") == 1
        assert "attention=flash_attention_2" in done.stdout
        assert "Attention: flash_attention_2, because it was asked for." in done.stderr


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
OUTER = "import sys; from vrag.cli.train.verl import run_command; sys.exit(run_command(sys.argv[1:]))"


@pytest.mark.slow
def test_ctrl_c_leaves_verl_the_time_to_end() -> None:
    line = [sys.executable, "-c", OUTER, sys.executable, "-c", ENDING]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "began\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.read() == "ended\n"
        assert process.wait(30) == 130


@pytest.mark.slow
def test_the_status_of_verl_is_that_of_the_command() -> None:
    ends = ("sys.exit(3)", "os.kill(os.getpid(), 9)")
    assert [run_command([sys.executable, "-c", f"import os, sys; {end}"]) for end in ends] == [3, 137]


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
    monkeypatch.setattr(preflight, "engine", lambda: "vllm")
    done = CliRunner().invoke(APP, ["verl", "--data", str(tmp_path / "none.parquet")])
    assert "vrag data convert" in str(done.exception)
    poor = tmp_path / "poor.parquet"
    PARQUET.write_table(ARROW.table({"id": ["x"]}), poor)
    done = CliRunner().invoke(APP, ["verl", "--data", str(poor)])
    assert "has no columns: prompt, data_source" in str(done.exception)
    done = CliRunner().invoke(APP, ["verl", "--data", str(data), "--model", "./none"])
    assert "The checkpoint ./none does not exist." in str(done.exception)


def checks_of(*given: str) -> dict[str, dict[str, Any]]:
    """What the doctor found, by name."""
    done = CliRunner().invoke(APP, ["doctor", "--search-url", "http://127.0.0.1:9", "--json", *given])
    assert done.exit_code == 1
    assert KEY not in done.output
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_the_doctor_says_what_to_install(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAG_JUDGE_KEY", KEY)
    checks = checks_of("--data", str(data))
    assert checks["verl"]["status"] == checks["engine"]["status"] == "failed"
    assert checks["names"]["status"] == checks["configuration"]["status"] == "skipped"
    assert "pip install 'vrag-agent[verl]'" in checks["verl"]["hint"]
    assert checks["attention"]["message"] == "sdpa: flash-attn is not installed."
    assert checks["data train set.parquet"]["status"] == "ok"
    assert checks["data train set.parquet"]["message"] == "1 questions."
    assert checks["collection"]["status"] == "failed"
    assert checks["judge"]["status"] == "warning"


@pytest.mark.slow
def test_versions_are_compared_with_the_lock_file(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {**preflight.PINS, "torch": "2.11.0+cu130", "transformers": "5.10.4", "ray": ""}

    def version(name: str) -> str:
        if not versions.get(name):
            raise PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(preflight, "version", version)
    checks = checks_of()
    assert [checks[name]["status"] for name in ("vllm", "torch", "transformers", "ray")] == [
        "ok",
        "ok",  # of the same release, built for CUDA 13.0
        "warning",
        "failed",
    ]
    assert checks["transformers"]["message"] == "transformers 5.10.4; the lock file has 5.9.0."
    assert checks["transformers"]["hint"] == "Run: pip install transformers==5.9.0"
    assert checks["engine"]["status"] == "failed"  # it is said to be installed, and cannot be imported
    assert "No module named 'vllm'" in checks["engine"]["message"]


@pytest.mark.slow
def test_an_engine_whose_import_does_not_end_fails_its_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "vllm.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(on_verl, "IMPORT_SECONDS", 1)
    monkeypatch.setattr(on_verl, "engine", lambda: "vllm")
    check = on_verl._engine()  # pyright: ignore[reportPrivateUsage]
    assert check.status == "failed"
    assert check.message == "vllm was not imported after 1 s."


def test_another_engine_takes_the_place_of_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "sglang":
            return "0.5.12"
        raise PackageNotFoundError(name)

    monkeypatch.setattr(preflight, "version", version)
    checks = checks_of()
    assert (checks["vllm"]["status"], checks["torch"]["status"]) == ("skipped", "failed")
    assert checks["vllm"]["message"] == "Not installed: sglang is used for rollouts."


def test_flash_attention_that_was_asked_for_must_work() -> None:
    check = checks_of("--attention", "flash_attention_2")["attention"]
    assert check["status"] == "failed"
    assert check["message"] == "flash_attention_2 is set, but flash-attn is not installed."
    assert "--attention auto" in check["hint"]


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [("127.0.0.1:9", "failed", "cannot be reached"), ("auto", "skipped", "is looked up")],
)
def test_the_cluster_that_is_named_must_listen(
    monkeypatch: pytest.MonkeyPatch, address: str, status: str, said: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    check = checks_of()["ray"]
    assert check["status"] == status
    assert said in check["message"]


def test_the_doctor_prints_a_table(tmp_path: Path) -> None:
    given = ["doctor", "--data", str(tmp_path / "none"), "--search-url", "http://127.0.0.1:9"]
    done = CliRunner().invoke(APP, given)
    assert done.exit_code == 1
    assert "failed   verl" in done.output
    assert "→ Make it: vrag data convert" in done.output
    lines = [line for line in done.output.splitlines() if not line.startswith(" " * 9)]
    assert f"{len(lines) - 1} checks" in lines[-1]  # one line for each


def run_with(model: str, **sections: Any) -> DryRun:  # noqa: ANN401
    """A run whose configuration is composed already."""
    made = DryRun(prepare_launch("qwen2_5_vl_7b"))
    given = {"path": model, "lora_rank": 0}
    rollout = {"tensor_model_parallel_size": 1, "gpu_memory_utilization": 0.5}
    actor = {"use_dynamic_bsz": False}
    made.config = Sections(
        actor_rollout_ref=Sections(model=Sections(**given), rollout=rollout, actor=actor),
        trainer={"n_gpus_per_node": 8, "nnodes": 1},
        data={"max_prompt_length": 8192, "max_response_length": 2048},
        **sections,
    )
    return made


class Sections(dict[str, Any]):
    """A configuration whose keys are attributes as well."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return self[name]


@pytest.mark.parametrize(
    ("gibibytes", "status"), [(20, "failed"), (32, "warning"), (80, "ok"), (None, "skipped")]
)
def test_the_memory_of_gpus_is_compared_with_what_the_model_takes(
    monkeypatch: pytest.MonkeyPatch, gibibytes: int | None, status: str
) -> None:
    sizes = [80 * 2**30, gibibytes * 2**30] if gibibytes else []
    monkeypatch.setattr(on_verl, "gpu_bytes", lambda: sizes)
    monkeypatch.setattr(on_verl, "installed", found)
    check = on_verl.check_memory(run_with("Qwen/Qwen2.5-VL-7B-Instruct"))
    assert check.status == status
    assert check.message.startswith(
        "30.9 GiB per GPU are required"
    )  # 2 bytes of 8.3e9 weights, half of a GPU
    assert on_verl.check_memory(run_with("somebody/else")).status == "skipped"


def test_the_model_s_folder_must_be_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(name: str) -> Check:
        return on_verl.check_model(run_with(name), "")

    assert check("./none").status == "failed"
    assert check("Qwen/Qwen3-VL-8B-Instruct").status == "warning"
    assert check("Qwen/Qwen3-VL-8B-Instruct").hint == ""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "--model PATH" in check("Qwen/Qwen3-VL-8B-Instruct").hint
    for name in ("config.json", "tokenizer_config.json", "model.safetensors"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    assert check(str(tmp_path)).message == f"{tmp_path} has no preprocessor_config.json."
    (tmp_path / "processor_config.json").write_text("{}", encoding="utf-8")
    assert check(str(tmp_path)).status == "ok"


def test_steps_of_a_dry_run_that_need_a_failed_one_are_skipped() -> None:
    checks = {check.name: check for check in dry_run(prepare_launch("lora_24gb"))}
    assert checks["configuration"].status == "failed"
    assert "vrag-agent[verl]" in checks["configuration"].hint
    assert {check.status for name, check in checks.items() if name != "configuration"} == {"skipped"}


def test_a_run_without_gpus_is_refused_unless_a_cluster_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    require("models", "torch")
    with pytest.raises(TrainingError, match="sees no GPU"):
        check_gpus()
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    check_gpus()


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


@pytest.mark.slow
def test_the_script_helps() -> None:
    done = run_script("--help")
    assert done.returncode == 0
    assert "MODEL_PATH" in done.stdout
    assert "set -eu" not in done.stdout


@pytest.mark.slow
def test_the_script_says_all_that_is_missing_and_no_keys() -> None:
    done = run_script(PYTHON=sys.executable, TRAIN_FILE="none.parquet", VRAG_JUDGE_KEY=KEY)
    assert done.returncode == 1
    for missing in ("none.parquet", "data/validation.parquet", "the package verl"):
        assert f"Missing: {missing}" in done.stderr
    assert "pip install 'vrag-agent[verl]'" in done.stderr
    assert KEY not in done.stdout + done.stderr


@pytest.mark.slow
def test_the_script_hands_its_arguments_on(tmp_path: Path, data: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" = -c ] || printf "%s\\n" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    variables = {"TRAIN_FILE": str(data), "VAL_FILE": str(data), "MODEL_PATH": "m", "JUDGE_URL": "http://j"}
    variables |= {"ATTENTION": "sdpa", "DRY_RUN": "1"}
    done = run_script("trainer.total_epochs=3", "a b", PYTHON=str(python), **variables)
    assert done.returncode == 0
    said = done.stdout.splitlines()
    assert said[:5] == ["-m", "vrag", "train", "verl", "qwen2_5_vl_7b"]
    assert said[-2:] == ["trainer.total_epochs=3", "a b"]
    assert said[said.index("--model") + 1] == "m"
    assert str(data) in said
    assert said[said.index("--attention") + 1] == "sdpa"
    assert "--dry-run" in said
    done = run_script(PYTHON=str(python), **(variables | {"DRY_RUN": "0"}))
    assert "--dry-run" not in done.stdout.splitlines()
