"""Documents of headings, paragraphs and tables, written as text, Markdown, HTML, Word, Excel and PDF files.

The same document gives the same bytes: no file says when it was made.
"""

from __future__ import annotations

import io
import re
import textwrap
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from unicodedata import normalize

from vrag.synthesis.canvas import Canvas, extent_of, print_pdf

FORMATS = ("txt", "md", "html", "docx", "xlsx", "pdf")
PAGED = frozenset(("docx", "xlsx", "pdf"))
"""Formats whose pages are seen, so that there are rectangles on them."""
_MARGIN, _LINE, _SIZE, _WIDTH, _HEIGHT = 60.0, 14.0, 10.5, 595.0, 842.0
_NAMES = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_PLAIN = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "...", "\xa0": " "})


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; the first of a document is its title."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text, or one entry of a list."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first row holds the heads of its columns."""

    rows: tuple[tuple[str, ...], ...]


Block = Heading | Paragraph | Table


def write_document(path: Path, blocks: Sequence[Block]) -> None:
    """Write blocks as a file of the format that its name says."""
    writers = {
        "txt": _print_text,
        "md": _print_markdown,
        "html": _print_html,
        "docx": _print_docx,
        "xlsx": _print_xlsx,
        "pdf": _print_pages,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(writers[path.suffix[1:]](blocks))


def flatten(block: Block) -> str:
    """Return the words of a block in one line."""
    if isinstance(block, Table):
        return " ".join(cell for row in block.rows for cell in row)
    return block.text


def plain(text: str) -> str:
    """Replace typographic signs by those of a typewriter; white space becomes one space.

    >>> plain("It’s  5 – 6")
    "It's 5 - 6"
    """
    return " ".join(text.translate(_PLAIN).split())


def _print_text(blocks: Sequence[Block]) -> bytes:
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, Heading):
            lines += [block.text.upper() if not lines else block.text, ""]
        elif isinstance(block, Paragraph):
            lines += [*textwrap.wrap(block.text, 88), ""]
        else:
            widths = [max(map(len, column)) + 3 for column in zip(*block.rows, strict=True)]
            rows = ("".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in block.rows)
            lines += [*(row.rstrip() for row in rows), ""]
    return "\n".join(lines).encode()


def _print_markdown(blocks: Sequence[Block]) -> bytes:
    parts: list[str] = []
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"{'##' if parts else '#'} {block.text}")
        elif isinstance(block, Paragraph):
            parts.append(block.text)
        else:
            rows = [f"| {' | '.join(row)} |" for row in block.rows]
            rows.insert(1, "|" + " --- |" * len(block.rows[0]))
            parts.append("\n".join(rows))
    return ("\n\n".join(parts) + "\n").encode()


def _print_html(blocks: Sequence[Block]) -> bytes:
    parts: list[str] = []
    for block in blocks:
        if isinstance(block, Table):
            head, *rows = block.rows
            cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
            body = "".join(
                f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows
            )
            parts.append(f"<table>\n<tr>{cells}</tr>\n{body}</table>")
        else:
            tag = "p" if isinstance(block, Paragraph) else "h2" if parts else "h1"
            parts.append(f"<{tag}>{escape(block.text)}</{tag}>")
    title = escape(flatten(blocks[0]))
    body = "\n".join(parts)
    return (
        f"<!doctype html>\n<html><head><title>{title}</title></head><body>\n{body}\n</body></html>\n".encode()
    )


def _pack(parts: dict[str, str]) -> bytes:
    """Make a ZIP archive whose entries are all of one time."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content)
    return file.getvalue()


def _package(kind: str, main: str, others: dict[str, str]) -> dict[str, str]:
    """Return the two parts that say what the other parts of an office document are."""
    media = f"application/vnd.openxmlformats-officedocument.{kind}"
    types = "".join(
        f'<Override PartName="/{name}" ContentType="{media}.{part}+xml"/>' for name, part in others.items()
    )
    defaults = (
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
    )
    return {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">{defaults}{types}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{_OFFICE}/officeDocument" Target="{main}"/></Relationships>',
    }


def _print_docx(blocks: Sequence[Block]) -> bytes:
    body = "".join(_word_block(block) for block in blocks)
    styles = (
        f'<w:styles {_NAMES}><w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/>'
        '<w:pPr><w:spacing w:before="240" w:after="120"/><w:outlineLvl w:val="0"/></w:pPr>'
        '<w:rPr><w:b/><w:sz w:val="28"/></w:rPr></w:style></w:styles>'
    )
    links = (
        f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" Type="{_OFFICE}/styles" '
        'Target="styles.xml"/></Relationships>'
    )
    parts = {"word/document.xml": "document.main", "word/styles.xml": "styles"}
    return _pack(
        {
            **_package("wordprocessingml", "word/document.xml", parts),
            "word/document.xml": f"<w:document {_NAMES}><w:body>{body}</w:body></w:document>",
            "word/styles.xml": styles,
            "word/_rels/document.xml.rels": links,
        }
    )


