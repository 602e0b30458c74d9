"""PDF pages drawn and stored as JPEG per CPU second, beside pdf2image, which calls Poppler.

Both draw the same pages at the same resolution and JPEG quality, one process at work. Ours also reads
the text layer with its word boxes. CPU time is user and system time of all processes started, start-up
included. Needs `pip install pdf2image` and Poppler's `pdftoppm`.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.table import Comparison, compared, show

PDFS = Path(__file__).resolve().parents[2] / "shared" / "data" / "mmlongbench-dev" / "pdf"
RUNS = 3
MOST_PAGES = 60
"""Of each file, to keep the comparison under some minutes."""

OURS = """
import sys
from pathlib import Path
from vrag.corpus.convert import convert_all
from vrag.corpus.discover import read_source
from vrag.corpus.converter import CorpusOptions

target, most, *files = sys.argv[1:]
sources = [read_source(Path(file)) for file in files]
options = CorpusOptions(dpi=144, ocr="never", workers=1)
for _ in convert_all(sources, Path(target), options, lambda _: range(int(most) + 1, 20001)):
    pass
"""
THEIRS = """
import sys
from pdf2image import convert_from_path

target, most, *files = sys.argv[1:]
for number, file in enumerate(files):
    convert_from_path(
        file, dpi=144, last_page=int(most), output_folder=target, output_file=f"{number}-", fmt="jpeg",
        jpegopt={"quality": 88, "optimize": False, "progressive": False}, paths_only=True,
    )
"""


def main(pdfs: Path = PDFS, runs: int = RUNS) -> list[Comparison]:
    """Draws the pages of all PDF files in a folder with both, in turn."""
    if not pdfs.is_dir():
        print(f"rendering: skipped, there is no folder {pdfs}")
        return []
    if importlib.util.find_spec("pdf2image") is None or shutil.which("pdftoppm") is None:
        print("rendering: skipped, it needs pdf2image and Poppler (pdftoppm)")
        return []
    files = sorted(pdfs.glob("*.pdf"))
    speeds: dict[str, list[float]] = {OURS: [], THEIRS: []}
    for _ in range(runs):
        for code, measured in speeds.items():
            measured.append(_pages_per_second(code, files))
    ours, theirs = (statistics.median(measured) for measured in speeds.values())
    return [compared("PDF pages drawn and stored", ours, theirs, "pages per CPU second", runs)]


def _pages_per_second(code: str, files: list[Path]) -> float:
    with tempfile.TemporaryDirectory() as target:
        before = _cpu_seconds()
        subprocess.run([sys.executable, "-c", code, target, str(MOST_PAGES), *map(str, files)], check=True)
        return sum(1 for _ in Path(target).rglob("*.jpg")) / (_cpu_seconds() - before)


def _cpu_seconds() -> float:
    """Of all processes started from here that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pdfs", type=Path, default=PDFS)
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    show(main(arguments.pdfs, arguments.runs))
