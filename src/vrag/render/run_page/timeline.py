"""What a run did, step by step: thoughts, actions, and what the model was shown."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from vrag.agent.actions import Flag
from vrag.agent.events import (
    ActionRequested,
    AnswerGiven,
    ContextShortened,
    CropRequested,
    Event,
    ImageShown,
    InvalidAction,
    MemoryUpdated,
    ModelCalled,
    ModelRetried,
    PassageShown,
    RunFailed,
    SearchRequested,
    SearchReturned,
)
from vrag.agent.policy import FinishReason
from vrag.render.drawing.graph import anchor
from vrag.render.html import Child, Markup, element
from vrag.render.run_page.figures import described
from vrag.render.text_format import amount, count, moment, money, place, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.agent.events import UsageReported
    from vrag.render.run_page.figures import Figures
    from vrag.render.run_page.run_view import RunView, StepView

__all__ = ["timeline_section", "title_of"]

_ENDS = {
    FinishReason.LENGTH: "cut off at its token limit",
    FinishReason.UNSAID: "the server did not say why it ended",
}
"""What is said of the end of a reply."""

LONG = 900
"""Characters from which a thought is folded up."""


def timeline_section(run_view: RunView, page_figures: Figures) -> Markup:
    """All steps, in order."""
    steps = (_step(step_view, page_figures) for step_view in run_view.step_views)
    return element(
        "section",
        element(
            "h2", "Steps", element("span", count(len(run_view.step_views), "model call"), class_="aside")
        ),
        element("ol", steps, class_="timeline")
        if run_view.step_views
        else element("p", "The model was never called."),
        id="steps",
    )


def title_of(step_view: StepView) -> tuple[str, str]:
    """What a step was, and its kind: `search`, `crop`, `tool`, `memory`, `answer`, `fault` or `open`."""
    titles: list[tuple[str, str]] = []
    for event in step_view.events:
        match event:
            case RunFailed():
                titles.append(("Failed", "fault"))
            case AnswerGiven(text=str()):
                titles.append(("Answer", "answer"))
            case SearchRequested():
                titles.append(("Search", "search"))
            case CropRequested():
                titles.append(("Closer look", "crop"))
            case ActionRequested(name=name):
                titles.append((name, "tool"))
            case MemoryUpdated():
                titles.append(("Summarise and remember", "memory"))
            case InvalidAction():
                titles.append(("Refused", "fault"))
            case _:
                pass
    return titles[0] if titles else ("No action", "open")


def _step(step_view: StepView, page_figures: Figures) -> Markup:
    title, kind = title_of(step_view)
    return element(
        "li",
        element(
            "h3", element("span", str(step_view.number), class_="number"), element("span", title, dir="auto")
        ),
        _thought(step_view.thought),
        (_told(event, page_figures) for event in step_view.events),
        _shown(step_view, page_figures),
        _reply(step_view.first(ModelCalled)),
        _cost(step_view.usage) if step_view.usage else None,
        id=f"step-{step_view.number}",
        class_=f"step {kind}",
    )


def _thought(text: str) -> Markup | None:
    if not text.strip():
        return None
    if len(text) <= LONG:
        return element("p", text, class_="thought", dir="auto")
    summary = element(
        "summary", text[: LONG // 3].rstrip(), "… ", element("span", f"all {len(text):,} characters")
    )
    return element("details", summary, element("p", text, dir="auto"), class_="thought", dir="auto")


def _told(event: Event, page_figures: Figures) -> Child:  # noqa: C901, PLR0911 - one flat case per event
    match event:
        case ModelRetried():
            return _retry(event)
        case ContextShortened():
            gone = f"{event.reason} Asked again without {', '.join(event.dropped)}."
            return _note("Too long for the model", gone, "retry")
        case SearchRequested():
            return _action(page_figures, event.node, element("q", event.query, dir="auto"))
        case CropRequested():
            image = event.label or (f"Image {event.image}" if event.image else "the last picture")
            return _action(page_figures, event.node, f"{image} at ", element("code", place(event.box)))
        case ActionRequested():
            return _action(page_figures, event.node, element("q", event.text, dir="auto"))
        case SearchReturned():
            return _hits(event)
        case InvalidAction():
            return _note("Refused", event.reason, "refusal")
        case RunFailed():
            return _note(event.boundary, event.message, "failure")
        case MemoryUpdated():
            return _memory(event, page_figures)
        case AnswerGiven(text=str()):
            return element("p", element("a", event.text, href="#answer", dir="auto"), class_="action")
        case _:
            return None


def _action(page_figures: Figures, node: str | None, *what: Child) -> Markup:
    found = page_figures.run_view.node(node)
    link = element("a", found.id, href=f"#{anchor(found)}", class_="chip") if found else None
    return element("p", *what, " " if link else None, link, class_="action")


def _note(name: str, text: str, kind: str) -> Markup:
    return element("p", element("strong", name), " ", text, class_=f"note {kind}", dir="auto")


def _retry(event: ModelRetried) -> Markup:
    pause = f"; tried again after {seconds(event.seconds)}" if event.seconds else "; tried again"
    note = element(
        "p", element("strong", "The call failed"), pause, ". ", event.reason, class_="note retry", dir="auto"
    )
    if not event.partial:
        return note
    return element("div", note, _folded("What had come", element("pre", event.partial, dir="auto")))


def _folded(summary: str, *content: Child) -> Markup:
    return element("details", element("summary", summary), *content, class_="more")


def _hits(event: SearchReturned) -> Child:
    rows = (
        element(
            "tr",
            element("td", str(hit.rank), class_="n"),
            element("td", hit.document_name, dir="auto"),
            element("td", str(hit.ordinal), class_="n"),
            element("td", f"{hit.score:.4g}", class_="n"),
        )
        for hit in event.hits
    )
    heads = (
        element("th", name, scope="col", class_=c)
        for name, c in zip(("#", "Document", "Page", "Score"), ("n", None, "n", "n"), strict=True)
    )
    table = element("table", element("thead", element("tr", heads)), element("tbody", rows))
    damaged = (_note("Could not be opened.", reason, "refusal") for reason in event.damaged)
    if not event.hits:
        return element("p", "Nothing was found.", class_="aside"), damaged
    return _folded(f"{count(len(event.hits), 'hit')} found", element("div", table, class_="wide")), damaged


def _memory(event: MemoryUpdated, page_figures: Figures) -> Child:
    node = page_figures.run_view.node(event.node)
    summary = element("p", node.summary, class_="summary", dir="auto") if node and node.summary else None
    kept = (
        f"{count(len(event.kept), 'item')} in memory, {amount(event.tokens)} of {amount(event.budget)} tokens"
    )
    dropped = f"; no room for {len(event.dropped)}" if event.dropped else ""
    link = element("a", kept, dropped, href=f"#memory-{event.seq}")
    name = element("a", node.id, href=f"#{anchor(node)}", class_="chip") if node else None
    return summary, element("p", name, " " if name else None, link, class_="aside")


def _shown(step_view: StepView, page_figures: Figures) -> Iterator[Markup]:
    passages = step_view.all(PassageShown)
    if passages:
        yield element("ul", map(_passage, passages), class_="plain passages")
    runs = groupby(
        step_view.all(ImageShown), key=lambda s: (s.node, s.label, s.item) if s.seconds is not None else s.seq
    )
    groups = [tuple(group) for _, group in runs]
    request = step_view.first(CropRequested)
    figure_elements = [_group(group, step_view, page_figures, request) for group in groups]
    if figure_elements:
        yield element("div", figure_elements, class_="plates")


def _passage(event: PassageShown) -> Markup:
    label = f"{event.label}: " if event.label else ""
    return element("li", f"{label}{event.document}, passage {event.page}", dir="auto")


def _group(
    group: Sequence[ImageShown], step_view: StepView, page_figures: Figures, request: CropRequested | None
) -> Child:
    """A picture; a crop beside what it was cut from; or the frames of a clip as a strip."""
    first = group[0]
    name = f"shown-{first.seq}"
    if first.seconds is not None:
        return _strip(group, step_view, page_figures)
    if not first.crop:
        return page_figures.draw_figure(first, name, caption=_caption(first))
    source = page_figures.source_of(first, request.image if request else None)
    closer = page_figures.draw_figure(first, name, caption=_caption(first), class_="closer")
    if source is None:
        return closer
    whole = page_figures.draw_figure(
        source, f"{name}-source", [first.box], caption=f"cut from {source.label}", class_="page"
    )
    return element("div", whole, closer, class_="pair")


def _strip(frames: Sequence[ImageShown], step_view: StepView, page_figures: Figures) -> Markup:
    first = frames[0]
    title = f"{first.label}: {first.document}, {count(len(frames), 'frame')}"
    tokens = f"{amount(sum(frame.visual_tokens for frame in frames))} visual tokens"
    figure_elements = (
        page_figures.draw_figure(
            frame, f"shown-{frame.seq}", caption=moment(frame.seconds or 0.0), class_="frame"
        )
        for frame in frames
    )
    return element(
        "figure",
        element("div", figure_elements, class_="strip", tabindex="0", role="group", aria_label=title),
        element("figcaption", title, " · ", tokens),
        class_="film",
        id=f"film-{step_view.number}-{first.seq}",
    )


def _caption(shown: ImageShown) -> Child:
    facts = f"{shown.width} × {shown.height} px · {amount(shown.visual_tokens)} visual tokens"
    return element("span", described(shown), dir="auto"), " ", element("small", facts)


def _reply(event: ModelCalled | None) -> Child:
    if event is None:
        return element("p", "The model's reply did not come to an end.", class_="aside")
    used, dropped = event.reply[: event.executed], event.reply[event.executed :]
    rest = (
        element("span", dropped, class_="dropped", title="Written after the action, and dropped")
        if dropped
        else None
    )
    faults = [flag.replace("_", " ") for flag in event.flags if flag != Flag.REPAIRED or not event.repairs]
    faults += [f"repaired: {'; '.join(event.repairs)}"] if event.repairs else []
    faults += [_ENDS[event.finish]] if event.finish in _ENDS else []
    remark = element("p", f"Remarks: {', '.join(faults)}.", class_="aside") if faults else None
    return remark, _folded("Reply as it came", element("pre", used, rest, dir="auto"))


def _cost(usage: UsageReported) -> Markup:
    parts: list[str] = []
    if usage.prompt_tokens is not None or usage.completion_tokens is not None:
        parts += [f"{amount(usage.prompt_tokens)} tokens in, {amount(usage.completion_tokens)} out"]
    parts += [f"{amount(usage.visual_tokens)} visual", seconds(usage.seconds)]
    parts += [money(usage.cost)] if usage.cost is not None else []
    return element("p", " · ".join(parts), class_="cost")
