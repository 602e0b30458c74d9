"""Too little memory is an error in words."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from vrag.cli.root import is_out_of_memory
from vrag.index.collection import Collection

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit addresses")
def test_a_limit_that_the_tables_do_not_fit_into_is_told_before_they_are_opened(tmp_path: Path) -> None:
    Collection.create(tmp_path / "collection")
    command = f"ulimit -v 600000; exec {sys.executable} -m vrag search --collection '{tmp_path}/collection' x"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    assert "limited to 586 MiB" in ended.stderr
    assert "2,048 MiB" in ended.stderr
    assert "Traceback" not in ended.stderr


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
