"""Words of one line are read in the order of their places, in whatever order a file draws them."""

from __future__ import annotations

import pytest

from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from vrag.corpus.formats.pdf_text.pdf_layer import read_layer
from vrag.corpus.formats.pdfium import Pdf

LABELS = ("Name of the keeper:", "Number of the buoy:", "Day of the repair:")
VALUES = ("Odd Lunde", "TB-40-7", "3 June 2025")


def read(*placed: tuple[float, float, str]) -> list[str]:
    """The lines of a page with texts at these places, drawn in this order."""
    return read_content("".join(text_at(x, y, text, 12) for x, y, text in placed))


def read_content(content: str) -> list[str]:
    pdf = Pdf(pdf_bytes(PdfPage(content)))
    with pdf.page(1) as page:
        found = read_layer(page)
    pdf.close()
    words = [found.text[word.start : word.end] for word in found.words]
    assert " ".join(words).split() == found.text.split()
    return found.text.split("\n")


def stack(x: float, texts: tuple[str, ...], pitch: float = 26) -> list[tuple[float, float, str]]:
    return [(x, 700 - pitch * row, text) for row, text in enumerate(texts)]


def test_signs_that_are_drawn_in_one_go_stand_at_their_labels() -> None:
    """A displacement of -6000 thousandths lies between the two signs."""
    signs = "BT /F1 12 Tf 72 700 Td [(x) -6000 (o)] TJ ET\n"
    labels = text_at(84, 700, "Shore power", 12) + text_at(163, 700, "Water", 12)
    assert read_content(signs + labels) == ["x Shore power o Water"]


def test_columns_that_are_drawn_in_one_go_from_the_right_keep_their_order() -> None:
    shown = "BT /F1 12 Tf 330 700 Td [(1888. ) 24000 (often began at)] TJ ET\n"
    assert " ".join(read_content(shown)) == "1888. often began at"


@pytest.mark.parametrize("pitch", [16, 26])
def test_values_that_are_drawn_after_all_labels_stand_behind_their_labels(pitch: float) -> None:
    lines = read(*stack(72, LABELS, pitch), *stack(220, VALUES, pitch), (72, 500, "Signed in Tamm"))
    assert lines == [
        *(f"{label} {value}" for label, value in zip(LABELS, VALUES, strict=True)),
        "Signed in Tamm",
    ]


def test_a_value_stands_behind_the_nearest_label_of_its_line() -> None:
    labels = [(72, 700, "Name:"), (72, 670, "Port:"), (300, 700, "Berth:")]
    lines = read(*labels, (120, 700, "Lunde"), (360, 700, "17"))
    assert "Name: Lunde" in " ".join(lines)
    assert "Berth: 17" in " ".join(lines)


def test_a_text_drawn_later_stands_in_the_space_left_for_it() -> None:
    sentence = "BT /F1 12 Tf 72 700 Td [(It is used by) -4000 (from May.)] TJ ET\n"
    assert read_content(sentence + text_at(72, 600, "Tamm", 12) + text_at(146, 700, "O. Lind", 12)) == [
        "It is used by O. Lind from May.",
        "Tamm",
    ]


def test_columns_of_running_text_stay_apart_though_a_line_ends_like_a_label() -> None:
    left = ("The fees of the port are as", "follows, and are due in May:", "all boats pay the same.")
    right = ("The new quay will be opened", "in June. It was built of stone", "and cost less than wood.")
    assert read(*stack(72, left, 15), *stack(320, right, 15)) == [*left, *right]


def test_columns_of_a_table_stay_as_they_are_drawn() -> None:
    columns = ("Port", "Northby", "Saltby"), ("2023", "210", "88"), ("2024", "214", "93")
    placed = [place for x, column in zip((72, 200, 300), columns, strict=True) for place in stack(x, column)]
    assert read(*placed) == [text for column in columns for text in column]
