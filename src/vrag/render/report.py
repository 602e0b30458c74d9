"""Several runs as one document: each question with its answer, and sources numbered throughout.

A report is written as a page of HTML that stands alone, or as Markdown with its images beside it or in it.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from vrag import __version__
from vrag.agent.citations import Citations, citations, is_whole
from vrag.render.figures import Figures, ImageStore
from vrag.render.markdown import bullets, image, inline, link, paragraph, quoted, table
from vrag.render.outcome import ATTACHED
from vrag.render.run_view import RunTable, RunView
from vrag.render.templates import render_page
from vrag.render.text_format import count, extent, list_places, when, where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vrag.agent.evidence import Evidence
    from vrag.agent.runs.run_store import StoredRun
    from vrag.types import ItemKind

SourceKey = tuple[str, str, "ItemKind", int, tuple[float, float] | None]
"""Document id and name, kind, page, and stretch of a video."""
_PAGES_PER_ROW = 3
"""Whole pages side by side in Markdown."""


class MarkdownReport(NamedTuple):
    """A report in Markdown with the files of its images."""

    text: str
    files: dict[str, bytes]
    """JPEG files by name; none if the images are in the text."""
    pictures: int
    """Number of images beside the text or in it."""


@dataclass(frozen=True, slots=True)
class NumberedSource:
    """A page, a passage, or a stretch of a video that answers rest on."""

    number: int
    """In the report, from 1."""
    document: str
    """File name."""
    where: str
    """Place in the document, in words."""
    questions: tuple[int, ...]
    """Numbers of the questions that cite it."""


@dataclass(frozen=True, slots=True)
class SourceNumbers:
    """All sources of a report, in order of first use. Each has one number in the whole report."""

    listed: tuple[NumberedSource, ...]
    numbers: dict[SourceKey, int]

    @classmethod
    def of(cls, questions: Sequence[Iterable[Evidence]]) -> SourceNumbers:
        """Numbers the sources of the evidence of each question."""
        seen: dict[SourceKey, tuple[Evidence, list[int]]] = {}
        for question, evidence in enumerate(questions, 1):
            for entry in evidence:
                citing = seen.setdefault(_source_key(entry), (entry, []))[1]
                citing.extend([question] if question not in citing else [])
        listed = (
            NumberedSource(number, entry.document, where(entry), tuple(citing))
            for number, (entry, citing) in enumerate(seen.values(), 1)
        )
        return cls(tuple(listed), {key: number for number, key in enumerate(seen, 1)})

    def number(self, evidence: Evidence) -> int:
        """The number of a source."""
        return self.numbers[_source_key(evidence)]

    @property
    def summary(self) -> str:
        """The number of sources, in words."""
        documents = len({key[:2] for key in self.numbers})
        return f"{count(len(self.listed), 'place')} in {count(documents, 'document')}"


def _source_key(evidence: Evidence) -> SourceKey:
    return (evidence.document_id, evidence.document, evidence.kind, evidence.page, evidence.seconds)


@dataclass(frozen=True)
class ReportPart:
    """A question of a report."""

    number: int
    """From 1."""
    run_view: RunView

    @cached_property
    def _citations(self) -> Citations:
        evidence = self.run_view.result.evidence
        return citations(evidence, self.run_view.settings, answered=self.answered)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The evidence of its answer; without an answer, the pages where the agent looked."""
        return self._citations.rests

    @property
    def besides(self) -> tuple[Evidence, ...]:
        """The other pages that the agent looked at."""
        return self._citations.besides

    @property
    def closeups(self) -> tuple[Evidence, ...]:
        """Parts of pages, passages, and all other evidence with a quote, each place once."""
        return _distinct(entry for entry in self.evidence if not _is_bare_page(entry))

    @property
    def pages(self) -> tuple[Evidence, ...]:
        """Whole pages of which no part is shown, each once."""
        parts = {(entry.item, entry.seconds) for entry in self.closeups}
        bare = (entry for entry in self.evidence if _is_bare_page(entry))
        return _distinct(entry for entry in bare if (entry.item, entry.seconds) not in parts)

    @property
    def figures(self) -> tuple[Evidence, ...]:
        """All evidence that is shown, in order."""
        return self.closeups + self.pages

    @property
    def answered(self) -> bool:
        """True if there is an answer."""
        return self.run_view.result.answer is not None


