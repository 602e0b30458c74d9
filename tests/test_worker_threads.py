"""Workers that are threads, as the tests of the first tier have them, do what worker processes do."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from worker_threads import THREADS

from vrag.corpus.convert import Converted, convert_all
from vrag.corpus.converter import CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.workers import worker_pool
from vrag.samples import corpus_dir

if TYPE_CHECKING:
    from vrag.corpus.converter import Conversion


def convert(source: Path, items: Path) -> list[Conversion]:
    """Convert a file."""
    return list(convert_all([read_source(source)], items, CorpusOptions(ocr="never", workers=1)))


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """A PDF file of the samples."""
    return Path(shutil.copy(min(corpus_dir().glob("*.pdf")), tmp_path))


@pytest.mark.slow
def test_threads_and_processes_give_the_same_items(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_process = convert(document, tmp_path / "process")
    monkeypatch.setattr(worker_pool, "subprocess", THREADS)
    by_thread = convert(document, tmp_path / "thread")

    assert any(isinstance(each, Converted) for each in by_process)
    assert by_thread == by_process
    pictures = [
        sorted(path.read_bytes() for path in (tmp_path / name).rglob("*.*")) for name in ("process", "thread")
    ]
    assert pictures[0] == pictures[1]


def test_no_thread_is_left_when_a_conversion_is_over_or_left(document: Path, tmp_path: Path) -> None:
    before = threading.active_count()
    convert(document, tmp_path / "whole")
    left = convert_all([read_source(document)], tmp_path / "left", CorpusOptions(ocr="never", workers=1))
    next(left)
    left.close()

    deadline = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.005)  # those that listened end a moment later
    assert threading.active_count() <= before
