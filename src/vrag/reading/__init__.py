"""A reader of pages without a model: it finds the region that answers a question, and the words to quote.

`completed` rewrites a follow-up question, `parse` analyses it, `layout` finds lines and blocks from word
boxes, and `locate` scores the lines of pages by where the question's words come together. `best_quote`
selects the words to quote and the region to crop, or abstains; `ranked_regions` ranks the regions of several
pages. Everything here is a pure function of its arguments.
"""

from __future__ import annotations

from vrag.reading.answer_selection import SelectedAnswer, best_quote
from vrag.reading.query_analysis import completed, search_query

__all__ = ["SelectedAnswer", "best_quote", "completed", "search_query"]
