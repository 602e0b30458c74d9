"""Gold pages that a document does not have: nothing could ever find them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from vrag.corpus.formats.pdfium import Pdf
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vrag.evaluation.sources.load_report import Remarks
    from vrag.types import Case

__all__ = ["length_of", "within_length"]

_BEYOND = "questions had a gold page beyond the end of the document, which was left out"


def length_of(path: Path) -> int | None:
    """How many pages a PDF has; None of other files, and where it cannot be opened."""
    if path.suffix.lower() != ".pdf":
        return None
    try:
        with closing(Pdf(path)) as pdf:
            return len(pdf) or None
    except (CorpusError, OSError):
        return None


def within_length(case: Case, length: Callable[[str], int | None], remarks: Remarks) -> Case:
    """A case without the gold pages, and the gold boxes on them, that its documents do not have.

    Args:
        case: The case.
        length: How many pages the document of a name has, and None where that is not known.
        remarks: Are told of those that were left out.
    """
    beyond: list[str] = []

    def there(name: str, page: int | None) -> bool:
        last = None if page is None or page < 2 else length(name)
        if page is None or last is None or page <= last:
            return True
        beyond.append(f"{case.uid} (page {page} of {last})")
        return False

    mended = replace(
        case,
        reference_page=tuple(page for page in case.reference_page if there(case.file_name, page)),
        gold=tuple(one for one in case.gold if there(one.document, one.page)),
        regions=tuple(one for one in case.regions if there(one.document or case.file_name, one.page)),
    )
    if not beyond:
        return case
    remarks.count(_BEYOND, beyond[0])
    # Without `gold`, `reference_page` would be what is gold: it is not where `gold` was given.
    return mended if mended.gold or not case.gold else replace(mended, reference_page=())
