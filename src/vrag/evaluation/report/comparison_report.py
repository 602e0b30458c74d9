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
from vrag.evaluation.report.evaluation_report import facts_markdown, intervals_text
from vrag.evaluation.report.images import Thumbnails, scatter
from vrag.evaluation.report.labels import (
    CELLS,
    families,
    grouping_name,
    is_share,
    label_of,
    p_text,
    signed_text,
    value_text,
)
from vrag.evaluation.report.rendering import render_html
from vrag.render.markup import bullets, inline, table
from vrag.render.text_format import count, when

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
    *("ndcg@10", "f1", "anls", "iou", "seen_recall"),
    *("turns", "seconds", "completion_tokens", "prompt_tokens"),
)
"""Measures of which A is drawn against B, in order, where they have at least `_MIN_VALUES` values."""
_MAX_PLOTS, _MIN_VALUES = 6, 5
_HEADS = ("A", "B", "B − A", "95 %", "p", "n")


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
    """Folders of the files of runs, relative to the page; empty where they are not linked."""
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
        groups, plots, settings = self._groups(), list(self._plots())[:_MAX_PLOTS], self._settings()
        sections = {"Groups": groups, "Scatter": plots}
        by_measure = {contrast.measure: contrast for contrast in self.comparison.contrasts}
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
            measures={
                family: [(label_of(name), by_measure[name]) for name in names]
                for family, names in families(by_measure).items()
            },
            groups=groups,
            reach=_reach,
            plots=plots,
            settings=settings,
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

    def _groups(self) -> dict[tuple[str, str], list[tuple[str, MetricComparison]]]:
        """Return labels and differences by kind of group and measure."""
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

    def _settings(self) -> dict[str, tuple[str, str]]:
        a, b = self.facts
        return {name: (a.get(name, ""), b.get(name, "")) for name in dict.fromkeys((*a, *b))}

    @cached_property
    def markdown(self) -> str:
        """The numbers, without the cases."""
        cells = " · ".join(
            f"**{n:,}** {CELLS[name][0].lower()}{CELLS[name][1:]}" for name, n in self.cells.items()
        )
        without = len(self.entries) - sum(self.cells.values())
        blocks = [
            f"# {inline(self.title)}",
            f"{count(len(self.entries), 'question')} that both have · {when(self.made)}",
            bullets(f"{letter}: {inline(name)}" for letter, name in zip("AB", self.names, strict=True)),
            f"{cells} · **{without:,}** without two verdicts",
            *map(inline, self.remarks),
            *self._markdown_tables(),
            *facts_markdown({}, self.notes),
            f"Written by vrag {__version__}.",
        ]
        return "\n\n".join(blocks) + "\n"

    def _markdown_tables(self) -> Iterator[str]:
        by_measure = {contrast.measure: contrast for contrast in self.comparison.contrasts}
        for family, names in families(by_measure).items():
            rows = (_row(label_of(name), by_measure[name]) for name in names)
            yield f"## {family}\n\n{table(('Measure', *_HEADS), rows)}"
        for (kind, measure), groups in self._groups().items():
            title = f"## {inline(label_of(measure))} by {inline(grouping_name(kind).lower())}"
            rows = (_row(label, contrast) for label, contrast in groups)
            yield f"{title}\n\n{table((inline(grouping_name(kind)), *_HEADS), rows)}"
        settings = self._settings()
        if settings:
            rows = ((inline(name), inline(a) or "–", inline(b) or "–") for name, (a, b) in settings.items())
            yield f"## How they were run\n\n{table(('', 'A', 'B'), rows)}"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON: settings, the comparison, and all pairs of records."""
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


def _row(label: str, row: MetricComparison) -> tuple[str, ...]:
    interval = "–"
    if row.interval:
        ends = (row.interval.low, row.interval.high)
        interval = " to ".join(signed_text(row.measure, end) for end in ends)
    p = p_text(row.final_p).replace("<", "\\<")
    return (
        inline(label),
        value_text(row.measure, row.a),
        value_text(row.measure, row.b),
        signed_text(row.measure, row.difference),
        interval,
        f"**{p}**" if row.significant else p,
        f"{row.questions:,}",
    )


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
    """Gather the report of a comparison.

    Args:
        comparison: The comparison of these records.
        a: Records of the first run.
        b: Records of the second.
        title: Title of the page; the names of both if empty.
        facts: Settings of A and of B, by name.
        notes: Sentences about what was dropped or corrected.
        stores: The runs of A and of B.
        page_image: As of `report_page`.
        thumbnails: As of `report_page`.
        runs: Folders of the runs of A and of B, relative to the page; empty for no links.
        made: Time of writing in seconds since 1970; now if None.
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
