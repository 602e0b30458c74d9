"""Makes the sample corpus and its questions: `python tools/make_samples.py [--out DIR]`.

Page sources are HTML in `sample_sources/pages`; Chromium lays them out and prints them, so that the
gold box of a question is the rectangle of the element marked `data-gold="<uid>"`, not a rectangle
drawn by eye. The scan and the photographs are screenshots that pass through `effects`; their boxes
go the same way.

Needed besides the development environment, on Debian: chromium, fonts-lato, fonts-vollkorn,
fonts-courier-prime, fonts-league-spartan, fonts-lxgw-wenkai (all fonts under the SIL Open Font
License). Not run in CI: the results are committed. The same versions give the same bytes.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import struct_time
from typing import Any

from PIL import Image
from sample_sources.charts import CHARTS
from sample_sources.effects import UnitBox, photographed, scanned, turned_box

SOURCES = Path(__file__).parent / "sample_sources"
PAGES = SOURCES / "pages"
DEFAULT_OUT = Path(__file__).parents[1] / "src" / "vrag" / "samples"
FONTS = ("Lato", "Vollkorn", "Courier Prime", "League Spartan", "LXGW WenKai")
MADE = struct_time((2025, 2, 3, 9, 0, 0, 0, 34, 0))
"""The date every document carries, so that two builds are equal."""
SCAN_DEGREES = -0.9

FILES = {
    "report": "annual-report-2024.pdf",
    "deck": "guillemot-slides.pdf",
    "letter": "letter-1974.pdf",
    "board": "price-board.jpg",
    "guide": "passenger-guide-zh.pdf",
}
"""File name of each page source in the corpus."""

MEASURE = """
<script>
addEventListener("load", () => {
  const pages = [...document.querySelectorAll(".page")];
  const golds = [...document.querySelectorAll("[data-gold]")].map(element => {
    const page = element.closest(".page"), outer = page.getBoundingClientRect();
    const range = document.createRange();
    range.selectNodeContents(element);
    const parts = element.ownerSVGElement ? [element.getBoundingClientRect()] : [...range.getClientRects()];
    const part = f => (g => Math[f](...parts.map(g)));
    const unit = (value, start, length) => (value - start) / length;
    return {
      uid: element.dataset.gold, page: pages.indexOf(page) + 1,
      box: [unit(part("min")(r => r.left), outer.left, outer.width),
            unit(part("min")(r => r.top), outer.top, outer.height),
            unit(part("max")(r => r.right), outer.left, outer.width),
            unit(part("max")(r => r.bottom), outer.top, outer.height)],
    };
  });
  const output = document.createElement("pre");
  output.id = "golds";
  output.textContent = JSON.stringify(golds);
  document.body.append(output);
});
</script>
"""


@dataclass(frozen=True, slots=True)
class Gold:
    """Where the answer to a question stands."""

    uid: str
    page: int
    box: UnitBox


class Browser:
    """Headless Chromium, one process per call."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._program = _required_program()

    def source(self, name: str, *, measure: bool = False) -> Path:
        """The expanded page source, written where its pictures are found beside it."""
        text = (PAGES / f"{name}.html").read_text(encoding="utf-8")
        text = re.sub(r"/\*include:(\S+)\*/", lambda m: (PAGES / m[1]).read_text(encoding="utf-8"), text)
        text = re.sub(r"<!--chart:(\w+)-->", lambda m: CHARTS[m[1]], text)
        path = self._scratch / f"{name}.html"
        script = MEASURE if measure else ""
        path.write_text(text.replace("</body>", script + "</body>"), encoding="utf-8")
        return path

    def golds(self, name: str) -> list[Gold]:
        """The marked elements of a page source, as laid out."""
        dom = self._run("--window-size=1400,1200", "--dump-dom", self.source(name, measure=True).as_uri())
        found = re.search(r'<pre id="golds">(.*?)</pre>', dom, re.DOTALL)
        if found is None:
            raise RuntimeError(f"{name}: the layout was not measured")
        return [Gold(g["uid"], g["page"], tuple(g["box"])) for g in json.loads(html.unescape(found[1]))]

    def printed(self, name: str, path: Path) -> None:
        """Prints a page source as a PDF with a text layer and subset fonts."""
        self._run("--no-pdf-header-footer", f"--print-to-pdf={path}", self.source(name).as_uri())
        path.write_bytes(_dated(path.read_bytes()))

    def shot(self, name: str, size: tuple[int, int], scale: float) -> Image.Image:
        """A screenshot of the first `size` CSS pixels of a page source."""
        path = self._scratch / f"{name}.png"
        window = f"--window-size={size[0]},{size[1] + 200}"
        self._run(
            f"--force-device-scale-factor={scale}", window, f"--screenshot={path}", self.source(name).as_uri()
        )
        with Image.open(path) as image:
            return image.convert("RGB").crop((0, 0, round(size[0] * scale), round(size[1] * scale)))

    def _run(self, *arguments: str) -> str:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        fixed = ["--headless", "--disable-gpu", "--hide-scrollbars", "--disable-pdf-tagging", "--lang=en"]
        command = [
            self._program,
            *sandbox,
            *fixed,
            f"--user-data-dir={self._scratch / 'profile'}",
            *arguments,
        ]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def _required_program() -> str:
    """Path of Chromium, after a look whether the fonts are there.

    Raises:
        RuntimeError: If something is missing.
    """
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    fc_list = shutil.which("fc-list")
    if program is None or fc_list is None:
        raise RuntimeError("chromium and fontconfig are needed; see the top of this file")
    families = subprocess.run([fc_list, ":", "family"], check=True, capture_output=True, text=True).stdout
    missing = [font for font in FONTS if font not in families]
    if missing:
        raise RuntimeError(f"fonts are missing: {', '.join(missing)}; see the top of this file")
    return program


