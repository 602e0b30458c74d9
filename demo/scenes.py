"""How a run is drawn: its end, its graph, its steps.

What a model or a document says is given to `st.text` alone, which reads it neither as Markdown nor as HTML;
pictures are files of the run, never addresses.
"""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st
from PIL import Image, ImageDraw

from vrag.agent.events import ImageShown, MemoryUpdated, SearchReturned, StopReason
from vrag.view.answer import pictured
from vrag.view.boxes import placed
from vrag.view.graph_file import graph_svg
from vrag.view.making import Making
from vrag.view.outcome import outcome
from vrag.view.pictures import Album
from vrag.view.plates import Plates, described
from vrag.view.report import Part
from vrag.view.sources import extent
from vrag.view.steps import one_line, step_line
from vrag.view.story import Chapter, Story
from vrag.view.wording import count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from running import Running

    from vrag.agent.evidence import BoxSides, Evidence

__all__ = ["draw_end", "draw_run"]

MARK = (240, 78, 35)
"""Colour of rectangles."""
ROW = 3
"""Pictures beside each other."""
MOODS = {"good": st.success, "calm": st.info, "fair": st.warning, "bad": st.error}


def draw_end(run: Running) -> None:
    """The answer, or why there is none; where it was seen; what it took."""
    story = Story.of(run.events)
    ended = outcome(story)
    with st.container(border=True):
        MOODS[ended.mood](ended.name)
        st.text(ended.text)
        if ended.note:
            st.caption(ended.note)
        if story.stop_reason is StopReason.SEARCH_ERROR:
            st.markdown("A search server over the sample documents:")
            st.code("./run_demo.sh search", language=None)
    if story.answer and story.answer.evidence:
        st.subheader("Evidence" if story.answer.text is not None else "Where the agent looked")
        _rows([partial(_evidence, evidence, story, run) for evidence in Part(1, story).figures])
    _figures(story)
    st.download_button(
        "Save as a page", run.page, f"{story.started.run_id}.html", "text/html", icon=":material/download:"
    )


def draw_run(run: Running) -> None:
    """The graph, where there is one, and the steps so far."""
    story = Story.of(run.events)
    if story.graph and story.graph.nodes:
        st.subheader("Memory graph")
        st.image(graph_svg(story))
    st.subheader("Steps")
    for chapter in story.chapters:
        with st.container(border=True):
            _step(chapter, story, run)
    if not run.over:
        _figures(story)


def _figures(story: Story) -> None:
    figures = Making.of([story]).figures
    for column, (name, value) in zip(st.columns(len(figures)), figures.items(), strict=True):
        column.metric(name.capitalize(), value)


def _step(chapter: Chapter, story: Story, run: Running) -> None:
    st.markdown(f"**Step {chapter.number}**")
    if chapter.thought:
        st.text(chapter.thought)
    for event in chapter.events:
        match event:
            case ImageShown():
                pass
            case SearchReturned(hits=hits) if hits:
                st.caption(f"{count(len(hits), 'hit')}.")
            case MemoryUpdated():
                st.caption(f"Memory: {event.tokens:,} of {event.budget:,} visual tokens.")
                st.text(", ".join(f"{kept.label} of {kept.node}" for kept in event.kept))
            case _:
                if line := step_line(event):
                    st.text(line)
    _rows([partial(_shown, shown, story, run) for shown in chapter.all(ImageShown)])


def _rows(cells: Sequence[Callable[[], None]]) -> None:
    """Draws a few things beside each other, row by row."""
    for start in range(0, len(cells), ROW):
        for column, draw in zip(st.columns(ROW), cells[start : start + ROW], strict=False):
            with column, st.container(border=True):
                draw()


def _shown(shown: ImageShown, story: Story, run: Running) -> None:
    """A picture that the model was shown; of a part also the page, with the part marked."""
    source = Plates(story, Album({}, {})).source_of(shown) if shown.crop else None
    if source is not None:
        _picture(run, source, shown.box)
    _picture(run, shown)
    st.text(described(shown))


def _evidence(evidence: Evidence, story: Story, run: Running) -> None:
    """A place that the answer rests on."""
    page, closer = pictured(evidence, story)
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
    st.image(data if inner is None else _marked(data, inner))


def _marked(data: bytes, box: BoxSides) -> Image.Image:
    with Image.open(io.BytesIO(data)) as image:
        drawn = image.convert("RGB")
    width, height = drawn.size
    corners = (box[0] * width, box[1] * height, box[2] * width, box[3] * height)
    ImageDraw.Draw(drawn).rectangle(corners, outline=MARK, width=max(3, width // 200))
    return drawn
