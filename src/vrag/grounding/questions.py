"""Questions to a model about rectangles on synthetic pages, and the profiles that fit its answers.

No two coordinate conventions agree on the rectangles of a page.
"""

from __future__ import annotations

import asyncio
import math
import random
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.agent.policy import Message, Picture, Reply, Role, Text
from vrag.agent.prompts import prompt
from vrag.errors import ModelError
from vrag.geometry import Box, Size, Space, View
from vrag.grounding.conventions import BoxSample, Convention, parse_box, separates
from vrag.model_profiles import PROFILES, profile_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from PIL.Image import Image

    from vrag.agent.policy import Policy
    from vrag.model_profiles import Profile

SLACK_TOKENS = 2
"""Tokens by which two prompts with the same words may differ, apart from their pictures."""
CONCURRENCY = 4
SIZES = (Size(448, 672), Size(672, 448), Size(448, 896), Size(896, 448))
"""Page sizes: not square; multiples of 28 and of 32, so that no known family resizes them."""
COLORS = {
    "red": (214, 28, 28),
    "green": (20, 140, 50),
    "blue": (30, 70, 220),
    "yellow": (245, 215, 20),
    "purple": (130, 30, 160),
    "black": (15, 15, 15),
}
SIDE_RANGE = (0.18, 0.42)
"""Shortest and longest side of a rectangle, as a fraction of the page's side."""
MIN_GAP = 0.02
"""Minimum distance of rectangles from each other and from the border, as a fraction of the page's width."""
CONFUSION = 0.25
"""Maximum overlap of a rectangle with itself, written in one convention and read in another."""
MAX_TRIES = 500
"""Pages that are started before giving up."""


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle of one colour."""

    color: str
    box: Box
    """Its sides in pixels of the page, which is shown as it is; whole numbers."""


@dataclass(frozen=True, slots=True)
class ProbePage:
    """A page to draw."""

    size: Size
    rectangles: tuple[Rectangle, ...]
    """No two of one colour, none touching another."""


def make_pages(profile: Profile, *, each: int = 2, rectangles: int = 3, seed: int = 0) -> list[ProbePage]:
    """Make `each` pages of four sizes, portrait and landscape, which the model does not resize.

    A page has at most as many rectangles as there are colours.
    """
    chance = random.Random(seed)
    sizes = [profile.shown_size(size) for size in SIZES for _ in range(each)]
    return [ProbePage(size, _scatter(size, rectangles, chance)) for size in sizes]


def _scatter(size: Size, count: int, chance: random.Random) -> tuple[Rectangle, ...]:
    """Place rectangles apart from each other; start the page again if there is no room for the next."""
    colors = chance.sample(list(COLORS), count)
    for _ in range(MAX_TRIES):
        placed: list[Box] = []
        for _ in range(count * 40):
            sides: list[int] = []
            starts: list[int] = []
            for length in size:
                side = round(length * chance.uniform(*SIDE_RANGE))
                sides.append(side)
                starts.append(chance.randint(round(length * MIN_GAP), round(length * (1 - MIN_GAP)) - side))
            (x, y), (width, height) = starts, sides
            box = Box(x, y, x + width, y + height, Space.SHOWN)
            grown = box.grow(size.width * MIN_GAP)
            apart = not any(grown.intersect(other).area for other in placed)
            if apart and separates(box, size, CONFUSION):
                placed.append(box)
            if len(placed) == count:
                return tuple(map(Rectangle, colors, placed))
    raise ValueError(f"{count} rectangles do not fit on {size.width}×{size.height} pixels")


def draw(page: ProbePage) -> Image:
    """Draw the page."""
    from PIL import Image as Images

    picture = Images.new("RGB", page.size, "white")
    for rectangle in page.rectangles:
        left, top, right, bottom = (round(side) for side in rectangle.box.as_tuple())
        picture.paste(COLORS[rectangle.color], (left, top, right, bottom))
    return picture


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The answer to the question for one rectangle."""

    sample: BoxSample
    color: str
    text: str
    """The reply; empty if there was none."""
    failure: str = ""
    """The reason if there was no reply."""
    prompt_tokens: int | None = None


