"""Coverage-guided fuzzing of the entry points in `fuzz_entries.py`, with Atheris.

Any error that is not documented, and more than ten seconds or 2 GB for one input, is a finding: the input is
written to a file. Atheris has an environment of its own; see `make fuzz`.

    python tools/fuzz_parsers.py --minutes 10            # all, one after the other
    python tools/fuzz_parsers.py --minutes 5 markdown    # one
    python tools/fuzz_parsers.py --input FILE markdown   # one input again, without Atheris
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

NAMES = (
    "replies", "damaged-json", "expert-replies", "markers", "markdown", "documents", "headers", "requests",
    "addresses", "run-files", "collection-files", "data-sets", "questions", "readings",
)  # fmt: skip
"""Names of the entry points. Their module is imported once Atheris can instrument it."""
SECONDS, MEGABYTES, MAX_BYTES = 10, 2048, 4096
"""Limits of one input: time, memory and length."""


def fuzz(name: str, folder: Path, seconds: int) -> None:
    """Run one entry point under Atheris; does not return."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["vrag"]):
        entries: Any = importlib.import_module("fuzz_entries")
    words = folder / "words.txt"
    words.write_text("".join(f'"{_escape(word)}"\n' for word in entries.WORDS))
    (corpus := folder / "corpus" / name).mkdir(parents=True, exist_ok=True)
    limits = [f"-timeout={SECONDS}", f"-rss_limit_mb={MEGABYTES}", f"-max_len={MAX_BYTES}"]
    output = [f"-artifact_prefix={folder}/{name}-", f"-dict={words}", "-print_final_stats=1"]
    atheris.Setup(
        [sys.argv[0], *limits, *output, f"-max_total_time={seconds}", str(corpus)], entries.ENTRIES[name]
    )
    atheris.Fuzz()


def _escape(word: str) -> str:
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in word.encode())


def run(name: str, folder: Path, seconds: int) -> bool:
    """Fuzz one entry point in a process of its own; return whether nothing was found."""
    command = [
        sys.executable,
        __file__,
        "--one",
        name,
        "--folder",
        str(folder),
        "--minutes",
        str(seconds / 60),
    ]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    lines = [
        line for line in done.stderr.splitlines() if line.startswith(("stat::number_of", "stat::average"))
    ]
    print(f"{name}: {'nothing found' if done.returncode == 0 else 'FOUND'}; {'; '.join(lines)}", flush=True)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-4000:], sep="\n", flush=True)
    return done.returncode == 0


def main() -> None:
    """Fuzz entry points until their share of the time is up; exit with 1 if something was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="Time budget of all together. Default: 10.")
    parser.add_argument(
        "--folder", type=Path, default=Path("build/fuzz"), help="Corpus and findings. Default: build/fuzz"
    )
    parser.add_argument("--input", type=Path, help="Read this file once, without Atheris.")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", help=f"Entry points: {', '.join(NAMES)}. Default: all.")
    arguments = parser.parse_args()
    names: list[str] = arguments.names or list(NAMES)
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"there is no entry point {json.dumps(unknown)}")
    if arguments.input:
        entries: Any = importlib.import_module("fuzz_entries")
        for name in names:
            entries.ENTRIES[name](arguments.input.read_bytes())
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.one:
        fuzz(arguments.one, arguments.folder.resolve(), max(1, round(arguments.minutes * 60)))
    seconds = max(1, round(arguments.minutes * 60 / len(names)))
    found = [name for name in names if not run(name, arguments.folder.resolve(), seconds)]
    print(f"Entry points with findings: {len(found)}", *found, sep="\n  ")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
