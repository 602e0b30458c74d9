"""Columns of running text are read one behind the other, in whatever order a file draws them."""

from __future__ import annotations

import pytest

from corpus.pdf_files import PdfPage, pdf_bytes
from vrag.corpus.formats.pdf_text.pdf_layer import read_layer
from vrag.corpus.formats.pdfium import Pdf

LEFT = (
    "The ferry to the islands is can-",
    "celled on the first of March be-",
    "cause its motor is taken out of",
    "the hull. Travellers may take the",
    "boat of the post, which leaves",
    "at noon. The harbour master is",
)
RIGHT = (
    "Odd Lunde. The new quay will",
    "be opened in June by the may-",
    "or of Tamm. It was built of gran-",
    "ite from the north, and it cost",
    "less than the old one of wood,",
    "which burnt down in the war.",
)
LEFT_TEXT = (
    "The ferry to the islands is cancelled on the first of March because its motor is taken out of the hull. "
    "Travellers may take the boat of the post, which leaves at noon. The harbour master is"
)
RIGHT_TEXT = (
    "Odd Lunde. The new quay will be opened in June by the mayor of Tamm. It was built of granite from the "
    "north, and it cost less than the old one of wood, which burnt down in the war."
)


def read_across(*columns: tuple[str, ...], size: int = 11, start: str = "", end: str = "") -> str:
    """The text of a page that draws the first line of each column, then the second of each."""
    shown = [f"BT /F1 14 Tf 60 760 Td ({start}) Tj ET"] if start else []
    for row, line in enumerate(zip(*columns, strict=True)):
        for column, text in enumerate(line):
            place = f"{60 + column * 510 // len(columns)} {730 - 14 * row}"
            shown.append(f"BT /F1 {size} Tf {place} Td ({text}) Tj ET")
    shown += [f"BT /F1 11 Tf 60 100 Td ({end}) Tj ET"] if end else []
    pdf = Pdf(pdf_bytes(PdfPage("\n".join(shown), "/MediaBox [0 0 612 792]")))
    with pdf.page(1) as page:
        text = read_layer(page).text
        assert all(text[word.start : word.end].split() for word in read_layer(page).words)
    pdf.close()
    return text


def test_columns_that_are_drawn_across_are_read_down_with_their_divided_words() -> None:
    text = read_across(LEFT, RIGHT)
    assert " ".join(text.split()) == f"{LEFT_TEXT} {RIGHT_TEXT}"
    assert text.count("\n") == len(LEFT) + len(RIGHT) - 1 - 4


def test_what_stands_above_and_below_columns_stays_there() -> None:
    text = read_across(LEFT, RIGHT, start="News of Tamm", end="Printed in Sandvik")
    lines = text.split("\n")
    assert (lines[0], lines[-1]) == ("News of Tamm", "Printed in Sandvik")


def test_three_columns_are_read_one_behind_the_other() -> None:
    text = read_across(
        (
            "The ferry is can-",
            "celled in March be-",
            "cause its motor is",
            "taken out and will",
            "be cleaned.",
        ),
        ("The new quay will", "be opened by the may-", "or of Tamm. It was", "built of gran-", "ite in May."),
        (
            "Fish is dearer than",
            "it was last year be-",
            "cause the ice still",
            "lies in the bay and",
            "melts late.",
        ),
    )
    assert " ".join(text.split()) == (
        "The ferry is cancelled in March because its motor is taken out and will be cleaned. "
        "The new quay will be opened by the mayor of Tamm. It was built of granite in May. "
        "Fish is dearer than it was last year because the ice still lies in the bay and melts late."
    )


@pytest.mark.parametrize(
    "columns",
    [
        (("Berth", "North", "South", "West", "East"), ("Fee", "410", "525", "365", "290")),
        (
            ("Mooring rope of hemp", "Anchor of cast iron", "Life jacket of cork", "Lamp of brass", "Oar"),
            ("is sold by the metre here", "is sold by its weight", "has to be tested", "is lit", "of ash"),
        ),
        (  # one long line each, with a gap in it
            (
                "the crew of the old pilot",
                "boat was told by the master",
                "of the harbour to wait",
                "for the ferry",
            ),
            (
                "which lay at the quay near",
                "the bridge, before it left",
                "for the islands with mail",
                "and some sheep",
            ),
        ),
    ],
)
def test_lines_that_do_not_go_on_below_are_read_across(columns: tuple[tuple[str, ...], ...]) -> None:
    lines = [" ".join(line) for line in zip(*columns, strict=True)]
    assert read_across(*columns).split("\n") == lines


def test_a_hyphen_that_is_part_of_a_word_stays() -> None:
    left = (*LEFT[:3], "the hull. A trip with a fast-and-", "slow boat is offered to all who", *LEFT[5:])
    assert "fast-and-slow boat" in read_across(left, RIGHT)
