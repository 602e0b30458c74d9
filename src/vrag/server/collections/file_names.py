"""The names under which uploaded documents are stored: those that people gave them, as far as disks go.

What a file system or another program would trip over is replaced by a sign that looks alike, so that people
recognise the name and two names stay two: it is what they see in citations.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from pathlib import PurePosixPath

__all__ = ["MAX_BYTES", "safe_name", "suffix_of"]

MAX_BYTES = 220
"""Of a name in UTF-8: less than the 255 that file systems take, for what other programs append."""
_ALIKE = {
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


def safe_name(name: str) -> str:
    """The name of a file in one folder, for any text at all. What is safe already stays as it is.

    Args:
        name: As a client gave it.

    >>> safe_name("Report: Q3?.pdf"), safe_name("../../x.pdf"), safe_name("CON.pdf")
    ('Report： Q3？.pdf', '．.／..／x.pdf', '_CON.pdf')
    """
    plain = unicodedata.normalize("NFC", name).encode("utf-8", "replace").decode("utf-8")
    plain = _BIDI.sub("", plain).translate(_ALIKE).strip()
    if plain.endswith("."):
        plain = plain[:-1] + "．"
    if plain.startswith("."):
        plain = "．" + plain[1:]
    if _RESERVED.match(plain):
        plain = "_" + plain
    return _shortened(plain) or "_"


def suffix_of(name: str) -> str:
    """The suffix of a name in small letters, with its dot; empty where there is none."""
    return PurePosixPath(safe_name(name)).suffix.lower()


def _shortened(name: str) -> str:
    """A name that is not too long: its beginning, its suffix, and what tells it from others alike."""
    if len(name.encode()) <= MAX_BYTES:
        return name
    suffix = PurePosixPath(name).suffix
    suffix = suffix if len(suffix.encode()) <= 16 else ""
    mark = "~" + hashlib.sha256(name.encode()).hexdigest()[:8]
    room = MAX_BYTES - len(mark) - len(suffix.encode())
    return name.encode()[:room].decode("utf-8", "ignore").rstrip() + mark + suffix
