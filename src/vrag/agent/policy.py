"""The `Policy` protocol, which turns a history of messages into the next reply, and its messages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from vrag.agent.question import Question
from vrag.chat.messages import ChatRetry, Sampled, Tokens
from vrag.geometry import Size, View, decode_jpeg

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PLACES = 10
"""Pages that are read without a model, and places that are given where no answer is certain."""
WORDS_SOUGHT = "The words worth looking for: "
"""The beginning of the thought with which a search without a model begins, behind remarks on the question."""
WITHOUT_MODEL = "extractive"
"""Name of the policy that reads the pages without a model, and must say so."""


class Role(StrEnum):
    """The role of a message. The system message never holds text of documents."""

    SYSTEM = "system"
    """Our instruction, where a method has it apart from the question; never a word of a document."""
    USER = "user"
    """The instruction, the question and every observation."""
    ASSISTANT = "assistant"
    """The model's own replies."""


@dataclass(frozen=True, slots=True)
class Text:
    """A stretch of text in a message."""

    text: str
    item: str | None = None
    """Id of the passage that it quotes; None for prompts and the model's own words."""
    label: str = field(default="", compare=False)
    """The label that it names, in a graph: `Text 2`, or the `Picture 1` that follows; else empty."""
    node: str = field(default="", compare=False)
    """The node of what it names, where memory shows it."""
    asked: Question | None = field(default=None, compare=False, repr=False)
    """The question that this is the text of, with all that belongs to it; for policies that do not read."""


class PictureOrigin(StrEnum):
    """The source that a picture was drawn from."""

    PAGE = "page"
    """The stored picture of its item, or a frame of its clip."""
    SOURCE = "source"
    """The file of its document: a part that is shown larger than it is stored."""


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A picture in a message: a page or a crop, at the size the model sees."""

    number: int
    """Position in the order shown, from 1, crops included; 0 where a method names pictures otherwise."""
    item: str
    view: View
    """The part of the item that it shows."""
    jpeg: bytes
    """The file that the model is given: RGB, of size `view.canvas`."""
    sha256: str
    """Hash of that file."""
    crop: bool
    """True if it came from a crop rather than a search."""
    seconds: float | None = None
    """Position of the frame in its video, in seconds; None for other pictures."""
    origin: PictureOrigin = PictureOrigin.PAGE

    @property
    def canvas(self) -> Size:
        """The size of the file, in pixels."""
        return self.view.canvas

    @property
    def image(self) -> Image:
        """The picture in the file, decoded."""
        return decode_jpeg(self.jpeg)


@dataclass(frozen=True, slots=True, eq=False)
class EnclosedImage:
    """A picture that came with the question, at the size the model sees.

    It is no item and has no number: it can be neither cropped nor cited.
    """

    attached: str
    """Hash of the file that came with the question."""
    canvas: Size
    """The size of the file, in pixels."""
    jpeg: bytes
    """The file that the model is given: RGB."""
    sha256: str
    """Hash of that file."""

    @property
    def image(self) -> Image:
        """The picture in the file, decoded."""
        return decode_jpeg(self.jpeg)


Retry = ChatRetry
Shown = Text | Picture
"""The kinds of message parts that show items of a collection."""
Part = Shown | EnclosedImage


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
    """The reason for which a model stopped writing."""

    STOP = "stop"
    """It ended its turn."""
    LENGTH = "length"
    """It ran out of tokens."""
    UNSAID = "unsaid"
    """The reply came to its end, and the server did not say why."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply as it is written."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply; its text is that of the deltas since the last `Retry`, joined."""

    text: str
    finish: FinishReason = FinishReason.STOP
    tokens: Tokens = field(default_factory=Tokens)
    sampled: Sampled = field(default_factory=Sampled)


class Policy(Protocol):
    """History → assistant text.

    One policy serves many runs at once and keeps nothing of any of them.
    """

    @property
    def name(self) -> str:
        """The name in run files and on the command line."""
        ...

    @property
    def sampling(self) -> Mapping[str, float | int | str | bool]:
        """Sampling parameters (temperature, top_p, seed …), for run files; empty without sampling."""
        ...

    def reply(self, history: Sequence[Message], turn: int = 1) -> AsyncGenerator[Delta | Retry | Reply, None]:
        """Write the next reply: deltas, then the whole as the last part.

        What a model thinks apart from its reply comes first, between `<think>` and `</think>`; a native
        tool call comes as `<tool_call>` JSON `</tool_call>`.

        Args:
            history: The messages so far.
            turn: Number of this call in its run, from 1. The history does not tell: it may be rebuilt.

        Raises:
            ModelError: If no reply can be had.
        """
        ...

    async def aclose(self) -> None:
        """Give back what it holds in the running event loop; it can be used again."""
        ...
