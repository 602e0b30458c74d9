"""A report as a page that needs no other file, runs no script and fetches nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag import __version__
from vrag.render.citation_numbers import besides, extent
from vrag.render.html import Child, Markup, document, element
from vrag.render.outcome import ATTACHED, outcome
from vrag.render.page_head import head
from vrag.render.run_facts import RunTable
from vrag.render.run_page.answer import evidence_card, said
from vrag.render.run_page.figures import Figures
from vrag.render.run_page.question_section import earlier_exchanges, setup_notices
from vrag.render.text_format import when

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.render.citation_numbers import NumberedSource
    from vrag.render.report import Report, ReportPart

__all__ = ["html_of"]


def html_of(report: Report) -> str:
    """The page of a report."""
    body = (
        element(
            "header",
            element(
                "p",
                element("strong", "Report"),
                (element("span", fact) for fact in (report.told, when(report.made))),
                class_="brand",
            ),
            element("h1", report.title, dir="auto"),
        ),
        element(
            "main",
            _contents(report),
            (_part(part, report) for part in report.parts),
            _left(report),
            _sources(report),
            _making(report),
        ),
        _foot(),
        report.image_store.definitions(),
    )
    return document(head=head(report.title[:120], "report.css"), body=body)


def _contents(report: Report) -> Markup | None:
    if len(report.parts) < 2:
        return None
    rows = (
        element(
            "li",
            element("span", str(part.number), class_="n"),
            element("a", part.run_view.started.question, href=f"#question-{part.number}", dir="auto"),
            _badge(part),
        )
        for part in report.parts
    )
    return element("nav", element("ol", rows), class_="contents", aria_label="Contents")


def _badge(part: ReportPart) -> Markup:
    name, mood, *_ = outcome(part.run_view)
    return element("span", name, class_=f"badge {mood}")


def _part(part: ReportPart, report: Report) -> Markup:
    page_figures = Figures(part.run_view, report.image_store)
    numbers = [report.sources.number(one) for one in part.evidence]
    question = part.run_view.started.question
    looked = None if part.answered else element("h3", "Where the agent looked")
    return element(
        "section",
        element(
            "h2", element("span", str(part.number), class_="ordinal"), element("span", question, dir="auto")
        ),
        _context(part, page_figures),
        element(
            "div",
            element("p", _badge(part), class_="mood"),
            said(part.run_view, _cites(numbers) if part.answered else None),
            class_=f"verdict {outcome(part.run_view).mood}",
        ),
        (looked, _cards(part, page_figures, report)) if part.evidence else None,
        element("p", f"Also looked at: {besides(part.besides)}.", class_="aside", dir="auto")
        if part.besides
        else None,
        _unsupported(part),
        id=f"question-{part.number}",
        class_="question",
    )


def _cards(part: ReportPart, page_figures: Figures, report: Report) -> Child:
    """What is shown closely, wide; whole pages after it, small."""
    kinds = {"cards close": part.closeups, "cards pages": part.pages}
    for kind, figures in kinds.items():
        cards = (
            evidence_card(
                one,
                report.sources.number(one),
                page_figures,
                f"figure-{part.number}-{kind[6:]}-{place}",
                place=extent(one),
            )
            for place, one in enumerate(figures, 1)
        )
        yield element("ol", cards, class_=kind) if figures else None


def _context(part: ReportPart, page_figures: Figures) -> Child:
    """What came before the question and with it."""
    attached = (
        page_figures.bare(sha256, ATTACHED, f"attached-{part.number}-{place}", ATTACHED)
        for place, sha256 in enumerate(part.run_view.started.attached, 1)
    )
    pictures = element("div", attached, class_="plates before") if part.run_view.started.attached else None
    return earlier_exchanges(part.run_view), pictures, setup_notices(part.run_view)


def _cites(numbers: Sequence[int]) -> Child:
    for number in dict.fromkeys(numbers):
        yield " "
        yield element(
            "a", str(number), href=f"#source-{number}", class_="number", aria_label=f"Source {number}"
        )


def _unsupported(part: ReportPart) -> Child:
    reasons = part.run_view.answer.unsupported if part.run_view.answer else ()
    if not reasons:
        return None
    items = (element("li", reason, dir="auto") for reason in reasons)
    return (
        element("h3", "Left out, since it no longer agrees with the collection"),
        element("ul", items, class_="plain"),
    )


def _left(report: Report) -> Markup | None:
    if not report.left:
        return None
    items = (element("li", question, dir="auto") for question in report.left)
    return element("section", element("h2", "Not asked to the end"), element("ul", items), id="left")


def _sources(report: Report) -> Markup | None:
    if not report.sources.listed:
        return None
    aside = element("span", report.sources.told, class_="aside")
    items = element("ol", map(_source, report.sources.listed), class_="sources")
    return element("section", element("h2", "Sources", aside), items, id="sources")


def _source(source: NumberedSource) -> Markup:
    questions = (
        (" ", element("a", f"question {number}", href=f"#question-{number}")) for number in source.questions
    )
    return element(
        "li",
        element("span", str(source.number), class_="number"),
        element(
            "span",
            element("strong", source.document, dir="auto"),
            element("span", source.where, class_="where"),
        ),
        element("span", questions, class_="aside"),
        id=f"source-{source.number}",
    )


def _making(report: Report) -> Markup:
    table = RunTable.of(report.stories)
    head = (element("th", name.capitalize(), scope="col") for name in ("question", *table.columns))
    rows = (
        _row(element("a", str(part.number), href=f"#question-{part.number}"), row)
        for part, row in zip(report.parts, table.rows, strict=True)
    )
    return element(
        "section",
        element(
            "h2", "How this was made", element("span", "agent, model and cost of each answer", class_="aside")
        ),
        _facts(table.shared) if table.shared else None,
        element(
            "div",
            element(
                "table",
                element("thead", element("tr", head)),
                element("tbody", rows),
                element("tfoot", _row("All", table.together)) if table.together else None,
            ),
            class_="scroll",
            role="region",
            tabindex="0",
            aria_label="How this was made",
        ),
        id="making",
    )


def _row(name: Child, values: Sequence[str]) -> Markup:
    return element(
        "tr", element("th", name, scope="row"), (element("td", value, dir="auto") for value in values)
    )


def _facts(facts: dict[str, str]) -> Markup:
    pairs = (
        element("div", element("dt", name), element("dd", value, dir="auto")) for name, value in facts.items()
    )
    return element("dl", pairs, class_="facts")


def _foot() -> Markup:
    note = "A page without scripts, which fetches nothing. Rectangles mark what the model looked at."
    return element("footer", element("p", f"Written by vrag {__version__}. {note}"))
