"""Short answers with the places that they rest on, and the pages that they are read from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from vrag.geometry import Box
from vrag.reading.views.raised_marks import leave_out_marks
from vrag.types import Item

if TYPE_CHECKING:
    from PIL.Image import Image


class MarkRole(StrEnum):
    """The role of a place that an answer rests on."""

    ANSWER = "answer"
    """The words or the cell of the answer."""
    OPERAND = "operand"
    """A cell that the answer was computed from."""
    HEAD = "head"
    """The head of a row or column that the question names."""
    MATCH = "match"
    """Words of the question, in a place that may answer it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on a page that an answer rests on."""

    role: MarkRole
    box: Box
    """In `Space.UNIT`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A short answer with the place where it stands."""

    item: str
    """Id of the item."""
    text: str
    """The answer, as the document writes it, or in the form that is asked for."""
    measure: str = ""
    """Its scale or unit where the text lacks it: "(in thousands of euros)", "kg"."""
    context: str
    """Its sentence, or its row with the heads."""
    arithmetic: str = ""
    """The computation; empty for an answer that stands on the page."""
    probability: float = 0.0
    """The estimated probability that it is right, 0 to 1."""
    is_certain: bool = False
    """True if it is of a kind that is right often enough to be given as an answer: see
    `certainty.CertaintyCheck`."""
    frame: Box | None = None
    """The row or sentence around it, in `Space.UNIT`; None for an item without word boxes."""
    marks: tuple[Mark, ...] = ()
    further: tuple[Reading, ...] = ()
    """The rows on other pages that it was computed from, each without a text."""

    @property
    def answer(self) -> str:
        """The text with its measure."""
        if self.text.endswith(")") and self.measure.startswith("("):  # (425), in thousands of euros
            return f"{self.text}, {self.measure[1:-1]}"
        return f"{self.text} {self.measure}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions:
    """The sources that answers are read from, and how these are compared.

    All by default; fewer show what each is worth, see `vrag reader measure --ablations`.
    """

    tables: bool = True
    """Read tables."""
    operations: bool = True
    """Compute, count and compare over tables; else cells are looked up only."""
    values: bool = True
    """Read values beside their labels."""
    text: bool = True
    """Read running text."""
    learnt: bool = True
    """Compare the candidates by the trained scorer; else by `score_by_lines`."""


FULL_READING = ReadingOptions()
"""All sources, compared by the trained scorer."""


@dataclass(frozen=True, slots=True)
class ReadPage:
    """An item to read, with its picture."""

    item: Item
    """Without the marks of footnotes, which are no part of an answer."""
    picture: Callable[[], Image | None] = lambda: None
    """Opens the stored picture, whose lines show where tables are; None where there is none."""
    beside: Callable[[int], ReadPage | None] = lambda _: None
    """Opens the page so many pages behind this one in its document, before it if negative; None for none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "item", leave_out_marks(self.item))
