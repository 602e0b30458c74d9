"""The file of the audit log: whole lines, whoever writes, whatever is written, wherever the file goes."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from typing import IO, TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.agent.runs.run_database import is_held
from vrag.errors import RunError, SettingsError
from vrag.server.http.audit_log import (
    AuditAction,
    AuditEntry,
    AuditLog,
    DamagedLog,
    audited_change,
    read_entries,
)

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

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


@pytest.mark.slow
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
        def _open(self) -> IO[bytes]:
            held.append(is_held(path.with_name(".audit.log.lock")))
            return super()._open()

    log = Probing(path)
    log.write(entry())
    log.close()
    assert held == [True]


def test_the_entry_after_a_torn_one_begins_a_new_line_and_nothing_is_cut_off(
    path: Path, log: AuditLog
) -> None:
    log.write(entry(user="first"))
    with path.open("ab") as other:
        other.write(b'{"time": "20')  # another process, killed
    log.write(entry(user="second"))
    log.write(entry(user="third"))
    assert [each.user for each in read_entries(path)] == ["first", "second", "third"]
    assert path.read_bytes().splitlines()[1] == b'{"time": "20'
    assert len(path.read_bytes().splitlines()) == 4


def test_what_a_full_disk_took_of_an_entry_does_not_damage_the_next_one(
    path: Path, log: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        """A stream on a disk that takes ten bytes."""

        def __init__(self, stream: IO[bytes]) -> None:
            self.stream = stream

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            return getattr(self.stream, name)

        def write(self, data: bytes) -> int:
            return self.stream.write(data[:10])

    log.write(entry(user="first"))
    begin = path.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(log, "_stream", Full(vars(log)["_stream"]))
        with pytest.raises(OSError, match="No space"):
            log.write(entry(user="refused"))
    log.write(entry(user="next"))
    assert path.read_bytes().startswith(begin + b'{"time": "\n')
    assert [each.user for each in read_entries(path)] == ["first", "next"]


@pytest.mark.parametrize(
    "content",
    [
        b"notes",
        b"notes\nof mine\n",
        b'{"ts": "2026", "level": "info"}\n',
        b'{"time": "2026", "level": "info"}\n',
        b"\n",
        b"\xff\x00",
        b"{\n}\n",
    ],
)
def test_a_file_of_another_kind_is_refused_and_stays_as_it_is(
    path: Path, log: AuditLog, content: bytes
) -> None:
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"the file is not an audit log\..*VRAG_AUDIT_LOG"):
        log.check()
    with pytest.raises(OSError, match="not an audit log"):
        log.write(entry())
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "torn",
    [b"", b"{", b'{"time": "2026-03', b'{"ti\n{"time": "2', entry(user="x").line],
    ids=["nothing", "brace", "cut", "two", "whole"],
)
def test_a_log_that_begins_with_a_torn_entry_goes_on(path: Path, torn: bytes) -> None:
    path.write_bytes(torn)
    for user in ("a", "b"):
        log = AuditLog(path)
        log.check()
        log.write(entry(user=user))
        log.close()
    assert [each.user for each in read_entries(path)][-2:] == ["a", "b"]


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


@pytest.mark.parametrize("cut", [0, 3, 9, 15, 40, -5])
def test_the_entries_before_the_damage_of_a_rotated_file_and_those_of_others_are_read(
    path: Path, cut: int
) -> None:
    lines = b"".join(
        AuditEntry(action="ask", user="a", file=f"{number:x}", time=f"2026-03-01T{number:05d}").line + b"\n"
        for number in range(3000)
    )
    rotated = path.with_name("audit.log.1.gz")
    rotated.write_bytes(gzip.compress(lines)[:cut])
    path.write_bytes(AuditEntry(action="ask", user="b").line + b"\n")
    damaged: list[DamagedLog] = []
    found = read_entries(path, damaged=damaged)
    assert [each.user for each in found] == ["a"] * (len(found) - 1) + ["b"]
    assert [each.path for each in damaged] == ([rotated] if cut else [])
    assert all(each.reason for each in damaged)
    assert (len(found) > 1) is (cut == -5)


def test_a_flipped_bit_in_a_rotated_file_is_no_crash(path: Path) -> None:
    data = gzip.compress(b"".join(entry(user=str(number)).line + b"\n" for number in range(5)))
    path.write_bytes(entry(user="b").line + b"\n")
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 16
        path.with_name("audit.log.1.gz").write_bytes(flipped)
        assert "b" in {each.user for each in read_entries(path)}


def test_a_limit_gives_the_newest_in_order_and_the_name_of_a_log_is_no_pattern(tmp_path: Path) -> None:
    path = tmp_path / "audit[1].log"
    times = ["2026-03-02", "2026-03-01", "2026-03-02", "2026-03-02"]
    lines = [AuditEntry(action="ask", user=str(n), time=time).line for n, time in enumerate(times)]
    path.with_name("audit[1].log.1").write_bytes(b"\n".join(lines[:2]))
    path.write_bytes(b"\n".join(lines[2:]))
    everything = [each.user for each in read_entries(path)]
    assert everything == ["1", "0", "2", "3"]
    for limit in range(1, 6):
        assert [each.user for each in read_entries(path, limit=limit)] == everything[-limit:]
    assert [each.user for each in read_entries(path, wanted=lambda each: each.user < "2", limit=1)] == ["0"]


def test_entries_of_later_releases_are_read(path: Path) -> None:
    path.write_bytes(b'{"time": "2030-01-01T00:00:00.000Z", "action": "teleport", "where": "x"}\n')
    assert [each.action for each in read_entries(path)] == ["teleport"]


def test_a_file_that_cannot_be_written_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    log = AuditLog(tmp_path / "file" / "audit.log")
    with pytest.raises(SettingsError, match="VRAG_AUDIT_LOG"):
        log.check()
    with pytest.raises(SettingsError, match="Nothing was done"), audited_change(log, entry()):
        pytest.fail("It was done.")


def test_a_change_has_two_entries_with_one_id_and_fields_that_are_known_afterwards(path: Path) -> None:
    with audited_change(AuditLog(path), entry(user="a")) as logged:
        assert [each.result for each in read_entries(path)] == ["begun"]
        logged["runs"] = 3
    begun, done = read_entries(path)
    assert (begun.result, done.result) == ("begun", "done")
    assert begun.id == done.id != ""
    assert (begun.runs, done.runs) == (None, 3)
    with audited_change(None, entry()) as logged:
        logged["runs"] = 3


@pytest.mark.parametrize("error", [RunError("The disk refuses."), OSError("gone"), KeyboardInterrupt()])
def test_a_change_that_fails_has_the_entry_failed(path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), audited_change(AuditLog(path), entry(user="a")):
        raise error
    assert [each.result for each in read_entries(path)] == ["begun", "failed"]
