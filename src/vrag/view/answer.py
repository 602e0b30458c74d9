"""What a page says first: the answer, and where it was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.agent.events import SearchRequested, StopReason
from vrag.types import ItemKind
from vrag.view.graph import anchor
from vrag.view.markup import Child, Markup, element
from vrag.view.wording import STOPS, amount, count, money, seconds, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vrag.agent.events import ImageShown
    from vrag.agent.evidence import Evidence
    from vrag.view.plates import Plates
    from vrag.view.story import Story

__all__ = ["answer_section", "evidence_section"]

OFFLINE = "extractive"
"""Name of the policy that quotes without a model, and must say so."""
KINDS = {ItemKind.PAGE: "Page", ItemKind.CLIP: "Clip", ItemKind.PASSAGE: "Passage"}


def answer_section(story: Story) -> Markup:
    """The answer, why the run ended, and what it took."""
    name, mood = STOPS[story.stop_reason] if story.stop_reason else ("Unfinished", "fair")
    return element(
        "section",
        element("h2", "Answer", element("span", name, class_=f"badge {mood}")),
        _said(story),
        element("dl", _figures(story), class_="figures"),
        id="answer",
        class_=f"answer {mood}",
    )


def _said(story: Story) -> Child:
    if story.failure:
        return (
            element("p", story.failure.message, class_="said", dir="auto"),
            element("p", f"The run ended with a {story.failure.boundary}.", class_="aside"),
        )
    if story.answer is None:
        return element("p", "This run has no end: it was cut off, or it still goes on.", class_="said")
    if story.answer.text is not None:
        quoted = "Quoted from the documents by the offline policy, not read by a model."
        note = element("p", quoted, class_="aside") if story.settings.policy == OFFLINE else None
        return element("p", story.answer.text, class_="said", dir="auto"), note
    if story.stop_reason is StopReason.ABSTAINED:
        return element(
            "p", "The agent found no answer in the documents that it can stand behind.", class_="said"
        )
    return element("p", "The run ended before the agent answered.", class_="said")


def _figures(story: Story) -> Iterator[Markup]:
    usages = [chapter.usage for chapter in story.chapters if chapter.usage]
    yield _figure("steps", str(len(story.chapters)))
    yield _figure("searches", str(len(story.all(SearchRequested))))
    yield _figure("pictures seen", str(len(story.pictures)))
    prompts = [usage.prompt_tokens for usage in usages if usage.prompt_tokens is not None]
    if prompts:
        replies = (usage.completion_tokens or 0 for usage in usages)
        yield _figure("tokens", amount(sum(prompts) + sum(replies)))
    yield _figure("visual tokens", amount(sum(usage.visual_tokens for usage in usages)))
    yield _figure("time", seconds(story.seconds))
    costs = [usage.cost for usage in usages if usage.cost is not None]
    if costs:
        yield _figure("cost", money(sum(costs)))


def _figure(name: str, value: str) -> Markup:
    return element("div", element("dt", name), element("dd", value))


def evidence_section(story: Story, plates: Plates) -> Markup | None:
    """The places on which the answer rests, as cards; None for a run that named none."""
    end = story.answer
    if end is None or not (end.evidence or end.unsupported):
        return None
    title = "Evidence" if end.text is not None else "Where the agent looked"
    left_out = (element("li", reason, dir="auto") for reason in end.unsupported)
    return element(
        "section",
        element("h2", title, element("span", count(len(end.evidence), "place"), class_="aside")),
        element("ol", (_card(e, n, plates) for n, e in enumerate(end.evidence, 1)), class_="cards"),
        element("h3", "Left out, since it no longer agrees with the collection") if end.unsupported else None,
        element("ul", left_out, class_="plain") if end.unsupported else None,
        id="evidence",
    )


def _card(evidence: Evidence, number: int, plates: Plates) -> Markup:
    node = plates.story.node(evidence.node)
    where = f"{KINDS[evidence.kind]} {evidence.page}"
    if evidence.seconds is not None:
        where = f"{span(evidence.seconds)} in the video"
    pictures = _pictures(evidence, f"evidence-{number}", plates, where)
    quote = element("blockquote", evidence.quote, dir="auto") if evidence.quote else None
    holder = element("a", node.id, href=f"#{anchor(node)}", dir="auto") if node else None
    name = element("span", evidence.document, dir="auto")
    words = (
        element("h3", element("span", str(number), class_="number"), name),
        element("p", where, class_="where"),
        quote if pictures else None,
        element("p", "Remembered by ", holder, class_="aside") if holder else None,
    )
    shown = element("div", pictures or quote, class_="shown")
    return element("li", shown, element("div", words, class_="words"), class_="card")


def _pictures(evidence: Evidence, name: str, plates: Plates, where: str) -> list[Markup]:
    """The page with the rectangle on it, and the part enlarged where the model saw it so."""
    sha256 = evidence.crop_sha256
    exact = next((shown for shown in plates.story.pictures if shown.sha256 == sha256), None)
    page = _whole(evidence, plates.story) if exact is None or exact.crop else exact
    closer = exact if exact is not None and exact.crop else None
    boxes = [evidence.box] if evidence.box else []
    drawn: list[Markup] = []
    if page is not None:
        drawn += [plates.plate(page, name, boxes, caption=where, class_="page")]
    if closer is not None:
        drawn += [plates.plate(closer, f"{name}-closer", caption=f"{where}, closer", class_="closer")]
    if not drawn and sha256:
        drawn += [plates.bare(sha256, f"{evidence.document}, {where}", name, where)]
    return drawn


def _whole(evidence: Evidence, story: Story) -> ImageShown | None:
    """The picture of the whole item; of a clip, the first frame of the stretch that is meant."""
    if evidence.seconds is not None:
        start, end = evidence.seconds
        frames = (s for s in story.pictures if s.item == evidence.item and s.seconds is not None)
        inside = next((frame for frame in frames if start <= (frame.seconds or 0) <= end), None)
        if inside is not None:
            return inside
    return story.page_of(evidence.item)
