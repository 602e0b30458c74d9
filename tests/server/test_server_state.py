"""What a server keeps over a restart, however the last one ended."""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from vrag.errors import ServerStateError
from vrag.server.http.users import TokenFile, UserRole
from vrag.server.options import ServerOptions
from vrag.server.setup.choices import ChosenModel, ModelChoices
from vrag.server.state.database import SCHEMA, ServerState
from vrag.server.state.sessions import BrowserSessions

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from starlette.types import Scope

TOKEN = "correct horse battery staple"
OPENED = hashlib.sha256(TOKEN.encode()).digest()
KEY = "sk-a-secret-that-nobody-may-see-7f3a"
USES = "SELECT used FROM sessions ORDER BY used"


def scope(id: str) -> Scope:
    return {"type": "http", "headers": [(b"host", b"server"), (b"cookie", f"vrag_session={id}".encode())]}


@contextmanager
def started(
    folder: Path, now: Callable[[], float] = time.time, token: str = TOKEN
) -> Generator[tuple[BrowserSessions, ServerState]]:
    """The sessions of a server that is started and ends."""
    with closing(ServerState.open(folder)) as state:
        yield BrowserSessions(ServerOptions(token=token, state=state), now), state


def network_drive(_: Path) -> str:
    """Stands for `describe_network_drive`, on one."""
    return "nfs4"


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def chosen(key: str) -> ChosenModel:
    return ChosenModel("m", "http://x/v1", SecretStr(key))


