"""Runs what a study still lacks, each run in a process of its own.

The study may be stopped and killed at any moment: what is finished is not run again, and what was
interrupted is started again with the same command, which goes on from its checkpoint. A run whose runner
was killed goes on by itself; its process holds the lock of the run, so that it is not started a
second time beside itself but waited for.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from benchmarks.credit.setting import freeze
from vrag.atomic_io import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from benchmarks.credit.setting import Job, Setting

__all__ = ["Outcome", "Study", "beside", "is_done"]

DESK = "runner"
"""Folder in that of the study, for what is kept of each run beside its own, which is the trainer's."""
_DONE, _LOG, _LOCK = "json", "log", "lock"
"""That it is finished, what it printed, and who holds it."""
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
        (self.folder / DESK).mkdir(exist_ok=True)
        left = [job for job in self.setting.jobs if not is_done(self.folder, job)]
        self.tell(f"{len(self.setting.jobs) - len(left)} of {len(self.setting.jobs)} runs are finished.")
        with ThreadPoolExecutor(self.setting.parallel) as pool:
            try:
                return list(pool.map(self._one, left))
            except BaseException:
                self._stop.set()
                raise

    def _one(self, job: Job) -> Outcome:
        log = beside(self.folder, job, _LOG)
        with self._lock(job) as lock:
            if lock is None:
                return Outcome(job, None)
            if is_done(self.folder, job):
                return Outcome(job, 0)
            self.tell(f"{job.name}: {'goes on' if log.exists() else 'begins'}")
            started = time.time()
            status = self._call(job, log, lock)
            if status == 0:
                _finish(beside(self.folder, job, _DONE), time.time() - started)
        how = "stopped" if status is None else "finished" if status == 0 else f"failed with status {status}"
        self.tell(f"{job.name}: {how}" + (f", see {log}" if status else ""))
        return Outcome(job, status)

    def _call(self, job: Job, told: Path, lock: IO[str]) -> int | None:
        """Runs the process of a run; it inherits the lock, and holds it when this one is killed.

        It computes with one thread, unless `OMP_NUM_THREADS` says otherwise: several runs stand beside each
        other, and small models are often many times slower with two.
        """
        line = self.setting.line(job, self.folder / job.name, sys.executable)
        with told.open("ab") as log:
            log.write(f"$ {' '.join(line)}\n".encode())
            log.flush()
            process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(lock.fileno(),),
                start_new_session=True,
                env=os.environ | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")},
            )
        while not self._stop.is_set():
            try:
                return process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                pass
        return _end(process)

    @contextmanager
    def _lock(self, job: Job) -> Generator[IO[str] | None]:
        """The lock of a run, waited for while a process of an earlier runner has it; None when stopped."""
        with beside(self.folder, job, _LOCK).open("w") as stream:
            waiting = False
            while not self._stop.is_set():
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if not waiting:
                        self.tell(f"{job.name}: still runs, from before; waiting for it")
                    waiting = True
                    self._stop.wait(_PATIENCE)
                else:
                    yield stream
                    return
            yield None


def beside(study: Path, job: Job, kind: str) -> Path:
    """A file about a run: its `log`, its `lock`, or the `json` that it is finished."""
    return study / DESK / f"{job.name}.{kind}"


def is_done(study: Path, job: Job) -> bool:
    """Whether a run came to its end."""
    return beside(study, job, _DONE).exists()


def _finish(file: Path, seconds: float) -> None:
    """Says that a process has ended well; seconds are those of its last stretch."""
    write_whole(file, json.dumps({"seconds": round(seconds, 1)}).encode() + b"\n")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
