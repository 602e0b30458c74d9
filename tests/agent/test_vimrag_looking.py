"""VimRAG looks closer, watches videos, and shows no more than its budgets allow."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from agent_scripts import (
    Watching,
    answers,
    enlarges,
    environment,
    events_of,
    film_corpus,
    memorizes,
    note,
    of,
    searches,
)
from vimrag_runs import KEEP, METHOD, SEARCH, WITHOUT_CROPS, end_of, graph_of, said

from vrag.agent.events import ImageShown, InvalidAction, MemoryUpdated, SearchReturned, UsageReported
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.memory.memory_graph import NodeKind
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.policy import Picture, Text
from vrag.agent.replies.call_parser import parse_call
from vrag.agent.runs.event_log import EventLog
from vrag.model_profiles import PROFILES

if TYPE_CHECKING:
    from vrag.agent.events import Event

# The closer look


def test_a_closer_look_is_a_node_whose_result_is_the_part_enlarged() -> None:
    look = enlarges("closer", "report", "Picture 1", [0, 0, 350, 98])
    keep = memorizes(note("Picture 1", 4), summary="48,200 stands there.")
    events, policy = events_of(METHOD, SEARCH, KEEP, look, keep, answers("closer"))
    shown = of(ImageShown, events)[-1]
    seen = policy.pictures(2)[0].view
    assert (shown.node, shown.crop, shown.page) == ("closer", True, 2)
    assert seen.shown == (700, 980)  # of 1,000 × 1,400
    assert shown.region == (0, 0, 500, 140)
    assert graph_of(events).node("closer").kind is NodeKind.CROP
    first = end_of(events).evidence[0]
    assert first.node == "closer"
    assert first.crop_sha256, "the part of the page without words that its edge cuts"
    assert first.box == pytest.approx((0, 0, 0.5, 0.1), abs=0.01), "it ends below the line"
    assert first.quote.startswith("Passengers in 2024")


def test_a_closer_look_at_a_closer_look_is_cut_from_the_full_picture() -> None:
    """By hand: in thousandths of what is shown; half of the page, then the second quarter of that half."""
    where = environment(profile=PROFILES["qwen3-vl"])
    script = (
        SEARCH,
        memorizes(note("Text 1", 0), note("Picture 1", 5), note("Picture 2", 0)),
        enlarges("half", "report", "Picture 1", [0, 0, 1000, 500]),
        memorizes(note("Picture 1", 5)),
        enlarges("quarter", "half", "Picture 1", [250, 0, 500, 1000]),
        answers("quarter"),
    )
    events = said(*script, where=where)
    assert [shown.region for shown in of(ImageShown, events)[2:]] == [(0, 0, 1000, 700), (250, 0, 500, 700)]


def test_padding_is_the_one_of_the_environment() -> None:
    where = environment(profile=PROFILES["qwen3-vl"], padding=15)
    look = enlarges("half", "report", "Picture 1", [100, 100, 500, 300])
    shown = of(ImageShown, said(SEARCH, KEEP, look, answers("half"), where=where))
    assert shown[-1].region == (85, 125, 515, 435)


def test_the_tool_is_told_of_only_where_it_is_offered() -> None:
    told = [events_of(method, answers("root"))[1].text(0) for method in (WITHOUT_CROPS, METHOD)]
    assert ["add_crop_node" in text for text in told] == [False, True]


def test_a_method_without_crop_nodes_refuses_them() -> None:
    look = enlarges("c", "report", "Picture 1", [0, 0, 90, 90])
    events = said(SEARCH, KEEP, look, answers("root"), method=WITHOUT_CROPS)
    (invalid,) = of(InvalidAction, events)
    assert "no tool 'add_crop_node'" in invalid.reason


def test_a_whole_and_a_part_of_it_are_remembered_beside_one_another() -> None:
    script = (
        SEARCH,
        memorizes(note("Text 1", 0), note("Picture 1", 3), note("Picture 2", 0)),
        enlarges("closer", "report", "Picture 1", [0, 0, 700, 490]),
        memorizes(note("Picture 1", 5)),
        answers("closer"),
    )
    events, policy = events_of(METHOD, *script)
    kept = of(MemoryUpdated, events)[-1].kept
    assert {(entry.node, entry.item[-1]) for entry in kept} == {("report", "2"), ("closer", "2")}
    assert [picture.crop for picture in policy.pictures(4)] == [False, True]


# Videos

FILM = searches("film", "waves lands annual")
"""Finds a page, the first clip as Video 1 and the second, from 30 to 40 seconds, as Video 2."""
ROOMY = Vimrag(memory=MemoryOptions(fresh_tokens=20_000, tokens=4_000))


def film(*replies: str, method: Vimrag = ROOMY) -> tuple[list[Event], Watching]:
    return events_of(method, FILM, *replies, where=environment(film_corpus()))


def moments(policy: Watching, number: int) -> list[float]:
    return [picture.seconds for picture in policy.pictures(number) if picture.seconds is not None]


def test_frames_come_once_a_second_each_after_its_moment_in_the_whole_video() -> None:
    _, policy = film(answers("film"))
    parts = policy.told[1][-1].parts
    frames = [at for at, part in enumerate(parts) if isinstance(part, Picture) and part.seconds is not None]
    second = [
        at
        for at in frames
        if isinstance(part := parts[at], Picture) and part.item == film_corpus().items[-1].id
    ]
    told = [part.text for at in second if isinstance(part := parts[at - 1], Text)]
    assert told == [f"<{seconds}.0 seconds>" for seconds in range(30, 40)]
    assert len(frames) == 40


def test_a_long_clip_is_seen_by_at_most_so_many_frames_evenly_spread() -> None:
    _, policy = film(answers("film"), method=Vimrag(memory=MemoryOptions(frames=4, fresh_tokens=20_000)))
    first = moments(policy, 1)[:4]
    assert (first[0], len(first)) == (0.0, 4)
    assert first[-1] == pytest.approx(30, abs=0.2)
    gaps = [after - before for before, after in pairwise(first)]
    assert max(gaps) - min(gaps) < 0.2


def test_the_frames_named_are_remembered_the_nearest_ones_and_misses_are_reported() -> None:
    keep = memorizes(note("Picture 1", 0), note("Video 1", 0), note("Video 2", 4, 33.4, 35.0, 90.0))
    events, policy = film(keep, answers("film"))
    (memory,) = of(MemoryUpdated, events)
    assert moments(policy, 2) == [33.0, 35.0]
    assert memory.kept[0].seconds == (33.0, 35.0)
    assert memory.reports == ("Video 2: no frame was shown at 90 seconds.",)
    assert "<33.0 seconds>" in policy.text(2)
    assert "<34.0 seconds>" not in policy.text(2)


def test_a_useful_video_without_a_moment_keeps_its_frames() -> None:
    keep = memorizes(note("Picture 1", 0), note("Video 1", 0), note("Video 2", 4))
    events, policy = film(keep, answers("film"))
    assert moments(policy, 2) == [float(second) for second in range(30, 40)]
    assert of(MemoryUpdated, events)[0].reports == ("Video 2: no frame of it was named; all are remembered.",)


def test_frames_of_two_nodes_are_united() -> None:
    def keep(moment: float) -> str:
        return memorizes(note("Picture 1", 0), note("Video 1", 0), note("Video 2", 4, moment))

    again = searches("again", "annual waves lands ferries", ["film"])
    events, policy = film(keep(31.0), again, keep(38.0), answers("again"))
    assert moments(policy, 4) == [31.0, 38.0]
    assert [entry.seconds for entry in of(MemoryUpdated, events)[-1].kept] == [(31.0, 38.0)]


def test_a_video_is_evidence_from_its_first_to_its_last_frame() -> None:
    keep = memorizes(note("Picture 1", 0), note("Video 1", 0), note("Video 2", 4, 33.0, 36.0))
    (evidence,) = end_of(film(keep, answers("film"))[0]).evidence
    assert (evidence.document, evidence.page, evidence.seconds) == ("harbour.mp4", 2, (33.0, 36.0))
    assert evidence.node == "film"


def test_a_video_that_was_not_reviewed_is_evidence_as_a_whole() -> None:
    spans = {one.page: one.seconds for one in end_of(film(answers("film"))[0]).evidence if one.seconds}
    assert spans == {1: (0.0, 30.0), 2: (30.0, 40.0)}


def test_a_video_cannot_be_enlarged() -> None:
    keep = memorizes(note("Picture 1", 0), note("Video 1", 0), note("Video 2", 4, 33.0))
    events, _ = film(keep, enlarges("c", "film", "Video 2", [0, 0, 90, 90]), answers("film"))
    assert "not videos" in of(InvalidAction, events)[0].reason


# Budgets


@pytest.mark.parametrize("family", ["qwen2.5-vl", "qwen3-vl"])
@pytest.mark.parametrize(("memory", "fresh"), [(1, 1), (255, 256), (600, 700), (1280, 4096)])
def test_no_call_is_shown_more_than_its_budgets(memory: int, fresh: int, family: str) -> None:
    profile = PROFILES[family]
    method = Vimrag(memory=MemoryOptions(tokens=memory, fresh_tokens=fresh, frames=5))
    episode = method.begin(environment(film_corpus(), profile=profile), "?")
    record = EventLog("run")
    for reply in (FILM, None, searches("more", "ferry passengers"), None):
        labels = episode.results.labels
        keep = memorizes(*(note(label, 3) for label in labels))
        episode.step(parse_call(keep if reply is None else reply), record, more=True)
        context = episode.context(last=False)
        for pictures, budget in ((context.remembered, memory), (context.fresh, fresh)):
            assert sum(profile.visual_tokens(picture.view.canvas) for picture in pictures) <= budget
        assert len(context.pictures) == len(context.remembered) + len(context.fresh)
        for picture in (*context.remembered, *context.fresh):
            assert picture.view.shown.width <= picture.view.region.width
            assert picture.view.shown.height <= picture.view.region.height
            assert picture.image.size == picture.view.canvas


def test_what_there_is_no_room_for_is_told() -> None:
    events = said(SEARCH, answers("root"), method=Vimrag(memory=MemoryOptions(fresh_tokens=300)))
    (returned,) = of(SearchReturned, events)
    assert returned.damaged == (
        "Picture 2 is not shown: The results of one step may take 300 visual tokens.",
    )
    assert [shown.label for shown in of(ImageShown, events)] == ["Picture 1"]


def test_a_clip_that_is_thinned_is_shown_in_part() -> None:
    """By hand: 700 tokens hold seven of ten frames at the least, 96 tokens."""
    events = said(
        searches("film", "lands"),
        answers("film"),
        method=Vimrag(memory=MemoryOptions(fresh_tokens=700)),
        where=environment(film_corpus()),
    )
    (returned,) = of(SearchReturned, events)
    assert returned.damaged == ("Video 1 is shown in part: There is room for 7 of 10 frames.",)
    assert len(of(ImageShown, events)) == 7


def test_usage_tells_memory_from_fresh_results() -> None:
    usage = of(UsageReported, said(SEARCH, KEEP, searches("more", "prices"), answers("more")))
    fresh = 2 * 30 * 42  # two pages of 1,000 × 1,400 within 1,003,520 pixels
    kept = 25 * 35 + 16 * 22
    price = 30 * 42
    assert [(one.memory_tokens, one.fresh_tokens) for one in usage] == [
        (0, 0),
        (0, fresh),
        (kept, 0),
        (kept, price),
    ]
    assert [one.visual_tokens for one in usage] == [0, fresh, kept, kept + price]
