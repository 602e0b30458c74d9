"""Documents embedded in others are read, or the document says that they are not."""

from __future__ import annotations

import io

from corpus.office_files import archive, docx
from vrag.corpus.formats.libreoffice.embedded import (
    MAX_BYTES,
    RELATIONS,
    UNREAD_DIAGRAM,
    UNREAD_LIST,
    EmbeddedTexts,
    read_embedded,
)

CHUNK = '<w:altChunk r:id="r2"/>'


def test_an_embedded_web_page_is_read_with_its_headings() -> None:
    data = docx(CHUNK, chunk="<h1>Fees</h1><p>The berth costs EUR 54.</p>")
    embedded = read_embedded(io.BytesIO(data))
    section = embedded.sections[-1]
    assert section.headings == ("Embedded document", "Fees")
    assert "EUR 54" in section.text
    assert embedded.unread == ()


def test_an_embedded_document_of_another_kind_is_told() -> None:
    data = docx(CHUNK, chunk="MIME-Version: 1.0", chunk_name="chunk.mht")
    embedded = read_embedded(io.BytesIO(data))
    assert embedded.sections == ()
    (sentence,) = embedded.unread
    assert "(.mht), which is not read" in sentence


def test_a_list_with_a_document_type_is_told_and_not_read() -> None:
    declared = '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    for relations in (f"{declared}<a/>", "<a>", "<a>" + " " * MAX_BYTES + "</a>"):
        embedded = read_embedded(io.BytesIO(archive({RELATIONS: relations})))
        assert embedded == EmbeddedTexts((), (UNREAD_LIST,))


def test_files_without_embedded_documents_have_none() -> None:
    for data in (docx("<w:p/>"), archive({"a": "b"}), b"\xd0\xcf\x11\xe0", b""):
        assert read_embedded(io.BytesIO(data)) == ((), ())


def workbook_with_diagram(diagram: str, state: str = "visible") -> io.BytesIO:
    names = {"xl/workbook.xml": f'<workbook><sheets><sheet state="{state}"/></sheets></workbook>'}
    return io.BytesIO(archive({**names, "xl/diagrams/data1.xml": diagram}))


def test_diagrams_of_a_workbook_are_passages_and_those_that_may_be_hidden_are_told() -> None:
    spaces = 'xmlns:d="urn:d" xmlns:a="urn:a"'
    first, second = "<a:r><a:t>Moor</a:t></a:r><a:r><a:t> the boat</a:t></a:r>", "<a:r><a:t>Pay</a:t></a:r>"
    steps = f"<a:p>{first}</a:p><a:p/><a:p>{second}</a:p>"
    diagram = f"<d:dataModel {spaces}><d:pt><d:t>{steps}</d:t></d:pt></d:dataModel>"
    (section,) = read_embedded(workbook_with_diagram(diagram)).sections
    assert (section.headings, section.text) == (("Diagram",), "Moor the boat\nPay")
    declared = f'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]>{diagram}'
    for file in (workbook_with_diagram(diagram, "hidden"), workbook_with_diagram(declared)):
        assert read_embedded(file) == EmbeddedTexts((), (UNREAD_DIAGRAM,))


RELATIONS_OF = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r9" Type="http://x/{kind}" Target="{target}"{more}/></Relationships>'
)
IDS = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" xmlns:o="urn:o"'


def with_object(
    placed: str,
    *,
    part: str = "word/document.xml",
    target: str = "embeddings/fees.xlsx",
    kind: str = "package",
    more: str = "",
) -> EmbeddedTexts:
    folder, _, name = part.rpartition("/")
    relations = RELATIONS_OF.format(kind=kind, target=target, more=more)
    parts = {part: f"<a {IDS}>{placed}</a>", f"{folder}/_rels/{name}.rels": relations}
    return read_embedded(io.BytesIO(archive(parts)))


PICTURE = "<o:shape><o:imagedata/></o:shape>"


def test_objects_that_pages_show_as_an_icon_or_not_at_all_are_told() -> None:
    icon = f'<o:object>{PICTURE}<o:OLEObject DrawAspect="Icon" r:id="r9"/></o:object>'
    without_picture = '<o:object><o:OLEObject DrawAspect="Content" r:id="r9"/></o:object>'
    slide = '<o:oleObj showAsIcon="1" r:id="r9"/>'
    sheet = '<o:oleObject dvAspect="DVASPECT_ICON" r:id="r9"/>'
    for part, placed in (
        ("word/document.xml", icon),
        ("word/footnotes.xml", without_picture),
        ("ppt/slides/slide1.xml", slide),
        ("xl/worksheets/sheet1.xml", sheet),
    ):
        (sentence,) = with_object(placed, part=part).unread
        assert "has an embedded document (.xlsx) that is not read" in sentence


def test_an_object_without_a_suffix_has_the_name_of_its_program() -> None:
    placed = '<o:object><o:OLEObject ProgID="Acrobat.Document.11" DrawAspect="Icon" r:id="r9"/></o:object>'
    (sentence,) = with_object(placed, target="embeddings/oleObject1.bin", kind="oleObject").unread
    assert "(Acrobat.Document.11)" in sentence


def test_objects_that_pages_draw_and_data_of_charts_are_not_told() -> None:
    drawn = f'<o:object>{PICTURE}<o:OLEObject DrawAspect="Content" r:id="r9"/></o:object>'
    icon = '<o:oleObj showAsIcon="1" r:id="r9"/>'
    assert with_object(drawn).unread == ()
    assert with_object("<o:externalData r:id='r9'/>", part="word/charts/chart1.xml").unread == ()
    assert with_object('<o:oleObj r:id="r9"/>', part="ppt/slides/slide1.xml").unread == ()
    assert with_object(icon, more=' TargetMode="External"').unread == ()


def test_a_part_with_objects_that_declares_a_document_type_is_told() -> None:
    parts = {
        "ppt/slides/slide1.xml": '<!DOCTYPE a [<!ENTITY e "x">]><a/>',
        "ppt/slides/_rels/slide1.xml.rels": RELATIONS_OF.format(kind="package", target="a.xlsx", more=""),
    }
    (sentence,) = read_embedded(io.BytesIO(archive(parts))).unread
    assert "may have embedded documents" in sentence
