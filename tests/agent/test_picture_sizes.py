"""Sizes of pictures from memory and of fresh results, against what the real image processors make of them."""

from __future__ import annotations

import importlib
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from extras import require
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from vrag.agent.memory.pixel_budget import FittedImage, fit
from vrag.geometry import Box, Size, Space, View, draw_view
from vrag.model_profiles import Profile, profile_named

QWEN25, QWEN3 = profile_named("qwen2.5-vl"), profile_named("qwen3-vl")
profiles = st.sampled_from([QWEN25, QWEN3])
natives = st.builds(
    Size,
    *[st.one_of(st.integers(1, 700), st.integers(1, 5000), st.sampled_from([1, 27, 28, 29, 40_000]))] * 2,
)


@pytest.mark.parametrize(
    ("native", "tokens", "profile", "fitted"),
    [
        # 448² is 256 tokens of 28²: a square of exactly that share.
        (Size(1000, 1000), 256, QWEN25, FittedImage(Size(448, 448), Size(0, 0))),
        # √(256·1700/2200) = 14.06 and √(256·2200/1700) = 18.2 tokens.
        (Size(1700, 2200), 256, QWEN25, FittedImage(Size(14 * 28, 18 * 28), Size(0, 0))),
        # It needs less than its share: its own size, rounded down.
        (Size(500, 510), 1000, QWEN25, FittedImage(Size(476, 504), Size(0, 0))),
        # Smaller than 256 tokens: as it is, on 16 × 16 tokens.
        (Size(300, 200), 256, QWEN25, FittedImage(Size(300, 200), Size(148, 248))),
        (Size(1, 1), 256, QWEN3, FittedImage(Size(1, 1), Size(511, 511))),
        # Smaller, and too high for 16 tokens: 64 × 4 tokens.
        (Size(100, 1500), 256, QWEN25, FittedImage(Size(100, 1500), Size(12, 292))),
        # 36 × 8 tokens would be too many: 36 × 7, which shows 98 % of it.
        (Size(200, 1000), 256, QWEN25, FittedImage(Size(196, 980), Size(0, 28))),
        (Size(1, 200), 256, QWEN25, FittedImage(Size(1, 200), Size(447, 248))),
        # A strip: on one row of tokens it could be 200 tokens wide, on two rows 256.
        (Size(20_000, 12), 512, QWEN25, FittedImage(Size(7168, 4), Size(0, 52))),
        (Size(40_000, 40_000), 1, QWEN3, FittedImage(Size(32, 32), Size(0, 0))),
    ],
)
def test_sizes_worked_out_by_hand(native: Size, tokens: int, profile: Profile, fitted: FittedImage) -> None:
    assert fit(native, tokens * profile.factor**2, profile) == fitted


@pytest.mark.parametrize(("native", "pixels"), [(Size(0, 5), 10**6), (Size(5, 5), 783)])
def test_what_cannot_be_shown_at_all_is_refused(native: Size, pixels: int) -> None:
    with pytest.raises(ValueError, match="cannot be shown"):
        fit(native, pixels, QWEN25)


@given(natives, st.integers(1024, 1_500_000), profiles)
@example(Size(1, 40_000), 1024, QWEN3)
@example(Size(40_000, 1), 1_500_000, QWEN25)
@example(Size(111, 113), 200_704, QWEN25)
def test_a_canvas_stays_within_its_pixels_and_nothing_is_enlarged(
    native: Size, pixels: int, profile: Profile
) -> None:
    fitted = fit(native, pixels, profile)
    canvas = fitted.canvas
    assert canvas.area <= pixels
    assert canvas.width % profile.factor == canvas.height % profile.factor == 0
    assert min(canvas) >= profile.factor
    assert min(fitted.shown) >= 1
    assert min(fitted.margin) >= 0
    assert fitted.shown.width <= native.width
    assert fitted.shown.height <= native.height
    assert max(canvas) <= 200 * min(canvas)


@given(natives, st.integers(1024, 1_500_000), profiles)
def test_proportions_are_kept_but_for_rounding(native: Size, pixels: int, profile: Profile) -> None:
    fitted = fit(native, pixels, profile)
    cell = 1 if any(fitted.margin) else profile.factor
    scales = [Fraction(side, whole) for side, whole in zip(fitted.shown, native, strict=True)]
    exact = [Fraction(side + cell, whole) for side, whole in zip(fitted.shown, native, strict=True)]
    # One scale lies between both sides as they are and both sides with what rounding took from them.
    assert max(scales) <= min(exact) or min(fitted.shown) == 1
    if cell > 1:
        assert max(scales) <= Fraction(5, 4) * min(scales)


@given(natives, profiles, st.integers(256, 1280))
def test_a_small_picture_is_shown_whole_on_a_canvas_near_the_least(
    native: Size, profile: Profile, tokens: int
) -> None:
    least = profile.min_tokens * profile.factor**2
    fitted = fit(native, tokens * profile.factor**2, profile)
    if native.area < least and max(native) <= 16 * profile.factor:
        assert fitted.shown == native
        assert fitted.canvas.area == least


@given(natives, profiles, st.integers(256, 1279))
def test_more_pixels_never_show_less(native: Size, profile: Profile, tokens: int) -> None:
    less, more = (
        fit(native, count * profile.factor**2, profile).shown.area for count in (tokens, 2 * tokens)
    )
    assert less <= more


@cache
def image_processor(profile: str) -> Any:  # noqa: ANN401 - not typed
    """The real one of the family, with the limits that its checkpoints come with."""
    require("models", "transformers")
    patch, least, most = {"qwen2.5-vl": (14, 3136, 12_845_056), "qwen3-vl": (16, 65_536, 16_777_216)}[profile]
    kind = importlib.import_module("transformers").Qwen2VLImageProcessorPil
    return kind(min_pixels=least, max_pixels=most, patch_size=patch, merge_size=2)


@settings(max_examples=30)
@given(natives, st.integers(256, 1280), profiles)
@example(Size(1, 200), 256, QWEN25)
@example(Size(1, 40_000), 256, QWEN3)
@example(Size(40_000, 29), 1280, QWEN3)
@example(Size(700, 700), 1280, QWEN25)
def test_the_real_image_processor_counts_the_same_tokens(native: Size, tokens: int, profile: Profile) -> None:
    fitted = fit(native, tokens * profile.factor**2, profile)
    view = View(native, Box(0, 0, *native, Space.ITEM), fitted.shown, fitted.margin)
    stored = Image.new("RGB", (min(native.width, 64), min(native.height, 64)), "navy")
    drawn = draw_view(stored, view)
    assert drawn.size == fitted.canvas
    made = image_processor(profile.name)(images=[drawn], return_tensors="np")
    frames, high, wide = made["image_grid_thw"][0].tolist()
    assert frames == 1
    assert (wide // 2 * profile.factor, high // 2 * profile.factor) == fitted.canvas  # not resized again
    assert wide * high // 4 == profile.visual_tokens(fitted.canvas) <= tokens
