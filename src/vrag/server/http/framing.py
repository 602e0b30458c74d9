"""Checks of a request's framing: where it ends, and which server and path it names.

h11 parses requests, and accepts some that other parsers read differently: lines that end with LF alone,
values that continue on the next line, several lengths that agree, a length next to `Transfer-Encoding`. A
proxy in front that reads such a request differently would take a part of it for the next request of another
client (request smuggling). So what RFC 9112 lets a server refuse, and what nginx refuses, is refused here.
"""

from __future__ import annotations

import re
from typing import TypeAlias
from urllib.parse import unquote_to_bytes

import h11
from h11 import NEED_DATA, PAUSED
from h11._receivebuffer import ReceiveBuffer

H11Event: TypeAlias = "h11.Event | type[NEED_DATA | PAUSED]"

_HEAD_END = re.compile(rb"\n\r?\n")
"""The end of a head as h11 finds it."""
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_METHOD = re.compile(rb"[A-Z][A-Z_-]{0,31}")
_VERSION = re.compile(rb"HTTP/[0-9]\.[0-9]")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_HOST = re.compile(rb"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?)(:[0-9]{0,5})?")
_WRONG_CODE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_CHUNK_SIZE = re.compile(rb"0*([0-9a-fA-F]+)")
_MAX_FIELDS = 256
"""Fields of a head: a request with tens of thousands takes a tenth of a second, with or without a token."""
_MAX_EXTRA_BYTES = 16 * 1024
"""Bytes of extensions and trailers of a chunked body. They count against no limit of bodies."""
_FREE_CHUNKS = 8192
_MIN_CHUNK_BYTES = 64
"""Chunks that a body may have whatever their size, and bytes that all have on average where there are more: a
chunk takes 12 µs, so that one read of the socket with 40,000 of one byte holds up all other requests."""


