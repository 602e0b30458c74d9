"""A run as one HTML page that stands alone: it runs no script and fetches nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from vrag.agent.actions import Flag
from vrag.agent.citations import citations
from vrag.agent.events import AnswerGiven, CropRequested, ImageShown, UsageReported
from vrag.agent.policy import FinishReason
from vrag.render.figures import Figures, ImageStore, describe_image
from vrag.render.graph_drawing import GraphFigure
from vrag.render.run_view import RunCost, RunView
from vrag.render.templates import render_page
from vrag.render.text_format import amount, count, moment, money, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vrag.agent.events import Event, ModelCalled
    from vrag.agent.runs.run_store import StoredRun
    from vrag.render.figures import PageFigure
    from vrag.render.run_view import StepView

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


def page_of(run: StoredRun) -> RunPage:
    """The page of a stored run, with its images."""

    def read(sha256: str) -> bytes | None:
        try:
            return run.file(sha256, "jpg").read_bytes()
        except OSError:
            return None

    return _page(RunView.of_run(run), read)


def render(events: Iterable[Event], read: Callable[[str], bytes | None]) -> RunPage:
    """The page of the events of a run, which need not have an end.

    Args:
        events: Beginning with the start of the run.
        read: Returns the JPEG file of a hash, or None if there is none.

    Raises:
        RunError: If the events do not begin with the start of a run.
    """
    return _page(RunView.of(events), read)


def graph_svg(run: RunView, image_store: ImageStore | None = None) -> str:
    """The memory graph of a run as an SVG file, which runs no script and fetches nothing.

    Args:
        run: The run; without a graph the drawing is empty.
        image_store: The images of its nodes; none by default.
    """
    store = image_store or ImageStore({}, {})
    return render_page("graph.svg.jinja", graph=GraphFigure.of(run, store), image_store=store)


def _page(run: RunView, read: Callable[[str], bytes | None]) -> RunPage:
    store = ImageStore.of(_hashes(run), read)
    result = run.result
    html = render_page(
        "run.html.jinja",
        run=run,
        image_store=store,
        figures=Figures(run, store),
        totals=RunCost.of([run]).figures | {"pictures seen": amount(len(run.pictures))},
        cited=citations(result.evidence, run.settings, answered=result.answer is not None),
        graph=GraphFigure.of(run, store),
        costs=CostTable.of(run),
        settings=list(_settings(run)),
        image_groups=image_groups,
        reply_remarks=reply_remarks,
        usage_line=usage_line,
    )
    missing = tuple(dict.fromkeys(store.missing.values()))
    return RunPage(html, len(store.stored_images), missing, len(store.missing))


def _hashes(run: RunView) -> Iterator[str]:
    """Hashes of all images on the page, in order."""
    yield from run.started.attached
    for shown in run.pictures:
        yield shown.sha256
    for end in run.all(AnswerGiven):
        for evidence in end.evidence:
            if evidence.crop_sha256:
                yield evidence.crop_sha256


class ImageGroup(NamedTuple):
    """An image, a crop beside the page that it was cut from, or the frames of a clip."""

    figures: list[PageFigure]
    label: str = ""
    """Of a clip."""
    caption: str = ""
    """Of a clip."""
    id: str = ""


def image_groups(step: StepView, figures: Figures) -> list[ImageGroup]:
    """The images that the model was shown in a step."""
    groups = groupby(
        step.all(ImageShown), key=lambda s: (s.node, s.label, s.item) if s.seconds is not None else s.seq
    )
    return [_image_group(tuple(group), step, figures) for _, group in groups]


def _image_group(group: Sequence[ImageShown], step: StepView, figures: Figures) -> ImageGroup:
    first = group[0]
    name = f"shown-{first.seq}"
    if first.seconds is not None:
        label = f"{first.label}: {first.document}, {count(len(group), 'frame')}"
        caption = f"{label} · {amount(sum(frame.visual_tokens for frame in group))} visual tokens"
        frames = [
            figures.figure(frame, f"shown-{frame.seq}", caption=moment(frame.seconds or 0.0), class_="frame")
            for frame in group
        ]
        return ImageGroup(frames, label, caption, f"{step.number}-{first.seq}")
    facts = f"{first.width} × {first.height} px · {amount(first.visual_tokens)} visual tokens"
    shown = figures.figure(
        first, name, caption=describe_image(first), facts=facts, class_="closer" if first.crop else ""
    )
    request = step.first(CropRequested)
    source = figures.source_of(first, request.image if request else None) if first.crop else None
    if source is None:
        return ImageGroup([shown])
    whole = figures.figure(
        source, f"{name}-source", [first.box], caption=f"cut from {source.label}", class_="page"
    )
    return ImageGroup([whole, shown])


def reply_remarks(event: ModelCalled) -> list[str]:
    """Remarks about the faults of a reply."""
    remarks = [flag.replace("_", " ") for flag in event.flags if flag != Flag.REPAIRED or not event.repairs]
    remarks += [f"repaired: {'; '.join(event.repairs)}"] if event.repairs else []
    return remarks + ([_FINISH_REMARKS[event.finish]] if event.finish in _FINISH_REMARKS else [])


def usage_line(usage: UsageReported) -> str:
    """The cost of a call in a line."""
    parts: list[str] = []
    if usage.prompt_tokens is not None or usage.completion_tokens is not None:
        parts += [f"{amount(usage.prompt_tokens)} tokens in, {amount(usage.completion_tokens)} out"]
    parts += [f"{amount(usage.visual_tokens)} visual", seconds(usage.seconds)]
    return " · ".join(parts + ([money(usage.cost)] if usage.cost is not None else []))


class TokenShare(NamedTuple):
    """A part of the visual tokens of a call."""

    name: str
    """`memory`, `fresh` or `earlier`."""
    label: str
    percent: str
    """Share of the most expensive call."""


@dataclass(frozen=True, slots=True)
class CostTable:
    """Tokens, seconds and cost of each call and of all."""

    columns: tuple[str, ...]
    rows: tuple[tuple[StepView, list[str]], ...]
    totals: tuple[str, ...]
    max_visual_tokens: int
    has_parts: bool
    """True if memory or fresh images are known."""

    @classmethod
    def of(cls, run: RunView) -> CostTable | None:
        """The table of a run; None if no call ended."""
        calls = [(step, step.usage) for step in run.step_views if step.usage]
        if not calls:
            return None
        usages = [usage for _, usage in calls]
        columns = {
            name: value
            for name, value in _COST_COLUMNS.items()
            if any(value(usage) is not None for usage in usages)
        }
        rows = tuple(
            (step, [_cost_cell(name, value(usage)) for name, value in columns.items()])
            for step, usage in calls
        )
        sums = {
            name: sum(number for usage in usages if (number := value(usage)) is not None)
            for name, value in columns.items()
        }
        return cls(
            tuple(columns),
            rows,
            tuple(_cost_cell(name, total) for name, total in sums.items()),
            max(*(usage.visual_tokens for usage in usages), 1),
            any(usage.memory_tokens or usage.fresh_tokens for usage in usages),
        )

    def visual_parts(self, usage: UsageReported) -> list[TokenShare]:
        """The visual tokens of a call: from memory, fresh, and shown before."""
        earlier = max(usage.visual_tokens - usage.memory_tokens - usage.fresh_tokens, 0)
        parts = {"memory": usage.memory_tokens, "fresh": usage.fresh_tokens, "earlier": earlier}
        shares = {name: min(max(tokens / self.max_visual_tokens, 0), 1) for name, tokens in parts.items()}
        return [
            TokenShare(name, f"{amount(tokens)} {name}", f"{100 * shares[name]:.2f}")
            for name, tokens in parts.items()
        ]


def _cost_cell(column: str, value: float | None) -> str:
    return "–" if value is None else _COST_FORMATS.get(column, amount)(value)


def _settings(run: RunView) -> Iterator[tuple[str, str]]:
    """Names and values of all settings that are set."""
    known: dict[str, object] = {"run": run.started.run_id, "collection": run.started.collection}
    yield from _flatten(known | run.settings.model_dump(mode="json"))


def _flatten(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
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
