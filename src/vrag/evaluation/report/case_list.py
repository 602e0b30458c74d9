"""The list of cases of a report: each question with what came of it, in one run or in two."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vrag.agent.runs.run_result import RunResult
from vrag.errors import VragError
from vrag.evaluation.record import CaseOutcome
from vrag.evaluation.report.steps import cut, summarize_steps
from vrag.render.text_format import STOPS, moment
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence
    from pathlib import Path

    from PIL.Image import Image

    from vrag.agent.events import ImageShown
    from vrag.agent.evidence import BoxSides
    from vrag.agent.runs.run_store import RunStore, StoredRun
    from vrag.evaluation.record import CaseRecord, EvidencePlace, Subject
    from vrag.evaluation.report.steps import StepSummary
    from vrag.evaluation.report.thumbnails import Thumbnails

    Source = tuple[Hashable, Callable[[], Image | None]]
    """What a picture is known by, and what draws it."""

__all__ = [
    "CaseBox",
    "CaseClip",
    "CaseEntry",
    "Side",
    "Thumbnail",
    "ThumbnailSource",
    "cell_of",
    "entries_of",
    "opened",
    "pairs_of",
]

_RUN = re.compile(r"[0-9a-f-]{1,40}")
_HASH = re.compile(r"[0-9a-f]{64}")
_FIGURES = 4
"""Pages of a case that are shown: those of evidence, then those of gold."""
_ANSWER, _WHY = 4000, 1200
"""Characters of an answer and of a reason after which they are cut."""
_STOPS = {str(reason): name for reason, (name, _) in STOPS.items()}


@dataclass(frozen=True, slots=True)
class Side:
    """What one run made of a question."""

    record: CaseRecord
    walk: tuple[StepSummary, ...] = ()
    """Its steps; none where the run could not be read."""

    def as_dict(self) -> dict[str, Any]:
        """What the page is made of."""
        record = self.record
        known = record.run is not None and _RUN.fullmatch(record.run) is not None
        return {
            "outcome": record.outcome.value,
            "why": cut(record.why, _WHY),
            "judge": record.judge,
            "answer": None if record.answer is None else cut(record.answer, _ANSWER),
            "extracted": _extracted(record),
            "stop": _STOPS.get(record.stop or "", record.stop or ""),
            "run": record.run if known else None,
            "measures": {name: round(value, 6) for name, value in record.measures.items()},
            "steps": [stride.as_dict() for stride in self.walk],
        }


@dataclass(frozen=True, slots=True)
class CaseBox:
    """A rectangle over a page."""

    kind: str
    """`a` or `b`: predicted by that run; `gold`."""
    sides: BoxSides
    """Fractions of the page."""


@dataclass(frozen=True, slots=True)
class CaseClip:
    """A stretch of a video that an answer rests on, and the frame that the model was shown of it."""

    told: str
    """From when to when."""
    frame: Source | None
    """None where the run keeps none."""


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A page of a case, or a clip, with what was predicted on it and what is gold."""

    document: str
    page: int
    """From 1; of a clip its number."""
    picture: int | None
    """Number of its picture; None where there is none."""
    boxes: tuple[CaseBox, ...]
    whole: tuple[str, ...] = ()
    """Who names the page as a whole, without a rectangle; as the kinds of boxes."""
    clip: CaseClip | None = None
    """None of what is no video."""

    @property
    def predicted(self) -> bool:
        """Whether evidence of an answer is on it."""
        return any(kind != "gold" for kind in (*self.whole, *(box.kind for box in self.boxes)))

    def as_dict(self) -> dict[str, Any]:
        """What the page is made of."""
        return {
            "document": self.document,
            "page": self.page,
            "when": None if self.clip is None else self.clip.told,
            "picture": self.picture,
            "boxes": [[box.kind, *(round(side, 4) for side in box.sides)] for box in self.boxes],
            "whole": self.whole,
        }


