"""Files that workers are given, where they have names: nothing stays of them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from vrag.corpus.workers import file_broker
from vrag.corpus.workers.file_broker import FileBroker
from vrag.scratch import remove_abandoned

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HOLD = """
import sys
from pathlib import Path
from vrag.corpus.workers import file_broker

file_broker.HAS_DESCRIPTORS = False
broker = file_broker.FileBroker(Path(sys.argv[1]))
clip = broker.open_clip()
clip.write(b"frames")
clip.flush()
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_clip_of_a_killed_process_is_removed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items, temporary = tmp_path / "items", tmp_path / "temporary"
    items.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(temporary))
    environment = os.environ | {"TMPDIR": os.fspath(temporary)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, items], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.kill()
    assert list(temporary.iterdir())
    remove_abandoned()
    assert not list(temporary.iterdir())
    assert not list(items.iterdir())


def test_a_clip_goes_with_its_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_broker, "HAS_DESCRIPTORS", False)
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(tmp_path))
    broker = FileBroker(tmp_path / "items")
    with broker.open_clip() as clip:
        clip.write(b"frames")
    broker.close()
    assert not list(tmp_path.iterdir())
