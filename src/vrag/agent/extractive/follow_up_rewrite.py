"""The rewrite of follow-up questions into questions that stand alone.

Two kinds of English questions lean on the one before: *And in 2023?* or *What about Saltby?*, which puts
something else into it, and *Who built it?*, which names nothing itself. Every other question stands alone and
is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vrag.agent.extractive.query_analysis import ask_of, parse, search_query
from vrag.agent.extractive.tokens import is_number, tokens

_PREPOSITIONS = (
    "after|at|before|between|by|during|for|from|in|near|of|on|over|per|since|to|under|until|via|with|within"
)
_LEAD = re.compile(
    r"(?:(?:and|but|or|also|then)\b[\s,]*(?:(?:what|how)\s+about\b)?|(?:what|how)\s+about\b)[\s,]*",
    re.IGNORECASE,
)
"""How a question begins that goes on with the one before."""
_ASKS = re.compile(
    r"""\b(?:who|whom|whose|what|which|when|where|why|how|is|are|was|were|do|does|did|has|have|had|can|could
    |will|would|should|may|must|list|name|give|tell|show|find|explain|describe|compare)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words that make a question one of its own."""
_BACK = re.compile(
    r"""\b(?:it|its|they|them|their|theirs|he|him|his|she|her|hers|this|these|those)\b
    | \b(?:did|does|is|was)\s+that\b | \bthat(?=\s*(?:[?.!,;]|$))
    | \bthe\ (?:same|latter|former)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words that stand for something said before."""
_PARTS = re.compile(rf"\b({_PREPOSITIONS})\s+", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:the|an|a)\s+", re.IGNORECASE)
_NUMBER = r"\d+(?:[.,-]\d+)*"
_NAME = r"[A-Z][\w'’-]*(?:\s+[A-Z][\w'’-]*)*"
_WORD = r"[a-z][\w'’-]*"
_WORD_ALONE = re.compile(rf"(?:(?:the|an|a)\s+)?{_WORD}")
_END = rf"(?=\s*(?:[?.!,;]|$|\b(?:{_PREPOSITIONS})\b))"


def completed(question: str, earlier: Sequence[str]) -> str:
    """Complete a question with words of the ones before it; one that stands alone stays as it is.

    Args:
        question: As it was asked.
        earlier: The questions before it, the oldest first. Each may lean on the one before it.

    >>> completed("And in 2023?", ["How many passengers travelled from Orla to Saltby in 2024?"])
    'How many passengers travelled from Orla to Saltby in 2023?'
    >>> completed("What about the line to Little Skerra?", ["How long is the line to Saltby?"])
    'How long is the line to Little Skerra?'
    >>> completed("Who built it?", ["When was the Fulmar launched?"])
    'Who built it? Fulmar launched'
    >>> completed("What does a bicycle cost?", ["When was the Fulmar launched?"])
    'What does a bicycle cost?'
    """
    whole = ""
    for asked in (*earlier, question):
        whole = _after(whole, asked.strip()) if whole else asked.strip()
    return whole


def _after(before: str, question: str) -> str:
    """Return a question, once it is known what was asked before it."""
    lead = _LEAD.match(question)
    rest = question[lead.end() if lead else 0 :].strip(" \t\n?!.,;")
    if not rest:
        return before
    if not _ASKS.search(rest):
        leans = lead or _PARTS.match(rest) or re.fullmatch(_NUMBER, rest)
        return _changed(before, rest) if leans else question
    named = any(term.key and not is_number(term.text) for term in parse(question).terms)
    return question if named or not _BACK.search(rest) else _with_words(question, before)


def _with_words(question: str, before: str) -> str:
    """Add to a question that names nothing the words of the one before that ask for nothing else."""
    own = {token.term for token in tokens(question)}
    ask = ask_of(question)
    words = [word for word in search_query(before).split() if ask_of(f"{question} {word}") is ask]
    new = [word for word in words if own.isdisjoint(token.term for token in tokens(word))]
    return " ".join([question, *new])


def _changed(before: str, rest: str) -> str:
    """Return the question before, with parts of it put in the places where it has others of their kind."""
    head, *phrases = _PARTS.split(rest)
    whole = _without_preposition(before, head.strip()) if head.strip() else before
    for preposition, thing in zip(phrases[::2], phrases[1::2], strict=True):
        place = _place(thing.strip(), rf"\b(?i:{preposition})\s+")
        found = place.search(whole) if place else None
        if found:
            whole = whole[: found.start("thing")] + thing.strip() + whole[found.end("thing") :]
        else:
            whole = _longer(whole, f"{preposition.lower()} {thing.strip()}")
    return whole


def _without_preposition(before: str, head: str) -> str:
    """Return the question before, with something that takes the place of the only name or number in it."""
    known = {token.term for token in tokens(before)}
    if known.issuperset(token.term for token in tokens(head)):
        return before
    place = _place(head, "")
    found = [match for match in place.finditer(before) if match.start("thing")] if place else []
    if len(found) != 1 or _WORD_ALONE.fullmatch(head):
        return _longer(before, head)
    return before[: found[0].start("thing")] + head + before[found[0].end("thing") :]


def _place(thing: str, before: str) -> re.Pattern[str] | None:
    """Return the pattern of things of the same kind, a number, a name or a word; None for no kind."""
    bare = _ARTICLE.sub("", thing, count=1) if _ARTICLE.match(thing) else thing
    for kind, end in ((_NUMBER, ""), (_NAME, ""), (_WORD, _END)):
        if re.fullmatch(kind, bare):
            return re.compile(rf"{before}(?P<thing>(?:(?:the|an|a)\s+)?\b{kind}){end}")
    return None


def _longer(question: str, words: str) -> str:
    """Return a question with words added before its question mark."""
    body = question.rstrip(" ?!.")
    return f"{body} {words}{question[len(body) :].strip()}"
