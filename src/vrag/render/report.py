"""Several runs as one document: each question with its answer, its evidence and all sources.

Evidence has the numbers that it has in its run. In a report of several questions the number of the question
stands before them: `[2.1]` is the evidence 1 of question 2.

A report is written as a page of HTML that stands alone, or as Markdown with its images beside it or in it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from markupsafe import Markup

from vrag.agent.evidence import Evidence
from vrag.agent.runs.run_result import is_whole
from vrag.agent.runs.run_store import StoredRun
from vrag.render.answer_markdown import sign_answer, write_markdown
from vrag.render.figures import Figures, ImageStore, StoredImage, image_reader
from vrag.render.markdown_text import image, inline
from vrag.render.markup import render_page
from vrag.render.place_links import NO_LINKS, PlaceLink, PlaceLinks
from vrag.render.run_view import RunTable, RunView
from vrag.render.text_format import ATTACHED, extent, where
from vrag.text.numerals import count
from vrag.types import ItemKind

SourceKey = tuple[str, str, ItemKind, int, tuple[float, float] | None]
"""Document id and name, kind, page, and stretch of a video."""


class MarkdownReport(NamedTuple):
    """A report in Markdown with the files of its images."""

    text: str
    files: dict[str, bytes]
    """JPEG files by name; none if the images are in the text."""
    pictures: int
    """Number of images beside the text or in it."""


@dataclass(frozen=True, slots=True)
class ReportSource:
    """A page, a passage, or a stretch of a video that answers rest on."""

    document: str
    """File name."""
    where: str
    """Place in the document, in words."""
    evidence: tuple[tuple[int, int], ...]
    """The pieces of evidence that stand there: number of the question, and of the evidence in its answer."""


@dataclass(frozen=True, slots=True)
class SourceList:
    """All sources of a report, in order of first use."""

    listed: tuple[ReportSource, ...]
    documents: int
    """The number of their documents."""

    @classmethod
    def of(cls, questions: Sequence[Iterable[Evidence]]) -> SourceList:
        """List the sources of the evidence of each question."""
        seen: dict[SourceKey, tuple[Evidence, list[tuple[int, int]]]] = {}
        for question, evidence in enumerate(questions, 1):
            for number, entry in enumerate(evidence, 1):
                seen.setdefault(_source_key(entry), (entry, []))[1].append((question, number))
        listed = (ReportSource(entry.document, where(entry), tuple(uses)) for entry, uses in seen.values())
        return cls(tuple(listed), len({key[:2] for key in seen}))

    @property
    def summary(self) -> str:
        """The number of sources, in words."""
        return f"{count(len(self.listed), 'place')} in {count(self.documents, 'document')}"


def _source_key(evidence: Evidence) -> SourceKey:
    return (evidence.document_id, evidence.document, evidence.kind, evidence.page, evidence.seconds)


@dataclass(frozen=True)
class ReportPart:
    """A question of a report."""

    number: int
    """From 1."""
    run_view: RunView

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The evidence of its answer; without an answer, the pages where the agent looked."""
        return self.run_view.result.rests

    @property
    def besides(self) -> tuple[Evidence, ...]:
        """The other pages that the agent looked at."""
        return self.run_view.result.looked_at

    @property
    def closeups(self) -> list[tuple[int, Evidence]]:
        """Parts of pages, passages, and all other evidence with a quote, with their numbers."""
        return [(number, entry) for number, entry in enumerate(self.evidence, 1) if not _is_bare_page(entry)]

    @property
    def pages(self) -> list[tuple[int, Evidence]]:
        """Whole pages, with their numbers."""
        return [(number, entry) for number, entry in enumerate(self.evidence, 1) if _is_bare_page(entry)]

    @property
    def image_hashes(self) -> Iterator[str]:
        """Hashes of the images of all evidence, in order."""
        yield from self.run_view.started.attached
        for evidence in self.evidence:
            yield from (found.sha256 for found in self.run_view.images_of(evidence) if found is not None)
            if evidence.crop_sha256:
                yield evidence.crop_sha256

    @property
    def answered(self) -> bool:
        """True if there is an answer."""
        return self.run_view.result.answer is not None

    @property
    def has_text(self) -> bool:
        """True if there is an answer, or one that was withdrawn: evidence is what it rests on."""
        return bool(self.run_view.result.checked_text)


