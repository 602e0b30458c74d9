"""A reader of pages without a model: short answers from tables and running text, with their places.

`read` ranks the candidates for an answer on some pages by the probability that they are right. `completed`
rewrites a follow-up question, `search_query` gives the words worth searching, and `ranked_regions` ranks the
parts of pages. Everything here is a pure function of its arguments.
"""

from __future__ import annotations

from vrag.reading.questions.follow_ups import completed
from vrag.reading.questions.query_analysis import search_query

__all__ = ["completed", "search_query"]
