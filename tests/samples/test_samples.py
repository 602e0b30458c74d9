"""The sample corpus keeps what it promises, as read by pypdfium2 and Pillow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pypdfium2 as pdfium
import pytest
from PIL import Image

from vrag.samples import corpus_dir, questions_path

if TYPE_CHECKING:
    from collections.abc import Callable

PICTURE_ONLY = {("letter-1974.pdf", 1), ("guillemot-slides.pdf", 5)}
"""Pages of PDFs that have no text layer, on purpose."""


def _examples() -> list[dict[str, Any]]:
    return json.loads(questions_path().read_text(encoding="utf-8"))["examples"]


def _pages(name: str) -> int:
    path = corpus_dir() / name
    if path.suffix != ".pdf":
        with Image.open(path) as image:
            image.verify()
        return 1
    with pdfium.PdfDocument(path) as document:
        return len(document)


def _text(name: str, page: int, box: tuple[float, float, float, float] = (0, 0, 1, 1)) -> str:
    """The text layer within a unit box of a page."""
    with pdfium.PdfDocument(corpus_dir() / name) as document:
        loaded = document[page - 1]
        width, height = loaded.get_size()
        x1, y1, x2, y2 = box
        bounded = cast("Callable[..., str]", loaded.get_textpage().get_text_bounded)  # pyright: ignore[reportUnknownMemberType]
        return bounded(x1 * width, (1 - y2) * height, x2 * width, (1 - y1) * height)


def _regions() -> list[tuple[dict[str, Any], int, tuple[float, float, float, float]]]:
    return [(e, r["page"], cast("Any", tuple(r["box"]))) for e in _examples() for r in e["regions"]]


ON_PAPER = [
    example
    for example in _examples()
    if example["regions"]
    and example["meta_info"]["file_name"].endswith(".pdf")
    and (example["meta_info"]["file_name"], example["regions"][0]["page"]) not in PICTURE_ONLY
]
"""Questions whose answer stands in a text layer."""


def test_the_corpus_has_a_file_of_every_kind() -> None:
    names = sorted(path.name for path in corpus_dir().iterdir())

    assert names == [
        "annual-report-2024.pdf",
        "guillemot-slides.pdf",
        "letter-1974.pdf",
        "notes-for-crews.md",
        "passenger-guide-zh.pdf",
        "price-board.jpg",
    ]


def test_the_whole_package_data_stays_under_a_megabyte() -> None:
    size = sum(path.stat().st_size for path in corpus_dir().parent.rglob("*") if path.suffix != ".pyc")

    assert size < 1_000_000


@pytest.mark.parametrize(
    ("name", "pages"),
    [
        ("annual-report-2024.pdf", 8),
        ("guillemot-slides.pdf", 8),
        ("letter-1974.pdf", 1),
        ("passenger-guide-zh.pdf", 3),
    ],
)
def test_documents_have_their_pages(name: str, pages: int) -> None:
    assert _pages(name) == pages


def test_every_page_but_the_pictures_has_a_text_layer() -> None:
    without = {
        (path.name, page)
        for path in corpus_dir().glob("*.pdf")
        for page in range(1, _pages(path.name) + 1)
        if not _text(path.name, page).strip()
    }

    assert without == PICTURE_ONLY


def test_the_chinese_guide_extracts_as_chinese_characters() -> None:
    text = "".join(_text("passenger-guide-zh.pdf", page) for page in (1, 2, 3))

    assert sum("\u4e00" <= character <= "\u9fff" for character in text) > 600
    assert "燕鸥湾轮渡" in text


def test_uids_are_unique_and_files_exist() -> None:
    examples = _examples()

    assert len({e["uid"] for e in examples}) == len(examples)
    assert {e["meta_info"]["file_name"] for e in examples} <= {path.name for path in corpus_dir().iterdir()}


def test_a_question_has_gold_unless_it_is_unanswerable() -> None:
    for example in _examples():
        unanswerable = example["reference_answer"] == "Not answerable"
        pages = example["meta_info"]["reference_page"]

        assert unanswerable == (example["meta_info"]["query_type"] == "Unanswerable")
        assert unanswerable == (not pages)
        assert sorted({r["page"] for r in example["regions"]}) == pages


def test_gold_boxes_lie_on_an_existing_page_and_are_small() -> None:
    for example, page, (x1, y1, x2, y2) in _regions():
        assert 1 <= page <= _pages(example["meta_info"]["file_name"])
        assert 0 <= x1 < x2 <= 1
        assert 0 <= y1 < y2 <= 1
        assert (x2 - x1) * (y2 - y1) < 0.05


@pytest.mark.parametrize("example", ON_PAPER, ids=lambda e: e["uid"])
def test_the_text_layer_inside_the_gold_boxes_contains_the_answer(example: dict[str, Any]) -> None:
    name = example["meta_info"]["file_name"]
    boxes = [(r["page"], cast("Any", tuple(r["box"]))) for r in example["regions"]]

    quoted = " ".join(" ".join(_text(name, page, box).split()) for page, box in boxes)

    assert example["reference_answer"] in quoted
    assert len(quoted) < 80


def test_every_picture_and_language_has_a_question() -> None:
    asked = {(e["meta_info"]["file_name"], page) for e, page, _ in _regions()}

    assert asked >= PICTURE_ONLY | {("price-board.jpg", 1), ("passenger-guide-zh.pdf", 2)}
