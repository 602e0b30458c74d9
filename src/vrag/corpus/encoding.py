"""Bytes of text files → text."""

from __future__ import annotations

import codecs
import re
import unicodedata

from vrag.corpus.sniff import looks_binary
from vrag.errors import CorpusError

__all__ = ["decode"]

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order mark → encoding; the marks of UTF-32 begin with those of UTF-16, so they come first."""
SAMPLE = 65_536
DECLARED = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
UNWANTED = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u200b\u2060\ufeff\ufffe\uffff\ud800-\udfff]")


def decode(data: bytes) -> str:
    r"""The text in some bytes, line ends as `\n`, without control characters.

    In this order: a byte order mark, UTF-8, UTF-16 without a mark, what an HTML file declares, and
    what its letters look most like (gb18030, Shift-JIS, Latin-1 and others).

    Raises:
        CorpusError: If the bytes are no text.

    >>> decode("naïve\r\nÜbung".encode("utf-16"))
    'naïve\nÜbung'
    """
    text = _decode(data).replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n\n")
    return unicodedata.normalize("NFC", UNWANTED.sub("", text))


def _decode(data: bytes) -> str:
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace").removeprefix("\ufeff")
    if (encoding := _utf16_without_mark(data[:SAMPLE])) is not None:
        return data.decode(encoding, "replace")
    if looks_binary(data[:SAMPLE]):
        raise CorpusError("This is not a text file: it holds control characters as only binary files do.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start > SAMPLE or error.end == len(data):  # text for long: a damaged spot, or cut short
            return data.decode("utf-8", "replace")
        return data.decode(_guess(data), "replace")


def _utf16_without_mark(data: bytes) -> str | None:
    """Latin letters in UTF-16 have a zero in every other byte."""
    half = len(data) // 2
    if half < 4 or looks_binary(data.replace(b"\x00", b"")):
        return None
    low, high = data[0 : 2 * half : 2].count(0), data[1 : 2 * half : 2].count(0)
    if high > 0.4 * half and low < 0.05 * half:
        return "utf-16-le"
    if low > 0.4 * half and high < 0.05 * half:
        return "utf-16-be"
    return None


def _guess(data: bytes) -> str:
    import charset_normalizer

    if declared := DECLARED.search(data[:4096]):
        try:
            return codecs.lookup(declared[1].decode("ascii")).name
        except LookupError:
            pass
    best = charset_normalizer.from_bytes(data[:SAMPLE]).best()
    return best.encoding if best else "cp1252"