@dataclass(frozen=True)
class Report:
    """A document of several questions."""

    title: str
    created: float
    """Seconds since 1970, UTC."""
    parts: tuple[ReportPart, ...]
    unfinished: tuple[str, ...]
    """Questions that belong to it and were not asked to the end."""
    sources: SourceNumbers
    image_store: ImageStore
    """The images of all evidence."""

    @classmethod
    def of(
        cls,
        runs: Sequence[RunView],
        read: Callable[[str], bytes | None],
        *,
        title: str = "",
        unfinished: Sequence[str] = (),
        created: float | None = None,
    ) -> Report:
        """The report of runs.

        Args:
            runs: In the order of the report.
            read: Returns the JPEG file of a hash, or None if there is none.
            title: As in `report_of`.
            unfinished: As there.
            created: As there.

        Raises:
            ValueError: If there are no runs.
        """
        if not runs:
            raise ValueError("a report needs a run")
        question = " ".join(runs[0].started.question.split())
        default = question if len(runs) == 1 else f"{count(len(runs), 'question')} to the documents"
        parts = tuple(ReportPart(number, run) for number, run in enumerate(runs, 1))
        return cls(
            title=" ".join(title.split()) or default,
            created=time.time() if created is None else created,
            parts=parts,
            unfinished=tuple(unfinished),
            sources=SourceNumbers.of([part.evidence for part in parts]),
            image_store=ImageStore.of(_image_hashes(parts), read),
        )

    @cached_property
    def html(self) -> str:
        """A page that needs no other file, runs no script and fetches nothing."""
        figures = [Figures(run, self.image_store) for run in self.runs]
        table = RunTable.of(self.runs)
        return render_page("report.html.jinja", report=self, figures=figures, table=table)

    def markdown(self, pictures: str = "") -> MarkdownReport:
        """Markdown with the files of its images.

        Args:
            pictures: Folder of these files, relative to the Markdown file; if empty, the images are in the
                text itself, as data at its end, and there are no files.
        """
        return _MarkdownWriter(self, pictures).write()

    @property
    def runs(self) -> tuple[RunView, ...]:
        """The runs."""
        return tuple(part.run_view for part in self.parts)

    @property
    def summary(self) -> str:
        """The number of questions by outcome, in words."""
        answered = sum(part.answered for part in self.parts)
        running = sum(run.under_way for run in self.runs)
        interrupted = sum(run.result.stop_reason is None for run in self.runs) - running
        counts = {
            "without an answer": len(self.parts) - answered - interrupted - running,
            "interrupted": interrupted,
            "still running": running,
            "not asked to the end": len(self.unfinished),
        }
        outcomes = [f"{number} {name}" for name, number in counts.items() if number]
        return ", ".join([count(len(self.parts), "question"), f"{answered} answered", *outcomes])

    def cited(self, part: ReportPart) -> list[int]:
        """The source numbers of an answer, each once; none without an answer."""
        numbers = (self.sources.number(entry) for entry in part.evidence)
        return list(dict.fromkeys(numbers)) if part.answered else []


def report_of(
    runs: Sequence[StoredRun],
    *,
    title: str = "",
    unfinished: Sequence[str] = (),
    created: float | None = None,
) -> Report:
    """The report of stored runs, with their images; see `Report.of`.

    Args:
        runs: In the order of the report. They need not have an end.
        title: Title; by default the question, or the number of questions.
        unfinished: Questions that belong to the report and were not asked to the end.
        created: Date in seconds since 1970; now by default.

    Raises:
        ValueError: If there are no runs.
        RunError: If the events of one do not begin with the start of a run.
    """

    def read(sha256: str) -> bytes | None:
        for run in runs:
            try:
                return run.file(sha256, "jpg").read_bytes()
            except OSError:
                continue
        return None

    views = [RunView.of_run(run) for run in runs]
    return Report.of(views, read, title=title, unfinished=unfinished, created=created)


def _image_hashes(parts: Sequence[ReportPart]) -> Iterator[str]:
    """Hashes of the images of all evidence, in order."""
    for part in parts:
        yield from part.run_view.started.attached
        for evidence in part.evidence:
            shown = [found for found in part.run_view.images_of(evidence) if found is not None]
            yield from (found.sha256 for found in shown)
            if not shown and evidence.crop_sha256:
                yield evidence.crop_sha256


def _is_bare_page(evidence: Evidence) -> bool:
    """Return whether it is a whole page without a quote."""
    return not evidence.quote and evidence.box is not None and is_whole(evidence.box)


