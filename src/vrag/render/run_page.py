"""A run as one HTML page that stands alone: it runs no script and fetches nothing.

The web page draws runs with modules of its own. In place of this page they would need a script: a viewer that
runs none (mail, previews, the sandbox of the server) would show a summary of the run only, and each file
would grow by 300 kB. The web page also shows one part of a run at a time; this page is all of it, to print.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from vrag.agent.actions import Flag
from vrag.agent.events import (
    ActionRequested,
    AnswerGiven,
    CropRequested,
    Event,
    ImageShown,
    MemoryUpdated,
    ModelCalled,
    SearchRequested,
    UsageReported,
)
from vrag.agent.memory.memory_graph import Graph
from vrag.agent.policy import FinishReason
from vrag.agent.runs.run_store import StoredRun
from vrag.render.figures import Figures, ImageStore, PageFigure, image_reader
from vrag.render.graph_drawing import PADDING, THUMB, GraphFigure, drawing_of, kind_name
from vrag.render.markup import SvgDrawing, package_text, render_page
from vrag.render.place_links import NO_LINKS, PlaceLinks
from vrag.render.run_view import RunView, StepView, cost_figures
from vrag.render.text_format import amount, moment, money, seconds
from vrag.text.numerals import count

_FINISH_REMARKS = {
    FinishReason.LENGTH: "cut off at its token limit",
    FinishReason.UNSAID: "the server did not say why it ended",
}
_COST_COLUMNS: Mapping[str, Callable[[UsageReported], float | None]] = {
    "Prompt": lambda usage: usage.prompt_tokens,
    "Cached": lambda usage: usage.cached_tokens,
    "Reply": lambda usage: usage.completion_tokens,
    "Visual": lambda usage: usage.visual_tokens,
    "Time": lambda usage: usage.seconds,
    "Model": lambda usage: usage.model_seconds,
    "Cost": lambda usage: usage.cost,
}
_COST_FORMATS: Mapping[str, Callable[[float], str]] = {"Time": seconds, "Model": seconds, "Cost": money}
"""Columns that are not plain counts."""


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page and the number of its images."""

    html: str
    pictures: int
    """Images in it."""
    missing: tuple[str, ...]
    """The reason images of the run are missing, each reason once."""
    absent: int
    """Number of missing images."""

    @property
    def data(self) -> bytes:
        """The file."""
        return self.html.encode()


def page_of(
    run: StoredRun, links: PlaceLinks = NO_LINKS, facts: Mapping[str, str] = MappingProxyType({})
) -> RunPage:
    """Return the page of a stored run, with its images.

    `links` lead to its places; `facts` are words by name that are shown with its cost.
    """
    return _page(RunView.of_run(run), image_reader([run]), links, facts)


def render(events: Iterable[Event], read: Callable[[str], bytes | None]) -> RunPage:
    """Make the page of the events of a run, which need not have an end.

    `read` returns the JPEG file of a hash, or None if there is none. Raises `RunError` if the events do not
    begin with the start of a run.
    """
    return _page(RunView.of(events), read)


def graph_svg(graph: Graph) -> SvgDrawing:
    """Draw a memory graph, without images, as SVG that runs no script and fetches nothing."""
    style = package_text("vrag.render", "page.css")
    values = _graph_values(graph, GraphFigure(drawing_of(graph, {}), defaultdict(tuple)))
    return SvgDrawing(render_page("graph.svg.jinja", style=style, **values))


def _page(
    run: RunView,
    read: Callable[[str], bytes | None],
    links: PlaceLinks = NO_LINKS,
    facts: Mapping[str, str] = MappingProxyType({}),
) -> RunPage:
    settings = run.settings
    crops = [evidence.crop_sha256 for end in run.all(AnswerGiven) for evidence in end.evidence]
    hashes = [*run.started.attached, *(shown.sha256 for shown in run.pictures), *filter(None, crops)]
    store = ImageStore.of(hashes, read)
    requests = run.all(SearchRequested) + run.all(CropRequested) + run.all(ActionRequested)
    known = {"run": run.started.run_id, "collection": run.started.collection}
    html = render_page(
        "run.html.jinja",
        run=run,
        image_store=store,
        figures=Figures(run, store),
        links=links,
        totals={**facts} | cost_figures([run]) | {"pictures seen": amount(len(run.pictures))},
        style="",
        **_graph_values(run.result.graph or Graph(), GraphFigure.of(run, store)),
        step_of={request.node: request.step for request in reversed(requests)},
        memories=run.all(MemoryUpdated),
        costs=CostTable.of(run),
        settings=list(_flatten(known | settings.model_dump(mode="json"))),
        image_groups=image_groups,
        reply_remarks=reply_remarks,
        usage_line=usage_line,
    )
    missing = tuple(dict.fromkeys(store.missing.values()))
    return RunPage(html, len(store.stored_images), missing, len(store.missing))


def _graph_values(graph: Graph, figure: GraphFigure) -> dict[str, object]:
    nodes = {node.id: node for node in graph.nodes}
    return {"graph": figure, "nodes": nodes, "kind_name": kind_name, "padding": PADDING, "thumb": THUMB}


