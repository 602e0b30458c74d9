"""What a node remembers of its results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.agent.memory.memory_graph import RememberedItem
from vrag.agent.memory.node_results import Result, nearest_frames, reviewed, unreviewed
from vrag.agent.replies.tool_calls import Memorize, Note

RESULTS = (
    Result(label="Text 1", item="t"),
    Result(label="Picture 1", item="p", region=(0, 0, 5, 5)),
    Result(label="Video 1", item="v", seconds=(10.0, 11.0, 12.0, 13.0)),
)


def notes(picture: Note, video: Note) -> Memorize:
    return Memorize("s", (Note("Text 1", useful=True, priority=5), picture, video))


def test_pictures_and_videos_are_remembered_in_place_and_texts_are_not() -> None:
    review = reviewed(
        notes(
            Note("Picture 1", useful=False), Note("Video 1", useful=True, priority=2, timestamps=(12.4, 10.0))
        ),
        RESULTS,
    )
    assert review.memory == (
        RememberedItem(
            label="Picture 1", item="p", position=1, useful=False, priority=0, region=(0, 0, 5, 5)
        ),
        RememberedItem(label="Video 1", item="v", position=2, priority=2, seconds=(10.0, 12.0)),
    )
    assert review.reports == ()


def test_a_time_that_means_no_frame_is_dropped_and_reported() -> None:
    video = Note("Video 1", useful=True, priority=2, timestamps=(11.0, 99.0))
    review = reviewed(notes(Note("Picture 1", useful=False), video), RESULTS)
    assert review.memory[1].seconds == (11.0,)
    assert review.reports == ("Video 1: no frame was shown at 99 seconds.",)


def test_a_useful_video_without_a_frame_that_is_meant_keeps_all_and_that_is_reported() -> None:
    video = Note("Video 1", useful=True, priority=2)
    review = reviewed(notes(Note("Picture 1", useful=False), video), RESULTS)
    assert review.memory[1].seconds == (10.0, 11.0, 12.0, 13.0)
    assert review.reports == ("Video 1: no frame of it was named; all are remembered.",)


def test_times_of_a_picture_mean_nothing() -> None:
    picture = Note("Picture 1", useful=True, priority=1, timestamps=(3.0,))
    assert reviewed(notes(picture, Note("Video 1", useful=False)), RESULTS).memory[0].seconds == ()


def test_what_nobody_reviewed_is_all_kept_in_the_middle_and_marked() -> None:
    assert unreviewed(RESULTS) == (
        RememberedItem(
            label="Picture 1", item="p", position=1, priority=3, region=(0, 0, 5, 5), reviewed=False
        ),
        RememberedItem(
            label="Video 1",
            item="v",
            position=2,
            priority=3,
            seconds=(10.0, 11.0, 12.0, 13.0),
            reviewed=False,
        ),
    )


@pytest.mark.parametrize(
    ("named", "shown", "meant", "missed"),
    [
        ((12.49,), (10.0, 11.0, 12.0, 13.0), (12.0,), ()),
        ((12.5,), (10.0, 11.0, 12.0, 13.0), (12.0,), ()),
        ((13.5,), (10.0, 11.0, 12.0, 13.0), (13.0,), ()),
        ((13.51,), (10.0, 11.0, 12.0, 13.0), (), (13.51,)),
        ((9.4,), (10.0, 11.0), (), (9.4,)),
        ((4.0, 4.1, 26.0), (0.0, 20.0), (0.0, 20.0), ()),
        ((5.4,), (5.0,), (5.0,), ()),
        ((5.6,), (5.0,), (), (5.6,)),
        ((0.1, 0.2), (0.117, 0.15, 0.183, 0.219), (0.117, 0.183), ()),
        ((1.0,), (), (), (1.0,)),
    ],
)
def test_a_time_means_the_frame_within_half_a_step(
    named: tuple[float, ...], shown: tuple[float, ...], meant: tuple[float, ...], missed: tuple[float, ...]
) -> None:
    assert nearest_frames(named, shown) == (meant, missed)


frames = st.lists(st.floats(0, 1e5), max_size=8, unique=True).map(lambda found: tuple(sorted(found)))


@given(st.lists(st.floats(0, 1e5), max_size=5), frames)
def test_only_frames_that_were_shown_are_meant_and_every_time_is_accounted_for(
    named: list[float], shown: tuple[float, ...]
) -> None:
    meant, missed = nearest_frames(named, shown)
    assert set(meant) <= set(shown)
    assert list(meant) == sorted(set(meant))
    assert set(missed) <= set(named)
    assert bool(meant) or len(missed) == len(named)
    assert nearest_frames(shown, shown) == (shown, ())
