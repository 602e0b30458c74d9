"""Cases of a report: each question with its outcome, steps and evidence, in one run or in two."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vrag.agent.runs.run_result import RunResult
from vrag.errors import VragError
from vrag.evaluation.record import CaseOutcome
from vrag.render.answer_html import AnswerElement, answer_elements
from vrag.render.answer_markdown import SignedAnswer, clean
from vrag.render.text_format import STOPS, moment
from vrag.render.text_format import place as place_text
from vrag.reward.parts import answer_of
from vrag.text.numerals import count
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from PIL.Image import Image

    from vrag.agent.evidence import BoxSides
    from vrag.agent.runs.run_result import RunStep
    from vrag.agent.runs.run_store import RunStore, StoredRun
    from vrag.evaluation.record import CaseRecord, EvidencePlace, Subject
    from vrag.evaluation.report.images import Thumbnails

    Source = tuple[Hashable, Callable[[], Image | None]]
    """Key of an image, and the function that draws it."""

THOUGHT = 10_000
"""Characters of a thought: a longer one is cut, as the run has all of it."""
_MAX_LINE, _MAX_ANSWER, _MAX_REASON = 2000, 4000, 1200
"""Characters of other texts of a step, of an answer and of a reason."""
_MAX_SEEN = 12
"""Images of a step that are named; the others are counted."""
_MAX_THUMBNAILS = 4
"""Pages of a case that are shown: those of evidence, then those of gold."""
_RUN = re.compile(r"[0-9a-f-]{1,40}")
_HASH = re.compile(r"[0-9a-f]{64}")
_STOP_NAMES = {str(reason): name for reason, (name, _) in STOPS.items()}


def cut(text: str, most: int = _MAX_LINE) -> str:
    """Return a text of bounded length."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


@dataclass(frozen=True, slots=True)
class StepSummary:
    """One step of an agent in the few words that a list of cases has room for."""

    number: int
    thought: str
    acts: tuple[tuple[str, str], ...]
    """Actions: `search`, `crop`, `tool`, `fault` or `answer`, each with its text."""
    seen: tuple[str, ...]
    """Images that the model was shown: document and page."""

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the step, which the script of the page reads."""
        return {
            "n": self.number,
            "thought": self.thought,
            "acts": list(map(list, self.acts)),
            "seen": self.seen,
        }


def summarize_steps(run: RunResult) -> tuple[StepSummary, ...]:
    """Summarize the steps of a run; its last one answers, or abstains, if the run did."""
    steps: list[StepSummary] = []
    for step in run.steps:
        names: dict[str, None] = {}
        for image in step.shown:
            where = f"page {image.page}" if image.seconds is None else moment(image.seconds)
            names[f"{image.document}, {where}{', closer' if image.crop else ''}"] = None
        seen, more = list(names)[:_MAX_SEEN], len(names) - _MAX_SEEN
        seen += [f"and {count(more, 'picture')} more"] if more > 0 else []
        thought = cut(step.thought or "", THOUGHT)
        steps.append(StepSummary(step.number, thought, tuple(_actions(step)), tuple(seen)))
    answer = answer_of(run)
    if steps and answer is not None:
        steps[-1] = replace(steps[-1], acts=(*steps[-1].acts, ("answer", cut(answer, THOUGHT))))
    return tuple(steps)


def _actions(step: RunStep) -> Iterator[tuple[str, str]]:
    if step.action is not None:
        yield "tool", cut(f"{step.action}: {step.query or ''}")
    elif step.query is not None:
        yield "search", cut(step.query)
        if not step.hits and not step.shown:
            yield "fault", "Nothing was found."
    if step.crop is not None:
        yield "crop", place_text(step.crop)
    if step.invalid is not None:
        yield "fault", cut(step.invalid)


@dataclass(frozen=True, slots=True)
class Side:
    """The result of one run on a question."""

    record: CaseRecord
    steps: tuple[StepSummary, ...] = ()
    """Empty where the run could not be read."""

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the result, which the script of the page reads."""
        record, compared = self.record, self.record.extracted
        extracted = None
        if compared is not None:
            extracted = cut(
                f"none: {compared.why}" if compared.answer is None else compared.answer, _MAX_ANSWER
            )
        answer = None if record.answer is None else cut(record.answer, _MAX_ANSWER)
        known = record.run is not None and _RUN.fullmatch(record.run) is not None
        return {
            "outcome": record.outcome.value,
            "why": cut(record.why, _MAX_REASON),
            "judge": record.judge,
            "answer": answer,
            "elements": [] if answer is None else _answer_elements(answer),
            "extracted": extracted,
            "stop": _STOP_NAMES.get(record.stop or "", record.stop or ""),
            "run": record.run if known else None,
            "measures": {name: round(value, 6) for name, value in record.measures.items()},
            "steps": [step.as_dict() for step in self.steps],
        }


