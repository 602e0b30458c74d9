"""Budgets of pixels, against shares that were worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from graph_material import graphs, picture, root, video
from hypothesis import given
from hypothesis import strategies as st

from vrag.agent.memory.energies import MemoryOptions, Remembered
from vrag.agent.memory.memory_graph import Graph
from vrag.agent.memory.pixel_budget import Allotment, Visual, allot, fit_fresh, recall, share, spread
from vrag.geometry import Size
from vrag.model_profiles import Profile, profile_named

QWEN3 = profile_named("qwen3-vl")
"""A visual token is 32 × 32 pixels: 1,024. The least is 256 tokens, a picture at most 980, a frame 392."""
LARGE = Size(4096, 4096)
OPTIONS = MemoryOptions()


def kept(*energies: float, seconds: dict[int, int] | None = None) -> list[Remembered]:
    """Items i0, i1, … of these energies; those with a number of seconds are clips with a frame a second."""
    return [
        Remembered(
            node="n",
            label=f"Picture {at}",
            order=1,
            position=at,
            nodes=("n",),
            item=f"i{at}",
            seconds=tuple(map(float, range((seconds or {}).get(at, 0)))),
            energy=energy,
        )
        for at, energy in enumerate(energies)
    ]


def shared(entries: list[Remembered], *sizes: Size, options: MemoryOptions = OPTIONS) -> Allotment:
    """Sizes of the items in order; all others are large."""
    known = {entry.item: LARGE for entry in entries}
    known |= {f"i{at}": size for at, size in enumerate(sizes)}
    return share(entries, known, options, QWEN3)


def grid(allotment: Allotment) -> list[tuple[str, int, int, int]]:
    """Per item its name, frames (0 for a picture), and the sides of its canvas in tokens."""
    return [
        (
            placed.entry.item,
            len(placed.seconds),
            placed.fitted.canvas.width // 32,
            placed.fitted.canvas.height // 32,
        )
        for placed in allotment.shown
    ]


def test_shares_are_in_proportion_to_energy() -> None:
    # 1,280 tokens as 3 : 1 are 960 and 320; √960 = 30.98, √320 = 17.9.
    allotment = shared(kept(3.0, 1.0))
    assert grid(allotment) == [("i0", 0, 30, 30), ("i1", 0, 17, 17)]
    assert (allotment.tokens, allotment.pixels, allotment.budget) == (900 + 289, 1189 * 1024, 1280)
    assert allotment.dropped == ()


def test_five_equal_items_get_the_least_each_and_fill_the_budget() -> None:
    assert grid(shared(kept(*[0.7] * 5))) == [(f"i{at}", 0, 16, 16) for at in range(5)]
    third = 1 / 3
    assert shared(kept(third, third, third, 1 - 2 * third, 0.1 + 0.2 + third - 0.3)).tokens == 1280


def test_an_item_takes_no_more_than_it_has_and_the_rest_is_shared_again() -> None:
    # 640 each, but i0 has 16 × 20 = 320 tokens: it keeps its size, and i1 gets 960.
    allotment = shared(kept(1.0, 1.0), Size(512, 640))
    assert grid(allotment) == [("i0", 0, 16, 20), ("i1", 0, 30, 30)]
    assert allotment.shown[0].fitted.shown == Size(512, 640)


def test_a_picture_takes_no_more_than_the_options_allow() -> None:
    # 1,003,520 pixels are 980 tokens; √980 = 31.3.
    # With room for 500 each, of 3 : 1 both take 500.
    assert grid(shared(kept(1.0))) == [("i0", 0, 31, 31)]
    options = OPTIONS.model_copy(update={"image_pixels": 500 * 1024})
    assert grid(shared(kept(3.0, 1.0), options=options)) == [("i0", 0, 22, 22), ("i1", 0, 22, 22)]


def test_no_limit_goes_below_what_the_model_takes() -> None:
    options = OPTIONS.model_copy(update={"image_pixels": 1, "frame_pixels": 1})
    assert grid(shared(kept(2.0, 1.0, seconds={1: 2}), options=options)) == [
        ("i0", 0, 16, 16),
        ("i1", 2, 9, 9),
    ]


def test_a_small_picture_is_padded_to_the_least_and_leaves_the_rest() -> None:
    # Of 9 : 1 it would get 1,152; it takes 256, and i1 gets 1,024 and takes 980.
    allotment = shared(kept(9.0, 1.0), Size(100, 100))
    assert grid(allotment) == [("i0", 0, 16, 16), ("i1", 0, 31, 31)]
    assert allotment.shown[0].fitted.shown == Size(100, 100)
    assert allotment.shown[0].tokens == 256


def test_what_falls_under_the_least_is_dropped_and_its_share_goes_to_the_others() -> None:
    # 10 : 10 : 1 are 609, 609 and 60; without the last 640 each.
    allotment = shared(kept(10.0, 10.0, 1.0))
    assert grid(allotment) == [("i0", 0, 25, 25), ("i1", 0, 25, 25)]
    (lost,) = allotment.dropped
    assert lost.entry.item == "i2"
    assert lost.reason == "Its share of 60 visual tokens is under the 256 that a picture takes."


def test_the_lowest_is_dropped_first_which_may_save_the_next() -> None:
    # 1.5 and four of 1: 349 and 232. Without one: 426 and 284.
    allotment = shared(kept(1.5, 1.0, 1.0, 1.0, 1.0))
    assert grid(allotment) == [("i0", 0, 20, 20), *[(f"i{at}", 0, 16, 16) for at in (1, 2, 3)]]
    # 4, 2, 1, 1: 640, 320, 160, 160; then 731, 365, 182; then 853 and 426.
    allotment = shared(kept(4.0, 2.0, 1.0, 1.0))
    assert grid(allotment) == [("i0", 0, 29, 29), ("i1", 0, 20, 20)]
    assert [lost.entry.item for lost in allotment.dropped] == ["i3", "i2"]


def test_frames_are_smaller_than_a_picture_may_be_before_any_is_lost() -> None:
    # 640 each: for five frames 128; √128 = 11.3.
    allotment = shared(kept(1.0, 1.0, seconds={0: 5}))
    assert grid(allotment) == [("i0", 5, 11, 11), ("i1", 0, 25, 25)]
    assert allotment.dropped == ()
    options = OPTIONS.model_copy(update={"frame_tokens": 256})
    assert grid(shared(kept(1.0, 1.0, seconds={0: 5}), options=options)) == [
        ("i0", 2, 17, 17),
        ("i1", 0, 25, 25),
    ]


def test_a_clip_loses_frames_before_it_is_dropped() -> None:
    # 640 each: for ten frames 64, under the 96 that a frame takes. Six of 106 fit; √106 = 10.3.
    allotment = shared(kept(1.0, 1.0, seconds={0: 10}))
    assert grid(allotment) == [("i0", 6, 10, 10), ("i1", 0, 25, 25)]
    assert allotment.shown[0].seconds == (0.0, 2.0, 4.0, 5.0, 7.0, 9.0)
    assert allotment.shown[0].tokens == 6 * 100
    (lost,) = allotment.dropped
    assert (lost.entry.item, lost.seconds) == ("i0", (1.0, 3.0, 6.0, 8.0))
    assert lost.reason == "Its share is enough for 6 of 10 frames."


def test_frames_that_a_clip_lost_leave_room_for_others() -> None:
    # Frames of 100 tokens: six of them take 600 of 640, and i1 gets 680; √680 = 26.1.
    assert grid(shared(kept(1.0, 1.0, seconds={0: 10}), Size(320, 320))) == [
        ("i0", 6, 10, 10),
        ("i1", 0, 26, 26),
    ]


def test_of_two_clips_the_one_of_lower_energy_loses_frames_first() -> None:
    # 640 each. The second keeps six frames of 100: 600. The first gets 680, which is seven frames of 97; had
    # it been the first to lose, 640 would have left it six.
    allotment = shared(kept(1.0, 1.0, seconds={0: 10, 1: 10}), LARGE, Size(320, 320))
    assert grid(allotment) == [("i0", 7, 9, 9), ("i1", 6, 10, 10)]


def test_a_frame_takes_no_more_than_the_options_allow() -> None:
    # 401,408 pixels are 392 tokens; √392 = 19.8. Five frames share 1,280: 256 each.
    assert grid(shared(kept(1.0, seconds={0: 1}))) == [("i0", 1, 19, 19)]
    assert grid(shared(kept(1.0, seconds={0: 5}))) == [("i0", 5, 16, 16)]


def test_a_clip_has_its_frames_back_when_another_is_dropped() -> None:
    # 5 : 1 are 1,066 and 213: four frames. The picture is dropped, and 1,280 are enough for five.
    allotment = shared(kept(1.0, 0.2, seconds={0: 5}))
    assert grid(allotment) == [("i0", 5, 16, 16)]
    assert [lost.entry.item for lost in allotment.dropped] == ["i1"]


def test_a_clip_whose_one_frame_is_under_the_least_is_dropped_whole() -> None:
    # 9 : 9 : 1 are 606, 606 and 67.
    allotment = shared(kept(9.0, 9.0, 1.0, seconds={2: 3}))
    assert grid(allotment) == [("i0", 0, 25, 25), ("i1", 0, 25, 25)]
    assert [(lost.entry.item, lost.seconds) for lost in allotment.dropped] == [("i2", (0.0, 1.0, 2.0))]
    assert allotment.dropped[0].reason == "Its share of 67 visual tokens is under the 96 that a frame takes."
    # Where the other leaves enough it stays: 980 are all that one picture takes, 100 are left for each frame.
    assert grid(shared(kept(9.0, 1.0, seconds={1: 3}))) == [("i0", 0, 31, 31), ("i1", 3, 10, 10)]


def test_a_budget_under_the_least_shows_nothing_and_says_so() -> None:
    allotment = shared(kept(1.0), options=OPTIONS.model_copy(update={"tokens": 255}))
    assert allotment.shown == ()
    assert len(allotment.dropped) == 1


def test_a_part_of_an_item_is_no_larger_than_it_is() -> None:
    part = replace(kept(1.0)[0], region=(100, 200, 740, 840))
    assert grid(shared([part])) == [("i0", 0, 20, 20)]


def test_what_can_no_longer_be_opened_is_dropped_and_takes_nothing() -> None:
    allotment = share(kept(1.0, 1.0), {"i1": LARGE}, OPTIONS, QWEN3)
    assert grid(allotment) == [("i1", 0, 31, 31)]
    assert [(lost.entry.item, lost.reason) for lost in allotment.dropped] == [
        ("i0", "Its picture can no longer be opened.")
    ]


def test_energies_that_have_faded_to_nothing_count_as_equal() -> None:
    assert allot([0.0, 0.0], [900, 900], 1000) == [500, 500]


def test_a_whole_run_is_recalled() -> None:
    # With the plain options: a 5/5·2 + 0.5·0.8 = 2.4, b 0.8: 960 and 320 tokens.
    graph = (
        root().grow("a", memory=(picture(1, priority=5),)).grow("b", "a", memory=(picture(2, priority=4),))
    )
    options = MemoryOptions(decay=0.0, feedback=0.5, items=2)
    allotment = recall(graph.graph, {"p1": LARGE, "p2": LARGE}, options, QWEN3)
    assert grid(allotment) == [("p1", 0, 30, 30), ("p2", 0, 17, 17)]
    fuller = graph.grow("c", memory=(picture(3, priority=1), video(5, (0.0, 2.0), priority=1)))
    lost = recall(fuller.graph, {"p1": LARGE, "p2": LARGE}, options, QWEN3).dropped
    assert [(one.entry.item, one.seconds) for one in lost] == [("p3", ()), ("v5", (0.0, 2.0))]


def test_frames_are_spread_evenly_from_the_first_to_the_last() -> None:
    seconds = tuple(map(float, range(10)))
    assert spread(seconds, 4) == (0.0, 3.0, 6.0, 9.0)
    assert spread(seconds, 2) == (0.0, 9.0)
    assert spread(seconds, 1) == (4.0,)
    assert spread(seconds, 10) == spread(seconds, 99) == seconds
    assert spread((), 1) == ()


@given(st.integers(1, 40), st.integers(1, 40))
def test_spreading_keeps_as_many_as_were_asked_for(count: int, wanted: int) -> None:
    found = spread(tuple(map(float, range(count))), wanted)
    assert len(found) == len(set(found)) == min(count, wanted)
    assert list(found) == sorted(found)
    if 1 < wanted < count:
        gaps = [after - before for before, after in pairwise(found)]
        assert (found[0], found[-1]) == (0.0, count - 1.0)
        assert max(gaps) - min(gaps) <= 1


weights = st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 10**6)), max_size=8)


@given(weights, st.integers(0, 10**7))
def test_shares_stay_within_caps_and_budget_and_waste_nothing(
    given_: list[tuple[float, int]], budget: int
) -> None:
    energies, caps = [weight for weight, _ in given_], [cap for _, cap in given_]
    pixels = allot(energies, caps, budget)
    assert sum(pixels) <= budget
    assert all(0 <= share_ <= cap for share_, cap in zip(pixels, caps, strict=True))
    # What is not used is less than a pixel each, unless everything is full or what is left has no weight.
    open_ = [at for at in range(len(caps)) if pixels[at] < caps[at]]
    assert not open_ or budget - sum(pixels) <= len(caps)
    for one in open_:
        for other in open_:
            if energies[one] >= energies[other]:
                assert pixels[one] >= pixels[other] - 1


sizes = st.dictionaries(
    st.sampled_from(["p1", "p2", "p3", "p4", "v5", "v6"]),
    st.builds(Size, st.integers(1, 3000), st.integers(1, 3000)),
)
profiles = st.sampled_from([profile_named("qwen2.5-vl"), QWEN3])
budgets = st.builds(
    MemoryOptions,
    tokens=st.integers(1, 3000),
    items=st.integers(1, 8),
    image_pixels=st.integers(1, 2_000_000),
    frame_pixels=st.integers(1, 500_000),
)


@given(graphs(), sizes, budgets, profiles)
def test_memory_never_exceeds_its_budget_never_enlarges_and_shows_nothing_twice(
    graph: Graph, known: dict[str, Size], options: MemoryOptions, profile: Profile
) -> None:
    allotment = recall(graph, known, options, profile)
    assert allotment.tokens <= options.tokens
    assert allotment.pixels == allotment.tokens * profile.factor**2
    assert len(allotment.shown) <= options.items
    shown = [(placed.entry.item, placed.entry.region) for placed in allotment.shown]
    assert len(set(shown)) == len(shown)
    for placed in allotment.shown:
        region = placed.entry.region
        native = (
            Size(int(region[2] - region[0]), int(region[3] - region[1]))
            if region
            else known[placed.entry.item]
        )
        assert placed.fitted.shown.width <= native.width
        assert placed.fitted.shown.height <= native.height
        assert min(placed.fitted.canvas) >= profile.factor
        assert placed.tokens == profile.visual_tokens(placed.fitted.canvas) * max(1, len(placed.seconds))
        assert bool(placed.seconds) == bool(placed.entry.seconds)
    told = {*shown, *((lost.entry.item, lost.entry.region) for lost in allotment.dropped)}
    assert told == {(memo.item, memo.region) for node in graph.nodes for memo in node.memory if memo.useful}
    assert allotment == recall(graph, known, options, profile)


@given(graphs(), sizes, profiles)
def test_every_frame_is_shown_or_said_to_be_dropped(
    graph: Graph, known: dict[str, Size], profile: Profile
) -> None:
    allotment = recall(graph, known, MemoryOptions(), profile)
    remembered: dict[str, set[float]] = {}
    for node in graph.nodes:
        for memo in node.memory:
            remembered.setdefault(memo.item, set()).update(memo.seconds)
    told = [(placed.entry.item, placed.seconds) for placed in allotment.shown]
    told += [(lost.entry.item, lost.seconds) for lost in allotment.dropped]
    for item, seconds in remembered.items():
        assert sorted(second for name, some in told if name == item for second in some) == sorted(seconds)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=6), st.integers(-8, 8), sizes)
def test_only_the_proportions_of_energies_count(
    energies: list[float], power: int, known: dict[str, Size]
) -> None:
    ranked = sorted(energies, reverse=True)
    entries = kept(*ranked, seconds={0: 4, 3: 7})
    natives = list(known.values())
    scaled = [replace(entry, energy=entry.energy * 2.0**power) for entry in entries]
    assert grid(shared(entries, *natives)) == grid(shared(scaled, *natives))


def fresh(*visuals: Visual, options: MemoryOptions = OPTIONS) -> list[tuple[int, int]]:
    """Per result shown: frames (0 for a picture) and tokens."""
    plan = fit_fresh(visuals, options, QWEN3)
    return [(len(one.seconds), one.tokens) for one in plan.shown]


PICTURE = Visual("Picture 1", LARGE)
CLIP = Visual("Video 1", LARGE, tuple(map(float, range(32))))


def test_fresh_results_that_fit_are_shown_at_their_own_size_within_the_limits() -> None:
    # 31 × 31 tokens of 980, as above; 20 × 20 are a 640 × 640 picture; 16 × 16 a padded one.
    assert fresh(PICTURE, Visual("Picture 2", Size(640, 640)), Visual("Picture 3", Size(9, 9))) == [
        (0, 961),
        (0, 400),
        (0, 256),
    ]


def test_thirty_two_frames_are_shown_where_there_is_room_for_small_ones() -> None:
    # A frame may take 19 × 19 = 361 tokens. 4,096 are 128 for each of 32; beside a picture of 961 it is 97.
    assert fresh(CLIP) == [(32, 32 * 121)]
    assert fresh(PICTURE, CLIP) == [(0, 961), (32, 32 * 81)]
    assert fit_fresh([PICTURE, CLIP], OPTIONS, QWEN3).dropped == ()


def test_a_clip_loses_frames_until_fresh_results_fit() -> None:
    # Two pictures leave 2,174 tokens: 22 frames of 96, which get 98 each; √98 = 9.9.
    assert fresh(PICTURE, PICTURE, CLIP) == [(0, 961), (0, 961), (22, 22 * 81)]
    plan = fit_fresh([PICTURE, PICTURE, CLIP], OPTIONS, QWEN3)
    assert (plan.shown[2].seconds[0], plan.shown[2].seconds[-1]) == (0.0, 31.0)
    assert plan.dropped[0].reason == "There is room for 22 of 32 frames."
    assert sorted(plan.shown[2].seconds + plan.dropped[0].seconds) == list(CLIP.seconds)


def test_the_clip_with_the_most_frames_loses_first_and_of_equals_the_later() -> None:
    short = Visual("Video 2", LARGE, (0.0, 1.0))
    assert fresh(PICTURE, PICTURE, CLIP, short)[2:] == [(20, 20 * 81), (2, 2 * 81)]
    # Three pictures of 961 and a padded one of 256 leave 957: nine frames of 106.
    small = Visual("Picture 4", Size(9, 9))
    later = replace(CLIP, label="Video 2")
    assert fresh(*[PICTURE] * 3, small, CLIP, later)[4:] == [(5, 500), (4, 400)]


def test_pictures_are_resized_when_losing_frames_is_not_enough() -> None:
    # Five of 961 are too many: 819 each; √819 = 28.6.
    assert fresh(*[PICTURE] * 5) == [(0, 784)] * 5
    # With a frame beside them: it keeps 392, the others get 740 each; √740 = 27.2.
    assert fresh(*[PICTURE] * 5, CLIP) == [*[(0, 729)] * 5, (1, 361)]
    # Four of them leave 252: two frames of 126.
    assert fresh(*[PICTURE] * 4, CLIP) == [*[(0, 961)] * 4, (2, 2 * 121)]


def test_results_that_do_not_fit_even_at_the_least_are_dropped_from_the_end() -> None:
    # 4,096 are sixteen times 256.
    assert fresh(*[PICTURE] * 17) == [(0, 256)] * 16
    plan = fit_fresh([*[PICTURE] * 16, CLIP], OPTIONS, QWEN3)
    (lost,) = plan.dropped
    assert (lost.entry, lost.seconds) == (CLIP, CLIP.seconds)
    assert lost.reason == "The results of one step may take 4096 visual tokens."
    assert (plan.tokens, plan.budget) == (4096, 4096)
    none = fit_fresh([PICTURE, CLIP], OPTIONS.model_copy(update={"fresh_tokens": 255}), QWEN3)
    assert none.shown == ()
    assert [lost.entry for lost in none.dropped] == [PICTURE, CLIP]


def test_without_results_there_is_nothing_to_show() -> None:
    assert fresh() == []


visuals = st.builds(
    Visual,
    st.just("Picture 1"),
    st.builds(Size, st.integers(1, 3000), st.integers(1, 3000)),
    st.integers(0, 32).map(lambda count: tuple(map(float, range(count)))),
)


@given(st.lists(visuals, max_size=6), st.integers(1, 5000), st.integers(1, 2_000_000), profiles)
def test_fresh_results_never_exceed_their_budget_and_are_never_enlarged(
    found: list[Visual], tokens: int, pixels: int, profile: Profile
) -> None:
    options = MemoryOptions(fresh_tokens=tokens, image_pixels=pixels)
    plan = fit_fresh(found, options, profile)
    assert plan.tokens <= tokens
    assert plan.pixels == plan.tokens * profile.factor**2
    assert [one.entry for one in plan.shown] == found[: len(plan.shown)]
    for one in plan.shown:
        assert one.fitted.shown.width <= one.entry.native.width
        assert one.fitted.shown.height <= one.entry.native.height
        assert set(one.seconds) <= set(one.entry.seconds)
        assert bool(one.seconds) == bool(one.entry.seconds)
    seen = sum(len(one.seconds) for one in plan.shown) + sum(len(lost.seconds) for lost in plan.dropped)
    assert seen == sum(len(visual.seconds) for visual in found)
    if tokens >= profile.min_tokens and found:
        assert plan.shown


@pytest.mark.parametrize("name", ["qwen2-vl", "qwen2.5-vl", "qwen3-vl"])
def test_the_defaults_hold_three_pages_and_five_memories_in_every_family(name: str) -> None:
    profile = profile_named(name)
    page = Size(1700, 2200)
    plan = fit_fresh([Visual(f"Picture {at}", page) for at in (1, 2, 3)], OPTIONS, profile)
    assert len(plan.shown) == 3
    assert not plan.dropped
    entries = kept(*[1.0] * 5)
    allotment = share(entries, {entry.item: page for entry in entries}, OPTIONS, profile)
    assert [placed.tokens for placed in allotment.shown] == [14 * 18] * 5
