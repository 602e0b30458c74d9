"""The page of a run: all of it is told, each picture is in it once, and nothing in it is alive."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from hostile import hostile, payload
from sample_runs import SLIDES, Telling, drawn_page, vimrag_run, vrag_run

from vrag.agent.events import (
    AnswerGiven,
    CropRequested,
    GraphChanged,
    ImageShown,
    MemoryUpdated,
    RunFailed,
    RunSettings,
    SearchRequested,
    StopReason,
    ThoughtGiven,
    UsageReported,
)
from vrag.agent.memory.memory_graph import Graph, Node, NodeKind, RememberedItem
from vrag.errors import RunError
from vrag.render.markup import POLICY
from vrag.render.run_page import render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vrag.agent.events import Event
    from vrag.render.run_page import RunPage

FETCHING = {"script", "iframe", "object", "embed", "form", "base", "img", "audio", "video", "source"}
HARMLESS = "".join(render(run().events, run().files.get).html for run in (vrag_run, vimrag_run))
EXPECTED = {tag.lower() for tag in re.findall(r"<([a-zA-Z][a-zA-Z0-9]*)", HARMLESS)}
"""Elements of the pages of harmless runs."""


class Read(HTMLParser):
    """What a page holds, as a parser sees it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.tags if name in attributes]


def page(told: Telling, events: Iterable[Event] | None = None) -> RunPage:
    return render(told.events if events is None else events, told.files.get)


RUNS = pytest.mark.parametrize("run", [vrag_run, vimrag_run], ids=["vrag", "vimrag"])


@RUNS
def test_everything_that_was_said_is_on_the_page(run: Callable[[], Telling]) -> None:
    told = run()
    text = " ".join(Read(page(told).html).text.split())
    for event in told.events:
        match event:
            case ThoughtGiven():
                assert event.text in text
            case SearchRequested():
                assert event.query in text
            case AnswerGiven():
                assert str(event.text) in text
                assert all(one.document in text and one.quote in text for one in event.evidence)
                assert all(reason in text for reason in event.unsupported)
            case GraphChanged():
                assert all(node.id in text and (node.summary or "") in text for node in event.graph.nodes)
            case _:
                pass


def test_costs_are_those_of_the_events_and_add_up() -> None:
    told = vrag_run()
    usages = [event for event in told.events if isinstance(event, UsageReported)]
    rows = re.findall(r"<tr>(.*?)</tr>", page(told).html.split("costs")[-1])
    cells = [re.findall(r"<td[^>]*>([^<]*)", row) for row in rows[1:]]
    assert [row[0] for row in cells] == ["1,300", "1,900", "2,500", "3,100", "3,700", "12,500"]
    assert cells[-1][1] == str(sum(usage.completion_tokens or 0 for usage in usages))
    assert cells[-1][2] == "5,700"
    assert cells[-1][-1] == f"{sum(usage.cost or 0 for usage in usages):.2g}"


@RUNS
def test_each_picture_is_in_the_page_once_however_often_it_is_shown(run: Callable[[], Telling]) -> None:
    told = run()
    made = page(told)
    read = Read(made.html)
    data = [href for href in read.values("href") if href.startswith("data:image/jpeg")]
    assert len(data) == len(set(data)) == made.pictures == len(told.files)
    assert sum(href.startswith("#picture-") for href in read.values("href")) > len(data)


@RUNS
def test_every_link_leads_somewhere_and_every_name_is_given_once(run: Callable[[], Telling]) -> None:
    read = Read(page(run()).html)
    ids = read.values("id")
    assert len(ids) == len(set(ids))
    links = [href[1:] for href in read.values("href") if href.startswith("#")] + read.values("popovertarget")
    assert set(links) <= set(ids)


@RUNS
def test_the_same_run_gives_the_same_page(run: Callable[[], Telling]) -> None:
    assert page(run()).html == page(run()).html


def test_a_crop_is_drawn_on_the_page_that_it_was_cut_from() -> None:
    told = vrag_run()
    crop = next(event for event in told.events if isinstance(event, ImageShown) and event.crop)
    rectangle = re.search(
        r'id="shown-\d+-source".*?<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"', page(told).html
    )
    assert rectangle is not None
    assert [float(side) for side in rectangle.groups()] == pytest.approx([30, 330, 370], abs=0.01)
    assert f"shown-{crop.seq}-source" in page(told).html


