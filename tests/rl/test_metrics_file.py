"""The metrics file: no step is lost or there twice, whenever a training dies."""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extras import require
from hypothesis import given
from hypothesis import strategies as st

from vrag.errors import MissingExtra, RunError, TrainingError
from vrag.rl.metrics import LOGGERS, MetricsFile, TrainingMetrics, latest, names, read_metrics, series

if TYPE_CHECKING:
    from pathlib import Path

LOG_BLOCK = 32_768
"""Bytes of a block of a log of LevelDB."""


def steps(path: Path) -> list[int]:
    return [one.step for one in read_metrics(path)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of ten steps, and an evaluation at every fifth."""
    target = tmp_path / "run" / "metrics.jsonl"
    with MetricsFile.open(target, after=None) as file:
        for step in range(1, 11):
            file.write(step, {"reward": step / 10})
            if step % 5 == 0:
                file.write(step, {"eval/accuracy": step / 20})
    return target


def test_a_line_is_in_the_file_as_soon_as_it_is_written(tmp_path: Path) -> None:
    target = tmp_path / "metrics.jsonl"
    with MetricsFile.open(target, after=None) as file:
        file.write(0, {"eval/accuracy": 0.25})
        assert target.read_text() == '{"step": 0, "eval/accuracy": 0.25}\n'
        file.write(1, {"calls": 3})
        assert target.read_text().splitlines()[1] == '{"step": 1, "calls": 3}'


def test_going_on_at_a_step_cuts_what_came_after_it_and_nothing_else(path: Path) -> None:
    before = path.read_text().splitlines(keepends=True)
    with MetricsFile.open(path, after=5) as file:
        assert path.read_text() == "".join(before[:6])
        file.write(6, {"reward": 0.0})
    assert steps(path) == [1, 2, 3, 4, 5, 5, 6]
    assert sorted(child.name for child in path.parent.iterdir()) == ["metrics.jsonl"]


def test_going_on_behind_the_end_leaves_every_byte(path: Path) -> None:
    before, place = path.read_bytes(), path.stat().st_ino
    with MetricsFile.open(path, after=10):
        pass
    assert (path.read_bytes(), path.stat().st_ino) == (before, place)


def test_a_training_that_begins_again_has_no_line_of_the_last_one(path: Path) -> None:
    with MetricsFile.open(path, after=None) as file:
        file.write(0, {"eval/accuracy": 0.0})
    assert steps(path) == [0]


@pytest.mark.parametrize("torn", ['{"step": 11, "rew', '{"step": 11}', "\x00\x00\x00", "{"])
def test_a_line_without_its_end_is_left_out_and_cut(path: Path, torn: str) -> None:
    with path.open("a") as stream:
        stream.write(torn)
    assert steps(path)[-1] == 10
    with MetricsFile.open(path, after=10) as file:
        file.write(11, {"reward": 1.0})
    assert steps(path) == [1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 10, 11]


@pytest.mark.parametrize(
    "line",
    [
        *(
            "nothing",
            "[1]",
            "{}",
            "",
            "1",
            "null",
            "\x00",
            '{"step": "1"}',
            '{"step": 1.5}',
            '{"step": true}',
            '{"step": -1}',
            f'{{"step": {10**30}}}',
        ),
        *('{"step": 1, "loss": "x"}', '{"step": 1, "loss": [2]}', '{"step": 1, "loss": true}'),
    ],
)
def test_a_whole_line_that_is_damaged_is_told_with_its_number(path: Path, line: str) -> None:
    data = path.read_text()
    path.write_text(f"{data}{line}\n{data}")
    with pytest.raises(RunError, match=r"Line 13 of .* is damaged"):
        read_metrics(path)
    with pytest.raises(RunError, match="Line 13"), MetricsFile.open(path, after=20):
        pass
    assert path.read_text() == f"{data}{line}\n{data}"


def test_what_is_no_finite_number_is_null_in_the_file_and_none_when_read(tmp_path: Path) -> None:
    target = tmp_path / "metrics.jsonl"
    values = {"a": math.nan, "b": math.inf, "c": -math.inf, "d": None, "e": 10**400, "f": 1e308}
    with MetricsFile.open(target, after=None) as file:
        file.write(1, values)
    found = json.loads(target.read_text(), parse_constant=pytest.fail)
    assert found == {"step": 1, **dict.fromkeys("abcdef")}
    assert read_metrics(target) == (TrainingMetrics(1, dict.fromkeys("abcdef")),)
    target.write_text('{"step": 1, "a": NaN, "b": Infinity, "c": 1e999, "d": 1}\n')
    assert read_metrics(target)[0].values == {"a": None, "b": None, "c": None, "d": 1}


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "a": np.float32(0.5),
        "b": np.int64(7),
        "c": np.array(0.25),
        "d": np.float32("nan"),
    }
    with MetricsFile.open(tmp_path / "m", after=None) as file:
        file.write(1, values)
    assert (tmp_path / "m").read_text() == '{"step": 1, "a": 0.5, "b": 7, "c": 0.25, "d": null}\n'


def test_what_is_no_number_is_not_written(tmp_path: Path) -> None:
    wrong: Any = {"a": "0.5"}
    with MetricsFile.open(tmp_path / "m", after=None) as file, pytest.raises(TypeError):
        file.write(1, wrong)
    assert (tmp_path / "m").read_bytes() == b""


def test_records_cannot_be_changed(path: Path) -> None:
    with pytest.raises(AttributeError):
        read_metrics(path)[0].step = 3  # type: ignore[misc] # pyright: ignore[reportAttributeAccessIssue]


def test_a_folder_is_read_by_its_file_and_an_absent_one_is_told(path: Path, tmp_path: Path) -> None:
    assert read_metrics(path.parent) == read_metrics(path)
    (tmp_path / "empty").mkdir()
    for absent in (tmp_path / "empty", tmp_path / "none"):
        with pytest.raises(RunError, match="No such file"):
            read_metrics(absent)


def test_series_are_by_step_with_gaps_left_out_and_the_last_line_of_a_step_counting() -> None:
    lines = [
        TrainingMetrics(3, {"loss": 0.1}),
        TrainingMetrics(1, {"loss": 0.3, "kl": None}),
        TrainingMetrics(2, {"loss": None}),
        TrainingMetrics(3, {"loss": 0.2}),
    ]
    assert series(lines, "loss") == ((1, 0.3), (3, 0.2))
    assert series(lines, "kl") == ()
    assert names(lines) == ("loss",)
    assert latest(lines) == {"loss": (3, 0.2)}


@pytest.mark.slow
def test_a_full_disk_leaves_no_half_of_a_line(tmp_path: Path) -> None:
    script = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from vrag.errors import RunError; from vrag.rl.metrics import MetricsFile\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))\n"
        "with MetricsFile.open(Path(sys.argv[1]), after=None) as file:\n"
        "    file.write(1, {'reward': .5, 'loss': 1.})\n"
        "    try:\n        file.write(2, {'reward': .5, 'loss': 1.})\n"
        "    except RunError as error:\n        print(error)\n"
    )
    target = tmp_path / "metrics.jsonl"
    done = subprocess.run([sys.executable, "-c", script, target], capture_output=True, text=True, check=True)
    assert "cannot be written" in done.stdout
    assert target.read_bytes() == b'{"step": 1, "reward": 0.5, "loss": 1.0}\n'


@pytest.mark.slow
def test_kills_lose_no_step_and_double_none(tmp_path: Path) -> None:
    """The writer keeps a checkpoint after every third step, and is killed after any number of bytes."""
    target, checkpoint = tmp_path / "metrics.jsonl", tmp_path / "checkpoint"
    script = (
        "import sys; from pathlib import Path; from vrag.rl.metrics import MetricsFile\n"
        "path, mark = map(Path, sys.argv[1:]); at = int(mark.read_text()) if mark.exists() else None\n"
        "with MetricsFile.open(path, after=at) as file:\n"
        "    for step in range((at or 0) + 1, 100_000):\n"
        "        file.write(step, {'reward': step}); print(step, flush=True)\n"
        "        if step % 3 == 0:\n"
        "            (beside := mark.with_suffix('.new')).write_text(str(step)); beside.replace(mark)\n"
    )
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", script, target, checkpoint], stdout=subprocess.PIPE
        ) as child:
            assert child.stdout
            for _ in range(7):
                child.stdout.readline()
            os.kill(child.pid, signal.SIGKILL)
    found = [(one.step, one.values["reward"]) for one in read_metrics(target)]
    assert found == [(step, step) for step in range(1, len(found) + 1)]
    assert len(found) > 15


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3))), st.integers(0, 20), st.binary(max_size=9))
def test_cutting_keeps_the_lines_up_to_the_step_whatever_the_end(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[int, int]], after: int, torn: bytes
) -> None:
    target = tmp_path_factory.mktemp("cut") / "metrics.jsonl"
    lines = [json.dumps({"step": step, "x": x}) + "\n" for step, x in written]
    target.write_bytes("".join(lines).encode() + torn.replace(b"\n", b""))
    with MetricsFile.open(target, after=after):
        pass
    kept = [line for line, (step, _) in zip(lines, written, strict=True) if step <= after]
    assert target.read_text() == "".join(kept)


def tensorboard(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard itself reads: steps and values by name."""
    module: Any = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    reader = module.EventAccumulator(str(folder / "tensorboard"))
    reader.Reload()
    return {
        name: [(event.step, round(event.value, 6)) for event in reader.Scalars(name)]
        for name in reader.Tags()["scalars"]
    }


@pytest.mark.slow
class TestTensorBoard:
    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        require("tensorboard", "torch", "tensorboard")

    def test_it_reads_what_is_in_the_file(self, tmp_path: Path) -> None:
        with MetricsFile.open(tmp_path / "metrics.jsonl", after=None, loggers=["tensorboard"]) as file:
            file.write(1, {"reward": 0.25, "reward/answer": 1, "kl": math.nan})
            assert tensorboard(tmp_path) == {"reward": [(1, 0.25)], "reward/answer": [(1, 1.0)]}, "at once"

    @pytest.mark.parametrize("after", [None, 3])
    def test_steps_that_are_made_again_are_not_there_twice(self, after: int | None, tmp_path: Path) -> None:
        target = tmp_path / "metrics.jsonl"
        with MetricsFile.open(target, after=None, loggers=["tensorboard"]) as file:
            for step in range(1, 6):
                file.write(step, {"reward": 0.0})
        with MetricsFile.open(target, after=after, loggers=["tensorboard"]) as file:
            for step in range((after or 0) + 1, 7):
                file.write(step, {"reward": 1.0})
        assert tensorboard(tmp_path) == {"reward": list(series(read_metrics(target), "reward"))}

    def test_one_that_is_asked_for_later_is_given_what_was_before(self, path: Path) -> None:
        with MetricsFile.open(path, after=10, loggers=["tensorboard"]) as file:
            file.write(11, {"reward": 0.5})
        expected = {name: list(series(read_metrics(path), name)) for name in ("reward", "eval/accuracy")}
        assert tensorboard(path.parent) == expected


@pytest.mark.slow
class TestWandb:
    @pytest.fixture(autouse=True)
    def installed(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        require("wandb", "wandb")
        monkeypatch.setenv("WANDB_SILENT", "true")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.delenv("WANDB_API_KEY", raising=False)

    def test_a_run_without_a_server_holds_every_step(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WANDB_MODE", "offline")
        (path.parent / "training.json").write_text('{"seed": 7}')
        for after, reward in ((10, 0.5), (11, 0.75)):
            with MetricsFile.open(path, after=after, loggers=["wandb"]) as file:
                file.write(after + 1, {"reward": reward})
        importlib.import_module("wandb").teardown()  # as at the end of a process: its files are complete
        runs = sorted(
            (path.parent / "wandb").glob("offline-run-*/*.wandb"), key=lambda file: file.stat().st_mtime
        )
        assert len({file.name for file in runs}) == 1, "the second process continues the run of the first"
        first, second = map(wandb_history, runs)
        assert first == [
            *({"step": record.step, **record.values} for record in read_metrics(path)[:12]),
            {"step": 11, "reward": 0.5},
        ]
        assert second == [{"step": 12, "reward": 0.75}]

    def test_without_a_login_it_says_what_to_do(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WANDB_MODE", "online")
        monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
        with (
            pytest.raises(TrainingError, match="W&B cannot be used") as told,
            MetricsFile.open(path, after=10, loggers=["wandb"]),
        ):
            pass
        assert "WANDB_MODE=offline" in (told.value.hint or "")


def wandb_history(file: Path) -> list[dict[str, Any]]:
    """The measures in the file of a run: a log of LevelDB behind 7 bytes of its own, of W&B's messages."""
    messages: Any = importlib.import_module("wandb.proto.wandb_internal_pb2")
    data, at, message = file.read_bytes(), 7, b""
    lines: list[dict[str, Any]] = []
    while at + 7 <= len(data):
        if LOG_BLOCK - at % LOG_BLOCK < 7:  # no room for a header
            at += LOG_BLOCK - at % LOG_BLOCK
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        message += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in {1, 4}:  # whole, or the last part
            record = messages.Record.FromString(message)
            message = b""
            if record.WhichOneof("record_type") == "history":
                items = {
                    "/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item
                }
                lines.append({name: value for name, value in items.items() if not name.startswith("_")})
    return lines


def test_a_logger_that_is_not_installed_names_its_extra(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    for name in LOGGERS:
        monkeypatch.setitem(sys.modules, name, None)
        message = rf"{name} is not installed\. Run: pip install .*\[{name}\]"
        with pytest.raises(MissingExtra, match=message), MetricsFile.open(path, after=10, loggers=[name]):
            pass
    assert path.read_bytes() == before
