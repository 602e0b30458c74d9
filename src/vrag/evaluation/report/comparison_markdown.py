"""The numbers of a comparison as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag import __version__
from vrag.evaluation.report.evaluation_markdown import facts_block
from vrag.evaluation.report.labels import (
    CELLS,
    families,
    grouping_name,
    label_of,
    p_text,
    signed_text,
    value_text,
)
from vrag.render.markdown import bullets, inline, table
from vrag.render.text_format import count, when

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vrag.evaluation.report.comparison_report import ComparisonPage
    from vrag.evaluation.statistics.estimates import EstimateDifference

__all__ = ["markdown_of"]

_HEADS = ("A", "B", "B − A", "95 %", "p", "n")


def markdown_of(page: ComparisonPage) -> str:
    """What differs, by measure and group, and what was run."""
    a, b = page.names
    cells = " · ".join(
        f"**{found:,}** {CELLS[name][0].lower()}{CELLS[name][1:]}" for name, found in page.cells.items()
    )
    open_ = len(page.entries) - sum(page.cells.values())
    blocks = [
        f"# {inline(page.title)}",
        f"{count(len(page.entries), 'question')} that both have · {when(page.made)}",
        bullets((f"A: {inline(a)}", f"B: {inline(b)}")),
        f"{cells} · **{open_:,}** without two verdicts",
        *(inline(remark) for remark in page.remarks),
        *_measures(page.differences),
        *_groups(page.groups),
        *_facts(page),
        f"Written by vrag {__version__}.",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _measures(differences: Mapping[str, EstimateDifference]) -> Iterator[str]:
    for family, names in families(differences).items():
        yield f"## {family}"
        rows = ((inline(label_of(name)), *_cells(name, differences[name])) for name in names)
        yield table(("Measure", *_HEADS), rows)


def _groups(groups: Mapping[str, Mapping[str, Mapping[str, EstimateDifference]]]) -> Iterator[str]:
    for kind, labels in groups.items():
        for measure in dict.fromkeys(name for one in labels.values() for name in one):
            yield f"## {inline(label_of(measure))} by {inline(grouping_name(kind).lower())}"
            told = ((label, one[measure]) for label, one in labels.items() if measure in one)
            yield table(
                (inline(grouping_name(kind)), *_HEADS),
                ((inline(label) or "–", *_cells(measure, one)) for label, one in told),
            )


def _cells(name: str, one: EstimateDifference) -> tuple[str, ...]:
    ends = (one.low, one.high)
    between = "–" if None in ends else " to ".join(signed_text(name, end or 0.0) for end in ends)
    p = p_text(one.p if one.adjusted is None else one.adjusted)
    shown = p.replace("<", "\\<")
    return (
        value_text(name, one.a),
        value_text(name, one.b),
        signed_text(name, one.difference),
        between,
        f"**{shown}**" if one.sure else shown,
        f"{one.n:,}",
    )


def _facts(page: ComparisonPage) -> Iterator[str]:
    a, b = page.facts
    names = dict.fromkeys((*a, *b))
    if names:
        yield "## How they were run"
        rows = (
            (inline(name), inline(a.get(name, "")) or "–", inline(b.get(name, "")) or "–") for name in names
        )
        yield table(("", "A", "B"), rows)
    yield from facts_block({}, page.notes)
