"""A reply as it comes in, piece by piece."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

from vrag.agent.policy import Reply
from vrag.errors import ModelError

_OPENING = re.compile(r"\s*<think>", re.IGNORECASE)
_CLOSING = re.compile(r"</think\b[^<>]*>", re.IGNORECASE)
_OPEN, _CLOSE = "<think>", "</think"


@dataclass(slots=True)
class Thinking:
    """An incremental reader of the think block with which a reply begins.

    Letters that may be the beginning of the closing tag are held back: what was given out stays true.

    >>> thinking = Thinking()
    >>> [thinking.add(piece) for piece in ("<think>two", " pages</thi", "nk><search>ferry")]
    ['two', ' pages', '']
    """

    open: bool = False
    over: bool = False
    tail: str = ""
    """Text that may be the beginning of a tag."""

    def add(self, piece: str) -> str:
        """Add a piece, and return what it adds to the thought."""
        if self.over:
            return ""
        self.tail += piece
        if not self.open and not self._opened():
            return ""
        closing = _CLOSING.search(self.tail)
        if closing is not None:
            self.over = True
            return self.tail[: closing.start()]
        at = self._held()
        new, self.tail = self.tail[:at], self.tail[at:]
        return new

    def _opened(self) -> bool:
        opening = _OPENING.match(self.tail)
        if opening is not None:
            self.open, self.tail = True, self.tail[opening.end() :]
            return True
        self.over = not _OPEN.startswith(self.tail.lstrip().lower())
        return False

    def _held(self) -> int:
        """Return the position of what may be the beginning of the closing tag."""
        at = self.tail.rfind("<")
        end = self.tail[at:].lower()
        may = at >= 0 and ">" not in end and (_CLOSE.startswith(end) or end.startswith(_CLOSE))
        return at if may else len(self.tail)


@dataclass(slots=True)
class ReplyStream:
    """One call of a policy: its pieces, and the whole at the end."""

    began: float = field(default_factory=time.perf_counter)
    chunks: list[str] = field(default_factory=list[str])
    thinking: Thinking = field(default_factory=Thinking)
    reply: Reply | None = None

    def add(self, text: str) -> str:
        """Add a piece; what it adds to the thought."""
        self.chunks.append(text)
        return self.thinking.add(text)

    def restart(self) -> None:
        """Forget what came: the call is made again."""
        self.chunks, self.thinking = [], Thinking()

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of the pieces, in characters."""
        return tuple(map(len, self.chunks))

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self.began

    def done(self, policy: str) -> Reply:
        """Return the whole reply.

        Raises:
            ModelError: If it never came.
        """
        if self.reply is None:
            raise ModelError(f"The policy {policy} ended without a reply.")
        return self.reply
