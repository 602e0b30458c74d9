"""The type of a file by its first bytes, for error messages, and the encoding of its text."""

from __future__ import annotations

import codecs
import re
import unicodedata
import zipfile
import zlib
from typing import TYPE_CHECKING, Literal, Protocol

from vrag.corpus.terminal_text import drop_terminal_codes
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from typing import BinaryIO

SIGNATURES = (
    (b"%PDF-", "a PDF file"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"II*\x00", "a TIFF picture"),
    (b"MM\x00*", "a TIFF picture"),
    (b"BM", "a BMP picture"),
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"{\\rtf", "a Rich Text document"),
    (b"%!PS", "a PostScript file"),
)
"""First bytes → type of file."""
PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*", b"BM")
"""First bytes of the pictures that are read, but for WebP and HEIF."""
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Mark → encoding; the marks of UTF-32 begin with those of UTF-16, so they come first."""
ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    RuntimeError,
    ValueError,
    EOFError,
    NotImplementedError,
    OSError,
)
"""Errors of `zipfile` on an archive that is damaged, encrypted, or packed in a way that it does not know."""
HEIF_BRANDS = frozenset(
    {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"}
)
"""Major brands of HEIF files (ISO/IEC 23008-12, annex B and clause 10)."""
WINDOWS = {"1": "cp1252", "2": "cp1250", "7": "cp1253", "8": "cp1255", "9": "cp1254", "13": "cp1257"}
"""Part of ISO 8859 → the encoding of Windows with signs, such as quotation marks, where it has none."""
_NO_ISO_8859 = re.compile(rb"[\x80-\x9f]")
_LATIN_MAC_OR_DOS = frozenset(
    {"mac-roman", "mac-latin2", "mac-turkish", "mac-iceland", "cp437", "cp850", "cp852", "cp858"}
)
_MAC_OR_DOS = re.compile(rb"[\x80-\xa8\xe1]")
"""Accented small letters of Mac and DOS, and ß; Windows has signs or á there."""
_OTHER_SCRIPT = "\u0370-\u06ff\ufb00-\ufeff"
_IMPROBABLE = re.compile(
    rf"""[A-Za-z][{_OTHER_SCRIPT}] | [{_OTHER_SCRIPT}][A-Za-z] | (?<!\S)[÷¸][^\W\d_]
    | [^\W\d_][¨¯´¸ˆˇ˘-˝÷¬][^\W\d_]""",
    re.VERBOSE,
)
"""Latin letters beside those of another script, or signs within a word: the wrong encoding."""
MAX_WESTERN = 0.25
"""Share of bytes beyond ASCII in a text of a western language."""
SAMPLE_BYTES = 65_536
HTML_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
UNWANTED = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")
INVISIBLE = re.compile("[\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
"""Characters that are not seen: soft hyphens, places for a line break, marks of the direction of writing."""


class Openable(Protocol):
    """A file that may be opened for reading, several times at once: a path, a source."""

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Open it at its start. Raises `OSError` if it cannot be read."""
        ...


def describe(source: Openable) -> str:
    """Return the type of a file as the end of a sentence: "it seems to be a PDF file".

    Raises `OSError` if it cannot be read.
    """
    with source.open("rb") as file:
        return describe_head(file.read(1024))


def is_picture(head: bytes) -> bool:
    """Return whether a file that begins with `head` may be a picture of a format that is read.

    >>> is_picture(b"GIF89a"), is_picture(b"%PDF-1.7")
    (True, False)
    """
    return head.startswith(PICTURES) or (head[:4], head[8:12]) == (b"RIFF", b"WEBP") or is_heif(head)


def is_heif(head: bytes) -> bool:
    r"""Return whether a file begins as a HEIF picture does, such as those of phones.

    >>> is_heif(b"\x00\x00\x00\x18ftypheic"), is_heif(b"\x00\x00\x00\x18ftypisom")
    (True, False)
    """
    return head[4:8] == b"ftyp" and head[8:12] in HEIF_BRANDS


