"""The cost of a change in collections of growing size: each command in a process of its own, as users run it.

    python -m benchmarks.growth --sizes 100 1000 10000 --program after=.venv/bin/vrag \
        --program before=../old/.venv/bin/vrag

Documents are text files of 40 invented passages each, whose words are as frequent as in a language (Zipf).
All programs index the same files, one after the other, and then run the same commands in turn, three times;
figures are medians. CPU seconds are those of the process and its children; memory is the most that it held.
Syncs are counted by strace, where it is installed, in a run of their own. The first search after a change is
a process that starts with what the change has left.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["main"]

PASSAGES = 40
"""Passages of a file."""
_WORDS, _WORDS_OF_PASSAGE = 60_000, 110
_RUNS = 3
_SYNCS = "fsync,fdatasync,sync_file_range,msync"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process used."""

    cpu: float
    seconds: float
    megabytes: float


@dataclass
class Measured:
    """A program, its collection, and what its commands cost."""

    name: str
    program: str
    home: Path
    costs: dict[str, list[Cost]] = field(default_factory=dict[str, list[Cost]])
    facts: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def collection(self) -> Path:
        """Its collection."""
        return self.home / "collection"

    def run(self, label: str, *arguments: str) -> None:
        """Run a command on the collection."""
        command = [self.program, *arguments, "--collection", str(self.collection)]
        environment = os.environ | {"XDG_CONFIG_HOME": str(self.home / "config"), "OMP_NUM_THREADS": "1"}
        with (self.home / "output").open("wb") as output:
            begun = time.perf_counter()
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in {0, 3}:
            raise RuntimeError(f"{command}: {(self.home / 'output').read_text()}")
        cost = Cost(used.ru_utime + used.ru_stime, time.perf_counter() - begun, used.ru_maxrss / 1024)
        self.costs.setdefault(label, []).append(cost)

    def find(self, word: str) -> None:
        """Check that the last search found a word."""
        if word not in (self.home / "output").read_text():
            raise RuntimeError(f"{self.name} does not find {word}.")

    def count_syncs(self, label: str, *arguments: str) -> None:
        """Count the syncs of a command, if strace is installed."""
        if shutil.which("strace") is None:
            return
        trace = self.home / "trace"
        command = ["strace", "-f", "-o", str(trace), "-e", f"trace={_SYNCS}", self.program, *arguments]
        subprocess.run([*command, "--collection", str(self.collection)], check=True, capture_output=True)
        self.facts[label] = f"{sum('sync' in line for line in trace.read_text().splitlines()):,}"


class Language:
    """Invented words, each with its frequency."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        letters = "etaoinshrdlucmfwypvbgkqjxz"
        words: dict[str, None] = {}
        while len(words) < _WORDS:
            words["".join(chance.choices(letters, range(26, 0, -1), k=chance.randint(3, 10)))] = None
        self._words = list(words)
        weights = 1 / np.arange(1, _WORDS + 1) ** 1.05
        self._limits = np.cumsum(weights / weights.sum())
        self._chance = np.random.default_rng(seed)

    def write_file(self, path: Path, number: int, passages: int = PASSAGES) -> None:
        """Write a file of some passages."""
        parts = [f"# Report {number}\n"]
        for section in range(passages):
            drawn = np.searchsorted(self._limits, self._chance.random(_WORDS_OF_PASSAGE))
            places: list[int] = np.minimum(drawn, _WORDS - 1).tolist()
            text = " ".join(self._words[place] for place in places)
            parts.append(f"## Section {number}.{section}\n\n{text.capitalize()}.\n")
        path.write_text("\n".join(parts))


def measure(home: Path, programs: Sequence[tuple[str, str]], size: int) -> list[Measured]:
    """Build a collection of about `size` items with each program, and change it."""
    documents = home / "documents"
    documents.mkdir()
    language = Language(size)
    for number in range(-(-size // PASSAGES)):
        passages = min(PASSAGES, size - number * PASSAGES)
        language.write_file(documents / f"report-{number:05}.md", number, passages)
    measured = [Measured(name, program, home / name) for name, program in programs]
    for each in measured:
        each.home.mkdir()
        each.run("add all files", "index", "add", str(documents))
        each.run("first search", "search", "report of section 17")
        each.facts["disk, MB"] = f"{size_of(each.collection) / 1e6:.1f}"
    new = documents / "new.md"
    for number in range(_RUNS):
        change(measured, new, number)
    new.write_text("# A note\n\nAnother one.\n")
    for each in measured:
        each.run("verify", "index", "verify")
        each.count_syncs("syncs: add one file", "index", "add", str(new))
    return measured


def change(measured: Sequence[Measured], new: Path, number: int) -> None:
    """Add a file, replace it, rename it and remove it, and search after each."""
    words = [f"zyx{number}{stage}" for stage in ("new", "changed")]
    for stage, word in zip(("add one file", "replace it"), words, strict=True):
        new.write_text(f"# A note\n\nThe {word} stands here, and {number} others.\n")
        run_in_turn(measured, stage, "index", "add", str(new))
        for each in measured:
            each.run(f"search after: {stage}", "search", word)
            each.find("new.md")
    run_in_turn(measured, "search again", "search", "report of section 17")
    run_in_turn(measured, "add all files again", "index", "add", str(new.parent))
    run_in_turn(measured, "status", "index", "status")
    renamed = new.rename(new.with_name(f"renamed-{number}.md"))
    run_in_turn(measured, "rename it", "index", "add", str(renamed))
    for each in measured:
        each.run("search after: rename it", "search", words[-1])
        each.find(renamed.name)
    run_in_turn(measured, "remove it", "index", "remove", str(renamed))
    run_in_turn(measured, "search after: remove it", "search", words[-1])
    renamed.unlink()


def run_in_turn(measured: Sequence[Measured], label: str, *arguments: str) -> None:
    """Run a command with each program."""
    for each in measured:
        each.run(label, *arguments)


def size_of(folder: Path) -> int:
    """Return the bytes of the files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def rows_of(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| | {' | '.join(f'{each.name}: CPU s (wall s, MB)' for each in measured)} |"
    yield f"|---|{'---|' * len(measured)}"
    for label in measured[0].costs:
        yield f"| {label} | {' | '.join(describe(each.costs[label]) for each in measured)} |"
    for label in measured[0].facts:
        yield f"| {label} | {' | '.join(each.facts[label] for each in measured)} |"


def describe(costs: Sequence[Cost]) -> str:
    """Return medians."""
    cpu, seconds, megabytes = (
        statistics.median(values)
        for values in zip(*((each.cpu, each.seconds, each.megabytes) for each in costs), strict=True)
    )
    return f"{cpu:.2f} ({seconds:.1f}, {megabytes:.0f})"


def main() -> None:
    """Measure all sizes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--folder", type=Path, help="where to work; default: the folder of temporary files")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--program", action="append", metavar="NAME=PATH", required=True)
    given = parser.parse_args()
    programs = [(name, path) for name, _, path in (each.partition("=") for each in given.program)]
    for size in given.sizes:
        with tempfile.TemporaryDirectory(prefix="vrag-growth-", dir=given.folder) as folder:
            print(f"\n{size:,} items\n")
            for row in rows_of(measure(Path(folder), programs, size)):
                print(row, flush=True)


if __name__ == "__main__":
    main()
