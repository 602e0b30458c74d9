"""Commands whose output is cut off by its reader end quietly."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from vrag.cli.terminal.process import OUTPUT_CLOSED

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    for number in range(3):
        (path / f"note{number}.md").write_text(f"Ferry {number} carried 48,200 passengers.\n")
    subprocess.run([sys.executable, "-m", "vrag", "index", "add", ".", "-c", "docs"], cwd=path, check=True)
    return path


@pytest.mark.parametrize(
    "arguments",
    [("search", "ferry", "-c", "docs"), ("index", "status", "-c", "docs", "--json"), ("--help",)],
)
def test_a_reader_that_leaves_ends_a_command_without_a_message(
    home: Path, arguments: tuple[str, ...]
) -> None:
    """By a write, by the last flush, and inside typer."""
    reading, writing = os.pipe()
    os.close(reading)
    line = [sys.executable, "-m", "vrag", *arguments]
    try:
        done = subprocess.run(line, cwd=home, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (OUTPUT_CLOSED, b"")
