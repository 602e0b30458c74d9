"""In which order a training takes what it learns from."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["in_turn"]

T = TypeVar("T")


def in_turn(things: Sequence[T], step: int, each: int, seed: tuple[int, ...]) -> list[T]:
    """What a step takes: all in turn, in an order that is drawn anew for each round.

    It depends on nothing but these, so that a training which goes on takes what it would have taken.

    Args:
        things: All that there is, at least one.
        step: Which step, from 1.
        each: How many a step takes; where there are fewer, some come twice.
        seed: Of the order, together with the number of the round.

    >>> sorted(in_turn("abc", 1, 2, (0,)) + in_turn("abc", 2, 2, (0,))[:1])
    ['a', 'b', 'c']
    """
    count = len(things)
    places = range((step - 1) * each, step * each)
    rounds = {place // count for place in places}
    orders = {turn: np.random.default_rng((*seed, turn)).permutation(count) for turn in rounds}
    return [things[int(orders[place // count][place % count])] for place in places]
