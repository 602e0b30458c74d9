"""What differs on Windows and macOS, on Linux: `windows/sitecustomize.py` applies the rules of Windows."""

from __future__ import annotations

import errno
import json
import logging
import ntpath
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vrag import atomic_io
from vrag.atomic_io import replace_file
from vrag.cli.terminal import process
from vrag.cli.terminal.console import quote_argument
from vrag.corpus.formats import office
from vrag.index import shown_names
from vrag.search import engine
from vrag.search.multi import unique_names
from vrag.server.http.uvicorn_server import raise_file_limit
from vrag.types import Document, DocumentStatus

RULES = Path(__file__).parent / "windows"
ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the rules are applied on Linux")


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of the package that asks for the platform takes this one for Windows."""
    monkeypatch.setattr(sys, "platform", "win32")


def run(program: str, *arguments: object, **variables: str) -> Any:  # noqa: ANN401 - JSON
    """Run a program under the rules; return the JSON value that it prints at its end."""
    paths = os.pathsep.join((str(RULES), str(ROOT / "src"), str(ROOT / "tests")))
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": paths} | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


REFUSED = """
import json, os, pathlib, shutil, sys
import numpy as np

home = pathlib.Path(sys.argv[1])
for name in ("open", "mapped", "free", "locked"):
    (home / name).write_bytes(b"0123")
(home / "folder").mkdir()
(home / "folder" / "file").write_bytes(b"0")
(home / "locked").chmod(0o444)
held, inside = (home / "open").open("rb"), (home / "folder" / "file").open("rb")
mapped = np.memmap(home / "mapped", np.uint8, "r")

def fsync_of_reader():
    with (home / "free").open("rb") as file:
        os.fsync(file.fileno())

attempts = {
    "delete open": lambda: (home / "open").unlink(),
    "delete mapped": lambda: (home / "mapped").unlink(),
    "delete read-only": lambda: (home / "locked").unlink(),
    "replace open": lambda: (home / "free").replace(home / "open"),
    "rename to a name that exists": lambda: (home / "free").rename(home / "open"),
    "rename a folder with an open file": lambda: (home / "folder").rename(home / "other"),
    "open a folder": lambda: os.open(home, os.O_RDONLY),
    "name a device": lambda: (home / "aux.txt").write_text(""),
    "name with a colon": lambda: (home / "a:b").mkdir(),
    "link": lambda: (home / "link").symlink_to(home / "free"),
    "write to the disk what is only read": fsync_of_reader,
}
refused = {}
for name, attempt in attempts.items():
    try:
        attempt()
    except OSError as error:
        refused[name] = type(error).__name__
held.close()
inside.close()
del mapped
for name in ("open", "mapped"):
    (home / name).unlink()
(home / "folder").rename(home / "other")
shutil.rmtree(home / "other")
(home / "free").replace(home / "new")
print(json.dumps([refused, sorted(attempts.keys() - refused.keys()), sorted(os.listdir(home))]))
"""


@pytest.mark.slow
def test_the_rules_refuse_what_windows_refuses_and_nothing_else(tmp_path: Path) -> None:
    refused, passed, left = run(REFUSED, tmp_path)
    assert passed == []
    assert refused["delete mapped"] == "PermissionError"
    assert refused["rename to a name that exists"] == "FileExistsError"
    assert left == ["locked", "new"]


IMPORTED = """
import importlib, json, pkgutil, sys
import vrag

failed = {}
for module in pkgutil.walk_packages(vrag.__path__, "vrag."):
    if module.name.startswith("vrag.rl.trainers.verl") or module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except Exception as error:
        failed[module.name] = f"{type(error).__name__}: {error}"
from vrag import atomic_io
print(json.dumps([failed, atomic_io.os.name, hasattr(atomic_io.os, "fork"), atomic_io.sys.platform]))
"""


@pytest.mark.slow
def test_every_module_is_imported_without_modules_and_functions_of_posix() -> None:
    assert run(IMPORTED) == [{}, "nt", False, "win32"]


USED = """
import json, shutil, sys
from pathlib import Path

