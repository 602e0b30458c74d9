"""Documents made of what data sets publish: images of pages, captioned images, paragraphs of text."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import unicodedata
from contextlib import closing
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar, cast

from PIL import Image, UnidentifiedImageError

from vrag.datasets.protocols import PageDocument, TextDocument
from vrag.errors import CorpusError
from vrag.geometry import IMAGE_FORMATS, Size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from vrag.datasets.files.clean_cases import Remarks
    from vrag.datasets.protocols import Images
    from vrag.types import Case

DRAFT_SIZE = (16, 16)
"""Pixels: JPEG is decoded to about this size to check that it can be decoded."""
MIN_SIDE = 32
"""Pixels: the document converter takes smaller images for icons."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_FAULTS = (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError)
MAX_TITLE_BYTES = 100
"""Length of a title in a file name."""
_NO_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that no text has."""
_MARKUP = re.compile(r"[\\`*_\[\]<>&|~#]")
"""Characters that are markup wherever they stand."""
_LIST = re.compile(r"(?m)^(\d+)([.)])|^([-+=])")
"""Beginning that makes a line a list element, or the line above it a heading."""
_Place = TypeVar("_Place")


def image_bytes(value: object) -> bytes | None:
    """Return the bytes in a cell of a parquet file: plain, or a struct of `bytes` and `path`.

    The path is never followed.
    """
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value).get("bytes")
    return value if isinstance(value, bytes) and value else None


def image_size(data: bytes) -> Size | None:
    """Return width and height by the header; None if it is not an image."""
    try:
        with Image.open(io.BytesIO(data), formats=IMAGE_FORMATS) as image:
            return Size(*image.size)
    except _FAULTS:
        return None


def can_decode(data: bytes, *, whole: bool = True) -> bool:
    """Return whether an image can be decoded; without `whole` a JPEG is decoded at a small size."""
    try:
        with Image.open(io.BytesIO(data), formats=IMAGE_FORMATS) as image:
            if not whole:
                image.draft("RGB", DRAFT_SIZE)
            image.load()
    except _FAULTS:
        return False
    return True


def numbered_pages(places: Mapping[int, _Place], read: Callable[[_Place], bytes | None]) -> Images:
    """Return a reader of the images of all pages, from 1 to the last that has a place."""
    return lambda: (
        read(places[number]) if number in places else None for number in range(1, max(places) + 1)
    )


def with_pages(name: str, read: Images, remarks: Remarks, gold: Iterable[int] = ()) -> PageDocument:
    """Return a document of images; one that cannot be decoded is missing, and at the end it is not a page.

    Once the images are read, remarks are made of missing ones, and of gold pages beyond its end.
    """
    gold_pages = sorted(gold)

    def pages() -> Iterator[bytes | None]:
        blank: list[int] = []
        last = 0
        for number, data in enumerate(read(), 1):
            if data is None or not can_decode(data, whole=False):
                continue
            skipped = range(last + 1, number)
            blank.extend(skipped)
            yield from [None] * len(skipped)
            yield data
            last = number
        if not last:
            yield None  # a document of no pages cannot be made
            remarks.count("documents have no image of any page; they are one blank page", name)
        for page in blank:
            remarks.count("pages without a readable image are blank", f"{name}, page {page}")
        for page in gold_pages:
            if page > last:
                remarks.count("gold pages lie beyond the end of their document", f"{name}, page {page}")

    return PageDocument(name, pages)


def image_card(image: bytes | None, title: str, caption: str) -> Iterator[bytes]:
    """Yield an image with its title and caption as one HTML document, in pieces.

    Converted, it is one page: the image itself, with "title: caption" as its text. Without an image that can
    be shown, these words are a passage.
    """
    lines = dict.fromkeys(escape(" ".join(_CONTROL.sub(" ", text).split())) for text in (title, caption))
    words = ": ".join(line for line in lines if line) or "…"
    yield b'<!DOCTYPE html><meta charset="utf-8">\n'
    size = None if image is None else image_size(image)
    if image is None or size is None or min(size.width, size.height) < MIN_SIDE:
        yield f"<p>{words}</p>\n".encode("utf-8", "replace")
        return
    yield f'<img title="{words}" src="data:;base64,'.encode("utf-8", "replace")
    yield base64.b64encode(image)
    yield b'">\n'


def length_of(path: Path) -> int | None:
    """Return the number of pages of a PDF; None for other files, and where it cannot be opened."""
    from vrag.corpus.formats.pdfium import Pdf

    if path.suffix.lower() != ".pdf":
        return None
    try:
        with closing(Pdf(path)) as pdf:
            return len(pdf) or None
    except (CorpusError, OSError):
        return None


def within_length(case: Case, length: Callable[[str], int | None], remarks: Remarks) -> Case:
    """Remove the gold pages, and the gold boxes on them, that documents do not have: nothing could find them.

    `length` returns the number of pages of a document by its name; None if unknown.
    """
    beyond: list[str] = []

    def exists(name: str, page: int | None) -> bool:
        last = None if page is None or page < 2 else length(name)
        if page is None or last is None or page <= last:
            return True
        beyond.append(f"{case.uid} (page {page} of {last})")
        return False

    changed = replace(
        case,
        reference_page=tuple(page for page in case.reference_page if exists(case.file_name, page)),
        gold=tuple(page for page in case.gold if exists(page.document, page.page)),
        regions=tuple(
            region for region in case.regions if exists(region.document or case.file_name, region.page)
        ),
    )
    if not beyond:
        return case
    remarks.count("questions had a gold page beyond the end of the document, which was left out", beyond[0])
    # Without `gold`, `reference_page` would be gold: it is not where `gold` was given.
    return changed if changed.gold or not case.gold else replace(changed, reference_page=())


def page_sizes(path: Path) -> tuple[tuple[float, float], ...]:
    """Return width and height of the pages of a PDF, in points; none of a file that cannot be opened."""
    from vrag.corpus.formats.pdfium import Pdf

    try:
        with closing(Pdf(path)) as pdf:
            sizes: list[tuple[float, float]] = []
            for number in range(1, len(pdf) + 1):
                with pdf.page(number) as page:
                    sizes.append(page.size)
            return tuple(sizes)
    except (CorpusError, OSError):
        return ()


@dataclass(frozen=True, slots=True)
class ParagraphDocument:
    """A paragraph and the title of its article."""

    title: str
    text: str

    @property
    def name(self) -> str:
        """File name made of title and text only: another text has another name.

        >>> ParagraphDocument("AC/DC", "A band.").name
        'AC DC-3dc6f904af2c6001.md'
        """
        content = f"{' '.join(self.title.split())}\n{' '.join(self.text.split())}"
        mark = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:16]
        return f"{title_in_name(self.title)}-{mark}.md"

    @property
    def empty(self) -> bool:
        """True if its text has no word."""
        return re.search(r"\w", self.text) is None

    def document(self) -> TextDocument:
        """Return the file: the title as a heading above the text, so that it is found by both."""
        heading = as_markdown(" ".join(self.title.split())) or "…"
        return TextDocument(self.name, f"# {heading}\n\n{as_markdown(self.text)}\n")


def distinct(passages: Iterable[ParagraphDocument]) -> Iterator[TextDocument]:
    """Yield a document for each distinct passage that has words."""
    seen: set[str] = set()
    for passage in passages:
        name = passage.name
        if name not in seen and not passage.empty:
            seen.add(name)
            yield passage.document()


def title_in_name(title: str) -> str:
    """Return a title as a part of a file name: letters, digits and marks that are harmless on any disk.

    >>> title_in_name("../AC/DC: live?"), title_in_name("?")
    ('AC DC live', 'untitled')
    """
    plain = unicodedata.normalize("NFC", title).encode("utf-8", "replace").decode("utf-8")
    kept = re.sub(r"[^\w(),'’.&+-]+", " ", plain)
    short = kept.encode()[:MAX_TITLE_BYTES].decode("utf-8", "ignore").strip(" .-")
    return short if short.isprintable() and short else "untitled"


def as_markdown(text: str) -> str:
    r"""Escape a text so that reading it as Markdown gives the text: nothing in it is markup, nothing is lost.

    >>> print(as_markdown("1. *a* <b>"))
    1\. \*a\* \<b\>
    """
    lines = "\n".join(line.strip() for line in _NO_TEXT.sub(" ", text).splitlines())
    escaped = _MARKUP.sub(lambda sign: "\\" + sign[0], lines)
    return _LIST.sub(lambda found: f"{found[1]}\\{found[2]}" if found[1] else f"\\{found[3]}", escaped)
