"""A short measurement of a model's box coordinates at its first use, cached for later.

It is the measurement of `vrag doctor --coords` with 8 questions instead of 24, and 4 more if 8 do not decide.
Pictures cost money at some servers, so that nobody is measured unasked; a refusal is cached as well.
The result is cached in the user's cache folder with every reply, by the server's address, the name of the
model and the identity that the server reports: other weights under the same name are measured again. After
thirty days the model is measured again in any case, since services reuse names for newer models.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path
from pydantic import BaseModel, ConfigDict, ValidationError

from vrag.atomic_io import write_whole
from vrag.geometry import Space
from vrag.grounding.conventions import Convention, measure
from vrag.grounding.questions import ask_pages, make_pages, measured_factor
from vrag.model_profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.agent.policy import Policy
    from vrag.grounding.questions import ProbeAnswer
    from vrag.model_profiles import Profile

MIN_QUESTIONS, MAX_QUESTIONS = 8, 12
QUESTION_TOKENS = 500
"""Tokens of a question, about: a page of at most 512 visual tokens, and a sentence."""
TOTAL_SECONDS = 120.0
"""Time limit of a probe."""
QUESTION_SECONDS = 60.0
MAX_AGE_SECONDS = 30 * 86_400.0
"""Age after which a measurement is repeated."""
_PAGES_EACH, _RECTANGLES = 1, 3
_ROUNDS = ((0, 1), (2,))
"""Indexes of the rectangles that each round asks for, on each of the four pages."""
_GENERAL = ("qwen2.5-vl", "qwen2-vl", "qwen3-vl", "fractions", "y-first")
"""Profiles for models of no known family."""


class ProbeReply(BaseModel):
    """A reply of the model, unchanged."""

    model_config = ConfigDict(frozen=True)

    color: str
    size: tuple[int, int]
    """Width and height of the page, in pixels."""
    drawn: tuple[float, float, float, float]
    """The rectangle, in pixels of the page: left, top, right, bottom."""
    text: str
    failure: str = ""
    """The reason if there was no reply."""


class CoordinateProbe(BaseModel):
    """The result of a probe."""

    model_config = ConfigDict(frozen=True)

    space: Space | None
    """The space in which the model writes boxes; None if undecided."""
    y_first: bool = False
    factor: int | None = None
    """Pixels per visual token and side, from the prompt tokens of the questions; None if not known."""
    reason: str
    """The reason, for people."""
    replies: tuple[ProbeReply, ...] = ()

    @property
    def convention(self) -> Convention | None:
        """The convention of the model; None if undecided."""
        return None if self.space is None else Convention(self.space, self.y_first)

    @property
    def lasting(self) -> bool:
        """True if a repetition would have the same result: all questions were answered."""
        replied = bool(self.replies) and not any(reply.failure for reply in self.replies)
        return self.space is not None or replied


DECLINED = CoordinateProbe(space=None, reason="you chose not to measure it")
"""In place of a result: the user does not want the model to be measured."""


async def probe_model(policy: Policy, profile: Profile, seconds: float = TOTAL_SECONDS) -> CoordinateProbe:
    """Measure how a model writes boxes, with as few questions as possible, in limited seconds.

    Pages have sizes that the assumed profile does not resize.
    """
    pages = make_pages(profile, each=_PAGES_EACH, rectangles=_RECTANGLES)
    answers: list[ProbeAnswer] = []
    clock = asyncio.get_running_loop().time
    ends = clock() + seconds
    for numbers in _ROUNDS:
        answers += await ask_pages(policy, pages, QUESTION_SECONDS, numbers, total=ends - clock())
        found = result_of(answers)
        if found.space is not None or clock() >= ends or not any(answer.sample.numbers for answer in answers):
            return found
    return result_of(answers)


def result_of(answers: Sequence[ProbeAnswer]) -> CoordinateProbe:
    """Return the result of a measurement with these answers, also of the longer one of the doctor."""
    found = measure([answer.sample for answer in answers])
    failure = next((answer.failure for answer in answers if answer.failure), "")
    return CoordinateProbe(
        space=found.convention.space if found.convention else None,
        y_first=bool(found.convention and found.convention.y_first),
        factor=measured_factor(answers),
        reason=failure if failure and not found.answered else found.reason,
        replies=tuple(
            ProbeReply(
                color=answer.color,
                size=answer.sample.size,
                drawn=answer.sample.box.as_tuple(),
                text=answer.text,
                failure=answer.failure,
            )
            for answer in answers
        ),
    )


def measured_profile(probe: CoordinateProbe, suggested: Profile) -> Profile | None:
    """Return the profile that reads boxes as measured; None if undecided.

    The suggested one is that of the model's name or its server, and is used if it fits.
    """
    if (convention := probe.convention) is None:
        return None

    def fits(profile: Profile) -> bool:
        return Convention(profile.boxes, profile.y_first) == convention

    if fits(suggested) and probe.factor in {None, suggested.factor}:
        return suggested
    general = [PROFILES[name] for name in _GENERAL if fits(PROFILES[name])]
    for profile in general:
        if probe.factor in {None, profile.factor}:
            return profile
    base = general[0] if general else suggested
    factor = probe.factor or base.factor
    boxes, y_first = convention.space, convention.y_first
    return replace(base, name="measured", factor=factor, boxes=boxes, y_first=y_first, model_types=())


@dataclass(frozen=True, slots=True)
class ProbeCache:
    """A cache of probes, one JSON file each."""

    folder: Path

    @classmethod
    def of_user(cls) -> ProbeCache:
        """Return the cache in the user's cache folder."""
        return cls(user_cache_path("vrag", appauthor=False) / "coordinates")

    def path(self, subject: Mapping[str, object]) -> Path:
        """Return the file of a model; `subject` identifies it, as JSON."""
        text = json.dumps(subject, sort_keys=True, ensure_ascii=False)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def read(self, subject: Mapping[str, object]) -> CoordinateProbe | None:
        """Return an earlier result; None if there is none, it is too old, or the file cannot be read."""
        try:
            stored = _Stored.model_validate_json(self.path(subject).read_bytes())
        except (OSError, ValidationError):
            return None
        fresh = 0 <= time.time() - stored.made < MAX_AGE_SECONDS
        return stored.probe if fresh and stored.subject == dict(subject) else None

    def write(self, subject: Mapping[str, object], probe: CoordinateProbe) -> None:
        """Store a result. If the cache cannot be written, the model is only probed again next time."""
        stored = _Stored(made=time.time(), subject=dict(subject), probe=probe)
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self.path(subject), stored.model_dump_json(indent=1).encode())


class _Stored(BaseModel):
    made: float
    """Seconds since 1970."""
    subject: dict[str, object]
    probe: CoordinateProbe