import vrag
from vrag.factory.collection_registry import CollectionRegistry
from vrag.settings import Settings

home = Path(sys.argv[1])
session = vrag.open(home / "docs", collection=home / "collection")
answers = [session.ask("What is the single fare for a kayak?").answer]
run = session.runs.ids()[0]
session.runs.change_meta(run, title="Fares")
(home / "docs" / "islands.md").write_text("# Islands\\n\\nThe lighthouse of Vardo was built in 1903.\\n")
session.add(home / "docs")
answers.append(session.ask("When was the lighthouse of Vardo built?").answer)
session.runs.delete(run)
shelf = CollectionRegistry.open(Settings(collection=str(home / "collection"), workers=1))
shelf.create("notes")
shelf.drop("notes")
print(json.dumps({
    "answers": answers,
    "runs": len(session.runs.ids()),
    "caches": sorted({path.name.split("-")[0] for path in (home / "collection" / "cache").iterdir()}),
    "unfinished": [str(path) for path in home.rglob("*-new-*")],
    "collections": sorted(path.name for path in home.iterdir()),
}))
"""


@pytest.mark.slow
def test_a_folder_is_indexed_asked_and_changed_while_files_are_open(tmp_path: Path) -> None:
    """Workers convert it, caches are mapped, runs and collections are deleted, under the rules of Windows."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "ferries.md").write_text("# Ferries\n\nThe single fare for a kayak is 12 crowns.\n")
    used = run(USED, tmp_path, OMP_NUM_THREADS="1")
    assert "12 crowns" in used["answers"][0]
    assert "1903" in used["answers"][1]
    assert used == {
        "answers": used["answers"],
        "runs": 1,
        "caches": ["lexical"],
        "unfinished": [],
        "collections": ["collection", "docs"],
    }


class BusyFile:
    """A file that other programs have open for some attempts to rename it."""

    def __init__(self, times: float) -> None:
        self.left, self.renamed = times, 0

    def replace(self, target: object) -> None:
        if self.left > 0:
            self.left -= 1
            raise PermissionError(errno.EACCES, "The process cannot access the file")
        self.renamed += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which passes only by sleeping."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(atomic_io, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    return now


class TestReplacingAFileThatIsOpen:
    @pytest.mark.usefixtures("windows", "clock")
    def test_waits_for_who_has_it_on_windows(self) -> None:
        busy: Any = BusyFile(5)
        replace_file(busy, Path("target"))
        assert busy.renamed == 1

    @pytest.mark.usefixtures("windows")
    def test_gives_up_on_windows_after_a_while(self, clock: list[float]) -> None:
        busy: Any = BusyFile(float("inf"))
        with pytest.raises(PermissionError):
            replace_file(busy, Path("target"))
        assert atomic_io.BUSY_SECONDS <= clock[0] < 2 * atomic_io.BUSY_SECONDS

    def test_is_refused_at_once_elsewhere(self, clock: list[float]) -> None:
        busy: Any = BusyFile(1)
        with pytest.raises(PermissionError):
            replace_file(busy, Path("target"))
        assert clock[0] == 0


