"""The text of a reply while its tokens come."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class TextDecoder:
    """A decoder that gives the text of tokens piece by piece.

    Tokens are bytes: what is not yet a whole character is held back, and so is what may be the beginning
    of a stop string. All pieces together are the text of all tokens up to the first stop string.

    Args:
        decode: The text of some tokens, U+FFFD for bytes that are no character.
        stop: Strings at which the reply ends.
        say: Takes each piece.
    """

    def __init__(
        self, decode: Callable[[Sequence[int]], str], stop: Sequence[str], say: Callable[[str], None]
    ) -> None:
        self.stopped = False
        self._decode, self._stop, self._say = decode, stop, say
        self._said: list[str] = []
        self._held = ""
        self._pending: list[int] = []

    def begin(self, text: str) -> None:
        """Begin with text that the prompt had begun."""
        self._give(text)

    def add(self, token: int) -> None:
        """One token more."""
        self._pending.append(token)
        text = self._decode(self._pending)
        if not text.endswith("�"):  # ends with a whole character
            self._pending.clear()
            self._take(text)

    def end(self) -> str:
        """No token follows. Returns the whole text."""
        if not self.stopped:
            self._take(self._decode(self._pending))
        if not self.stopped:
            self._give(self._held)
        return "".join(self._said)

    def _take(self, text: str) -> None:
        self._held += text
        if ends := [at for stop in self._stop if (at := self._held.find(stop)) >= 0]:
            self.stopped = True
            self._give(self._held[: min(ends)])
            return
        sure = len(self._held) - max((_overlap(self._held, stop) for stop in self._stop), default=0)
        self._give(self._held[:sure])
        self._held = self._held[sure:]

    def _give(self, text: str) -> None:
        if text:
            self._said.append(text)
            self._say(text)


def _overlap(text: str, stop: str) -> int:
    """Return the number of characters at the end of `text` that may begin `stop`."""
    lengths = range(min(len(text), len(stop) - 1), 0, -1)
    return next((length for length in lengths if text.endswith(stop[:length])), 0)
