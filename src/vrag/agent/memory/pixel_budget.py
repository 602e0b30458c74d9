"""The size of every picture of a graph: the budget of memory, and that of fresh results.

`fit` returns the size of one picture for which so many pixels may be spent; `recall` and `fit_fresh` share
out a budget. Both budgets count visual tokens as the model's own image processor does. Pictures are really
resized, and never enlarged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isqrt
from typing import Generic, TypeVar

from vrag.agent.memory.energies import MemoryOptions, Omitted, Remembered, select
from vrag.agent.memory.memory_graph import Graph
from vrag.geometry import MAX_ASPECT, Size
from vrag.model_profiles import Profile

T = TypeVar("T")
_SLACK = 1 + 1e-9
"""Shares are real numbers; one that is a whole number but for the last bits counts as that number."""
_STRIP = 4
"""Visual tokens: a side that is shorter could lose more than a fifth of its length by rounding."""


@dataclass(frozen=True, slots=True)
class FittedImage:
    """The size at which a picture is shown."""

    shown: Size
    """Size of the picture itself; never larger than it is."""
    margin: Size
    """White pixels on the right and at the bottom."""

    @property
    def canvas(self) -> Size:
        """The size of the picture with its margin: both sides are multiples of the model's factor."""
        return Size(self.shown.width + self.margin.width, self.shown.height + self.margin.height)


