"""The memory of a run: its graph, what every node holds, and what there was room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.agent.events import ActionRequested, CropRequested, MemoryEntry, MemoryUpdated, SearchRequested
from vrag.render.drawing.graph import anchor, draw_graph
from vrag.render.drawing.graph_geometry import kind_name
from vrag.render.html import Child, Markup, element
from vrag.render.text_format import amount, count, moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vrag.agent.events import ImageShown
    from vrag.agent.memory.memory_graph import Node, RememberedItem
    from vrag.render.run_page.figures import Figures
    from vrag.render.run_page.run_view import RunView

__all__ = ["graph_section", "memory_section"]

SHADES = 6
"""Colours of the parts of a bar, taken in turn."""


def graph_section(run_view: RunView, page_figures: Figures) -> Markup | None:
    """The graph and its nodes; None for a run without one."""
    if run_view.graph is None or not run_view.graph.nodes:
        return None
    nodes = run_view.graph.nodes
    drawn = draw_graph(run_view, page_figures.image_store)
    return element(
        "section",
        element("h2", "Memory graph", element("span", count(len(nodes), "node"), class_="aside")),
        element("div", drawn, class_="canvas", tabindex="0", role="group", aria_label="Memory graph"),
        element("ol", (_node(node, run_view, page_figures) for node in nodes), class_="nodes"),
        id="graph",
    )


def _node(node: Node, run_view: RunView, page_figures: Figures) -> Markup:
    step = _step_of(node.id, run_view)
    parents = [found for parent in node.parents if (found := run_view.node(parent)) is not None]
    return element(
        "li",
        element(
            "h3",
            element("span", kind_name(node), class_=f"chip {node.kind.value}"),
            " ",
            element("span", node.id, dir="auto"),
        ),
        element("p", node.query, class_="query", dir="auto") if node.query else None,
        element("p", node.summary, class_="summary", dir="auto") if node.summary else None,
        element("p", "Not summarised.", class_="aside") if node.pending else None,
        element("ul", (_memo(memo, node, page_figures) for memo in node.memory), class_="memos")
        if node.memory
        else None,
        element(
            "p",
            ("from ", _listed(parents)) if parents else None,
            " · " if parents and step else None,
            element("a", f"step {step}", href=f"#step-{step}") if step else None,
            class_="aside",
        )
        if parents or step
        else None,
        id=anchor(node),
        class_=f"entry {node.kind.value}",
    )


def _listed(nodes: list[Node]) -> Iterator[Child]:
    for index, node in enumerate(nodes):
        yield ", " if index else None
        yield element("a", node.id, href=f"#{anchor(node)}", dir="auto")


def _step_of(node: str, run_view: RunView) -> int | None:
    """The step that made a node."""
    requests = run_view.all(SearchRequested) + run_view.all(CropRequested) + run_view.all(ActionRequested)
    return next((event.step for event in requests if event.node == node), None)


def _memo(memo: RememberedItem, node: Node, page_figures: Figures) -> Markup:
    seen = page_figures.run_view.seen_at(node.id, memo.label, memo.item)
    named = [shown for shown in seen if shown.seconds in memo.seconds]
    priority = min(max(memo.priority, 0), 5)
    stars = element(
        "span",
        "●" * priority + "○" * (5 - priority),
        class_="stars",
        role="img",
        aria_label=f"priority {priority} of 5",
    )
    worth: Child = (
        "not reviewed" if memo.useful and not memo.reviewed else stars if memo.useful else "not useful"
    )
    return element(
        "li",
        _stamp((named or list(seen))[:1], memo.label, page_figures),
        element("span", memo.label, element("small", _moments(memo.seconds))),
        element("small", worth),
        class_=None if memo.useful else "off",
    )


def _stamp(seen: list[ImageShown], label: str, page_figures: Figures) -> Markup:
    if not seen:
        return element("span", "?", class_="stamp", title=label)
    return page_figures.small(seen[0], f"{label}: {seen[0].document}, {seen[0].page}")


def _moments(seconds: tuple[float, ...]) -> str:
    if not seconds:
        return ""
    named = ", ".join(moment(second) for second in seconds[:4])
    return f" at {named}{f' and {len(seconds) - 4} more' if len(seconds) > 4 else ''}"


def memory_section(run_view: RunView, page_figures: Figures) -> Markup | None:
    """What the model was shown from memory after each node, against the budget; None without memory."""
    if not run_view.memories:
        return None
    return element(
        "section",
        element("h2", "Memory", element("span", "visual tokens against the budget", class_="aside")),
        element("ol", (_update(update, page_figures) for update in run_view.memories), class_="updates"),
        id="memory",
    )


def _update(update: MemoryUpdated, page_figures: Figures) -> Markup:
    node = page_figures.run_view.node(update.node)
    name = element("a", update.node, href=f"#{anchor(node)}", dir="auto") if node else update.node
    used = f"{amount(update.tokens)} of {amount(update.budget)} tokens"
    return element(
        "li",
        element(
            "p",
            element(
                "span", "After ", name, ", ", element("a", f"step {update.step}", href=f"#step-{update.step}")
            ),
            element("span", used, class_="n"),
            class_="row",
        ),
        _bar(update, used),
        element("ul", (_entry(e, n, page_figures) for n, e in enumerate(update.kept)), class_="memos")
        if update.kept
        else None,
        element("ul", map(_dropped, update.dropped), class_="plain dropped") if update.dropped else None,
        element("ul", map(_report, update.reports), class_="plain") if update.reports else None,
        id=f"memory-{update.seq}",
    )


def _bar(update: MemoryUpdated, used: str) -> Markup:
    scale = 100 / max(update.budget, update.tokens, 1)
    parts = (
        element("span", style=f"width:{max(entry.tokens, 0) * scale:.2f}%", class_=f"shade-{index % SHADES}")
        for index, entry in enumerate(update.kept)
    )
    return element("div", parts, class_="bar", role="img", aria_label=used)


def _entry(entry: MemoryEntry, index: int, page_figures: Figures) -> Markup:
    seen = page_figures.run_view.seen_at(entry.node, entry.label, entry.item)
    named = [shown for shown in seen if shown.seconds in entry.seconds]
    size = f"{entry.width} × {entry.height}"
    facts = f"{amount(entry.tokens)} tokens · {size} · Ω {entry.energy:.3g}"
    return element(
        "li",
        _stamp((named or list(seen))[:1], entry.label, page_figures),
        element(
            "span",
            element("span", class_=f"dot shade-{index % SHADES}"),
            entry.label,
            " of ",
            element("span", entry.node, dir="auto"),
            element("small", _moments(entry.seconds)),
        ),
        element("small", facts),
    )


def _dropped(entry: MemoryEntry) -> Markup:
    what = f"{entry.label} of {entry.node}{_moments(entry.seconds)}"
    return element(
        "li", element("strong", "No room: "), what, f" – {entry.reason}" if entry.reason else None, dir="auto"
    )


def _report(sentence: str) -> Markup:
    return element("li", sentence, dir="auto")
