"""Small JSON files that end with their own checksum, so that every flipped bit in them shows.

The last name is `checksum`: the CRC-32 of all bytes before it. Files of earlier versions of vrag have none.
"""

from __future__ import annotations

import json
import re
import zlib
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SEALED = re.compile(rb'(\{\n.*),\n  "checksum": "([0-9a-f]{8})"\n\}', re.DOTALL)


class Seal(Enum):
    """The results of comparing a file with its checksum."""

    SOUND = "sound"
    MISSING = "missing"
    """An earlier version of vrag wrote it."""
    BROKEN = "broken"


def seal_json(content: Mapping[str, Any]) -> bytes:
    """Return an object as JSON, a line for each of its names, with its checksum; it has at least one name."""
    lines = (
        f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in content.items() if name != "checksum"
    )
    data = b"{\n" + ",\n".join(lines).encode()
    return data + f',\n  "checksum": "{zlib.crc32(data):08x}"\n}}'.encode()


def is_sealed(data: bytes) -> bool:
    """Check whether a file ends with its own checksum."""
    match = SEALED.fullmatch(data)
    return match is not None and int(match[2], 16) == zlib.crc32(match[1])


def check_seal(data: bytes, names: Collection[str] = ()) -> Seal:
    """Compare a file with its checksum.

    `names` are those of a file without one: any other is a damaged one. Without `names` others are accepted.
    """
    if SEALED.fullmatch(data) is not None:
        return Seal.SOUND if is_sealed(data) else Seal.BROKEN
    try:
        content: Any = json.loads(data)
    except (ValueError, RecursionError):
        return Seal.BROKEN
    if not isinstance(content, dict):
        return Seal.BROKEN
    found = {str(name) for name in cast("dict[str, Any]", content)}
    if "checksum" in found or (names and not found.issubset(names)):
        return Seal.BROKEN
    return Seal.MISSING
