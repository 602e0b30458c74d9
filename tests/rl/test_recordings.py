"""Recorded runs in folders: known by what they hold, and their pictures not all in memory."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from stored_events import read_events, write_events
from tiny_world import ANSWER, SEARCH, recorded, shared

from vrag.agent.runs.run_store import RunStore
from vrag.errors import TrainingError
from vrag.rl.sft_dataset import digest_of, find_recordings, load_sft_dataset, sft_rows
from vrag.rollouts.rollout_store import open_rollout_store

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.rollouts.rollout import Rollout


@pytest.fixture(scope="module")
def rollouts() -> list[Rollout]:
    return [recorded(shared(), *replies) for replies in ((SEARCH, ANSWER), (ANSWER,))]


@pytest.fixture
def folder(tmp_path: Path, rollouts: list[Rollout]) -> Path:
    """As `vrag data demonstrate` leaves them."""
    with open_rollout_store(tmp_path / "shown", {"policy": "script"}) as campaign:
        for rollout in rollouts:
            campaign.keep(rollout)
    return tmp_path / "shown"


def digest(folder: Path) -> str:
    return digest_of(find_recordings([folder]))


class TestDigest:
    def test_is_of_what_they_hold_and_not_of_where_they_lie(self, folder: Path, tmp_path: Path) -> None:
        before = digest(folder)
        shutil.copytree(folder, tmp_path / "elsewhere" / "again")
        assert digest(tmp_path / "elsewhere") == before == digest(folder)

    def test_changes_with_any_event_and_any_file(self, folder: Path) -> None:
        before = digest(folder)
        store, run = RunStore(folder / "runs"), find_recordings([folder])[0].id
        events = read_events(store, run)
        write_events(store, run, [*events[:-1], events[-1].replace(b'"step":', b'"step":1')])
        assert digest(folder) != before
        write_events(store, run, events)
        assert digest(folder) == before
        with store.changing() as connection:
            connection.execute("DELETE FROM files WHERE blob = (SELECT max(blob) FROM files)")
        assert digest(folder) != before

    def test_runs_that_did_not_begin_do_not_count(self, folder: Path) -> None:
        before = digest(folder)
        RunStore(folder / "runs").add("a1", [], {})
        assert digest(folder) == before


class TestMaterial:
    def test_is_that_of_the_runs_in_memory(self, folder: Path, rollouts: list[Rollout]) -> None:
        network = shared()
        material = load_sft_dataset(network, find_recordings([folder]))
        by_id = sorted(rollouts, key=lambda one: one.trajectory.run_id)
        wanted = [row for one in by_id for row in sft_rows(network, one.events, one.files).rows]
        assert [row.tokens.tolist() for row in material.rows] == [row.tokens.tolist() for row in wanted]
        assert [row.images for row in material.rows] == [row.images for row in wanted]
        assert not material.dropped
        pictures = {name: data for one in rollouts for name, data in one.files.items() if "jpg" in name}
        assert dict(material.files) == pictures != {}

    def test_pictures_are_read_when_they_are_shown(self, folder: Path) -> None:
        material = load_sft_dataset(shared(), find_recordings([folder]))
        name = f"{next(row for row in material.rows if row.images).images[0]}.jpg"
        path = RunStore(folder / "runs").files.blobs.path(name[:-4])
        path.write_bytes(b"another")
        with pytest.raises(TrainingError, match=f"{name} of the run .* cannot be read: it is damaged"):
            material.files[name]
        path.unlink()
        with pytest.raises(TrainingError, match=f"{name} of the run .* cannot be read: No such file") as told:
            material.files[name]
        assert "restore the file" in (told.value.hint or "")
        with pytest.raises(KeyError):
            material.files["never.jpg"]

    def test_a_run_without_files_is_left_out_with_a_reason(self, folder: Path) -> None:
        shutil.rmtree(folder / "runs" / "blobs")
        material = load_sft_dataset(shared(), find_recordings([folder]))
        assert not material.rows
        assert all("missing or damaged" in one.reason for one in material.dropped)
        assert len(material.dropped) == 3


def test_a_folder_without_any_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no recorded runs") as told:
        find_recordings([tmp_path, tmp_path / "gone"])
    assert "vrag data demonstrate" in (told.value.hint or "")