class TestPaths:
    def test_of_collections_end_in_their_names(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine, "os", SimpleNamespace(sep="\\"))
        addresses = [r"C:\a\images", r"D:\b\images", "s3://bucket/notes"]
        assert unique_names(addresses) == dict(zip(("a/images", "b/images", "notes"), addresses, strict=True))

    def test_in_another_case_are_those_of_a_document(self, monkeypatch: pytest.MonkeyPatch) -> None:
        document = Document(
            path=r"C:\Docs\Fares.pdf",
            id="0" * 64,
            name="Fares.pdf",
            size=1,
            mtime_ns=1,
            status=DocumentStatus.READY,
        )

        def lies_under(path: str, document: Document) -> bool:
            return any(shown_names.is_below(folder, document) for folder in shown_names.absolute_paths(path))

        assert not lies_under(r"c:\docs", document)
        monkeypatch.setattr(shown_names, "os", SimpleNamespace(path=ntpath, sep="\\"))
        assert lies_under(r"c:\docs", document)
        assert lies_under(r"c:\docs\FARES.pdf", document)
        assert not lies_under(r"c:\doc", document)

    def test_with_blanks_are_quoted_for_the_shells_of_windows(self, windows: None) -> None:
        assert quote_argument(r"C:\my docs\notes") == r'"C:\my docs\notes"'
        assert quote_argument(r"C:\docs") == r"C:\docs"

    def test_of_libreoffice_may_be_absolute_patterns(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = tmp_path / "LibreOffice 26" / "program" / "soffice.exe"
        program.parent.mkdir(parents=True)
        program.touch(0o755)
        monkeypatch.setenv("PATH", "")
        monkeypatch.setattr(office, "PLACES", (f"{tmp_path}/Libre*/program/soffice.exe",))
        assert office.find_soffice() == str(program)


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_output_that_nobody_reads_ends_a_command_quietly(
    platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows says that the argument is invalid where others say that the pipe is broken."""
    error = OSError(errno.EPIPE if platform == "linux" else errno.EINVAL, "")
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(process, "_discard_output", lambda: sys.exit(process.OUTPUT_CLOSED))
    with pytest.raises(SystemExit) as ended, process.handle_closed_output():
        raise error
    assert ended.value.code == process.OUTPUT_CLOSED
    with pytest.raises(OSError, match="full"), process.handle_closed_output():
        raise OSError(errno.ENOSPC, "full")


def test_a_limit_of_open_files_that_the_system_refuses_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on macOS: it says that there is none, and accepts only so many."""
    resource = pytest.importorskip("resource")

    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    def unlimited(_: int) -> tuple[int, int]:
        return 256, resource.RLIM_INFINITY

    monkeypatch.setattr(resource, "getrlimit", unlimited)
    monkeypatch.setattr(resource, "setrlimit", refuse)
    with caplog.at_level(logging.WARNING):
        raise_file_limit(2560)
    assert "256 open files" in caplog.text


STOPPED = """
import asyncio, json, signal
from vrag.cli.serve import _serve_until_signal

async def serve():
    signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(600)

print(json.dumps(asyncio.run(_serve_until_signal(serve()))))
"""


@pytest.mark.slow
def test_ctrl_c_ends_an_mcp_server_where_the_event_loop_handles_no_signals() -> None:
    assert run(STOPPED) == 2


PRINTED = """
import io, json, sys
from vrag.cli import root

sys.stdout = io.TextIOWrapper(io.BytesIO(), "cp1252")
sys.argv = ["vrag", "--version"]
try:
    root.run()
except SystemExit:
    pass
encoding, sys.stdout = sys.stdout.encoding, sys.__stdout__
print(json.dumps(encoding))
"""


@pytest.mark.slow
def test_output_into_files_is_utf_8_whatever_the_code_page() -> None:
    assert run(PRINTED) == "utf-8"


ENDED = """
import json, os, sys
from vrag.corpus.workers import timeout_exec

os.dup2(os.pipe()[0], 0)  # the caller lives on
status = timeout_exec.main(["0.5", sys.argv[1], sys.executable, "-c", "import time; time.sleep(600)"])
print(json.dumps([status, timeout_exec.LATE]), flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_a_program_is_ended_at_its_time_limit_with_all_that_it_started(tmp_path: Path) -> None:
    """By Windows' own program: killing LibreOffice's first process leaves the one that works."""
    taskkill = tmp_path / "taskkill"
    taskkill.write_text(f'#!/bin/sh\necho "$1 $2 $3" > {tmp_path}/called\nkill -9 "$4"\n')
    taskkill.chmod(0o755)
    status, late = run(ENDED, tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert status == late
    assert (tmp_path / "called").read_text() == "/F /T /PID\n"
