"""Several runs as one document: each question with its answer, and places numbered over the whole of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from vrag.agent.citations import Citations, citations, is_whole
from vrag.render.citation_numbers import SourceNumbers
from vrag.render.report_html import html_of
from vrag.render.report_markdown import MarkdownReport, written
from vrag.render.run_page.answer import pictured
from vrag.render.run_page.image_store import ImageStore
from vrag.render.run_page.run_view import RunView
from vrag.render.text_format import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vrag.agent.events import Event
    from vrag.agent.evidence import Evidence
    from vrag.agent.runs.run_store import StoredRun

__all__ = ["Report", "ReportPart", "report", "report_of"]


@dataclass(frozen=True)
class ReportPart:
    """A question of a report."""

    number: int
    """From 1."""
    run_view: RunView
    """Its run."""

    @cached_property
    def evidence(self) -> tuple[Evidence, ...]:
        """What its answer rests on; of an abstention, where the agent looked."""
        return self._cited.rests

    @property
    def besides(self) -> tuple[Evidence, ...]:
        """What was looked at besides."""
        return self._cited.besides

    @cached_property
    def _cited(self) -> Citations:
        evidence = self.run_view.answer.evidence if self.run_view.answer else ()
        return citations(evidence, self.run_view.settings, answered=self.answered)

    @property
    def closeups(self) -> tuple[Evidence, ...]:
        """Parts of pages, passages, and what else comes with its words: each once, whoever remembers it."""
        return _each(one for one in self.evidence if not _bare(one))

    @property
    def pages(self) -> tuple[Evidence, ...]:
        """Whole pages, each once: only those of which no part is shown."""
        parts = {_item(one) for one in self.closeups}
        return _each(one for one in self.evidence if _bare(one) and _item(one) not in parts)

    @property
    def figures(self) -> tuple[Evidence, ...]:
        """All evidence that is shown, in the order in which it is."""
        return self.closeups + self.pages

    @property
    def before(self) -> str:
        """What was asked before it in the same conversation; empty for the first question of one."""
        return " – ".join(exchange.question for exchange in self.run_view.started.history)

    @property
    def answered(self) -> bool:
        """Whether there is an answer."""
        return self.run_view.answer is not None and self.run_view.answer.text is not None


@dataclass(frozen=True)
class Report:
    """A document of several questions, ready to be written down."""

    title: str
    made: float
    """When, in seconds since 1970, UTC."""
    parts: tuple[ReportPart, ...]
    left: tuple[str, ...]
    """Questions that were to be in it, and were not asked to the end."""
    sources: SourceNumbers
    image_store: ImageStore
    """The pictures of all evidence."""

    @cached_property
    def html(self) -> str:
        """One page that needs no other file, runs no script and fetches nothing."""
        return html_of(self)

    def markdown(self, pictures: str = "") -> MarkdownReport:
        """Markdown, and the files of its pictures.

        Args:
            pictures: The folder in which these files will lie, relative to the Markdown file; when empty,
                the pictures are in the text itself, as data at its end, and there are no files.
        """
        return written(self, pictures)

    @property
    def stories(self) -> tuple[RunView, ...]:
        """The runs."""
        return tuple(part.run_view for part in self.parts)

    @property
    def told(self) -> str:
        """What became of the questions, in words."""
        answered = sum(part.answered for part in self.parts)
        told = [count(len(self.parts), "question"), f"{answered} answered"]
        running = sum(part.run_view.under_way for part in self.parts)
        interrupted = sum(part.run_view.stop_reason is None for part in self.parts) - running
        rest = len(self.parts) - answered - interrupted - running
        told += [f"{rest} without an answer"] if rest else []
        told += [f"{interrupted} interrupted"] if interrupted else []
        told += [f"{running} still running"] if running else []
        return ", ".join(told + ([f"{len(self.left)} not asked to the end"] if self.left else []))


def report_of(
    runs: Sequence[StoredRun], *, title: str = "", left: Sequence[str] = (), made: float | None = None
) -> Report:
    """The report of runs, with the pictures that lie with them.

    Args:
        runs: In the order in which they are told. They need not have an end.
        title: Of the report; one that says what it is when empty.
        left: Questions that were to be in it, and were not asked to the end.
        made: When, in seconds since 1970; now when None.

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

    return _report([RunView.of_run(run) for run in runs], read, title=title, left=left, made=made)


def report(
    runs: Sequence[Sequence[Event]],
    read: Callable[[str], bytes | None],
    *,
    title: str = "",
    left: Sequence[str] = (),
    made: float | None = None,
) -> Report:
    """The report of the events of runs.

    Args:
        runs: The events of each.
        read: Gives the JPEG file of a hash, or None where there is none.
        title: As of `report_of`.
        left: As there.
        made: As there.

    Raises:
        ValueError: If there are no runs.
        RunError: If the events of one do not begin with the start of a run.
    """
    return _report([RunView.of(events) for events in runs], read, title=title, left=left, made=made)


def _report(
    stories: Sequence[RunView],
    read: Callable[[str], bytes | None],
    *,
    title: str,
    left: Sequence[str],
    made: float | None,
) -> Report:
    if not stories:
        raise ValueError("a report needs a run")
    parts = tuple(ReportPart(number, run_view) for number, run_view in enumerate(stories, 1))
    return Report(
        title=" ".join(title.split()) or _title(parts),
        made=time.time() if made is None else made,
        parts=parts,
        left=tuple(left),
        sources=SourceNumbers.of([part.evidence for part in parts]),
        image_store=ImageStore.of(_hashes(parts), read),
    )


def _bare(evidence: Evidence) -> bool:
    """Whether it is a whole page and nothing else."""
    return not evidence.quote and evidence.box is not None and is_whole(evidence.box)


def _item(evidence: Evidence) -> tuple[str, tuple[float, float] | None]:
    return evidence.item, evidence.seconds


def _each(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Each place once, as it comes up first."""
    places: dict[object, Evidence] = {}
    for one in evidence:
        places.setdefault((*_item(one), one.box), one)
    return tuple(places.values())


def _title(parts: Sequence[ReportPart]) -> str:
    """The question, where there is one; else how many there are."""
    first = " ".join(parts[0].run_view.started.question.split())
    return first if len(parts) == 1 else f"{count(len(parts), 'question')} to the documents"


def _hashes(parts: Sequence[ReportPart]) -> Iterator[str]:
    """Of the pictures of all evidence, in order."""
    for part in parts:
        yield from part.run_view.started.attached
        for evidence in part.evidence:
            shown = [picture for picture in pictured(evidence, part.run_view) if picture is not None]
            yield from (picture.sha256 for picture in shown)
            if not shown and evidence.crop_sha256:
                yield evidence.crop_sha256