def test_a_rectangle_on_a_picture_with_a_margin_keeps_off_the_margin() -> None:
    told = vimrag_run()
    told.events = told.events[:2]
    told.step = 1
    told.say(SearchRequested, query="q", node="n")
    small = drawn_page("small", 400, 300)
    told.show(small, "Picture 1", SLIDES, 1, node="n", region=(0.0, 0.0, 200.0, 150.0))
    told.show(small.resize((100, 100)), "Picture 1", SLIDES, 1, node="m", crop=True, box=(0.5, 0.5, 1.0, 1.0))
    told.say(CropRequested, image=None, box=(0.0, 0.0, 1.0, 1.0), node="m", label="Picture 1")
    html = page(told).html
    assert 'viewBox="0 0 200 150"' in html
    assert '<rect x="100" y="75" width="100" height="75"' in html


@RUNS
@pytest.mark.parametrize("fault", ["missing", "cut short", "another file", "not a picture"])
def test_a_picture_that_cannot_be_shown_leaves_a_note(run: Callable[[], Telling], fault: str) -> None:
    told = run()
    name = next(event.sha256 for event in told.events if isinstance(event, ImageShown))
    other = next(data for sha256, data in told.files.items() if sha256 != name)
    broken = {
        "missing": None,
        "cut short": told.files[name][:500],
        "another file": other,
        "not a picture": b"x",
    }
    made = render(told.events, lambda sha256: broken[fault] if sha256 == name else told.files[sha256])
    assert made.absent == 1
    assert made.pictures == len(told.files) - 1
    assert made.missing[0] in Read(made.html).text


def test_no_file_is_asked_for_by_a_name_that_is_no_hash() -> None:
    told = vrag_run()
    asked: list[str] = []
    events = [
        event.model_copy(update={"sha256": "../../secret"}) if isinstance(event, ImageShown) else event
        for event in told.events
    ]
    render(events, asked.append)
    assert all(re.fullmatch(r"[0-9a-f]{64}", name) for name in asked)


@RUNS
def test_a_run_that_was_cut_off_anywhere_has_a_page(run: Callable[[], Telling]) -> None:
    told = run()
    for end in range(1, len(told.events)):
        html = page(told, told.events[:end]).html
        assert '<span class="badge fair">Interrupted</span>' in html
        assert html.endswith("</html>\n")


@pytest.mark.parametrize("reason", list(StopReason))
def test_every_reason_to_stop_has_its_words(reason: StopReason) -> None:
    told = vrag_run()
    told.events.pop()
    told.say(AnswerGiven, text=None, evidence=(), stop_reason=reason)
    assert 'class="badge' in page(told).html


@pytest.mark.parametrize(("policy", "told_of_models"), [("extractive", True), ("chat:m", False)])
def test_nothing_found_without_a_model_is_not_said_to_be_missing(policy: str, told_of_models: bool) -> None:
    told = vrag_run()
    told.events.pop()
    told.say(AnswerGiven, text=None, evidence=(), stop_reason=StopReason.ABSTAINED)
    settings = RunSettings(agent="vrag", policy=policy, profile="qwen2.5-vl")
    told.events[0] = told.events[0].model_copy(update={"settings": settings})
    html = page(told).html
    assert ("Nothing found" in html, "A model that sees pictures" in html) == (
        told_of_models,
        told_of_models,
    )
    assert ("No answer in the documents" in html) is not told_of_models


def test_a_quoted_answer_says_that_no_model_read_it() -> None:
    told = vrag_run()
    assert "without a model" not in page(told).html
    told.events[0] = told.events[0].model_copy(
        update={"settings": RunSettings(agent="vrag", policy="extractive", profile="qwen2.5-vl")}
    )
    assert "without a model" in page(told).html


def test_wishes_that_memory_could_not_meet_are_told() -> None:
    told = vimrag_run()
    node = "passengers_north"
    reports = ("No frame of Video 1 is near 99 s.",)
    told.say(MemoryUpdated, node=node, kept=(), dropped=(), tokens=0, pixels=0, budget=1, reports=reports)
    assert reports[0] in page(told).html


