"""The reason why a search has found nothing: no text, documents read in part, or no such words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from vrag.index.collection import Collection
    from vrag.types import Document

NOTHING_INDEXED = "No documents can be searched yet. Add some with `vrag index add`."
NO_WORDS = "no page has a word of the question"


def explain_absence(collections: Iterable[Collection], scope: AbstractSet[str] | None) -> str:
    """Return why a search of some collections may have found nothing, as a sentence or two.

    Args:
        collections: The collections that were searched.
        scope: Ids of the documents that were searched; None for all.
    """
    documents: dict[str, Document] = {}
    with_text: set[str] = set()
    for collection in collections:
        meant = [document for document in collection.documents() if scope is None or document.id in scope]
        documents |= {document.id or document.path: document for document in meant}
        with_text |= _list_documents_with_text(collection)
    served = [document for document in documents.values() if document.status.served]
    if not served:
        return NOTHING_INDEXED if not documents else _describe_unread(list(documents.values()))
    mute = [document for document in served if document.id not in with_text]
    if len(mute) == len(served):
        return f"{_count(served)} no text, and OCR has read none: {_name(mute)}."
    gaps = _describe_gaps(list(documents.values()), mute)
    return " ".join([f"In the {_plural(len(served))} searched, {NO_WORDS}.", *gaps])


def _list_documents_with_text(collection: Collection) -> set[str]:
    return set(collection.store.read_items(["DISTINCT document"], "text != ''").column("DISTINCT document"))


def _describe_gaps(documents: Sequence[Document], mute: Sequence[Document]) -> Iterable[str]:
    """Yield sentences about what could not be searched beside what was."""
    partial = [document for document in documents if document.status is DocumentStatus.PARTIAL]
    unread = [document for document in documents if not document.status.served]
    if mute:
        yield f"{_count(mute)} no text: {_name(mute)}."
    if partial:
        yield f"{_plural(len(partial))} could be read only in part: {_name(partial)}."
    if unread:
        yield _describe_unread(unread)


def _describe_unread(documents: Sequence[Document]) -> str:
    """Return a sentence about documents of which nothing can be searched."""
    count = _plural(len(documents))
    return f"{count} could not be searched: {_name(documents)}. See `vrag index list`."


def _plural(count: int) -> str:
    return f"{count:,} document{'' if count == 1 else 's'}"


def _count(documents: Sequence[Document]) -> str:
    return f"{_plural(len(documents))} {'has' if len(documents) == 1 else 'have'}"


MAX_NAMES = 3
"""Documents that are named."""


def _name(documents: Sequence[Document]) -> str:
    names = [document.name for document in documents[:MAX_NAMES]]
    more = len(documents) - len(names)
    return ", ".join([*names, *([f"and {more:,} more"] if more > 0 else [])])
