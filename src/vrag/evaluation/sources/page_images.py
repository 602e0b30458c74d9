"""Pictures of pages as loaders find them: some are missing, some are broken."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, cast

from PIL import Image, UnidentifiedImageError

from vrag.evaluation.benchmark import PageDocument
from vrag.geometry import Size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vrag.evaluation.sources.load_report import Remarks

__all__ = ["picture_of", "picture_size", "with_pages"]

SMALL = (16, 16)
"""Pixels: JPEG is decoded to about so much, where it is only asked whether it can be."""
_FAULTS = (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError)


def picture_of(value: object) -> bytes | None:
    """The bytes in a cell of a parquet file: plain, or a struct of `bytes` and `path`; None without any.

    The path is never followed.
    """
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value).get("bytes")
    return value if isinstance(value, bytes) and value else None


def picture_size(data: bytes) -> Size | None:
    """Width and height by the header; None of what is no picture."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            return Size(*image.size)
    except _FAULTS:
        return None


def with_pages(
    name: str, read: Callable[[], Iterable[bytes | None]], remarks: Remarks, gold: Iterable[int] = ()
) -> PageDocument:
    """A document of pictures; what cannot be decoded is missing, and what is missing at its end is no page.

    Args:
        name: Its file name.
        read: Takes its pictures, from page 1.
        remarks: Are told of pictures that are missing, once they are read.
        gold: Its gold pages: those beyond its end are noted.
    """
    wanted = frozenset(gold)

    def pages() -> Iterator[bytes | None]:
        missing: list[int] = []
        last = held = 0
        for number, data in enumerate(read(), 1):
            if data is None or not _can_be_decoded(data):
                held += 1
                continue
            missing.extend(range(last + 1, number))
            yield from [None] * held
            yield data
            last, held = number, 0
        if not last:
            yield None  # a document of no pages cannot be made
        _tell(name, last, missing, wanted, remarks)

    return PageDocument(name, pages)


def _tell(name: str, last: int, missing: list[int], gold: frozenset[int], remarks: Remarks) -> None:
    if not last:
        remarks.count("documents have no picture of any page; they are one blank page", name)
    for page in missing:
        remarks.count("pages without a picture that can be read are blank", f"{name}, page {page}")
    for page in sorted(page for page in gold if page > last):
        remarks.count("gold pages lie beyond the end of their document", f"{name}, page {page}")


def _can_be_decoded(data: bytes) -> bool:
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.draft("RGB", SMALL)
            image.load()
    except _FAULTS:
        return False
    return True
