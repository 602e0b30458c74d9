"""PDF files of one page with annotations: fields of forms, comments, stamps."""

from __future__ import annotations

from corpus.pdf_files import assemble, text_at

LABEL = "Policy number"
VALUE = "/V (HM-552-9071)"
ATTACHED_PLAN = (
    "/Names << /EmbeddedFiles << /Names [(plan.dwg) << /Type /Filespec /F (plan.dwg) /UF (plan.dwg) >>] >> >>"
)
"""Entry of a catalogue with an attached file."""


def widget(type_and_value: str, rect: str = "260 700 480 720", name: str = "a") -> str:
    """A field of a form, without an appearance."""
    return annotation("Widget", f"/T ({name}) {type_and_value} /DA (/Helv 11 Tf 0 g)", rect)


def text_field(value: str = VALUE, rect: str = "260 700 480 720", name: str = "a") -> str:
    """A text field of a form, without an appearance."""
    return widget(f"/FT /Tx {value}", rect, name)


def annotation(subtype: str, entries: str, rect: str = "260 700 480 720") -> str:
    """An annotation that is shown and printed, unless its entries say otherwise."""
    flags = "" if "/F " in entries else "/F 4"
    return f"<< /Type /Annot /Subtype /{subtype} {flags} /Rect [{rect}] {entries} >>"


def appearance(content: str, box: str = "0 0 220 20", font: str = "Helvetica") -> str:
    """A drawing of an annotation."""
    resources = f"/Font << /Helv << /Type /Font /Subtype /Type1 /BaseFont /{font} >> >>"
    head = f"/Type /XObject /Subtype /Form /BBox [{box}] /Resources << {resources} >>"
    return f"<< {head} /Length {len(content)} >>\nstream\n{content}\nendstream"


def annotated_page(
    *annotations: str,
    content: str = text_at(60, 704, LABEL, 12),
    entries: str = "/MediaBox [0 0 612 792]",
    form: str = "",
    catalog: str = "",
    extra: tuple[str, ...] = (),
) -> bytes:
    """A PDF file of one page.

    Args:
        annotations: Of the page.
        content: What the page draws below them.
        entries: Of the page.
        form: Further entries of its form.
        catalog: Further entries of the catalogue.
        extra: Further objects, numbered from 6 + annotations.
    """
    numbers = range(6, 6 + len(annotations))
    references = " ".join(f"{number} 0 R" for number in numbers)
    fields = " ".join(
        f"{number} 0 R" for number, each in zip(numbers, annotations, strict=True) if "/Widget" in each
    )
    form += " /DR << /Font << /Helv 3 0 R >> >> /DA (/Helv 0 Tf 0 g)"
    return assemble(
        [
            f"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [{fields}] {form} >> {catalog} >>",
            f"<< /Type /Pages /Kids [4 0 R] /Count 1 {entries} >>",
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
            (
                f"<< /Type /Page /Parent 2 0 R /Contents 5 0 R /Annots [{references}] "
                "/Resources << /Font << /F1 3 0 R >> >> >>"
            ),
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
            *annotations,
            *extra,
        ]
    )
