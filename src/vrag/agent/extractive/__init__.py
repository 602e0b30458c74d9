"""A reader of pages without a model: it finds the region that answers a question, and the words to quote.

`completed` says what a question leaves unsaid, `parse` takes it apart, `layout` finds lines and blocks from
word boxes, `locate` scores the lines of the pages given by where the question's words come together, and
`quote` decides what to cut out and what to say, or to say nothing. `regions` ranks what could be cut out of
several pages. Everything here is a pure function of its arguments.
"""

from __future__ import annotations

from vrag.agent.extractive.answer_selection import SelectedAnswer, best_quote
from vrag.agent.extractive.follow_up_rewrite import completed
from vrag.agent.extractive.query_analysis import search_query

__all__ = ["SelectedAnswer", "best_quote", "completed", "search_query"]
