"""An evaluation as one page of HTML that stands alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.evaluation.report.charts import histogram, interval_drawing
from vrag.evaluation.report.components import (
    Links,
    cases_data,
    cases_section,
    foot,
    gaps,
    masthead,
    navigation,
    outcomes_bar,
    scrolled,
    settings_section,
)
from vrag.evaluation.report.html_shell import shell
from vrag.evaluation.report.labels import (
    FILTERS,
    FURTHER,
    described,
    families,
    grouping_name,
    interval_text,
    is_share,
    label_of,
    more_name,
    more_text,
    note_of,
    value_text,
)
from vrag.evaluation.statistics.estimates import benchmarks_of, own_measures
from vrag.render.html import Child, Markup, element
from vrag.render.text_format import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vrag.evaluation.report.evaluation_report import ReportPage
    from vrag.evaluation.statistics.estimates import Grouping, Overview, ReportEstimate, ReportGroup

__all__ = ["headline", "html_of"]

_DRAWN = (
    "ndcg@10",
    "turns",
    "seconds",
    "completion_tokens",
    "prompt_tokens",
    "visual_tokens",
    "iou",
)
"""Measures whose values are drawn, in order."""
_MAX_DRAWN = 6
_SCALE = "0 – 1"
"""Head of the column of drawings."""


def html_of(page: ReportPage) -> str:
    """The page of an evaluation."""
    links = Links()
    overview = page.overview
    sections = {
        "Result": _result(overview, links),
        "Measures": _measures(overview),
        "Benchmarks": _benchmarks(page, links),
        "Groups": _groups(overview, links),
        "Spread": _spread(page),
        "Settings": settings_section(page.facts, page.notes),
        "Cases": cases_section(len(page.entries), page.thumbnails.left),
    }
    written = {name: section for name, section in sections.items() if section is not None}
    body = (
        masthead("Evaluation", page.title, overview.told, page.made, page.unfinished),
        navigation(written),
        element("main", written.values()),
        foot(),
    )
    data = cases_data(page.entries, page.thumbnails, links, ("",), (page.runs,))
    return shell(page.title, body, data)


def headline(measures: Mapping[str, ReportEstimate]) -> list[str]:
    """The first measures of each family: what is told first."""
    named = families(measures)
    firsts = [told[0] for name, told in named.items() if is_share(told[0]) and name not in FURTHER]
    return [*firsts, *(name for name in ("turns", "seconds", "cost") if name in measures)][:8]


def _result(overview: Overview, links: Links) -> Markup:
    figures = (_figure(name, overview.measures[name]) for name in headline(overview.measures))
    return element(
        "section",
        element("h2", "Result"),
        outcomes_bar(overview.outcomes, links),
        gaps(overview.outcomes),
        element("dl", figures, class_="figures"),
        id="result",
    )


def _figure(name: str, estimate: ReportEstimate) -> Markup:
    told = interval_text(name, estimate)
    return element(
        "div",
        element("dt", label_of(name)),
        element("dd", value_text(name, estimate.mean)),
        element("dd", told or count(estimate.n, "question"), class_="between"),
    )


def _measures(overview: Overview) -> Markup | None:
    if not overview.measures:
        return None
    tables = (
        (
            element("h3", family),
            element("p", note_of(family), class_="about") if note_of(family) else None,
            scrolled(_family(names, overview.measures), family),
        )
        for family, names in families(overview.measures).items()
    )
    more = (_more(name, numbers) for name, numbers in overview.more.items())
    return element(
        "section",
        element("h2", "Measures", element("span", _told(overview), class_="aside")),
        element("div", (element("div", part) for part in (*tables, *more)), class_="families"),
        id="measures",
    )


def _told(overview: Overview) -> str:
    told = "means, with intervals of 95 % over documents"
    few = any(estimate.few for estimate in overview.measures.values())
    return f"{told}; * of few documents, it says little about others" if few else told


def _family(names: Sequence[str], measures: Mapping[str, ReportEstimate]) -> Markup:
    shares = any(is_share(name) for name in names)
    heads = ("Measure", "Mean", *((_SCALE,) if shares else ()), "95 %", "n")
    rows = (
        element(
            "tr",
            element("th", label_of(name), scope="row", title=described(name) or None),
            element("td", value_text(name, measures[name].mean), class_="n"),
            element("td", _interval(name, measures[name]), class_="drawn") if shares else None,
            element("td", interval_text(name, measures[name]), class_="n soft"),
            element("td", f"{measures[name].n:,}", class_="n soft"),
        )
        for name in names
    )
    return element("table", element("thead", element("tr", map(_head, heads))), element("tbody", rows))


def _head(name: str) -> Markup:
    return element("th", name, scope="col", class_={_SCALE: "drawn", "Measure": None}.get(name, "n"))


def _interval(name: str, estimate: ReportEstimate) -> Markup:
    told = f"{label_of(name)}: {value_text(name, estimate.mean)}"
    between = interval_text(name, estimate)
    return interval_drawing(estimate, f"{told}, {between}" if between else told)


def _more(name: str, numbers: Mapping[str, float | None]) -> Child:
    rows = (
        element(
            "tr", element("th", label_of(one), scope="row"), element("td", more_text(name, value), class_="n")
        )
        for one, value in numbers.items()
    )
    title = more_name(name)
    return element("h3", title), scrolled(element("table", element("tbody", rows)), title)


def _benchmarks(page: ReportPage, links: Links) -> Markup | None:
    """Where several were asked together: each by the measures that its authors report."""
    groups = benchmarks_of(page.overview)
    if not groups:
        return None
    heads = ("Benchmark", "n", _SCALE, "Accuracy", "What its authors report")
    rows = (
        element(
            "tr",
            element("th", links.to(group.name, benchmark=group.name), scope="row", dir="auto"),
            element("td", f"{group.n:,}", class_="n soft"),
            _main("accuracy", group.measures.get("accuracy")),
            element("td", _reported(own_measures(group, page.reported)), class_="reported"),
        )
        for group in groups
    )
    table = element(
        "table",
        element("thead", element("tr", (_head(name) if name == _SCALE else _named(name) for name in heads))),
        element("tbody", rows),
        class_="groups",
    )
    told = element("span", "one corpus, searched together", class_="aside")
    return element(
        "section", element("h2", "Benchmarks", told), scrolled(table, "Benchmarks"), id="benchmarks"
    )


def _named(name: str) -> Markup:
    return element("th", name, scope="col", class_="n" if name == "n" else None)


def _reported(measures: Mapping[str, ReportEstimate]) -> Child:
    """Names and values beside each other."""
    return (
        tuple(
            element("span", f"{label_of(name)} ", element("strong", value_text(name, estimate.mean)))
            for name, estimate in measures.items()
        )
        or "–"
    )


def _groups(overview: Overview, links: Links) -> Markup | None:
    told = [
        grouping
        for grouping in overview.groupings
        if grouping.parts(overview.n) and grouping.name != "benchmark"
    ]
    if not told:
        return None
    return element(
        "section",
        element(
            "h2",
            "Groups",
            element("span", "a question may be in several; * of few documents", class_="aside"),
        ),
        (_grouping(grouping, overview.measures, links) for grouping in told),
        id="groups",
    )


def _grouping(grouping: Grouping, measures: Mapping[str, ReportEstimate], links: Links) -> Child:
    names = [name for name in headline(measures) if is_share(name)]
    main = names[0] if names else ""
    heads = (
        element("th", grouping_name(grouping.name), scope="col"),
        element("th", "n", scope="col", class_="n"),
        (element("th", _SCALE, scope="col", class_="drawn"), element("th", label_of(main), scope="col"))
        if main
        else None,
        (element("th", label_of(name), scope="col", class_="n") for name in names[1:4]),
        element("th", "Unjudged", scope="col", class_="n"),
        element("th", "Failed", scope="col", class_="n"),
    )
    rows = (_row(grouping.name, group, main, names[1:4], links) for group in grouping.groups)
    table = element("table", element("thead", element("tr", heads)), element("tbody", rows), class_="groups")
    return scrolled(table, grouping_name(grouping.name))


def _row(grouping: str, group: ReportGroup, main: str, others: Sequence[str], links: Links) -> Markup:
    linked = grouping in FILTERS and group.name
    name = links.to(group.name, **{grouping: group.name}) if linked else group.name or "–"
    return element(
        "tr",
        element("th", name, scope="row", dir="auto"),
        element("td", f"{group.n:,}", class_="n soft"),
        _main(main, group.measures.get(main)) if main else None,
        (element("td", _value(other, group.measures.get(other)), class_="n") for other in others),
        (element("td", f"{group.outcomes.get(one, 0):,}", class_="n soft") for one in ("unjudged", "failed")),
    )


def _main(name: str, estimate: ReportEstimate | None) -> Child:
    if estimate is None:
        return element("td", class_="drawn"), element("td", "–")
    between = interval_text(name, estimate)
    words = element("strong", value_text(name, estimate.mean)), element("small", between)
    return element("td", _interval(name, estimate), class_="drawn"), element("td", words, class_="estimate")


def _value(name: str, estimate: ReportEstimate | None) -> str:
    return value_text(name, estimate.mean if estimate else None)


def _spread(page: ReportPage) -> Markup | None:
    plots = list(_plots(page))[:_MAX_DRAWN]
    if not plots:
        return None
    told = element("span", "how many questions had which value; the line is the median", class_="aside")
    figures = (element("figure", plot) for plot in plots)
    return element(
        "section", element("h2", "Spread", told), element("div", figures, class_="plots"), id="spread"
    )


def _plots(page: ReportPage) -> Iterator[Markup]:
    measures = [entry.sides[0].record.measures for entry in page.entries]
    known = {name for found in measures for name in found}
    for name in _DRAWN if "ndcg@10" in known else ("ndcg@5", *_DRAWN):
        drawn = histogram(name, [found[name] for found in measures if name in found])
        if drawn is not None:
            yield drawn
