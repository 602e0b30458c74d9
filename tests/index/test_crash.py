"""Real processes: killed while they write, and read while they write.

The study with hundreds of kills, of larger files and of every command is `benchmarks/durability.py`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from fake_conversion import contents
from PIL import Image
from stored_items import location_of

from vrag.corpus.converter import CorpusOptions
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.verification import verify
from vrag.index.manifest import Writer
from vrag.search.engine import Engine
from vrag.types import DocumentStatus, Query

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.types import Hit

pytestmark = pytest.mark.slow


OPTIONS = CorpusOptions(ocr="never", workers=1)
CHILD = """
import sys
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.manifest import Writer
Writer.ITEMS = Writer.DOCUMENTS = 4
"""
WAIT_FOR_READER = """
flush, flushes = Writer.flush, 0
def flush_and_wait(self):
    global flushes
    flush(self)
    flushes += 1
    if flushes % 10 == 0:
        sys.stdin.readline()
Writer.flush = flush_and_wait
"""
ADD = "add(Collection.open(sys.argv[1]), [sys.argv[2]])"
STATES = 4
FILES = 150
KILLS = 10


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for number in range(FILES):
        (folder / f"{number}.txt").write_text(f"apple number {number}. " * 100, encoding="utf-8")
    for number in range(20):
        Image.new("RGB", (64, 48), (number, 0, 0)).save(folder / f"{number}.png")
    (folder / "broken.png").write_bytes(b"no picture")
    return folder


def start(collection: Collection, files: Path, *, wait_for_reader: bool = False) -> subprocess.Popen[bytes]:
    """Index in a separate process; with `wait_for_reader` it reads a line after every tenth write."""
    code = CHILD + (WAIT_FOR_READER if wait_for_reader else "") + ADD
    command = [sys.executable, "-c", code, str(collection.directory), str(files)]
    return subprocess.Popen(command, start_new_session=True, stdin=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for_commits(process: subprocess.Popen[bytes], collection: Collection, commits: int) -> bool:
    """Until there are so many more commits; whether the process still runs."""
    target = collection.version + commits
    while process.poll() is None:
        if collection.version >= target:
            return True
        time.sleep(0.002)
    return False


@pytest.mark.slow
def test_killed_ten_times_it_equals_a_clean_build(files: Path, tmp_path: Path) -> None:
    chance = random.Random(7)
    collection = Collection.create(tmp_path / "victim", OPTIONS)
    killed = 0
    for _ in range(KILLS):
        process = start(collection, files)
        if wait_for_commits(process, collection, chance.randint(1, 5)):
            time.sleep(chance.uniform(0, 0.02))
            os.killpg(process.pid, signal.SIGKILL)
        _, error = process.communicate(timeout=60)
        killed += process.returncode == -signal.SIGKILL
        assert process.returncode in {0, -signal.SIGKILL}, error.decode()
        assert Engine(collection).search([Query("apple")], 1)[0], "searchable after every kill"
    assert killed == KILLS
    add(collection, [files])

    clean = Collection.create(tmp_path / "clean", OPTIONS)
    add(clean, [files])
    assert contents(collection) == contents(clean)
    assert verify(location_of(collection)).ok
    assert collection.content_version == clean.content_version


def test_is_read_by_another_process_while_it_grows(files: Path, tmp_path: Path) -> None:
    collection = Collection.create(tmp_path / "growing", OPTIONS)
    process = start(collection, files, wait_for_reader=True)
    assert process.stdin is not None
    engine = Engine(Collection.open(collection.directory))
    found: list[int] = [0]
    hits: list[Hit] = []
    end = time.monotonic() + 300
    while process.poll() is None:
        if time.monotonic() > end:
            os.killpg(process.pid, signal.SIGKILL)
            pytest.fail(f"The reader saw {found} and no more in five minutes.")
        (hits,) = engine.search([Query("apple")], 1000)
        assert len({hit.item for hit in hits}) == len(hits)
        for hit in hits[:3]:
            assert "apple" in engine.item(hit.item).text
        assert len(hits) >= found[-1], "what was found once stays found"
        if len(hits) > found[-1]:
            found.append(len(hits))
            if len(found) < STATES:
                process.stdin.write(b"\n")
                process.stdin.flush()
            elif len(found) == STATES:
                process.stdin.close()
    process.stdin = None
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0, error.decode()
    assert len(found) >= STATES, "it was seen growing"
    # A slow machine searches what it had while it loads.
    while len({hit.document for hit in hits}) < FILES and time.monotonic() < end:
        (hits,) = engine.search([Query("apple")], 1000)
    assert len({hit.document for hit in hits}) == FILES


def test_a_changed_file_is_found_as_it_was_or_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never both and never neither, though its many items take many commits."""
    from threading import Thread

    path = tmp_path / "a.txt"
    path.write_text("\n\n".join("apple old " * 100 for _ in range(40)), encoding="utf-8")
    collection = Collection.create(tmp_path / "collection", OPTIONS)
    add(collection, [path])
    monkeypatch.setattr(Writer, "ITEMS", 3)
    monkeypatch.setattr(Engine, "PATIENCE", 0)
    path.write_text("\n\n".join("apple new " * 100 for _ in range(30)), encoding="utf-8")
    reader = Collection.open(collection.directory)
    engine = Engine(reader)
    seen: list[str] = []

    adding = Thread(target=add, args=(collection, [path]))
    adding.start()
    while adding.is_alive():
        (hits,) = engine.search([Query("apple")], 1000)
        texts = {item.text.split()[1] for item in reader.items([h.item for h in hits]).values()}
        assert len(texts) <= 1
        assert hits
        seen.extend(texts)
    adding.join()
    assert seen[0] == "old"
    (hits,) = engine.search([Query("apple")], 1000)
    assert {engine.item(hit.item).text.split()[1] for hit in hits} == {"new"}
    assert [document.status for document in collection.documents()] == [DocumentStatus.READY]
