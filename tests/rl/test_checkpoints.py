# ruff: noqa: ANN401 - the libraries are not typed
"""Checkpoints: whole or not there, of one run alone, and told of where they are damaged."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from test_update import rows
from tiny_world import opened, same, torch, weights

from vrag.errors import ModelError, TrainingError
from vrag.rl.checkpoints import Checkpoints
from vrag.rl.model import TrainableModel, open_network
from vrag.rl.update import UpdateOptions, Updates

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

MADE = {"kind": "test", "lr": 0.1, "update": {"warmup": 0}}


@pytest.fixture(scope="module")
def stepped() -> tuple[TrainableModel, Updates]:
    """A network after a step; no test changes it."""
    network = opened()
    updates = Updates(network, UpdateOptions(lr=1e-3))
    updates.learn(*rows(network))
    return network, updates


@pytest.fixture
def run(tmp_path: Path) -> Checkpoints:
    made = Checkpoints(tmp_path / "run")
    assert made.begin(MADE) is None
    return made


@contextmanager
def _no_file_above(size: int) -> Generator[None]:
    """Inside, the system takes no file that is larger, as where a disk is full."""
    resource = pytest.importorskip("resource", reason="there are no such limits here")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def folders(run: Checkpoints) -> list[str]:
    return sorted(path.name for path in (run.run / "checkpoints").iterdir())


class TestSaving:
    def test_goes_on_bit_by_bit(self, stepped: tuple[TrainableModel, Updates], run: Checkpoints) -> None:
        network, updates = stepped
        run.save(3, network, updates, {"stopped": False})
        saved = run.begin(MADE)
        assert saved is not None
        assert (saved.step, saved.state["stopped"], saved.state["updates"]) == (3, False, 1)
        again = open_network(saved.folder, device="cpu")
        other = Updates(again, UpdateOptions(lr=1e-3))
        run.restore(saved, other)
        assert same(weights(network), weights(again))
        assert other.done == updates.done == 1
        ours, theirs = (one.optimizer.state_dict()["state"] for one in (updates, other))
        assert ours.keys() == theirs.keys() != set()
        for name in ours:
            assert same(ours[name], theirs[name])

    def test_a_resumed_run_saves_whole_checkpoints_when_that_it_came_from_is_gone(
        self, stepped: tuple[TrainableModel, Updates], run: Checkpoints
    ) -> None:
        first = open_network(run.save(1, *stepped, {}), device="cpu")
        updates = Updates(first, UpdateOptions(lr=1e-3))
        for step in (2, 3, 4):
            last = run.save(step, first, updates, {})
        assert folders(run) == ["step-000003", "step-000004"]
        assert same(weights(first), weights(open_network(last, device="cpu")))

    def test_the_latest_are_kept(self, stepped: tuple[TrainableModel, Updates], run: Checkpoints) -> None:
        for step in (1, 2, 10, 1_000_000):
            run.save(step, *stepped, {})
        assert folders(run) == ["step-000010", "step-1000000"]
        assert run.latest is not None
        assert run.latest.step == 1_000_000

    def test_of_the_same_step_the_later_one_stands(
        self, stepped: tuple[TrainableModel, Updates], run: Checkpoints
    ) -> None:
        run.save(1, *stepped, {"said": "first"})
        run.save(1, *stepped, {"said": "then"})
        assert run.latest is not None
        assert run.latest.state["said"] == "then"

    @pytest.mark.parametrize("broken", ["save", "torch", "flush", "rename"])
    def test_one_that_fails_leaves_the_ones_before(
        self,
        broken: str,
        stepped: tuple[TrainableModel, Updates],
        run: Checkpoints,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        run.save(1, *stepped, {})

        def full(*_: Any, **__: Any) -> None:
            raise OSError(28, "No space left on device")

        if broken == "save":
            monkeypatch.setattr(TrainableModel, "save", full)
        elif broken == "torch":
            monkeypatch.setattr(torch(), "save", full)
        elif broken == "flush":
            monkeypatch.setattr("vrag.atomic_io.os.fsync", full)
        else:
            monkeypatch.setattr("pathlib.Path.replace", full)
        with pytest.raises(TrainingError, match="No space left"):
            run.save(2, *stepped, {})
        monkeypatch.undo()
        saved = run.begin(MADE)
        assert saved is not None
        assert saved.step == 1
        assert folders(run) == ["step-000001"], "what was torn is swept away"

    @pytest.mark.parametrize("part", ["weights", "optimizer"])
    def test_a_disk_that_takes_no_more_is_told_of(
        self, part: str, stepped: tuple[TrainableModel, Updates], run: Checkpoints
    ) -> None:
        """Really full: weights are written by Rust and the optimizer by C++, each with errors of its own."""
        first = run.save(1, *stepped, {})
        size = (first / "model.safetensors").stat().st_size
        with _no_file_above(size // 2 if part == "weights" else size), pytest.raises(TrainingError) as told:
            run.save(2, *stepped, {})
        assert "step-000002 cannot be written" in str(told.value)
        assert "Free some disk space" in (told.value.hint or "")
        assert sorted(path.name for path in first.parent.iterdir()) == ["step-000001"], "nothing torn is left"
        assert run.begin(MADE) is not None

    @pytest.mark.parametrize("broken", ["disk", "rename"])
    def test_a_model_that_cannot_be_published_leaves_the_one_before(
        self,
        broken: str,
        stepped: tuple[TrainableModel, Updates],
        run: Checkpoints,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        model = run.publish(stepped[0])
        before = {path.name: path.read_bytes() for path in model.iterdir()}
        renamed: list[Path] = []

        def second(path: Path, target: Path) -> Path:
            renamed.append(path)
            if len(renamed) == 2:
                raise OSError(30, "Read-only file system")
            return path.rename(target)

        if broken == "rename":
            monkeypatch.setattr("pathlib.Path.replace", second)
        with (
            _no_file_above(10_000) if broken == "disk" else nullcontext(),
            pytest.raises(TrainingError, match="model cannot be written") as told,
        ):
            run.publish(stepped[0])
        assert "Free some disk space" in (told.value.hint or "")
        assert {path.name: path.read_bytes() for path in model.iterdir()} == before
        assert sorted(path.name for path in run.run.iterdir()) == ["model", "training.json"]

    def test_is_published_whole(self, stepped: tuple[TrainableModel, Updates], run: Checkpoints) -> None:
        for _ in range(2):
            assert run.publish(stepped[0]) == run.run / "model"
        assert same(weights(open_network(run.run / "model", device="cpu")), weights(stepped[0]))
        assert not list(run.run.glob(".model*"))


class TestBeginning:
    def test_torn_folders_do_not_count(
        self, stepped: tuple[TrainableModel, Updates], run: Checkpoints
    ) -> None:
        run.save(1, *stepped, {})
        torn = run.run / "checkpoints" / ".step-000002"
        torn.mkdir()
        (torn / "state.json").write_text("{}")
        (run.run / "checkpoints" / "step-x").mkdir()
        saved = run.begin(MADE)
        assert saved is not None
        assert saved.step == 1
        assert not torn.exists()

    def test_other_settings_are_refused_by_name(self, run: Checkpoints) -> None:
        other = {"kind": "test", "lr": 0.2, "update": {"warmup": 1}, "more": None, "seed": 1}
        with pytest.raises(TrainingError, match="other settings: lr, seed, update") as told:
            run.begin(other)
        assert "--again" in (told.value.hint or "")
        assert json.loads((run.run / "training.json").read_text()) == MADE

    def test_again_throws_away(self, stepped: tuple[TrainableModel, Updates], run: Checkpoints) -> None:
        run.save(1, *stepped, {})
        (run.run / "metrics.jsonl").write_text("{}\n")
        assert run.begin({"kind": "other"}, again=True) is None
        assert [path.name for path in run.run.iterdir()] == ["training.json"]
        assert run.latest is None

    @pytest.mark.parametrize("again", [False, True])
    def test_a_folder_with_something_else_is_left_alone(self, again: bool, tmp_path: Path) -> None:
        (tmp_path / "letters.txt").write_text("dear")
        with pytest.raises(TrainingError, match="holds no run"):
            Checkpoints(tmp_path).begin(MADE, again=again)
        assert (tmp_path / "letters.txt").read_text() == "dear"
        assert len(list(tmp_path.iterdir())) == 1

    @pytest.mark.parametrize("again", [False, True])
    def test_a_place_that_cannot_be_written_is_told_of(
        self, again: bool, run: Checkpoints, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(*_: Any, **__: Any) -> None:
            raise OSError(30, "Read-only file system")

        monkeypatch.setattr("vrag.rl.checkpoints.write_whole", refused)
        monkeypatch.setattr("vrag.rl.checkpoints.one_writer", refused)
        with pytest.raises(TrainingError, match="cannot be written: Read-only") as told:
            (run if again else Checkpoints(run.run / "new")).begin(MADE, again=again)
        assert "use another folder" in (told.value.hint or "")
        with pytest.raises(TrainingError, match="cannot be written: Read-only") as told, run.held():
            pass
        assert "use another folder" in (told.value.hint or "")

    def test_a_file_is_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "run").write_text("dear")
        with pytest.raises(TrainingError, match="is a file"):
            Checkpoints(tmp_path / "run").begin(MADE)

    def test_one_that_died_before_it_began_is_begun(self, tmp_path: Path) -> None:
        (tmp_path / ".training.json").write_text('{"ki')
        assert Checkpoints(tmp_path).begin(MADE) is None
        assert Checkpoints(tmp_path).begin(MADE) is None

    def test_settings_that_are_damaged_are_no_run(self, tmp_path: Path) -> None:
        (tmp_path / "training.json").write_text("[1]")
        with pytest.raises(TrainingError):
            Checkpoints(tmp_path).begin(MADE)


class TestDamage:
    @pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'"step"', b"\xff\xfe"])
    def test_of_the_state(
        self, content: bytes, stepped: tuple[TrainableModel, Updates], run: Checkpoints
    ) -> None:
        folder = run.save(2, *stepped, {})
        (folder / "state.json").write_bytes(content)
        with pytest.raises(TrainingError, match="damaged") as told:
            run.begin(MADE)
        assert "Remove it" in (told.value.hint or "")

    @pytest.mark.parametrize("content", [b"", b"x", b"PK\x03\x04", b"\x80\x02}.", None])
    def test_of_the_optimizer(
        self, content: bytes | None, stepped: tuple[TrainableModel, Updates], run: Checkpoints
    ) -> None:
        folder = run.save(2, *stepped, {})
        path = folder / "optimizer.pt"
        path.write_bytes(path.read_bytes()[:-200]) if content is None else path.write_bytes(content)
        saved = run.latest
        assert saved is not None
        with pytest.raises(TrainingError, match="cannot be resumed") as told:
            run.restore(saved, Updates(opened(), UpdateOptions()))
        assert "Remove it" in (told.value.hint or "")

    def test_of_what_is_not_there(self, stepped: tuple[TrainableModel, Updates], run: Checkpoints) -> None:
        folder = run.save(2, *stepped, {})
        (folder / "optimizer.pt").unlink()
        saved = run.latest
        assert saved is not None
        with pytest.raises(TrainingError):
            run.restore(saved, Updates(opened(), UpdateOptions()))

    def test_of_the_weights(self, stepped: tuple[TrainableModel, Updates], run: Checkpoints) -> None:
        folder = run.save(2, *stepped, {})
        weights_file = folder / "model.safetensors"
        weights_file.write_bytes(weights_file.read_bytes()[:1000])
        with pytest.raises(ModelError, match="cannot be loaded"):
            open_network(folder, device="cpu")

    def test_another_network_does_not_fit(
        self, stepped: tuple[TrainableModel, Updates], run: Checkpoints
    ) -> None:
        run.save(2, *stepped, {})
        saved = run.latest
        assert saved is not None
        with pytest.raises(TrainingError, match="cannot be resumed"):
            run.restore(saved, Updates(opened(), UpdateOptions(freeze_vision=True)))