def describe_head(head: bytes) -> str:
    """Return the type of a file that begins with `head`; see `describe`.

    >>> describe_head(b"%PDF-1.7")
    'it seems to be a PDF file, or a damaged one'
    """
    for signature, kind in SIGNATURES:
        if head.startswith(signature):
            return f"it seems to be {kind}, or a damaged one"
    if head[:4] == b"RIFF":
        return f"it seems to be {'a WebP picture' if head[8:12] == b'WEBP' else 'sound or video'}, or damaged"
    if head[:4] == b"\x1aE\xdf\xa3":
        return "it seems to be a Matroska or WebM video, or a damaged one"
    if head[4:8] == b"ftyp":
        return f"it seems to be {'a HEIF picture' if is_heif(head) else 'a video'}, or a damaged one"
    if not head.strip(b"\x00"):
        return "it holds nothing but zeros"
    return "its content is of an unknown kind" if looks_binary(head) else "it seems to be text"


def looks_binary(data: bytes) -> bool:
    """Return whether bytes are not text in any encoding that extends ASCII.

    >>> looks_binary(b"plain"), looks_binary(bytes(range(32)))
    (False, True)
    """
    control = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in data)
    return control > len(data) // 50


def decode(data: bytes) -> str:
    r"""Decode a text file; line ends become `\n`, control characters go.

    Escape codes of terminals and letters that are struck over others go too.
    In this order: a byte order mark, UTF-8, UTF-16 without a mark, what an HTML file declares, and
    what its letters look most like (gb18030, Shift-JIS, Latin-1 and others). Raises `CorpusError` if the
    bytes are not text.

    >>> decode("naïve\r\nÜbung".encode("utf-16"))
    'naïve\nÜbung'
    """
    text = _decode(data).replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n\n")
    return unicodedata.normalize("NFC", drop_invisible(UNWANTED.sub("", text)))


def drop_invisible(text: str) -> str:
    r"""Return a text without soft hyphens and other characters that nobody sees.

    >>> drop_invisible("elec\u00adtri\u200bcity")
    'electricity'
    """
    return text if text.isascii() else INVISIBLE.sub("", text)


def _decode(data: bytes) -> str:
    for mark, encoding in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace").removeprefix("\ufeff")
    if (encoding := _utf16_without_mark(data[:SAMPLE_BYTES])) is not None:
        return data.decode(encoding, "replace")
    data = drop_terminal_codes(data)
    if looks_binary(data[:SAMPLE_BYTES]):
        raise CorpusError("This is not a text file: it holds control characters as only binary files do.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start > SAMPLE_BYTES or error.end == len(data):  # text: a damaged spot, or cut short
            return data.decode("utf-8", "replace")
        return data.decode(_guess_encoding(data), "replace")


def _utf16_without_mark(data: bytes) -> str | None:
    """Recognise UTF-16 by the zero in every other byte of Latin letters."""
    half = len(data) // 2
    if half < 4 or looks_binary(data.replace(b"\x00", b"")):
        return None
    low, high = data[0 : 2 * half : 2].count(0), data[1 : 2 * half : 2].count(0)
    if high > 0.4 * half and low < 0.05 * half:
        return "utf-16-le"
    if low > 0.4 * half and high < 0.05 * half:
        return "utf-16-be"
    return None


def _guess_encoding(data: bytes) -> str:
    import chardet

    if declared := HTML_CHARSET.search(data[:4096]):
        try:
            return codecs.lookup(declared[1].decode("ascii")).name
        except LookupError:
            pass
    sample = data[:SAMPLE_BYTES]
    # Not `prefer_superset`: it takes cp1250 for ISO 8859-2, whose letters are not all in the same places.
    found = chardet.detect(sample, compat_names=False)["encoding"] or "cp1252"
    if found.startswith("iso8859-") and _NO_ISO_8859.search(sample):
        found = WINDOWS.get(found.removeprefix("iso8859-"), found)
    if found in _LATIN_MAC_OR_DOS and not _MAC_OR_DOS.search(sample):
        return "cp1252"
    return "cp1252" if _looks_western(sample, found) else found


def _looks_western(sample: bytes, encoding: str) -> bool:
    """Return whether a text is improbable in an encoding, and not in that of western languages."""
    beyond_ascii = sum(byte >= 0x80 for byte in sample)
    if beyond_ascii > MAX_WESTERN * len(sample) or not _IMPROBABLE.search(sample.decode(encoding, "replace")):
        return False
    western = sample.decode("cp1252", "replace")
    return "\ufffd" not in western and not _IMPROBABLE.search(western)
