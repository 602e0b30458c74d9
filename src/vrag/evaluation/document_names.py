"""What documents are called: the same bytes may lie in several files, and a question may mean any of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from vrag.types import Document

__all__ = ["DocumentNames"]

_DIGITS = 16
"""Of a document's id, with which the ids of its items begin; see `vrag.types.item_id`."""


@dataclass(frozen=True, slots=True)
class DocumentNames:
    """The file names of each document. Without any, a document has the name by which it was found."""

    by_document: Mapping[str, frozenset[str]] = field(default_factory=dict[str, "frozenset[str]"])
    """By the first digits of its id. Of a document without items it is empty: nothing of it can be found."""
    by_name: Mapping[str, frozenset[str]] = field(default_factory=dict[str, "frozenset[str]"])
    """The keys of the documents that have a name."""

    @classmethod
    def of(cls, documents: Iterable[Document]) -> DocumentNames:
        """The names that a manifest gives."""
        names: defaultdict[str, set[str]] = defaultdict(set)
        keys: defaultdict[str, set[str]] = defaultdict(set)
        for document in documents:
            held = names[_key(document.id)]
            if document.items:
                held.add(document.name)
                keys[document.name].add(_key(document.id))
        return cls(_frozen(names), _frozen(keys))

    def called(self, id: str, name: str) -> frozenset[str]:
        """All names of a document.

        Args:
            id: Of the document, or of an item of it.
            name: By which it was found; the only one of a document that is not known.
        """
        return self.by_document.get(_key(id), frozenset({name}))

    def among(self, wanted: AbstractSet[str], id: str, name: str) -> str | None:
        """The name of a document that is wanted, the first in the alphabet; None where none is."""
        return min(self.called(id, name) & wanted, default=None)

    def distinct(self, wanted: AbstractSet[str]) -> dict[str, str]:
        """For each name the one by which `among` knows its document: names of the same bytes are one.

        A name that several documents have, beside others, stays what it is for one of them.
        """
        return {name: self._known(name, wanted) for name in wanted}

    def _known(self, name: str, wanted: AbstractSet[str]) -> str:
        firsts = {min(self.by_document[key] & wanted) for key in self.by_name.get(name, ())}
        return name if name in firsts else min(firsts, default=name)


def _key(id: str) -> str:
    return id.partition("-")[0][:_DIGITS]


def _frozen(sets: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(held) for name, held in sets.items()}