@dataclass(frozen=True, slots=True)
class CaseEntry:
    """A question of the list."""

    sides: tuple[Side, ...]
    """One of an evaluation, two of a comparison: A and B."""
    sights: tuple[Thumbnail, ...]

    @property
    def subject(self) -> Subject:
        """The question."""
        return self.sides[0].record.subject

    @property
    def cell(self) -> str | None:
        """What both made of it; None of a single run, or without two verdicts."""
        return cell_of(*(side.record.outcome for side in self.sides)) if len(self.sides) == 2 else None

    def as_dict(self) -> dict[str, Any]:
        """What the page is made of."""
        subject, sample = self.subject, self.sides[0].record.sample
        return {
            "id": f"{subject.benchmark}/{subject.uid}" + (f"/{sample}" if sample else ""),
            "question": cut(subject.question, _ANSWER),
            "gold": [cut(reference, _WHY) for reference in subject.references[:12]],
            "moments": ["–".join(map(moment, span)) for span in subject.spans],
            "answerable": subject.answerable,
            "document": subject.document,
            "benchmark": subject.benchmark,
            "source_type": subject.source_type,
            "query_type": subject.query_type,
            "document_type": subject.document_type,
            "cell": self.cell,
            "sides": [side.as_dict() for side in self.sides],
            "sights": [thumbnail.as_dict() for thumbnail in self.sights],
        }


def cell_of(a: CaseOutcome, b: CaseOutcome) -> str | None:
    """What two runs made of a question: `both`, `a`, `b` or `neither` right; None without two verdicts."""
    if CaseOutcome.UNJUDGED in {a, b}:
        return None
    if a is CaseOutcome.RIGHT:
        return "both" if b is CaseOutcome.RIGHT else "a"
    return "b" if b is CaseOutcome.RIGHT else "neither"


@dataclass
class ThumbnailSource:
    """Where steps and pictures come from."""

    thumbnails: Thumbnails
    page_image: Callable[[str, int], Image | None] | None = None
    """Gives the picture of a page of a document; asked for what no run was shown."""
    _shown: dict[tuple[str, int], Callable[[], Image]] = field(
        default_factory=dict[tuple[str, int], "Callable[[], Image]"]
    )
    _clips: dict[tuple[str, str, int], CaseClip] = field(default_factory=dict[tuple[str, str, int], CaseClip])
    _names: dict[tuple[str, int], tuple[str, int]] = field(
        default_factory=dict[tuple[str, int], tuple[str, int]]
    )
    """Pages by what records call them, where runs call them otherwise."""

    def walk(self, record: CaseRecord, runs: RunStore | None) -> tuple[StepSummary, ...]:
        """The steps of a run; none where it is not there or damaged. Remembers what pages look like."""
        if runs is None or record.run is None:
            return ()
        try:
            stored = runs.read(record.run)
            run = RunResult.of(stored.events)
        except (VragError, OSError, ValueError):
            return ()
        remembers = stored.started.settings.memory is not None
        self._remember_evidence(record, run, stored)
        for shown in (shown for step in run.steps for shown in step.shown):
            if not shown.crop and shown.seconds is None and _HASH.fullmatch(shown.sha256):
                margin = _content(shown) if remembers else None
                read = partial(opened, stored.file(shown.sha256), margin)
                self._shown.setdefault((shown.document, shown.page), read)
        return summarize_steps(run)

    def clip(self, record: CaseRecord, document: str, page: int) -> CaseClip | None:
        """The clip that the evidence of a record names so; None of what is no clip."""
        return self._clips.get((record.run or "", document, page))

    def pictured(self, thumbnail: Thumbnail) -> Thumbnail:
        """The same with its picture, where there is one and room for it."""
        if self.thumbnails.evidence_only and not thumbnail.predicted:
            return thumbnail
        clip = thumbnail.clip
        source = self._source(thumbnail.document, thumbnail.page) if clip is None else clip.frame
        return thumbnail if source is None else replace(thumbnail, picture=self.thumbnails.number(*source))

    def _remember_evidence(self, record: CaseRecord, run: RunResult, stored: StoredRun) -> None:
        """Frames of clips, and pages under the names that records have for their documents."""
        whole = {shown.item: shown.sha256 for step in run.steps for shown in step.shown if not shown.crop}
        for place, one in zip(record.evidence, run.evidence, strict=False):
            if one.kind is ItemKind.CLIP and one.seconds is not None:
                frame = (one.crop_sha256 if place.box is None else whole.get(one.item)) or ""
                known = (frame, partial(opened, stored.file(frame), None)) if _HASH.fullmatch(frame) else None
                clip = CaseClip("–".join(dict.fromkeys(map(moment, one.seconds))), known)
                self._clips.setdefault((record.run or "", place.document, place.page), clip)
            elif place.document != one.document:
                self._names[place.document, place.page] = (one.document, one.page)

    def _source(self, document: str, page: int) -> Source | None:
        """What a page is known by, and what draws it; None where nothing does."""
        place = (document, page)
        shown = self._shown.get(place) or self._shown.get(self._names.get(place, place))
        if shown is not None:
            return place, shown
        return None if self.page_image is None else (place, partial(self.page_image, *place))


