"""Files that are uploaded: the names under which they are stored, and their types.

Files keep the names that people gave them, as far as disks accept them. What a file system or another program
would trip over is replaced by a character that looks alike, so that people recognise the name and two names
stay two: it is what they see in citations.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from pathlib import PurePosixPath
from typing import NamedTuple

from vrag.corpus.convert import CONVERTERS, PASSAGE_SUFFIXES
from vrag.corpus.formats.image import HEIF_SUFFIXES
from vrag.corpus.formats.image import SUFFIXES as IMAGE_SUFFIXES
from vrag.corpus.formats.office import SUFFIXES as OFFICE_SUFFIXES
from vrag.corpus.formats.texts.epub import SUFFIXES as EPUB_SUFFIXES
from vrag.corpus.formats.video import SUFFIXES as VIDEO_SUFFIXES
from vrag.corpus.sniff import SIGNATURES, describe_head, is_heif
from vrag.types import ItemKind

MAX_NAME_BYTES = 220
"""Length of a name in UTF-8: less than the 255 that file systems accept, for what other programs append."""
_REPLACEMENTS = {
    **{code: code + 0x2400 for code in range(0x20)},  # the pictures of control characters
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    0x2028: 0x2424,
    0x2029: 0x2424,
    **{ord(sign): ord(sign) + 0xFEE0 for sign in '<>:"/\\|?*'},  # their full-width forms
}
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Invisible marks that have the rest of a line read in the other direction; letters know theirs."""
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])\s*(\.|$)", re.IGNORECASE)
"""Names of devices on Windows, whatever follows the dot."""
HEAD_BYTES = 1024
"""First bytes of a file that are checked: a PDF may have something before its first line."""
SUFFIXES = tuple(sorted(CONVERTERS))
"""Lower-case suffixes of files that become documents."""
_IMAGE_HEADS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+", b"BM")
_OFFICE_HEADS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"{\\rtf")
_ATOMS = frozenset({b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot", b"uuid"})
"""First atoms of a QuickTime or MPEG-4 file, after four bytes of length."""
_MIN_SIGNATURE_BYTES = 4
"""Length of a signature that no text begins with by chance."""


def safe_name(name: str) -> str:
    """Make the name of a file in one folder from any text. A safe name stays as it is.

    >>> safe_name("Report: Q3?.pdf"), safe_name("../../x.pdf"), safe_name("CON.pdf")
    ('Report： Q3？.pdf', '．.／..／x.pdf', '_CON.pdf')
    """
    plain = unicodedata.normalize("NFC", name).encode("utf-8", "replace").decode("utf-8")
    plain = _BIDI.sub("", plain).translate(_REPLACEMENTS).strip()
    if plain.endswith("."):
        plain = plain[:-1] + "．"
    if plain.startswith("."):
        plain = "．" + plain[1:]
    if _RESERVED.match(plain):
        plain = "_" + plain
    if len(plain.encode()) > MAX_NAME_BYTES:  # its beginning, its suffix, a hash that tells it from others
        suffix = PurePosixPath(plain).suffix
        suffix = suffix if len(suffix.encode()) <= 16 else ""
        end = "~" + hashlib.sha256(plain.encode()).hexdigest()[:8] + suffix
        room = MAX_NAME_BYTES - len(end.encode())
        plain = plain.encode()[:room].decode("utf-8", "ignore").rstrip() + end
    return plain or "_"


def suffix_of(name: str) -> str:
    """Return the suffix of a name in lower case, with its dot; empty without one."""
    return PurePosixPath(safe_name(name)).suffix.lower()


def kind_of(suffix: str) -> ItemKind:
    """Return the kind of the items that files with a suffix in lower case consist of, for the most part."""
    if suffix in VIDEO_SUFFIXES:
        return ItemKind.CLIP
    return ItemKind.PASSAGE if suffix in PASSAGE_SUFFIXES else ItemKind.PAGE


def fault_of_head(suffix: str, head: bytes) -> str:
    """Explain in a sentence why a file is not what its suffix says; empty if nothing speaks against it.

    `suffix` is one of `SUFFIXES`, `head` the first `HEAD_BYTES` of the file, or all.

    >>> fault_of_head(".pdf", b"%PDF-1.7"), fault_of_head(".md", b"# Title")
    ('', '')
    >>> fault_of_head(".pdf", b"# Title")
    'This is not a PDF file: it seems to be text.'
    """
    form = head[8:12] if head[:4] == b"RIFF" else b""
    is_video = head[4:8] in _ATOMS or head.startswith(b"\x1aE\xdf\xa3") or form == b"AVI "
    if suffix == ".pdf":
        kind, matches = "a PDF file", b"%PDF-" in head
    elif suffix in (*IMAGE_SUFFIXES, *HEIF_SUFFIXES):
        kind, matches = "a picture", head.startswith(_IMAGE_HEADS) or form == b"WEBP" or is_heif(head)
    elif suffix in OFFICE_SUFFIXES:
        kind, matches = "an office document", head.startswith(_OFFICE_HEADS)
    elif suffix in EPUB_SUFFIXES:
        kind, matches = "a book in EPUB", head.startswith(b"PK\x03\x04")
    elif suffix in VIDEO_SUFFIXES:
        kind, matches = "a video", is_video
    else:
        signatures = tuple(sign for sign, _ in SIGNATURES if len(sign) >= _MIN_SIGNATURE_BYTES)
        kind, matches = "text", not (head.startswith(signatures) or is_video or form == b"WEBP")
    return "" if matches else f"This is not {kind}: {describe_head(head)}."


class DocumentSelector(NamedTuple):
    """The files of a document that a client means; None stands for any."""

    document: str
    name: str | None = None
    folder: str | None = None
    """As `relative_folders` returns it."""

    def matches(self, document: str, name: str, folder: str | None) -> bool:
        """Return whether a file is one of them."""
        return document == self.document and self.name in {None, name} and self.folder in {None, folder}
