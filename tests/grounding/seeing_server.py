"""A scripted model that really looks: it finds the rectangle in the picture that it is sent over HTTP.

So a test of the measurement covers all of it: what is drawn, encoded, sent, asked, answered and read.
"""

from __future__ import annotations

import base64
import io
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from chat_server import Asked, Reply, Say
from PIL import Image

from vrag.geometry import Box, Size
from vrag.grounding.questions import COLORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from vrag.grounding.conventions import Convention

NEAR = 60
"""Difference of a channel up to which a pixel has a color; JPEG moves them."""
WORDS = 20
"""Tokens of a prompt beside its pictures."""


@dataclass
class Seeing:
    """What the server answers. Each test changes one thing."""

    convention: Convention | None = None
    """In which it writes boxes; None for boxes at random."""
    noise: float = 0.0
    missing: float = 0.0
    form: str = "[{}, {}, {}, {}]"
    factor: int = 28
    resized: float = 1.0
    """How much larger the picture is that the model sees than the one that was sent."""
    seed: int = 0
    spoil: Callable[[Asked], Reply | None] = lambda _: None
    """Answers in its place where it gives a reply."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.chance = np.random.default_rng(self.seed)

    def __call__(self, asked: Asked) -> Reply:
        spoilt = self.spoil(asked)
        if spoilt is not None:
            return spoilt
        pictures = [picture_in(url) for url in asked.images]
        tokens = WORDS + sum(
            (picture.width // self.factor) * (picture.height // self.factor) for picture in pictures
        )
        if asked.body.get("tools"):
            return Say("", calls=(("weather", '{"city": "Paris"}'),), finish="tool_calls", usage=(tokens, 9))
        wanted = re.search(r"box of the (\w+) rectangle", asked.question)
        if wanted and pictures:
            with self._lock:
                return Say(self.box(pictures[0], wanted[1]), usage=(tokens, 12))
        text = "red" if pictures else "1, 2, 3, 4, 5, 6, 7, 8, 9, 10"
        return Say(text, usage=(tokens, 20), pause=0.001)

    def box(self, picture: Image.Image, color: str) -> str:
        if self.chance.random() < self.missing:
            return f"I see no {color} rectangle."
        if self.convention is None:
            (x1, x2), (y1, y2) = np.sort(self.chance.random((2, 2)) * 1000).round()
            return f"[{x1}, {y1}, {x2}, {y2}]"
        sides = np.array(look(picture, color)) + self.chance.normal(0, self.noise, 4)
        seen = Size(round(picture.width * self.resized), round(picture.height * self.resized))
        numbers = self.convention.write(Box.unit(*sides.tolist()), seen)
        return self.form.format(*(round(number, 3) for number in numbers))


def picture_in(url: str) -> Image.Image:
    head, _, data = url.partition(",")
    assert head == "data:image/jpeg;base64"
    picture = Image.open(io.BytesIO(base64.b64decode(data)))
    picture.load()
    return picture


def look(picture: Image.Image, color: str) -> tuple[float, float, float, float]:
    """Where the pixels of a color are, in fractions of the picture."""
    pixels = np.asarray(picture).astype(int)
    like = (abs(pixels - COLORS[color]) < NEAR).all(axis=2)
    rows, columns = np.nonzero(like.sum(axis=1) > 8)[0], np.nonzero(like.sum(axis=0) > 8)[0]
    return (
        columns[0] / picture.width,
        rows[0] / picture.height,
        (columns[-1] + 1) / picture.width,
        (rows[-1] + 1) / picture.height,
    )
