"""The words of a question over a table, and the words in it that name an operation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vrag.reading.table_answers.operations import TableOperation
from vrag.reading.table_answers.triggers import TRIGGERS
from vrag.reading.table_answers.values import Day, Quantity, expand_season, find_day, find_quantities
from vrag.text.terms import STOP_WORDS, Token, is_cjk, tokens

MAX_TERMS = 60
"""Terms of a question that are looked at."""

_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in TRIGGERS.items()}
_ASKING = re.compile(
    r"\b(?:which|what|whose|how (?:many|much)|(?:the )?(?:total )?(?:number|amount|name)s? of(?: the)?"
    r"|list(?: the)?|name(?: the)?)\b\s*|多少|几|哪[个一种条艘座家]?|什么",
    re.IGNORECASE,
)
_EXTREME = re.compile(
    "|".join(
        TRIGGERS[name] for name in ("most", "least", "highest", "lowest", "first", "last", "superlative")
    ),
    re.IGNORECASE,
)
_FISCAL_YEAR = re.compile(r"\b(?:FY|CY)\s?'?((?:19|20)\d\d)\b")
_ASKED_BY: dict[TableOperation, tuple[str, ...]] = {
    TableOperation.COUNT: ("how many",),
    TableOperation.COUNT_DISTINCT: ("how many",),
    TableOperation.SUM: ("total",),
    TableOperation.AVERAGE: ("average",),
    TableOperation.RANGE: ("difference",),
    TableOperation.DIFFERENCE: ("difference", "change", "than"),
    TableOperation.COUNT_DIFFERENCE: ("difference", "than"),
    TableOperation.RATIO: ("ratio",),
    TableOperation.PERCENT_CHANGE: ("change",),
    TableOperation.SHARE: ("percent",),
}
"""The triggers, one of which a question has that asks for a number that stands in no cell."""
_AVERAGE = re.compile(
    r"\b(?:average[ds]?|typical(?:ly)?|(?:the|arithmetic|weighted|overall|a) mean(?! to\b)|mean (?:of|value|number|age|score))\b|平均|均",
    re.IGNORECASE,
)
"""Words that ask for an average, of which "to mean" is none."""
_LARGE = re.compile(
    r"\b(?:most|more|highest|higher|largest|larger|greatest|greater|biggest|bigger|max(?:imum)?)\b|最[多高大]",
    re.IGNORECASE,
)
_SMALL = re.compile(
    r"\b(?:least|fewest|fewer|less|lowest|lower|smallest|smaller|min(?:imum)?|worst|cheapest|best)\b|最[少低小]",
    re.IGNORECASE,
)
_OPPOSITE = {TableOperation.MAXIMUM: (_LARGE, _SMALL), TableOperation.MINIMUM: (_SMALL, _LARGE)}
"""Words that ask for one end of an order, and those that ask for the other one alone."""
_EXTRA_STOP_WORDS = frozenset("have name list tell number total than was did do who".split())


@dataclass(frozen=True, slots=True, eq=False)
class TableQuestion:
    """A question, ready to be compared with cells and heads."""

    text: str
    terms: tuple[Token, ...]
    weights: NDArray[np.float32]
    """Weight of each term; shape (terms,)."""
    triggers: dict[str, tuple[int, ...]]
    """For each trigger in the question, the places in the text where it begins."""
    asked: tuple[int, ...]
    """Places in the text, after "which" or "how many", where the words for the thing asked for begin."""
    extremes: tuple[int, ...]
    """Places in the text where superlatives end."""
    quantities: tuple[Quantity, ...]
    day: Day | None
    cjk: bool
    """True if it is written in Chinese, Japanese or Korean."""

    def has(self, *names: str) -> bool:
        """Return whether one of the triggers occurs."""
        return any(name in self.triggers for name in names)

    def asks_for(self, operation: TableOperation) -> bool:
        """Return whether a question asks for an operation in words; a cell may always be read."""
        if operation is TableOperation.AVERAGE and not _AVERAGE.search(self.text):
            return False  # "What does error 88 mean?"
        if operation in _OPPOSITE:
            named, opposite = _OPPOSITE[operation]
            return named.search(self.text) is not None or opposite.search(self.text) is None
        names = _ASKED_BY.get(operation)
        return names is None or self.has(*names)

    def distance(self, terms: frozenset[int] | set[int], places: tuple[int, ...]) -> int:
        """Return how many terms lie between places of the text and the next of some terms; at most 9."""
        best = 9
        for place in places:
            first = next((n for n, token in enumerate(self.terms) if token.start >= place), len(self.terms))
            best = min([best, *(n - first for n in terms if n >= first)])
        return best


@lru_cache(maxsize=256)
def analyse_question(text: str) -> TableQuestion:
    """Analyse a question over a table; FY2023 is taken as 2023, 1999-00 as 1999 2000."""
    text = expand_season(_FISCAL_YEAR.sub(r"\1", text[:2000]))
    terms = tuple(tokens(text)[:MAX_TERMS])
    triggers = {
        name: places
        for name, pattern in _PATTERNS.items()
        if (places := tuple(match.start() for match in pattern.finditer(text)))
    }
    return TableQuestion(
        text=text,
        terms=terms,
        weights=np.asarray([_weight(token, text) for token in terms], np.float32),
        triggers=triggers,
        asked=tuple(match.end() for match in _ASKING.finditer(text)),
        extremes=tuple(match.end() for match in _EXTREME.finditer(text)),
        quantities=tuple(find_quantities(text)),
        day=find_day(text),
        cjk=2 * sum(is_cjk(text[token.start]) for token in terms) > len(terms) > 0,
    )


def _weight(token: Token, text: str) -> float:
    word = text[token.start : token.end]
    lower = word.lower()
    if lower in STOP_WORDS or lower in _EXTRA_STOP_WORDS or token.term in STOP_WORDS:
        return 0.1
    if is_cjk(word):
        return 0.25 if any(character in "的了是在有什么哪几多少从到" for character in word) else 0.7
    if word[0].isdigit():
        return 1.4
    return 1.2 if word[0].isupper() and token.start > 0 else 1.0
