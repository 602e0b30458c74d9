"""Documents of pictures: pages keep their numbers whatever is missing."""

from __future__ import annotations

import pytest
from document_sets import cell, pages_of, picture
from hypothesis import given
from hypothesis import strategies as st

from vrag.datasets.files.clean_cases import Remarks
from vrag.datasets.files.documents import image_bytes, image_size, with_pages

GOOD = picture()
WORSE = {"cut": GOOD[:-60], "text": b"no picture", "empty": b"", "zip": b"PK\x03\x04"}


@given(there=st.lists(st.booleans(), max_size=12), gold=st.sets(st.integers(1, 14)))
def test_a_document_ends_with_its_last_picture(there: list[bool], gold: set[int]) -> None:
    remarks = Remarks()
    pages = [GOOD if one else None for one in there]
    last = max((number for number, one in enumerate(there, 1) if one), default=0)

    found = pages_of(with_pages("a.pdf", lambda: pages, remarks, gold))

    assert found == (pages[:last] or [None])
    beyond = sum(page > last for page in gold)
    assert any("Gold pages lie beyond" in note and f"({beyond}): " in note for note in remarks.notes) == (
        beyond > 0
    )
    blank = there[:last].count(False)
    assert any(note.startswith("Pages without") and f"({blank}): " in note for note in remarks.notes) == (
        blank > 0
    )


@pytest.mark.parametrize("kind", WORSE)
def test_what_cannot_be_decoded_is_missing(kind: str) -> None:
    remarks = Remarks()

    assert pages_of(with_pages("a.pdf", lambda: [WORSE[kind], GOOD], remarks)) == [None, GOOD]
    assert "a.pdf, page 1" in remarks.notes[0]


def test_pages_can_be_taken_twice_and_are_told_once() -> None:
    remarks = Remarks()
    source = with_pages("a.pdf", lambda: [None, GOOD], remarks, [9])

    assert pages_of(source) == pages_of(source)
    assert len(remarks.notes) == 2
    assert all(" (1): " in note for note in remarks.notes)


def test_a_cell_is_bytes_or_a_struct_and_its_path_is_never_followed() -> None:
    assert image_bytes(cell(GOOD)) == image_bytes(GOOD) == GOOD
    assert [image_bytes(value) for value in (None, b"", cell(None), {"path": "/etc/passwd"}, 7, "a")] == [
        None
    ] * 6


def test_the_size_is_that_of_the_header() -> None:
    assert image_size(picture(0, (30, 70), "PNG")) == (30, 70)
    assert image_size(b"no picture") is None
