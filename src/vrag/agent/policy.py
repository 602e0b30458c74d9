"""What stands between a history and the next reply: the `Policy` protocol and its messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from PIL.Image import Image

    from vrag.geometry import View

__all__ = ["Delta", "FinishReason", "Message", "Part", "Picture", "Policy", "Reply", "Role", "Text", "Tokens"]


class Role(StrEnum):
    """Who speaks. Documents never speak in the system turn."""

    USER = "user"
    """The instruction, the question and every observation."""
    ASSISTANT = "assistant"
    """The model's own replies."""


@dataclass(frozen=True, slots=True)
class Text:
    """A stretch of text in a message."""

    text: str
    item: str | None = None
    """Id of the passage that it quotes; None for our own words and the model's."""


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A picture in a message: a page or a crop, at the size the model sees."""

    number: int
    """In the order shown, from 1, crops included."""
    item: str
    view: View
    """Which part of the item it is."""
    image: Image
    """RGB, of size `view.shown`."""
    png: bytes
    """The same picture as a PNG file."""
    sha256: str
    """Hash of that file."""
    crop: bool
    """Whether it came from a crop rather than a search."""


Part = Text | Picture


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One turn of the conversation."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All its text, without pictures."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


class FinishReason(StrEnum):
    """Why a model stopped writing."""

    STOP = "stop"
    """It ended its turn."""
    LENGTH = "length"
    """It ran out of tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What a reply cost; None where the policy cannot tell."""

    prompt: int | None = None
    completion: int | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply as it is written."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply; its text is that of the deltas before it, joined."""

    text: str
    finish: FinishReason = FinishReason.STOP
    tokens: Tokens = Tokens()


class Policy(Protocol):
    """History → assistant text.

    One policy serves many runs at once and keeps nothing of any of them.
    """

    @property
    def name(self) -> str:
        """How it is called in run files and on the command line."""
        ...

    def reply(self, history: Sequence[Message]) -> AsyncGenerator[Delta | Reply, None]:
        """Writes the next reply: deltas, then the whole as the last part.

        The first message ends with the question as a `Text` of its own.

        Raises:
            ModelError: If no reply can be had.
        """
        ...
