"""Files sent whole or in part: HTTP range requests (RFC 9110, section 14), one range at a time."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, BinaryIO

from starlette.responses import StreamingResponse

from vrag.server.http.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

__all__ = ["send_file", "wanted_range"]

_CHUNK = 256 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def wanted_range(header: str | None, length: int) -> tuple[int, int] | None:
    """The part of a file that is asked for, as start and end.

    Args:
        header: The Range header. One that is malformed, or of several ranges, asks for the whole: a
            server may ignore it.
        length: Of the file.

    Returns:
        None for the whole.

    Raises:
        Refusal: If no byte of the file is in the range (416).

    >>> wanted_range("bytes=2-3", 10), wanted_range("bytes=7-", 10), wanted_range("bytes=-4", 10)
    ((2, 4), (7, 10), (6, 10))
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if first:
        start, end = int(first), min(int(last) + 1 if last else length, length)
        if last and int(last) < int(first):
            return None
    else:
        start, end = max(0, length - int(last)), length
    if start >= end:
        raise Refusal(416, f"The file has {length} bytes.", "Leave out the header Range.")
    return start, end


def send_file(
    file: BinaryIO, media_type: str, headers: Mapping[str, str], range_: str | None
) -> StreamingResponse:
    """A response with a file or a part of it. Closes the file.

    Args:
        file: Open to read and to seek in.
        media_type: Of its content.
        headers: To send beside those of ranges.
        range_: The request's Range header.

    Raises:
        Refusal: If no byte of the file is in the range (416).
    """
    length = file.seek(0, os.SEEK_END)
    try:
        part = wanted_range(range_, length)
    except Refusal:
        file.close()
        raise
    start, end = part or (0, length)
    extra = {**headers, "Accept-Ranges": "bytes", "Content-Length": str(end - start)}
    if part:
        extra["Content-Range"] = f"bytes {start}-{end - 1}/{length}"
    file.seek(start)
    return StreamingResponse(_chunks(file, end - start), 206 if part else 200, extra, media_type)


def _chunks(file: BinaryIO, left: int) -> Generator[bytes]:
    with file:
        while left > 0 and (chunk := file.read(min(_CHUNK, left))):
            left -= len(chunk)
            yield chunk
