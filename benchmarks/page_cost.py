"""Processor time to make the item of a PDF page, without OCR: real pages, and dense ones made here.

`python -m benchmarks.page_cost [PDF ...]` prints a line for each made page and each file: seconds for a page
of 40,000 words, of pieces in no order, of words with rules through them or turned, and of 150,000 lines;
milliseconds a page for pages 2 to 9 of files. Each figure is the shortest of some runs in this process, the
least disturbed one. Figures of another version are had by running this in a copy of that version.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.pdf import PdfFile

if TYPE_CHECKING:
    from collections.abc import Callable

PDFS = Path(__file__).resolve().parents[2] / "shared" / "data" / "mmlongbench-dev" / "pdf"
RUNS = 3
FIRST, LAST = 2, 9
"""Pages of a file that are measured."""


def words(chance: random.Random) -> str:
    """40,000 words of two points in lines of 120."""
    lines = (" ".join(_word(chance) for _ in range(120)) for _ in range(333))
    return "BT /F 2 Tf 2.2 TL 20 780 Td\n" + "\n".join(f"({line}) Tj T*" for line in lines) + " ET"


def pieces(chance: random.Random) -> str:
    """20,000 words drawn one by one, in no order."""
    places = [(10 + 8 * (number % 120), 10 + 4.6 * (number // 120)) for number in range(20_000)]
    chance.shuffle(places)
    return "\n".join(f"BT /F 4 Tf {x} {y:.1f} Td ({_word(chance)[:2]}) Tj ET" for x, y in places)


def rules(chance: random.Random) -> str:
    """20,000 words with a rule through each tenth of them."""
    drawn = [
        f"BT /F 4 Tf 10 {10 + 4.6 * line:.1f} Td ({' '.join(_word(chance) for _ in range(120))}) Tj ET"
        for line in range(166)
    ]
    drawn += [f"{10 + 80 * at} {11.2 + 4.6 * line:.1f} 40 .3 re f" for line in range(166) for at in range(12)]
    return "\n".join(drawn)


def turned(chance: random.Random) -> str:
    """10,000 words of which every second one runs up."""
    drawn: list[str] = []
    for number in range(10_000):
        matrix = "0 1 -1 0" if number % 2 else "1 0 0 1"
        x, y = 10 + 9.8 * (number % 100), 10 + 7.6 * (number // 100)
        drawn.append(f"BT /F 3 Tf {matrix} {x:.1f} {y:.1f} Tm ({_word(chance)[:3]}) Tj ET")
    return "\n".join(drawn)


def lines(chance: random.Random) -> str:
    """A drawing of 150,000 lines across the page."""
    ends = [(chance.uniform(0, 1000), chance.uniform(0, 792)) for _ in range(300_000)]
    pairs = zip(ends[::2], ends[1::2], strict=True)
    return "0.2 w\n" + "\n".join(f"{a:.1f} {b:.1f} m {c:.1f} {d:.1f} l S" for (a, b), (c, d) in pairs)


MADE: dict[str, Callable[[random.Random], str]] = {
    "40,000 words": words,
    "20,000 pieces in no order": pieces,
    "20,000 words and 1,992 rules": rules,
    "10,000 words, half of them turned": turned,
    "150,000 lines": lines,
}


def main(pdfs: list[Path], runs: int = RUNS) -> None:
    """Prints the time of the made pages and of the files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, draw in MADE.items():
            path = folder / "made.pdf"
            path.write_bytes(one_page(draw(random.Random(0))))
            print(f"{title:40} {measure(path, folder, 1, 1, runs):9.2f} s", flush=True)
        for path in pdfs:
            seconds = measure(path, folder, FIRST, LAST, runs)
            print(f"{path.name[:40]:40} {1000 * seconds:9.1f} ms a page", flush=True)


def measure(path: Path, folder: Path, first: int, last: int, runs: int) -> float:
    """Seconds of processor time for a page of a file, on average, each in its shortest run."""
    context = ConversionContext(folder, CorpusOptions(ocr="never"))
    with PdfFile(read_source(path), context) as file:
        numbers = range(min(first, file.count), min(last, file.count) + 1)
        return sum(min(_seconds(file, number) for _ in range(runs)) for number in numbers) / len(numbers)


def _seconds(file: PdfFile, number: int) -> float:
    begun = time.process_time()
    file.item(number)
    return time.process_time() - begun


def _word(chance: random.Random) -> str:
    return "".join(chance.choices("etaoinsrhldcum", k=chance.randint(2, 7)))


def one_page(content: str) -> bytes:
    """A PDF file of one page, without a table of its objects, which readers make themselves."""
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
    page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 1000 792] /Contents 5 0 R"
    bodies = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"{page} /Resources << /Font << /F 4 0 R >> >> >>",
        font,
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
    )
    objects = "".join(f"{number} 0 obj\n{body}\nendobj\n" for number, body in enumerate(bodies, 1))
    return f"%PDF-1.7\n{objects}trailer\n<< /Size 6 /Root 1 0 R >>\n%%EOF\n".encode()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure the processor time of PDF pages without OCR.")
    parser.add_argument("pdfs", nargs="*", type=Path, metavar="PDF", help=f"default: those in {PDFS}, if any")
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    main(arguments.pdfs or sorted(PDFS.glob("*.pdf")), arguments.runs)
