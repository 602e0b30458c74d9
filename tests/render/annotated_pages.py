# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""PDF files with annotated pages, drawn by PDFium and Poppler, and where their annotations must be seen."""

from __future__ import annotations

import io
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pikepdf
import pytest
from PIL import Image
from pypdfium2 import PdfDocument

from vrag.agent.budget import Limits
from vrag.agent.events import AnswerGiven, RunSettings, RunStarted, StopReason
from vrag.agent.evidence import BoxSides, Evidence, EvidenceMark
from vrag.agent.runs.run_store import RunStore, StoredRun
from vrag.reading.answer import MarkRole
from vrag.render.annotations import pdf_copy
from vrag.render.annotations.cited_place import CitedPlace
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.agent.answers.citation import CheckedClaim, Citation

    Mask = NDArray[np.bool_]

RENDERERS = [
    "pdfium",
    pytest.param(
        "poppler",
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(shutil.which("pdftoppm") is None, reason="pdftoppm is not installed"),
        ],
    ),
]
SCALE = 2
"""Pixels per point."""
TOLERANCE = 2
"""Pixels at an edge that may be drawn or not."""


def evidence_on(
    page: int = 1,
    box: BoxSides | None = (0.2, 0.3, 0.7, 0.5),
    marks: Sequence[BoxSides] = ((0.25, 0.35, 0.4, 0.38),),
    **values: Any,  # noqa: ANN401
) -> Evidence:
    """Evidence on a page of a report, with words of the answer."""
    fields: dict[str, Any] = {
        "document": "report.pdf",
        "document_id": "ab" * 32,
        "kind": ItemKind.PAGE,
        "quote": "1.2 %",
    }
    marked = tuple(EvidenceMark(role=MarkRole.ANSWER, box=mark) for mark in marks)
    return Evidence(item=f"{'ab' * 8}-{page}", page=page, box=box, marks=marked, **(fields | values))


def place_of(evidence: Evidence, number: str = "1", **values: Any) -> CitedPlace:  # noqa: ANN401
    """A place that an answer cites."""
    fields: dict[str, Any] = {
        "question": "What was the margin?",
        "answer": "It was 1.2 %.",
        "run": "20260301-101500-000000-beef",
        "asked": 1_772_360_100.0,
    }
    return CitedPlace(number=number, evidence=evidence, **(fields | values))


def pdf_file(
    pages: int = 1,
    *,
    media: Sequence[float] = (0, 0, 400, 600),
    encryption: pikepdf.Encryption | None = None,
    **entries: Any,  # noqa: ANN401
) -> bytes:
    """A PDF file of pages with lines of grey and black; `entries` are set on every page."""
    with pikepdf.new() as pdf:
        left, bottom, right, top = media
        for _ in range(pages):
            page = pdf.add_blank_page(page_size=(right - left, top - bottom))
            page.obj.MediaBox = pikepdf.Array(media)
            lines = (
                b"%.2f g %.1f %.1f %.1f 4 re f"
                % ((line % 3) / 4, left + 30, bottom + 20 + 14 * line, (right - left) * 0.7)
                for line in range(int((top - bottom - 40) / 14))
            )
            page.obj.Contents = pdf.make_stream(b"\n".join(lines))
            for name, value in entries.items():
                page.obj[f"/{name}"] = pikepdf.Array(value) if isinstance(value, list | tuple) else value
        saved = io.BytesIO()
        pdf.save(saved, encryption=encryption or False)
    return saved.getvalue()


def annotate(data: bytes, *places: CitedPlace) -> bytes:
    """The annotated copy of a PDF file."""
    target = io.BytesIO()
    pdf_copy.annotate_pdf(data, places, target)
    return target.getvalue()


def draw(data: bytes, page: int, renderer: str, folder: Path) -> NDArray[np.int16]:
    """A page as a renderer draws it, with its annotations, (height, width, 3)."""
    pdf = PdfDocument(data)
    drawn = pdf[page - 1].render(scale=SCALE, may_draw_forms=False).to_pil().convert("RGB")
    pdf.close()
    if renderer == "poppler":
        (folder / "drawn.pdf").write_bytes(data)
        options = f"-cropbox -r {72 * SCALE} -f {page} -l {page} -png"
        command = ["pdftoppm", *options.split(), "-singlefile", "drawn.pdf", "drawn"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        with Image.open(folder / "drawn.png") as image:
            drawn = image.convert("RGB")
    return np.asarray(drawn, np.int16)


def changed(before: NDArray[np.int16], after: NDArray[np.int16]) -> Mask:
    """Which pixels annotations have changed, (height, width)."""
    return np.abs(before - after).max(axis=2) > 24


def rectangle(shape: tuple[int, ...], box: Sequence[float], grow: float = 0.0) -> Mask:
    """The pixels of a box in fractions of a page, grown by pixels on each side."""
    height, width = shape[:2]
    x1, y1, x2, y2 = (side * length for side, length in zip(box, (width, height) * 2, strict=True))
    mask = np.zeros((height, width), bool)
    left, top = max(round(x1 - grow), 0), max(round(y1 - grow), 0)
    mask[top : max(round(y2 + grow), 0), left : max(round(x2 + grow), 0)] = True
    return mask


def expected(shape: tuple[int, ...], place: CitedPlace, shown: tuple[float, float]) -> tuple[Mask, Mask]:
    """The pixels that the frame must change, and those that frame and words may change.

    The frame lies outside of the rectangle, as wide as `pdf_copy.LINE_WIDTH` says for a page of this size
    in points.
    """
    scale = min(max(min(shown) / pdf_copy.USUAL_SIDE, pdf_copy.MIN_SCALE), pdf_copy.MAX_SCALE)
    line = pdf_copy.LINE_WIDTH * scale * shape[1] / shown[0]
    box = place.evidence.box
    assert box is not None
    must = rectangle(shape, box, line - 0.5) & ~rectangle(shape, box, 0.5)
    may = rectangle(shape, box, line + TOLERANCE) & ~rectangle(shape, box, -TOLERANCE)
    for mark in place.evidence.marks:
        may |= rectangle(shape, mark.box, TOLERANCE)
    return must, may


def stored_run(
    directory: Path,
    answer: str | None,
    evidence: Sequence[Evidence],
    *,
    citations: Sequence[Citation] = (),
    claims: Sequence[CheckedClaim] = (),
    withdrawn: str | None = None,
    reselect: bool = False,
) -> StoredRun:
    """A run of VRAG that gives an answer with evidence, all of which counts with `reselect`."""
    settings = RunSettings(
        agent="vrag", policy="scripted", profile="qwen2.5-vl", limits=Limits(steps=10), reselect=reselect
    )
    common: dict[str, Any] = {"run_id": "20260301-101500-000000-beef", "ts": 1_772_360_100.0, "step": 0}
    events = (
        RunStarted(seq=0, question="What was the margin?", settings=settings, collection="v1", **common),
        AnswerGiven(
            seq=1,
            text=answer,
            evidence=tuple(evidence),
            citations=tuple(citations),
            claims=tuple(claims),
            withdrawn=withdrawn,
            stop_reason=StopReason.ABSTAINED if answer is None else StopReason.ANSWERED,
            **common,
        ),
    )
    return StoredRun(common["run_id"], RunStore(directory), events)