def _distinct(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """The first piece of evidence of each place."""
    places: dict[object, Evidence] = {}
    for entry in evidence:
        places.setdefault((entry.item, entry.seconds, entry.box), entry)
    return tuple(places.values())


@dataclass
class _MarkdownWriter:
    """A report in Markdown, as it is written."""

    report: Report
    folder: str
    """Of the images; empty if they are in the text."""
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    embedded: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Images in the text, by the name of their definition."""

    def write(self) -> MarkdownReport:
        report = self.report
        blocks = [
            f"# {inline(report.title)}",
            f"Written {when(report.created)} by vrag {__version__}: {report.summary}.",
            *self._contents(),
            *(block for part in report.parts for block in self._part(part)),
            *(
                ["## Not asked to the end", bullets(map(inline, report.unfinished))]
                if report.unfinished
                else []
            ),
            *self._sources(),
            *self._making(),
        ]
        if self.embedded:
            blocks.append(
                "\n".join(
                    f"[{name}]: data:image/jpeg;base64,{base64.b64encode(data).decode()}"
                    for name, data in self.embedded.items()
                )
            )
        text = "\n\n".join(blocks) + "\n"
        return MarkdownReport(text, self.files, len(self.files) + len(self.embedded))

    def _contents(self) -> Iterator[str]:
        if len(self.report.parts) > 1:
            yield "## Contents"
            yield "\n".join(
                f"{part.number}. {link(part.run_view.started.question, f'question-{part.number}')}"
                f" – {part.run_view.outcome.name}"
                for part in self.report.parts
            )

    def _part(self, part: ReportPart) -> Iterator[str]:
        run, end = part.run_view, part.run_view.outcome
        yield f"## Question {part.number}"
        yield f"**{inline(run.started.question)}**"
        for sha256 in run.started.attached:
            yield self._image(sha256, ATTACHED)
        if run.started.history:
            yield f"Asked after: {inline(' – '.join(turn.question for turn in run.started.history))}"
        cites = "".join(f" {_cite(number)}" for number in self.report.cited(part))
        yield paragraph(end.text, cites) if part.answered else f"{end.name}. {paragraph(end.text)}"
        for remark in (end.note, *run.started.notices):
            if remark:
                yield f"*{inline(remark)}*"
        if part.evidence and not part.answered:
            yield "Where the agent looked:"
        for evidence in part.closeups:
            yield from self._closeup(evidence, part)
        for start in range(0, len(part.pages), _PAGES_PER_ROW):
            pages = part.pages[start : start + _PAGES_PER_ROW]
            heads = [f"{self._number(page)} {inline(_in_text(page.document, where(page)))}" for page in pages]
            yield table(heads, [[self._evidence_image(page, part) for page in pages]])
        if part.besides:
            yield f"Also looked at: {inline(list_places(part.besides))}."
        if run.result.unsupported:
            yield "Left out, since it no longer agrees with the collection:"
            yield bullets(map(inline, run.result.unsupported))

    def _closeup(self, evidence: Evidence, part: ReportPart) -> Iterator[str]:
        """A place: its image, its page, the words there."""
        if shown := self._evidence_image(evidence, part):
            yield shown
        yield f"{self._number(evidence)} {inline(_in_text(evidence.document, extent(evidence)))}"
        if evidence.quote:
            yield quoted(evidence.quote)

    def _evidence_image(self, evidence: Evidence, part: ReportPart) -> str:
        """The part as it was shown, or else the page; empty for a passage, which has no image."""
        page, closer = part.run_view.images_of(evidence)
        shown = closer or page
        sha256 = shown.sha256 if shown else evidence.crop_sha256
        return self._image(sha256, _in_text(evidence.document, extent(evidence))) if sha256 else ""

    def _image(self, sha256: str, alt: str) -> str:
        """The image of a hash, or why there is none."""
        stored = self.report.image_store.stored_images.get(sha256)
        if stored is None:
            return inline(f"({alt}: {self.report.image_store.missing.get(sha256, 'no picture')})")
        if not self.folder:
            self.embedded[stored.id] = stored.data
            return f"![{inline(alt)}][{stored.id}]"
        name = f"{sha256[:16]}.jpg"
        self.files[name] = stored.data
        return image(alt, f"{self.folder}/{name}")

    def _number(self, evidence: Evidence) -> str:
        return _cite(self.report.sources.number(evidence))

    def _unfinished(self) -> Iterator[str]:
        if self.report.unfinished:
            yield "## Not asked to the end"
            yield bullets(map(inline, self.report.unfinished))

    def _sources(self) -> Iterator[str]:
        if self.report.sources.listed:
            yield "## Sources"
            yield "\n".join(
                f"{source.number}. {inline(_in_text(source.document, source.where))}"
                f" ({', '.join(link(f'question {n}', f'question-{n}') for n in source.questions)})"
                for source in self.report.sources.listed
            )

    def _making(self) -> Iterator[str]:
        runs = RunTable.of(self.report.runs)
        yield "## How this was made"
        if runs.shared:
            yield bullets(f"{name.capitalize()}: {inline(value)}" for name, value in runs.shared.items())
        rows = [(str(number), *map(inline, row)) for number, row in enumerate(runs.rows, 1)]
        rows += [("All", *runs.together)] if runs.together else []
        yield table(("Question", *(name.capitalize() for name in runs.columns)), rows)


def _in_text(document: str, place: str) -> str:
    """A place within a sentence."""
    return f"{document}, {place[:1].lower()}{place[1:]}"


def _cite(number: int) -> str:
    return f"[\\[{number}\\]](#sources)"