def fit(native: Size, pixels: int, profile: Profile) -> FittedImage:
    """Return the size of a picture of `native` pixels, for which `pixels` may be spent.

    Both sides are scaled by one number, at most 1, and rounded down to multiples of the model's factor. What
    that does not work for is shown on a white canvas instead: pictures smaller than the model takes, whose
    canvas comes as near to that as it can, and strips, whose canvas is the one that shows most of them and
    that keep their proportions so: rounding alone would squeeze a line of text to half its height.

    The canvas takes at most `pixels`, and has sides that the model's own processor leaves as they are. Raises
    `ValueError` if a side is under one pixel, or not even one visual token may be spent.
    """
    factor = profile.factor
    width, height = native
    room = pixels // factor**2
    if min(native) < 1 or room < 1:
        raise ValueError(f"{width}×{height} pixels cannot be shown in {pixels}")
    if pixels >= native.area:
        wide, high = width // factor, height // factor
    else:  # in whole numbers, so that no bit is lost
        wide = isqrt(pixels * width // (height * factor**2))
        high = isqrt(pixels * height // (width * factor**2))
    is_small = native.area < profile.min_tokens * factor**2
    if is_small or min(wide, high) < _STRIP or max(wide, high) > MAX_ASPECT * min(wide, high):
        return _fit_on_canvas(native, room, profile)
    return FittedImage(Size(wide * factor, high * factor), Size(0, 0))


@lru_cache(4096)  # memory is shared out again in every turn, among much the same pictures
def _fit_on_canvas(native: Size, room: int, profile: Profile) -> FittedImage:
    """Return the size on the canvas of at most `room` tokens that shows most; of equals the most fitting."""
    factor, max_aspect = profile.factor, int(MAX_ASPECT)
    candidates: list[tuple[tuple[int, int, int], Size, Size]] = []
    for high in range(1, room + 1):
        widest, narrowest = min(room // high, max_aspect * high), -(-high // max_aspect)
        if widest < narrowest:
            continue
        shown = _scale_into(native, Size(widest * factor, high * factor))
        wanted = max(-(-shown.width // factor), -(-profile.min_tokens // high), narrowest)
        wide = min(wanted, widest)
        faults = -shown.area, abs(wide * high - profile.min_tokens), abs(wide - high)
        candidates.append((faults, shown, Size(wide * factor, high * factor)))
    _, shown, canvas = min(candidates)
    return FittedImage(shown, Size(canvas.width - shown.width, canvas.height - shown.height))


def _scale_into(native: Size, frame: Size) -> Size:
    """Return the picture as large as the frame allows, never larger than it is."""
    width, height = native
    if width <= frame.width and height <= frame.height:
        return native
    if frame.width * height <= frame.height * width:
        return Size(frame.width, max(1, frame.width * height // width))
    return Size(max(1, frame.height * width // height), frame.height)


@dataclass(frozen=True, slots=True)
class Visual:
    """A fresh result that is seen."""

    label: str
    """`Picture 3`, `Video 1`."""
    native: Size
    """Pixels of what is stored: of the picture, of the part to be shown, or of each frame."""
    seconds: tuple[float, ...] = ()
    """The moments of the frames of a clip, ascending; empty for a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed(Generic[T]):
    """An item of memory or a fresh result, and the size at which it is shown."""

    entry: T
    seconds: tuple[float, ...]
    """The frames of a clip that are shown; empty for a picture."""
    fitted: FittedImage
    """The size of the picture, or of each frame."""
    tokens: int
    """Visual tokens, all frames together."""
    pixels: int
    """Pixels given to the model, all frames and their margins together."""


@dataclass(frozen=True, slots=True)
class PixelPlan(Generic[T]):
    """The distribution of a budget."""

    shown: tuple[Placed[T], ...]
    """Items of memory by energy, the highest first; fresh results in their order."""
    dropped: tuple[Omitted[T], ...]
    """Items, and frames of items that are shown."""
    budget: int
    """Visual tokens that may be spent."""

    @property
    def tokens(self) -> int:
        """Visual tokens of all that is shown; at most `budget`."""
        return sum(placed.tokens for placed in self.shown)

    @property
    def pixels(self) -> int:
        """Pixels of all that is shown."""
        return sum(placed.pixels for placed in self.shown)


Allotment = PixelPlan[Remembered]
"""The items that are shown from memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """A claim to pixels."""

    weight: float
    native: Size
    seconds: tuple[float, ...]
    limit: int
    """Pixels at most, of the picture or of each frame."""
    profile: Profile
    """The model's limits, with the least that a picture, or a frame, may have."""

    @property
    def count(self) -> int:
        """Pictures that it stands for."""
        return max(1, len(self.seconds))

    @property
    def least(self) -> int:
        """Pixels at least, of the picture or of each frame."""
        return self.profile.min_tokens * self.profile.factor**2

    @property
    def tokens(self) -> int:
        """Visual tokens of the picture, or of each frame, where nothing else limits its size."""
        return self.profile.visual_tokens(fit(self.native, self.each, self.profile).canvas)

    @property
    def each(self) -> int:
        """Pixels it can use, for the picture or each frame; a small one is padded, whatever the limit."""
        return max(min(self.native.area, self.limit), self.least)

    @property
    def cap(self) -> int:
        """Pixels that it can use."""
        return self.each * self.count

    def thinned(self, count: int) -> _Claim:
        """Return the claim with that many frames."""
        return replace(self, seconds=spread(self.seconds, count))


def allot(weights: Sequence[float], caps: Sequence[int], budget: int) -> list[int]:
    """Share out pixels in proportion to weights.

    What would get more than it can use gets that much, and the rest is shared again among the others. Weights
    that are all 0 (every item is ages old) count as equal. The shares are whole pixels, at most the caps and
    together at most the budget.

    >>> allot([2.0, 1.0, 1.0], [100, 900, 900], 1000)
    [100, 450, 450]
    """
    shares = list(caps)
    waiting = set(range(len(caps)))
    while waiting:
        total = math.fsum(weights[at] for at in waiting)
        part = {at: budget * (weights[at] / total if total > 0 else 1 / len(waiting)) for at in waiting}
        full = {at for at in waiting if part[at] >= caps[at]}
        if not full:
            return [math.floor(part[at] * _SLACK) if at in waiting else cap for at, cap in enumerate(shares)]
        budget -= sum(caps[at] for at in full)
        waiting -= full
    return shares


def spread(seconds: tuple[float, ...], count: int) -> tuple[float, ...]:
    """Return so many of the frames, evenly spread: the first and the last among them, or the middle one.

    >>> spread((0.0, 1.0, 2.0, 3.0, 4.0), 3)
    (0.0, 2.0, 4.0)
    """
    last = len(seconds) - 1
    if count > last:
        return seconds
    if count == 1:
        return (seconds[last // 2],)
    gaps = count - 1
    return tuple(seconds[(2 * at * last + gaps) // (2 * gaps)] for at in range(count))


def recall(graph: Graph, sizes: Mapping[str, Size], options: MemoryOptions, profile: Profile) -> Allotment:
    """Select the items of highest energy to show from memory, each at the size that it earns."""
    selection = select(graph, options)
    allotment = share(selection.kept, sizes, options, profile)
    return replace(allotment, dropped=(*allotment.dropped, *selection.dropped))


def share(
    kept: Sequence[Remembered], sizes: Mapping[str, Size], options: MemoryOptions, profile: Profile
) -> Allotment:
    """Share the pixels of memory among items in proportion to their energy.

    An item gets no more than it can use: its own size, or the least that the model takes if it is smaller
    (it is padded with white, and the padding counts), and no more than the options allow. What is left over
    is shared again. The frames of a clip share what it gets, down to `MemoryOptions.frame_tokens` each, which
    is less than a picture needs: the model named these frames, and one that is small says more than one that
    is gone. A clip whose frames would get less loses frames, evenly; what still gets less than its least, a
    picture or the one frame left, is dropped, the lowest energy first, and all is shared again among the
    others, with all their frames. Shares are compared before sides are rounded down.
    """
    lost: list[Omitted[Remembered]] = []
    asked: list[tuple[Remembered, _Claim]] = []
    for entry in kept:
        if entry.item not in sizes:
            lost.append(Omitted(entry, "Its picture can no longer be opened.", entry.seconds))
            continue
        native = sizes[entry.item]
        if entry.region is not None:
            x1, y1, x2, y2 = entry.region
            native = Size(int(x2 - x1), int(y2 - y1))
        asked.append((entry, _claim(entry.energy, native, entry.seconds, options, profile)))

    budget = options.tokens * profile.factor**2
    while True:
        claims, shares = _thin_clips([claim for _, claim in asked], budget)
        short = [at for at, claim in enumerate(claims) if shares[at] // claim.count < claim.least]
        if not short:
            break
        entry, claim = asked.pop(short[-1])
        tokens, kind = shares[short[-1]] // profile.factor**2, "frame" if claim.seconds else "picture"
        least = claim.profile.min_tokens
        reason = f"Its share of {tokens} visual tokens is under the {least} that a {kind} takes."
        lost.append(Omitted(entry, reason, entry.seconds))

    reason = "Its share is enough for {} of {} frames."
    return _plan(asked, claims, shares, lost, reason, options.tokens)


def _plan(
    asked: Sequence[tuple[T, _Claim]],
    claims: Sequence[_Claim],
    shares: Sequence[int],
    lost: Sequence[Omitted[T]],
    reason: str,
    budget: int,
) -> PixelPlan[T]:
    """Return the plan for claims and their shares in pixels; `reason` is that of frames that are left out."""
    shown: list[Placed[T]] = []
    dropped = list(lost)
    for (entry, whole), claim, share_of_it in zip(asked, claims, shares, strict=True):
        fitted = fit(claim.native, share_of_it // claim.count, claim.profile)
        tokens = claim.profile.visual_tokens(fitted.canvas) * claim.count
        pixels = fitted.canvas.area * claim.count
        shown.append(Placed(entry=entry, seconds=claim.seconds, fitted=fitted, tokens=tokens, pixels=pixels))
        left_out = tuple(second for second in whole.seconds if second not in claim.seconds)
        if left_out:
            dropped.append(Omitted(entry, reason.format(claim.count, whole.count), left_out))
    return PixelPlan(tuple(shown), tuple(dropped), budget)


def _claim(
    weight: float, native: Size, seconds: tuple[float, ...], options: MemoryOptions, profile: Profile
) -> _Claim:
    limit = options.frame_pixels if seconds else options.image_pixels
    if profile.graph_tokens is not None:
        limit = min(limit, profile.graph_tokens * profile.factor**2)
    if seconds:
        profile = replace(profile, min_tokens=min(profile.min_tokens, options.frame_tokens))
    return _Claim(weight=weight, native=native, seconds=seconds, limit=limit, profile=profile)


def _thin_clips(claims: list[_Claim], budget: int) -> tuple[list[_Claim], list[int]]:
    """Return the claims with as many frames as their shares are enough for, and the shares in pixels."""
    claims = list(claims)
    while True:
        shares = allot([claim.weight for claim in claims], [claim.cap for claim in claims], budget)
        crowded = [
            at
            for at, claim in enumerate(claims)
            if claim.count > 1 and shares[at] < claim.count * claim.least
        ]
        if not crowded:
            return claims, shares
        weakest = crowded[-1]
        claims[weakest] = claims[weakest].thinned(max(1, shares[weakest] // claims[weakest].least))


def fit_fresh(visuals: Sequence[Visual], options: MemoryOptions, profile: Profile) -> PixelPlan[Visual]:
    """Return the sizes of fresh results, so that all of them fit into their budget.

    Everything is shown at its own size, within the limits of the options, if that fits. Otherwise the frames
    of clips are made smaller, all alike, down to `MemoryOptions.frame_tokens`. If that is not enough, clips
    lose frames, evenly, the clip with the most frames (of equals the later one) first, down to one each; then
    everything is resized to an equal share of the budget; what needs less leaves the rest to the others.
    If shares would be under the least that the model takes, the last result is dropped.
    """
    kept, lost = list(visuals), list[Omitted[Visual]]()
    while True:
        asked = [_claim(1.0, visual.native, visual.seconds, options, profile) for visual in kept]
        claims, shares = _share_fresh(asked, options.fresh_tokens)
        pairs = zip(claims, shares, strict=True)
        if all(pixels // claim.count >= claim.least for claim, pixels in pairs):
            break
        last = kept.pop()
        reason = f"The results of one step may take {options.fresh_tokens} visual tokens."
        lost.insert(0, Omitted(last, reason, last.seconds))
    entries = list(zip(kept, asked, strict=True))
    return _plan(entries, claims, shares, lost, "There is room for {} of {} frames.", options.fresh_tokens)


def _share_fresh(asked: list[_Claim], budget: int) -> tuple[list[_Claim], list[int]]:
    """Return the claims with as many frames as the budget, in visual tokens, allows, and shares in pixels."""
    if sum(claim.tokens * claim.count for claim in asked) <= budget:
        return asked, [claim.cap for claim in asked]
    area = asked[0].profile.factor ** 2
    least = [claim.profile.min_tokens if claim.seconds else claim.tokens for claim in asked]
    counts = [claim.count for claim in asked]
    while sum(map(int.__mul__, least, counts)) > budget and max(counts) > 1:
        longest = max(range(len(counts)), key=lambda at: (counts[at], at))
        counts[longest] -= 1
    claims = [claim.thinned(count) for claim, count in zip(asked, counts, strict=True)]
    if sum(map(int.__mul__, least, counts)) > budget:
        return claims, allot([1.0] * len(claims), [claim.cap for claim in claims], budget * area)

    # Pictures are shown in full, and the rest is shared by the frames of clips, as much for each.
    clips = [claim for claim in claims if claim.seconds]
    rest = budget - sum(claim.tokens for claim in claims if not claim.seconds)
    shares = iter(allot([float(clip.count) for clip in clips], [clip.cap for clip in clips], rest * area))
    return claims, [next(shares) if claim.seconds else claim.cap for claim in claims]