class ImageGroup(NamedTuple):
    """An image, a crop beside the page that it was cut from, or the frames of a clip."""

    figures: list[PageFigure]
    label: str = ""
    """Label of a clip."""
    caption: str = ""
    """Caption of a clip."""
    id: str = ""


def image_groups(step: StepView, figures: Figures) -> Iterator[ImageGroup]:
    """Yield the images that the model was shown in a step, grouped as they are drawn."""
    images = (event for event in step.events if isinstance(event, ImageShown))
    for _, group in groupby(images, key=lambda s: s.seq if s.seconds is None else (s.node, s.label, s.item)):
        first, *others = group
        name = f"shown-{first.seq}"
        if first.seconds is not None:
            frames = [first, *others]
            label = f"{first.label}: {first.document}, {count(len(frames), 'frame')}"
            caption = f"{label} · {amount(sum(frame.visual_tokens for frame in frames))} visual tokens"
            shown = [
                figures.figure(f, f"shown-{f.seq}", caption=moment(f.seconds or 0.0), class_="frame")
                for f in frames
            ]
            yield ImageGroup(shown, label, caption, f"{step.number}-{first.seq}")
            continue
        facts = f"{first.width} × {first.height} px · {amount(first.visual_tokens)} visual tokens"
        shown = [figures.figure(first, name, facts=facts, class_="closer" if first.crop else "")]
        request = step.first(CropRequested)
        source = figures.source_of(first, request.image if request else None) if first.crop else None
        if source is not None:
            caption = f"cut from {source.label}"
            page = figures.figure(source, f"{name}-source", [first.box], caption=caption, class_="page")
            shown.insert(0, page)
        yield ImageGroup(shown)


def reply_remarks(event: ModelCalled) -> list[str]:
    """Return remarks about the faults of a reply."""
    remarks = [flag.replace("_", " ") for flag in event.flags if flag != Flag.REPAIRED or not event.repairs]
    remarks += [f"repaired: {'; '.join(event.repairs)}"] if event.repairs else []
    return remarks + ([_FINISH_REMARKS[event.finish]] if event.finish in _FINISH_REMARKS else [])


def usage_line(usage: UsageReported) -> str:
    """Return the cost of a call in a line."""
    parts: list[str] = []
    if usage.prompt_tokens is not None or usage.completion_tokens is not None:
        parts += [f"{amount(usage.prompt_tokens)} tokens in, {amount(usage.completion_tokens)} out"]
    parts += [f"{amount(usage.visual_tokens)} visual", seconds(usage.seconds)]
    return " · ".join(parts + ([money(usage.cost)] if usage.cost is not None else []))


@dataclass(frozen=True, slots=True)
class CostTable:
    """Tokens, seconds and cost of each call and of all."""

    columns: tuple[str, ...]
    rows: tuple[tuple[StepView, UsageReported, list[str]], ...]
    totals: list[str]
    has_parts: bool
    """True if memory or fresh images are known."""

    @classmethod
    def of(cls, run: RunView) -> CostTable | None:
        """Return the table of a run; None if no call ended."""
        calls = [(step, usage) for step in run.step_views if (usage := step.first(UsageReported))]
        if not calls:
            return None
        values = {name: [value(usage) for _, usage in calls] for name, value in _COST_COLUMNS.items()}
        columns = {name: cells for name, cells in values.items() if any(cell is not None for cell in cells)}
        rows = [
            (step, usage, [_cost_cell(name, cells[index]) for name, cells in columns.items()])
            for index, (step, usage) in enumerate(calls)
        ]
        sums = {name: sum(cell for cell in cells if cell is not None) for name, cells in columns.items()}
        totals = [_cost_cell(name, total) for name, total in sums.items()]
        has_parts = any(usage.memory_tokens or usage.fresh_tokens for _, usage in calls)
        return cls(tuple(columns), tuple(rows), totals, has_parts)

    def visual_parts(self, usage: UsageReported) -> list[tuple[str, str, float]]:
        """Split the visual tokens of a call into memory, fresh and earlier: name, label, percent of the bar.

        The bar of the most expensive call is full.
        """
        most = max(*(usage.visual_tokens for _, usage, _ in self.rows), 1)
        earlier = max(usage.visual_tokens - usage.memory_tokens - usage.fresh_tokens, 0)
        parts = {"memory": usage.memory_tokens, "fresh": usage.fresh_tokens, "earlier": earlier}
        percents = {name: 100 * min(max(tokens / most, 0), 1) for name, tokens in parts.items()}
        return [(name, f"{amount(tokens)} {name}", percents[name]) for name, tokens in parts.items()]


def _cost_cell(column: str, value: float | None) -> str:
    return "–" if value is None else _COST_FORMATS.get(column, amount)(value)


def _flatten(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names and values of all settings that are set."""
    for name, value in values.items():
        words = f"{prefix}{name.replace('_', ' ')}"
        match value:
            case dict():
                yield from _flatten(value, f"{words} · ")  # pyright: ignore[reportUnknownArgumentType] - from JSON
            case list():
                if value:
                    yield words, ", ".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType] - from JSON
            case bool():
                yield words, "yes" if value else "no"
            case None | "":
                pass
            case _:
                yield words, str(value)
