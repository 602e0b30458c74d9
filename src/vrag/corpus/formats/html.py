"""HTML files → passage items, then a page item for each picture in the file or in its folder.

Pictures are taken from `data:` references and from files in the folder of the HTML file or below it, never
from the network and never from elsewhere on the disk: not by `..`, an absolute path, `file:` or a symbolic
link. Pictures in the network (`http:`, `//host`, a `<base>` that leads there), those smaller
than an icon, and missing ones that only decorate are left out silently; any other picture that cannot be read
fails with its reason, and the text stays.

A document is the bytes of its HTML file alone. Its pictures are therefore those that lay there when it was
added: a picture that changes later, or is put beside a copy of the same HTML file elsewhere, counts only when
the HTML file changes too, or is removed and added again. The alternative, an id over all files together,
would make a document's identity depend on files that come, go and fail on their own.
"""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

from vrag.corpus.formats.text import read_text
from vrag.corpus.formats.texts.html_tree import html_page
from vrag.corpus.formats.texts.illustrated_text import (
    FigureContent,
    IllustratedText,
    PictureContent,
    decode_data_url,
    is_small_picture,
)
from vrag.corpus.formats.texts.web.empty_elements import close_empty_elements
from vrag.corpus.neighbours import OUTSIDE
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.corpus.converter import ConversionContext, SourceFile
    from vrag.corpus.formats.texts.web.figures import Figure

SUFFIXES = (".html", ".htm", ".xhtml")
MISSING = "It cannot be read: No such file or directory."
NO_CONTENT = "There is neither text nor a picture in the file."
NOT_BESIDE = "It is missing. Save the page with its pictures, and add it again."
"""The reason for a picture that is not there."""


class HtmlFile(IllustratedText):
    """An HTML file that was read.

    Raises `FileTooLargeError` if it has more than 64 MiB, and `CorpusError` if it is not text, or has neither
    words nor pictures, with the reason where scripts or other files have them.
    """

    reads_neighbours = True

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        text = read_text(source)
        if source.path.suffix.lower() == ".xhtml":
            text = close_empty_elements(text)
        sections, figures, base = html_page(text, with_scripts=True)
        if not figures and not any(section.text for section in sections):
            raise CorpusError(" ".join(sections[0].unread) or NO_CONTENT)
        super().__init__(source, context, sections, _find_contents(source, figures, base))


def _find_contents(source: SourceFile, figures: Sequence[Figure], base: str) -> Iterator[FigureContent]:
    """Yield the pictures of a page; failures each for itself."""
    for figure in figures:
        content = _find_content(source, figure.reference, base)
        if content != MISSING:
            if content is not None:
                yield FigureContent(figure, content)
        elif not figure.is_decorative:
            yield FigureContent(figure, NOT_BESIDE)


def _find_content(source: SourceFile, reference: str, base: str) -> PictureContent | str | None:
    """Return a picture's content, or the reason why there is none.

    None when it is in the network, or too small to show anything.
    """
    if scheme_of(reference) == "data":
        content = decode_data_url(reference)
        is_small = isinstance(content, PictureContent) and is_small_picture(content.open())
        return None if is_small else content
    try:
        return _open_neighbour(source, urljoin(base, reference))
    except CorpusError as error:
        return str(error)
    except (OSError, ValueError, RuntimeError) as error:
        return f"It cannot be read: {getattr(error, 'strerror', None) or error}."


def _open_neighbour(source: SourceFile, reference: str) -> PictureContent | str | None:
    """Return the content of a picture in the folder of a page; raises as `open_neighbour` does."""
    scheme = scheme_of(reference)
    if scheme == "file" or len(scheme) == 1:  # a drive of Windows
        return OUTSIDE
    if scheme or reference.startswith(("//", "\\\\")):
        return None
    name = unquote(urlsplit(reference).path, errors="surrogateescape")
    with source.open_neighbour(name) as file:
        status = os.fstat(file.fileno())
        is_small = is_small_picture(file)
    key = status.st_dev, status.st_ino
    content = PictureContent(partial(source.open_neighbour, name), status.st_size, key)
    return None if is_small else content


def scheme_of(reference: str) -> str:
    """Return the scheme of a URL, `http` of `http://host/a`; "" of a path."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", reference)
    return match[1].lower() if match else ""
