"""XML of documents: no entities, no references, and the text as it is shown."""

from __future__ import annotations

import io
from xml.etree.ElementTree import Element

import pytest

from corpus.office_files import archive
from vrag.corpus.formats.libreoffice import xml_parts
from vrag.corpus.formats.libreoffice.xml_parts import NAMES, XmlParts, parse_xml, shown_text
from vrag.errors import CorpusError

SPACES = " ".join(f'xmlns:{prefix}="{space}"' for prefix, space in NAMES.items())


def parse(content: str) -> Element:
    return parse_xml(io.BytesIO(f"<a {SPACES}>{content}</a>".encode()))


@pytest.mark.parametrize(
    "declared",
    [
        "<!DOCTYPE a>",
        '<!DOCTYPE a [<!ENTITY e "ha">]>',
        '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd">',
        '<!DOCTYPE a [<!ENTITY % p SYSTEM "http://127.0.0.1:9/p"> %p;]>',
    ],
)
def test_document_types_are_refused(declared: str) -> None:
    with pytest.raises(CorpusError, match="document type"):
        parse_xml(io.BytesIO(f"{declared}<a>words</a>".encode()))


@pytest.mark.parametrize("data", [b"", b"<a>", b"<a>&e;</a>", b"words", b"<a>\xff</a>", b"\x00\x01"])
def test_damaged_xml_is_an_error_of_the_document(data: bytes) -> None:
    with pytest.raises(CorpusError, match="damaged"):
        parse_xml(io.BytesIO(data))


def test_parts_that_unpack_to_too_much_are_refused_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = XmlParts(io.BytesIO(archive({"content.xml": "<a/>", "b.xml": f"<a>{'x' * 99}</a>"})))
    monkeypatch.setattr(xml_parts, "MAX_PART_BYTES", 50)
    assert parts.root("content.xml") is not None
    assert parts.root("missing.xml") is None
    with pytest.raises(CorpusError, match="unpacks"):
        parts.root("b.xml")


def test_no_archive_is_an_error_of_the_document() -> None:
    with pytest.raises(CorpusError, match="damaged"):
        XmlParts(io.BytesIO(b""))


def test_text_is_read_as_it_is_shown() -> None:
    content = (
        '<text:p>One<text:s text:c="2"/>two<text:tab/>three<text:line-break/>four'
        "<office:annotation><text:p>a comment</text:p></office:annotation> five</text:p>"
        "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
        "<draw:frame><svg:desc>described</svg:desc><draw:text-box><text:p>boxed</text:p></draw:text-box></draw:frame>"
    )
    assert shown_text(parse(content)) == "One  two\tthree\nfour five\nboxed"


def test_spaces_that_stand_for_many_are_bounded() -> None:
    assert len(shown_text(parse('<text:p>a<text:s text:c="99999999"/>b</text:p>'))) < 2000
