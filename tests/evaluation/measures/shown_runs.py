"""Runs that showed something, made by hand: what they were shown and cite is what these tests are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.agent.events import ImageShown, PassageShown, StopReason
from vrag.agent.evidence import Evidence
from vrag.agent.runs.run_result import RunResult, RunStep
from vrag.geometry import Box
from vrag.types import Case, Document, DocumentStatus, Hit, ItemKind, Region, item_id

if TYPE_CHECKING:
    from vrag.agent.evidence import BoxSides

FERRY, HARBOUR = "f" * 64, "0" * 64
"""Ids of two documents."""


def document(id: str, *names: str, items: int = 9) -> list[Document]:
    """The same bytes under each of these names."""
    return [
        Document(
            path=f"/docs/{name}",
            id=id,
            name=name,
            size=1,
            mtime_ns=1,
            status=DocumentStatus.READY,
            items=items,
        )
        for name in names
    ]


def case(*pages: int, file: str = "ferry.pdf", regions: tuple[Region, ...] = ()) -> Case:
    return Case(
        uid="c",
        query="How many?",
        reference_answer="9",
        file_name=file,
        reference_page=pages,
        regions=regions,
    )


def region(page: int, x1: float, y1: float, x2: float, y2: float, document: str = "") -> Region:
    return Region(page, Box.unit(x1, y1, x2, y2), document)


def image(
    page: int,
    *,
    id: str = FERRY,
    name: str = "ferry.pdf",
    step: int = 1,
    crop: bool = False,
    box: BoxSides = (0, 0, 1, 1),
    seconds: float | None = None,
) -> ImageShown:
    return ImageShown(
        run_id="r",
        seq=0,
        ts=0.0,
        step=step,
        number=1,
        label="Image 1",
        item=item_id(id, page),
        document=name,
        page=page,
        seconds=seconds,
        region=(0, 0, 1, 1),
        box=box,
        width=28,
        height=28,
        visual_tokens=1,
        sha256="0",
        crop=crop,
    )


def passage(number: int, *, id: str, name: str, step: int = 1) -> PassageShown:
    return PassageShown(
        run_id="r", seq=0, ts=0.0, step=step, item=item_id(id, number), document=name, page=number
    )


def hit(number: int, *, id: str, name: str, kind: ItemKind) -> Hit:
    return Hit(item_id(id, number), 1.0, 1, id, name, number, kind)


def evidence(
    page: int,
    box: BoxSides | None = (0, 0, 1, 1),
    *,
    id: str = FERRY,
    name: str = "ferry.pdf",
    kind: ItemKind = ItemKind.PAGE,
) -> Evidence:
    return Evidence(item=item_id(id, page), document=name, document_id=id, page=page, kind=kind, box=box)


def run(
    *shown: ImageShown,
    hits: tuple[Hit, ...] = (),
    cites: tuple[Evidence, ...] = (),
    answer: str | None = "9",
    looks: tuple[Evidence, ...] = (),
    stop: StopReason | None = StopReason.ANSWERED,
) -> RunResult:
    """One search that showed these, a closer look at each of some places, and the end."""
    steps = [RunStep(number=1, query="ferry", hits=hits, shown=shown)]
    for number, place in enumerate(looks, 2):
        assert place.box is not None
        look = image(place.page, id=place.document_id, name=place.document, crop=True, box=place.box)
        steps.append(RunStep(number=number, crop=(0, 0, 28, 28), shown=(look,)))
    steps = (*steps, RunStep(number=len(steps) + 1))
    return RunResult(
        run_id="r", steps=steps, answer=answer, evidence=cites, cited=len(cites), stop_reason=stop
    )
