"""A comparison of two runs as one page of HTML that stands alone."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from vrag.evaluation.record import CaseOutcome
from vrag.evaluation.report.charts import difference_drawing, scatter, shares_bar
from vrag.evaluation.report.components import (
    Links,
    cases_data,
    cases_section,
    foot,
    masthead,
    navigation,
    notes_list,
    scrolled,
)
from vrag.evaluation.report.html_shell import shell
from vrag.evaluation.report.labels import (
    CELLS,
    FILTERS,
    described,
    families,
    grouping_name,
    is_share,
    label_of,
    p_text,
    signed_text,
    value_text,
)
from vrag.render.html import Child, Markup, element
from vrag.render.text_format import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vrag.evaluation.report.comparison_report import ComparisonPage
    from vrag.evaluation.statistics.estimates import EstimateDifference

__all__ = ["html_of"]

_OPEN = "open"
"""Questions that one of the two has no verdict on."""
_KINDS = {"both": "good", "a": "side-a", "b": "side-b", "neither": "bad", _OPEN: "fair"}
_SCATTERED = (
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
"""Measures of which A is drawn against B, in order, where they have more than a few values."""
_MOST_SCATTERED, _VALUES = 6, 5
_SCALE = "← A  B →"
"""Head of the column of drawings: in which direction who has more."""


def html_of(page: ComparisonPage) -> str:
    """The page of a comparison."""
    links = Links()
    sections = {
        "Result": _result(page, links),
        "Measures": _measures(page.differences),
        "Groups": _groups(page, links),
        "Scatter": _scatter(page),
        "Settings": _settings(page),
        "Cases": cases_section(len(page.entries), page.thumbnails.left),
    }
    written = {name: section for name, section in sections.items() if section is not None}
    told = f"{count(len(page.entries), 'question')} that both have"
    body = (
        masthead("Comparison", page.title, told, page.made),
        navigation(written),
        element("main", written.values()),
        foot(),
    )
    return shell(page.title, body, cases_data(page.entries, page.thumbnails, links, page.names, page.runs))


def _result(page: ComparisonPage, links: Links) -> Markup:
    cells = Counter(entry.cell or _OPEN for entry in page.entries)
    counts = {name: cells[name] for name in (*CELLS, _OPEN)}
    words = {**CELLS, _OPEN: "Without two verdicts"}
    items = (
        element(
            "li",
            element("span", class_=f"dot {_KINDS[name]}"),
            links.to(words[name], cell=name) if found else element("span", words[name]),
            element("strong", f"{found:,}"),
        )
        for name, found in counts.items()
    )
    named = {words[name]: found for name, found in counts.items()}
    told = ", ".join(f"{found:,} {word.lower()}" for word, found in named.items())
    return element(
        "section",
        element("h2", "Result"),
        _names(page.names),
        shares_bar(named, {words[name]: kind for name, kind in _KINDS.items()}, told),
        element("ul", items, class_="key"),
        _gaps(page),
        _verdict(page),
        id="result",
    )


def _names(names: tuple[str, str]) -> Markup:
    items = (
        element(
            "li",
            element("span", class_=f"dot side-{side}"),
            element("strong", side.upper()),
            element("span", name, dir="auto"),
        )
        for side, name in zip("ab", names, strict=True)
    )
    return element("ul", items, class_="key names")


def _gaps(page: ComparisonPage) -> Iterator[Markup]:
    counts = [Counter(entry.sides[at].record.outcome for entry in page.entries) for at in (0, 1)]
    missing = {
        outcome: [one[outcome] for one in counts] for outcome in (CaseOutcome.UNJUDGED, CaseOutcome.FAILED)
    }
    a, b = missing[CaseOutcome.UNJUDGED]
    if a or b:
        told = f"Without a verdict: {a:,} of A, {b:,} of B. These questions are left out of accuracy."
        yield element("p", told, class_="note")
    a, b = missing[CaseOutcome.FAILED]
    if a or b:
        told = f"Broke off: {count(a, 'run')} of A, {b:,} of B. They count as wrong."
        yield element("p", told, class_="note failure")
    for name, alone in zip("AB", page.alone, strict=True):
        if alone:
            yield element("p", f"{count(alone, 'question')} only {name} has: left out.", class_="note")
    yield from (element("p", remark, class_="note") for remark in page.remarks)


def _verdict(page: ComparisonPage) -> Child:
    """The first measure, in large letters."""
    if not page.differences:
        return element("p", "The two have no measure in common.", class_="plain")
    name, first = next(iter(page.differences.items()))
    sure = "significant at .05" if first.sure else "not significant at .05"
    figures = {
        f"{label_of(name)} of A": (value_text(name, first.a), ""),
        f"{label_of(name)} of B": (value_text(name, first.b), ""),
        "B − A": (signed_text(name, first.difference), _between(name, first)),
        "p": (p_text(first.p if first.adjusted is None else first.adjusted), sure),
    }
    told = (
        element(
            "div",
            element("dt", term),
            element("dd", value),
            element("dd", beside, class_="between") if beside else None,
        )
        for term, (value, beside) in figures.items()
    )
    return element("dl", told, class_="figures")


def _between(name: str, one: EstimateDifference) -> str:
    if one.low is None or one.high is None:
        return ""
    return f"{signed_text(name, one.low)} to {signed_text(name, one.high)}"


def _measures(differences: Mapping[str, EstimateDifference]) -> Markup | None:
    if not differences:
        return None
    told = "paired by question, with intervals of 95 %; p is corrected for the number of measures"
    parts = (
        (element("h3", family), scrolled(_table(names, {name: differences[name] for name in names}), family))
        for family, names in families(differences).items()
    )
    return element(
        "section", element("h2", "Measures", element("span", told, class_="aside")), parts, id="measures"
    )


def _table(
    heads: Sequence[str],
    rows: Mapping[str, EstimateDifference],
    first: str = "Measure",
    label: Callable[[str], Child] = label_of,
) -> Markup:
    """Differences below each other; each drawn by the size of the largest of its kind.

    Args:
        heads: Name of the measure of each row.
        rows: By what their first column says.
        first: Head of the first column.
        label: What stands in the first column of a row.
    """
    columns = (first, "n", "A", "B", _SCALE, "B − A", "p", "95 %", "B more", "A more")
    head = (
        element("th", name, scope="col", class_={first: None, _SCALE: "drawn"}.get(name, "n"))
        for name in columns
    )
    body = (
        _row(label(name), measure, one, _reach(measure, rows, heads))
        for measure, (name, one) in zip(heads, rows.items(), strict=True)
    )
    return element(
        "table", element("thead", element("tr", head)), element("tbody", body), class_="groups differences"
    )


def _reach(measure: str, rows: Mapping[str, EstimateDifference], heads: Sequence[str]) -> float:
    """Half the width of a drawing: shares are drawn alike, all else for itself."""
    alike = [
        one
        for name, one in zip(heads, rows.values(), strict=True)
        if name == measure or is_share(name) is is_share(measure) is True
    ]
    ends = [abs(end) for one in alike for end in (one.low, one.high, one.difference) if end is not None]
    return max([*ends, 1e-9])


def _row(label: Child, measure: str, one: EstimateDifference, reach: float) -> Markup:
    difference, between = signed_text(measure, one.difference), _between(measure, one)
    drawn = difference_drawing(one.low, one.difference, one.high, reach, f"{difference}, {between}")
    p = p_text(one.p if one.adjusted is None else one.adjusted)
    return element(
        "tr",
        element("th", label, scope="row", title=one.remark or described(measure) or None, dir="auto"),
        element("td", f"{one.n:,}", class_="n soft"),
        (element("td", value_text(measure, value), class_="n") for value in (one.a, one.b)),
        element("td", drawn, class_="drawn sure" if one.sure else "drawn"),
        element("td", element("strong", difference) if one.sure else difference, class_="n"),
        element("td", element("strong", p) if one.sure else p, class_="n"),
        element("td", between, class_="n soft"),
        (
            element("td", "–" if value is None else f"{value:,}", class_="n soft")
            for value in (one.wins, one.losses)
        ),
    )


def _groups(page: ComparisonPage, links: Links) -> Markup | None:
    tables = [table for kind, groups in page.groups.items() for table in _grouping(kind, groups, links)]
    if not tables:
        return None
    told = "p corrected for the number of groups of a kind"
    return element(
        "section", element("h2", "Groups", element("span", told, class_="aside")), tables, id="groups"
    )


def _grouping(
    kind: str, groups: Mapping[str, Mapping[str, EstimateDifference]], links: Links
) -> Iterator[Markup]:
    measures = dict.fromkeys(measure for one in groups.values() for measure in one)
    for measure in measures:
        rows = {label: one[measure] for label, one in groups.items() if measure in one}
        title = f"{grouping_name(kind)}: {label_of(measure)}"
        yield scrolled(_table([measure] * len(rows), rows, title, partial(_linked, links, kind)), title)


def _linked(links: Links, kind: str, label: str) -> Child:
    return links.to(label, **{kind: label}) if kind in FILTERS and label else label or "–"


def _scatter(page: ComparisonPage) -> Markup | None:
    plots = list(_plots(page))[:_MOST_SCATTERED]
    if not plots:
        return None
    told = "each question a point: A to the right, B upwards; on the line they are alike"
    figures = (element("figure", plot) for plot in plots)
    return element(
        "section",
        element("h2", "Scatter", element("span", told, class_="aside")),
        element("div", figures, class_="plots"),
        id="scatter",
    )


def _plots(page: ComparisonPage) -> Iterator[Markup]:
    for name in _SCATTERED:
        sides = (tuple(side.record.measures.get(name) for side in entry.sides) for entry in page.entries)
        points = [(a, b) for a, b in sides if a is not None and b is not None]
        if len(set(points)) < _VALUES:
            continue
        drawn = scatter(name, points)
        if drawn is not None:
            yield drawn


def _settings(page: ComparisonPage) -> Markup:
    a, b = page.facts
    names = dict.fromkeys((*a, *b))
    heads = (element("th", name, scope="col") for name in ("Setting", "A", "B"))
    rows = (
        element(
            "tr",
            element("th", name, scope="row", dir="auto"),
            (element("td", facts.get(name) or "–", dir="auto") for facts in (a, b)),
            class_="differs" if a.get(name) != b.get(name) else None,
        )
        for name in names
    )
    table = element(
        "table", element("thead", element("tr", heads)), element("tbody", rows), class_="groups ran"
    )
    told = element("span", "what differs is set in bold", class_="aside")
    return element(
        "section",
        element("h2", "How they were run", told if names else None),
        scrolled(table, "How they were run") if names else element("p", "Nothing was noted.", class_="plain"),
        notes_list(page.notes),
        id="settings",
    )