async def ask(policy: Policy, pictures: Iterable[Image], text: str) -> Reply:
    """Ask a model a question about pictures. Raises `ModelError` if there is no reply."""
    from vrag.agent.environment import picture_of

    shown: list[Picture] = []
    for number, image in enumerate(pictures, 1):
        size = Size(*image.size)
        shown.append(picture_of(image, f"probe-{number}", View.whole(size, size), number=number))
    history = [Message(Role.USER, (*shown, Text(text)))]
    async with aclosing(policy.reply(history)) as parts:
        async for part in parts:
            if isinstance(part, Reply):
                return part
    raise ModelError(f"{policy.name} ended without a reply.")


def factor_of(tokens: Mapping[Size, int]) -> int | None:
    """Return the pixels per visual token and side that explain the prompt tokens, if a known number does.

    `tokens` are those of whole prompts with the same words, by the size of their picture.
    """
    if len(tokens) < 2:
        return None
    (small, least), *_, (large, most) = sorted(tokens.items(), key=lambda entry: entry[0].area)
    if small.area == large.area:
        return None
    for factor in sorted({profile.factor for profile in PROFILES.values()}):
        if abs(most - least - (large.area - small.area) / factor**2) <= SLACK_TOKENS:
            return factor
    return None


async def ask_pages(
    policy: Policy,
    pages: Sequence[ProbePage],
    seconds: float = math.inf,
    numbers: Sequence[int] | None = None,
    *,
    total: float = math.inf,
) -> list[ProbeAnswer]:
    """Ask a model for rectangles on every page, a few at a time, in the order of pages and rectangles.

    `seconds` limit each question and `total` all of them; earlier replies are kept. `numbers` are indexes of
    the rectangles to ask for on each page, None for all. A question that fails is an answer without text.
    """
    slots = asyncio.Semaphore(CONCURRENCY)
    clock = asyncio.get_running_loop().time
    ends = clock() + total

    async def ask_one(page: ProbePage, image: Image, number: int) -> ProbeAnswer:
        drawn = page.rectangles[number]
        question = prompt("coords.md", color=drawn.color)
        try:
            async with slots:
                limit = min(seconds, ends - clock())
                work = ask(policy, [image], question)
                reply = await asyncio.wait_for(work, None if math.isinf(limit) else limit)
        except (ModelError, TimeoutError) as error:
            reason = str(error) or f"No reply within {min(seconds, total):.3g} s."
            return ProbeAnswer(BoxSample(drawn.box, page.size, None), drawn.color, "", reason)
        sample = BoxSample(drawn.box, page.size, parse_box(reply.text))
        return ProbeAnswer(sample, drawn.color, reply.text, prompt_tokens=reply.tokens.prompt)

    try:
        questions = [
            ask_one(page, image, number)
            for page, image in zip(pages, map(draw, pages), strict=True)
            for number in (range(len(page.rectangles)) if numbers is None else numbers)
        ]
        return list(await asyncio.gather(*questions))
    finally:
        await policy.aclose()


def fitting_profiles(
    convention: Convention, current: Profile, *, model: str = "", factor: int | None = None
) -> list[str]:
    """Return the names of the profiles that read boxes in a convention.

    The profile in force is the first if it fits; then the one that knows the name of the model; then those
    with the measured factor, in pixels per visual token and side.
    """
    known = profile_of(model)

    def place(profile: Profile) -> tuple[bool, bool, bool]:
        return profile != current, profile != known, factor is not None and profile.factor != factor

    fit = [p for p in PROFILES.values() if Convention(p.boxes, p.y_first) == convention]
    return [profile.name for profile in sorted(fit, key=place)]


def measured_factor(answers: Sequence[ProbeAnswer]) -> int | None:
    """Return the pixels per visual token and side, from the prompt tokens of the questions, if known.

    The names of colors have different token counts, so only the cheapest question of each size is used.
    """
    tokens: dict[Size, int] = {}
    for answer in answers:
        if answer.prompt_tokens is not None:
            size = answer.sample.size
            tokens[size] = min(answer.prompt_tokens, tokens.get(size, answer.prompt_tokens))
    return factor_of(tokens) if tokens else None
