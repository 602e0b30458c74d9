"""Small office documents written by hand, and programs that stand in for LibreOffice.

A stand-in is a script named `soffice`: what it does is up to the test, and it runs where LibreOffice
is not installed.
"""

from __future__ import annotations

import io
import struct
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from corpus.pdf_files import PdfPage, pdf_bytes, text_at

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMESPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{where}:1.0"'
    for name, where in (
        ("office", "office"),
        ("text", "text"),
        ("table", "table"),
        ("draw", "drawing"),
        ("svg", "svg-compatible"),
        ("style", "style"),
        ("fo", "xsl-fo-compatible"),
    )
)
LINKS = 'xmlns:xlink="http://www.w3.org/1999/xlink"'
BREAK = (
    '<office:automatic-styles><style:style style:name="B" style:family="paragraph">'
    '<style:paragraph-properties fo:break-before="page"/></style:style></office:automatic-styles>'
)


def archive(parts: dict[str, str]) -> bytes:
    """A ZIP file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in parts.items():
            target.writestr(name, content)
    return file.getvalue()


def open_document(kind: str, body: str, entry: str = "") -> bytes:
    """An OpenDocument file.

    Args:
        kind: text, spreadsheet or presentation.
        body: What it holds.
        entry: What the manifest says of the content.
    """
    media = f"application/vnd.oasis.opendocument.{kind}"
    manifest = (
        '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0" '
        f'manifest:version="1.2"><manifest:file-entry manifest:full-path="/" manifest:media-type="{media}"/>'
        f'<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml">{entry}'
        "</manifest:file-entry></manifest:manifest>"
    )
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document-content {NAMESPACES} {LINKS} '
        f'office:version="1.2">{BREAK}<office:body><office:{kind}>{body}</office:{kind}></office:body>'
        "</office:document-content>"
    )
    return archive({"mimetype": media, "META-INF/manifest.xml": manifest, "content.xml": content})


def odt(*pages: str) -> bytes:
    """A text with one paragraph a page."""
    paragraphs = [
        f'<text:p text:style-name="{"B" if n else "A"}">{page}</text:p>' for n, page in enumerate(pages)
    ]
    return open_document("text", "".join(paragraphs))


def ods(*sheets: str) -> bytes:
    """A workbook with one cell a sheet."""
    return open_document(
        "spreadsheet",
        "".join(
            f'<table:table table:name="S{n}"><table:table-row><table:table-cell office:value-type="string">'
            f"<text:p>{sheet}</text:p></table:table-cell></table:table-row></table:table>"
            for n, sheet in enumerate(sheets)
        ),
    )


def odp(*slides: str) -> bytes:
    """Slides with one box of text each."""
    return open_document(
        "presentation",
        "".join(
            f'<draw:page draw:name="p{n}">'
            '<draw:frame svg:x="2cm" svg:y="2cm" svg:width="20cm" svg:height="3cm">'
            f"<draw:text-box><text:p>{slide}</text:p></draw:text-box></draw:frame></draw:page>"
            for n, slide in enumerate(slides)
        ),
    )


def rtf(*pages: str) -> bytes:
    """Rich text."""
    return ("{\\rtf1\\ansi " + "\\page ".join(f"{page}\\par " for page in pages) + "}").encode()


def encrypted_odt() -> bytes:
    """A text whose manifest says that a password is needed."""
    entry = '<manifest:encryption-data manifest:checksum-type="SHA1/1K"/>'
    return open_document("text", "<text:p>secret</text:p>", entry)


def compound(*streams: str) -> bytes:
    """A compound file (MS-CFB) with a directory that names streams, all of them empty."""
    free, end, table = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
    head = struct.pack(
        "<8s16xHHHHH6xIIIIIIIIII",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        *(0x3E, 3, 0xFFFE, 9, 6),
        *(0, 1, 1, 0, 4096, end, 0, end, 0, 0),
    )
    head += struct.pack("<108I", *[free] * 108)
    entries = b"".join(
        name.encode("utf-16-le").ljust(64, b"\0")
        + struct.pack("<HBBIII36xIQ", 2 * len(name) + 2, 5 if n == 0 else 2, 1, free, free, free, end, 0)
        for n, name in enumerate(("Root Entry", *streams))
    )
    return head[:512] + struct.pack("<128I", table, end, *[free] * 126) + entries.ljust(512, b"\0")


def zip_bomb(declared: int, name: str = "word/document.xml") -> bytes:
    """A document of which a part says in the list of contents that it unpacks to `declared` bytes."""
    data = bytearray(archive({"[Content_Types].xml": "<Types/>", name: "0" * 100_000}))
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", declared)
    return bytes(data)


def stand_in(folder: Path, does: str) -> Path:
    """Writes a program `soffice`.

    Args:
        folder: Where to.
        does: Python; `outdir` and `document` are the paths it was given, `save(pages)` writes a PDF.
    """
    pages = [
        pdf_bytes(*(PdfPage(text_at(72, 700, f"this is page {n}")) for n in range(count)))
        for count in range(9)
    ]
    program = folder / "soffice"
    program.write_text(
        f"#!{sys.executable} -IS\n"
        "import os, sys, time\nfrom pathlib import Path\nfrom urllib.parse import unquote\n"
        'profile = next(each.partition("file://")[2] for each in sys.argv if "file://" in each)\n'
        "work_dir = Path(unquote(profile)).parent\n"
        'outdir, document = work_dir / "out", next((work_dir / "document").iterdir())\n'
        f"PAGES = {pages!r}\n"
        "def save(pages):\n"
        "    outdir.mkdir(exist_ok=True)\n"
        '    (outdir / "document.pdf").write_bytes(PAGES[pages])\n' + textwrap.dedent(does)
    )
    program.chmod(0o755)
    return program


OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
EXCEL = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
WORD_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml"
EXCEL_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def _package(
    main: str, types: dict[str, str], relations: Sequence[tuple[str, str]], parts: dict[str, str]
) -> bytes:
    """An Office Open XML file.

    Args:
        main: Path of the main part.
        types: Media type of each part, by its path.
        relations: Kinds of relation of the main part, with the path of the other one from its folder.
        parts: Contents by path.
    """
    overrides = "".join(
        f'<Override PartName="/{path}" ContentType="{media}"/>' for path, media in types.items()
    )
    relation = '<Relationship Id="{}" Type="' + OFFICE + '/{}" Target="{}"/>'
    listed = "".join(relation.format(f"r{n}", kind, path) for n, (kind, path) in enumerate(relations, 1))
    folder, _, name = main.rpartition("/")
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    return archive(
        {
            "[Content_Types].xml": f'{head}<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Default Extension="html" ContentType="text/html"/>'
            f'<Default Extension="mht" ContentType="message/rfc822"/>{overrides}</Types>',
            "_rels/.rels": f'{head}<Relationships xmlns="{PACKAGE}/relationships">'
            f"{relation.format('r1', 'officeDocument', main)}</Relationships>",
            f"{folder}/_rels/{name}.rels": f'{head}<Relationships xmlns="{PACKAGE}/relationships">{listed}'
            "</Relationships>",
        }
        | {path: f"{head}{content}" if path.endswith(".xml") else content for path, content in parts.items()}
    )


def docx(body: str, comments: str = "", chunk: str = "", chunk_name: str = "chunk.html") -> bytes:
    """A text of Word.

    Args:
        body: Its paragraphs and tables, with the prefix `w`.
        comments: Elements `w:comment`.
        chunk: An embedded document, for an element `w:altChunk r:id="r2"`.
        chunk_name: Its name in the archive.
    """
    names = f'xmlns:w="{WORD}" xmlns:r="{OFFICE}"'
    types = {
        "word/document.xml": f"{WORD_TYPE}.document.main+xml",
        "word/comments.xml": f"{WORD_TYPE}.comments+xml",
    }
    return _package(
        "word/document.xml",
        types,
        [("comments", "comments.xml"), *([("aFChunk", chunk_name)] if chunk else [])],
        {
            "word/document.xml": f"<w:document {names}><w:body>{body}</w:body></w:document>",
            "word/comments.xml": f"<w:comments {names}>{comments}</w:comments>",
        }
        | ({f"word/{chunk_name}": chunk} if chunk else {}),
    )


def word_run(text: str, properties: str = "", element: str = "t") -> str:
    """A run of text in Word."""
    return f'<w:r><w:rPr>{properties}</w:rPr><w:{element} xml:space="preserve">{text}</w:{element}></w:r>'


def xlsx(*sheets: str, names: Sequence[str] = (), hidden: Sequence[str] = (), styles: str = "") -> bytes:
    """A workbook of Excel.

    Args:
        sheets: What is in each, from `cols` or `sheetData` on.
        names: Their names; S1, S2, … for those without.
        hidden: Names of those that are hidden.
        styles: What the part of the styles has.
    """
    named = [*names, *(f"S{n}" for n in range(len(names) + 1, len(sheets) + 1))]
    states = ["hidden" if name in hidden else "visible" for name in named]
    entries = "".join(
        f'<sheet name="{name}" sheetId="{n}" state="{state}" r:id="r{n}"/>'
        for n, (name, state) in enumerate(zip(named, states, strict=True), 1)
    )
    paths = [f"xl/worksheets/sheet{n}.xml" for n in range(1, len(sheets) + 1)]
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{EXCEL}" xmlns:r="{OFFICE}"><sheets>{entries}</sheets>'
        "</workbook>",
        "xl/styles.xml": f'<styleSheet xmlns="{EXCEL}">{styles}</styleSheet>',
    }
    for path, sheet in zip(paths, sheets, strict=True):
        parts[path] = f'<worksheet xmlns="{EXCEL}" xmlns:r="{OFFICE}">{sheet}</worksheet>'
    types = dict.fromkeys(paths, f"{EXCEL_TYPE}.worksheet+xml")
    types |= {"xl/workbook.xml": f"{EXCEL_TYPE}.sheet.main+xml", "xl/styles.xml": f"{EXCEL_TYPE}.styles+xml"}
    relations = [("worksheet", path.removeprefix("xl/")) for path in paths] + [("styles", "styles.xml")]
    return _package("xl/workbook.xml", types, relations, parts)


def row_of(number: int, *cells: str | float | None, attributes: str = "", style: int = 0) -> str:
    """A row of a worksheet: text, numbers, formulas (which begin with "=") and empty cells."""
    written = "".join(
        _cell(f"{chr(64 + column)}{number}", value, style)
        for column, value in enumerate(cells, 1)
        if value is not None
    )
    return f'<row r="{number}" {attributes}>{written}</row>'


def _cell(address: str, value: str | float, style: int) -> str:
    if not isinstance(value, str):
        return f'<c r="{address}" s="{style}"><v>{value}</v></c>'
    if value.startswith("="):
        return f'<c r="{address}"><f>{value[1:]}</f></c>'
    return f'<c r="{address}" t="inlineStr"><is><t>{value}</t></is></c>'
