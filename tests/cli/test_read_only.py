"""A collection of another user: what reads it works, and writes nothing into it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import vrag
from vrag.corpus.converter import CorpusOptions
from vrag.factory.session import run_store
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = 65534
PR_CAPBSET_DROP = 24
READ = """
import os, sys
sys.path[:0] = sys.argv[2].split(os.pathsep)
import vrag
from vrag.cli.root import create_app
collection = sys.argv[1]
ask = ["ask", "How many mangoes are there?"]
for line in (["index", "status"], ["search", "mangoes"], ask, ["runs", "list"]):
    try:
        create_app(line[0])([*line, "--collection", collection], standalone_mode=False)
    except SystemExit as end:
        assert not end.code, line
session = vrag.open(collection=collection)
print(session.ask("How many mangoes are there?").answer, session.runs.directory)
"""


def drop_rights() -> None:
    """Give up root's rights to files of others in the program that this process becomes."""
    if os.getuid() == 0:
        for capability in (1, 2, 3):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
            assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    text = tmp_path / "fruit.txt"
    text.write_text("There are 731 mangoes in the northern store. " * 3, encoding="utf-8")
    made = Collection.create(tmp_path / "shared", CorpusOptions(workers=1))
    add(made, [text])
    return made.directory


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform == "win32" or (sys.platform != "linux" and os.getuid() == 0),
    reason="root may write anywhere",
)
def test_another_users_collection_is_read_and_runs_go_to_ones_own_folder(
    collection: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for path in [collection, *collection.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
        if os.getuid() == 0:
            os.chown(path, NOBODY, NOBODY)
    before = contents(collection)
    environment = os.environ | {"HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "TMPDIR": str(home)}
    environment |= {"XDG_CACHE_HOME": str(home / "cache"), "XDG_CONFIG_HOME": str(home / "config")}
    command = [sys.executable, "-c", READ, collection, os.pathsep.join(sys.path)]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=home,
        env=environment,
        timeout=120,
        preexec_fn=drop_rights,
    )
    assert ended.returncode == 0, ended.stderr
    assert "731" in ended.stdout
    assert "Runs are recorded in" in ended.stderr
    assert str(home / "data" / "vrag" / "read-only") in ended.stdout
    assert contents(collection) == before


def test_runs_go_to_the_folder_of_the_settings(collection: Path, tmp_path: Path) -> None:
    settings = load_settings(collection=os.fspath(collection), runs_dir=os.fspath(tmp_path / "mine")).settings
    assert run_store(settings).directory == tmp_path / "mine"
    session = vrag.open(collection=os.fspath(collection), runs_dir=os.fspath(tmp_path / "mine"))
    session.ask("How many mangoes are there?")
    assert len(run_store(settings).ids()) == 1
    assert not (collection / "runs").exists()


@pytest.mark.parametrize("setting", ["runs_dir", "search_url"])
def test_runs_of_an_earlier_version_are_mentioned_once_and_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, setting: str
) -> None:
    folder = tmp_path / "data" / "runs"
    (folder / "20260101-120000-000000-ab12").mkdir(parents=True)
    events = folder / "20260101-120000-000000-ab12" / "events.jsonl"
    events.write_text("{}")
    monkeypatch.setattr("vrag.factory.session.user_data_path", lambda *_, **__: tmp_path / "data")  # pyright: ignore
    value = os.fspath(folder) if setting == "runs_dir" else "http://127.0.0.1:1"
    settings = load_settings(**{setting: value}).settings
    for _ in range(2):
        assert run_store(settings).ids() == []
    (record,) = caplog.records
    assert f"{folder} has 1 runs of an earlier version of vrag, which are not read." in record.getMessage()
    assert events.read_text() == "{}"
