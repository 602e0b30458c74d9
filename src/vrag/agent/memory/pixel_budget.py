"""The distribution of pixels: the budget of memory, and that of fresh results.

Both budgets count visual tokens as the model's own image processor does. Pictures are really resized, and
never enlarged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from vrag.agent.memory.energies import ForgottenItem, MemoryOptions, Remembered, select
from vrag.agent.memory.image_fit import FittedImage, fit
from vrag.agent.memory.memory_graph import Graph
from vrag.geometry import Size
from vrag.model_profiles import Profile

_SLACK = 1 + 1e-9
"""Shares are real numbers; one that is a whole number but for the last bits counts as that number."""


@dataclass(frozen=True, slots=True)
class Visual:
    """A fresh result that is seen."""

    label: str
    """`Picture 3`, `Video 1`."""
    native: Size
    """Pixels of what is stored: of the picture, of the part to be shown, or of each frame."""
    seconds: tuple[float, ...] = ()
    """Of a clip: when its frames are seen, ascending; empty for a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """The size at which something is shown."""

    seconds: tuple[float, ...]
    """Of a clip: the frames that are shown; empty for a picture."""
    fitted: FittedImage
    """The size of the picture, or of each frame."""
    tokens: int
    """Visual tokens, all frames together."""
    pixels: int
    """Pixels given to the model, all frames and their margins together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed(_Shown):
    """An item that is shown from memory."""

    entry: Remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh(_Shown):
    """A fresh result that is shown."""

    visual: Visual


@dataclass(frozen=True, slots=True)
class FreshLoss:
    """A fresh result, or frames of one, for which there was no room."""

    visual: Visual
    reason: str
    """One sentence for people."""
    seconds: tuple[float, ...] = ()
    """Of a clip: the frames that are not shown; empty for a picture."""


S = TypeVar("S", Placed, Fresh)
L = TypeVar("L", ForgottenItem, FreshLoss)


@dataclass(frozen=True, slots=True)
class PixelPlan(Generic[S, L]):
    """The distribution of a budget."""

    shown: tuple[S, ...]
    """Items of memory by energy, the highest first; fresh results in their order."""
    dropped: tuple[L, ...]
    """Items, and frames of items that are shown."""
    budget: int
    """Visual tokens that may be spent."""

    @property
    def tokens(self) -> int:
        """Visual tokens of all that is shown; at most `budget`."""
        return sum(shown.tokens for shown in self.shown)

    @property
    def pixels(self) -> int:
        """Pixels of all that is shown."""
        return sum(shown.pixels for shown in self.shown)


Allotment = PixelPlan[Placed, ForgottenItem]
"""The items that are shown from memory."""
FreshPlan = PixelPlan[Fresh, FreshLoss]
"""The results of a node that are shown."""


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
        """With that many frames."""
        return replace(self, seconds=spread(self.seconds, count))


def allot(weights: Sequence[float], caps: Sequence[int], budget: int) -> list[int]:
    """Share out pixels in proportion to weights.

    What would get more than it can use gets that much, and the rest is shared again among the others. Weights
    that are all 0 (every item is ages old) count as equal.

    Returns:
        Whole pixels, at most the caps and together at most the budget.

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
    """So many of the frames, evenly spread: the first and the last among them, or the middle one alone.

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
    lost = [
        ForgottenItem(entry, "Its picture can no longer be opened.", entry.seconds)
        for entry in kept
        if entry.item not in sizes
    ]
    open_to = [
        (entry, _claim(entry, sizes[entry.item], options, profile)) for entry in kept if entry.item in sizes
    ]
    budget = options.tokens * profile.factor**2
    while True:
        claims, pixels = _thinned([claim for _, claim in open_to], budget)
        short = [at for at, claim in enumerate(claims) if pixels[at] // claim.count < claim.least]
        if not short:
            break
        entry, claim = open_to.pop(short[-1])
        lost.append(ForgottenItem(entry, _too_little(pixels[short[-1]], claim), entry.seconds))
    shown: list[Placed] = []
    for (entry, asked), claim, share_of_it in zip(open_to, claims, pixels, strict=True):
        shown.append(Placed(entry=entry, **_sized(claim, share_of_it)))
        if left_out := _without(asked.seconds, claim.seconds):
            lost.append(
                ForgottenItem(
                    entry, f"Its share is enough for {claim.count} of {asked.count} frames.", left_out
                )
            )
    return PixelPlan(tuple(shown), tuple(lost), options.tokens)


def _claim(entry: Remembered, size: Size, options: MemoryOptions, profile: Profile) -> _Claim:
    native = size
    if entry.region is not None:
        x1, y1, x2, y2 = entry.region
        native = Size(int(x2 - x1), int(y2 - y1))
    return _claimed(entry.energy, native, entry.seconds, options, profile)


def _claimed(
    weight: float, native: Size, seconds: tuple[float, ...], options: MemoryOptions, profile: Profile
) -> _Claim:
    limit = options.frame_pixels if seconds else options.image_pixels
    if profile.graph_tokens is not None:
        limit = min(limit, profile.graph_tokens * profile.factor**2)
    if seconds:
        profile = replace(profile, min_tokens=min(profile.min_tokens, options.frame_tokens))
    return _Claim(weight=weight, native=native, seconds=seconds, limit=limit, profile=profile)


def _thinned(claims: list[_Claim], budget: int) -> tuple[list[_Claim], list[int]]:
    """Return the claims with as many frames as their shares are enough for, and the shares in pixels."""
    claims = list(claims)
    while True:
        pixels = allot([claim.weight for claim in claims], [claim.cap for claim in claims], budget)
        crowded = [
            at
            for at, claim in enumerate(claims)
            if claim.count > 1 and pixels[at] < claim.count * claim.least
        ]
        if not crowded:
            return claims, pixels
        weakest = crowded[-1]
        claims[weakest] = claims[weakest].thinned(max(1, pixels[weakest] // claims[weakest].least))


def _sized(claim: _Claim, pixels: int) -> dict[str, Any]:
    """Return the fields of `_Shown` for the pixels that a claim gets."""
    fitted = fit(claim.native, pixels // claim.count, claim.profile)
    tokens = claim.profile.visual_tokens(fitted.canvas) * claim.count
    return {
        "seconds": claim.seconds,
        "fitted": fitted,
        "tokens": tokens,
        "pixels": fitted.canvas.area * claim.count,
    }


def _without(seconds: tuple[float, ...], shown: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(second for second in seconds if second not in shown)


def _too_little(pixels: int, claim: _Claim) -> str:
    tokens, kind = pixels // claim.profile.factor**2, "frame" if claim.seconds else "picture"
    return f"Its share of {tokens} visual tokens is under the {claim.profile.min_tokens} that a {kind} takes."


def fit_fresh(visuals: Sequence[Visual], options: MemoryOptions, profile: Profile) -> FreshPlan:
    """Return the sizes of fresh results, so that all of them fit into their budget.

    Everything is shown at its own size, within the limits of the options, if that fits. Otherwise the frames
    of clips are made smaller, all alike, down to `MemoryOptions.frame_tokens`. If that is not enough, clips
    lose frames, evenly, the clip with the most frames (of equals the later one) first, down to one each; then
    everything is resized to an equal share of the budget; what needs less leaves the rest to the others.
    If shares would be under the least that the model takes, the last result is dropped.
    """
    kept, lost = list(visuals), list[FreshLoss]()
    while True:
        asked = [_claimed(1.0, visual.native, visual.seconds, options, profile) for visual in kept]
        claims, pixels = _fresh_pixels(asked, options.fresh_tokens)
        if all(
            share_of_it // claim.count >= claim.least
            for claim, share_of_it in zip(claims, pixels, strict=True)
        ):
            break
        last = kept.pop()
        reason = f"The results of one step may take {options.fresh_tokens} visual tokens."
        lost.insert(0, FreshLoss(last, reason, last.seconds))
    shown: list[Fresh] = []
    for visual, claim, share_of_it in zip(kept, claims, pixels, strict=True):
        shown.append(Fresh(visual=visual, **_sized(claim, share_of_it)))
        if left_out := _without(visual.seconds, claim.seconds):
            reason = f"There is room for {claim.count} of {len(visual.seconds)} frames."
            lost.append(FreshLoss(visual, reason, left_out))
    return PixelPlan(tuple(shown), tuple(lost), options.fresh_tokens)


def _fresh_pixels(asked: list[_Claim], budget: int) -> tuple[list[_Claim], list[int]]:
    """Return the claims with as many frames as there is room for, and the shares in pixels.

    Args:
        asked: What every result can use.
        budget: Visual tokens of all of them.
    """
    if sum(claim.tokens * claim.count for claim in asked) <= budget:
        return asked, [claim.cap for claim in asked]
    least = [claim.profile.min_tokens if claim.seconds else claim.tokens for claim in asked]
    counts = [claim.count for claim in asked]
    while sum(map(int.__mul__, least, counts)) > budget and max(counts) > 1:
        longest = max(range(len(counts)), key=lambda at: (counts[at], at))
        counts[longest] -= 1
    claims = [claim.thinned(count) for claim, count in zip(asked, counts, strict=True)]
    if sum(map(int.__mul__, least, counts)) > budget:
        area = asked[0].profile.factor ** 2
        return claims, allot([1.0] * len(claims), [claim.cap for claim in claims], budget * area)
    return claims, _frames_smaller(claims, budget)


def _frames_smaller(claims: list[_Claim], budget: int) -> list[int]:
    """Share in pixels: pictures in full, and the rest for the frames of clips, as much for each."""
    clips = [claim for claim in claims if claim.seconds]
    left = budget - sum(claim.tokens for claim in claims if not claim.seconds)
    area = claims[0].profile.factor ** 2
    shares = iter(allot([float(clip.count) for clip in clips], [clip.cap for clip in clips], left * area))
    return [next(shares) if claim.seconds else claim.cap for claim in claims]
