"""The report of an evaluation: HTML to browse, Markdown to paste, JSON to go on with."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vrag import __version__
from vrag.evaluation.report.case_list import ThumbnailSource, entries_of
from vrag.evaluation.report.evaluation_markdown import markdown_of
from vrag.evaluation.report.evaluation_page import html_of
from vrag.evaluation.report.thumbnails import Thumbnails
from vrag.evaluation.statistics.estimates import Overview, drawing_of, overview_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from PIL.Image import Image

    from vrag.agent.runs.run_store import RunStore
    from vrag.evaluation.record import CaseRecord
    from vrag.evaluation.report.case_list import CaseEntry

__all__ = ["ReportPage", "report_page"]


@dataclass(frozen=True)
class ReportPage:
    """All that the report of an evaluation tells."""

    title: str
    overview: Overview
    summary: Mapping[str, Any]
    """The JSON of the same numbers, as it was given."""
    entries: tuple[CaseEntry, ...]
    """In the order of the records."""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    """What was run, by name: model, judge, settings, seeds, revision of the data."""
    notes: tuple[str, ...] = ()
    """What was dropped or mended, in sentences."""
    thumbnails: Thumbnails = field(default_factory=Thumbnails)
    reported: Mapping[str, Sequence[str]] = field(default_factory=dict[str, "Sequence[str]"])
    """By benchmark, the measures that its authors report, their main one first."""
    runs: str = ""
    """Where the files of runs lie, relative to the page, for links; empty where they are not linked."""
    unfinished: str = ""
    """How far it came, in a sentence, where it was stopped."""
    made: float = 0.0
    """When, in seconds since 1970, UTC."""

    @cached_property
    def html(self) -> str:
        """One page that needs no other file."""
        return html_of(self)

    @cached_property
    def markdown(self) -> str:
        """The numbers, without the cases."""
        return markdown_of(self)

    def as_dict(self) -> dict[str, Any]:
        """What is written as JSON: what was run, the summary as it was given, and all records."""
        return {
            "title": self.title,
            "made": self.made,
            "written_by": f"vrag {__version__}",
            "unfinished": self.unfinished,
            "settings": dict(self.facts),
            "notes": list(self.notes),
            "summary": dict(self.summary),
            "records": [entry.sides[0].record.model_dump(mode="json") for entry in self.entries],
        }


def report_page(  # noqa: PLR0913 - all but the first three may be left out
    title: str,
    records: Sequence[CaseRecord],
    summary: Mapping[str, Any],
    *,
    facts: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    reported: Mapping[str, Sequence[str]] | None = None,
    store: RunStore | None = None,
    page_image: Callable[[str, int], Image | None] | None = None,
    thumbnails: Thumbnails | None = None,
    runs: str = "runs",
    unfinished: str = "",
    made: float | None = None,
) -> ReportPage:
    """Gathers the report of an evaluation.

    Args:
        title: What was evaluated.
        records: How each question went.
        summary: What the summary of these records writes as JSON.
        facts: What was run, by name.
        notes: What was dropped or mended.
        reported: By benchmark, the measures that its authors report.
        store: Where the runs lie, for steps and pictures of pages; a run that cannot be read is left out.
        page_image: Gives the picture of a page by file name and number from 1, or None: for pages that no run
            was shown.
        thumbnails: How large pictures are, and how many bytes they may take.
        runs: Where the runs lie, relative to the page; empty for no links.
        unfinished: How far it came, in a sentence, where it was stopped.
        made: When, in seconds since 1970; now when None.
    """
    gathered = thumbnails or Thumbnails()
    thumbnail_source = ThumbnailSource(gathered, page_image)
    drawn = drawing_of(summary.get("intervals"))
    return ReportPage(
        title=" ".join(title.split()) or "Evaluation",
        overview=overview_of(summary),
        summary=summary,
        entries=entries_of(records, thumbnail_source, store),
        facts={**(facts or {}), **({"intervals": drawn} if drawn else {})},
        notes=tuple(notes),
        reported=dict(reported or {}),
        thumbnails=gathered,
        runs=runs if store is not None else "",
        unfinished=unfinished,
        made=time.time() if made is None else made,
    )
