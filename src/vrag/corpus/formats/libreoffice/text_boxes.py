"""Texts of boxes that LibreOffice cuts off when it prints a text document.

A box keeps its height where its font is replaced by a wider one, and the last lines are not printed. The
program that made the document shows them, so that such a text is a passage of its own.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from vrag.corpus.formats.libreoffice.xml_parts import find_all, shown_text
from vrag.corpus.formats.texts.outline import Section
from vrag.text.folding import fold_case

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO
    from xml.etree.ElementTree import Element

HEADING = "Text box"
MAX_BOXES = 2000
MAX_LINES = 200
"""Paragraphs of a box that are compared."""
MAX_PAGES = 1000
"""Pages of which the printed text is compared; with more, no text box or formula is taken to be cut."""
BOXES = ("draw:text-box", "draw:custom-shape")


def read_boxes(root: Element) -> tuple[str, ...]:
    """Return the different texts of the boxes and shapes of a text document, in order."""
    texts = (shown_text(box) for name in BOXES for box in islice(find_all(root, name), MAX_BOXES))
    return tuple(dict.fromkeys(filter(None, texts)))


def find_cut_boxes(texts: Sequence[str], printed: str | None) -> tuple[Section, ...]:
    """Return the texts of boxes of which a paragraph is not in the printed document, as sections.

    Args:
        texts: Those of the boxes.
        printed: See `read_printed_letters`.
    """
    if printed is None:
        return ()
    return tuple(
        Section((HEADING,), text)
        for text in texts
        if not all(_letters(line) in printed for line in text.split("\n")[:MAX_LINES])
    )


def read_printed_letters(pdf: BinaryIO) -> str | None:
    """Return the letters and digits of a PDF file; None if it has too many pages."""
    from pypdfium2 import PdfDocument

    letters: list[str] = []
    with cast("Any", PdfDocument(pdf)) as document:
        if len(document) > MAX_PAGES:
            return None
        for page in document:
            text = page.get_textpage()
            letters.append(_letters(str(text.get_text_range())))
            text.close()
            page.close()
    return "".join(letters)


def _letters(text: str) -> str:
    """Return the letters and digits of a text, whatever their form and case."""
    return "".join(re.findall(r"[^\W_]+", fold_case(text)))
