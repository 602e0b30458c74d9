"""Comments that LibreOffice does not store are read from the file itself, with their places."""

from __future__ import annotations

import io

import pytest

from corpus.office_files import archive
from vrag.corpus.formats.libreoffice.stored_comments import StoredComments, read_stored_comments

IDS = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'


def relations(**targets: str) -> str:
    """Relations by their ids: "kind target"."""
    entries = ""
    for name, target in targets.items():
        kind, path = target.split()
        entries += f'<Relationship Id="{name}" Type="http://schemas.example/{kind}" Target="{path}"/>'
    return f'<Relationships xmlns="urn:relations">{entries}</Relationships>'


def read(parts: dict[str, str]) -> StoredComments:
    return read_stored_comments(io.BytesIO(archive(parts)))


WORKBOOK = {
    "xl/workbook.xml": f'<workbook xmlns="urn:x" {IDS}><sheet name="Fees &amp; more" r:id="a"/></workbook>',
    "xl/_rels/workbook.xml.rels": relations(
        a="worksheet worksheets/sheet1.xml", b="person persons/person.xml"
    ),
    "xl/worksheets/_rels/sheet1.xml.rels": relations(t="threadedComment /xl/threads/one.xml"),
    "xl/persons/person.xml": '<persons xmlns="urn:p"><person id="7" displayName="Ada Quist"/></persons>',
    "xl/threads/one.xml": (
        '<ThreadedComments xmlns="urn:t">'
        '<threadedComment ref="C14" dT="2026-02-03T1:0" personId="7"><text>Audited?</text></threadedComment>'
        '<threadedComment ref="C14" personId="8"><text>Yes.</text></threadedComment>'
        '<threadedComment ref="D2"><text> </text></threadedComment></ThreadedComments>'
    ),
}


def test_a_thread_of_a_cell_has_its_sheet_its_address_and_all_replies() -> None:
    assert read(WORKBOOK).cells == {("Fees & more", "C14"): ["Ada Quist, 2026-02-03: Audited?", "Yes."]}


def test_plain_comments_of_cells_have_authors_and_none_stands_for_a_thread() -> None:
    relation = WORKBOOK["xl/worksheets/_rels/sheet1.xml.rels"]
    notes = (
        '<comments xmlns="urn:x"><authors><author>Ada</author><author>tc={1}</author></authors><commentList>'
        '<comment ref="A1" authorId="0"><text><r><t>Why </t></r><r><t>12?</t></r></text></comment>'
        '<comment ref="A2" authorId="0"><text><t>Ada:\nWhy?</t></text></comment>'
        '<comment ref="A3" authorId="9"><text><t>Paid.</t></text></comment>'
        '<comment ref="C14" authorId="1"><text><t>[Threaded comment]</t></text></comment>'
        "</commentList></comments>"
    )
    both = relation.replace("</R", '<Relationship Id="n" Type="x/comments" Target="../notes.xml"/></R')
    cells = read(WORKBOOK | {"xl/worksheets/_rels/sheet1.xml.rels": both, "xl/notes.xml": notes}).cells
    assert {address: comments for (_, address), comments in cells.items()} == {
        "A1": ["Ada: Why 12?"],
        "A2": ["Ada:\nWhy?"],
        "A3": ["Paid."],
        "C14": ["Ada Quist, 2026-02-03: Audited?", "Yes."],
    }


def presentation(*slides: str, comments: str, kind: str = "comments") -> dict[str, str]:
    """A presentation whose last slide has comments."""
    numbers = range(1, len(slides) + 1)
    listed = "".join(f'<p:sldId id="{number}" r:id="s{number}"/>' for number in numbers)
    parts = {f"ppt/slides/slide{number}.xml": slide for number, slide in zip(numbers, slides, strict=True)}
    named = {f"s{number}": f"slide slides/slide{number}.xml" for number in numbers}
    return parts | {
        "ppt/presentation.xml": f'<p:presentation xmlns:p="urn:p" {IDS}>{listed}</p:presentation>',
        "ppt/_rels/presentation.xml.rels": relations(**named, a="authors authors.xml"),
        "ppt/authors.xml": '<authorLst xmlns="urn:q"><author id="{9}" name="Vera Quist"/></authorLst>',
        f"ppt/slides/_rels/slide{len(slides)}.xml.rels": relations(c=f"{kind} ../comments/c.xml"),
        "ppt/comments/c.xml": comments,
    }


SLIDE, HIDDEN = '<p:sld xmlns:p="urn:p"/>', '<p:sld xmlns:p="urn:p" show="0"/>'
MODERN = (
    '<c:cmLst xmlns:c="urn:c" xmlns:a="urn:a"><c:cm authorId="{9}" created="2026-05-06T01:02:03">'
    '<c:replyLst><c:reply authorId="{9}"><c:txBody><a:p><a:t>Done.</a:t></a:p></c:txBody></c:reply>'
    "</c:replyLst><c:txBody><a:p><a:t>Check</a:t></a:p><a:p><a:t>this.</a:t></a:p></c:txBody></c:cm></c:cmLst>"
)


def test_modern_comments_and_replies_have_the_number_of_their_slide_among_those_shown() -> None:
    parts = presentation(SLIDE, HIDDEN, SLIDE, comments=MODERN)
    assert read(parts).slides == {2: ["Vera Quist, 2026-05-06: Check\nthis.", "Vera Quist: Done."]}


def test_comments_of_hidden_slides_are_left_out() -> None:
    assert read(presentation(SLIDE, HIDDEN, comments=MODERN)).slides == {}


def test_plain_comments_are_read_whatever_the_prefix_of_their_names() -> None:
    comments = '<n:a xmlns:n="urn:p"><n:cm dt="2026-01-02T00:00"><n:text>Late.</n:text></n:cm></n:a>'
    assert read(presentation(SLIDE, comments=comments)).slides == {1: ["2026-01-02: Late."]}


@pytest.mark.parametrize(
    "part",
    [
        '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>',
        "<a>",
        "",
    ],
)
def test_a_part_that_is_refused_or_damaged_costs_no_document(part: str) -> None:
    assert read(WORKBOOK | {"xl/threads/one.xml": part}) == StoredComments()


def test_another_file_has_no_comments() -> None:
    assert read_stored_comments(io.BytesIO(b"not an archive")) == StoredComments()
    assert read({"content.xml": "<a/>"}) == StoredComments()
