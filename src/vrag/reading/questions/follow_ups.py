"""Follow-up questions, rewritten into questions that stand alone.

Two kinds of English questions lean on the one before: *And in 2023?* or *What about Saltby?*, which puts
something else into it, and *Who built it?*, which names nothing itself. Every other question stands alone and
is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vrag.reading.questions.answer_types import find_focus
from vrag.reading.questions.query_analysis import parse, search_query
from vrag.text.terms import is_number, tokens

_PREPOSITIONS = (
    "after|at|before|between|by|during|for|from|in|near|of|on|over|per|since|to|under|until|via|with|within"
)
_LEAD = re.compile(
    r"(?:(?:and|but|or|also|then)\b[\s,]*(?:(?:what|how)\s+about\b)?|(?:what|how)\s+about\b)[\s,]*",
    re.IGNORECASE,
)
"""Beginnings of questions that continue the previous one."""
_ASKS = re.compile(
    r"""\b(?:who|whom|whose|what|which|when|where|why|how|is|are|was|were|do|does|did|has|have|had|can|could
    |will|would|should|may|must|list|name|give|tell|show|find|explain|describe|compare)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words that make a question one of its own."""
_BACK_REFERENCE = re.compile(
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

    `earlier` are the questions before it, the oldest first. Each may lean on the one before it.

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
        whole = _complete_from(whole, asked.strip()) if whole else asked.strip()
    return whole


def _complete_from(previous: str, question: str) -> str:
    """Complete a question from the previous one.

    >>> _complete_from("When was the Fulmar launched?", "And the Little Auk?")
    'When was the Little Auk launched?'
    >>> _complete_from("When was the Fulmar launched?", "Who built it?")
    'Who built it? Fulmar launched'
    """
    lead = _LEAD.match(question)
    rest = question[lead.end() if lead else 0 :].strip(" \t\n?!.,;")
    if not rest:
        return previous
    if not _ASKS.search(rest):
        is_fragment = lead or _PARTS.match(rest) or re.fullmatch(_NUMBER, rest)
        return _substitute_parts(previous, rest) if is_fragment else question
    named = any(term.key and not is_number(term.text) for term in parse(question).terms)
    if named or not _BACK_REFERENCE.search(rest):
        return question

    # The question names nothing: add the words of the previous one that do not change the kind of answer.
    own = {token.term for token in tokens(question)}
    ask, before = find_focus(question).kind, find_focus(previous)
    asked_before = previous[before.start : before.end].split()
    words = [
        word
        for word in search_query(previous).split()
        if word not in asked_before and find_focus(f"{question} {word}").kind is ask
    ]
    new = [word for word in words if own.isdisjoint(token.term for token in tokens(word))]
    return " ".join([question, *new])


def _substitute_parts(previous: str, rest: str) -> str:
    """Return the previous question with its names, numbers or words replaced by those of the follow-up.

    >>> _substitute_parts("How many sailed to Saltby in 2024?", "to Orla in 2023")
    'How many sailed to Orla in 2023?'
    >>> _substitute_parts("How many sailed in 2024?", "on Sundays")
    'How many sailed in 2024 on Sundays?'
    """
    head, *phrases = _PARTS.split(rest)
    whole = _substitute_head(previous, head.strip()) if head.strip() else previous
    for preposition, thing in zip(phrases[::2], phrases[1::2], strict=True):
        pattern = _same_kind_pattern(thing.strip(), rf"\b(?i:{preposition})\s+")
        match = pattern.search(whole) if pattern else None
        if match:
            whole = whole[: match.start("thing")] + thing.strip() + whole[match.end("thing") :]
        else:
            whole = _append_words(whole, f"{preposition.lower()} {thing.strip()}")
    return whole


def _substitute_head(previous: str, head: str) -> str:
    """Return the previous question with its only name or number replaced by words without a preposition.

    >>> _substitute_head("When was the Fulmar launched?", "the Little Auk")
    'When was the Little Auk launched?'
    >>> _substitute_head("When was the Fulmar launched?", "bicycles")
    'When was the Fulmar launched bicycles?'
    """
    terms = {token.term for token in tokens(previous)}
    if terms.issuperset(token.term for token in tokens(head)):
        return previous
    pattern = _same_kind_pattern(head, "")
    matches = [match for match in pattern.finditer(previous) if match.start("thing")] if pattern else []
    if len(matches) != 1 or _WORD_ALONE.fullmatch(head):
        return _append_words(previous, head)
    return previous[: matches[0].start("thing")] + head + previous[matches[0].end("thing") :]


def _same_kind_pattern(thing: str, prefix: str) -> re.Pattern[str] | None:
    """Compile a pattern of things of the same kind, a number, a name or a word; None for no kind.

    >>> pattern = _same_kind_pattern("2023", "in ")
    >>> pattern.search("How many sailed to Saltby in 2024?")["thing"]
    '2024'
    """
    bare = _ARTICLE.sub("", thing, count=1) if _ARTICLE.match(thing) else thing
    for kind, end in ((_NUMBER, ""), (_NAME, ""), (_WORD, _END)):
        if re.fullmatch(kind, bare):
            return re.compile(rf"{prefix}(?P<thing>(?:(?:the|an|a)\s+)?\b{kind}){end}")
    return None


def _append_words(question: str, words: str) -> str:
    """Append words to a question, before its question mark.

    >>> _append_words("How many sailed in 2024?", "on Sundays")
    'How many sailed in 2024 on Sundays?'
    """
    body = question.rstrip(" ?!.")
    return f"{body} {words}{question[len(body) :].strip()}"
