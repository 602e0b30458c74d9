"""Answers questions about documents by looking at them.

Documents become items (pages, clips, passages); items are searched; an agent searches,
crops and answers with evidence down to the rectangle. Importing this package is light: no
model, no index engine and no network are touched until something is asked of them.
"""

from vrag.types import Document, Hit, Item, ItemKind, Query

__all__ = ["Document", "Hit", "Item", "ItemKind", "Query", "__version__"]

__version__ = "0.1.0"
