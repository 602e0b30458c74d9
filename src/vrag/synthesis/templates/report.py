"""What the A4 templates share: the frame of a page and the words of a yearly report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.synthesis.canvas import Canvas

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

__all__ = ["LEFT", "MEASURES", "MONTHS", "RIGHT", "YEARS", "draw_frame", "some_numbers"]

WIDTH, HEIGHT = 595.0, 842.0
LEFT, RIGHT = 60.0, 535.0
"""Points: where lines of text begin and end on an A4 page."""
RULE = (40, 70, 120)
MEASURES = ("visitors", "members", "orders", "tickets", "letters", "meals", "bicycles", "lamps")
"""What is counted."""
MONTHS = ("January", "February", "March", "April", "May", "June")
YEARS = ("2019", "2020", "2021", "2022", "2023")


def draw_frame(title: str, lines: Sequence[str]) -> Canvas:
    """An A4 page with a heading above a rule, and lines of text below it, from 150 points down."""
    canvas = Canvas(WIDTH, HEIGHT)
    canvas.write(LEFT, 90, title, 26, bold=True)
    canvas.fill(LEFT, 104, RIGHT, 107, RULE)
    for at, line in enumerate(lines):
        canvas.write(LEFT, 150 + at * 20, line, 13)
    return canvas


def some_numbers(chance: random.Random, count: int) -> list[str]:
    """Different numbers of four or five digits, as people write them: "48,210"."""
    return [f"{number:,}" for number in chance.sample(range(1_000, 100_000), count)]
