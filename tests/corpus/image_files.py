"""Pictures that promise more than they hold."""

from __future__ import annotations

import struct
import zlib


def png_bomb(width: int, height: int, packed: int = 100_000) -> bytes:
    """A PNG of a given size whose data unpacks to `packed` zeros."""
    head = struct.pack(">II5B", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(packed), 9)), (b"IEND", b""))
    )


def bmp_bomb(width: int, height: int) -> bytes:
    """A BMP of a given size without pixels."""
    return (
        b"BM"
        + struct.pack("<IHHI", 54, 0, 0, 54)
        + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    )


def gif_bomb(width: int, height: int) -> bytes:
    """A GIF of a given size with one empty frame."""
    size = struct.pack("<HH", width, height)
    return b"GIF89a" + size + b"\x80\x00\x00" + bytes(6) + b"," + bytes(4) + size + b"\x00\x02\x02D\x01\x00;"