class FramingError(Exception):
    """A request that is refused with a status, a sentence and a hint."""

    def __init__(self, status: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.hint = hint


class _LineBuffer(ReceiveBuffer):
    """h11's buffer. h11 lets the lines of chunks have bare CR, and those of trailers bare LF."""

    def __init__(self) -> None:
        super().__init__()
        self.extra_bytes = 0
        """Bytes of a body in extensions of chunks, in zeros before their sizes, and in trailers."""

    def maybe_extract_next_line(self) -> bytearray | None:
        """Return the line of a chunk, if it is there. Raises `FramingError`."""
        line = super().maybe_extract_next_line()
        if line is None:
            if b"\n" in self._data:
                raise FramingError(400, "The line of a chunk ends with a bare LF.", "End it with CR LF.")
            return None
        if b"\r" in line[:-2] or b"\n" in line[:-2]:
            raise FramingError(400, "The line of a chunk has a bare CR or LF.", "End it with CR LF.")
        size = _CHUNK_SIZE.match(line)
        self.extra_bytes += len(line) - 2 - (len(size[1]) if size else 0)
        return line

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Return the lines of a head or of trailers, if all are there. Raises `FramingError`."""
        before = len(self)
        lines = super().maybe_extract_lines()
        if lines is not None:
            extracted = before - len(self)
            self.extra_bytes += extracted
            if extracted != sum(len(line) + 2 for line in lines) + 2:
                raise FramingError(400, "A line of the trailers ends with a bare LF.", "End it with CR LF.")
        return lines


class StrictConnection(h11.Connection):
    """h11's side of a server that checks each head, and limits its bytes and those around chunks.

    `next_event` raises `FramingError` for a refused request; the connection is of no use afterwards.
    """

    def __init__(self, *, head_bytes: int, field_bytes: int) -> None:
        super().__init__(h11.SERVER, head_bytes)
        self._receive_buffer = self._lines = _LineBuffer()
        self._head_bytes = head_bytes
        self._field_bytes = field_bytes
        self._chunks = self._content_bytes = 0
        """Chunks of the body that have begun, and bytes of content."""
        self._head = bytearray()
        """A copy of what h11 has received of the next head and behind it."""
        self._searched = 0
        """Bytes of it without the end of the head."""
        self._skipped = False
        """True if an empty line before the head was dropped."""

    def receive_data(self, data: bytes) -> None:
        """Take what arrived."""
        if self.their_state is h11.IDLE:
            self._head += data
        super().receive_data(data)

    def start_next_cycle(self) -> None:
        """Prepare for the next request, part of which may have arrived."""
        super().start_next_cycle()
        self._head = bytearray(self.trailing_data[0])
        self._searched = 0
        self._skipped = False

    def next_event(self) -> H11Event:
        """Return the next event. Raises `FramingError`."""
        if self.their_state is h11.IDLE:
            self._skip_empty_line()
            if bytes(self._head[:2]) == b"\r":  # h11 would refuse the beginning of a line end
                return NEED_DATA
            self._check_head()
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint
            raise FramingError(
                status, "The request is not valid HTTP/1.1.", "Use an HTTP library to send it."
            ) from None
        if isinstance(event, h11.Request):
            self._head = bytearray()
            self._lines.extra_bytes = self._chunks = self._content_bytes = 0
        elif isinstance(event, h11.Data):
            self._check_chunks(event)
        self._check_extra(event)
        return event

    def _skip_empty_line(self) -> None:
        """Drop one empty line before a head: old clients send one after a body (RFC 9112, 2.2)."""
        if not self._skipped and self._head.startswith(b"\r\n"):
            self._skipped = True
            self._lines.maybe_extract_at_most(2)
            del self._head[:2]
            self._searched = 0

    def _check_chunks(self, data: h11.Data) -> None:
        self._chunks += data.chunk_start
        self._content_bytes += len(data.data)
        if self._chunks > _FREE_CHUNKS + self._content_bytes // _MIN_CHUNK_BYTES:
            hint = f"Send chunks of at least {_MIN_CHUNK_BYTES} bytes, or Content-Length."
            raise FramingError(400, "The body has too many small chunks.", hint)

    def _check_extra(self, event: H11Event) -> None:
        """Check the bytes of a body that are not content, with a line that has not arrived in full."""
        extra = self._lines.extra_bytes
        if event is NEED_DATA and self.their_state is h11.SEND_BODY:
            extra += len(self._lines)
        if extra > _MAX_EXTRA_BYTES:
            message = "The chunks of the body have long extensions or trailers."
            raise FramingError(400, message, "Send them without.")

    def _check_head(self) -> None:
        end = _HEAD_END.search(self._head, self._searched)
        head = self._head[: end.end()] if end else self._head
        self._searched = max(0, len(self._head) - 2)
        if len(head) > self._head_bytes:
            line = head.partition(b"\n")[0]
            raise _too_long(414 if len(line) >= self._head_bytes else 431, self._head_bytes)
        if end:
            check_head(bytes(head), self._field_bytes)


def check_head(head: bytes, field_bytes: int) -> None:
    """Check a head, from its request line to its empty line. Raises `FramingError`.

    What h11 refuses anyway is not checked: other characters in names and targets, a space before a colon, a
    missing or second `Host`, a second `Transfer-Encoding` or another one than `chunked`.
    """
    if not head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r"):
        raise FramingError(400, "A line of the head does not end with CR LF.", "End each line with CR LF.")
    if _CONTROL.search(head):
        raise FramingError(400, "The head has control characters.", "Send text without them.")
    line, *fields = head[:-4].split(b"\r\n")
    if len(fields) > _MAX_FIELDS:
        raise FramingError(431, f"The head has more than {_MAX_FIELDS} fields.", "Send fewer headers.")
    if len(line.partition(b"?")[0]) > field_bytes:
        raise FramingError(414, f"The path is longer than {field_bytes:,} bytes.", "Send a shorter path.")
    version = _check_request_line(line)
    values: dict[bytes, list[bytes]] = {}
    for field in fields:
        if len(field) > field_bytes:
            raise _too_long(431, field_bytes, "A field of the head")
        if field[:1] in {b" ", b"\t"}:
            raise FramingError(400, "A field of the head continues on the next line.", "Send it on one line.")
        name, _, value = field.partition(b":")
        values.setdefault(name.lower(), []).append(value.strip(b" "))
    _check_length(values, version)
    if len(values.get(b"authorization", ())) > 1:
        raise FramingError(400, "The header Authorization was sent twice.", "Send it once.")
    if any(not _HOST.fullmatch(host) for host in values.get(b"host", ())):
        raise FramingError(400, "The header Host is not a name or address.", "Send Host: NAME or NAME:PORT.")


def _check_request_line(line: bytes) -> bytes:
    """Return the version of a request line that has three parts; h11 refuses others."""
    match line.split(b" "):
        case [method, target, version]:
            pass
        case _:
            return b""
    if not _METHOD.fullmatch(method):
        raise FramingError(400, "The method is not one of capital letters.", "Send GET or POST, for example.")
    if method in {b"CONNECT", b"TRACE"}:
        raise FramingError(405, "CONNECT and TRACE are not supported.", "Send GET or POST, for example.")
    if _VERSION.fullmatch(version) and version not in {b"HTTP/1.0", b"HTTP/1.1"}:
        raise FramingError(505, "The server speaks HTTP/1.1.", "Send the request in this version.")
    path = target.partition(b"?")[0]
    if path[:1] != b"/" or b"#" in target:
        raise FramingError(400, "The target of the request is not a path.", "Begin it with a slash.")
    if b"\0" in unquote_to_bytes(path) or _WRONG_CODE.search(path):
        raise FramingError(400, "The path has an invalid percent encoding.", "Write a percent sign as %25.")
    depth = 0
    for segment in unquote_to_bytes(path).split(b"/"):
        depth += {b"..": -1, b".": 0, b"": 0}.get(segment, 1)
        if depth < 0:
            raise FramingError(400, "The path leads out of the server.", "Send it without '..'.")
    return version


def _check_length(values: dict[bytes, list[bytes]], version: bytes) -> None:
    lengths, encodings = values.get(b"content-length", []), values.get(b"transfer-encoding", [])
    if lengths and encodings:
        message = "The request has both Content-Length and Transfer-Encoding."
        raise FramingError(400, message, "Send one of them.")
    if any(b"\t" in encoding for encoding in encodings):
        raise FramingError(400, "Transfer-Encoding has a tab.", "Send Transfer-Encoding: chunked.")
    if encodings and version == b"HTTP/1.0":
        raise FramingError(400, "HTTP/1.0 has no Transfer-Encoding.", "Send Content-Length, or HTTP/1.1.")
    if len(lengths) > 1 or any(not _LENGTH.fullmatch(length) for length in lengths):
        raise FramingError(400, "Content-Length is not one number.", "Send the number of bytes of the body.")


def _too_long(status: int, max_bytes: int, what: str = "The head of the request") -> FramingError:
    hint = "Send fewer or shorter headers."
    if status == 414:
        hint = "Send queries in the body of POST /search."
    return FramingError(status, f"{what} is longer than {max_bytes:,} bytes.", hint)
