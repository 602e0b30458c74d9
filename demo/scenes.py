"""How a run is drawn: its end, its graph, its steps, its evidence.

What a model or a document says is given to `st.text`, which reads it neither as Markdown nor as HTML, and an
answer as Markdown in which all else is escaped; pictures are files of the run, never addresses.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

import streamlit as st
from marks import marked

from vrag.agent.events import ImageShown, MemoryUpdated, SearchReturned, StopReason
from vrag.render.answer_markdown import sign_answer, write_markdown
from vrag.render.figures import Figures, ImageStore, describe_image, placed
from vrag.render.report import ReportPart
from vrag.render.run_page import graph_svg
from vrag.render.run_view import RunView, StepView, cost_figures
from vrag.render.text_format import extent, one_line, step_line
from vrag.text.numerals import count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from running import Running

    from vrag.agent.events import Event
    from vrag.agent.evidence import BoxSides, Evidence

__all__ = ["draw_run"]

ROW = 3
"""Pictures of a step beside each other."""
PAGES = 2
"""Whole pages beside each other in the evidence."""
BADGES: dict[str, Literal["green", "blue"]] = {"good": "green", "calm": "blue"}
BOXES = {"fair": st.warning, "bad": st.error}


def draw_run(run: Running) -> None:
    """A run as far as it has come: what was said and done at the left, where it was seen at the right."""
    story = RunView.of(run.events)
    seen = _seen(story, run)
    if seen is None:
        _told(story, run)
        return
    left, right = st.columns((3, 2), gap="large")
    with left:
        _told(story, run)
    with right:
        seen()


def _told(story: RunView, run: Running) -> None:
    """The answer, the graph, where there is one, and the steps so far."""
    if run.over:
        _end(story, run)
    if story.result.graph and story.result.graph.nodes:
        st.subheader("Memory graph")
        st.image(graph_svg(story.result.graph))
    st.subheader("Steps")
    for step in story.step_views:
        with st.container(border=True):
            _step(step, story, run)
    if not run.over:
        _figures(story)


def _end(story: RunView, run: Running) -> None:
    """The answer, or why there is none; what it took."""
    ended = story.outcome
    with st.container(border=True):
        if color := BADGES.get(ended.mood):
            st.badge(ended.name, color=color)
        else:
            BOXES[ended.mood](ended.name)
        with st.container(key="said"):
            if story.result.answer is None:
                st.text(ended.text)
            else:
                st.markdown(
                    write_markdown(
                        sign_answer(story.result, is_quote=story.is_without_model),
                        r"\[{}\]".format,
                        formulas=False,
                    )
                )
        if ended.note:
            st.caption(ended.note)
        if story.result.stop_reason is StopReason.SEARCH_ERROR:
            st.markdown("A search server over the sample documents:")
            st.code("./run_demo.sh search", language=None)
        _figures(story)
        st.download_button(
            "Save as a page",
            run.page,
            f"{story.started.run_id}.html",
            "text/html",
            icon=":material/download:",
        )


def _seen(story: RunView, run: Running) -> Callable[[], None] | None:
    """What draws the evidence, or meanwhile what is looked at; None where there is neither."""
    if run.over:
        return partial(_evidence, story, run) if story.result.evidence else None
    looked = [shown for step in story.step_views[-2:] for shown in _images(step)]
    return partial(_looking, looked[-1], story, run) if looked else None


def _looking(shown: ImageShown, story: RunView, run: Running) -> None:
    st.subheader("In view")
    with st.container(border=True):
        _shown(shown, story, run)


def _evidence(story: RunView, run: Running) -> None:
    """The places that the answer rests on: parts of pages large, whole pages after them, smaller."""
    part = ReportPart(1, story)
    st.subheader("Evidence" if part.answered else "Where the agent looked")
    _rows([partial(_place, one, story, run) for _, one in part.closeups], 1)
    _rows(
        [partial(_place, one, story, run) for _, one in part.pages],
        PAGES if len(part.closeups + part.pages) > 1 else 1,
    )


def _figures(story: RunView) -> None:
    figures = cost_figures([story])
    with st.container(key="figures"):
        for column, (name, value) in zip(st.columns(len(figures)), figures.items(), strict=True):
            column.metric(name.capitalize(), value)


def _step(step: StepView, story: RunView, run: Running) -> None:
    st.markdown(f"**Step {step.number}**")
    if step.thought:
        st.text(step.thought)
    if lines := [line for event in step.events if (line := _line(event))]:
        with st.container(key=f"done-{step.number}"):
            st.text("\n".join(lines))
    _rows([partial(_shown, shown, story, run) for shown in _images(step)], ROW)


def _images(step: StepView) -> list[ImageShown]:
    """The images that the model was shown in a step."""
    return [event for event in step.events if isinstance(event, ImageShown)]


def _line(event: Event) -> str:
    """What an event tells beside its pictures; empty for those that tell nothing."""
    match event:
        case ImageShown():
            return ""
        case SearchReturned(hits=hits) if hits:
            return f"{count(len(hits), 'hit')}."
        case MemoryUpdated():
            kept = ", ".join(f"{one_line(kept.label)} of {one_line(kept.node)}" for kept in event.kept)
            return f"Memory: {kept or 'nothing'} ({event.tokens:,} of {event.budget:,} visual tokens)."
        case _:
            return step_line(event)


def _rows(cells: Sequence[Callable[[], None]], abreast: int) -> None:
    """Draws a few things beside each other, row by row."""
    for start in range(0, len(cells), abreast):
        for column, draw in zip(st.columns(abreast), cells[start : start + abreast], strict=False):
            with column, st.container(border=True):
                draw()


def _shown(shown: ImageShown, story: RunView, run: Running) -> None:
    """A picture that the model was shown; of a part also the page, with the part marked."""
    source = Figures(story, ImageStore({}, {})).source_of(shown) if shown.crop else None
    if source is not None:
        _picture(run, source, shown.box)
    _picture(run, shown)
    st.text(describe_image(shown))


def _place(evidence: Evidence, story: RunView, run: Running) -> None:
    """A place that the answer rests on."""
    page, closer = story.images_of(evidence)
    if page is not None:
        _picture(run, page, evidence.box)
    if closer is not None:
        _picture(run, closer)
    st.text(f"{evidence.document}\n{extent(evidence)}")
    if evidence.quote:
        st.text(f"“{one_line(evidence.quote)}”")


def _picture(run: Running, shown: ImageShown, box: BoxSides | None = None) -> None:
    """A picture of the run, with a part of its page marked."""
    data = run.picture(shown.sha256)
    if data is None:
        st.caption("The picture is not among the files of the run.")
        return
    inner = placed(box, shown.box) if box else None
    st.image(data if inner is None else marked(data, inner))
