"""Checks of what a model sees: whether it takes pictures, what they cost, and how it answers boxes."""

from __future__ import annotations

import asyncio
import math
import re
from typing import TYPE_CHECKING

from vrag.doctor.check import Check, CheckStatus
from vrag.errors import ModelError
from vrag.factory import FamilySource
from vrag.geometry import Size
from vrag.grounding.conventions import Convention
from vrag.grounding.measurement import measure
from vrag.grounding.probe_pages import make_pages
from vrag.grounding.questions import SLACK, ask, ask_pages, factor_of, fitting, measured_factor
from vrag.model_profiles import PROFILES, profile_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL.Image import Image

    from vrag.agent.policy import Policy, Reply
    from vrag.factory import ModelFamily
    from vrag.grounding.measurement import Measurement
    from vrag.grounding.questions import ProbeAnswer
    from vrag.model_profiles import Profile
    from vrag.settings import Settings

__all__ = ["check_coords", "check_picture_cost", "check_pictures", "check_profile"]

SMALL, LARGE = Size(448, 448), Size(896, 448)
"""Sizes that every known family shows as they are, with 28 and with 32 pixels to a visual token."""
RED = re.compile(r"\b(red|crimson|scarlet)\b|红|紅", re.IGNORECASE)
"""How models name the color of the blank pictures."""

_DECIDED = {
    FamilySource.SETTING: "as set",
    FamilySource.CHECKPOINT: "by its checkpoint",
    FamilySource.NAME: "by the model's name",
    FamilySource.SERVER: "by what the server says",
    FamilySource.MEASUREMENT: "as measured before",
}


def _blank(size: Size) -> Image:
    from PIL import Image as Images

    return Images.new("RGB", size, (214, 28, 28))


def _replies(policy: Policy, asked: Sequence[tuple[Sequence[Size], str]]) -> list[Reply]:
    """Replies to questions about blank pictures, one after the other."""

    async def ask_all() -> list[Reply]:
        try:
            return [await ask(policy, map(_blank, sizes), text) for sizes, text in asked]
        finally:
            await policy.aclose()

    return asyncio.run(ask_all())


def check_profile(settings: Settings, family: ModelFamily, *, coords: bool = False) -> Check:
    """Which family the model is taken for, and why.

    Args:
        settings: What is set.
        family: The one in force.
        coords: Whether the convention is measured after this: then nobody is told to do that.
    """
    profile, known = family.profile, profile_of(settings.model)
    how = f"{profile.name}: boxes in {Convention(profile.boxes, profile.y_first)}"
    details = {
        "profile": profile.name,
        "factor": profile.factor,
        "known": known and known.name,
        "source": family.source.value,
    }
    if family.source is FamilySource.SETTING and known not in {None, profile}:
        unless = "the check of coordinates says" if coords else "--coords says"
        hint = f"Unless {unless} otherwise: VRAG_PROFILE={known.name}" if known else ""
        message = f"{how}, as set; the model's name says {details['known']}."
        return Check("", CheckStatus.WARNING, message, hint, details)
    if family.source is FamilySource.NOTHING:
        hint = "" if coords else "Measure it: vrag doctor --coords"
        message = f"{how}, as a fallback. {family.notice.partition('. Boxes are read')[0].rstrip('.')}."
        return Check("", CheckStatus.WARNING, message, hint, details)
    return Check("", CheckStatus.OK, f"{how}, {_DECIDED[family.source]}.", details=details)


def check_pictures(policy: Policy, count: int) -> Check:
    """Whether the model takes a picture, and as many in one prompt as a run shows.

    Raises:
        ModelError: If it takes none.
    """
    question = "Which color is this? Answer with one word."
    one = _replies(policy, [([SMALL], question)])[0]
    said = " ".join(one.text.split())[-60:] or "nothing"
    details = {"reply": one.text, "pictures": count}
    try:
        _replies(policy, [([SMALL] * count, question)])
    except ModelError as error:
        message = f"One picture is taken, {count} in one prompt are not: {error.message}"
        hint = "Let the server take more (vLLM: --limit-mm-per-prompt '{\"image\": 12}'), or set fewer steps."
        return Check("", CheckStatus.WARNING, message, hint, details | {"pictures": 1})
    message = f"Pictures are taken, {count} in one prompt too. Of a red one it says: {said}"
    if not RED.search(one.text):
        hint = "It may not see them: choose a model that sees, and a server that passes pictures on to it."
        return Check("", CheckStatus.WARNING, message, hint, details)
    return Check("", CheckStatus.OK, message, details=details)


