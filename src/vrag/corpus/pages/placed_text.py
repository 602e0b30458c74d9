"""Text of a page whose words have places on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vrag.types import TurnedText, Word


@dataclass(frozen=True)
class PlacedText:
    """The text of a page, its words with their boxes, and the parts of it whose lines are turned."""

    text: str = ""
    words: tuple[Word, ...] = ()
    turned: tuple[TurnedText, ...] = ()

    @cached_property
    def boxes(self) -> NDArray[np.float64]:
        """Boxes of the words, a row for each: left, top, right, bottom as fractions of the page."""
        return unit_boxes(self.words)


def unit_boxes(words: Sequence[Word]) -> NDArray[np.float64]:
    """Return the boxes of words, a row for each: left, top, right, bottom as fractions of the picture."""
    boxes = [word.box for word in words]
    return np.array([(box.x1, box.y1, box.x2, box.y2) for box in boxes], np.float64).reshape(-1, 4)
