"""Small PDF files written by hand, so that tests decide over every byte of them."""

from __future__ import annotations

from dataclasses import dataclass

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
