"""XFA forms: templates, data, and files that carry them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from corpus.pdf_files import assemble, text_at
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats import xfa
from vrag.corpus.formats.pdf import PdfFile
from vrag.corpus.formats.xfa import UNREAD_FORM, parse_xml, read_form
from vrag.errors import CorpusError
from vrag.types import ItemKind

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.types import Item

WAIT = "Please wait until this page is replaced."


def form(fields: str, data: str = "") -> str:
    """The text of a form with these fields and data."""
    subform = f'<subform name="f">{fields}</subform>'
    text, _ = read_form(
        {
            "template": f'<template xmlns="http://t">{subform}</template>'.encode(),
            "datasets": f'<x:datasets xmlns:x="http://d"><x:data><f>{data}</f></x:data></x:datasets>'.encode(),
        }
    )
    return text


def entry(name: str, caption: str = "", ui: str = "<textEdit/>", more: str = "") -> str:
    """A field."""
    heading = f"<caption><value><text>{caption}</text></value></caption>" if caption else ""
    return f'<field name="{name}"><ui>{ui}</ui>{heading}{more}</field>'


def shell(packets: str, entries: str = "/NeedsRendering true", annotation: str = "") -> bytes:
    """A PDF file whose page says to wait; `packets` is its form, as one stream."""
    content = text_at(72, 700, WAIT)
    return assemble(
        [
            f"<< /Type /Catalog /Pages 2 0 R {entries} /AcroForm << /Fields [] /XFA 6 0 R >> >>",
            "<< /Type /Pages /Kids [4 0 R] /Count 1 /MediaBox [0 0 612 792] >>",
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            (
                f"<< /Type /Page /Parent 2 0 R /Contents 5 0 R /Annots [{annotation}] "
                "/Resources << /Font << /F1 3 0 R >> >> >>"
            ),
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
            f"<< /Length {len(packets)} >>\nstream\n{packets}\nendstream",
        ]
    )


def packets_of(fields: str, data: str) -> str:
    """A form as one XML document."""
    return (
        '<xdp:xdp xmlns:xdp="http://x"><template xmlns="http://t">'
        f'<subform name="f">{fields}</subform></template><x:datasets xmlns:x="http://d">'
        f"<x:data><f>{data}</f></x:data></x:datasets></xdp:xdp>"
    )


def read_items(tmp_path: Path, data: bytes) -> list[Item]:
    path = tmp_path / "file.pdf"
    path.write_bytes(data)
    with PdfFile(
        read_source(path), ConversionContext(tmp_path / "items", CorpusOptions(ocr="never"))
    ) as file:
        return [file.item(ordinal) for ordinal in range(1, file.count + 1)]


def test_fields_have_places_in_the_text() -> None:
    fields = (
        '<draw name="d"><value><text>Berth application</text></value></draw>'
        + entry("berth", "Berth:")
        + entry("port", "Home port")
        + entry("water", "Water", "<checkButton/>", "<items><text>1</text></items>")
        + '<exclGroup name="kind"><caption><value><text>Kind</text></value></caption>'
        + entry("k1", "Full", "<checkButton/>", "<items><text>f</text></items>")
        + entry("k2", "Guest", "<checkButton/>", "<items><text>g</text></items>")
        + "</exclGroup>"
    )
    subform = f'<subform name="f">{fields}</subform>'
    data = "<berth>17-C</berth><water>1</water><kind>g</kind>"
    text, found = read_form(
        {
            "template": f'<template xmlns="http://t">{subform}</template>'.encode(),
            "datasets": f'<x:datasets xmlns:x="http://d"><x:data><f>{data}</f></x:data></x:datasets>'.encode(),
        }
    )
    places = [
        ([text[slice(*place)] for place in (*each.label, *each.values)], each.is_check) for each in found
    ]
    assert places == [
        (["Berth", "17-C"], False),
        (["Home port"], False),
        (["Water", "☑"], True),
        (["Kind", "Guest"], False),
    ]


def test_fields_are_placed_in_their_passages(tmp_path: Path) -> None:
    captions = [f"Field number {number}" for number in range(40)]
    fields = "".join(entry(f"n{number}", caption) for number, caption in enumerate(captions))
    data = "".join(f"<n{number}>value {number}</n{number}>" for number in range(40))
    path = tmp_path / "form.pdf"
    path.write_bytes(shell(packets_of(fields, data)))
    options = CorpusOptions(ocr="never", passage_chars=300)
    with PdfFile(read_source(path), ConversionContext(tmp_path / "items", options)) as file:
        items = [file.item(number) for number in range(2, file.count + 1)]
    assert len(items) > 2
    found = [
        [item.text[slice(*place)] for place in (*each.label, *each.values)]
        for item in items
        for each in item.facts.fields
    ]
    assert found == [[caption, f"value {number}"] for number, caption in enumerate(captions)]


def test_the_form_of_a_page_that_says_to_wait_is_a_passage(tmp_path: Path) -> None:
    data = shell(packets_of(entry("berth", "Berth asked for"), "<berth>17-C</berth>"))
    page, passage = read_items(tmp_path, data)
    assert (page.kind, page.text) == (ItemKind.PAGE, WAIT)
    assert (passage.kind, passage.ordinal, passage.text) == (ItemKind.PASSAGE, 2, "Berth asked for: 17-C")
    assert page.facts.unread == passage.facts.unread == ()


@pytest.mark.parametrize("packets", ["no XML", "<xdp/>", packets_of("", "<berth>17-C</berth>")])
def test_a_form_that_cannot_be_read_is_told_of(tmp_path: Path, packets: str) -> None:
    (page,) = read_items(tmp_path, shell(packets))
    assert page.facts.unread == (UNREAD_FORM,)


def test_a_form_with_fields_on_its_page_is_not_read_twice(tmp_path: Path) -> None:
    widget = "<< /Type /Annot /Subtype /Widget /FT /Tx /T (a) /Rect [72 600 200 620] /F 4 >>"
    data = shell(packets_of(entry("berth", "Berth"), "<berth>17-C</berth>"), "", widget)
    (page,) = read_items(tmp_path, data)
    assert page.facts.unread == ()


def test_a_signature_that_is_not_seen_is_no_field_on_the_page(tmp_path: Path) -> None:
    widget = "<< /Type /Annot /Subtype /Widget /FT /Sig /T (s) /Rect [0 0 0 0] >>"
    data = shell(packets_of(entry("berth", "Berth"), "<berth>17-C</berth>"), annotation=widget)
    assert [item.text for item in read_items(tmp_path, data)] == [WAIT, "Berth: 17-C"]


def test_fields_have_the_values_of_the_data_before_those_of_the_template() -> None:
    value = "<value><text>none</text></value>"
    fields = entry("a", "First:", more=value) + entry("b", "Second", more=value) + entry("c", "Third")
    assert form(fields, "<a>1</a><c/>") == "First: 1\nSecond: none\nThird"


def test_a_field_without_a_caption_has_its_tip_or_its_name() -> None:
    tip = "<assist><toolTip>Name of the boat</toolTip></assist>"
    assert form(entry("boat", more=tip) + entry("berth"), "<boat>Tern</boat><berth>4</berth>") == (
        "Name of the boat: Tern\nberth: 4"
    )


def test_each_part_of_a_form_has_its_own_data() -> None:
    """Fields of the same name in other parts, and in rows that repeat."""
    part = '<subform name="{0}">{1}</subform>'
    row = f'<subform name="row"><occur min="0" max="-1"/>{entry("n", "Row")}</subform>'
    fields = part.format("one", entry("n", "One")) + part.format("two", entry("n", "Two")) + row
    data = "<two><n>2</n></two><one><n>1</n></one><row><n>x</n></row><row><n>y</n></row>"
    assert form(fields, data) == "One: 1\nTwo: 2\nRow: x\nRow: y"
    assert form(fields, "<one><n>1</n></one>") == "One: 1\nTwo"


def test_fields_of_one_name_take_values_in_their_order() -> None:
    assert form(entry("n", "A") + entry("n", "B"), "<n>1</n><n>2</n>") == "A: 1\nB: 2"


@pytest.mark.parametrize("presence", ["hidden", "invisible", "inactive"])
def test_what_the_template_hides_is_left_out(presence: str) -> None:
    hidden = entry("a", "A").replace("<field", f'<field presence="{presence}"')
    assert form(hidden + entry("b", "B"), "<a>secret</a><b>seen</b>") == "B: seen"


def test_choices_are_read_as_they_are_shown() -> None:
    items = (
        "<items><text>Oak jetty</text><text>Elm jetty</text></items>"
        '<items save="1" presence="hidden"><text>1</text><text>2</text></items>'
    )
    assert form(entry("j", "Jetty", "<choiceList/>", items), "<j>2</j>") == "Jetty: Elm jetty"


def test_choices_of_a_list_in_the_data_are_read_as_they_are_shown() -> None:
    items = '<bindItems ref="xfa.datasets.Lists.Jetty[*]" labelRef="$" valueRef="code"/>'
    template = (
        f'<template><subform name="f">{entry("j", "Jetty", "<choiceList/>", items)}</subform></template>'
    )
    lists = '<Lists><Jetty code="1">Oak</Jetty><Jetty code="2">Elm</Jetty></Lists>'
    datasets = f"<datasets><data><f><j>2</j></f></data>{lists}</datasets>"
    text, _ = read_form({"template": template.encode(), "datasets": datasets.encode()})
    assert text == "Jetty: Elm"


def test_buttons_have_marks_of_their_states() -> None:
    check = entry("c", "Insured", "<checkButton/>", "<items><text>Y</text></items>")
    radios = "".join(
        entry(name, name, "<checkButton/>", f"<items><text>{value}</text></items>")
        for name, value in (("Full", "f"), ("Part", "p"))
    )
    fields = f'{check}<exclGroup name="cover">{radios}</exclGroup>{entry("b", "Send", "<button/>")}'
    assert form(fields, "<c>Y</c><cover>p</cover>") == "☑ Insured\n○ Full\n◉ Part"
    assert form(fields) == "☐ Insured\n○ Full\n○ Part"


def test_texts_of_the_template_are_lines_and_pictures_are_not() -> None:
    rich = "<draw><value><exData><body><p>One <b>bold</b></p><p>two</p></body></exData></value></draw>"
    assert form(f"{rich}<draw><value><image>AAAA</image></value></draw>") == "One bold\ntwo"


def test_ampersands_that_are_not_escaped_are_text() -> None:
    assert form(entry("a", "A &amp; B"), "<a>C & D &nbsp; &#65;</a>") == "A & B: C & D &nbsp; A"


BOMB = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 9))


@pytest.mark.parametrize(
    "head",
    [
        f'<!DOCTYPE template [<!ENTITY e0 "ha">{BOMB}]>',
        '<!DOCTYPE template [<!ENTITY e8 SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE template SYSTEM "http://127.0.0.1:9/a.dtd">',
    ],
)
def test_document_types_are_refused(head: str) -> None:
    with pytest.raises(CorpusError, match="document type"):
        parse_xml(f"{head}<template>&e8;</template>".encode())


@pytest.mark.parametrize(
    "data", [b"", b"<a>", b"<a/><b/>", b"\xff\xfe\x00", b'<?xml version="1.0" encoding="none"?><a/>']
)
def test_damaged_xml_is_an_error(data: bytes) -> None:
    with pytest.raises(CorpusError, match="damaged"):
        parse_xml(data)


def test_xml_that_is_too_deep_or_too_large_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorpusError, match="too large"):
        parse_xml(b"<a>" * 10_000 + b"</a>" * 10_000)
    monkeypatch.setattr(xfa, "MAX_ELEMENTS", 100)
    with pytest.raises(CorpusError, match="too large"):
        parse_xml(b"<a>" + b"<b/>" * 200 + b"</a>")
    monkeypatch.setattr(xfa, "MAX_BYTES", 10)
    with pytest.raises(CorpusError, match="too large"):
        read_form({"template": b"<template>          </template>"})