@dataclass(frozen=True)
class Report:
    """A document of several questions."""

    title: str
    created: float
    """Seconds since 1970, UTC."""
    parts: tuple[ReportPart, ...]
    unfinished: tuple[str, ...]
    """Questions that belong to it and were not asked to the end."""
    sources: SourceList
    image_store: ImageStore
    """The images of all evidence."""
    links: PlaceLinks = NO_LINKS
    """The addresses at which its places open."""

    @classmethod
    def of(
        cls,
        runs: Sequence[RunView],
        read: Callable[[str], bytes | None],
        *,
        title: str = "",
        unfinished: Sequence[str] = (),
        created: float | None = None,
        links: PlaceLinks = NO_LINKS,
    ) -> Report:
        """Make the report of runs.

        Args:
            runs: In the order of the report.
            read: Returns the JPEG file of a hash, or None if there is none.
            title: Title; by default the question, or the number of questions.
            unfinished: Questions that belong to the report and were not asked to the end.
            created: Date in seconds since 1970; now by default.
            links: The addresses at which its places open.

        Raises:
            ValueError: If there are no runs.
        """
        if not runs:
            raise ValueError("a report needs a run")
        question = " ".join(runs[0].started.question.split())
        default = question if len(runs) == 1 else f"{count(len(runs), 'question')} to the documents"
        parts = tuple(ReportPart(number, run) for number, run in enumerate(runs, 1))
        hashes = [sha256 for part in parts for sha256 in part.image_hashes]
        return cls(
            title=" ".join(title.split()) or default,
            created=time.time() if created is None else created,
            parts=parts,
            unfinished=tuple(unfinished),
            sources=SourceList.of([part.evidence for part in parts]),
            image_store=ImageStore.of(hashes, read),
            links=links,
        )

    @cached_property
    def html(self) -> str:
        """A page that needs no other file, runs no script and fetches nothing."""
        figures = [Figures(run, self.image_store) for run in self.runs]
        table = RunTable.of(self.runs)
        return render_page("report.html.jinja", report=self, figures=figures, table=table)

    def markdown(self, pictures: str = "") -> MarkdownReport:
        """Write Markdown with the files of its images.

        `pictures` is the folder of these files, relative to the Markdown file; if empty, the images are in
        the text itself, as data at its end, and there are no files.
        """
        files: dict[str, bytes] = {}
        embedded: dict[str, StoredImage] = {}

        def picture(sha256: str, alt: str) -> str:
            """Return the image of a hash, or why there is none."""
            stored = self.image_store.stored_images.get(sha256)
            if stored is None:
                return inline(f"({alt}: {self.image_store.missing.get(sha256, 'no picture')})")
            if not pictures:
                embedded[stored.id] = stored
                return f"![{inline(alt)}][{stored.id}]"
            name = f"{sha256[:16]}.jpg"
            files[name] = stored.data
            return image(alt, f"{pictures}/{name}")

        def picture_of(evidence: Evidence, run: RunView) -> str:
            """Return the part, or else the page; empty for a passage, which has no image."""
            page, _ = run.images_of(evidence)
            sha256 = evidence.crop_sha256 or (page.sha256 if page else None)
            return picture(sha256, _in_text(evidence.document, extent(evidence))) if sha256 else ""

        def cite(question: int, number: int) -> str:
            """Return the marker of a piece of evidence, as a link to the part with its evidence."""
            heading = "evidence-of-question" if self.parts[question - 1].has_text else "question"
            return f"[\\[{self.label(question)}{number}\\]](#{heading}-{question})"

        answers: list[str] = []

        def cited_answer(part: ReportPart) -> Markup:
            """Return a place for an answer, whose empty lines remain: no other text has null characters."""
            answer = sign_answer(part.run_view.result, is_quote=part.run_view.is_without_model)
            answers.append(write_markdown(answer, lambda number: cite(part.number, number)))
            return Markup(f"\0{len(answers) - 1}\0")  # noqa: S704 - a number

        text = render_page(
            "report.md.jinja",
            report=self,
            cite=cite,
            cited_answer=cited_answer,
            table=RunTable.of(self.runs),
            picture=picture,
            picture_of=picture_of,
            in_text=_in_text,
            attached=ATTACHED,
            embedded=embedded,
        )
        blocks = re.sub(r"\n{3,}", "\n\n", text).strip()
        blocks = re.sub(r"\0(\d+)\0", lambda place: answers[int(place[1])], blocks)
        return MarkdownReport(f"{blocks}\n", files, len(files) + len(embedded))

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

    def links_of(self, part: ReportPart, number: int) -> list[PlaceLink]:
        """Return the links of a piece of evidence to its place."""
        return self.links.of(part.run_view.started.run_id, number, self.label(part.number))

    def label(self, question: int) -> str:
        """Return what stands before the numbers of the evidence of a question."""
        return f"{question}." if len(self.parts) > 1 else ""


def report_of(
    runs: Sequence[StoredRun],
    *,
    title: str = "",
    unfinished: Sequence[str] = (),
    created: float | None = None,
    links: PlaceLinks = NO_LINKS,
) -> Report:
    """Return the report of stored runs, with their images; see `Report.of`.

    Args:
        runs: In the order of the report. They need not have an end.
        title: Title; by default the question, or the number of questions.
        unfinished: Questions that belong to the report and were not asked to the end.
        created: Date in seconds since 1970; now by default.
        links: The addresses at which its places open.

    Raises:
        ValueError: If there are no runs.
        RunError: If the events of one do not begin with the start of a run.
    """
    views = [RunView.of_run(run) for run in runs]
    read = image_reader(runs)
    return Report.of(views, read, title=title, unfinished=unfinished, created=created, links=links)


def _is_bare_page(evidence: Evidence) -> bool:
    """Return whether it is a whole page without a quote."""
    return not evidence.quote and evidence.box is not None and is_whole(evidence.box)


def _in_text(document: str, place: str) -> str:
    """Return a place within a sentence."""
    return f"{document}, {place[:1].lower()}{place[1:]}"
