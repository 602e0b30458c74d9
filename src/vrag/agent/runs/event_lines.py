"""The lines of a run's events with their checksums, and the file that says what a finished run consists of.

A line is the JSON of an event whose last name is `crc32`, the CRC-32 of all bytes before it. `end.json` is
written after the last event: it has the number of bytes of the events, and the CRC-32 of each file of the
run. Runs of earlier versions have neither.
"""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path
from typing import NamedTuple

from vrag.index.integrity.checksums import flip_back
from vrag.index.integrity.sealed_json import Seal, check_seal

END = "end.json"
_BEGIN, _CLOSE = b',"crc32":"', b'"}'
_SEALED_END = re.compile(rb',"crc32":"[0-9a-f]{8}"\}')
_LENGTH = len(_BEGIN) + 8 + len(_CLOSE)


class EventLine(NamedTuple):
    """A line without its checksum."""

    data: bytes
    seal: Seal


def seal_line(data: bytes) -> bytes:
    """Add its checksum to the JSON of an event."""
    body = data.removesuffix(b"}")
    return b"%b%b%08x%b" % (body, _BEGIN, zlib.crc32(body), _CLOSE)


def unseal_line(line: bytes) -> EventLine:
    """Split a line into the JSON of its event, and what its checksum says."""
    body, begin, number, close = line[:-_LENGTH], line[-_LENGTH:-10], line[-10:-2], line[-2:]
    if begin != _BEGIN or close != _CLOSE:
        return EventLine(line, Seal.MISSING)
    is_sound = number == b"%08x" % zlib.crc32(body)
    return EventLine(body + b"}", Seal.SOUND if is_sound else Seal.BROKEN)


def unseal_lines(lines: list[bytes]) -> list[EventLine]:
    """Split the lines of a run: where one has a checksum, the others have lost theirs."""
    found = [unseal_line(line) for line in lines]
    if all(line.seal is Seal.MISSING for line in found):
        return found
    return [line._replace(seal=Seal.BROKEN) if line.seal is Seal.MISSING else line for line in found]


def repair_lines(lines: list[bytes]) -> list[bytes]:
    """Return the lines of a run with single bits flipped back, also where one made or took a line end."""
    repaired: list[bytes] = []
    rest = list(lines)
    while rest:
        line = rest.pop(0)
        if _is_sealed(line):
            repaired.append(line)
        elif (whole := repair_line(line)) is not None:
            repaired.append(whole)
        elif (parts := _split(line)) is not None:
            repaired += parts
        elif rest and (joined := _join(line, rest[0])) is not None:
            repaired.append(joined)
            del rest[0]
        else:
            repaired.append(line)
    return repaired


def _is_sealed(line: bytes) -> bool:
    return unseal_line(line).seal is Seal.SOUND


def _split(line: bytes) -> tuple[bytes, bytes] | None:
    """Return the two lines of a line whose end in the middle was flipped."""
    for match in _SEALED_END.finditer(line):
        head, tail = line[: match.end()], line[match.end() + 1 :]
        if tail and _is_sealed(head) and _is_sealed(tail):
            return head, tail
    return None


def _join(line: bytes, following: bytes) -> bytes | None:
    """Return the line that a flipped bit made a line end in."""
    candidates = (line + bytes([ord("\n") ^ 1 << bit]) + following for bit in range(8))
    return next(filter(_is_sealed, candidates), None)


def repair_line(line: bytes) -> bytes | None:
    """Return a damaged line with its one flipped bit flipped back; None if there is more damage."""
    if unseal_line(line).seal is Seal.BROKEN:
        try:
            expected = int(line[-10:-2], 16)
        except ValueError:
            expected = -1
        repaired = flip_back(line[:-_LENGTH], expected) if expected >= 0 else None
        if repaired is not None:
            return repaired + line[-_LENGTH:]
    if len(line) < _LENGTH:
        return None
    sealed = seal_line(line[:-_LENGTH] + b"}")  # or the bit is in the checksum
    differing = [a ^ b for a, b in zip(sealed[-_LENGTH:], line[-_LENGTH:], strict=True) if a != b]
    return sealed if len(differing) == 1 and differing[0].bit_count() == 1 else None


class RunEnd(NamedTuple):
    """The content of `end.json`."""

    bytes: int
    """Bytes of the events."""
    files: dict[str, int]
    """The checksum of each file, by its name."""


def read_end(directory: Path) -> RunEnd | None:
    """Read what a finished run consists of; None where that is not known.

    Raises `ValueError` if the file is damaged.
    """
    try:
        data = (directory / END).read_bytes()
    except OSError:
        return None
    if check_seal(data) is not Seal.SOUND:
        raise ValueError("its checksum does not match")
    content = json.loads(data)
    return RunEnd(content["bytes"], content["files"])