def entries_of(
    records: Sequence[CaseRecord], thumbnail_source: ThumbnailSource, runs: RunStore | None
) -> tuple[CaseEntry, ...]:
    """The list of one evaluation, in the order of its records."""
    return _entries([(record,) for record in records], thumbnail_source, (runs,))


def pairs_of(
    a: Sequence[CaseRecord],
    b: Sequence[CaseRecord],
    thumbnail_source: ThumbnailSource,
    runs: tuple[RunStore | None, RunStore | None],
) -> tuple[CaseEntry, ...]:
    """The list of a comparison: the questions that both have, in the order of A."""
    others = {record.key: record for record in b}
    return _entries(
        [(record, others[record.key]) for record in a if record.key in others], thumbnail_source, runs
    )


def _entries(
    rows: Sequence[tuple[CaseRecord, ...]],
    thumbnail_source: ThumbnailSource,
    stores: Sequence[RunStore | None],
) -> tuple[CaseEntry, ...]:
    sides = [
        tuple(
            Side(record, thumbnail_source.walk(record, store))
            for record, store in zip(row, stores, strict=True)
        )
        for row in rows
    ]
    sights = [_sights(row, thumbnail_source) for row in rows]
    for rank in range(_FIGURES):  # the first page of every case before the second of any: room may run out
        for found in sights:
            if rank < len(found):
                found[rank] = thumbnail_source.pictured(found[rank])
    return tuple(CaseEntry(row, tuple(found)) for row, found in zip(sides, sights, strict=True))


def _sights(row: tuple[CaseRecord, ...], thumbnail_source: ThumbnailSource) -> list[Thumbnail]:
    """The pages of a case without their pictures: the first of the evidence, those of gold, all others."""
    evidence = [(kind, one) for kind, record in zip("ab", row, strict=False) for one in record.evidence]
    first = [(kind, record.evidence[0]) for kind, record in zip("ab", row, strict=False) if record.evidence]
    gold = [("gold", one) for one in row[0].subject.gold]
    pages: dict[tuple[str, int], list[tuple[str, EvidencePlace]]] = {
        (one.document, one.page): [] for _, one in (*first, *gold, *evidence)
    }
    for kind, one in (*evidence, *gold):
        pages[one.document, one.page].append((kind, one))
    clips = {
        key: next((clip for record in row if (clip := thumbnail_source.clip(record, *key)) is not None), None)
        for key in pages
    }
    return [replace(_build_thumbnail(key, found), clip=clips[key]) for key, found in pages.items()][:_FIGURES]


def _build_thumbnail(key: tuple[str, int], found: Iterable[tuple[str, EvidencePlace]]) -> Thumbnail:
    boxes: list[CaseBox] = []
    whole: dict[str, None] = {}
    for kind, place in found:
        if place.box is None or not all(map(math.isfinite, place.box)):
            whole[kind] = None
        else:
            boxes.append(CaseBox(kind, _within(place.box)))
    return Thumbnail(*key, None, tuple(dict.fromkeys(boxes)), tuple(whole))


def _within(box: BoxSides) -> BoxSides:
    x1, y1, x2, y2 = (min(max(side, 0.0), 1.0) for side in box)
    return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)


def _extracted(record: CaseRecord) -> str | None:
    """What rules compared in place of the answer; None where that itself was compared."""
    found = record.extracted
    if found is None:
        return None
    return cut(f"none: {found.why}" if found.answer is None else found.answer, _ANSWER)


def opened(path: Path, margin: tuple[int, int] | None) -> Image:
    """A picture that a model was shown.

    Args:
        path: Its file.
        margin: Width and height, in pixels, of what is no margin; None where there is none.
    """
    from PIL import Image

    with Image.open(path, formats=("JPEG",)) as image:
        image.load()
        return image.copy() if margin is None else image.crop((0, 0, margin[0], margin[1]))


def _content(shown: ImageShown) -> tuple[int, int] | None:
    """Memory never enlarges pages: one that is smaller than its picture stands in its left upper corner."""
    width, height = shown.region[2] - shown.region[0], shown.region[3] - shown.region[1]
    fits = 1 <= width <= shown.width and 1 <= height <= shown.height
    return (round(width), round(height)) if fits else None
