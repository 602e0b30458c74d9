"""Checks of a model's vision: whether it accepts pictures, what they cost, and how it writes boxes."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Sequence

from vrag.agent.policy import Policy, Reply
from vrag.doctor.check import Check, ok, warning
from vrag.errors import ModelError
from vrag.factory.families import FamilySource, ModelFamily
from vrag.geometry import Size
from vrag.grounding.conventions import Convention, Measurement, measure
from vrag.grounding.questions import (
    SLACK_TOKENS,
    ProbeAnswer,
    ask,
    ask_pages,
    factor_of,
    fitting_profiles,
    make_pages,
    measured_factor,
)
from vrag.model_profiles import PROFILES, Profile

SMALL, LARGE = Size(448, 448), Size(896, 448)
"""Sizes that no known family resizes, with 28 and with 32 pixels per visual token."""
RED = re.compile(r"\b(red|crimson|scarlet)\b|红|紅", re.IGNORECASE)
"""Names of the color of the blank pictures."""
MAX_QUOTE_CHARS, MAX_EXAMPLE_CHARS = 60, 120

_SOURCES = {
    FamilySource.SETTING: "as set",
    FamilySource.CHECKPOINT: "by its checkpoint",
    FamilySource.NAME: "by the model's name",
    FamilySource.SERVER: "by its server",
    FamilySource.MEASUREMENT: "as measured before",
}


def _ask_colors(policy: Policy, questions: Sequence[Sequence[Size]]) -> list[Reply]:
    """Ask for the color of red pictures of these sizes, one question after the other."""
    from PIL import Image

    question = "Which color is this? Answer with one word."

    async def ask_all() -> list[Reply]:
        try:
            pictures = ([Image.new("RGB", size, (214, 28, 28)) for size in sizes] for sizes in questions)
            return [await ask(policy, images, question) for images in pictures]
        finally:
            await policy.aclose()

    return asyncio.run(ask_all())


def check_profile(family: ModelFamily, found: ModelFamily, *, coords: bool = False) -> Check:
    """Report the family of the model, and how it was determined.

    `found` is the family that is found where none is set. With `coords`, box coordinates are measured next,
    and no hint recommends it.
    """
    profile = family.profile
    known = None if found.source is FamilySource.NOTHING else found.profile
    text = f"{profile.name}: boxes in {Convention(profile.boxes, profile.y_first)}"
    details = {
        "profile": profile.name,
        "factor": profile.factor,
        "known": known and known.name,
        "source": family.source.value,
    }
    if family.source is FamilySource.SETTING and known not in {None, profile}:
        unless = "the check of coordinates says" if coords else "--coords says"
        hint = f"Unless {unless} otherwise: VRAG_PROFILE={known.name}" if known else ""
        source = _SOURCES[found.source]
        return warning(f"{text}, as set; it is {details['known']} {source}.", hint, details)
    if family.source is FamilySource.NOTHING:
        hint = "" if coords else "Measure it: vrag doctor --coords"
        reason = family.notice.partition(". Boxes are read")[0].rstrip(".")
        return warning(f"{text}, as a fallback. {reason}.", hint, details)
    return ok(f"{text}, {_SOURCES[family.source]}.", details=details)


def check_pictures(policy: Policy, count: int) -> Check:
    """Check that the model accepts a picture, and `count` pictures in one prompt."""
    reply = _ask_colors(policy, [[SMALL]])[0]
    quote = " ".join(reply.text.split())[-MAX_QUOTE_CHARS:] or "nothing"
    details = {"reply": reply.text, "pictures": count}
    try:
        _ask_colors(policy, [[SMALL] * count])
    except ModelError as error:
        message = f"One picture is accepted, {count} in one prompt are not: {error.message}"
        hint = "Allow more pictures (vLLM: --limit-mm-per-prompt '{\"image\": 12}'), or set fewer steps."
        return warning(message, hint, details | {"pictures": 1})
    message = f"Pictures are accepted, {count} in one prompt too. The model describes a red one as: {quote}"
    if not RED.search(reply.text):
        hint = "It may not see them: use a vision model, and a server that passes pictures to it."
        return warning(message, hint, details)
    return ok(message, details=details)


def check_picture_cost(policy: Policy, profile: Profile, *, coords: bool = False) -> Check:
    """Compare the cost of pictures of two sizes, in prompt tokens, with what the profile expects.

    With `coords`, box coordinates are measured next, and no hint recommends it.
    """
    replies = _ask_colors(policy, [[SMALL], [LARGE]])
    tokens = {size: reply.tokens.prompt for size, reply in zip((SMALL, LARGE), replies, strict=True)}
    details = {f"{size.width}x{size.height}": count for size, count in tokens.items()}
    known = {size: count for size, count in tokens.items() if count is not None}
    if len(known) < len(tokens):
        message = "The server does not report prompt tokens: the cost of pictures is an estimate."
        return warning(message, "Ask its operator to report usage.", details)
    expected = profile.visual_tokens(LARGE) - profile.visual_tokens(SMALL)
    actual = known[LARGE] - known[SMALL]
    cost = f"A picture of twice the size costs {actual} tokens more"
    message = f"{cost}; the profile {profile.name} expects {expected}."
    if abs(actual - expected) <= SLACK_TOKENS:
        return ok(message, details=details | {"factor": profile.factor})
    factor = factor_of(known)
    hint = (
        "No known family has this cost: the server shrinks pictures, or its model is of another kind. "
        "Budgets of visual tokens will be wrong."
    )
    if names := [other.name for other in PROFILES.values() if other.factor == factor]:
        source = "the next check" if coords else "`--coords`"
        hint = f"Matching profiles: {', '.join(names)}; {source} tells which one. Then set VRAG_PROFILE."
    return warning(message, hint, details | {"factor": factor})


def check_coords(
    policy: Policy,
    profile: Profile,
    *,
    model: str = "",
    seconds: float = math.inf,
    seed: int = 0,
    keep: Callable[[Sequence[ProbeAnswer]], None] | None = None,
) -> Check:
    """Measure in which coordinate convention the model writes boxes, and find the profiles that fit.

    The picture sizes are those of the profile in force; `seconds` is the time limit per question. `keep`
    stores the answers for later runs, if they show the convention.
    """
    answers = asyncio.run(ask_pages(policy, make_pages(profile, seed=seed), seconds))
    failures = [answer.failure for answer in answers if answer.failure]
    if len(failures) == len(answers):
        raise ModelError(f"None of {len(answers)} questions was answered: {failures[0]}")
    result = measure([answer.sample for answer in answers])
    details = _details(result, answers)
    summary = f"{result.answered} of {result.asked} answers contain a box. {result.reason}"
    if result.convention is None:
        return warning(f"Undecided. {summary}", _advice(result, answers), details)
    names = fitting_profiles(result.convention, profile, model=model, factor=measured_factor(answers))
    details = details | {"profiles": names}
    message = f"Boxes are written in {result.convention}. {summary}"
    if keep is not None:
        keep(answers)
        message = f"{message} Later runs use this."
    if profile.name in names:
        return ok(f"{message} VRAG_PROFILE={profile.name} fits.", details=details)
    if not names:
        hint = "No profile fits: crops of this model will miss. Use another model."
        return warning(message, hint, details)
    others = f" (or {', '.join(names[1:])})" if names[1:] else ""
    hint = f"The profile {profile.name} reads them differently. Set VRAG_PROFILE={names[0]}{others}"
    return warning(message, hint, details)


def _advice(result: Measurement, answers: Sequence[ProbeAnswer]) -> str:
    if result.scaled is not None and result.scaled.range is None:
        return "Let the server show pictures in their original size: raise its limit of pixels per picture."
    if result.scaled is not None:
        return "No profile fits: crops of this model will miss. Use another model."
    if result.answered < result.asked / 2:
        boxless = (answer.text or answer.failure for answer in answers if answer.sample.numbers is None)
        example = next((words for text in boxless if (words := " ".join(text.split()))), "nothing")
        return f"--json shows what it writes instead of boxes. For example: {example[:MAX_EXAMPLE_CHARS]}"
    return "Crops of this model may miss. Use a model that was trained to point at things (grounding)."


def _details(result: Measurement, answers: Sequence[ProbeAnswer]) -> dict[str, object]:
    scaled = result.scaled.extents.items() if result.scaled is not None else None
    return {
        "asked": result.asked,
        "answered": result.answered,
        "chance": result.chance,
        "convention": str(result.convention) if result.convention else None,
        "scores": [
            {
                "space": score.convention.space.value,
                "y_first": score.convention.y_first,
                "median_iou": round(score.overlap, 4),
                "median_error": round(score.error, 4),
            }
            for score in result.scores
        ],
        "extents": scaled and {f"{size.width}x{size.height}": extent for size, extent in scaled},
        "answers": [
            {
                "size": answer.sample.size,
                "color": answer.color,
                "drawn": answer.sample.box.as_tuple(),
                "answered": answer.sample.numbers,
                "text": answer.text,
                "failure": answer.failure,
            }
            for answer in answers
        ],
    }
