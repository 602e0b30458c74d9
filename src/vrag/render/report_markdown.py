"""A report as Markdown: text that any editor opens, with its pictures beside it or in it."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vrag import __version__
from vrag.render.citation_numbers import besides, extent
from vrag.render.markdown import bullets, image, inline, link, paragraph, quoted, table
from vrag.render.outcome import ATTACHED, outcome
from vrag.render.run_facts import RunTable
from vrag.render.run_page.answer import pictured, where
from vrag.render.text_format import when

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.agent.evidence import Evidence
    from vrag.render.report import Report, ReportPart

__all__ = ["MarkdownReport", "written"]

ABREAST = 3
"""Whole pages beside each other."""


class MarkdownReport(NamedTuple):
    """A document of Markdown, and the files that it shows."""

    text: str
    files: dict[str, bytes]
    """JPEG files by name; none when the pictures are in the text."""
    pictures: int
    """Beside the text or in it."""


def written(report: Report, folder: str) -> MarkdownReport:
    """Writes a report.

    Args:
        report: What is written.
        folder: Where its pictures will lie; empty to have them in the text.
    """
    shelf = _ReportPictures(report, folder)
    blocks = (
        f"# {inline(report.title)}",
        f"Written {when(report.made)} by vrag {__version__}: {report.told}.",
        *_contents(report),
        *(block for part in report.parts for block in _part(part, report, shelf)),
        *_left(report),
        *_sources(report),
        *_making(report),
    )
    text = "\n\n".join([*blocks, *shelf.definitions()])
    return MarkdownReport(f"{text}\n", shelf.files, len(shelf.files) + len(shelf.inside))


@dataclass
class _ReportPictures:
    """The pictures of a report, as Markdown names them."""

    report: Report
    folder: str
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    inside: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """By the name of their definition."""

    def picture(self, sha256: str, alt: str) -> str:
        """The picture of a hash, or why there is none."""
        stored_image = self.report.image_store.stored_images.get(sha256)
        if stored_image is None:
            return inline(f"({alt}: {self.report.image_store.missing.get(sha256, 'no picture')})")
        if not self.folder:
            self.inside[stored_image.id] = stored_image.data
            return f"![{inline(alt)}][{stored_image.id}]"
        name = f"{sha256[:16]}.jpg"
        self.files[name] = stored_image.data
        return image(alt, f"{self.folder}/{name}")

    def definitions(self) -> list[str]:
        """The pictures that are in the text, at its end."""
        lines = (
            f"[{name}]: data:image/jpeg;base64,{base64.b64encode(data).decode()}"
            for name, data in self.inside.items()
        )
        return ["\n".join(lines)] if self.inside else []


def _contents(report: Report) -> Iterator[str]:
    if len(report.parts) > 1:
        yield "## Contents"
        yield "\n".join(
            f"{part.number}. {link(part.run_view.started.question, f'question-{part.number}')}"
            f" – {outcome(part.run_view).name}"
            for part in report.parts
        )


def _part(part: ReportPart, report: Report, shelf: _ReportPictures) -> Iterator[str]:
    ended, numbers = outcome(part.run_view), [report.sources.number(one) for one in part.evidence]
    cited = "".join(f" {_cited(number)}" for number in dict.fromkeys(numbers)) if part.answered else ""
    yield f"## Question {part.number}"
    yield f"**{inline(part.run_view.started.question)}**"
    for sha256 in part.run_view.started.attached:
        yield shelf.picture(sha256, ATTACHED)
    if part.before:
        yield f"Asked after: {inline(part.before)}"
    yield paragraph(ended.text, cited) if part.answered else f"{ended.name}. {paragraph(ended.text)}"
    if ended.note:
        yield f"*{inline(ended.note)}*"
    for notice in part.run_view.started.notices:
        yield f"*{inline(notice)}*"
    if part.evidence and not part.answered:
        yield "Where the agent looked:"
    for evidence in part.closeups:
        yield from _closeup(report.sources.number(evidence), evidence, part, shelf)
    for start in range(0, len(part.pages), ABREAST):
        yield _pages(part.pages[start : start + ABREAST], part, report, shelf)
    if part.besides:
        yield f"Also looked at: {inline(besides(part.besides))}."
    if part.run_view.answer and part.run_view.answer.unsupported:
        yield "Left out, since it no longer agrees with the collection:"
        yield bullets(map(inline, part.run_view.answer.unsupported))


def _closeup(number: int, evidence: Evidence, part: ReportPart, shelf: _ReportPictures) -> Iterator[str]:
    """What was seen at a place: its picture, where it is, the words there."""
    if picture := _picture(evidence, part, shelf):
        yield picture
    yield f"{_cited(number)} {inline(_place(evidence.document, extent(evidence)))}"
    if evidence.quote:
        yield quoted(evidence.quote)


def _pages(pages: Sequence[Evidence], part: ReportPart, report: Report, shelf: _ReportPictures) -> str:
    """Whole pages beside each other, which makes them small."""
    heads = [
        f"{_cited(report.sources.number(one))} {inline(_place(one.document, where(one)))}" for one in pages
    ]
    return table(heads, [[_picture(one, part, shelf) for one in pages]])


def _picture(evidence: Evidence, part: ReportPart, shelf: _ReportPictures) -> str:
    """The part as it was shown, or else the page; empty for a passage, which has none."""
    page, closer = pictured(evidence, part.run_view)
    shown = closer or page
    sha256 = shown.sha256 if shown else evidence.crop_sha256
    return shelf.picture(sha256, _place(evidence.document, extent(evidence))) if sha256 else ""


def _place(document: str, where: str) -> str:
    """A place in running text."""
    return f"{document}, {where[:1].lower()}{where[1:]}"


def _cited(number: int) -> str:
    return f"[\\[{number}\\]](#sources)"


def _left(report: Report) -> Iterator[str]:
    if report.left:
        yield "## Not asked to the end"
        yield bullets(map(inline, report.left))


def _sources(report: Report) -> Iterator[str]:
    if report.sources.listed:
        yield "## Sources"
        yield "\n".join(
            f"{one.number}. {inline(_place(one.document, one.where))}"
            f" ({', '.join(link(f'question {n}', f'question-{n}') for n in one.questions)})"
            for one in report.sources.listed
        )


def _making(report: Report) -> Iterator[str]:
    made = RunTable.of(report.stories)
    yield "## How this was made"
    if made.shared:
        yield bullets(f"{name.capitalize()}: {inline(value)}" for name, value in made.shared.items())
    rows = [(str(number), *map(inline, row)) for number, row in enumerate(made.rows, 1)]
    rows += [("All", *made.together)] if made.together else []
    yield table(("Question", *(name.capitalize() for name in made.columns)), rows)
