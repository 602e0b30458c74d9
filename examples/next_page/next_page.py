"""A custom tool that shows the page after one that was shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vrag.agent.tool_plugins import ToolResult
from vrag.errors import SearchError
from vrag.types import item_id

if TYPE_CHECKING:
    from vrag.agent.tool_plugins import ToolContext


class NextPage:
    """Shows the page after the one shown last, or after another page of its document."""

    name = "next_page"
    usage = "Shows the page after the one shown last: write last, or the number of another of its pages."

    def run(self, text: str, context: ToolContext) -> ToolResult:
        """Return the next page.

        Args:
            text: `last`, or the number of a page.
            context: The items shown so far, and the searcher.
        """
        if not context.shown:
            raise ValueError("no page has been shown yet; search first")
        shown = context.searcher.item(context.shown[-1])
        number = re.search(r"[0-9]{1,6}", text)
        following = item_id(shown.document, 1 + (int(number[0]) if number else shown.ordinal))
        try:
            return ToolResult(items=(context.searcher.item(following).id,))
        except SearchError:
            raise ValueError(f"{shown.document_name} has no page after that one") from None