def _answer_elements(answer: str) -> list[Any]:
    """Return the elements of an answer; none for one line of text."""
    elements = answer_elements(SignedAnswer(clean(answer)))
    if len(elements) == 1 and isinstance(elements[0], AnswerElement) and elements[0].content == (answer,):
        return []
    return [part if isinstance(part, str) else part.as_list() for part in elements]


@dataclass(frozen=True, slots=True)
class CaseBox:
    """A rectangle over a page."""

    kind: str
    """`a` or `b` for a prediction of that run, or `gold`."""
    sides: BoxSides
    """Fractions of the page."""


@dataclass(frozen=True, slots=True)
class CaseClip:
    """A clip that is evidence of an answer, and the frame of it that the model was shown."""

    text: str
    """From when to when."""
    frame: Source | None
    """None where the run keeps none."""


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A page of a case, or a clip, with its predicted and its gold rectangles."""

    document: str
    page: int
    """From 1; for a clip its number."""
    picture: int | None
    """Number of its image, if there is one."""
    boxes: tuple[CaseBox, ...]
    whole: tuple[str, ...] = ()
    """Kinds, as of boxes, that name the page as a whole."""
    clip: CaseClip | None = None
    """None for pages."""

    @property
    def predicted(self) -> bool:
        """True if evidence of an answer is on it."""
        return any(kind != "gold" for kind in (*self.whole, *(box.kind for box in self.boxes)))

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the page or clip, which the script of the page reads."""
        return {
            "document": self.document,
            "page": self.page,
            "when": None if self.clip is None else self.clip.text,
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
        """Outcome in both runs, see `cell_of`; None for a single run, or without two verdicts."""
        return cell_of(*(side.record.outcome for side in self.sides)) if len(self.sides) == 2 else None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the question with its results, which the script of the page reads."""
        subject, sample = self.subject, self.sides[0].record.sample
        return {
            "id": f"{subject.benchmark}/{subject.uid}" + (f"/{sample}" if sample else ""),
            "question": cut(subject.question, _MAX_ANSWER),
            "gold": [cut(reference, _MAX_REASON) for reference in subject.references[:12]],
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
    """Return which of two runs is right: `both`, `a`, `b` or `neither`; None without two verdicts."""
    if CaseOutcome.UNJUDGED in {a, b}:
        return None
    if a is CaseOutcome.RIGHT:
        return "both" if b is CaseOutcome.RIGHT else "a"
    return "b" if b is CaseOutcome.RIGHT else "neither"


@dataclass
class ThumbnailSource:
    """The source of steps and images: runs, and pages that no run was shown."""

    thumbnails: Thumbnails
    page_image: Callable[[str, int], Image | None] | None = None
    """Returns the image of a page of a document that no run was shown."""
    _pages: dict[tuple[str, int], Callable[[], Image]] = field(
        default_factory=dict[tuple[str, int], "Callable[[], Image]"]
    )
    _clips: dict[tuple[str, str, int], CaseClip] = field(default_factory=dict[tuple[str, str, int], CaseClip])
    _names: dict[tuple[str, int], tuple[str, int]] = field(
        default_factory=dict[tuple[str, int], tuple[str, int]]
    )
    """Pages in runs by their names in records, where these differ."""

    def steps(self, record: CaseRecord, runs: RunStore | None) -> tuple[StepSummary, ...]:
        """Return the steps of a run, and keep its images; none where it is missing or damaged."""
        if runs is None or record.run is None:
            return ()
        try:
            stored = runs.read(record.run)
            run = RunResult.of(stored.events)
        except (VragError, OSError, ValueError):
            return ()
        has_memory = stored.started.settings.memory is not None
        self._keep_evidence(record, run, stored)
        for image in (image for step in run.steps for image in step.shown):
            if not image.crop and image.seconds is None and _HASH.fullmatch(image.sha256):
                # Memory never enlarges pages, and puts small ones top left.
                wide, high = image.region[2] - image.region[0], image.region[3] - image.region[1]
                small = has_memory and 1 <= wide <= image.width and 1 <= high <= image.height
                size = (round(wide), round(high)) if small else None
                read = partial(opened, runs, stored.id, image.sha256, size)
                self._pages.setdefault((image.document, image.page), read)
        return summarize_steps(run)

    def _keep_evidence(self, record: CaseRecord, run: RunResult, stored: StoredRun) -> None:
        """Keep frames of clips, and pages under the names that records have for their documents."""
        whole = {image.item: image.sha256 for step in run.steps for image in step.shown if not image.crop}
        for place, item in zip(record.evidence, run.evidence, strict=False):
            if item.kind is ItemKind.CLIP and item.seconds is not None:
                frame = (item.crop_sha256 if place.box is None else whole.get(item.item)) or ""
                source = (
                    (frame, partial(opened, stored.store, stored.id, frame, None))
                    if _HASH.fullmatch(frame)
                    else None
                )
                clip = CaseClip("–".join(dict.fromkeys(map(moment, item.seconds))), source)
                self._clips.setdefault((record.run or "", place.document, place.page), clip)
            elif place.document != item.document:
                self._names[place.document, place.page] = (item.document, item.page)

    def clip(self, record: CaseRecord, document: str, page: int) -> CaseClip | None:
        """Return the clip that the evidence of a record names so; None for pages."""
        return self._clips.get((record.run or "", document, page))

    def with_image(self, thumbnail: Thumbnail) -> Thumbnail:
        """Return the thumbnail with its image, where there is one and room for it."""
        if self.thumbnails.evidence_only and not thumbnail.predicted:
            return thumbnail
        source: Source | None = None
        place = (thumbnail.document, thumbnail.page)
        if thumbnail.clip is not None:
            source = thumbnail.clip.frame
        elif read := self._pages.get(place) or self._pages.get(self._names.get(place, place)):
            source = (place, read)
        elif self.page_image is not None:
            source = (place, partial(self.page_image, *place))
        return thumbnail if source is None else replace(thumbnail, picture=self.thumbnails.number(*source))


def entries_of(
    records: Sequence[CaseRecord], source: ThumbnailSource, runs: RunStore | None
) -> tuple[CaseEntry, ...]:
    """Return the list of one evaluation, in the order of its records."""
    return _entries([(record,) for record in records], source, (runs,))


def pairs_of(
    a: Sequence[CaseRecord],
    b: Sequence[CaseRecord],
    source: ThumbnailSource,
    runs: tuple[RunStore | None, RunStore | None],
) -> tuple[CaseEntry, ...]:
    """Return the list of a comparison: the questions that both have, in the order of A."""
    others = {record.key: record for record in b}
    return _entries([(record, others[record.key]) for record in a if record.key in others], source, runs)


def _entries(
    rows: Sequence[tuple[CaseRecord, ...]], source: ThumbnailSource, stores: Sequence[RunStore | None]
) -> tuple[CaseEntry, ...]:
    sides = [
        tuple(Side(record, source.steps(record, store)) for record, store in zip(row, stores, strict=True))
        for row in rows
    ]
    thumbnails = [_thumbnails(row, source) for row in rows]
    for rank in range(_MAX_THUMBNAILS):  # the first page of every case first: room may run out
        for pages in thumbnails:
            if rank < len(pages):
                pages[rank] = source.with_image(pages[rank])
    return tuple(CaseEntry(row, tuple(pages)) for row, pages in zip(sides, thumbnails, strict=True))


def _thumbnails(row: tuple[CaseRecord, ...], source: ThumbnailSource) -> list[Thumbnail]:
    """Return the pages of a case without images: the first of the evidence, those of gold, all others."""
    evidence = [(kind, place) for kind, record in zip("ab", row, strict=False) for place in record.evidence]
    first = [record.evidence[0] for record in row if record.evidence]
    gold = [("gold", place) for place in row[0].subject.gold]
    in_order = [*first, *(place for _, place in (*gold, *evidence))]
    pages: dict[tuple[str, int], list[tuple[str, EvidencePlace]]] = {
        (place.document, place.page): [] for place in in_order
    }
    for kind, place in (*evidence, *gold):
        pages[place.document, place.page].append((kind, place))
    thumbnails: list[Thumbnail] = []
    for key, places in list(pages.items())[:_MAX_THUMBNAILS]:
        boxes: dict[CaseBox, None] = {}
        whole: dict[str, None] = {}
        for kind, place in places:
            if place.box is None or not all(map(math.isfinite, place.box)):
                whole[kind] = None
            else:
                x1, y1, x2, y2 = (min(max(side, 0.0), 1.0) for side in place.box)
                boxes[CaseBox(kind, (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)))] = None
        clips = (source.clip(record, *key) for record in row)
        clip = next((clip for clip in clips if clip is not None), None)
        thumbnails.append(Thumbnail(*key, None, tuple(boxes), tuple(whole), clip))
    return thumbnails


def opened(runs: RunStore, run: str, sha256: str, size: tuple[int, int] | None) -> Image:
    """Open an image that a model was shown; crop it to its content of this size, in pixels."""
    from PIL import Image

    with Image.open(io.BytesIO(runs.read_file(run, sha256)), formats=("JPEG",)) as image:
        image.load()
        return image.copy() if size is None else image.crop((0, 0, size[0], size[1]))
