"""Words that turn a sentence into its opposite: negations, and directions such as rose and fell."""

from __future__ import annotations

import re

from vrag.text.terms import STOP_WORDS, tokens

ALIKE = 0.5
"""Share of the words of a sentence that a statement must have to be about the same."""
_NEGATION = re.compile(
    r"""\bno\b(?=\s+[a-z]) | \b(?:not|never|cannot|none|neither|nor|without|kein\w*|nicht|nie)\b | \w+n['’]t\b
    | 不(?!同|仅|僅|断|斷|过|過|久|少|管|论|論|但|只|错|錯|足|得不) | 没(?!收) | 沒(?!收) | 未(?!来|來|婚)
    | [无無](?!论|論|线|線|数|數|法) | 非(?!常|洲|营|營|裔)""",
    re.IGNORECASE | re.VERBOSE,
)
_NO_NEGATION = re.compile(
    r"\bnot only\b|\bno\.? ?\d|\bno longer only\b|\bno doubt\b|\bno matter\b", re.IGNORECASE
)


def _words(text: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(text.split())})\b", re.IGNORECASE)


_RISES = (
    "increas\\w* rise rises rose risen rising grow grows grew grown growing growth higher gain\\w* climb\\w*"
)
_FALLS = (
    "decreas\\w* declin\\w* fall falls fell fallen falling drop\\w* lower lowered shr[aiu]nk\\w* reduc\\w*"
)
_OPPOSITES = (
    (_words(_RISES), _words(_FALLS)),
    (_words("largest highest biggest most maximum greatest"), _words("smallest lowest fewest least minimum")),
    (_words("before earlier"), _words("after later following")),
    (_words("won wins win winning"), _words("lost loses lose losing")),
    (_words("more above over exceed\\w*"), _words("less fewer below under")),
    (re.compile("增加|增长|增長|上升|上涨|提高"), re.compile("减少|減少|下降|下跌|降低")),
    (re.compile("最大|最高|最多"), re.compile("最小|最低|最少")),
)


def is_negated(text: str) -> bool:
    """Return whether a text has a negation."""
    return bool(_find_negations(text))


def are_opposite(sentence: str, statement: str, *, negations: bool = True) -> bool:
    """Return whether one of two texts about the same denies the other, or turns its direction.

    With `negations` False, only directions count.

    >>> are_opposite("Sales rose.", "In May, sales fell."), are_opposite("Sales rose.", "Sales grew.")
    (True, False)
    >>> are_opposite("The ferry does not sail.", "The ferry sails daily.")
    True
    """
    words = {token.term for token in tokens(sentence)} - STOP_WORDS
    said = {token.term for token in tokens(statement)}
    if len(words & said) < ALIKE * len(words):
        return False
    if any(_turns(one, other, sentence, statement) for one, other in _OPPOSITES):
        return True
    if not negations:
        return False
    return (is_negated(sentence) and not is_negated(statement)) or _denies(statement, sentence)


def _turns(one: re.Pattern[str], other: re.Pattern[str], sentence: str, statement: str) -> bool:
    """Return whether a sentence has only words of one direction, and a statement only those of the other."""
    said, found = ((bool(one.search(text)), bool(other.search(text))) for text in (sentence, statement))
    return said[0] != said[1] and found == said[::-1]


def _denies(sentence: str, statement: str) -> bool:
    """Return whether a negation in a sentence is of words that a statement has without one."""
    negations = _find_negations(sentence)
    if not negations or _find_negations(statement):
        return False
    said = {token.term for token in tokens(statement)} - STOP_WORDS
    for end in negations:
        following = [token.term for token in tokens(sentence[end:]) if token.term not in STOP_WORDS]
        if said.issuperset(following[:1]) and following:
            return True
    return False


def _find_negations(text: str) -> list[int]:
    """Return where the negations of a text end."""
    plain = _NO_NEGATION.sub(lambda match: " " * len(match.group()), text)
    return [match.end() for match in _NEGATION.finditer(plain)]
