"""Questions to a model about rectangles on synthetic pages, and the profiles that fit its answers."""

from __future__ import annotations

import asyncio
import math
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.agent.policy import Message, Picture, Reply, Role, Text
from vrag.agent.prompts import prompt
from vrag.errors import ModelError
from vrag.geometry import Size, View
from vrag.grounding.conventions import BoxSample, Convention, parse_box
from vrag.grounding.probe_pages import draw
from vrag.model_profiles import PROFILES, profile_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from PIL.Image import Image

    from vrag.agent.policy import Policy
    from vrag.grounding.probe_pages import ProbePage
    from vrag.model_profiles import Profile

SLACK_TOKENS = 2
"""Tokens by which two prompts with the same words may differ, apart from their pictures."""
CONCURRENCY = 4


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
    shown = tuple(_picture(number, image) for number, image in enumerate(pictures, 1))
    history = [Message(Role.USER, (*shown, Text(text)))]
    async with aclosing(policy.reply(history)) as parts:
        async for part in parts:
            if isinstance(part, Reply):
                return part
    raise ModelError(f"{policy.name} ended without a reply.")


def _picture(number: int, image: Image) -> Picture:
    from vrag.agent.environment import picture_of

    size = Size(*image.size)
    return picture_of(image, f"probe-{number}", View.whole(size, size), number=number)


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
    """Ask a model for rectangles on every page, a few at a time.

    Args:
        policy: The model.
        pages: The pages.
        seconds: Time limit per question.
        numbers: Indexes of the rectangles to ask for on each page; None for all.
        total: Time limit of all questions, in seconds; earlier replies are kept.

    Returns:
        Answers in the order of pages and rectangles. A question that fails is an answer without text.
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
