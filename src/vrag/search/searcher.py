"""The protocols `Searcher` and `ItemStore`, the checks that all searchers share, and excerpts of hits."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from vrag.errors import OutOfScopeError, SearchError
from vrag.text.folding import fold, fold_with_places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from PIL.Image import Image

    from vrag.corpus.formats.video import VideoFrame
    from vrag.geometry import Size, View
    from vrag.index.shown_names import ShownNames
    from vrag.types import Hit, Item, Query

MAX_TOP_K = 1000


class ItemStore(Protocol):
    """Items with their pictures and frames."""

    def item(self, id: str) -> Item:
        """Return the item with this id. Raises `SearchError` if there is none."""
        ...

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """Return the picture of an item, RGB.

        Args:
            id: The id of the item.
            least: Allows a smaller copy of the whole picture, which is quicker to decode: both its sides are
                at least so long, or as long as those of the picture. It may differ from the picture's
                proportions by the rounding of its sides. The same arguments give the same pixels. None for
                the picture in full.

        Raises:
            SearchError: If there is no such item, or it has no picture.
            CollectionError: If its picture is missing or damaged.
        """
        ...

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Return frames of a clip, RGB, upright; large ones are made smaller, with their proportions.

        Args:
            id: The id of the item.
            fps: Frames per second.
            most: Frames beyond which they are spread evenly from the first to the last.

        Returns:
            Frames in the order in which they are shown; `VideoFrame.seconds` counts from the first frame of
            the video, not of the clip. Damaged frames are left out.

        Raises:
            SearchError: If there is no such item, or it is no clip.
            CollectionError: If its clip is missing or damaged.
            MissingExtra: If PyAV is not installed.
            ValueError: If `fps` or `most` is not positive.
        """
        ...

    def part(self, id: str, view: View) -> Image | None:
        """Draw a part of a page from the source file of its document, with more detail than is stored.

        Args:
            id: The id of the item.
            view: The part, in pixels of the stored picture, and the size to draw it in.

        Returns:
            The picture of the view, RGB, of size `view.canvas`; the same file and view give the same pixels.
            None where only the stored picture can be shown: the file is gone or not the one that was indexed,
            it is none of pages (an image is stored with all its pixels), the item has another size than the
            view, or the page cannot be drawn.

        Raises:
            SearchError: If there is no such item.
        """
        ...


class Searcher(ItemStore, Protocol):
    """A searcher: finds items, and returns their content."""

    @property
    def version(self) -> str:
        """Hash over what can be found; equal versions find the same."""
        ...

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Find for each query the best `top_k` items or fewer, best first.

        Raises `SearchError` if a query is empty or `top_k` not within 1 to 1000.
        """
        ...


@runtime_checkable
class DocumentLister(Protocol):
    """A store or a searcher that can list its documents."""

    def list_documents(self, corpora: AbstractSet[str] | None = None) -> dict[str, str]:
        """Return the file names of the documents that can be found, by their ids, sorted by name.

        `corpora` are the names of the collections to list, where there are several; None for all.

        Raises `CollectionError` if a collection cannot be read.
        """
        ...


def list_documents(store: object, corpora: AbstractSet[str] | None = None) -> dict[str, str]:
    """Return the file names of documents by id, as `DocumentLister`.

    Raises `SearchError` if the store cannot list its documents, as servers of the reference cannot.
    """
    if not isinstance(store, DocumentLister):
        raise SearchError("This search server does not list its documents.", "Search for what they say.")
    return store.list_documents(corpora)


class ForwardedItems:
    """The base class of searchers whose items come from another store."""

    _items: ItemStore
    """The store of all items, unless `_store_of` is overridden."""

    def _store_of(self, id: str) -> ItemStore:  # noqa: ARG002 - an override may choose by it
        return self._items

    def item(self, id: str) -> Item:
        """Return an item as `ItemStore.item` describes."""
        return self._store_of(id).item(id)

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """Return a picture as `ItemStore.image` describes."""
        return self._store_of(id).image(id, least=least)

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Return frames as `ItemStore.frames` describes."""
        return self._store_of(id).frames(id, fps=fps, most=most)

    def part(self, id: str, view: View) -> Image | None:
        """Draw a part of a page as `ItemStore.part` describes."""
        return self._store_of(id).part(id, view)

    def list_documents(self, corpora: AbstractSet[str] | None = None) -> dict[str, str]:
        """Return the documents as `DocumentLister.list_documents` describes."""
        return list_documents(self._items, corpora)


