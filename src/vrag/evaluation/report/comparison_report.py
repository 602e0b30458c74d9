"""The report of a comparison: HTML to browse, Markdown to paste, JSON to go on with."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vrag import __version__
from vrag.evaluation.report.case_list import ThumbnailSource, pairs_of
from vrag.evaluation.report.comparison_markdown import markdown_of
from vrag.evaluation.report.comparison_page import html_of
from vrag.evaluation.report.labels import label_of, signed_text
from vrag.evaluation.report.thumbnails import Thumbnails
from vrag.evaluation.statistics.estimates import differences_of, drawing_of, grouped_differences_of
from vrag.evaluation.statistics.intervals import LEVEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from PIL.Image import Image

    from vrag.agent.runs.run_store import RunStore
    from vrag.evaluation.record import CaseRecord
    from vrag.evaluation.report.case_list import CaseEntry
    from vrag.evaluation.statistics.estimates import EstimateDifference

__all__ = ["ComparisonPage", "comparison_page"]


@dataclass(frozen=True)
class ComparisonPage:
    """All that the report of a comparison tells."""

    title: str
    names: tuple[str, str]
    """Of A and B."""
    comparison: Mapping[str, Any]
    """Its JSON, as it was given."""
    differences: Mapping[str, EstimateDifference]
    """By measure, the headline first."""
    groups: Mapping[str, Mapping[str, Mapping[str, EstimateDifference]]]
    """By kind of group, label and measure."""
    entries: tuple[CaseEntry, ...]
    """The questions that both have, in the order of A."""
    alone: tuple[int, int] = (0, 0)
    """Questions that only A has, and only B."""
    facts: tuple[Mapping[str, str], Mapping[str, str]] = field(default_factory=lambda: ({}, {}))
    """What was run, by name, in A and in B."""
    remarks: tuple[str, ...] = ()
    """What is to be known of the numbers, in sentences."""
    notes: tuple[str, ...] = ()
    """What was dropped or mended, in sentences."""
    thumbnails: Thumbnails = field(default_factory=Thumbnails)
    runs: tuple[str, str] = ("", "")
    """Where the files of runs lie, relative to the page; empty where they are not linked."""
    made: float = 0.0
    """When, in seconds since 1970, UTC."""

    @property
    def cells(self) -> dict[str, int]:
        """Questions by what both made of them, as `cell_of` names it; those without two verdicts in none."""
        counts = Counter(entry.cell for entry in self.entries)
        return {name: counts[name] for name in ("both", "a", "b", "neither")}

    @cached_property
    def html(self) -> str:
        """One page that needs no other file."""
        return html_of(self)

    @cached_property
    def markdown(self) -> str:
        """The numbers, without the cases."""
        return markdown_of(self)

    def as_dict(self) -> dict[str, Any]:
        """What is written as JSON: what was run, the comparison as it was given, and all pairs of records."""
        return {
            "title": self.title,
            "made": self.made,
            "written_by": f"vrag {__version__}",
            "names": list(self.names),
            "settings": [dict(facts) for facts in self.facts],
            "notes": list(self.notes),
            "intervals": _intervals(self.comparison),
            "comparison": dict(self.comparison),
            "pairs": [
                [side.record.model_dump(mode="json") for side in entry.sides] for entry in self.entries
            ],
        }


def comparison_page(  # noqa: PLR0913 - all but the first three may be left out
    comparison: Mapping[str, Any],
    a: Sequence[CaseRecord],
    b: Sequence[CaseRecord],
    *,
    title: str = "",
    facts: tuple[Mapping[str, str], Mapping[str, str]] | None = None,
    notes: Sequence[str] = (),
    stores: tuple[RunStore | None, RunStore | None] = (None, None),
    page_image: Callable[[str, int], Image | None] | None = None,
    thumbnails: Thumbnails | None = None,
    runs: tuple[str, str] = ("", ""),
    made: float | None = None,
) -> ComparisonPage:
    """Gathers the report of a comparison.

    Args:
        comparison: What the comparison of these records writes as JSON.
        a: Records of the first run.
        b: Records of the second.
        title: Of the page; the names of both when empty.
        facts: What was run, by name, in A and in B.
        notes: What was dropped or mended.
        stores: Where the runs of A and of B lie.
        page_image: As of `report_page`.
        thumbnails: As of `report_page`.
        runs: Where the runs of A and of B lie, relative to the page; empty for no links.
        made: When, in seconds since 1970; now when None.
    """
    gathered = thumbnails or Thumbnails()
    names = _text(comparison, "a", "A"), _text(comparison, "b", "B")
    differences = differences_of(comparison.get("measures"))
    entries = pairs_of(a, b, ThumbnailSource(gathered, page_image), stores)
    return ComparisonPage(
        title=" ".join(title.split()) or f"{names[0]} and {names[1]}",
        names=names,
        comparison=comparison,
        differences=differences,
        groups=grouped_differences_of(comparison.get("groups")),
        entries=entries,
        alone=(len(a) - len(entries), len(b) - len(entries)),
        facts=_facts(facts or ({}, {}), _intervals(comparison)),
        remarks=tuple(_remarks(comparison, differences)),
        notes=tuple(notes),
        thumbnails=gathered,
        runs=runs,
        made=time.time() if made is None else made,
    )


def _remarks(comparison: Mapping[str, Any], differences: Mapping[str, EstimateDifference]) -> list[str]:
    """Whether they are alike, what missing verdicts could change, and what is said of the headline."""
    told = ["The two do not differ on any question."] if comparison.get("identical") is True else []
    ends = [one.difference for one in differences_of(comparison.get("bracket")).values()]
    if ends:
        low, high = (signed_text("", end) for end in (min(ends), max(ends)))
        told.append(f"With the missing verdicts the difference could lie anywhere from {low} to {high}.")
    name, headline = next(iter(differences.items()), ("", None))
    if headline is None or not headline.remark or comparison.get("identical") is True:
        return told
    return [*told, f"{label_of(name)}: {headline.remark}."]


def _intervals(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """How intervals were made; what is not known of it is not in it."""
    known = {name: comparison[name] for name in ("resamples", "seed") if name in comparison}
    return {"level": LEVEL, **known}


def _facts(
    facts: tuple[Mapping[str, str], Mapping[str, str]], intervals: Mapping[str, Any]
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    drawn = drawing_of(intervals)
    told = {"intervals": drawn} if drawn else {}
    return {**facts[0], **told}, {**facts[1], **told}


def _text(part: Mapping[str, Any], name: str, usual: str) -> str:
    found = part.get(name)
    return " ".join(found.split()) or usual if isinstance(found, str) else usual
