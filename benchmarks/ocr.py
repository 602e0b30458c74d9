# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Pages read by OCR per CPU second, and the words found, beside rapidocr with its defaults.

The same models and pictures; theirs is asked for word boxes too, since ours gives them. Half of the
pages have no text layer (slides); the other half has one, which says what there is to find.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.table import Comparison, compared, show
from vrag.corpus.formats.pdf import read_layer
from vrag.corpus.formats.pdfium import Pdf
from vrag.corpus.pages.page_pass import read_picture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from PIL.Image import Image

PDFS = Path(__file__).resolve().parents[2] / "shared" / "data" / "mmlongbench-dev" / "pdf"
RUNS = 1
PAGES = 10
"""Of each kind."""


def main(pdfs: Path = PDFS, runs: int = RUNS, pages: int = PAGES) -> list[Comparison]:
    """Reads the same pages with both, in turn."""
    if not pdfs.is_dir():
        print(f"ocr: skipped, there is no folder {pdfs}")
        return []
    found = list(_pages(pdfs))
    rows: list[Comparison] = []
    readers: tuple[Callable[[Image], str], ...] = (_ours, _reader_with_defaults())
    for kind, bare in (("slides without text layer", True), ("dense pages", False)):
        chosen = [page for page in found if (not page[1]) == bare]
        chosen = [chosen[index * len(chosen) // pages] for index in range(min(pages, len(chosen)))]
        drawn = [(_draw(*where), text) for where, text in chosen]
        (ours, theirs), texts = _race(readers, [image for image, _ in drawn], runs)
        rows.append(compared(f"OCR of {kind}", ours, theirs, "pages per CPU second", runs))
        truth = [text for _, text in drawn] if not bare else texts[1]
        ours, theirs = (statistics.mean(map(_agreement, read, truth)) for read in texts)
        rows.append(compared(f"words right on {kind}", ours, theirs, _measure(bare), 1))
    return rows


def _measure(bare: bool) -> str:
    return "F1 against " + ("theirs" if bare else "the text layer")


def _race(
    readers: tuple[Callable[[Image], str], ...], images: list[Image], runs: int
) -> tuple[list[float], list[list[str]]]:
    """Pages per CPU second of each reader (median), and what it read."""
    for reader in readers:
        reader(images[0])  # loads the models
    seconds: list[list[float]] = [[] for _ in readers]
    texts: list[list[str]] = [[] for _ in readers]
    for _ in range(runs):
        totals = [0.0] * len(readers)
        texts = [[] for _ in readers]
        for image in images:
            for number, reader in enumerate(readers):
                begun = time.process_time()
                texts[number].append(reader(image))
                totals[number] += time.process_time() - begun
        for number, total in enumerate(totals):
            seconds[number].append(total)
    return [len(images) / statistics.median(measured) for measured in seconds], texts


def _ours(image: Image) -> str:
    return read_picture(image)[0]


def _reader_with_defaults() -> Callable[[Image], str]:
    from rapidocr import RapidOCR

    engine: Any = RapidOCR(params={"Global.log_level": "critical"})

    def read(image: Image) -> str:
        pixels = np.ascontiguousarray(np.asarray(image.convert("RGB"))[:, :, ::-1])
        return "\n".join(engine(pixels, return_word_box=True).txts or ())

    return read


def _pages(pdfs: Path) -> Iterator[tuple[tuple[Path, int], str]]:
    """Pages with no text at all or a lot of it: where they are, and their text."""
    for path in sorted(pdfs.glob("*.pdf")):
        pdf = Pdf(path)
        for ordinal in range(1, len(pdf) + 1):
            with pdf.page(ordinal) as page:
                text = read_layer(page).text
            if not text or len(text) > 2000:
                yield (path, ordinal), text
        pdf.close()


def _draw(path: Path, ordinal: int) -> Image:
    pdf = Pdf(path)
    with pdf.page(ordinal) as page:
        image = page.render(2.0)
    pdf.close()
    return image


def _agreement(read: str, truth: str) -> float:
    """F1 of the words in two texts, order apart."""
    first, second = (Counter(re.findall(r"\w+", text.lower())) for text in (read, truth))
    both = first.total() + second.total()
    return 2 * (first & second).total() / both if both else 1.0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pdfs", type=Path, default=PDFS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--pages", type=int, default=PAGES)
    arguments = parser.parse_args()
    show(main(arguments.pdfs, arguments.runs, arguments.pages))
