"""Draws the picture of the README: a question, the page found, the crop, the answer.

    python tools/make_pictures.py

Everything in it comes from a real run over the sample documents.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from vrag.agent.runs.run_result import RunResult
from vrag.factory.indexing import open_for_adding
from vrag.factory.session import Session, open_session
from vrag.index.build import add
from vrag.samples import corpus_dir
from vrag.settings import load_settings

TARGET = Path(__file__).parents[1] / "docs" / "images" / "ask.png"
QUESTION = "How many passengers travelled on the line from Orla to Saltby in 2024?"
SIZE, MARGIN = (1600, 960), 60
PAPER, INK, SOFT, ACCENT = "#f6f5f1", "#1d2530", "#69727d", "#d9480f"


def main() -> None:
    """Runs the sample question and draws what came of it."""
    with tempfile.TemporaryDirectory() as directory:
        report = load_settings(collection=Path(directory) / "collection")
        collection, options, _ = open_for_adding(report)
        add(collection, [corpus_dir()], options)
        bench = open_session(report.settings)
        picture = draw(bench, bench.agent().run(QUESTION))
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    picture.quantize(128).save(TARGET, optimize=True)


def draw(bench: Session, run: RunResult) -> Image.Image:
    """The page with its rectangle to the left; question, crop, answer to the right."""
    canvas = Image.new("RGB", SIZE, PAPER)
    evidence = run.evidence[0]
    assert evidence.box is not None
    item = bench.collection.item(evidence.item)
    page = bench.collection.image(item.id)
    left, top, right, bottom = (
        side * extent for side, extent in zip(evidence.box, (*page.size, *page.size), strict=True)
    )
    crop = page.crop((int(left), int(top), int(right), int(bottom)))
    ImageDraw.Draw(page).rectangle((left, top, right, bottom), outline=ACCENT, width=8)
    height = 780
    page = page.resize((round(page.width * height / page.height), height), Image.Resampling.LANCZOS)
    canvas.paste(page, (MARGIN, MARGIN))
    ImageDraw.Draw(canvas).rectangle(
        (MARGIN, MARGIN, MARGIN + page.width, MARGIN + height), outline="#d5d2c8", width=2
    )
    _beside(canvas, 2 * MARGIN + page.width, run, crop, f"{item.document_name}, page {item.ordinal}")
    return canvas


def _beside(canvas: Image.Image, x: int, run: RunResult, crop: Image.Image, where: str) -> None:
    draw = ImageDraw.Draw(canvas)
    width = SIZE[0] - MARGIN - x
    y = _paragraph(draw, (x, MARGIN), run.question, 38, INK, width) + 20
    for step in run.steps:
        said = f"search: {step.query}" if step.query else "crop and enlarge" if step.crop else "answer"
        seen = ", ".join(f"{shown.document} p. {shown.page}" for shown in step.shown)
        text = f"{step.number}. {said}" + (f" → {seen}" if seen else "")
        y = _paragraph(draw, (x, y), text, 20, SOFT, width) + 6
    y += 24
    crop = crop.resize((width, round(crop.height * width / crop.width)), Image.Resampling.LANCZOS)
    canvas.paste(crop, (x, y))
    draw.rectangle((x - 3, y - 3, x + width + 3, y + crop.height + 3), outline=ACCENT, width=4)
    y = _paragraph(draw, (x, y + crop.height + 36), run.answer or "", 32, INK, width) + 10
    _paragraph(draw, (x, y), f"found in {where}", 20, SOFT, width)


def _paragraph(
    draw: ImageDraw.ImageDraw, at: tuple[int, int], text: str, size: int, fill: str, width: int
) -> int:
    """Writes wrapped text and returns where the next line begins."""
    font = ImageFont.truetype("DejaVuSans.ttf", size)
    x, y = at
    line = ""
    for word in [*text.split(), ""]:
        longer = f"{line} {word}".strip()
        if word and draw.textlength(longer, font) <= width:
            line = longer
            continue
        draw.text((x, y), line, fill=fill, font=font)
        y += round(size * 1.35)
        line = word
    return y


if __name__ == "__main__":
    main()
