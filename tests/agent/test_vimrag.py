"""VimRAG: the context is rebuilt from the graph, memory keeps what was useful, and faults are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from agent_scripts import (
    PROFILE,
    answers,
    call,
    enlarges,
    environment,
    events_of,
    memorizes,
    note,
    of,
    searches,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from vimrag_runs import KEEP, METHOD, SEARCH, end_of, graph_of, said

from vrag.agent.actions import Flag
from vrag.agent.events import ImageShown, InvalidAction, MemoryUpdated, ModelCalled, PassageShown
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.policy import Picture, Role, Text
from vrag.agent.prompts import box_words, prompt
from vrag.agent.runs.event_log import EventLog

if TYPE_CHECKING:
    from collections.abc import Sequence


def refusal(*replies: str, method: Vimrag = METHOD) -> str:
    """Why the last reply is refused; the run then goes on to its answer."""
    events, policy = events_of(method, *replies, answers("root"))
    (invalid,) = of(InvalidAction, events)
    assert invalid.step == len(replies)
    assert invalid.reason in policy.told[-1][-1].text
    assert end_of(events).text == "48,200"
    return invalid.reason


# What the model sees


def test_the_first_call_has_the_tools_the_question_and_the_root_alone() -> None:
    _, policy = events_of(METHOD, answers("root"))
    system, user = policy.told[0]
    assert (system.role, user.role) == (Role.SYSTEM, Role.USER)
    crop = prompt("crop_node.md", **box_words(PROFILE))
    assert system.text == prompt("vimrag.md", actions=f"\n{crop}")
    assert [part.text for part in user.parts if isinstance(part, Text)] == [
        prompt("graph_question.md"),
        "How many passengers?",
        prompt("graph_state.md", graph='[{"id":"root","kind":"root","query":"How many passengers?"}]'),
    ]


def test_results_come_as_texts_then_pictures_each_after_its_label() -> None:
    events, policy = events_of(METHOD, SEARCH, answers("root"))
    found = policy.told[1][-1]
    labels = [part.text.split("\n")[0] for part in found.parts if isinstance(part, Text)]
    assert [label.split(".")[0] for label in labels] == [
        prompt("results_head.md", node="report"),
        "Text 1",
        "Picture 1:",
        "Picture 2:",
        prompt("results_request.md", labels="Text 1, Picture 1, Picture 2").split(".")[0],
    ]
    before = [found.parts[at - 1] for at, part in enumerate(found.parts) if isinstance(part, Picture)]
    assert before == [Text("Picture 1:"), Text("Picture 2:")]
    assert [(shown.label, shown.page) for shown in of(ImageShown, events)] == [
        ("Picture 1", 2),
        ("Picture 2", 1),
    ]
    assert [(read.label, read.node) for read in of(PassageShown, events)] == [("Text 1", "report")]


def test_after_summarising_raw_results_are_gone_and_memory_is_shown() -> None:
    events, policy = events_of(METHOD, SEARCH, KEEP, searches("more", "prices"), answers("report"))
    (memory,) = of(MemoryUpdated, events)
    system, user = policy.told[2]
    assert (system.role, user.role) == (Role.SYSTEM, Role.USER)
    assert "because of ice" in policy.text(1)
    assert "because of ice" not in policy.text(2)
    assert "It says so." in policy.text(2)
    shown = [(p.item, p.view.canvas.width, p.view.canvas.height) for p in policy.pictures(2)]
    assert shown == [(kept.item, kept.width, kept.height) for kept in memory.kept]
    assert [p.image.size for p in policy.pictures(2)] == [(width, height) for _, width, height in shown]
    assert prompt("memory_node.md", node="report", label="Picture 1") in policy.text(2)


def test_memory_is_shared_in_proportion_to_energy() -> None:
    """By hand: 1,280 tokens among 5/5 and 2/5 are 914 and 365; pages are 5 : 7, so 25 × 35 and 16 × 22."""
    (memory,) = of(MemoryUpdated, said(SEARCH, KEEP, answers("report")))
    assert [(kept.label, kept.energy) for kept in memory.kept] == [("Picture 1", 1.0), ("Picture 2", 0.4)]
    assert [(kept.width // 28, kept.height // 28) for kept in memory.kept] == [(25, 35), (16, 22)]
    assert (memory.tokens, memory.budget) == (25 * 35 + 16 * 22, 1280)
    assert memory.pixels == memory.tokens * 28**2


def test_what_is_not_useful_is_seen_no_more() -> None:
    keep_one = memorizes(note("Text 1", 0), note("Picture 1", 0), note("Picture 2", 1))
    events, policy = events_of(METHOD, SEARCH, keep_one, answers("report"))
    assert [picture.item[-1] for picture in policy.pictures(2)] == ["1"]
    assert [evidence.page for evidence in end_of(events).evidence] == [1]


def test_nothing_useful_leaves_no_memory() -> None:
    nothing = memorizes(note("Text 1", 0), note("Picture 1", 0), note("Picture 2", 0), summary="Nothing.")
    events, policy = events_of(METHOD, SEARCH, nothing, answers("report"))
    assert policy.pictures(2) == []
    assert prompt("memory_head.md") not in policy.text(2)
    assert end_of(events).evidence == ()


def test_an_empty_search_can_be_summarised_and_shows_nothing() -> None:
    events, policy = events_of(
        METHOD, searches("none", "zeppelin"), memorizes(summary="Nothing."), answers("none")
    )
    assert policy.told[1][-1].text == prompt("results_nothing.md")
    assert not of(ImageShown, events)
    assert not of(InvalidAction, events)
    assert end_of(events).text == "48,200"


def test_a_turn_without_a_call_sends_no_picture_again() -> None:
    _, policy = events_of(METHOD, SEARCH, "hm", "hm", answers("report"))
    assert [len(policy.pictures(number)) for number in range(4)] == [0, 2, 2, 2]
    assert not [part for part in policy.told[3][-1].parts if isinstance(part, Picture)]


def test_a_later_search_that_finds_the_same_is_shown_it_again_and_remembers_it_once() -> None:
    """Raw results are gone after a summary, so that what a search finds must be shown whatever it is."""
    again = searches("again", "ferry 2024", ["report"])
    events, policy = events_of(METHOD, SEARCH, KEEP, again, KEEP, answers("again"))
    assert len(of(ImageShown, events)) == 4
    kept = of(MemoryUpdated, events)[-1].kept
    assert len({entry.item for entry in kept}) == len(kept) == 2
    assert {entry.node for entry in kept} == {"again"}
    assert len(policy.pictures(4)) == 2


# What is refused


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        ((SEARCH, searches("other", "prices")), "summarize_and_memorize for its results"),
        ((SEARCH, KEEP, searches("other", "PASSENGERS, ferry!")), "has searched for that already"),
        ((SEARCH, memorizes(note("Picture 7"))), "returned no Picture 7"),
        ((memorizes(),), "No results are waiting"),
        (("no call at all",), "no complete tool call"),
        (("",), "no complete tool call"),
        (("<think>forever",), "never closed"),
        ((call("add_search_node", id="a", parent_ids=["root"], query="  "),), "query"),
        ((call("open_file", path="/etc/passwd"),), "no tool 'open_file'"),
    ],
)
def test_a_fault_is_named_and_the_run_goes_on(replies: Sequence[str], reason: str) -> None:
    assert reason in refusal(*replies)


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        ((SEARCH, memorizes(note("Text 1"), note("Picture 1"))), "Picture 2 is missing"),
        ((SEARCH, memorizes(note("Text 1"), note("Picture 1", 6), note("Picture 2"))), "from 1 to 5"),
        (
            (call("add_search_node", id="a", parent_ids=["root"], query="x", path="/etc"),),
            "no argument 'path'",
        ),
        ((searches("a", parents=["nowhere"]),), "no node 'nowhere'"),
        ((SEARCH, KEEP, searches("report", "prices")), "already"),
        ((SEARCH, memorizes(note("Text 1"), note("Picture 1", 1), note("Picture 1", 2))), "Picture 1 twice"),
        ((SEARCH, memorizes(note("Text 1"), note("Picture 1"), note("Picture 7", 0))), "no Picture 7"),
        ((call("add_search_node", parent_ids=["root"], query="x"),), "id is missing"),
        ((call("add_search_node", id="a", query="x"),), "parent_ids is missing"),
    ],
)
def test_what_breaks_the_schema_and_is_clear_is_repaired_unless_that_is_off(
    replies: Sequence[str], reason: str
) -> None:
    events, _ = events_of(METHOD, *replies, answers("root"))
    assert not of(InvalidAction, events)
    assert [event.step for event in of(ModelCalled, events) if Flag.REPAIRED in event.flags] == [len(replies)]
    assert reason in refusal(*replies, method=Vimrag(repair=False))


@pytest.mark.parametrize(
    ("box", "label", "reason"),
    [
        ([300, 200, 100, 100], "Picture 1", "wrong order"),
        ([90000, 0, 90100, 90], "Picture 1", "outside the picture"),
        ([0, 0, 1, 1], "Picture 1", "too small"),
        ([1, 2, 3], "Picture 1", "four numbers"),
        ("1, 2, 3", "Picture 1", "four numbers"),
        ([0, 0, 90, 90], "Picture 9", "No parent remembers Picture 9"),
        ([0, 0, 90, 90], "Text 1", "No parent remembers Text 1"),
        ([0, 0, 90, 90], "Video 1", "No parent remembers Video 1"),
    ],
)
def test_a_closer_look_at_nothing_is_refused(box: object, label: str, reason: str) -> None:
    assert reason in refusal(SEARCH, KEEP, enlarges("c", "report", label, box))


def test_a_closer_look_before_any_search_is_refused() -> None:
    assert "No parent remembers" in refusal(enlarges("c", "root", "Picture 1", [0, 0, 9, 9]))


def test_a_closer_look_at_fresh_results_asks_for_their_summary_first() -> None:
    look = enlarges("c", "report", "Picture 1", [0, 0, 90, 90])
    assert "summarize_and_memorize" in refusal(SEARCH, look)


def test_a_picture_for_which_memory_has_no_room_cannot_be_enlarged() -> None:
    one = Vimrag(memory=MemoryOptions(items=1))
    look = enlarges("c", "report", "Picture 2", [0, 0, 90, 90])
    assert "not in sight" in refusal(SEARCH, KEEP, look, method=one)


def test_a_refused_call_changes_neither_graph_nor_memory() -> None:
    events, policy = events_of(METHOD, SEARCH, KEEP, searches("x", parents=["nowhere"]), answers("report"))
    assert [picture.sha256 for picture in policy.pictures(3)] == [p.sha256 for p in policy.pictures(2)]
    assert [node.id for node in graph_of(events).nodes] == ["root", "report", "answer"]


@settings(max_examples=25)
@given(st.text(max_size=40), st.lists(st.integers(-9, 9), max_size=3))
def test_no_reply_ends_the_run(text: str, numbers: list[int]) -> None:
    """Whatever a model writes, at the beginning or over fresh results, is carried out or refused."""
    episode, record = METHOD.begin(environment(), "?"), EventLog("run")
    replies = (
        text,
        f"<tool_call>{text}</tool_call>",
        call("add_search_node", id=text, parent_ids=[text], query=text),
        SEARCH,
        call("summarize_and_memorize", summarize=text, memorize=numbers),
        call(
            "summarize_and_memorize",
            summarize="x",
            memorize=[note("Text 1"), note("Picture 1", *numbers), note("Picture 2", *numbers)],
        ),
        call("add_answer_node", parent_ids=numbers, answer=text),
    )
    for reply in replies:
        outcome = episode.step(episode.parse(reply), record, more=True)
        assert outcome.refused == bool(of(InvalidAction, record.drain()))
