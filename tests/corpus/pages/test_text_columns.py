"""Columns of running text among lines that OCR read."""

from __future__ import annotations

from vrag.corpus.pages.segments import TextSegment, join_rows, merge_rows
from vrag.corpus.pages.text_columns import order_rows

LEFT = [
    "The harbour of Tamm was dredged in the",
    "spring of 1931, when the channel had",
    "silted up so far that no vessel of more",
    "than two metres could enter it. The",
    "work took eleven weeks and was paid",
    "by the county.",
]
RIGHT = [
    "After the war the Orla company built a",
    "second quay on the northern side, with",
    "cranes that lifted ten tonnes each. It",
    "was sold in 1962 to the town, which",
    "still lets its sheds to the fishermen",
    "of the bay.",
]
NAMES = [
    "Hull and Grimsby sent their trawlers to",
    "Tamm each autumn. Captain Harker and",
    "Mate Olsen of the Kestrel, who came from",
    "Birch Cove, brought the herring that",
    "the merchants of the town salted and",
    "sold inland. In the winter of 1904",
    "Olsen bought a share in the yard that",
    "the Lund family had founded there",
    "with money from the whaling, and they",
]


def place(columns: list[list[str]], top: float = 0.2, shift: float = 0.0) -> list[TextSegment]:
    """Place columns of lines side by side; each is lower than the one before by `shift` of a line."""
    width = 0.9 / len(columns)
    return [
        TextSegment(text, (), bounds, 0)
        for number, column in enumerate(columns)
        for line, text in enumerate(column)
        for left, y in [(0.05 + number * width, top + 0.03 * (line + shift * number))]
        for bounds in [(left, y, left + (width - 0.03) * len(text) / 40, y + 0.02)]
    ]


def read(*segments: TextSegment) -> str:
    return join_rows(order_rows(merge_rows(segments))).text


def test_columns_of_running_text_are_read_one_behind_the_other() -> None:
    title = TextSegment("The harbour of Tamm and its two quays, 1931 to 1962", (), (0.2, 0.1, 0.8, 0.13), 0)
    note = TextSegment("All figures are from the archive of the county.", (), (0.2, 0.8, 0.8, 0.83), 0)
    found = read(title, *place([LEFT, RIGHT], shift=0.2), note)
    assert found.split("\n") == [title.text, *LEFT, *RIGHT, note.text]


def test_the_number_of_a_page_stands_behind_its_columns() -> None:
    number = TextSegment("12", (), (0.48, 0.42, 0.5, 0.44), 0)
    assert read(*place([[*LEFT, *NAMES[:1]], [*RIGHT, *NAMES[:1]]]), number).endswith("\n12")


def test_three_columns_of_unequal_length_are_read_one_behind_the_other() -> None:
    columns = [[*LEFT, *RIGHT], NAMES, [*RIGHT, *NAMES[:5]]]
    assert read(*place(columns)).split("\n") == [line for column in columns for line in column]


def test_names_at_the_begin_of_lines_leave_full_columns_what_they_are() -> None:
    columns = [NAMES, [*RIGHT[:5], *NAMES[:4]]]
    assert read(*place(columns)).split("\n") == [line for column in columns for line in column]


def test_cells_of_a_table_are_read_across() -> None:
    names = ["Hull of the ship", "Mast and sails", "Deck and cabins", "Rudder and wheel", "Anchor and chain"]
    values = [
        "Oak from the north",
        "Pine, with linen",
        "Elm, painted white",
        "Ash from the yard",
        "Cast iron",
    ]
    found = read(*place([names, values])).split("\n")
    assert found == [f"{name} {value}" for name, value in zip(names, values, strict=True)]


def test_wrapped_cells_of_a_table_are_read_across() -> None:
    names = ["Repair of the hull", "in dock", "Painting of the deck", "and cabins", "New sails and", "ropes"]
    values = [
        "Due by the end of",
        "the spring",
        "Due before the first",
        "of June",
        "Ordered from the",
        "loft",
    ]
    found = read(*place([names, values])).split("\n")
    assert found[0] == f"{names[0]} {values[0]}"


def test_lines_beside_short_labels_are_read_across() -> None:
    labels = ["Name:", "Address:", "Purpose:", "Amount:", "Date:", "Signed:"]
    assert read(*place([labels, RIGHT])).startswith(f"Name: {RIGHT[0]}\nAddress: {RIGHT[1]}\n")
