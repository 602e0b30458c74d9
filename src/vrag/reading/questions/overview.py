"""Questions that no short answer fits: for an overview of documents, or for a comparison.

"What is this collection about?" and "Compare the fees of both ports" get places of each document.
"""

from __future__ import annotations

import re

from vrag.reading.questions.query_analysis import without_form
from vrag.text.terms import STOP_WORDS, tokens

_WHOLE = (
    r"(?:documents?|collections?|reports?|papers?|files?|folders?|decks?|slides?|presentations?|manuals?"
    r"|articles?|books?|booklets?|brochures?|contracts?|pdfs?|texts?|guides?|letters?"
    r"|(?:spread)?sheets?|workbooks?|all\ this)"
)
_PLEASE = r"(?:please\s+|can\ you\s+|could\ you\s+)?"
_OVERVIEW = re.compile(
    rf"""^\W*(?:(?:what|which)\b.{{0,40}}\b(?:is|are|was|were|does|do)\b.{{0,30}}\b{_WHOLE}\b.{{0,30}}
        \b(?:about|cover|describe|discuss|deal\ with|contain)\W*$
    | what(?:\ is|\ are|'s)\ (?:it|this|these|they|all\ this)\ about\W*$
    | {_PLEASE}(?:summari[sz]e|sum\ up|describe|outline)\b(?:\s+\w+){{0,4}}?\s+{_WHOLE}\b
    | (?:give|write|show|make)\b(?:\s+\w+){{0,3}}?\s+(?:summary|overview|outline)\b
    | (?:an?\s+)?(?:summary|overview|outline|tl;?dr)\b
    | what(?:\ is|\ are|'s)\b(?:\s+\w+){{0,2}}?\s+(?:main|key|central|overall|general)\s+
        (?:topic|subject|idea|point|message|theme|finding|takeaway|conclusion|purpose)s?\b
    | worum\ geht\b | (?:fasse?|fassen\ sie)\b.*\bzusammen\b | .*\bzusammenfassung\b
    | de\ quoi\ (?:parle|s'agit) | (?:r[ée]sum|resum)\w+
    | .*(?:总结|總結|概述|概括|主要内容|主要內容|讲(?:的是|了)?什么|講什麼|要約|概要))""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_COMPARISON = re.compile(
    rf"""^\W*{_PLEASE}(?:compare|contrast|vergleiche?n?|comparez?|comparar?)\b
    | \bhow\ (?:do|does|did|is|are)\b.*\b(?:compared?|differ(?:ent)?)\b
    | \b(?:compared|comparison)\W*$
    | \bwhat\ (?:is|are)\ the\ (?:main\ |key\ )?differences\ between\b
    | 比较|比較|对比|對比""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_COMPUTED = re.compile(
    r"\b(?:how\ (?:much|many)|percent|by\ what|what\ is\ the\ difference)\b|多少", re.IGNORECASE
)
"""Words that ask for a number, which is computed instead."""


def asks_for_overview(question: str) -> bool:
    """Return whether a question asks what documents are about.

    >>> [asks_for_overview(text) for text in ("What is this collection about?", "What is the fare?")]
    [True, False]
    """
    return _OVERVIEW.search(without_form(question)) is not None


def asks_to_compare(question: str) -> bool:
    """Return whether a question asks for a comparison, which no number of the documents is.

    >>> [asks_to_compare(text) for text in ("Compare the fees of both ports.", "What is the higher fee?")]
    [True, False]
    """
    core = without_form(question)
    return _COMPARISON.search(core) is not None and _COMPUTED.search(core) is None


def fits_no_answer(question: str) -> bool:
    """Return whether a question asks for an overview or a comparison, which no short answer is."""
    return asks_for_overview(question) or asks_to_compare(question)


_GENERIC = frozenset(
    token.term
    for token in tokens(
        "about article book booklet brochure collection content contract cover deck describe discuss "
        "document file folder give guide idea key letter main manual message overview paper pdf point "
        "presentation purpose report sheet slide spreadsheet subject summarise summarize summary text theme "
        "topic whole workbook worum geht dokument zusammenfassung"
    )
)
"""Words of questions for an overview that name no document."""


def names_nothing(query: str) -> bool:
    """Return whether a query for an overview has no word that tells one document from another.

    >>> names_nothing("collection about"), names_nothing("summary of the harbour report")
    (True, False)
    """
    return {token.term for token in tokens(query)} - STOP_WORDS <= _GENERIC
