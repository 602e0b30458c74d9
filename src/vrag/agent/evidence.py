"""Evidence: the items, rectangles and words in which an answer was seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from pydantic import BaseModel, ConfigDict

from vrag.agent.environment import Environment
from vrag.agent.policy import Picture, PictureOrigin
from vrag.errors import CollectionError, SearchError
from vrag.geometry import Box, Space
from vrag.reading.answer import MarkRole
from vrag.reading.places.cell_ranges import name_cells
from vrag.types import Item, ItemKind

BoxSides = tuple[float, float, float, float]
"""x1, y1, x2, y2."""

QUOTE_LENGTH = 600
"""Characters after which the words of a piece of evidence are cut."""
_ROUNDING = 1e-9
_NOT_IN_LABELS = re.compile(r"[^\w .,:/()'&+–—-]")
"""Characters that are left out of printed numbers: a file may have any there, and they are shown bare."""


class EvidenceMark(BaseModel):
    """A rectangle within a piece of evidence: words or a cell of the answer, or what it follows from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: MarkRole
    box: BoxSides
    """Fractions of the page, 0 to 1."""


class Evidence(BaseModel):
    """One place on which an answer rests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: str
    document: str
    """Path of the file below the folder that was asked, for people: `2024/invoice.pdf`."""
    document_id: str
    page: int
    """Position of the item in its document, from 1."""
    page_label: str = ""
    """The number that is printed on the page, where it is not its position: "iv"."""
    kind: ItemKind
    box: BoxSides | None
    """Fractions of the page, 0 to 1; None for a passage, which has no picture."""
    quote: str = ""
    """The words inside the box, where known."""
    marks: tuple[EvidenceMark, ...] = ()
    """The words or cells of the answer inside the box, with their heads; empty where they are not known."""
    crop_sha256: str | None = None
    """Hash of its picture, as stored with the run; None for a passage."""
    origin: PictureOrigin = PictureOrigin.PAGE
    """What its picture was drawn from."""
    seconds: tuple[float, float] | None = None
    """The span of a clip in its video, in seconds; None for what is no video."""
    node: str | None = None
    """The node of the memory graph that holds it; None without a graph."""
    cells: str = ""
    """The cells of the answer, or all inside the box, where the page shows a sheet: `Budget!C14`."""
    located: bool = False
    """True for a part of a page that was found by the words of the answer, and that no agent has enlarged."""

    @property
    def page_name(self) -> str:
        """Kind and position, with the printed number if it is another one: `page 4 (printed 2)`."""
        printed = f" (printed {self.page_label})" if self.page_label else ""
        return f"{self.kind.value} {self.page}{printed}"

    def __html__(self) -> Markup:
        """Return document, page and quote as HTML, for notebooks; nothing of the document is markup."""
        quote = Markup("<br><small><bdi>{}</bdi></small>").format(self.quote) if self.quote else ""
        place = Markup("<bdi>{}</bdi>, {}").format(self.document, self.page_name)
        return Markup('<div class="tex2jax_ignore mathjax_ignore">{}{}</div>').format(place, quote)

    _repr_html_ = __html__


def place_of(evidence: Evidence) -> tuple[str, BoxSides | None, tuple[float, float] | None]:
    """Return what tells one place from another: item, box and span. Two nodes may remember the same place."""
    return evidence.item, evidence.box, evidence.seconds


@dataclass(frozen=True, slots=True)
class EvidenceCandidate:
    """A piece of evidence, and the picture in which the model saw it."""

    evidence: Evidence
    label: str
    """The name for the model."""
    picture: Picture | None = None
    """The picture; None for a passage."""
    sampling: tuple[float, int] | None = None
    """The sampling of the clip of a frame: frames per second, and how many at most."""


def picture_evidence(
    picture: Picture,
    item: Item,
    label: str,
    *,
    node: str | None = None,
    seconds: tuple[float, float] | None = None,
    sampling: tuple[float, int] | None = None,
) -> EvidenceCandidate:
    """Return a picture as evidence, a crop with its words."""
    box = picture.view.convert(picture.view.region, Space.UNIT)
    quote = words_inside(item, box) if picture.crop else ""
    if item.clip is not None and seconds is None:
        seconds = (item.clip.start, item.clip.end)
    evidence = _evidence(item, box.as_tuple(), quote, picture.sha256, node)
    evidence = evidence.model_copy(update={"seconds": seconds, "origin": picture.origin})
    return EvidenceCandidate(evidence, label, picture, sampling)


def passage_evidence(item: Item, label: str, *, node: str | None = None) -> EvidenceCandidate:
    """Return a passage, as evidence."""
    return EvidenceCandidate(_evidence(item, None, item.text[:QUOTE_LENGTH], None, node), label)


def select_evidence(
    listed: Sequence[EvidenceCandidate], numbers: Sequence[int]
) -> tuple[EvidenceCandidate, ...] | None:
    """Return the entries of a list that the model chose by numbers from 1; None when none is in the list.

    An empty `numbers` selects nothing: the model found no entry that supports the answer.
    """
    chosen = tuple(listed[number - 1] for number in numbers if number <= len(listed))
    return chosen if chosen or not numbers else None


def check_evidence(
    seen: Iterable[EvidenceCandidate], environment: Environment
) -> tuple[tuple[Evidence, ...], tuple[str, ...]]:
    """Return the evidence that agrees with the collection as it is now, each once; and why others do not.

    The item exists, the box lies inside its page, and drawing it again gives the picture that the
    model was shown. A clip is sampled again as it was then, once for all its frames.
    """
    candidates = tuple(seen)
    clips: dict[tuple[str, float, int], list[Picture]] = {}
    for candidate in candidates:
        if candidate.picture is not None and candidate.sampling is not None:
            clips.setdefault((candidate.picture.item, *candidate.sampling), []).append(candidate.picture)
    same_frames: dict[Picture, bool] = {}
    for (_, fps, most), pictures in clips.items():
        same_frames.update(zip(pictures, environment.same_frames(pictures, fps=fps, most=most), strict=True))

    kept: dict[Evidence, None] = {}
    faults: dict[str, None] = {}
    for candidate in candidates:
        evidence = candidate.evidence
        if fault := _fault(candidate, environment, same_frames):
            faults[f"{candidate.label} ({evidence.document}, {evidence.page}): {fault}"] = None
        else:
            kept[evidence] = None
    return tuple(kept), tuple(faults)


def _fault(seen: EvidenceCandidate, environment: Environment, same_frames: Mapping[Picture, bool]) -> str:
    evidence, picture = seen.evidence, seen.picture
    try:
        item = environment.item(evidence.item)
    except (SearchError, CollectionError):
        return "it is no longer in the collection"
    if item.document != evidence.document_id or item.ordinal != evidence.page:
        return "the collection has something else under its name"
    if evidence.box is not None:
        x1, y1, x2, y2 = evidence.box
        low, high = -_ROUNDING, 1 + _ROUNDING
        if not (low <= x1 < x2 <= high and low <= y1 < y2 <= high):
            return "its box lies outside of the page"
    if picture is None:
        return ""
    is_same = environment.same_again(picture) if picture.seconds is None else same_frames.get(picture, False)
    return "" if is_same else "it no longer looks as it was shown"


def words_inside(item: Item, box: Box) -> str:
    """Return the words whose centre lies in a unit box, in the order of the text, with its blanks."""
    inside = [word for word in item.words if box.covers(*word.box.center)]
    ends = [None, *(word.end for word in inside)]
    pieces = (
        item.text[word.start : word.end] if word.start == end else f" {item.text[word.start : word.end]}"
        for word, end in zip(inside, ends, strict=False)
    )
    return "".join(pieces)[1 : QUOTE_LENGTH + 1]


def _evidence(
    item: Item, box: BoxSides | None, quote: str, crop_sha256: str | None, node: str | None
) -> Evidence:
    return Evidence(
        item=item.id,
        document=item.title,
        document_id=item.document,
        page=item.ordinal,
        page_label=_NOT_IN_LABELS.sub("", item.facts.label),
        kind=item.kind,
        box=box,
        quote=quote,
        crop_sha256=crop_sha256,
        node=node,
        cells=name_cells(item, Box.unit(*box)) if box is not None else "",
    )
