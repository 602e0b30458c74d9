"""MMDocIR as it comes: pages from 0, boxes in points."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from published_rows import MMDOCIR, read

from vrag.errors import CaseError
from vrag.geometry import Box
from vrag.types import Case, Region

if TYPE_CHECKING:
    pass


def test_mmdocir_counts_pages_from_0_and_its_boxes_become_fractions(tmp_path: Path) -> None:
    _, (case,) = read(tmp_path / "a.json", MMDOCIR)

    assert case == Case(
        uid="mmdocir-0-0",
        query="Where?",
        reference_answer="Orla",
        file_name="report.pdf",
        reference_page=(1, 5),
        source_type=("Figure",),
        query_type="Multi-Hop",
        regions=(Region(5, Box.unit(0.1, 0.1, 0.5, 1.0)),),
        document_type="News",
    )


@pytest.mark.parametrize(
    "layout",
    [
        {"page": 0, "page_size": [0, 800], "bbox": [0, 0, 1, 1]},
        {"page": 0, "page_size": [600, 800], "bbox": [0, 0, 1]},
        {"page": 0, "page_size": [600, 800], "bbox": [0, 0, 1, "1"]},
        {"page": 0, "page_size": [600, 800], "bbox": [0, 0, 1, 10**400]},
        {"page": -1, "page_size": [600, 800], "bbox": [0, 0, 1, 1]},
        {"page": 0},
        "here",
        None,
    ],
)
def test_a_box_that_cannot_be_placed_is_refused(tmp_path: Path, layout: object) -> None:
    question = MMDOCIR["questions"][0] | {"layout_mapping": [layout]}

    with pytest.raises(CaseError, match="row 1: A"):
        read(tmp_path / "a.json", [MMDOCIR | {"questions": [question]}])
