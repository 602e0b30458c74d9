"""Too little memory is an error in words."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from vrag.cli.root import is_out_of_memory
from vrag.index.build import add
from vrag.index.collection import Collection

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit addresses")
def test_a_search_needs_little_memory(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("The ferry sails at nine.")
    add(Collection.create(tmp_path / "collection"), [tmp_path / "note.txt"])
    command = f"ulimit -v 600000; exec {sys.executable} -m vrag search --collection '{tmp_path}/collection' x"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (MemoryError(), True),
        (ImportError("/lib/x.so: failed to map segment from shared object"), True),
        (RuntimeError("can't start new thread"), True),
        (ImportError("No module named 'x'"), False),
        (RuntimeError("something else"), False),
    ],
)
def test_what_libraries_say_without_memory(error: Exception, is_memory: bool) -> None:
    assert is_out_of_memory(error) is is_memory
