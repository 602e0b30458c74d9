"""A question with its conversation and the pictures that came with it."""

from __future__ import annotations

import hashlib
import math
import struct
import warnings
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import TYPE_CHECKING

from vrag.agent.prompts import encodable
from vrag.errors import CorpusError, UnsupportedFormatError
from vrag.geometry import Size, View, draw_view, encode_jpeg

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_EXCHANGES = 10
"""Earlier questions that a model is given, the newest."""
MAX_CHARACTERS = 1_000
"""Length of an earlier question, and of an earlier answer; the rest is cut off."""
MAX_HISTORY = 8_000
"""Characters of all earlier questions and answers together: some two thousand tokens in every call."""
MAX_OPENED = 50_000_000
"""Pixels of a picture that is opened, as of the pictures of a collection."""
MAX_PIXELS = 4_194_304
"""Pixels of a picture that is kept: several times what any model is shown of it."""
_FORMATS = frozenset({"JPEG", "MPO", "PNG", "WEBP"})
"""Pillow's names; MPO is the JPEG of a camera that keeps a second picture in its file."""

_DAMAGED = (OSError, SyntaxError, ValueError, LookupError, TypeError, ArithmeticError, struct.error)
"""The errors that Pillow raises for damaged files."""


@dataclass(frozen=True, slots=True)
class PreviousTurn:
    """An earlier question of the same conversation, and what was answered."""

    question: str
    answer: str | None
    """The answer; None when there was none."""
    documents: tuple[str, ...] = field(default=(), compare=False)
    """Ids of the documents that it rests on, where they are known."""


@dataclass(frozen=True, slots=True)
class QuestionImage:
    """A picture that came with a question.

    It belongs to the question: it is no item, so that it can be neither cropped nor cited.
    """

    jpeg: bytes
    """The file that is kept with the run: RGB. A model is given a copy at the size of its family."""
    sha256: str
    """Hash of that file."""
    width: int
    """The size in pixels."""
    height: int

    @classmethod
    def of(cls, data: bytes) -> QuestionImage:
        """Return a picture from a file.

        It is turned upright, what is transparent in it becomes white, and it is made smaller where it has
        more than `MAX_PIXELS`. Of a moving picture it is the first frame. The same file gives the same
        picture.

        Args:
            data: A JPEG, PNG or WebP file, recognised by its content.

        Raises:
            CorpusError: If it is damaged, or of a shape that no model accepts.
            FileTooLargeError: If it has more than `MAX_OPENED` pixels; nothing is decoded to tell.
            UnsupportedFormatError: If it is of another format.
        """
        try:
            with warnings.catch_warnings(action="ignore"):
                image = _open_image(data)
        except _DAMAGED as error:
            raise CorpusError("The picture is damaged.", "Send another copy of it.") from error
        jpeg = encode_jpeg(image)
        return cls(jpeg, hashlib.sha256(jpeg).hexdigest(), *image.size)

    @property
    def size(self) -> Size:
        """The size in pixels."""
        return Size(self.width, self.height)


@dataclass(frozen=True, slots=True)
class Question:
    """A question with what belongs to it."""

    text: str
    history: tuple[PreviousTurn, ...] = ()
    """The conversation so far, the oldest first."""
    images: tuple[QuestionImage, ...] = ()
    session: str = ""
    """Id of the run that began the conversation; empty for the first."""

    @classmethod
    def of(cls, question: str | Question) -> Question:
        """Return the question without blanks around it and with a history of limited length.

        Raises `ValueError` if it is empty.
        """
        asked = cls(question) if isinstance(question, str) else question
        text = encodable(asked.text.strip())
        if not text:
            raise ValueError("the question is empty")
        return replace(asked, text=text, history=bounded(asked.history))


def bounded(history: tuple[PreviousTurn, ...]) -> tuple[PreviousTurn, ...]:
    """Return the end of a history: the part that a model is given.

    The newest exchanges are kept, `MAX_EXCHANGES` at most, as long as they have `MAX_HISTORY` characters
    together. Questions and answers of more than `MAX_CHARACTERS` are cut. What was bounded stays the same.

    >>> history = bounded((PreviousTurn("Who?", "x" * 5000), PreviousTurn("When?", " ")))
    >>> [len(exchange.answer or "") for exchange in history]
    [1000, 0]
    """
    kept: list[PreviousTurn] = []
    room = MAX_HISTORY
    for previous_turn in reversed(history):
        answer = _cut(previous_turn.answer or "") or None
        turn = PreviousTurn(_cut(previous_turn.question), answer, previous_turn.documents)
        room -= len(turn.question) + len(turn.answer or "")
        if room < 0 or len(kept) == MAX_EXCHANGES:
            break
        if turn.question or turn.answer:
            kept.append(turn)
    return tuple(reversed(kept))


def _cut(text: str) -> str:
    start = encodable(text.strip()[: MAX_CHARACTERS + 1])
    return start if len(start) <= MAX_CHARACTERS else start[: MAX_CHARACTERS - 1].rstrip() + "…"


def _open_image(data: bytes) -> Image:
    """Open the picture in a file: upright, RGB, on white, and with at most `MAX_PIXELS`.

    Its proportions become no more extreme by rounding.
    """
    from vrag.corpus.formats.image import flatten, open_picture

    with open_picture(BytesIO(data), MAX_OPENED) as opened:
        if opened.format not in _FORMATS:
            raise UnsupportedFormatError(
                f"A picture in the format {opened.format} cannot come with a question.",
                "Send it as JPEG, PNG or WebP.",
            )
        image = flatten(opened).convert("RGB")
    size = Size(*image.size)
    if size.area <= MAX_PIXELS:
        return image
    by = math.sqrt(MAX_PIXELS / size.area)
    short = math.ceil(min(size) * by)
    long = min(math.floor(max(size) * by), MAX_PIXELS // short)
    shown = Size(long, short) if size.width > size.height else Size(short, long)
    return draw_view(image, View.whole(size, shown))
