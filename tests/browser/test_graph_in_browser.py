"""The memory graph of a run that has ended: whole, readable, and the way to the answer stands out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from browsing import KAYAK, NARROW, WIDE, check_no_sideways, until
from playwright.sync_api import expect
from test_accessibility_in_browser import check_axe

from vrag.agent.events import AnswerGiven, GraphChanged, RunSettings, RunStarted, StopReason
from vrag.agent.memory.memory_graph import Graph, Node, NodeKind

if TYPE_CHECKING:
    from browsing import Desk, Opener
    from playwright.sync_api import Page

EDGES = {
    "search_1": ("root",),
    "search_2": ("root",),
    "search_3": ("root",),
    "crop_4": ("search_1",),
    "search_5": ("search_2", "search_3"),
    "answer": ("crop_4",),
}
"""The parents of each node; the answer rests on `crop_4`, `search_1` and the question."""
LEADING = ["root", "search_1", "crop_4", "answer"]
BOXES = """const all = (name) => [...document.querySelectorAll(name)];
const of = (name) => all(name).map((one) => one.getBoundingClientRect());
const cards = of(".graph .node-card"), [frame] = of(".graph-canvas");
const over = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;"""
INSIDE = f"""() => {{ {BOXES}
  const [left, right] = [frame.left - 1, frame.right + 1], [top, bottom] = [frame.top - 1, frame.bottom + 1];
  return cards.every((a) => a.left >= left && a.right <= right && a.top >= top && a.bottom <= bottom);
}}"""
"""Whether all nodes are inside of the frame."""
LETTERS = f"() => {{ {BOXES} return Math.min(...of('.graph .node-query').map((line) => line.height)); }}"
"""Height of the smallest line of a question, in pixels."""
APART = f"() => {{ {BOXES} return cards.every((a, i) => cards.every((b, j) => i >= j || !over(a, b))); }}"
"""Whether no node lies over another."""
BESIDE = f"() => {{ {BOXES} return new Set(cards.map((one) => one.left)).size > 1; }}"
"""Whether nodes stand beside each other."""


def graph_run(desk: Desk) -> str:
    """A stored run of VimRAG with this graph; its id."""
    nodes = [Node(id="root", kind=NodeKind.ROOT, query=KAYAK, summary="", order=0)]
    for name, parents in EDGES.items():
        kind = NodeKind(name.split("_")[0])
        query = "4.20" if kind is NodeKind.ANSWER else f"What does the board say of {name}?"
        nodes.append(
            Node(id=name, kind=kind, parents=parents, query=query, summary="It says so.", order=len(nodes))
        )
    with desk.answers.store.record() as log:
        head: dict[str, Any] = {"run_id": log.id, "ts": 1_770_000_000.0}
        settings = RunSettings(agent="vimrag", policy="chat:qwen", profile="qwen2.5-vl")
        log.write(RunStarted(**head, seq=0, step=0, question=KAYAK, settings=settings, collection=""))
        log.write(GraphChanged(**head, seq=1, step=1, graph=Graph(tuple(nodes))))
        answered = StopReason.ANSWERED
        log.write(AnswerGiven(**head, seq=2, step=1, text="4.20", evidence=(), stop_reason=answered))
    return log.id


def shown(visit: Opener, desk: Desk, run: str, **how: Any) -> Page:  # noqa: ANN401
    page = visit(f"{desk.address}/#/runs/{run}", **how).page
    page.locator("button.status").click()
    expect(page.locator(".graph [data-node='root']")).to_be_visible()
    return page


def test_all_of_it_is_in_its_frame_and_stays_there_when_the_window_changes(desk: Desk, visit: Opener) -> None:
    page = shown(visit, desk, graph_run(desk))
    expect(page.locator(".graph [data-node]")).to_have_count(7)
    page.wait_for_function(INSIDE)
    for width in (1440, 1000, 720, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function(INSIDE)
    page.get_by_role("button", name="Enlarge the graph").click()
    page.get_by_role("button", name="Enlarge the graph").click()
    assert not page.evaluate(INSIDE), "the reader has moved it"
    page.set_viewport_size({"width": 1300, "height": 800})
    assert not page.evaluate(INSIDE)
    page.get_by_role("button", name="Fit the graph").click()
    page.wait_for_function(INSIDE)


def test_what_the_answer_rests_on_stands_out_and_the_legend_says_so(desk: Desk, visit: Opener) -> None:
    page = shown(visit, desk, graph_run(desk))
    leading = page.locator(".graph .node.leads").evaluate_all("all => all.map((one) => one.dataset.node)")
    assert leading == LEADING
    assert page.locator(".graph .edge.leads").count() == 3
    assert page.locator(".graph .edge").count() == 7
    expect(page.locator(".graph-legend")).to_have_text(re.compile("rests on 4 of 7 nodes.*Others"))
    check_axe(page, "a graph with more than the way to the answer")


def test_the_full_screen_is_left_by_escape_which_does_nothing_else(desk: Desk, visit: Opener) -> None:
    page = shown(visit, desk, graph_run(desk))
    page.locator(".graph [data-node='search_1']").focus()
    page.keyboard.press("Enter")
    panel = page.locator(".node-panel")
    expect(panel).to_be_visible()
    page.get_by_role("button", name="Full screen").click()
    frame = page.locator(".graph-screen")
    expect(frame).to_be_visible()
    box = frame.bounding_box()
    assert box is not None
    assert (box["width"], box["height"]) == (WIDE["width"], WIDE["height"])
    page.wait_for_function(INSIDE)
    check_axe(page, "full screen")
    page.keyboard.press("Escape")
    expect(frame).to_be_hidden()
    expect(panel).to_be_visible()
    expect(page.get_by_role("button", name="Full screen")).to_be_focused()
    page.wait_for_function(INSIDE)
    page.keyboard.press("Enter")
    page.locator(".graph-screen [data-node='crop_4']").click()
    expect(frame).to_be_hidden()
    expect(panel).to_contain_text("crop_4")


def test_escape_in_the_full_screen_does_not_stop_a_run(desk: Desk, visit: Opener) -> None:
    opened = visit(desk.address)
    opened.ask("How many passengers?", model="scripted", agent="vimrag")
    page = opened.page
    stop = page.get_by_role("button", name="Stop", exact=True)
    expect(stop).to_be_visible()
    expect(page.locator(".graph")).to_be_visible()
    page.get_by_role("button", name="Full screen").click()
    expect(page.locator(".graph-screen")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".graph-screen")).to_be_hidden()
    expect(stop).to_be_visible()
    (run,) = desk.answers.store.ids()
    assert desk.answers.store.outline(run).stop_reason is None


def test_keys_go_from_node_to_node_and_move_the_graph(desk: Desk, visit: Opener) -> None:
    page = shown(visit, desk, graph_run(desk))
    root = page.locator(".graph [data-node='root']")
    expect(root).to_have_attribute("aria-label", re.compile(re.escape(KAYAK)))
    root.focus()
    for key, node in (
        ("ArrowDown", "search_1"),
        ("ArrowRight", "search_2"),
        ("ArrowDown", "search_5"),
        ("ArrowUp", "search_3"),
    ):
        page.keyboard.press(key)
        expect(page.locator(f".graph [data-node='{node}']")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".graph [data-node='crop_4']")).to_be_focused()
    page.wait_for_function(INSIDE)
    for key in ("Shift+ArrowLeft", "+"):
        before = page.locator(".graph-drawing > g").get_attribute("transform")
        page.keyboard.press(key)
        expect(page.locator(".graph-drawing > g")).not_to_have_attribute("transform", str(before))
    page.keyboard.press("0")
    page.wait_for_function(INSIDE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_its_nodes_stand_below_each_other_and_can_be_read(
    desk: Desk, visit: Opener, scheme: str
) -> None:
    page = shown(visit, desk, graph_run(desk), viewport=NARROW, color_scheme=scheme)
    page.wait_for_function(INSIDE)
    assert page.evaluate(LETTERS) >= 12
    assert page.evaluate(APART)
    tops = page.locator(".graph .node-card").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().top)"
    )
    assert tops == sorted(tops)
    assert page.locator(".graph .edge").count() == 7
    check_no_sideways(page)
    check_axe(page, "a graph on a phone")
    page.set_viewport_size({"width": 1600, "height": 900})
    page.wait_for_function(BESIDE)
    page.wait_for_function(INSIDE)


def test_fingers_move_it_and_change_its_size(desk: Desk, visit: Opener) -> None:
    page = shown(visit, desk, graph_run(desk), viewport=NARROW, has_touch=True)
    page.get_by_role("button", name="Full screen").tap()
    expect(page.locator(".graph-screen")).to_be_visible()
    page.wait_for_function(INSIDE)
    scale = "document.querySelector('.graph-drawing > g').transform.baseVal.consolidate().matrix.a"
    before = page.evaluate(scale)
    touch: Any = page.context.new_cdp_session(page)
    for kind, points in (
        ("touchStart", [(180, 400), (210, 400)]),
        ("touchMove", [(120, 400), (270, 400)]),
        ("touchMove", [(80, 400), (310, 400)]),
        ("touchEnd", []),
    ):
        at = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})
    until(page, f"{scale} > {before} * 1.5")
