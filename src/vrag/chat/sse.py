"""Server-sent events, read from bytes as they come, no longer than allowed."""

from __future__ import annotations

__all__ = ["EventReader", "LineTooLong"]


class LineTooLong(Exception):
    """A line of the stream is longer than allowed."""


class EventReader:
    """Cuts a stream into the data of its events.

    Lines end with LF or CRLF. Comments and fields other than `data` are left out: this protocol
    has no use for them. Every line of data counts as an event of its own, as JSON on one line is
    all that a chat server sends; servers are known to leave out the empty line between events.

    Args:
        limit: Bytes that a line may have.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begun = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The data of the events that these bytes complete.

        Raises:
            LineTooLong: If a line is.
        """
        *complete, rest = data.split(b"\n")
        found: list[bytes] = []
        for piece in complete:
            self._extend(piece)
            found += _data(bytes(self._begun))
            self._begun.clear()
        self._extend(rest)
        return found

    def finish(self) -> list[bytes]:
        """The data of an event that the stream ends in without a line end."""
        line = bytes(self._begun)
        self._begun.clear()
        return _data(line)

    def _extend(self, piece: bytes) -> None:
        if len(self._begun) + len(piece) > self._limit:
            raise LineTooLong
        self._begun += piece


def _data(line: bytes) -> list[bytes]:
    field, colon, value = line.rstrip(b"\r").partition(b":")
    return [value.removeprefix(b" ")] if colon and field == b"data" and value.strip() else []
