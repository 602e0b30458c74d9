"""Fields of forms are a label and what is filled in, where the file and the page say so for certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from corpus.annotated_pdfs import annotated_page, text_field, widget
from corpus.pdf_files import text_at
from corpus.test_field_text import read_item

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.types import Item

OPTIONS = "/Opt [(Water) (Power) (Waste) (Crane)]"
LIST, COMBO = "/Ff 2097152", "/Ff 131072"


def field(value: str, left: float, y: float, width: float = 160, more: str = "") -> str:
    """A text field in a line at a height, filled in or not."""
    entries = f"/V ({value}) {more}" if value else more
    return text_field(entries, f"{left} {y - 5} {left + width} {y + 13}", f"f{left}-{y}")


def box(state: str, left: float, y: float, name: str = "a") -> str:
    """A box to tick."""
    return widget(f"/FT /Btn /V /{state} /AS /{state}", f"{left} {y - 2} {left + 12} {y + 10}", name)


def label(left: float, y: float, text: str) -> str:
    """Words in a line at a height."""
    return text_at(left, y, text, 11)


def pairs(item: Item) -> list[tuple[str, str]]:
    """The label and the value of each field, "" for none."""

    def text(place: tuple[int, int]) -> str:
        return item.text[slice(*place)]

    return [
        (" ".join(map(text, each.label)), ", ".join(map(text, each.values))) for each in item.facts.fields
    ]


def read(tmp_path: Path, content: str, *fields: str) -> list[tuple[str, str]]:
    return pairs(read_item(tmp_path, annotated_page(*fields, content=content)))


def test_a_label_stands_at_the_left_of_its_field(tmp_path: Path) -> None:
    content = label(60, 700, "Registration mark:") + label(60, 670, "Home port")
    found = read(tmp_path, content, field("NO-77-KX", 220, 700), field("", 220, 670))
    assert found == [("Registration mark:", "NO-77-KX"), ("Home port", "")]


def test_each_field_of_a_row_has_the_label_at_its_left(tmp_path: Path) -> None:
    content = label(60, 700, "Tonnage:") + label(200, 700, "Flag:")
    found = read(tmp_path, content, field("42", 120, 700, 60), field("Norway", 240, 700, 80))
    assert found == [("Tonnage:", "42"), ("Flag:", "Norway")]


def test_labels_stand_above_fields_side_by_side(tmp_path: Path) -> None:
    content = label(60, 700, "Booking number") + label(320, 712, "Weight of") + label(320, 700, "the hull")
    found = read(tmp_path, content, field("K-4471", 60, 682), field("8.2 t", 320, 682))
    assert found == [("Booking number", "K-4471"), ("Weight of\nthe hull", "8.2 t")]


def test_labels_stand_at_the_right_where_no_other_words_do(tmp_path: Path) -> None:
    content = label(228, 700, "Name of vessel") + label(228, 670, "Call sign")
    found = read(tmp_path, content, field("Terna", 60, 700), field("LK 5521", 60, 670))
    assert found == [("Name of vessel", "Terna"), ("Call sign", "LK 5521")]


@pytest.mark.parametrize("units", [("", ""), ("h", "min"), ("/", "/")])
def test_fields_that_share_a_label_have_none(tmp_path: Path, units: tuple[str, str]) -> None:
    content = label(60, 700, "Duration") + label(153, 700, units[0]) + label(200, 700, units[1])
    found = read(tmp_path, content, field("3", 120, 700, 30), field("20", 165, 700, 30))
    assert found == [("", "3"), ("", "20")]


def test_a_label_that_may_stand_at_two_sides_is_none(tmp_path: Path) -> None:
    content = label(60, 700, "Ferries") + label(220, 718, "Fee")
    assert read(tmp_path, content, field("42", 220, 700)) == [("", "42")]
    assert read(tmp_path, label(60, 700, "Ferries:") + label(220, 718, "Fee"), field("42", 220, 700)) == [
        ("Ferries:", "42")
    ]


def test_words_of_running_text_above_a_field_are_no_label(tmp_path: Path) -> None:
    content = label(60, 700, "The fee is payable in May, and a reminder costs five euros.")
    assert read(tmp_path, content, field("Larvik", 120, 682)) == [("", "Larvik")]


def test_a_value_that_is_cut_is_none(tmp_path: Path) -> None:
    value = "A very long remark that runs beyond its field"
    assert read(tmp_path, label(60, 700, "Remark"), field(value, 220, 700, 60)) == [("Remark", "")]


def test_a_value_of_several_lines_is_one(tmp_path: Path) -> None:
    remark = text_field(r"/V (Oil changed\nEngine hours 412) /Ff 4096", "220 640 420 720")
    assert read(tmp_path, label(60, 704, "Remarks"), remark) == [("Remarks", "Oil changed\nEngine hours 412")]


def test_letters_in_cells_are_one_value(tmp_path: Path) -> None:
    found = read(tmp_path, label(60, 700, "Permit"), field("AB1234", 220, 700, more="/MaxLen 8 /Ff 16777216"))
    assert found == [("Permit", "AB1234")]


def test_the_name_for_people_names_a_field_without_words_beside_it(tmp_path: Path) -> None:
    item = read_item(
        tmp_path, annotated_page(field("Larvik", 60, 500, more="/TU (Port of departure)"), content="")
    )
    (found,) = item.facts.fields
    assert (found.label, found.name) == ((), "Port of departure")


def test_words_that_contradict_the_name_for_people_are_no_label(tmp_path: Path) -> None:
    named = field("Larvik", 220, 700, more="/TU (Port of departure)")
    assert read(tmp_path, label(60, 700, "Arrival on"), named) == [("", "Larvik")]


def test_entries_of_a_list_are_marked_and_those_chosen_are_its_values(tmp_path: Path) -> None:
    chosen = widget(f"/FT /Ch {OPTIONS} /V [(Power) (Crane)] /I [1 3] {LIST}", "220 640 400 720")
    item = read_item(tmp_path, annotated_page(chosen, content=label(60, 704, "Services")))
    assert item.text == "Services ☐ Water\n☑ Power\n☐ Waste\n☑ Crane"
    assert pairs(item) == [("Services", "Power, Crane")]


def test_a_list_whose_choice_is_out_of_view_has_no_value(tmp_path: Path) -> None:
    chosen = widget(f"/FT /Ch {OPTIONS} /V [(Water) (Crane)] /I [0 3] {LIST}", "220 690 400 720")
    item = read_item(tmp_path, annotated_page(chosen, content=label(60, 704, "Services")))
    assert "☑ Water" in item.text
    assert pairs(item) == [("Services", "")]


def test_a_choice_shows_its_entry_whatever_is_stored(tmp_path: Path) -> None:
    choice = widget(f"/FT /Ch /Opt [[(x1) (Dinghy)] [(x2) (Cruiser)]] /V (x2) {COMBO}", "220 695 380 713")
    assert read(tmp_path, label(60, 700, "Class"), choice) == [("Class", "Cruiser")]


def test_a_box_to_tick_has_its_mark_as_value(tmp_path: Path) -> None:
    content = label(78, 700, "Newsletter") + label(78, 676, "Winter storage")
    item = read_item(tmp_path, annotated_page(box("Yes", 60, 700), box("Off", 60, 676, "b"), content=content))
    assert pairs(item) == [("Newsletter", "☑"), ("Winter storage", "")]
    assert all(each.is_check for each in item.facts.fields)


@pytest.mark.parametrize("at_the_left", [False, True])
def test_the_value_of_several_buttons_is_the_label_of_the_one_chosen(
    tmp_path: Path, at_the_left: bool
) -> None:
    drawn = "<< /Type /XObject /Subtype /Form /BBox [0 0 12 12] /Length 0 >>\nstream\n\nendstream"
    content, buttons = label(60, 700, "Membership"), list[str]()
    for name, left in (("Full", 180), ("Junior", 270)):
        state = name if name == "Junior" else "Off"
        entries = f"/Parent 8 0 R /AS /{state} /AP << /N << /{name} 9 0 R /Off 9 0 R >> >>"
        buttons.append(
            f"<< /Type /Annot /Subtype /Widget /F 4 /Rect [{left} 698 {left + 12} 710] {entries} >>"
        )
        width = 24 if name == "Full" else 38
        content += label(left - width if at_the_left else left + 16, 700, name)
    group = "<< /FT /Btn /Ff 49152 /T (kind) /V /Junior /Kids [6 0 R 7 0 R] >>"
    item = read_item(tmp_path, annotated_page(*buttons, content=content, extra=(group, drawn)))
    assert pairs(item) == [("Membership", "Junior")]


def test_hidden_fields_are_none(tmp_path: Path) -> None:
    assert read(tmp_path, label(60, 700, "Code"), field("secret", 220, 700, more="/F 2")) == []


def test_fields_of_a_page_without_words_have_no_label(tmp_path: Path) -> None:
    assert read(tmp_path, "", field("", 220, 700)) == [("", "")]


def column_of_fields(pitch: float, low: float, top: float = 700) -> tuple[str, list[str]]:
    """Labels `low` points below the lines of four fields, and the fields."""
    entries = [("Name of the claimant", "Ilse Varga"), ("Social security number", "552-90-71")]
    entries += [("Street address", "7 Quay Road"), ("City and state", "Eastmouth")]
    content = "".join(text_at(60, top - pitch * at - low, name, 8) for at, (name, _) in enumerate(entries))
    return content, [field(value, 60, top - pitch * at, 260) for at, (_, value) in enumerate(entries)]


BELOW = [
    ("Name of the claimant", "Ilse Varga"),
    ("Social security number", "552-90-71"),
    ("Street address", "7 Quay Road"),
    ("City and state", "Eastmouth"),
]


@pytest.mark.parametrize("pitch", [33, 36, 40, 44])
def test_labels_of_a_form_may_stand_below_the_lines_of_its_fields(tmp_path: Path, pitch: float) -> None:
    content, fields = column_of_fields(pitch, 13)
    assert read(tmp_path, content, *fields) == BELOW


def test_labels_below_fields_side_by_side_belong_to_these(tmp_path: Path) -> None:
    content = text_at(60, 687, "First name", 8) + text_at(180, 687, "Last name", 8)
    content += text_at(60, 651, "City", 8) + text_at(180, 651, "State", 8)
    places = [("Ilse", 60, 700), ("Varga", 180, 700), ("Eastmouth", 60, 664), ("Maine", 180, 664)]
    found = read(tmp_path, content, *(field(value, x, y, 110) for value, x, y in places))
    names = ["First name", "Last name", "City", "State"]
    assert found == list(zip(names, (value for value, *_ in places), strict=True))


def test_a_heading_above_labels_below_fields_is_no_label(tmp_path: Path) -> None:
    content, fields = column_of_fields(30, 13)
    found = read(tmp_path, text_at(60, 718, "Claim for benefits", 11) + content, *fields)
    assert found[0] in {("", "Ilse Varga"), BELOW[0]}
    assert {name for name, value in found if value != "Ilse Varga"} <= {"", *(name for name, _ in BELOW[1:])}
    assert all(pair in BELOW or not pair[0] for pair in found)


def test_labels_above_close_fields_stay_theirs_over_a_footer(tmp_path: Path) -> None:
    content = label(60, 700, "Booking") + label(60, 660, "Vessel") + label(60, 624, "Please sign overleaf")
    found = read(tmp_path, content, field("K-4471", 60, 684), field("Kittiwake", 60, 644))
    assert found == [("Booking", "K-4471"), ("Vessel", "Kittiwake")]


def test_a_label_at_the_right_of_the_first_field_moves_none_above_the_others(tmp_path: Path) -> None:
    content = label(108, 700, "hours per week") + label(60, 676, "Name of vessel")
    fields = field("K-12", 60, 700, 40), field("Terna", 60, 658)
    right = [("hours per week", "K-12"), ("Name of vessel", "Terna")]
    for y in (642, 638, 634):
        found = read(tmp_path, content + label(60, y, "Please sign overleaf"), *fields)
        assert found == right


@pytest.mark.parametrize("pitch", [34, 38, 42, 46])
@pytest.mark.parametrize("low", [14, 17, 20, 24])
def test_a_first_field_without_words_does_not_move_the_labels_of_others(
    tmp_path: Path, pitch: float, low: float
) -> None:
    fields, content = [field("K-12", 60, 700)], ""
    right = [("Name of vessel", "Terna"), ("Home port", "Oslo"), ("Flag", "Norway")]
    for at, (name, value) in enumerate(right, 1):
        content += label(60, 700 - pitch * at + 16, name)
        fields.append(field(value, 60, 700 - pitch * at))
    content += label(60, 700 - 3 * pitch - low, "Please sign overleaf")
    found = read(tmp_path, content, *fields)
    assert found[0] == ("", "K-12")
    assert all(pair in right or not pair[0] for pair in found)


def test_labels_much_nearer_to_the_fields_below_them_stay_theirs(tmp_path: Path) -> None:
    content = label(60, 679, "Name of vessel") + label(60, 642, "Home port")
    content += label(60, 606, "Please sign overleaf")
    found = read(tmp_path, content, field("K-12", 60, 700), field("Terna", 60, 663), field("Oslo", 60, 626))
    assert found == [("", "K-12"), ("Name of vessel", "Terna"), ("Home port", "Oslo")]


def test_a_footer_is_not_the_label_of_a_last_field_over_labels_below(tmp_path: Path) -> None:
    content, fields = column_of_fields(36, 13)
    content += text_at(60, 700 - 4 * 36 - 17, "Please sign overleaf", 8)
    found = read(tmp_path, content, *fields, field("Oslo", 60, 700 - 4 * 36, 260))
    assert found == [*BELOW, ("", "Oslo")]


@pytest.mark.parametrize("pitch", [28, 30])
def test_labels_that_touch_the_fields_below_them_are_none(tmp_path: Path, pitch: float) -> None:
    content, fields = column_of_fields(pitch, 13)
    for heading in ("", text_at(60, 718, "Claim for benefits", 11)):
        found = read(tmp_path, heading + content, *fields)
        assert all(pair in BELOW or not pair[0] for pair in found)


def touching_rows(gap: float, low: float) -> tuple[str, list[str]]:
    """Labels above four fields in rows with a gap of so many points, a footer below them, and the fields."""
    tops = [716 - (28 + gap) * row for row in range(4)]
    names = [("Vessel", "Merlin"), ("Owner", "A. Berg"), ("Port of registry", "Bergen"), ("Engine", "Volvo")]
    content = "".join(text_at(62, top + 2, name, 9) for top, (name, _) in zip(tops, names, strict=True))
    content += text_at(60, tops[-1] - 16 - low, "Please sign overleaf", 9)
    return content, [
        text_field(f"/V ({value})", f"60 {top - 16} 260 {top}", f"f{top}")
        for top, (_, value) in zip(tops, names, strict=True)
    ]


@pytest.mark.parametrize("gap", [0, 1, 2, 4])
@pytest.mark.parametrize("low", [8, 13, 16])
def test_labels_above_fields_whose_rows_touch_stay_theirs_over_a_footer(
    tmp_path: Path, gap: float, low: float
) -> None:
    content, fields = touching_rows(gap, low)
    found = read(tmp_path, content, *fields)
    names = ["Vessel", "Owner", "Port of registry", "Engine"]
    assert [name for name, _ in found] == names


def test_a_footer_where_a_label_would_be_leaves_touching_rows_without_labels(tmp_path: Path) -> None:
    content, fields = touching_rows(0, 10)
    assert [name for name, _ in read(tmp_path, content, *fields)] == [""] * 4
