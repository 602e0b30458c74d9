"""Pages that a query names by their numbers come first among its hits: "fees on page 12", "page iv".

Words do not find them: a page does not say its position, and a number stands on many pages. Both meanings are
looked up in the document of the best hit: the number that is printed on a page, and its position in the file.
Where nothing is found they are looked up in the only document that there is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vrag.item_facts import decode_facts
from vrag.reading.questions.page_numbers import named_pages
from vrag.types import ItemKind

if TYPE_CHECKING:
    from vrag.index.catalog import Catalog
    from vrag.index.collection import Collection
    from vrag.types import Hit, Query

MAX_FIRST = 4
"""Pages that are put before others."""


def put_named_pages_first(
    hits: list[Hit],
    query: Query,
    top_k: int,
    catalog: Catalog,
    collection: Collection,
    first_row: int = 0,
) -> list[Hit]:
    """Return `top_k` hits or fewer, with the pages first that a query names.

    Args:
        hits: What was found for the query, best first; they are returned where it names no page.
        query: The query.
        top_k: Number of hits at most.
        catalog: The version of the collection that has the best hit.
        collection: The collection.
        first_row: Number of its first item, as `Hit.row` counts.
    """
    numbers = named_pages(query.text)
    document = _find_document(hits, query, catalog) if numbers else None
    if document is None:
        return hits
    is_page = catalog.mask(query) & catalog.documents.among({document})
    is_page &= catalog.kinds.among({ItemKind.PAGE.value})
    positions = {int(catalog.ordinals[page]): catalog.ids[page] for page in np.flatnonzero(is_page)}
    labels = _labels(collection, list(positions.values()))
    printed = [id for id in positions.values() if labels.get(id, "").casefold() in numbers]
    counted = [id for ordinal, id in sorted(positions.items()) if str(ordinal) in numbers]
    named = list(dict.fromkeys((*printed, *counted)))[:MAX_FIRST]
    score = hits[0].score if hits else 0.0
    first = [replace(hit, row=first_row + hit.row) for hit in catalog.hits([(id, score) for id in named])]
    others = [hit for hit in hits if hit.item not in named]
    return [replace(hit, rank=rank) for rank, hit in enumerate([*first, *others][:top_k], 1)]


def _find_document(hits: list[Hit], query: Query, catalog: Catalog) -> str | None:
    """Return the document of which a query names pages: that of the best hit, or else the only one."""
    if hits:
        row = catalog.row(hits[0].item)
        return None if row is None else catalog.documents[row]
    documents = {catalog.documents[int(row)] for row in np.flatnonzero(catalog.mask(query))}
    return documents.pop() if len(documents) == 1 else None


def _labels(collection: Collection, ids: list[str]) -> dict[str, str]:
    """Return the printed numbers of pages, where they are known."""
    rows = collection.item_table.find("id", ids, ["id", "facts"]).to_pylist()
    return {row["id"]: decode_facts(row["facts"]).label for row in rows if row["facts"]}