class ScopedSearcher(ForwardedItems):
    """A `Searcher` of the documents that one question may look at: it neither finds nor opens others.

    All methods raise `OutOfScopeError` if they are asked for anything else.

    Args:
        searcher: The searcher of all documents.
        documents: Ids of the documents in scope; None for all of the collections.
        corpora: Names of the collections in scope; None for all.
    """

    def __init__(
        self,
        searcher: Searcher,
        documents: frozenset[str] | None = None,
        corpora: frozenset[str] | None = None,
    ) -> None:
        self._searcher = self._items = searcher
        self._documents, self._corpora = documents, corpora

    @property
    def version(self) -> str:
        """The version of the searcher that is asked."""
        return self._searcher.version

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Find the best items in scope; see `Searcher.search`."""
        found = self._searcher.search([self._narrow(query) for query in queries], top_k)
        return [[hit for hit in hits if self._holds(hit.document)] for hits in found]

    def list_documents(self, corpora: AbstractSet[str] | None = None) -> dict[str, str]:
        """Return the documents in scope as `DocumentLister.list_documents` describes."""
        if corpora is not None and self._corpora is not None and (outside := corpora - self._corpora):
            raise OutOfScopeError(f"The collection {min(outside)!r} is not the one that is asked.")
        listed = list_documents(self._searcher, self._corpora if corpora is None else corpora)
        return {id: name for id, name in listed.items() if self._documents is None or id in self._documents}

    def check(self, item: Item) -> None:
        """Raise `OutOfScopeError` if an item is not in scope."""
        if not self._holds(item.document):
            raise OutOfScopeError(
                f"{item.document_name} is not among the documents that this question may look at.",
                "Search for what is among them.",
            )

    def _store_of(self, id: str) -> ItemStore:
        self.check(self._searcher.item(id))
        return self._searcher

    def _narrow(self, query: Query) -> Query:
        """Return a query that looks in the scope alone."""
        documents, corpora = query.documents, query.corpora
        if corpora is not None and self._corpora is not None and (others := corpora - self._corpora):
            raise OutOfScopeError(f"The collection {min(others)!r} is not the one that is asked.")
        if documents is not None and (outside := {id for id in documents if not self._holds(id)}):
            raise OutOfScopeError(
                f"{len(outside)} of the {len(documents)} documents to search are not among those that this "
                "question may look at."
            )
        return replace(
            query,
            documents=self._documents if documents is None else documents,
            corpora=self._corpora if corpora is None else corpora,
        )

    def _holds(self, document: str) -> bool:
        if self._documents is not None and document not in self._documents:
            return False
        return self._corpora is None or document in self._listed

    @cached_property
    def _listed(self) -> AbstractSet[str]:
        """Ids of the documents of the collections in scope."""
        return list_documents(self._searcher, self._corpora).keys()


class StoredPictures(ForwardedItems):
    """A `Searcher` that opens no source files: parts of pages are those of the stored pictures."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = self._items = searcher

    @property
    def version(self) -> str:
        """The version of the searcher that is asked."""
        return self._searcher.version

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Return the hits of the searcher."""
        return self._searcher.search(queries, top_k)

    def part(self, id: str, view: View) -> None:
        """Draw nothing."""


def name_documents(listed: Mapping[str, str], names: ShownNames) -> dict[str, str]:
    """Return documents by id with their names for people, sorted by these."""
    named = ((names.name_of(id) or name, id) for id, name in listed.items())
    return {id: name for name, id in sorted(named)}


class NamedItems(ForwardedItems):
    """A `Searcher` whose items have the names of their documents for people."""

    def __init__(self, searcher: Searcher, names: ShownNames) -> None:
        self._searcher = self._items = searcher
        self._names = names

    @property
    def version(self) -> str:
        """The version of the searcher that is asked."""
        return self._searcher.version

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Return the hits of the searcher."""
        return self._searcher.search(queries, top_k)

    def item(self, id: str) -> Item:
        """Return an item of the searcher."""
        return self._names.named(self._searcher.item(id))

    def list_documents(self, corpora: AbstractSet[str] | None = None) -> dict[str, str]:
        """Return the documents of the searcher, as `DocumentLister.list_documents` says."""
        return name_documents(list_documents(self._searcher, corpora), self._names)


def check_search(queries: Sequence[Query], top_k: int) -> None:
    """Refuse a search that no searcher can answer."""
    if not 1 <= top_k <= MAX_TOP_K:
        raise SearchError(f"top_k is {top_k}; it must be from 1 to {MAX_TOP_K}.")
    if any(not query.text.strip() for query in queries):
        raise SearchError("A query is empty.", "Say what to look for.")


def check_corpora(queries: Sequence[Query], names: Sequence[str]) -> None:
    """Refuse queries that name a collection which is not searched."""
    for query in queries:
        unknown = sorted((query.corpora or frozenset()).difference(names))
        if unknown:
            raise SearchError(
                f"There is no collection named {unknown[0]!r}.", f"There are: {', '.join(names)}."
            )


def excerpt(text: str, query: str, limit: int, before: int) -> str:
    """Cut at most `limit` characters of a text, beginning `before` characters before the first query word.

    … marks what is left out.

    >>> excerpt("one two three four", "three", 5, 0)
    '…three…'
    """
    folded, places = fold_with_places(text)
    found = [folded.find(word) for word in fold(query).split() if len(word) > 2]
    start = max(0, min((places[at] for at in found if at >= 0), default=0) - before)
    return ("…" if start else "") + text[start : start + limit] + ("…" if start + limit < len(text) else "")