def test_a_failure_is_told_with_what_was_crossed() -> None:
    told = vrag_run()
    told.events.pop()
    told.say(
        RunFailed, boundary="ModelError", message="The server is <gone>.", stop_reason=StopReason.MODEL_ERROR
    )
    text = Read(page(told).html).text
    assert "The server is <gone>." in text
    assert "ModelError" in text


def resting_on(told: Telling, *parents: str) -> Graph:
    """The graph at the end of a run, of which only these nodes led to the answer; it is put into the run."""
    at = max(index for index, event in enumerate(told.events) if isinstance(event, GraphChanged))
    last = told.events[at]
    assert isinstance(last, GraphChanged)
    *others, answer = last.graph.nodes
    graph = Graph((*others, replace(answer, parents=parents)))
    told.events[at] = last.model_copy(update={"graph": graph})
    return graph


def test_the_nodes_that_the_answer_rests_on_stand_out() -> None:
    told = vimrag_run()
    graph = resting_on(told, "passengers_north")
    leading = [node.id for node in graph.ancestors(["answer"])]
    assert leading == ["root", "passengers_north", "answer"]
    html = page(told).html
    cards = [a for tag, a in Read(html).tags if tag == "a" and a.get("class", "").startswith("node ")]
    strong = [a["class"].endswith(" lead") for a in cards]
    assert strong == [node.id in leading for node in graph.nodes]
    assert f"The answer rests on 3 of {len(graph.nodes)} nodes" in Read(html).text
    assert html.count('class="edge lead"') == 2
    unanswered = page(told, told.events[: len(told.events) // 2]).html
    assert "The answer rests on" not in unanswered


def test_thirty_steps_have_a_page() -> None:
    told = vrag_run()
    told.events.pop()
    while told.step < 30:
        told.think("Again. " * 300, "<search>more</search>")
        told.say(SearchRequested, query="more")
        told.show(drawn_page(f"{told.step}"), f"Image {told.step}", SLIDES, told.step, number=told.step)
        told.cost()
    html = page(told).html
    assert 'id="step-30"' in html
    assert len(html) < 4_000_000


def test_a_priority_beyond_all_measure_takes_no_room() -> None:
    told = vimrag_run()
    memo = RememberedItem(label="Picture 1", item="x", position=0, priority=10**12)
    node = Node(id="n", kind=NodeKind.SEARCH, summary="s", memory=(memo,), order=0)
    told.say(GraphChanged, graph=Graph((node,)))
    assert "priority 5 of 5" in page(told).html


def test_events_without_a_beginning_are_refused() -> None:
    with pytest.raises(RunError, match="run_started"):
        render(vrag_run().events[1:], lambda _: None)


@RUNS
@pytest.mark.parametrize("ends", [True, False])
def test_hostile_text_in_every_field_makes_no_element_and_no_attribute(
    run: Callable[[], Telling], *, ends: bool
) -> None:
    told = run()
    if not ends:
        told.events[-1] = RunFailed(
            **told.events[-1].model_dump(include={"run_id", "seq", "ts", "step"}),
            boundary="ModelError",
            message="m",
            stop_reason=StopReason.MODEL_ERROR,
        )
    attacked = [hostile(event, payload()) for event in told.events]
    html = page(told, attacked).html
    read = Read(html)
    assert not {tag for tag, _ in read.tags} & FETCHING
    assert {tag for tag, _ in read.tags} <= EXPECTED
    names: set[str] = {name for _, attributes in read.tags for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in {"src", "srcdoc", "action"}}
    assert all(href.startswith(("#", "data:image/")) for href in read.values("href"))
    assert html.encode()
    assert html.count("<style>") == 1


def test_the_policy_of_the_page_comes_before_anything_that_it_could_forbid() -> None:
    tags = Read(page(vrag_run()).html).tags
    assert tags[3] == ("meta", {"http-equiv": "Content-Security-Policy", "content": POLICY})
    assert POLICY.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")


def test_pictures_say_what_they_show() -> None:
    html = page(vrag_run()).html
    shown = re.findall(r'<svg(?=[^>]*role="img")[^>]*>(.{7})', html)
    assert shown
    assert set(shown) == {"<title>"}