def _word_block(block: Block) -> str:
    if isinstance(block, Table):
        rows = "".join(
            f"<w:tr>{''.join(f'<w:tc>{_word_paragraph(cell)}</w:tc>' for cell in row)}</w:tr>"
            for row in block.rows
        )
        sides = "".join(
            f'<w:{side} w:val="single" w:sz="4" w:space="0" w:color="000000"/>'
            for side in ("top", "left", "bottom", "right", "insideH", "insideV")
        )
        grid = '<w:gridCol w:w="3000"/>' * len(block.rows[0])
        return (
            f"<w:tbl><w:tblPr><w:tblBorders>{sides}</w:tblBorders></w:tblPr><w:tblGrid>{grid}</w:tblGrid>"
            f"{rows}</w:tbl>{_word_paragraph('')}"
        )
    style = '<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>' if isinstance(block, Heading) else ""
    return _word_paragraph(block.text, style or '<w:pPr><w:spacing w:after="120"/></w:pPr>')


def _word_paragraph(text: str, properties: str = "") -> str:
    return f'<w:p>{properties}<w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'


def _print_xlsx(blocks: Sequence[Block]) -> bytes:
    rows: list[tuple[str, ...]] = []
    for block in blocks:
        rows += block.rows if isinstance(block, Table) else [(block.text,)]
    cells = "".join(
        f'<row r="{r}">{"".join(_sheet_cell(r, c, text) for c, text in enumerate(row))}</row>'
        for r, row in enumerate(rows, 1)
    )
    columns = (
        '<col min="1" max="1" width="60" customWidth="1"/><col min="2" max="6" width="22" customWidth="1"/>'
    )
    links = (
        f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" Type="{_OFFICE}/worksheet" '
        'Target="worksheets/sheet1.xml"/></Relationships>'
    )
    parts = {"xl/workbook.xml": "sheet.main", "xl/worksheets/sheet1.xml": "worksheet"}
    return _pack(
        {
            **_package("spreadsheetml", "xl/workbook.xml", parts),
            "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}"><sheets>'
            '<sheet name="Figures" sheetId="1" r:id="r1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": links,
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_SHEET}"><cols>{columns}</cols>'
            f"<sheetData>{cells}</sheetData></worksheet>",
        }
    )


def _sheet_cell(row: int, column: int, text: str) -> str:
    place = f"{'ABCDEF'[column]}{row}"
    if re.fullmatch(r"[1-9]\d{0,8}(?:\.\d+)?", text):
        return f'<c r="{place}"><v>{text}</v></c>'
    return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(text)}</t></is></c>'


def _print_pages(blocks: Sequence[Block]) -> bytes:
    page = Canvas(_WIDTH, _HEIGHT)
    pages, y = [page], _MARGIN
    for text, x, size, bold, feed in _lines(blocks):
        if y + feed > _HEIGHT - _MARGIN:
            page, y = Canvas(_WIDTH, _HEIGHT), _MARGIN
            pages.append(page)
        y += feed
        if text:
            page.write(_MARGIN + x, y, text, size, bold=bold)
    return print_pdf(pages)


def _lines(blocks: Sequence[Block]) -> Iterable[tuple[str, float, float, bool, float]]:
    """Yield pieces of lines: text, distance from the margin, size, bold, and how far below the one before."""
    for block in blocks:
        if isinstance(block, Table):
            columns = len(block.rows[0])
            step = (_WIDTH - 2 * _MARGIN) / columns
            for number, row in enumerate(block.rows):
                cells = [_wrap(cell, step - 12, _SIZE) for cell in row]
                for line in range(max(map(len, cells))):
                    yield "", 0, _SIZE, False, _LINE
                    for column, cell in enumerate(cells):
                        if line < len(cell):
                            yield cell[line], column * step, _SIZE, number == 0, 0
                yield "", 0, _SIZE, False, 4
            yield "", 0, _SIZE, False, _LINE / 2
            continue
        heading = isinstance(block, Heading)
        size = 15.0 if heading else _SIZE
        for line in _wrap(block.text, _WIDTH - 2 * _MARGIN, size):
            yield line, 0, size, heading, size + 3.5
        yield "", 0, size, False, 7


def _wrap(text: str, width: float, size: float) -> list[str]:
    lines: list[str] = []
    line: list[str] = []
    used = 0.0
    for word in _latin(text).split():
        wide = _measure(word, size)
        if line and used + wide > width:
            lines.append(" ".join(line))
            line, used = [], 0.0
        line.append(word)
        used += wide + 0.3 * size
    return [*lines, " ".join(line)]


@cache
def _measure(word: str, size: float) -> float:
    return extent_of(word, size, bold=True)[2]


def _latin(text: str) -> str:
    """Leave only what the fonts of PDF programs have."""
    plainer = normalize("NFC", plain(text))
    return plainer.encode("cp1252", "ignore").decode("cp1252")