def check_picture_cost(policy: Policy, profile: Profile, *, coords: bool = False) -> Check:
    """Whether a picture costs as many prompt tokens as the profile counts: two sizes tell.

    Args:
        policy: Whom to ask.
        profile: The one in force.
        coords: Whether the convention is measured after this: then nobody is told to do that.
    """
    question = "Which color is this? Answer with one word."
    replies = _replies(policy, [([size], question) for size in (SMALL, LARGE)])
    tokens = {size: reply.tokens.prompt for size, reply in zip((SMALL, LARGE), replies, strict=True)}
    details = {f"{size.width}x{size.height}": count for size, count in tokens.items()}
    known = {size: count for size, count in tokens.items() if count is not None}
    if len(known) < len(tokens):
        message = "The server does not say how many tokens a prompt has: what pictures cost is only supposed."
        return Check("", CheckStatus.WARNING, message, "Ask its operator to report usage.", details)
    counted = profile.visual_tokens(LARGE) - profile.visual_tokens(SMALL)
    real = known[LARGE] - known[SMALL]
    cost = (
        f"A picture of twice the size costs {real} tokens more; the profile {profile.name} counts {counted}"
    )
    if abs(real - counted) <= SLACK:
        return Check("", CheckStatus.OK, f"{cost}.", details=details | {"factor": profile.factor})
    factor = factor_of(known)
    names = [one.name for one in PROFILES.values() if one.factor == factor]
    hint = (
        f"Of that kind: {', '.join(names)}. Which one, {'the next check' if coords else '`--coords`'} tells. "
        "Then set VRAG_PROFILE."
        if names
        else "No known family counts so: the server shrinks pictures, or its model is of another kind. "
        "Budgets of visual tokens will be off."
    )
    return Check("", CheckStatus.WARNING, f"{cost}.", hint, details | {"factor": factor})


def check_coords(
    policy: Policy, profile: Profile, *, model: str = "", seconds: float = math.inf, seed: int = 0
) -> Check:
    """In which coordinate convention the model answers boxes, and which profile fits.

    Args:
        policy: Whom to ask.
        profile: The one in force: its picture sizes are used.
        model: What the server calls the model, where there is a server.
        seconds: Time limit per question.
        seed: Of the pages.

    Raises:
        ModelError: If no question was answered.
    """
    answers = asyncio.run(ask_pages(policy, make_pages(profile, seed=seed), seconds))
    failures = [answer.failure for answer in answers if answer.failure]
    if len(failures) == len(answers):
        raise ModelError(f"None of {len(answers)} questions was answered: {failures[0]}")
    found = measure([answer.sample for answer in answers])
    details = _details(found, answers)
    heard = f"{found.answered} of {found.asked} answers hold a box. {found.reason}"
    if found.convention is None:
        return Check("", CheckStatus.WARNING, f"Undecided. {heard}", _advice(found, answers), details)
    names = fitting(found.convention, profile, model=model, factor=measured_factor(answers))
    details = details | {"profiles": names}
    message = f"Boxes are answered in {found.convention}. {heard}"
    if profile.name in names:
        return Check("", CheckStatus.OK, f"{message} VRAG_PROFILE={profile.name} fits.", details=details)
    if not names:
        hint = "No profile fits: crops of this model will miss. Choose another model."
        return Check("", CheckStatus.WARNING, message, hint, details)
    others = f" (or {', '.join(names[1:])})" if names[1:] else ""
    hint = f"The profile {profile.name} reads them otherwise. Set VRAG_PROFILE={names[0]}{others}"
    return Check("", CheckStatus.WARNING, message, hint, details)


def _advice(found: Measurement, answers: Sequence[ProbeAnswer]) -> str:
    if found.scaled is not None and found.scaled.range is None:
        return "Let the server show pictures as they are sent: raise its limit of pixels per picture."
    if found.scaled is not None:
        return "No profile counts so: crops of this model will miss. Choose another model."
    if found.answered < found.asked / 2:
        boxless = (answer.text or answer.failure for answer in answers if answer.sample.numbers is None)
        said = next((words for text in boxless if (words := " ".join(text.split()))), "nothing")
        return f"See what it says in place of boxes, with --json. For example: {said[:120]}"
    return "Crops of this model may miss. Choose a model that was trained to point at things (grounding)."


def _details(found: Measurement, answers: Sequence[ProbeAnswer]) -> dict[str, object]:
    return {
        "asked": found.asked,
        "answered": found.answered,
        "chance": found.chance,
        "convention": str(found.convention) if found.convention else None,
        "scores": [
            {
                "space": score.convention.space.value,
                "y_first": score.convention.y_first,
                "median_iou": round(score.overlap, 4),
                "median_error": round(score.error, 4),
            }
            for score in found.scores
        ],
        "extents": None
        if found.scaled is None
        else {f"{size.width}x{size.height}": extent for size, extent in found.scaled.extents.items()},
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
