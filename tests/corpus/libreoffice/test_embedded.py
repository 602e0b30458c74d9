"""Documents embedded in others are read, or the document says that they are not."""

from __future__ import annotations

import io

from corpus.office_files import archive, docx
from vrag.corpus.formats.libreoffice.embedded import (
    MAX_BYTES,
    RELATIONS,
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
