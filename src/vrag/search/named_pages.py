"""Pages that a query names by their numbers come first among its hits: "fees on page 12", "page iv".

Words do not find them: a page does not say its position, and a number stands on many pages. Both meanings are
looked up in the document of the best hit: the number that is printed on a page, and its position in the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vrag.item_facts import decode_facts
from vrag.reading.questions.page_numbers import named_pages
from vrag.types import ItemKind

if TYPE_CHECKING:
    from vrag.index.catalog import Catalog
    from vrag.index.collection import Collection
    from vrag.types import Query

MAX_FIRST = 4
"""Pages that are put before others."""


def put_named_pages_first(
    found: list[tuple[str, float]], query: Query, catalog: Catalog, collection: Collection
) -> list[tuple[str, float]]:
    """Return ids with scores, best first, with the pages first that a query names.

    Args:
        found: What was found for the query, best first.
        query: The query; where it names no page, `found` is returned.
        catalog: The version that was searched.
        collection: The collection that it is of.
    """
    numbers = named_pages(query.text)
    row = catalog.row(found[0][0]) if found and numbers else None
    if row is None:
        return found
    is_page = catalog.mask(query) & catalog.documents.among({catalog.documents[row]})
    is_page &= catalog.kinds.among({ItemKind.PAGE.value})
    positions = {int(catalog.ordinals[page]): catalog.ids[page] for page in np.flatnonzero(is_page)}
    labels = _labels(collection, list(positions.values()))
    printed = [id for id in positions.values() if labels.get(id, "").casefold() in numbers]
    counted = [id for ordinal, id in sorted(positions.items()) if str(ordinal) in numbers]
    first = list(dict.fromkeys((*printed, *counted)))[:MAX_FIRST]
    others = [entry for entry in found if entry[0] not in first]
    return [*((id, found[0][1]) for id in first), *others]


def _labels(collection: Collection, ids: list[str]) -> dict[str, str]:
    """Return the printed numbers of pages, where they are known."""
    rows = collection.item_table.find("id", ids, ["id", "facts"]).to_pylist()
    return {row["id"]: decode_facts(row["facts"]).label for row in rows if row["facts"]}
