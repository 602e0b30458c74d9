"""The evidence of an answer in the order in which it supports it, and the citations of its parts.

A model's own markers decide what a part rests on. Where there are none, each sentence is looked for on the
evidence; a short answer by the reader of pages, which also marks its words. It is a function of question,
answer, markers, evidence and collection: a replay finds the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from vrag.agent.answers.answer_place import (
    LARGE,
    MAX_ANSWER_CHARS,
    MAX_PAGES,
    area,
    area_of,
    covers,
    cut_out,
    locate_answer,
    with_marks,
)
from vrag.agent.answers.citation import Citation, CitationSource
from vrag.agent.answers.markers import ModelMarker
from vrag.agent.environment import Environment
from vrag.agent.events import AnswerReading
from vrag.agent.evidence import Evidence, picture_evidence, place_of
from vrag.agent.page_reading import open_page
from vrag.agent.policy import Picture
from vrag.agent.question import Question
from vrag.errors import CollectionError, SearchError
from vrag.geometry import Box, iou
from vrag.reading.answer import MarkRole
from vrag.reading.places.part_places import PartPlace, locate_parts
from vrag.reading.verification.claims import ReadSentence, read_sentences

SAME_LINES = 0.6
"""Intersection over union from which two parts of an answer stand on the same lines."""
MAX_PARTS = 40
"""Parts of an answer that are looked for; what follows has no citation."""


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """A part of an answer, and the evidence that the model cites for it."""

    start: int
    end: int
    cited: tuple[tuple[Evidence, ...], ...] = ()
    """What each reference stands for; empty where the model cites nothing: then all evidence counts."""


@dataclass(frozen=True, slots=True)
class SupportedAnswer:
    """An answer with its evidence."""

    evidence: tuple[Evidence, ...]
    """What is cited first, in the order of the text; then the rest."""
    citations: tuple[Citation, ...] = ()
    reading: AnswerReading | None = None
    """What the reader found of a short answer."""
    pictures: tuple[Picture, ...] = ()
    """Pictures of parts that were found by the words of the answer, which no agent has looked at."""

    @property
    def cited(self) -> tuple[Evidence, ...]:
        """The evidence that is cited, by its numbers."""
        return self.evidence[: max((max(citation.numbers) for citation in self.citations), default=0)]


def support_answer(
    question: Question,
    answer: str,
    parts: Sequence[AnswerPart],
    evidence: Sequence[Evidence],
    environment: Environment,
    *,
    selected: bool = False,
    named: bool = False,
) -> SupportedAnswer:
    """Find what the parts of an answer rest on, and number it.

    Args:
        question: The question.
        answer: The text of the answer, without markers.
        parts: The parts that the model cites evidence for; none where it wrote no markers.
        evidence: The evidence, best first; what is cited is among it.
        environment: The environment of the run.
        selected: Whether the model was asked which evidence counts: then all of it does.
        named: Whether the agent has named its evidence, as nodes of a graph: then all of it counts where the
            answer does not stand on it.
    """
    if not evidence:
        return SupportedAnswer(())
    named = named or selected
    sentences = read_sentences(answer)
    groups = [group for part in parts for group in part.cited]
    is_short = len(answer) <= MAX_ANSWER_CHARS and len(sentences) <= 1 and len(groups) <= 1
    if is_short or (selected and not parts):
        among = groups[0] if groups else evidence
        source: CitationSource = "model" if groups else "looked_at"
        whole = _support_whole(
            question, answer, among, environment, ordered=selected, named=named or bool(groups), source=source
        )
        if selected or groups or whole.reading is not None:
            places = {place_of(entry) for entry in among}
            rest = tuple(entry for entry in evidence if place_of(entry) not in places)
            return replace(whole, evidence=(*whole.evidence, *rest))
    listing = EvidenceListing(list(evidence), environment)
    for part in all_parts(sentences, parts):
        listing.cite(question, answer, part)
    if not listing.cited:
        return _support_whole(question, answer, evidence, environment, named=named, source="looked_at")
    return SupportedAnswer(*listing.numbered(), None, tuple(listing.pictures))


def cited_parts(
    answer: str, markers: Sequence[ModelMarker], evidence: Sequence[Sequence[tuple[Evidence, ...]]]
) -> tuple[AnswerPart, ...]:
    """Return the parts of an answer that end at its markers; `evidence` is what the references of each cite.

    A part begins with its sentence, or after the marker before it in the same sentence. A marker that leads
    stands for the sentence behind it.
    """
    sentences = read_sentences(answer)
    parts: list[AnswerPart] = []
    before = 0
    for marker, cited in zip(markers, evidence, strict=True):
        if marker.leads:
            following = (sentence for sentence in sentences if sentence.end > marker.at)
            start, end = next(((sentence.start, sentence.end) for sentence in following), (0, 0))
        else:
            start = max([before, *(sentence.start for sentence in sentences if sentence.start < marker.at)])
            end = marker.at
        before = max(before, end)
        if cited and any(character.isalnum() for character in answer[start:end]):
            parts.append(AnswerPart(start, end, tuple(cited)))
    return tuple(parts)


def all_parts(sentences: Sequence[ReadSentence], cited: Sequence[AnswerPart]) -> list[AnswerPart]:
    """Return the parts of an answer in order: those that the model cites evidence for, other sentences."""
    uncited = [
        AnswerPart(sentence.start, sentence.end)
        for sentence in sentences
        if not any(part.start < sentence.end and sentence.start < part.end for part in cited)
    ]
    return sorted([*cited, *uncited][:MAX_PARTS], key=lambda part: part.start)


def _support_whole(
    question: Question,
    answer: str,
    evidence: Sequence[Evidence],
    environment: Environment,
    *,
    ordered: bool = False,
    named: bool,
    source: CitationSource,
) -> SupportedAnswer:
    """Support an answer as a whole: by what the reader finds of it, or else by what was named or looked at.

    With `ordered` the evidence keeps its order, and all of it counts.
    """
    place = locate_answer(question, answer, evidence, environment, ordered=ordered)
    entries = place.evidence
    if place.reading is not None and not ordered:
        chosen = _marked(entries) or [0]
        source = "matched" if source == "looked_at" else source
    else:
        chosen = _meant(evidence, named=named)
    rest = [at for at in range(len(entries)) if at not in chosen]
    citation = Citation(start=0, end=len(answer), numbers=tuple(range(1, len(chosen) + 1)), source=source)
    listed = tuple(entries[at] for at in (*chosen, *rest))
    return SupportedAnswer(listed, (citation,), place.reading, place.pictures)


def _marked(evidence: Sequence[Evidence]) -> list[int]:
    """Return the positions of what holds words or cells of the answer, of each page its smallest part."""
    smallest: dict[str, int] = {}
    for at, entry in enumerate(evidence):
        best = smallest.get(entry.item)
        if any(mark.role is not MarkRole.HEAD for mark in entry.marks) and (
            best is None or area_of(entry) < area_of(evidence[best])
        ):
            smallest[entry.item] = at
    return list(smallest.values())


def _meant(evidence: Sequence[Evidence], *, named: bool) -> list[int]:
    """Return the positions of what an answer rests on that stands nowhere.

    It is what the agent named, or what it looked at closely, or else the first piece.
    """
    if named:
        return list(range(len(evidence)))
    close = [at for at, entry in enumerate(evidence) if entry.box is not None and area(entry.box) <= LARGE]
    return close or [0]


@dataclass(slots=True)
class EvidenceListing:
    """The evidence of an answer while its parts are looked for."""

    entries: list[Evidence]
    environment: Environment
    cited: dict[tuple[int, int], set[int]] = field(default_factory=dict[tuple[int, int], set[int]])
    """Positions of the entries that each part rests on, in the order of the text."""
    by_model: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """The parts for which the model wrote markers."""
    pictures: list[Picture] = field(default_factory=list[Picture])
    lines: dict[int, Box] = field(default_factory=dict[int, Box])
    """The lines of the part for which an entry was cut out, by the position of the entry."""

    def cite(self, question: Question, answer: str, part: AnswerPart) -> None:
        """Add the evidence of a part: what the model cites, narrowed to its words, or where these stand."""
        words = answer[part.start : part.end]
        places: set[int] = set()
        for group in part.cited:
            places |= self._narrowed(group, self._find(question, words, group))
        if not part.cited and (place := self._find(question, words, self.entries)) is not None:
            places.add(self._place(place))
        if part.cited:
            self.by_model.add((part.start, part.end))
        if places:
            self.cited.setdefault((part.start, part.end), set()).update(places)

    def move(self, citation: Citation, evidence: Evidence) -> None:
        """Let the part of a citation rest on another entry, which is not what the model cites."""
        part, place = (citation.start, citation.end), place_of(evidence)
        self.cited[part] = {next(at for at, entry in enumerate(self.entries) if place_of(entry) == place)}
        self.by_model.discard(part)

    def _narrowed(self, group: Sequence[Evidence], place: PartPlace | None) -> set[int]:
        """Return the positions of what a reference stands for, or of the part of it where the words stand."""
        own = [entry for entry in group if place is not None and entry.item == place.item]
        if place is not None and all(entry.box is None or area(entry.box) > LARGE for entry in own):
            return {self._place(place)}
        places = [
            next(at for at, entry in enumerate(self.entries) if place_of(entry) == place_of(one))
            for one in own or group
        ]
        for at in places:
            self.entries[at] = with_marks(self.entries[at], place.marks if place is not None else ())
        return set(places)

    def numbered(self) -> tuple[tuple[Evidence, ...], tuple[Citation, ...]]:
        """Return the entries, what is cited first, and the citations with their numbers."""
        first = dict.fromkeys(at for places in self.cited.values() for at in sorted(places))
        order = [*first, *(at for at in range(len(self.entries)) if at not in first)]
        numbers = {at: number for number, at in enumerate(order, 1)}
        citations = tuple(
            Citation(
                start=start,
                end=end,
                numbers=tuple(sorted(numbers[at] for at in places)),
                source="model" if (start, end) in self.by_model else "matched",
            )
            for (start, end), places in self.cited.items()
        )
        return tuple(self.entries[at] for at in order), citations

    def _find(self, question: Question, part: str, allowed: Iterable[Evidence]) -> PartPlace | None:
        items = dict.fromkeys(entry.item for entry in allowed if entry.seconds is None)
        try:
            searcher = self.environment.searcher
            pages = [open_page(searcher, self.environment.item(id)) for id in list(items)[:MAX_PAGES]]
        except (SearchError, CollectionError):
            return None
        return locate_parts(question.text, [part], pages)[0]

    def _place(self, place: PartPlace) -> int:
        """Return the position of the entry for a place, which may be a part of a page listed whole."""
        own = [at for at, entry in enumerate(self.entries) if entry.item == place.item]
        if place.region is None:
            return own[0]
        close = [at for at in own if (box := self.entries[at].box) is not None and area(box) <= LARGE]
        looked_at = (at for at in close if at not in self.lines)
        at = next((at for at in looked_at if covers(self.entries[at].box, place.region.center)), None)
        if at is None:
            at = self._place_found(place, place.region, place.lines or place.region, own[0])
        self.entries[at] = with_marks(self.entries[at], place.marks)
        return at

    def _place_found(self, place: PartPlace, region: Box, lines: Box, whole: int) -> int:
        """Return the position of the entry for a place that no agent has looked at.

        Where its rectangle would show the lines of another part too, each part has its own lines alone.
        """
        found = {at: own for at, own in self.lines.items() if self.entries[at].item == place.item}
        for at, own in found.items():
            if iou(own, lines) >= SAME_LINES:
                return at
        shared = [
            at
            for at, own in found.items()
            if region.covers(*own.center) or covers(self.entries[at].box, lines.center)
        ]
        for at in shared:
            self._narrow_to_lines(at)
        at = self._add_part(place.item, lines if shared else region, whole)
        if at != whole:
            self.lines[at] = lines
        return at

    def _add_part(self, id: str, region: Box, whole: int) -> int:
        """Add a part of a page as an entry; return the position of the page where it cannot be drawn."""
        part = self._cut_out(id, region, self.entries[whole].node)
        if part is None:
            return whole
        self.entries.append(part)
        return len(self.entries) - 1

    def _narrow_to_lines(self, at: int) -> None:
        """Show of an entry that was cut out no more than the lines of its own part."""
        entry = self.entries[at]
        if entry.box is not None and iou(Box.unit(*entry.box), self.lines[at]) >= SAME_LINES:
            return
        part = self._cut_out(entry.item, self.lines[at], entry.node)
        if part is None or part.box is None:
            return
        self.pictures = [picture for picture in self.pictures if picture.sha256 != entry.crop_sha256]
        marks = tuple(mark for mark in entry.marks if covers(part.box, Box.unit(*mark.box).center))
        self.entries[at] = part.model_copy(update={"marks": marks})

    def _cut_out(self, id: str, region: Box, node: str | None) -> Evidence | None:
        """Return a part of a page as evidence; None where it cannot be drawn."""
        item = self.environment.item(id)
        picture = cut_out(item, region, self.environment) if region.area <= LARGE else None
        if picture is None:
            return None
        self.pictures.append(picture)
        part = picture_evidence(picture, item, "", node=node).evidence
        return part.model_copy(update={"located": True})