class TestSessions:
    def test_survive_a_restart_and_end_by_the_clock_on_the_wall(self, tmp_path: Path) -> None:
        clock = [1_000_000.0]
        with started(tmp_path, lambda: clock[0]) as (sessions, _):
            used, unused = sessions.open(OPENED), sessions.open(OPENED)
            clock[0] += 11 * 3600
            assert sessions.find(scope(used))
        clock[0] += 2 * 3600
        with started(tmp_path, lambda: clock[0]) as (sessions, _):
            assert sessions.find(scope(used))
            assert sessions.find(scope(unused)) is None

    def test_end_where_the_clock_was_far_ahead(self, tmp_path: Path) -> None:
        with started(tmp_path, lambda: 4e9) as (sessions, _):
            id = sessions.open(OPENED)
        with started(tmp_path) as (sessions, _):
            assert sessions.find(scope(id)) is None

    def test_their_last_use_is_written_once_a_minute(self, tmp_path: Path) -> None:
        clock = [1_000_000.0]
        with started(tmp_path, lambda: clock[0]) as (sessions, state):
            id = sessions.open(OPENED)
            written: list[float] = []
            for _ in range(300):  # two and a half minutes
                clock[0] += 0.5
                assert sessions.find(scope(id))
                state.submit(lambda: None).result()
                written += [used for (used,) in state.select(USES) if used not in written]
        assert written == [1_000_000.0, 1_000_060.0, 1_000_120.0]

    def test_end_with_their_token_and_no_byte_of_them_is_left(self, tmp_path: Path) -> None:
        tokens = TokenFile(tmp_path / "tokens.toml")
        digest = hashlib.sha256(tokens.add("alice", UserRole.ASK).encode()).digest()
        tokens.add("bob")
        folder = tmp_path / "state"
        with closing(ServerState.open(folder)) as state:
            id = BrowserSessions(ServerOptions(tokens=tokens, state=state)).open(digest)
        assert digest in bytes_of(folder)
        tokens.remove("alice")
        with closing(ServerState.open(folder)) as state:
            assert BrowserSessions(ServerOptions(tokens=tokens, state=state)).find(scope(id)) is None
            assert digest not in bytes_of(folder)
            assert hashlib.sha256(id.encode()).digest() not in bytes_of(folder)

    def test_another_token_ends_them_for_good(self, tmp_path: Path) -> None:
        with started(tmp_path) as (sessions, _):
            id = sessions.open(OPENED)
        with started(tmp_path, token="another"):
            pass
        with started(tmp_path) as (sessions, _):
            assert sessions.find(scope(id)) is None

    def test_one_that_was_ended_stays_ended_in_every_server_of_the_folder(self, tmp_path: Path) -> None:
        with started(tmp_path) as (first, _), started(tmp_path) as (second, _):
            id = first.open(OPENED)
            found = second.find(scope(id))
            assert found
            second.close(found).result()
            assert first.find(scope(id)) is None

    def test_neither_ids_nor_tokens_are_on_the_disk(self, tmp_path: Path) -> None:
        with started(tmp_path) as (sessions, _):
            id = sessions.open(OPENED)
            assert id.encode() not in bytes_of(tmp_path)
            assert TOKEN.encode() not in bytes_of(tmp_path)

    def test_many_threads_open_and_find_them(self, tmp_path: Path) -> None:
        lost: list[str] = []

        def visit() -> None:
            for _ in range(10):
                id = sessions.open(OPENED)
                if sessions.find(scope(id)) is None:
                    lost.append(id)

        with started(tmp_path) as (sessions, state):
            threads = [threading.Thread(target=visit) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert state.select("SELECT count(*) FROM sessions") == [(80,)]
        assert lost == []

    def test_a_disk_that_refuses_signs_in_all_the_same(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        folder = tmp_path / "state"
        with started(folder) as (sessions, _):
            folder.rename(tmp_path / "elsewhere")
            folder.write_text("a file stands in the way")
            id = sessions.open(OPENED)
            assert sessions.find(scope(id))
            assert "in memory only" in caplog.text
            sessions.close(hashlib.sha256(id.encode()).digest()).result()
            assert sessions.find(scope(id)) is None


SERVE = """
import sys, time
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_server_state import KEY, OPENED, TOKEN, chosen
from vrag.server.options import ServerOptions
from vrag.server.setup.choices import ModelChoices
from vrag.server.state.database import ServerState
from vrag.server.state.sessions import BrowserSessions
state = ServerState.open(Path(sys.argv[1]))
options = ServerOptions(token=TOKEN, state=state)
sessions = BrowserSessions(options)
choices = ModelChoices(sessions, options)
state.erase = lambda: None # it is killed before
for number in range(1000):
    choices.choose_for_all(chosen(f"{KEY}{number % 2}"))
    print(number, sessions.open(OPENED), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("lines", [1, 2, 7])
def test_after_a_kill_what_was_acknowledged_is_there_and_no_former_key(tmp_path: Path, lines: int) -> None:
    command = [sys.executable, "-c", SERVE, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ids = [process.stdout.readline().split()[1] for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        process.wait()
    with started(tmp_path) as (sessions, state):
        assert all(sessions.find(scope(id)) for id in ids)
        kept = ModelChoices(sessions, ServerOptions(token=TOKEN, state=state)).for_all
        assert kept is not None
        assert bytes_of(tmp_path).count(KEY.encode()) == 1
        assert kept.key.get_secret_value().encode() in bytes_of(tmp_path)


class TestChosenModel:
    def test_a_former_key_is_in_no_byte_of_the_folder(self, tmp_path: Path) -> None:
        with started(tmp_path) as (sessions, state):
            choices = ModelChoices(sessions, ServerOptions(token=TOKEN, state=state))
            for number in range(20):
                choices.choose_for_all(chosen(f"{KEY}{number:02}" * (number + 1)))
                for _ in range(5):
                    sessions.open(OPENED)  # the file grows meanwhile
            assert KEY.encode() + b"18" not in bytes_of(tmp_path)
            assert KEY.encode() + b"19" in bytes_of(tmp_path)
            choices.choose_for_all(None)
            assert KEY.encode() not in bytes_of(tmp_path)

    def test_is_not_read_where_models_are_fixed(self, tmp_path: Path) -> None:
        with started(tmp_path) as (sessions, state):
            ModelChoices(sessions, ServerOptions(token=TOKEN, state=state)).choose_for_all(chosen(KEY))
            fixed = ServerOptions(token=TOKEN, state=state, fixed_models=True)
            assert ModelChoices(sessions, fixed).for_all is None


class TestFile:
    def test_is_the_owners_alone(self, tmp_path: Path) -> None:
        folder = tmp_path / "servers" / "one"
        with started(folder) as (sessions, _):
            sessions.open(OPENED)
            assert folder.stat().st_mode & 0o777 == 0o700
            modes = {path.name: path.stat().st_mode & 0o777 for path in folder.glob("server.db*")}
            assert modes == dict.fromkeys(("server.db", "server.db-wal", "server.db-shm"), 0o600)

    @pytest.mark.parametrize("place", [0, 20, 60, 70, 100, 2000, 4090, 5000, 9000, 13000])
    def test_that_is_damaged_is_kept_aside_and_said(
        self, tmp_path: Path, place: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = tmp_path / "server.db"
        with started(tmp_path) as (sessions, _):
            id = sessions.open(OPENED)
        data = bytearray(path.read_bytes())
        data[place] ^= 0xFF
        path.write_bytes(data)
        with started(tmp_path) as (sessions, state):
            assert "kept as server.db.damaged" in state.problem
            assert "sign in again" in caplog.text
            assert sessions.find(scope(id)) is None
            id = sessions.open(OPENED)
            assert (tmp_path / "server.db.damaged").read_bytes() == data
        with started(tmp_path) as (sessions, state):
            assert state.problem == ""
            assert sessions.find(scope(id))

    def test_with_a_damaged_log_is_kept_aside(self, tmp_path: Path) -> None:
        place, copy = tmp_path / "place", tmp_path / "copy"
        copy.mkdir()
        with started(place) as (sessions, _):
            for _ in range(3):
                sessions.open(OPENED)
            for name in ("server.db", "server.db-wal", "server.db-shm"):
                (copy / name).write_bytes((place / name).read_bytes())
        log_file = copy / "server.db-wal"
        data = bytearray(log_file.read_bytes())
        data[200] ^= 1
        log_file.write_bytes(data)
        with started(copy) as (_, state):
            assert "damaged" in state.problem
            assert (copy / "server.db.damaged-wal").read_bytes() == data
            assert state.select("SELECT count(*) FROM sessions") == [(0,)]

    def test_of_a_newer_version_is_refused_and_left(self, tmp_path: Path) -> None:
        with started(tmp_path) as (sessions, state):
            sessions.open(OPENED)
            state.write(lambda connection: connection.pragma("user_version", SCHEMA.version + 1))
        with pytest.raises(ServerStateError, match="newer version"):
            ServerState.open(tmp_path)
        assert not (tmp_path / "server.db.damaged").exists()

    def test_without_a_place_serves_all_the_same(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "file").write_text("in the way")
        with caplog.at_level(logging.WARNING), started(tmp_path / "file" / "state") as (sessions, state):
            assert "Sessions of browsers end with this server" in caplog.text
            assert "cannot be kept" in state.problem
            assert sessions.find(scope(sessions.open(OPENED)))
            choices = ModelChoices(sessions, ServerOptions(token=TOKEN, state=state))
            with pytest.raises(ServerStateError):
                choices.choose_for_all(chosen(KEY))
            assert choices.for_all is None

    @pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
    def test_that_may_not_be_written_is_no_damage(self, tmp_path: Path) -> None:
        with started(tmp_path):
            pass
        tmp_path.chmod(0o500)
        try:
            with started(tmp_path) as (sessions, _):
                assert sessions.find(scope(sessions.open(OPENED)))
        finally:
            tmp_path.chmod(0o700)
        assert (tmp_path / "server.db").exists()

    def test_on_a_network_drive_is_no_damage(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with started(tmp_path):
            pass
        before = (tmp_path / "server.db").read_bytes()
        monkeypatch.setattr("vrag.storage.database.describe_network_drive", network_drive)
        with started(tmp_path) as (_, state):
            assert state.problem
        assert (tmp_path / "server.db").read_bytes() == before

    def test_that_was_replaced_takes_nothing_that_would_be_lost(self, tmp_path: Path) -> None:
        with started(tmp_path) as (_, state):
            (tmp_path / "server.db").rename(tmp_path / "moved")
            with pytest.raises(ServerStateError, match="moved or replaced"):
                state.write(lambda connection: connection.execute("DELETE FROM sessions"))
