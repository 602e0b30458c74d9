"""Runs what a study still lacks, each run in a process of its own.

The study may be stopped and killed at any moment: what is finished is not run again, and what was
interrupted is started again with the same command, which goes on from its checkpoint. A run whose runner
was killed goes on by itself; its process holds the lock of its folder, so that it is not started a
second time beside itself but waited for.
"""

from __future__ import annotations

import fcntl
import json
import secrets
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from benchmarks.credit.setting import freeze

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from benchmarks.credit.setting import Job, Setting

__all__ = ["DONE", "LOG", "Outcome", "Study", "is_done"]

DONE, LOG, LOCK = "finished.json", "log.txt", "lock"
"""In the folder of a run: that it is finished, what it printed, and who holds it."""
_PATIENCE, _GRACE = 0.2, 20.0
"""Seconds between two looks at a lock, and between asking a process to end and ending it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a run."""

    job: Job
    status: int | None
    """Exit status of its process; None when the study was stopped before it ended."""


@dataclass(slots=True)
class Study:
    """A study in a folder, to be run."""

    folder: Path
    setting: Setting
    tell: Callable[[str], None]
    """Is told what happens, in lines; from several threads."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> list[Outcome]:
        """Runs what is not finished, and returns when all has ended.

        A run that fails is told and left as it is; the next call starts it again.

        Raises:
            SettingsError: If the study in the folder has another setting.
            KeyboardInterrupt: After the processes were asked to end, and have.
        """
        freeze(self.folder, self.setting)
        left = [job for job in self.setting.jobs if not is_done(self.folder / job.name)]
        self.tell(f"{len(self.setting.jobs) - len(left)} of {len(self.setting.jobs)} runs are finished.")
        with ThreadPoolExecutor(self.setting.parallel) as pool:
            try:
                return list(pool.map(self._one, left))
            except BaseException:
                self._stop.set()
                raise

    def _one(self, job: Job) -> Outcome:
        folder = self.folder / job.name
        folder.mkdir(exist_ok=True)
        with self._lock(folder) as lock:
            if lock is None:
                return Outcome(job, None)
            if is_done(folder):
                return Outcome(job, 0)
            self.tell(f"{job.name}: goes on" if (folder / LOG).exists() else f"{job.name}: begins")
            started = time.time()
            status = self._call(job, folder, lock)
            if status == 0:
                _finish(folder, time.time() - started)
        how = "stopped" if status is None else "finished" if status == 0 else f"failed with status {status}"
        self.tell(f"{job.name}: {how}" + (f", see {folder / LOG}" if status else ""))
        return Outcome(job, status)

    def _call(self, job: Job, folder: Path, lock: IO[str]) -> int | None:
        """Runs the process of a run; it inherits the lock, and holds it when this one is killed."""
        line = self.setting.line(job, folder, sys.executable)
        with (folder / LOG).open("ab") as log:
            log.write(f"$ {' '.join(line)}\n".encode())
            log.flush()
            process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(lock.fileno(),),
                start_new_session=True,
            )
        while not self._stop.is_set():
            try:
                return process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                pass
        return _end(process)

    @contextmanager
    def _lock(self, folder: Path) -> Generator[IO[str] | None]:
        """The lock of a run, waited for while a process of an earlier runner has it; None when stopped."""
        with (folder / LOCK).open("w") as stream:
            waiting = False
            while not self._stop.is_set():
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if not waiting:
                        self.tell(f"{folder.name}: still runs, from before; waiting for it")
                    waiting = True
                    self._stop.wait(_PATIENCE)
                else:
                    yield stream
                    return
            yield None


def is_done(folder: Path) -> bool:
    """Whether a run came to its end."""
    return (folder / DONE).exists()


def _finish(folder: Path, seconds: float) -> None:
    """Says so, once the process has ended well; seconds are those of its last stretch."""
    unfinished = folder / f".{DONE}.{secrets.token_hex(4)}"
    unfinished.write_text(json.dumps({"seconds": round(seconds, 1)}) + "\n", encoding="utf-8")
    unfinished.replace(folder / DONE)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
