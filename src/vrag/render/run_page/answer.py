"""What a page says first: the answer, and where it was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.agent.citations import citations
from vrag.render.drawing.graph import anchor
from vrag.render.html import Child, Markup, element
from vrag.render.outcome import outcome
from vrag.render.run_facts import RunCost
from vrag.render.text_format import amount, count, span
from vrag.types import ItemKind

if TYPE_CHECKING:
    from vrag.agent.events import ImageShown
    from vrag.agent.evidence import Evidence
    from vrag.render.run_page.figures import Figures
    from vrag.render.run_page.run_view import RunView

__all__ = ["answer_section", "evidence_card", "evidence_section", "pictured", "said", "where"]

KINDS = {ItemKind.PAGE: "Page", ItemKind.CLIP: "Clip", ItemKind.PASSAGE: "Passage"}


def answer_section(run_view: RunView) -> Markup:
    """The answer, why the run ended, and what it took."""
    name, mood, *_ = outcome(run_view)
    figures = RunCost.of([run_view]).figures | {"pictures seen": amount(len(run_view.pictures))}
    return element(
        "section",
        element("h2", "Answer", element("span", name, class_=f"badge {mood}")),
        said(run_view),
        element("dl", (_figure(*figure) for figure in figures.items()), class_="figures"),
        id="answer",
        class_=f"answer {mood}",
    )


def said(run_view: RunView, cited: Child = None) -> Child:
    """What came of a run, in words: its answer, or why there is none.

    Args:
        run_view: The run.
        cited: What follows it on its line.
    """
    _, _, text, note = outcome(run_view)
    line = element("p", text, cited, class_="said", dir="auto")
    return line, element("p", note, class_="aside") if note else None


def _figure(name: str, value: str) -> Markup:
    return element("div", element("dt", name), element("dd", value))


def evidence_section(run_view: RunView, page_figures: Figures) -> Markup | None:
    """The places on which the answer rests, as cards; None for a run that named none."""
    end = run_view.answer
    if end is None or not (end.evidence or end.unsupported):
        return None
    title = "Evidence" if end.text is not None else "Where the agent looked"
    left_out = (element("li", reason, dir="auto") for reason in end.unsupported)
    cited = citations(end.evidence, run_view.settings, answered=end.text is not None)
    first, rest = cited.rests, cited.besides
    return element(
        "section",
        element("h2", title, element("span", count(len(first), "place"), class_="aside")),
        element("ol", (_card(e, n, page_figures) for n, e in enumerate(first, 1)), class_="cards"),
        element("h3", "Also looked at") if rest else None,
        element("ol", (_card(e, n, page_figures) for n, e in enumerate(rest, 1 + len(first))), class_="cards")
        if rest
        else None,
        element("h3", "Left out, since it no longer agrees with the collection") if end.unsupported else None,
        element("ul", left_out, class_="plain") if end.unsupported else None,
        id="evidence",
    )


def _card(evidence: Evidence, number: int, page_figures: Figures) -> Markup:
    node = page_figures.run_view.node(evidence.node)
    holder = element("a", node.id, href=f"#{anchor(node)}", dir="auto") if node else None
    held = element("p", "Remembered by ", holder, class_="aside") if holder else None
    return evidence_card(evidence, number, page_figures, f"evidence-{number}", held)


def evidence_card(
    evidence: Evidence, number: int, page_figures: Figures, name: str, more: Child = None, *, place: str = ""
) -> Markup:
    """A place on which an answer rests, as a card: its pictures, its document, the words there.

    Args:
        evidence: The place.
        number: What stands beside the document.
        page_figures: Draws the pictures of its run.
        name: Of its pictures, unique within the page.
        more: Below it all.
        place: Where in the document, in words; page or stretch alone when empty.
    """
    short = where(evidence)
    pictures = _pictures(evidence, name, page_figures, short)
    quote = element("blockquote", evidence.quote, dir="auto") if evidence.quote else None
    words = (
        element(
            "h3",
            element("span", str(number), class_="number"),
            element("span", evidence.document, dir="auto"),
        ),
        element("p", place or short, class_="where"),
        quote if pictures else None,
        more,
    )
    shown = element("div", pictures or quote, class_="shown")
    return element("li", shown, element("div", words, class_="words"), class_="card")


def where(evidence: Evidence) -> str:
    """The page of a piece of evidence, or its stretch of a video."""
    if evidence.seconds is not None:
        return f"{span(evidence.seconds)} in the video"
    return f"{KINDS[evidence.kind]} {evidence.page}"


def _pictures(evidence: Evidence, name: str, page_figures: Figures, where: str) -> list[Markup]:
    """The page with the rectangle on it, and the part enlarged where the model saw it so."""
    page, closer = pictured(evidence, page_figures.run_view)
    boxes = [evidence.box] if evidence.box else []
    drawn: list[Markup] = []
    if page is not None:
        drawn += [page_figures.draw_figure(page, name, boxes, caption=where, class_="page")]
    if closer is not None:
        drawn += [
            page_figures.draw_figure(closer, f"{name}-closer", caption=f"{where}, closer", class_="closer")
        ]
    if not drawn and evidence.crop_sha256:
        drawn += [page_figures.bare(evidence.crop_sha256, f"{evidence.document}, {where}", name, where)]
    return drawn


def pictured(evidence: Evidence, run_view: RunView) -> tuple[ImageShown | None, ImageShown | None]:
    """The pictures of a piece of evidence that the model was shown: of the whole item, and of the part."""
    exact = next((shown for shown in run_view.pictures if shown.sha256 == evidence.crop_sha256), None)
    if exact is None or exact.crop:
        return _whole(evidence, run_view), exact
    return exact, None


def _whole(evidence: Evidence, run_view: RunView) -> ImageShown | None:
    """The picture of the whole item; of a clip, the first frame of the stretch that is meant."""
    if evidence.seconds is not None:
        start, end = evidence.seconds
        frames = (s for s in run_view.pictures if s.item == evidence.item and s.seconds is not None)
        inside = next((frame for frame in frames if start <= (frame.seconds or 0) <= end), None)
        if inside is not None:
            return inside
    return run_view.page_of(evidence.item)
