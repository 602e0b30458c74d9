"""The lock for writing: one at a time, and whoever waits is next."""

from __future__ import annotations

import json
import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from vrag.errors import CollectionBusy
from vrag.storage.writer_lock import WriterLock

if TYPE_CHECKING:
    from pathlib import Path


def make_lock(directory: Path, wait: float = 0.0) -> WriterLock:
    return WriterLock(
        directory, wait, lambda holder, waited: CollectionBusy(holder, f"{waited:g} s"), is_long=True
    )


def test_another_one_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    lock = make_lock(tmp_path)
    assert not lock.is_held
    with lock.hold():
        assert lock.is_held
        with pytest.raises(CollectionBusy, match=rf"process {os.getpid()} on {socket.gethostname()}"):
            make_lock(tmp_path).hold().__enter__()
    assert not lock.is_held
    with make_lock(tmp_path).hold():
        pass


def test_what_waits_gets_its_turn_from_one_that_takes_it_again_and_again(tmp_path: Path) -> None:
    turns: list[str] = []
    has_begun, is_done = threading.Event(), threading.Event()

    def build() -> None:
        lock = make_lock(tmp_path, 30)
        while not is_done.is_set():
            with lock.hold():
                turns.append("build")
                has_begun.set()

    thread = threading.Thread(target=build)
    thread.start()
    has_begun.wait(30)
    try:
        for _ in range(5):
            with make_lock(tmp_path, 30).hold():
                turns.append("other")
    finally:
        is_done.set()
        thread.join()
    assert turns.count("other") == 5


def test_nobody_is_named_who_is_dead_or_unreadable(tmp_path: Path) -> None:
    lock, holder = make_lock(tmp_path), tmp_path / "writer.json"
    holder.write_text(json.dumps({"pid": 2**22 + 1, "host": socket.gethostname()}))
    assert not lock.is_held
    for text in ("", "[", "[]", '{"pid": "1"}'):
        holder.write_text(text)
        assert not lock.is_held
        with lock.hold(), pytest.raises(CollectionBusy, match="Another process is writing"):
            make_lock(tmp_path).hold().__enter__()


def test_a_failed_block_gives_it_back(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), make_lock(tmp_path).hold():
        raise ZeroDivisionError
    with make_lock(tmp_path).hold():
        pass
