"""Random runs with searches, selections and crops, and the same runs as UniDoc-RL's `rm.py` is given them.

A run is drawn by its seed alone: `benchmarks/unidoc_reward.py` gives the second form to the published code,
and records what that says; the tests compare our parts with it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TypeAlias

from vrag.agent.environment import SELECT
from vrag.agent.events import ImageShown, StopReason
from vrag.agent.runs.run_result import RunResult, RunStep
from vrag.geometry import Box
from vrag.types import Case, Region

RUNS = 500
FILE = "d.pdf"
MILLE = 1000
Sides: TypeAlias = tuple[int, int, int, int]
"""A box in thousandths of the page, as that code has it."""


@dataclass(frozen=True)
class UnidocRun:
    """One run in both forms."""

    case: Case
    run: RunResult
    right: bool
    """What the judge says of the answer."""
    transcript: str
    """All replies."""
    shown: list[list[str]]
    """The names of the pages of each search."""
    selected: list[str]
    boxes: list[list[list[int]]]
    gold: list[str]
    gold_boxes: dict[str, list[list[int]]]
    """Of all pages; empty where no crop is wanted."""


def name_of(page: int) -> str:
    return f"d_{page}"


def draw_run(seed: int) -> UnidocRun:
    """Draw a run: up to four searches, most of them with a selection and a crop."""
    draw = random.Random(seed)
    gold = sorted(draw.sample(range(1, 10), draw.randint(1, 3)))
    boxes: dict[int, list[Sides]] = {page: _gold_boxes(draw) for page in range(1, 10) if draw.random() < 0.6}
    case = Case(
        uid=str(seed),
        query="How many?",
        reference_answer="9",
        file_name=FILE,
        reference_page=tuple(gold),
        regions=tuple(Region(page, _unit(box)) for page, found in boxes.items() for box in found),
    )
    steps: list[RunStep] = []
    shown: list[list[str]] = []
    selected: list[str] = []
    cropped: list[list[list[int]]] = []

    def add(reply: str, **what: object) -> None:
        steps.append(RunStep(number=len(steps) + 1, reply=f"<think>So.</think>{reply}", **what))  # pyright: ignore

    for _ in range(draw.randint(0, 4)):
        pages = draw.sample(range(1, 10), draw.randint(1, 3))
        add("<search>x</search>", query="x", shown=tuple(_image(page) for page in pages))
        page = pages[0]
        for _ in range(draw.choice([0, 1, 1, 1, 2])):
            page = draw.choice(pages)
            add(f"<select>{pages.index(page)}</select>", action=SELECT, query="0", shown=(_image(page),))
        found: list[Sides] = []
        if draw.random() < 0.7:
            found = [_guess(draw, boxes.get(page, [])) for _ in range(draw.randint(1, 3))]
            add(f"<bbox>{found}</bbox>", crop=(0, 0, 9, 9), shown=tuple(_image(page, box) for box in found))
        if found and draw.random() < 0.2:  # only the first crop of a page counts
            add("<bbox>[[0, 0, 9, 9]]</bbox>", crop=(0, 0, 9, 9), shown=(_image(page, (0, 0, 9, 9)),))
        if draw.random() < 0.8:
            add("<information>It says so.</information>", invalid="That is no action.")
        shown.append([name_of(each) for each in pages])
        selected.append(name_of(page))
        cropped.append([list(box) for box in found])
    answers = draw.random() < 0.85
    if answers:
        add("<answer>9</answer>")
    run = RunResult(
        run_id=str(seed),
        steps=tuple(steps),
        answer="9" if answers else None,
        stop_reason=StopReason.ANSWERED if answers else StopReason.OUT_OF_STEPS,
    )
    return UnidocRun(
        case,
        run,
        draw.random() < 0.5,
        "".join(step.reply for step in steps),
        shown,
        selected,
        cropped,
        [name_of(page) for page in gold],
        {name_of(page): [list(box) for box in boxes.get(page, [])] for page in range(1, 10)},
    )


def _gold_boxes(draw: random.Random) -> list[Sides]:
    """One to three boxes, each in its own third of the page: no box meets two of them."""
    thirds = draw.sample(range(3), draw.randint(1, 3))
    return [_box(draw, 340 * third, 340 * third + 320) for third in thirds]


def _box(draw: random.Random, top: int, bottom: int) -> Sides:
    x1, y1 = draw.randint(0, 600), draw.randint(top, bottom - 120)
    return x1, y1, draw.randint(x1 + 100, MILLE), draw.randint(y1 + 100, bottom)


def _guess(draw: random.Random, gold: list[Sides]) -> Sides:
    """A box at random, or near a gold box."""
    if not gold or draw.random() < 0.4:
        return _box(draw, 0, MILLE)
    x1, y1, x2, y2 = (min(MILLE, max(0, side + draw.randint(-60, 60))) for side in draw.choice(gold))
    return (x1, y1, max(x2, x1 + 1), max(y2, y1 + 1))


def _unit(box: Sides) -> Box:
    return Box.unit(*(side / MILLE for side in box))


def _image(page: int, box: Sides = (0, 0, MILLE, MILLE)) -> ImageShown:
    return ImageShown(
        run_id="r",
        seq=0,
        ts=0.0,
        step=1,
        number=1,
        label="Image 1",
        item=f"0-{page}",
        document=FILE,
        page=page,
        region=(0, 0, 1, 1),
        box=_unit(box).as_tuple(),
        width=28,
        height=28,
        visual_tokens=1,
        sha256="0",
        crop=box != (0, 0, MILLE, MILLE),
    )
