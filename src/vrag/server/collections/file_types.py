"""Which files may be uploaded: by their suffix, and by what their first bytes say against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.corpus.convert import CONVERTERS
from vrag.corpus.formats.image import SUFFIXES as IMAGE
from vrag.corpus.formats.office import SUFFIXES as OFFICE
from vrag.corpus.formats.video import SUFFIXES as VIDEO
from vrag.corpus.sniff import SIGNATURES, describe_head

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HEAD_BYTES", "SUFFIXES", "fault_of_head"]

HEAD_BYTES = 1024
"""Of a file that are looked at: a PDF may have something before its first line."""
SUFFIXES = tuple(sorted(CONVERTERS))
"""Suffixes of files that become documents, in small letters."""
_PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+", b"BM")
_OFFICE = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"{\\rtf")
_ATOMS = frozenset({b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot", b"uuid"})
"""What a QuickTime or MPEG-4 file begins with, after four bytes of length."""
_LONG = 4
"""Bytes of a signature that no text begins with by chance."""


def fault_of_head(suffix: str, head: bytes) -> str:
    """Why a file is not what its suffix says, as a sentence; empty where nothing speaks against it.

    Args:
        suffix: One of `SUFFIXES`.
        head: The first bytes of the file, `HEAD_BYTES` or all.

    >>> fault_of_head(".pdf", b"%PDF-1.7"), fault_of_head(".md", b"# Title")
    ('', '')
    >>> fault_of_head(".pdf", b"# Title")
    'This is not a PDF file: it seems to be text.'
    """
    kind, fits = _rule(suffix)
    return "" if fits(head) else f"This is not {kind}: {describe_head(head)}."


def _rule(suffix: str) -> tuple[str, Callable[[bytes], bool]]:
    """What files of this suffix are, and whether first bytes are of such."""
    if suffix == ".pdf":
        return "a PDF file", lambda head: b"%PDF-" in head
    if suffix in IMAGE:
        return "a picture", lambda head: head.startswith(_PICTURES) or _is_riff(head, b"WEBP")
    if suffix in OFFICE:
        return "an office document", lambda head: head.startswith(_OFFICE)
    if suffix in VIDEO:
        return "a video", _is_video
    return "text", _may_be_text


def _is_video(head: bytes) -> bool:
    return head[4:8] in _ATOMS or head.startswith(b"\x1aE\xdf\xa3") or _is_riff(head, b"AVI ")


def _is_riff(head: bytes, form: bytes) -> bool:
    return head[:4] == b"RIFF" and head[8:12] == form


def _may_be_text(head: bytes) -> bool:
    known = tuple(signature for signature, _ in SIGNATURES if len(signature) >= _LONG)
    return not head.startswith(known) and not _is_video(head) and not _is_riff(head, b"WEBP")
