"""The numbers of a report as Markdown: to paste where people talk about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag import __version__
from vrag.evaluation.report.labels import (
    FURTHER,
    families,
    grouping_name,
    interval_text,
    is_share,
    label_of,
    more_name,
    more_text,
    value_text,
)
from vrag.evaluation.statistics.estimates import benchmarks_of, own_measures
from vrag.render.markdown import bullets, inline, table
from vrag.render.text_format import when

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vrag.evaluation.report.evaluation_report import ReportPage
    from vrag.evaluation.statistics.estimates import Grouping, Overview, ReportEstimate

__all__ = ["facts_block", "markdown_of", "outcomes_line"]


def markdown_of(page: ReportPage) -> str:
    """What was found, by measure and group, and what was run."""
    overview = page.overview
    blocks = [
        f"# {inline(page.title)}",
        f"{overview.told} · {when(page.made)}",
        f"**{inline(page.unfinished)}**" if page.unfinished else "",
        outcomes_line(overview.outcomes),
        *_measures(overview),
        *_benchmarks(page),
        *(
            _grouping(grouping, overview.measures)
            for grouping in overview.groupings
            if grouping.parts(overview.n) and grouping.name != "benchmark"
        ),
        *facts_block(page.facts, page.notes),
        f"Written by vrag {__version__}.",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def outcomes_line(outcomes: Mapping[str, int]) -> str:
    """How many went how, those without a verdict and those that failed among them."""
    return " · ".join(f"**{found:,}** {name}" for name, found in outcomes.items())


def facts_block(facts: Mapping[str, str], notes: Sequence[str]) -> Iterator[str]:
    """What was run, and what is to be known of it."""
    if facts:
        yield "## How it was run"
        yield table(("", ""), ((inline(name), inline(value) or "–") for name, value in facts.items()))
    if notes:
        yield bullets(map(inline, notes))


def _measures(overview: Overview) -> Iterator[str]:
    for family, names in families(overview.measures).items():
        yield f"## {family}"
        rows = (_row(name, overview.measures[name]) for name in names)
        yield table(("Measure", "Mean", "95 %", "n"), rows)
    for name, numbers in overview.more.items():
        yield f"## {inline(more_name(name))}"
        rows = ((inline(label_of(one)), more_text(name, value)) for one, value in numbers.items())
        yield table(("", ""), rows)


def _benchmarks(page: ReportPage) -> Iterator[str]:
    """Where several were asked together: each by the measures that its authors report."""
    groups = benchmarks_of(page.overview)
    if groups:
        yield "## Benchmarks"
        rows = (
            (
                inline(group.name),
                f"{group.n:,}",
                _told("accuracy", group.measures.get("accuracy")),
                ", ".join(
                    f"{inline(label_of(name))} {_told(name, one)}"
                    for name, one in own_measures(group, page.reported).items()
                )
                or "–",
            )
            for group in groups
        )
        yield table(("Benchmark", "n", "Accuracy", "What its authors report"), rows)


def _row(name: str, estimate: ReportEstimate) -> tuple[str, ...]:
    between = interval_text(name, estimate) or "–"
    return inline(label_of(name)), value_text(name, estimate.mean), between, f"{estimate.n:,}"


def _grouping(grouping: Grouping, measures: Mapping[str, ReportEstimate]) -> str:
    told = families(measures).items()
    names = [first for family, (first, *_) in told if is_share(first) and family not in FURTHER][:4]
    heads = (inline(grouping_name(grouping.name)), "n", *map(_heads, names), "unjudged", "failed")
    rows = (
        (
            inline(group.name) or "–",
            f"{group.n:,}",
            *(_told(name, group.measures.get(name)) for name in names),
            *(f"{group.outcomes.get(one, 0):,}" for one in ("unjudged", "failed")),
        )
        for group in grouping.groups
    )
    return f"## By {inline(grouping_name(grouping.name).lower())}\n\n{table(heads, rows)}"


def _heads(name: str) -> str:
    return inline(label_of(name))


def _told(name: str, estimate: ReportEstimate | None) -> str:
    if estimate is None:
        return "–"
    between = interval_text(name, estimate)
    return f"{value_text(name, estimate.mean)} ({between})" if between else value_text(name, estimate.mean)