def _dated(pdf: bytes) -> bytes:
    """The PDF with fixed dates; lengths are kept, so that offsets stay right."""
    fixed = b"D:20250203090000+00'00'"
    return re.sub(rb"(?<=Date \()D:[^)]{21}(?=\))", fixed, pdf)


def make_corpus(browser: Browser, scratch: Path, corpus: Path) -> dict[str, list[Gold]]:
    """Writes every file of the corpus.

    Returns:
        The gold boxes per page source, in fractions of the page as shipped.
    """
    flipchart = photographed(browser.shot("flipchart", (1280, 720), 1.0), seed=3, depth=0.25, noise=2.0)
    flipchart.save(scratch / "flipchart.jpg", quality=72, optimize=True)
    browser.printed("report", corpus / FILES["report"])
    browser.printed("deck", corpus / FILES["deck"])
    browser.printed("guide-zh", corpus / FILES["guide"])
    shutil.copyfile(PAGES / "notes-for-crews.md", corpus / "notes-for-crews.md")

    board = photographed(browser.shot("board", (1280, 960), 1.0), seed=5)
    board.save(corpus / FILES["board"], quality=74, optimize=True)
    letter = scanned(browser.shot("letter", (794, 1123), 1.6), SCAN_DEGREES, seed=1974)
    letter.save(
        corpus / FILES["letter"],
        quality=48,
        resolution=153.6,
        title="",
        producer="",
        creationDate=MADE,
        modDate=MADE,
    )
    slide = [Gold(gold.uid, 5, gold.box) for gold in browser.golds("flipchart")]
    scan = [
        Gold(g.uid, g.page, turned_box(g.box, letter.size, SCAN_DEGREES)) for g in browser.golds("letter")
    ]
    return {
        "report": browser.golds("report"),
        "deck": browser.golds("deck") + slide,
        "letter": scan,
        "board": browser.golds("board"),
        "guide": browser.golds("guide-zh"),
    }


def examples(golds: dict[str, list[Gold]]) -> list[dict[str, Any]]:
    """The questions with their gold pages and boxes, in the seeds' dataset format.

    Raises:
        ValueError: If marks and questions do not match.
    """
    questions: list[dict[str, Any]] = json.loads((SOURCES / "questions.json").read_text(encoding="utf-8"))
    marked = {gold.uid for found in golds.values() for gold in found}
    asked = {question["uid"] for question in questions if question["query_type"] != "Unanswerable"}
    if marked != asked:
        raise ValueError(f"marks without question or questions without mark: {sorted(marked ^ asked)}")
    return [_example(q, [g for g in golds[q["document"]] if g.uid == q["uid"]]) for q in questions]


def _example(question: dict[str, Any], golds: list[Gold]) -> dict[str, Any]:
    return {
        "uid": question["uid"],
        "query": question["query"],
        "reference_answer": question["reference_answer"],
        "meta_info": {
            "file_name": FILES[question["document"]],
            "reference_page": sorted({gold.page for gold in golds}),
            "source_type": question["source_type"],
            "query_type": question["query_type"],
        },
        "regions": [{"page": gold.page, "box": [round(value, 4) for value in gold.box]} for gold in golds],
    }


def _as_text(rows: list[dict[str, Any]]) -> str:
    """One example per line, so that a difference can be read."""
    lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
    return f'{{"examples": [\n{lines}\n]}}\n'


def main() -> None:
    """Makes everything anew."""
    parser = argparse.ArgumentParser(description="Makes the sample corpus.")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder for corpus/ and questions.json")
    out: Path = parser.parse_args().out
    corpus = out / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        golds = make_corpus(Browser(scratch), scratch, corpus)
    (out / "questions.json").write_text(_as_text(examples(golds)), encoding="utf-8")


if __name__ == "__main__":
    main()
