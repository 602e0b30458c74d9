from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.texts import epub
from vrag.corpus.formats.texts.epub import EpubFile
from vrag.errors import CorpusError
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vrag.types import Item

CONTAINER = '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>'
CONTENTS = """<?xml version="1.0"?><package><metadata><dc:title>The Lamp</dc:title></metadata><manifest>
<item id="last" href="last.xhtml" media-type="application/xhtml+xml"/>
<item id="first" href="text/chapter%201.xhtml" media-type="application/xhtml+xml"/>
<item id="map" href="map.png" media-type="image/png"/></manifest>
<spine><itemref idref="first"/><itemref idref="last"/></spine></package>"""
FIRST = """<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml">
<head><title/><script src="a.js"/></head>
<body><h1>Oil</h1><p>The lamp <i/>burns colza.</p><svg><image xlink:href="../map.png"/></svg></body></html>"""
LAST = "<html><body><h1>Gas</h1><table><tr><th>Year<th>Lamps<tr><td>1901<td>48</table></body></html>"


def png() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (50, 50), "red").save(file, "PNG")
    return file.getvalue()


def book_bytes(changes: Mapping[str, str | bytes | None] = {}) -> bytes:
    members: dict[str, str | bytes | None] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OPS/book.opf": CONTENTS,
        "OPS/text/chapter 1.xhtml": FIRST,
        "OPS/last.xhtml": LAST,
        "OPS/map.png": png(),
        **changes,
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            if data is not None:
                archive.writestr(name, data)
    return file.getvalue()


def write_book(path: Path, changes: Mapping[str, str | bytes | None] = {}) -> Path:
    path.write_bytes(book_bytes(changes))
    return path


def items_of(path: Path) -> list[Item]:
    context = ConversionContext(path.parent / "items", CorpusOptions(ocr="never"))
    with EpubFile(read_source(path), context) as file:
        return [file.item(ordinal) for ordinal in range(1, file.count + 1)]


def test_chapters_come_in_reading_order_and_pictures_after_them(tmp_path: Path) -> None:
    first, last, picture = items_of(write_book(tmp_path / "a.epub"))
    assert (first.heading, first.text) == ("The Lamp › Oil", "Oil\n\nThe lamp burns colza.")
    assert last.heading == "The Lamp › Gas"
    assert last.facts.tables[0].header_rows == 1
    assert (picture.kind, picture.heading) == (ItemKind.PAGE, "The Lamp › Oil")


def test_the_title_of_a_chapter_with_headings_is_no_text(tmp_path: Path) -> None:
    head = "<html><head><title>Wicks</title></head>"
    changes = {"OPS/last.xhtml": f"{head}<body><h1>Wicks</h1><p>Trim them.</p></body></html>"}
    texts = [item.text for item in items_of(write_book(tmp_path / "a.epub", changes))]
    assert "Wicks\n\nTrim them." in texts
    assert "Wicks" not in texts
    changes = {"OPS/last.xhtml": f"{head}<body><p>Trim them.</p></body></html>"}
    texts = [item.text for item in items_of(write_book(tmp_path / "b.epub", changes))]
    assert any(text.startswith("Wicks") for text in texts), "without headings, it is the only one"


def encryption(method: str, *names: str) -> str:
    entries = "".join(
        f'<enc:EncryptedData><enc:EncryptionMethod Algorithm="{method}"/><enc:CipherData>'
        f'<enc:CipherReference URI="{name}"/></enc:CipherData></enc:EncryptedData>'
        for name in names
    )
    return f'<encryption xmlns:enc="x">{entries}</encryption>'


def test_an_encrypted_chapter_is_told(tmp_path: Path) -> None:
    told = {"META-INF/encryption.xml": encryption("http://x/aes256-cbc", "OPS/text/chapter%201.xhtml")}
    items = items_of(write_book(tmp_path / "a.epub", told))
    assert [item.heading for item in items] == ["The Lamp › Gas"]
    assert "encrypted chapter (DRM), OPS/text/chapter 1.xhtml" in items[0].facts.unread[0]


def test_a_book_with_drm_is_refused(tmp_path: Path) -> None:
    names = "OPS/text/chapter%201.xhtml", "OPS/last.xhtml"
    told = {"META-INF/encryption.xml": encryption("http://x/aes256-cbc", *names)}
    with pytest.raises(CorpusError, match="DRM"):
        items_of(write_book(tmp_path / "a.epub", told))


def test_hidden_fonts_leave_the_text_as_it_is(tmp_path: Path) -> None:
    told = {"META-INF/encryption.xml": encryption(epub.FONTS[0], "OPS/last.xhtml")}
    assert len(items_of(write_book(tmp_path / "a.epub", told))) == 3


def test_a_missing_chapter_is_told(tmp_path: Path) -> None:
    items = items_of(write_book(tmp_path / "a.epub", {"OPS/last.xhtml": None}))
    assert any("OPS/last.xhtml" in sentence for item in items for sentence in item.facts.unread)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("META-INF/container.xml", None),
        ("META-INF/container.xml", "<container/>"),
        ("META-INF/container.xml", CONTAINER.replace("OPS/book.opf", "../../etc/passwd")),
        ("OPS/book.opf", None),
        ("OPS/book.opf", "<package><spine/></package>"),
    ],
)
def test_a_book_without_contents_has_a_reason(tmp_path: Path, name: str, data: str | None) -> None:
    with pytest.raises(CorpusError, match=r"The book (has no file|lists no chapter)"):
        items_of(write_book(tmp_path / "a.epub", {name: data}))


def test_entities_of_xml_mean_nothing(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;"><!ENTITY f SYSTEM "file:///etc/hostname">]>'
    chapter = f"{bomb}<html><body><p>The lamp &b; &f; burns.</p></body></html>"
    first, *_ = items_of(write_book(tmp_path / "a.epub", {"OPS/text/chapter 1.xhtml": chapter}))
    assert "aaaa" not in first.text
    assert "burns" in first.text


def test_a_book_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epub, "MAX_MEMBER_BYTES", 10_000)
    with pytest.raises(CorpusError, match="unpacks to more"):
        items_of(write_book(tmp_path / "a.epub", {"OPS/last.xhtml": "<p>" + "0" * 20_000}))


def test_what_is_no_archive_has_a_reason(tmp_path: Path) -> None:
    (tmp_path / "a.epub").write_bytes(b"PK\x03\x04 no book")
    with pytest.raises(CorpusError, match="damaged"):
        items_of(tmp_path / "a.epub")
