"""What a file seems to be by its first bytes: for reasons people can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["describe", "describe_head", "looks_binary"]

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
"""First bytes → what has them."""


def describe(path: Path) -> str:
    """What the file seems to be, as the end of a sentence: "it seems to be a PDF file".

    Raises:
        OSError: If it cannot be read.
    """
    with path.open("rb") as file:
        return describe_head(file.read(1024))


def describe_head(head: bytes) -> str:
    """What bytes seem to be the beginning of; see `describe`.

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
        return "it seems to be a video or a HEIF picture"
    if not head.strip(b"\x00"):
        return "it holds nothing but zeros"
    return "its content is of an unknown kind" if looks_binary(head) else "it seems to be text"


def looks_binary(data: bytes) -> bool:
    """Whether bytes are no text in any encoding that extends ASCII.

    >>> looks_binary(b"plain"), looks_binary(bytes(range(32)))
    (False, True)
    """
    control = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in data)
    return control > len(data) // 50
