"""The file of the audit log: whole lines, whoever writes, whatever is written, wherever the file goes."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.agent.runs.run_store import is_held
from vrag.errors import SettingsError
from vrag.server.http.audit_log import (
    AuditAction,
    AuditEntry,
    AuditLog,
    AuditResult,
    read_entries,
    write_local,
)

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from vrag.atomic_io import Journal

WRITER = """
import sys
from pathlib import Path
from vrag.server.http.audit_log import AuditAction, AuditEntry, AuditLog
log = AuditLog(Path(sys.argv[1]))
for number in range(20):
    log.write(AuditEntry(action=AuditAction.SEARCH, user=sys.argv[2], file=str(number)))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


@pytest.fixture
def log(path: Path) -> Generator[AuditLog]:
    log = AuditLog(path)
    yield log
    log.close()


def entry(**fields: str) -> AuditEntry:
    return AuditEntry(action=AuditAction.UPLOAD, **fields)  # type: ignore[arg-type]


@given(user=st.text(), file=st.text(), question=st.text(st.characters(), max_size=50))
def test_whatever_is_written_stays_in_one_line_of_ascii(user: str, file: str, question: str) -> None:
    written = entry(user=user, file=file, question=question)
    assert b"\n" not in written.line
    assert b"\r" not in written.line
    assert written.line.isascii()
    assert all(code >= 0x20 for code in written.line)
    fields = json.loads(written.line)
    plain = file.encode("utf-8", "replace").decode()[:1024]
    assert fields.get("file", "") == plain
    assert (
        AuditEntry.model_validate_json(written.line).user == user.encode("utf-8", "replace").decode()[:1024]
    )


def test_values_are_cut_and_empty_ones_left_out() -> None:
    line = entry(file="x" * 5000, question="q" * 20_000).line
    assert len(line) < 12_000
    assert set(json.loads(line)) == {"time", "action", "file", "question"}


@pytest.mark.skipif(os.name == "nt", reason="other permissions")
def test_others_cannot_read_it(path: Path, log: AuditLog) -> None:
    log.write(entry())
    assert path.stat().st_mode & 0o777 == 0o600


def test_threads_and_processes_write_whole_lines(path: Path, log: AuditLog) -> None:
    command = [sys.executable, "-c", WRITER, str(path), "process"]
    with subprocess.Popen(command) as process:
        threads = [
            threading.Thread(target=lambda: [log.write(entry(user="thread")) for _ in range(10)])
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert process.returncode == 0
    users = [json.loads(line)["user"] for line in path.read_bytes().splitlines()]
    assert (users.count("process"), users.count("thread"), len(users)) == (20, 30, 50)


def test_other_processes_are_kept_out_while_one_writes(path: Path) -> None:
    held: list[bool] = []

    class Probing(AuditLog):
        def _open(self) -> Journal:
            held.append(is_held(path.with_name(".audit.log.lock")))
            return super()._open()

    log = Probing(path)
    log.write(entry())
    log.close()
    assert held == [True]


def test_what_a_killed_writer_left_of_a_line_is_cut_off(path: Path, log: AuditLog) -> None:
    log.write(entry(user="first"))
    with path.open("ab") as other:
        other.write(b'{"time": "20')  # another process, killed
    log.write(entry(user="second"))
    assert [each.user for each in read_entries(path)] == ["first", "second"]
    assert len(path.read_bytes().splitlines()) == 2


@pytest.mark.skipif(os.name == "nt", reason="an open file keeps its name")
@pytest.mark.parametrize("creates", [True, False])
def test_after_a_rotation_it_goes_on_in_a_new_file(path: Path, log: AuditLog, creates: bool) -> None:
    log.write(entry(user="before"))
    path.rename(path.with_name("audit.log.1"))
    if creates:
        path.touch()
    log.write(entry(user="after"))
    assert b"before" not in path.read_bytes()
    assert [each.user for each in read_entries(path)] == ["before", "after"]


def test_rotated_files_are_read_compressed_or_not_and_foreign_lines_left_out(path: Path) -> None:
    def line(user: str, time: str) -> bytes:
        return AuditEntry(action=AuditAction.ASK, user=user, time=time).line + b"\n"

    path.write_bytes(line("c", "2026-03-03T00:00:00.000Z") + b"no entry\n\xff\n{}\n")
    path.with_name("audit.log.1").write_bytes(line("b", "2026-03-02T00:00:00.000Z"))
    path.with_name("audit.log-20260301.gz").write_bytes(gzip.compress(line("a", "2026-03-01T00:00:00.000Z")))
    path.with_name(".audit.log.lock").touch()
    path.with_name("other.log").write_bytes(line("x", "2026-03-01T00:00:00.000Z"))
    assert [each.user for each in read_entries(path)] == ["a", "b", "c"]


def test_entries_of_later_releases_are_read(path: Path) -> None:
    path.write_bytes(b'{"time": "2030-01-01T00:00:00.000Z", "action": "teleport", "where": "x"}\n')
    assert [each.action for each in read_entries(path)] == ["teleport"]


def test_a_file_that_cannot_be_written_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    log = AuditLog(tmp_path / "file" / "audit.log")
    with pytest.raises(SettingsError, match="VRAG_AUDIT_LOG"):
        log.check()
    with pytest.raises(SettingsError, match="Nothing was done"):
        write_local(log, AuditAction.ADD_TOKEN, AuditResult.BEGUN)
    write_local(None, AuditAction.ADD_TOKEN, AuditResult.BEGUN)
