"""What a run cost, call by call, and what it was run with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from vrag.agent.events import UsageReported
from vrag.render.html import Markup, element
from vrag.render.run_page.timeline import title_of
from vrag.render.text_format import amount, money, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.render.run_page.run_view import RunView

__all__ = ["cost_section", "settings_section"]

_COLUMNS: Mapping[str, Callable[[UsageReported], float | None]] = {
    "Prompt": lambda usage: usage.prompt_tokens,
    "Cached": lambda usage: usage.cached_tokens,
    "Reply": lambda usage: usage.completion_tokens,
    "Visual": lambda usage: usage.visual_tokens,
    "Time": lambda usage: usage.seconds,
    "Model": lambda usage: usage.model_seconds,
    "Cost": lambda usage: usage.cost,
}
_WORDS: Mapping[str, Callable[[float], str]] = {"Time": seconds, "Model": seconds, "Cost": money}
"""How the numbers of a column are written, where they are no plain counts."""


def cost_section(run_view: RunView) -> Markup | None:
    """Tokens, seconds and cost of each call and of all; None when no call came to its end."""
    rows = [
        (step_view.number, *title_of(step_view), step_view.usage)
        for step_view in run_view.step_views
        if step_view.usage
    ]
    if not rows:
        return None
    usages = [usage for *_, usage in rows]
    columns = [name for name, of in _COLUMNS.items() if any(of(usage) is not None for usage in usages)]
    most = max(*(usage.visual_tokens for usage in usages), 1)
    body = (_row(number, title, kind, usage, columns, most) for number, title, kind, usage in rows)
    heads = [
        element("th", "Step", scope="col"),
        *(element("th", n, scope="col", class_="n") for n in columns),
    ]
    table = element(
        "table",
        element("thead", element("tr", heads)),
        element("tbody", body),
        element("tfoot", _totals(usages, columns)),
        class_="costs",
    )
    legend = _legend(run_view) if any(usage.memory_tokens or usage.fresh_tokens for usage in usages) else None
    return element(
        "section",
        element("h2", "Cost", element("span", "tokens, seconds and prices of each call", class_="aside")),
        element("div", table, class_="wide", tabindex="0", role="group", aria_label="Cost of each call"),
        legend,
        id="cost",
    )


def _row(
    number: int, title: str, kind: str, usage: UsageReported, columns: Sequence[str], most: int
) -> Markup:
    link = element("a", str(number), href=f"#step-{number}")
    name = element("th", link, " ", element("span", title, dir="auto", class_=f"kind {kind}"), scope="row")
    bars = {"Visual": _parts(usage, most)}
    return element(
        "tr", name, (_cell(column, _COLUMNS[column](usage), bars.get(column)) for column in columns)
    )


def _cell(column: str, value: float | None, bar: Markup | None = None) -> Markup:
    text = "–" if value is None else _WORDS.get(column, amount)(value)
    return element("td", text, bar, class_="n visual" if bar else "n")


def _parts(usage: UsageReported, most: int) -> Markup:
    """The visual tokens of a call as a bar: from memory, fresh, and shown before."""
    rest = max(usage.visual_tokens - usage.memory_tokens - usage.fresh_tokens, 0)
    named = (("memory", usage.memory_tokens), ("fresh", usage.fresh_tokens), ("earlier", rest))
    parts = (
        element("span", style=f"width:{100 * min(max(value, 0) / most, 1):.2f}%", class_=name)
        for name, value in named
    )
    label = ", ".join(f"{amount(value)} {name}" for name, value in named)
    return element("span", parts, class_="bar", role="img", aria_label=label, title=label)


def _totals(usages: Sequence[UsageReported], columns: Sequence[str]) -> Markup:
    sums = (_cell(column, _sum([_COLUMNS[column](usage) for usage in usages])) for column in columns)
    return element("tr", element("th", "All", scope="row"), sums)


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _legend(run_view: RunView) -> Markup:
    memory = run_view.settings.memory
    of_memory = f" (at most {amount(memory.tokens)} in a call)" if memory else ""
    of_fresh = f" (at most {amount(memory.fresh_tokens)})" if memory else ""
    parts = (
        ("memory", f"from memory{of_memory}"),
        ("fresh", f"fresh results{of_fresh}"),
        ("earlier", "shown before, or with the question" if run_view.started.attached else "shown before"),
    )
    items = (element("span", element("span", class_=f"dot {name}"), text) for name, text in parts)
    return element("p", "Visual tokens: ", items, class_="legend")


def settings_section(run_view: RunView) -> Markup:
    """All that the run was run with."""
    known: dict[str, object] = {"run": run_view.started.run_id, "collection": run_view.started.collection}
    rows = (_setting(*row) for row in _flat(known | run_view.settings.model_dump(mode="json")))
    return element(
        "section",
        element("h2", "Settings"),
        element("dl", rows, class_="settings"),
        id="settings",
    )


def _setting(name: str, value: str) -> Markup:
    long = element("pre", value, dir="auto") if "\n" in value else element("span", value, dir="auto")
    return element("div", element("dt", name), element("dd", long))


def _flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Names and values, of nested ones with the names above them; what is not set is left out."""
    for name, value in values.items():
        words = f"{prefix}{name.replace('_', ' ')}"
        match value:
            case dict():
                yield from _flat(value, f"{words} · ")  # pyright: ignore[reportUnknownArgumentType] - from JSON
            case list():
                if value:
                    yield words, ", ".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType] - from JSON
            case bool():
                yield words, "yes" if value else "no"
            case None | "":
                pass
            case _:
                yield words, str(value)
