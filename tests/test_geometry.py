"""Coordinates: maps are exact, cuts round once, and pictures have the size the model sees."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from vrag.geometry import Box, Size, Space, View, draw_view, iou, smart_resize
from vrag.model_profiles import PROFILES

SPACES = st.sampled_from([Space.SHOWN, Space.UNIT, Space.MILLE, Space.ITEM])
sizes = st.builds(Size, st.integers(64, 6000), st.integers(64, 6000))
fractions = st.tuples(*[st.floats(0, 1)] * 4)


def inner(outer: Box, fraction: tuple[float, float, float, float]) -> Box:
    """A box inside `outer`, by fractions of its sides."""
    x1, x2 = sorted(fraction[::2])
    y1, y2 = sorted(fraction[1::2])
    return Box(
        outer.x1 + x1 * outer.width,
        outer.y1 + y1 * outer.height,
        outer.x1 + x2 * outer.width,
        outer.y1 + y2 * outer.height,
        outer.space,
    )


def crop(view: View, box: Box) -> View:
    region = view.cut(box)
    shown = PROFILES["qwen2.5-vl"].shown_size(Size(int(region.width), int(region.height)))
    return View(view.item, region, shown)


@st.composite
def views(draw: st.DrawFn) -> View:
    """Views of whole items, of crops, and of crops of crops."""
    size = draw(sizes)
    view = View.whole(size, PROFILES["qwen2.5-vl"].shown_size(size))
    for _ in range(draw(st.integers(0, 3))):
        box = inner(view.region, draw(fractions))
        assume(min(box.width, box.height) >= 8)
        assume(max(box.width, box.height) < 199 * min(box.width, box.height))
        view = crop(view, box)
    return view


@given(views(), fractions, SPACES)
def test_item_to_any_space_and_back_is_exact(
    view: View, fraction: tuple[float, float, float, float], space: Space
) -> None:
    box = inner(view.region, fraction)
    back = view.to_item(view.from_item(box, space))
    assert back.as_tuple() == pytest.approx(box.as_tuple(), abs=1e-6)


@given(views(), fractions)
def test_a_box_in_whole_shown_pixels_is_off_by_half_a_cell_at_most(
    view: View, fraction: tuple[float, float, float, float]
) -> None:
    box = inner(view.region, fraction)
    shown = view.from_item(box, Space.SHOWN)
    rounded = Box(*(round(side) for side in shown.as_tuple()), space=Space.SHOWN)
    back = view.to_item(rounded)
    cell_x, cell_y = view.region.width / view.shown.width, view.region.height / view.shown.height
    for before, after, cell in zip(box.as_tuple(), back.as_tuple(), [cell_x, cell_y] * 2, strict=True):
        assert abs(before - after) <= cell / 2 + 1e-6


@given(views(), fractions, SPACES)
def test_a_cut_lies_in_the_view_and_covers_the_box(
    view: View, fraction: tuple[float, float, float, float], space: Space
) -> None:
    box = inner(view.region, fraction)
    region = view.cut(view.from_item(box, space))
    assert region.intersect(view.region) == region
    assert all(side == int(side) for side in region.as_tuple())
    assert region.x1 <= box.x1 + 1e-5
    assert region.y1 <= box.y1 + 1e-5
    assert region.x2 >= box.x2 - 1e-5
    assert region.y2 >= box.y2 - 1e-5
    assert region.width <= box.width + 2
    assert region.height <= box.height + 2


@given(views())
def test_cutting_all_that_is_shown_gives_the_same_region(view: View) -> None:
    for space in Space:
        assert view.cut(view.from_item(view.region, space)) == view.region


@given(views(), st.floats(0, 50))
def test_padding_never_leaves_what_is_shown(view: View, padding: float) -> None:
    region = view.cut(view.region, padding=padding)
    assert region == view.region


@given(fractions)
def test_a_box_outside_or_inverted_cuts_to_nothing(fraction: tuple[float, float, float, float]) -> None:
    view = View.whole(Size(100, 100), Size(280, 280))
    outside = inner(Box(300, 300, 400, 400, Space.SHOWN), fraction)
    inverted = Box(200, 200, 100, 100, Space.SHOWN)
    assert view.cut(outside).area == 0
    assert view.cut(inverted).area == 0


def test_a_crop_of_a_crop_is_cut_from_the_full_resolution_item() -> None:
    """A pixel pattern is found where two crops in a row say it is."""
    pixels = np.zeros((2000, 3000, 3), np.uint8)
    pixels[1200:1300, 2100:2200] = 255
    item = Image.fromarray(pixels)
    whole = View.whole(Size(3000, 2000), PROFILES["qwen2.5-vl"].shown_size(Size(3000, 2000)))
    first = crop(whole, whole.from_item(Box(1800, 1000, 2700, 1600, Space.ITEM), Space.SHOWN))
    second = crop(first, first.from_item(Box(2100, 1200, 2200, 1300, Space.ITEM), Space.SHOWN))
    assert second.region == Box(2100, 1200, 2200, 1300, Space.ITEM)
    assert np.asarray(draw_view(item, second)).min() == 255
    assert np.asarray(draw_view(item, first)).mean() == pytest.approx(255 * 100 * 100 / (900 * 600), rel=0.01)


# Width, height, factor and the resized width and height as transformers 5.23 computes them for
# Qwen2-VL's image processor with 256 to 512 visual tokens.
PUBLISHED = [
    (2786, 12000, 32, 320, 1472),
    (10, 251, 32, 128, 2592),
    (132, 943, 32, 192, 1376),
    (6553, 2449, 28, 1036, 364),
    (264, 58, 28, 980, 224),
    (581, 103, 28, 1092, 196),
    (68, 334, 32, 256, 1152),
    (211, 13, 32, 2080, 128),
    (71, 187, 28, 280, 728),
    (6499, 5541, 32, 768, 640),
    (12, 218, 28, 112, 1932),
    (15, 158, 28, 140, 1456),
    (556, 5403, 32, 224, 2240),
    (43, 12, 28, 868, 252),
    (30, 47, 28, 364, 588),
    (2096, 175, 32, 2112, 160),
    (15, 457, 32, 96, 2848),
    (17, 24, 28, 392, 560),
    (355, 3139, 28, 196, 1876),
    (6375, 12000, 32, 512, 992),
    (174, 339, 32, 384, 736),
    (72, 12, 28, 1120, 196),
    (29, 8, 32, 992, 288),
    (217, 12, 28, 1932, 112),
    (3486, 12000, 28, 336, 1148),
    (4044, 12000, 32, 416, 1216),
    (2662, 3156, 28, 560, 672),
    (2886, 12000, 32, 352, 1472),
    (444, 315, 32, 608, 448),
    (14, 30, 32, 352, 768),
    (468, 149, 28, 812, 280),
    (43, 213, 28, 224, 1008),
    (1062, 437, 28, 980, 392),
    (80, 714, 28, 168, 1344),
    (1821, 12000, 28, 224, 1624),
    (10, 16, 28, 364, 588),
    (9, 22, 28, 308, 728),
    (120, 48, 28, 728, 308),
    (10, 8, 28, 504, 420),
    (1160, 1004, 28, 672, 588),
]


@pytest.mark.parametrize(("width", "height", "factor", "expected_width", "expected_height"), PUBLISHED)
def test_smart_resize_agrees_with_the_image_processor_of_the_model_family(
    width: int, height: int, factor: int, expected_width: int, expected_height: int
) -> None:
    limits = {"min_pixels": 256 * factor**2, "max_pixels": 512 * factor**2}
    assert smart_resize(Size(width, height), factor=factor, **limits) == (expected_width, expected_height)


@given(sizes, st.sampled_from(sorted(PROFILES)))
def test_a_shown_picture_has_whole_tokens_within_the_limits(size: Size, name: str) -> None:
    profile = PROFILES[name]
    shown = profile.shown_size(size)
    assert shown.width % profile.factor == shown.height % profile.factor == 0
    tokens = profile.visual_tokens(shown)
    assert tokens >= profile.min_tokens
    if max(size) / min(size) < 20:
        assert tokens <= profile.max_tokens * 1.1


@pytest.mark.parametrize("size", [Size(0, 10), Size(10, 2001)])
def test_impossible_proportions_are_refused(size: Size) -> None:
    with pytest.raises(ValueError, match="200 times"):
        smart_resize(size, factor=28, min_pixels=3136, max_pixels=1_003_520)


@given(fractions, fractions)
def test_iou_is_symmetric_and_within_bounds(
    a: tuple[float, float, float, float], b: tuple[float, float, float, float]
) -> None:
    first, second = inner(Box.unit(0, 0, 1, 1), a), inner(Box.unit(0, 0, 1, 1), b)
    value = iou(first, second)
    assert 0 <= value <= 1 + 1e-9
    assert math.isclose(value, iou(second, first))
    if first.area > 1e-6:
        assert math.isclose(iou(first, first), 1)


def test_boxes_of_different_spaces_do_not_meet() -> None:
    with pytest.raises(ValueError, match="cannot intersect"):
        Box.unit(0, 0, 1, 1).intersect(Box(0, 0, 1, 1, Space.ITEM))
    with pytest.raises(ValueError, match="share one space"):
        Box.around([Box.unit(0, 0, 1, 1), Box(0, 0, 1, 1, Space.ITEM)])
    with pytest.raises(ValueError, match="share one space"):
        Box.around([])
