"""The report of a comparison: HTML to browse, Markdown to paste, JSON for other programs."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vrag import __version__
from vrag.evaluation.intervals import LEVEL
from vrag.evaluation.record import CaseOutcome
from vrag.evaluation.report.case_list import ThumbnailSource, pairs_of
from vrag.evaluation.report.evaluation_report import intervals_text
from vrag.evaluation.report.images import Thumbnails, scatter
from vrag.evaluation.report.labels import (
    CELLS,
    families,
    is_share,
    label_of,
    signed_text,
)
from vrag.evaluation.report.rendering import render_html, render_markdown
from vrag.text.numerals import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from markupsafe import Markup
    from PIL.Image import Image

    from vrag.agent.runs.run_store import RunStore
    from vrag.evaluation.comparison import Comparison, MetricComparison
    from vrag.evaluation.record import CaseRecord
    from vrag.evaluation.report.case_list import CaseEntry

_OPEN = "open"
"""Questions without two verdicts."""
_CELL_NAMES = {**CELLS, _OPEN: "Without two verdicts"}
_CELL_KINDS = {"both": "good", "a": "side-a", "b": "side-b", "neither": "bad", _OPEN: "fair"}
_PLOTTED = (
    "ndcg@10",
    "f1",
    "anls",
    "iou",
    "seen_recall",
    "turns",
    "seconds",
    "completion_tokens",
    "prompt_tokens",
)
"""Measures of which A is drawn against B, in order, where they have at least `_MIN_VALUES` values."""
_MAX_PLOTS, _MIN_VALUES = 6, 5


@dataclass(frozen=True)
class ComparisonPage:
    """The content of the report of a comparison."""

    title: str
    comparison: Comparison
    entries: tuple[CaseEntry, ...]
    """The questions that both have, in the order of A."""
    facts: tuple[Mapping[str, str], Mapping[str, str]] = field(default_factory=lambda: ({}, {}))
    """Settings of A and of B, by name."""
    notes: tuple[str, ...] = ()
    """Sentences about what was dropped or corrected."""
    thumbnails: Thumbnails = field(default_factory=Thumbnails)
    runs: tuple[str, str] = ("", "")
    """Folders of the files of runs, relative to the page; empty where they are not there."""
    made: float = 0.0
    """Time of writing, in seconds since 1970, UTC."""

    @property
    def names(self) -> tuple[str, str]:
        """Names of A and B."""
        return self.comparison.a, self.comparison.b

    @property
    def cells(self) -> dict[str, int]:
        """Number of questions by cell (`cell_of`); those without two verdicts are in none."""
        counts = Counter(entry.cell for entry in self.entries)
        return {name: counts[name] for name in CELLS}

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on the result: no difference, effect of missing verdicts, caution about the headline."""
        comparison, headline = self.comparison, self.comparison.headline
        sentences: list[str] = []
        if comparison.identical:
            sentences.append("The two do not differ on any question.")
        if comparison.bracket:
            ends = comparison.bracket.worst_for_a.difference, comparison.bracket.worst_for_b.difference
            low, high = (signed_text("", end) for end in (min(ends), max(ends)))
            sentences.append(
                f"With the missing verdicts the difference could lie anywhere from {low} to {high}."
            )
        if headline.remark and not comparison.identical:
            sentences.append(f"{label_of(headline.measure)}: {headline.remark}.")
        return tuple(sentences)

    @cached_property
    def html(self) -> str:
        """One page that needs no other file."""
        cells = {**self.cells, _OPEN: len(self.entries) - sum(self.cells.values())}
        named = {_CELL_NAMES[name]: n for name, n in cells.items()}
        plots = list(self._plots())[:_MAX_PLOTS]
        sections = {"Groups": self.groups, "Scatter": plots}
        return render_html(
            "comparison.html",
            self.entries,
            self.thumbnails,
            names=self.names,
            runs=self.runs,
            page=self,
            size=f"{count(len(self.entries), 'question')} that both have",
            sections=["Result", "Measures", *filter(sections.get, sections), "Settings", "Cases"],
            cells=cells,
            cell_names=_CELL_NAMES,
            cell_kinds={_CELL_NAMES[name]: kind for name, kind in _CELL_KINDS.items()},
            named_cells=named,
            named_cells_text=", ".join(f"{n:,} {name.lower()}" for name, n in named.items()),
            gaps=list(self._gaps()),
            reach=_reach,
            plots=plots,
        )

    def _gaps(self) -> Iterator[tuple[str, bool]]:
        """Yield sentences on missing results and remarks, each with whether it is about failures."""
        counts = [Counter(entry.sides[at].record.outcome for entry in self.entries) for at in (0, 1)]
        a, b = (outcomes[CaseOutcome.UNJUDGED] for outcomes in counts)
        if a or b:
            yield (
                f"Without a verdict: {a:,} of A, {b:,} of B. These questions are left out of accuracy.",
                False,
            )
        a, b = (outcomes[CaseOutcome.FAILED] for outcomes in counts)
        if a or b:
            yield f"Broke off: {count(a, 'run')} of A, {b:,} of B. They count as wrong.", True
        pairing = self.comparison.pairing
        for name, alone in (("A", pairing.only_a), ("B", pairing.only_b)):
            if alone:
                yield f"{count(len(alone), 'question')} only {name} has: left out.", False
        yield from ((remark, False) for remark in self.remarks)

    @property
    def measures(self) -> dict[str, list[tuple[str, MetricComparison]]]:
        """Labels and differences of all questions, by family of measures."""
        by_measure = {contrast.measure: contrast for contrast in self.comparison.contrasts}
        return {
            family: [(label_of(name), by_measure[name]) for name in names]
            for family, names in families(by_measure).items()
        }

    @property
    def groups(self) -> dict[tuple[str, str], list[tuple[str, MetricComparison]]]:
        """Labels and differences by kind of group and measure."""
        groups: dict[tuple[str, str], list[tuple[str, MetricComparison]]] = {}
        for group in self.comparison.groups:
            for contrast in group.contrasts:
                groups.setdefault((group.kind, contrast.measure), []).append((group.label, contrast))
        return groups

    def _plots(self) -> Iterator[Markup]:
        for name in _PLOTTED:
            sides = (tuple(side.record.measures.get(name) for side in entry.sides) for entry in self.entries)
            points = [(a, b) for a, b in sides if a is not None and b is not None]
            drawing = scatter(name, points) if len(set(points)) >= _MIN_VALUES else None
            if drawing is not None:
                yield drawing

    @property
    def settings(self) -> dict[str, tuple[str, str]]:
        """Settings of both by name; empty where one has none."""
        a, b = self.facts
        return {name: (a.get(name, ""), b.get(name, "")) for name in dict.fromkeys((*a, *b))}

    @cached_property
    def markdown(self) -> str:
        """The numbers, without the cases."""
        return render_markdown("comparison.md.jinja", self)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the report: settings, the comparison, and all pairs of records."""
        return {
            "title": self.title,
            "made": self.made,
            "written_by": f"vrag {__version__}",
            "names": list(self.names),
            "settings": [dict(facts) for facts in self.facts],
            "notes": list(self.notes),
            "intervals": {
                "level": LEVEL,
                "resamples": self.comparison.resamples,
                "seed": self.comparison.seed,
            },
            "comparison": self.comparison.as_dict(),
            "pairs": [
                [side.record.model_dump(mode="json") for side in entry.sides] for entry in self.entries
            ],
        }


def _reach(row: MetricComparison, rows: Sequence[tuple[str, MetricComparison]]) -> float:
    """Return half the width of a drawing: shares are drawn alike, all else for itself."""
    shares = is_share(row.measure)
    alike = [
        other for _, other in rows if other.measure == row.measure or (shares and is_share(other.measure))
    ]
    differences = [abs(other.difference) for other in alike]
    intervals = [other.interval for other in alike if other.interval]
    return max([*differences, *(max(abs(each.low), abs(each.high)) for each in intervals), 1e-9])


def comparison_page(  # noqa: PLR0913 - all but the first three may be left out
    comparison: Comparison,
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
    """Gather the report of a comparison of the records `a` and `b`; see `ComparisonPage` and `report_page`.

    The title is made of the names of both if empty; `stores` are the runs of both.
    """
    gathered = thumbnails or Thumbnails()
    intervals = {"intervals": intervals_text(LEVEL, comparison.resamples, comparison.seed)}
    given = facts or ({}, {})
    return ComparisonPage(
        title=" ".join(title.split()) or f"{comparison.a} and {comparison.b}",
        comparison=comparison,
        entries=pairs_of(a, b, ThumbnailSource(gathered, page_image), stores),
        facts=({**given[0], **intervals}, {**given[1], **intervals}),
        notes=tuple(notes),
        thumbnails=gathered,
        runs=runs,
        made=time.time() if made is None else made,
    )
