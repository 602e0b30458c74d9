"""Facts of the pages of a PDF file besides text and picture: printed numbers, attached files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_LABEL_CHARACTERS = 40
MAX_NAMES = 5
"""Attached files that are named; of others the number is told."""
INVOICE_DATA = frozenset({"factur-x.xml", "zugferd-invoice.xml", "xrechnung.xml", "order-x.xml"})
"""Attached files with the data of an invoice, all of which its pages show (ZUGFeRD, Factur-X)."""
UNKNOWN_LETTERS = (
    "Some letters of the page are neither shown nor read: their font is not in the file, nor does the file "
    "say which letters they are. Open it on the computer on which it was made, and print it to PDF."
)
_POSITION = re.compile(r"(?:page|p\.|seite|s\.)?\s*0*(\d+)", re.IGNORECASE)


def printed_number(label: str, ordinal: int) -> str:
    """Return the printed number of a page, or nothing where it is its position in the file.

    >>> printed_number("iv", 4), printed_number("004", 4), printed_number("Page 4", 4)
    ('iv', '', '')
    """
    shown = " ".join(re.sub(r"[\x00-\x1f\x7f]", " ", label).split())[:MAX_LABEL_CHARACTERS]
    position = _POSITION.fullmatch(shown)
    return "" if position and int(position[1]) == ordinal else shown


def unread_files(names: Sequence[str], place: str) -> tuple[str, ...]:
    """Return the sentence that says which attached files are not read; none if there are none.

    Args:
        names: Their names.
        place: What they are attached to: "The document" or "The page".
    """
    unread = [name for name in names if name.rsplit("/", 1)[-1].casefold() not in INVOICE_DATA]
    if not unread:
        return ()
    shown = [
        " ".join(re.sub(r"[\x00-\x1f\x7f]", " ", name).split())[:100] or "without a name" for name in unread
    ]
    listed = ", ".join(shown[:MAX_NAMES]) + (
        f", and {len(unread) - MAX_NAMES} more" if shown[MAX_NAMES:] else ""
    )
    if len(unread) == 1:
        return (f"{place} has an attached file ({listed}), which is not read. Save it and add it.",)
    return (
        f"{place} has {len(unread)} attached files ({listed}), which are not read. Save them and add them.",
    )
