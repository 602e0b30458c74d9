"""Sealed files: every flipped bit shows."""

from __future__ import annotations

import json

import pytest

from vrag.storage.sealed_json import is_sealed, seal_json

CONTENT = {"schema": 2, "name": "ä"}


@pytest.mark.parametrize("bit", range(8 * 62))
def test_a_flipped_bit_shows(bit: int) -> None:
    data = bytearray(seal_json(CONTENT))
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    assert not is_sealed(bytes(data))


def test_a_sealed_file_is_json_with_its_checksum() -> None:
    content = json.loads(seal_json(CONTENT))
    assert content.pop("checksum")
    assert content == CONTENT
    assert is_sealed(seal_json(CONTENT))


@pytest.mark.parametrize("data", [b"", b"{}", b'{"schema": 2}', seal_json(CONTENT)[:-1], b"\xff"])
def test_what_has_no_checksum_is_not_sealed(data: bytes) -> None:
    assert not is_sealed(data)
