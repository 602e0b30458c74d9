"""Workers as threads of this process, since most of the time of a short conversion is the start of a process.

They do what the processes do, and send the same messages through the same pipes, but restrict nothing and end
only between two pages. Tests that may start processes have real ones.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import subprocess
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, BinaryIO, TypeVar
from unittest import mock

import pytest
import tiers

from vrag.corpus.workers import worker, worker_pool
from vrag.corpus.workers.replies import WorkerReady
from vrag.corpus.workers.requests import Grant, ReceivedRequest, RequestReceiver
from vrag.corpus.workers.sandbox import Protection

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from vrag.corpus.workers.replies import Reply

KILLED = -9
Received = TypeVar("Received")
_decoding = threading.Lock()
"""Held by the thread that reads a file: PDFium serves one thread at a time."""


class _Stopped(BaseException):
    """The thread is told to end."""


class _Requests(queue.SimpleQueue[Received]):
    """Requests of the parent."""

    is_stopped = False

    def get(self, block: bool = True, timeout: float | None = None) -> Received:
        """Wait for one, and let others read files meanwhile."""
        _decoding.release()
        try:
            request = super().get(block, timeout)
        finally:
            _decoding.acquire()
        if self.is_stopped:
            raise _Stopped
        return request


class _ThreadLink(worker.ParentLink):
    """A connection whose end ends a thread, and not the process."""

    def __init__(self, requests: RequestReceiver, replies: BinaryIO) -> None:
        super().__init__(requests, replies)
        self._grants = self._grant_queue = _Requests[ReceivedRequest]()
        self._tasks = self._task_queue = _Requests[ReceivedRequest | Exception]()

    def listen(self) -> None:
        """Queue the requests that arrive, until the parent closes its end."""
        super().listen()
        self._requests.close()

    def end(self) -> None:
        """End the thread at its next request or reply."""
        for waiting in (self._grant_queue, self._task_queue):
            waiting.is_stopped = True
            waiting.put(ReceivedRequest(Grant(), None))

    def limit_processor(self, seconds: float) -> None:
        """Limit nothing: it would be the time of this process."""

    def send(self, reply: Reply) -> None:
        """Send a reply, unless the thread is told to end."""
        if self._task_queue.is_stopped:
            raise _Stopped
        super().send(reply)

    def close(self) -> None:
        """Close the pipe of the replies."""
        self._replies.close()


class WorkerThread:
    """A worker, with the methods of `subprocess.Popen` that its parent calls."""

    def __init__(self, command: Sequence[str], *, stdin: int, stdout: int, env: Mapping[str, str]) -> None:
        del stdout, env
        replies, self.stdout = _open_pipe()
        self.stdin: BinaryIO | None = None
        if stdin == subprocess.PIPE:  # where descriptors do not travel through sockets
            reading, writing = os.pipe()
            self.stdin = os.fdopen(writing, "wb")
        else:
            reading = os.dup(stdin)
        self._link = _ThreadLink(RequestReceiver(reading), replies)
        options = worker.WorkerOptions(**json.loads(command[-1]))
        self._thread = threading.Thread(target=self._run, args=(options,), daemon=True)
        self._thread.start()

    def kill(self) -> None:
        """Tell the thread to end."""
        self._link.end()

    def poll(self) -> int | None:
        """Return the status of a thread that has ended."""
        return None if self._thread.is_alive() else KILLED

    def wait(self) -> int:
        """Wait for the end of the thread."""
        self._thread.join()
        return KILLED

    def _run(self, options: worker.WorkerOptions) -> None:
        threading.Thread(target=self._link.listen, daemon=True).start()
        with _decoding:
            try:
                for name in options.modules:
                    importlib.import_module(name)
                self._link.send(WorkerReady(Protection()))
                worker.serve(self._link)
            except (_Stopped, BrokenPipeError):
                pass
            finally:
                self._link.close()


def _open_pipe() -> tuple[BinaryIO, BinaryIO]:
    """Open a pipe; returns the end to write to, and the one to read from."""
    reading, writing = os.pipe()
    return os.fdopen(writing, "wb"), os.fdopen(reading, "rb")


THREADS = SimpleNamespace(Popen=WorkerThread, PIPE=subprocess.PIPE)
"""Stands for the module `subprocess`."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Have files converted in threads by a test that may start no process, its fixtures included."""
    if tiers.may_start_processes(item):
        return (yield)
    with mock.patch.object(worker_pool, "subprocess", THREADS):
        return (yield)
