"""Small PDF files written by hand, so that tests decide over every byte of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

RESOURCES = "/Resources << /Font << /F1 3 0 R >> >>"


@dataclass(frozen=True)
class PdfPage:
    """A page: what is drawn, and entries of its dictionary."""

    content: str = ""
    entries: str = "/MediaBox [0 0 612 792]"


def text_at(x: float, y: float, text: str, size: float = 24) -> str:
    """Draws text in Helvetica with its baseline at (x, y), in PDF coordinates."""
    return f"BT /F1 {size} Tf {x} {y} Td ({text}) Tj ET\n"


def pdf_bytes(*pages: PdfPage, extra: tuple[str, ...] = (), trailer: str = "") -> bytes:
    """A PDF file with a right cross-reference table.

    Args:
        pages: Its pages.
        extra: Further objects, numbered from 4 + 2 × pages.
        trailer: Further entries of the trailer.
    """
    kids = " ".join(f"{4 + 2 * index} 0 R" for index in range(len(pages)))
    bodies = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for index, page in enumerate(pages):
        bodies += [
            f"<< /Type /Page /Parent 2 0 R {page.entries} /Contents {5 + 2 * index} 0 R {RESOURCES} >>",
            f"<< /Length {len(page.content)} >>\nstream\n{page.content}\nendstream",
        ]
    return assemble([*bodies, *extra], trailer)


def assemble(bodies: list[str], trailer: str = "") -> bytes:
    """Numbers objects from 1 and adds the table of where they lie; the first is the catalogue."""
    out = "%PDF-1.7\n"
    offsets: list[int] = []
    for number, body in enumerate(bodies, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    start = len(out)
    out += f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{table}"
    out += f"trailer\n<< /Size {len(bodies) + 1} /Root 1 0 R {trailer} >>\nstartxref\n{start}\n%%EOF\n"
    return out.encode("latin-1")


def asking_for_password() -> bytes:
    """A PDF file encrypted with a user password that nobody knows."""
    secret = "<" + "5a" * 32 + ">"
    encryption = f"<< /Filter /Standard /V 2 /R 3 /Length 128 /P -44 /O {secret} /U {secret} >>"
    return pdf_bytes(
        PdfPage(text_at(72, 700, "secret")),
        extra=(encryption,),
        trailer=f"/Encrypt 6 0 R /ID [{secret} {secret}]",
    )


def endless() -> bytes:
    """A PDF file of two pages; the second draws a form that draws another one 99 times, and so on."""
    bodies = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R 4 0 R] /Count 2 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] >>",
        (
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R "
            "/Resources << /XObject << /N 6 0 R >> >> >>"
        ),
        "<< /Length 5 >>\nstream\n/N Do\nendstream",
    ]
    for level in range(6, 12):
        content = "/N Do " * 99 if level < 11 else "0 0 300 300 re f"
        inner = f"/XObject << /N {level + 1} 0 R >>" if level < 11 else ""
        bodies.append(
            f"<< /Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << {inner} >> "
            f"/Length {len(content)} >>\nstream\n{content}\nendstream"
        )
    return assemble(bodies)


PADDING = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")
"""Stands for a password, or after it (ISO 32000-1, 7.6.3.3)."""


def with_owner_password(text: str) -> bytes:
    """A PDF file of one page that anyone may open: encrypted with an owner's password, and none of the user.

    By the oldest method (ISO 32000-1, algorithms 1 to 4): RC4 with a key of 40 bits.
    """
    identity, rights = bytes(range(16)), -44
    owner = _rc4(hashlib.md5(b"owner" + PADDING[:27]).digest()[:5], PADDING)
    key = hashlib.md5(PADDING + owner + rights.to_bytes(4, "little", signed=True) + identity).digest()[:5]
    stream_key = hashlib.md5(key + (5).to_bytes(3, "little") + bytes(2)).digest()[:10]
    page = PdfPage(_rc4(stream_key, text_at(72, 700, text).encode()).decode("latin-1"))
    secrets = f"/O <{owner.hex()}> /U <{_rc4(key, PADDING).hex()}>"
    encryption = f"<< /Filter /Standard /V 1 /R 2 /P {rights} {secrets} >>"
    trailer = f"/Encrypt 6 0 R /ID [<{identity.hex()}> <{identity.hex()}>]"
    return pdf_bytes(page, extra=(encryption,), trailer=trailer)


def _rc4(key: bytes, data: bytes) -> bytes:
    state, j = list(range(256)), 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out, i, j = bytearray(), 0, 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def remapped_pdf(content: str, mapping: Mapping[str, str], entries: str = "/MediaBox [0 0 612 792]") -> bytes:
    """A PDF file of one page that is drawn right, and whose text layer has other letters.

    Args:
        content: What is drawn; what is in the font /F2 is stored as it is drawn.
        mapping: The letter that the layer has for one that is drawn; others are themselves.
        entries: Entries of the page's dictionary.
    """
    lines = [f"<{ord(drawn):02x}> <{ord(stored):04x}>" for drawn, stored in mapping.items()]
    parts = [lines[start : start + 100] for start in range(0, len(lines), 100)]
    body = "\n".join(f"{len(part)} beginbfchar\n" + "\n".join(part) + "\nendbfchar" for part in parts)
    table = (
        "/CIDInit /ProcSet findresource begin\nbegincmap\n/CMapName /Custom def\n/CMapType 2 def\n"
        f"1 begincodespacerange\n<00> <ff>\nendcodespacerange\n{body}\nendcmap\nend"
    )
    font = (
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding /ToUnicode 7 0 R >>"
    )
    fonts = "/Resources << /Font << /F1 3 0 R /F2 6 0 R >> >>"
    return assemble(
        [
            "<< /Type /Catalog /Pages 2 0 R >>",
            "<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
            font,
            f"<< /Type /Page /Parent 2 0 R {entries} /Contents 5 0 R {fonts} >>",
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
            f"<< /Length {len(table)} >>\nstream\n{table}\nendstream",
        ]
    )


def pdf_without_font(content: str, encoding: str, ordering: str = "Japan1") -> bytes:
    """A PDF file of one page with text in /F2, a font of which the file has the name alone.

    Args:
        content: What is drawn.
        encoding: Name of the table of its characters; by "Identity-H" they are the glyphs of the font.
        ordering: The collection of characters that the table leads to.
    """
    fonts = "/Resources << /Font << /F1 3 0 R /F2 6 0 R >> >>"
    return assemble(
        [
            "<< /Type /Catalog /Pages 2 0 R >>",
            "<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R {fonts} >>",
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
            (
                f"<< /Type /Font /Subtype /Type0 /BaseFont /Absent /Encoding /{encoding} "
                "/DescendantFonts [7 0 R] >>"
            ),
            (
                "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Absent /FontDescriptor 8 0 R /DW 1000 "
                f"/CIDSystemInfo << /Registry (Adobe) /Ordering ({ordering}) /Supplement 0 >> >>"
            ),
            (
                "<< /Type /FontDescriptor /FontName /Absent /Flags 4 /FontBBox [0 -200 1000 900] "
                "/ItalicAngle 0 /Ascent 880 /Descent -120 /CapHeight 700 /StemV 80 >>"
            ),
        ]
    )
