"""Work that blocks, done beside the event loop."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
SETTLE_SECONDS = 3.0
_LEFT: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
"""Threads whose work is not waited for any longer."""


async def run_in_thread(work: Callable[[], T]) -> T:
    """Do some work that blocks in a thread of its own, and return its result.

    The threads of an event loop are few, and ending the loop waits for all of them: a search that hangs
    would hold up other runs and the end of its own. This one is left behind when it is cancelled, and does
    not keep the program alive. Starting it takes a twentieth of a millisecond.
    """
    future: Future[Any] = Future()
    context = contextvars.copy_context()
    thread = threading.Thread(target=_do, args=(context, work, future), name="vrag-aside", daemon=True)
    thread.start()
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        _LEFT.add(thread)
        raise


@atexit.register
def _settle() -> None:
    """Give what was left behind a moment to end.

    A thread that wakes in native code while the interpreter is taken down takes the process down with it.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    for thread in list(_LEFT):
        thread.join(max(0.0, deadline - time.monotonic()))


def _do(context: contextvars.Context, work: Callable[[], Any], future: Future[Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = context.run(work)
    except BaseException as error:  # noqa: BLE001 - raised where the work is waited for
        future.set_exception(error)
    else:
        future.set_result(result)
