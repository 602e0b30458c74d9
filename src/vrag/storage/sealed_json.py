"""Small JSON files that end with their own checksum, so that every flipped bit in them shows.

The last name is `checksum`: the CRC-32 of all bytes before it.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_SEALED = re.compile(rb'(\{\n.*),\n  "checksum": "([0-9a-f]{8})"\n\}', re.DOTALL)


def seal_json(content: Mapping[str, Any]) -> bytes:
    """Return an object as JSON, a line for each of its names, with its checksum; it has at least one name."""
    lines = (
        f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in content.items() if name != "checksum"
    )
    data = b"{\n" + ",\n".join(lines).encode()
    return data + f',\n  "checksum": "{zlib.crc32(data):08x}"\n}}'.encode()


def is_sealed(data: bytes) -> bool:
    """Check whether a file ends with its own checksum."""
    match = _SEALED.fullmatch(data)
    return match is not None and int(match[2], 16) == zlib.crc32(match[1])
