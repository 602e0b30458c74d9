"""The document that a query means: by the name of its file or its title."""

from __future__ import annotations

from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from vrag.text.terms import STOP_WORDS, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.search.named_pages import PageSource
    from vrag.types import Query

COMMON_NAMES = frozenset(token.term for token in tokens("page document print file scan"))
"""Words that name no document: questions for a page have them."""
MIN_NAME_CHARS = 3
"""Letters of a word by which a file is named: "2.pdf" is not named by "page 2"."""
MAX_NAMES = 20_000
"""Names of files whose terms are remembered."""


def find_named_document(query: Query, sources: Sequence[PageSource]) -> str | None:
    """Return the document that a query names, or the only one that it may find; None where that is not clear."""
    names = {document: name for source in sources for document, name in _list_documents(source, query)}
    if len(names) == 1:
        return next(iter(names))
    terms = {token.term for token in tokens(query.text)}
    named = [
        (len(words), document) for document, name in names.items() if (words := _name_terms(name)) <= terms
    ]
    most = max((count for count, _ in named), default=0)
    best = [document for count, document in named if count == most] if most else []
    return best[0] if len(best) == 1 else None


def _list_documents(source: PageSource, query: Query) -> Iterator[tuple[str, str]]:
    """Yield the documents that a query may find, with the names of their files."""
    catalog = source.catalog
    rows = np.flatnonzero(catalog.mask(query))
    _, first = np.unique(catalog.documents.codes[rows], return_index=True)
    for row in rows[first].tolist():
        yield catalog.documents[row], catalog.document_names[row]


@lru_cache(MAX_NAMES)
def _name_terms(name: str) -> frozenset[str]:
    """Return the terms of the name of a file without its ending; none if no word tells it from a number.

    >>> sorted(_name_terms("Harbour_fees-2026.pdf")), sorted(_name_terms("2.pdf"))
    (['2026', 'fee', 'harbour'], [])
    >>> sorted(_name_terms("Page 2.pdf"))
    []
    """
    terms = {token.term for token in tokens(PurePath(name).stem.replace("_", " "))} - STOP_WORDS
    is_name = any(term.isalpha() and len(term) >= MIN_NAME_CHARS for term in terms - COMMON_NAMES)
    return frozenset(terms) if is_name else frozenset()
