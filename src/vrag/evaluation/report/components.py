"""Parts that the page of an evaluation and that of a comparison have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vrag import __version__
from vrag.evaluation.record import CaseOutcome
from vrag.evaluation.report.charts import shares_bar
from vrag.evaluation.report.labels import MOODS, label_of
from vrag.render.html import Child, Markup, element
from vrag.render.text_format import count, when

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vrag.evaluation.report.case_list import CaseEntry
    from vrag.evaluation.report.thumbnails import Thumbnails

__all__ = [
    "Links",
    "cases_data",
    "cases_section",
    "foot",
    "gaps",
    "masthead",
    "navigation",
    "notes_list",
    "outcomes_bar",
    "scrolled",
    "settings_section",
]


@dataclass
class Links:
    """Links into the list of cases: each shows those of a filter. Without a script they lead nowhere."""

    filters: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def to(self, text: Child, **wanted: str) -> Markup:
        """A link to the cases that have these values."""
        if wanted not in self.filters:
            self.filters.append(wanted)
        return element("a", text, href=f"#show-{self.filters.index(wanted)}", dir="auto")


def masthead(kind: str, title: str, told: str, made: float, note: str = "") -> Markup:
    """What it is, of what, and when it was made; and what is to be known before all else."""
    facts = (element("span", fact) for fact in (told, when(made)))
    return element(
        "header",
        element("p", element("strong", kind), facts, class_="brand"),
        element("h1", title, dir="auto"),
        element("p", note, class_="note") if note else None,
    )


def navigation(sections: Mapping[str, Markup]) -> Markup:
    """Links to the parts of the page, by the ids of their sections."""
    links = (element("a", name, href=f"#{name.lower()}") for name in sections)
    return element("nav", links, aria_label="Parts of the page")


def outcomes_bar(counts: Mapping[str, int], links: Links) -> Child:
    """How many questions went how: a bar, and its legend, in which failed and unjudged are never left out."""
    told = ", ".join(f"{found:,} {name}" for name, found in counts.items())
    kinds = {name: MOODS[CaseOutcome(name)] for name in counts}
    whole = max(sum(counts.values()), 1)
    items = (
        element(
            "li",
            element("span", class_=f"dot {kinds[name]}"),
            links.to(name.capitalize(), outcome=name) if found else element("span", name.capitalize()),
            element("strong", f"{found:,}"),
            element("small", f"{100 * found / whole:.0f} %"),
        )
        for name, found in counts.items()
    )
    return shares_bar(counts, kinds, told), element("ul", items, class_="key")


def gaps(counts: Mapping[str, int]) -> Iterable[Markup]:
    """What is missing from the numbers, in sentences."""
    unjudged, failed = counts.get(CaseOutcome.UNJUDGED, 0), counts.get(CaseOutcome.FAILED, 0)
    if unjudged:
        have = "has" if unjudged == 1 else "have"
        text = f"{count(unjudged, 'question')} {have} no verdict: no judge could be had. "
        yield element("p", text, "They count neither as right nor as wrong.", class_="note")
    if failed:
        text = f"{count(failed, 'run')} broke off. "
        yield element("p", text, "They count as wrong.", class_="note failure")


def settings_section(facts: Mapping[str, str], notes: Sequence[str]) -> Markup:
    """What was run: the settings, and what was dropped or mended."""
    pairs = (
        element("div", element("dt", name), element("dd", value or "–", dir="auto"))
        for name, value in facts.items()
    )
    return element(
        "section",
        element("h2", "How it was run"),
        element("dl", pairs, class_="settings")
        if facts
        else element("p", "Nothing was noted.", class_="plain"),
        notes_list(notes),
        id="settings",
    )


def notes_list(notes: Sequence[str]) -> Markup | None:
    """Sentences below each other."""
    if not notes:
        return None
    return element("ul", (element("li", note, dir="auto") for note in notes), class_="notes plain")


def scrolled(table: Markup, label: str) -> Markup:
    """A table that moves sideways where it is too wide."""
    return element("div", table, class_="wide", role="region", tabindex="0", aria_label=label)


def cases_section(n: int, left: int) -> Markup:
    """Where the script puts the list of cases."""
    room = f"{count(left, 'picture')} left out, to bound the size of the file" if left else ""
    return element(
        "section",
        element("h2", "Cases", element("span", room, class_="aside") if room else None),
        element(
            "p",
            f"The {count(n, 'case')} are listed by a script, which this viewer does not run. ",
            "The JSON beside this page has them all.",
            class_="plain",
            id="without-script",
        ),
        element("div", id="list"),
        id="cases",
    )


def cases_data(
    entries: Sequence[CaseEntry],
    thumbnails: Thumbnails,
    links: Links,
    names: Sequence[str],
    runs: Sequence[str],
) -> dict[str, Any]:
    """What the script makes the list of.

    Args:
        entries: The cases, in order.
        thumbnails: Their pictures.
        links: Filters that the page links to.
        names: Of the runs that are shown beside each other: one or two.
        runs: Where the files of each one's runs lie, relative to the page; empty where they are not linked.
    """
    measures = dict.fromkeys(
        name for entry in entries for side in entry.sides for name in side.record.measures
    )
    return {
        "names": list(names),
        "runs": list(runs),
        "links": links.filters,
        "labels": {name: label_of(name) for name in measures},
        "pictures": thumbnails.pictures,
        "entries": [entry.as_dict() for entry in entries],
    }


def foot() -> Markup:
    """Who wrote it."""
    note = "One file, which fetches nothing. Rectangles: predicted drawn through, gold in dashes."
    return element("footer", element("p", f"Written by vrag {__version__}. {note}"))
