"""Verdicts on the claims of an answer, by the words of its evidence.

A number, date or name is looked for wherever the evidence has it. It is supported where the words of its
sentence (and of the question) stand around it; where they stand around another value of the same kind, that
one contradicts it. A sentence is supported if its claims are, and if one statement of the evidence has its
other words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vrag.geometry import Box
from vrag.reading.answer import ReadPage
from vrag.reading.questions.query_analysis import parse
from vrag.reading.table_answers.values import Day
from vrag.reading.text_layout import STOP_WORDS, is_cjk, one_edit_apart, tokens
from vrag.reading.verification.claim import Claim, ClaimKind, ClaimVerdict
from vrag.reading.verification.claims import ReadSentence, read_sentences
from vrag.reading.verification.comparison import Agreement, ValueContext, compare, read_rounding
from vrag.reading.verification.computed import MAX_OPERANDS, Computations, Operand
from vrag.reading.verification.names import TextPlace, find_name
from vrag.reading.verification.source_text import SourceText, read_source
from vrag.reading.verification.text_values import TextValue, find_values
from vrag.reading.verification.wording import are_opposite

MIN_WORDS = 12
"""Words below which a page has too little text to tell anything."""
STRONG = 0.55
"""Share of the words around a claim from which a statement is about the same."""
MIN_PRESENT = 0.5
"""Share of the words around a claim that count even if the evidence lacks them."""
MARGIN = 0.2
"""How much more of them another statement must have to contradict what stands elsewhere."""
NAME_MARGIN, SHORT_NAME_MARGIN = 0.3, 0.4
"""The same for a name, in a sentence and in an answer with few words of its own."""
MIN_OWN = 4
"""Words of a sentence below which those of the question count as its own."""
ELSEWHERE = "it stands elsewhere on the page"
FORM_MARGIN = 0.1
"""The same where it is the same number with another unit, scale or sign."""
COVER = 0.4
"""Share of the words of a sentence that one statement must have."""
COVER_WITH_VALUES = 0.2
"""The same for a sentence with numbers, dates or names, all of which are supported."""
OPERAND_SHARE = 0.75
"""Share of the best support that a number needs to be one that was computed with."""
BEFORE, BEHIND = 60, 30
"""Characters before and behind a number whose words may make it negative."""
MAX_APART = 6
"""Statements between a day and its year."""
INSIDE = 0.1
"""Advantage of places in the rectangles of the evidence."""


@dataclass(frozen=True, slots=True)
class ClaimSource:
    """A piece of evidence: a page, or a rectangle on it."""

    page: ReadPage
    region: Box | None = None
    """In `Space.UNIT`; None for the whole page or a passage."""


@dataclass(frozen=True, slots=True)
class ClaimCheck:
    """A claim with the verdict on it."""

    claim: Claim
    verdict: ClaimVerdict
    sources: tuple[int, ...] = ()
    """Positions of the sources that support or contradict it."""
    found: str = ""
    """The words that support or contradict it."""
    item: str = ""
    """Id of the item that has these words."""
    boxes: tuple[Box, ...] = ()
    """Where the words stand, in `Space.UNIT`: one rectangle for each line."""
    outside: bool = False
    """True if the words stand outside of the rectangles of the evidence, on the same page."""
    reason: str = ""
    """How it was found out, for people: a computation, or what is missing."""
    judge: str = ""
    """Name of the model that judged it; empty for a verdict by rules."""


def check_claims(question: str, answer: str, sources: Sequence[ClaimSource]) -> tuple[ClaimCheck, ...]:
    """Return the verdict on each claim of an answer, in the order of `extract_claims`.

    Args:
        question: The question, completed if it follows others.
        answer: Its answer, without markers of citations.
        sources: The evidence; each page is read once, whatever number of its parts is evidence.
    """
    evidence = _Evidence.read(sources)
    pages = {source.page.item.id: source.page for source in sources}
    computations = Computations(question, list(pages.values()))
    checks: list[ClaimCheck] = []
    for sentence in read_sentences(answer):
        checks += _SentenceCheck(question, answer, sentence, evidence, computations).checks()
    return tuple(checks)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The texts of all pages of the evidence."""

    sources: tuple[ClaimSource, ...]
    texts: tuple[SourceText, ...]
    inside: tuple[NDArray[np.bool_], ...]
    """For each text, which of its statements lie in a rectangle of the evidence."""
    vocabulary: frozenset[str]

    @classmethod
    def read(cls, sources: Sequence[ClaimSource]) -> _Evidence:
        pages = {source.page.item.id: source.page for source in sources}
        texts = tuple(read_source(page) for page in pages.values())
        inside = tuple(
            _inside(text, [source.region for source in sources if source.page.item.id == text.item.id])
            for text in texts
        )
        terms = frozenset(term for text in texts for term in (*text.places, *text.title))
        return cls(tuple(sources), texts, inside, terms)

    @property
    def has_text(self) -> bool:
        """False if it has too few words to tell anything."""
        return any(len(text.tokens) >= MIN_WORDS for text in self.texts)

    def resolve(self, term: str) -> tuple[str, ...]:
        """Return the words of the evidence that a word may stand for: itself, or one that differs slightly."""
        if term in self.vocabulary:
            return (term,)
        if len(term) < 5 or any(letter.isdigit() for letter in term) or is_cjk(term):
            return ()
        return tuple(word for word in self.vocabulary if _is_variant(term, word))

    def weights(self, terms: Iterable[str]) -> dict[str, float]:
        """Return the weight of each word by its rarity among the statements."""
        count = sum(len(text.statements) for text in self.texts)
        weights: dict[str, float] = {}
        for term in terms:
            having = sum(len(text.places.get(form, ())) for form in self.resolve(term) for text in self.texts)
            weights[term] = math.log(1 + count / (0.5 + having))
        return weights

    def support(self, weights: dict[str, float], least: float) -> list[NDArray[np.float64]]:
        """Return the share of some weighted words around each statement, 0 to 1; one array for each text.

        Words that the evidence lacks do not count, except that it must have a share of `least` of all.
        """
        forms = {term: self.resolve(term) for term in weights}
        present = sum(weight for term, weight in weights.items() if forms[term])
        total = max(present, least * sum(weights.values())) or 1.0
        return [
            np.asarray(
                [
                    sum(
                        weight * max((text.weight(form, statement) for form in forms[term]), default=0.0)
                        for term, weight in weights.items()
                    )
                    / total
                    for statement in text.statements
                ],
                np.float64,
            )
            for text in self.texts
        ]

    def words(self, place: TextPlace) -> str:
        return " ".join(self.texts[place.page].text[place.start : place.end].split())

    def check(self, claim: Claim, verdict: ClaimVerdict, place: TextPlace, reason: str = "") -> ClaimCheck:
        """Return a verdict with the words at a place."""
        text = self.texts[place.page]
        boxes = text.boxes(place.start, place.end)
        of_item = [at for at, source in enumerate(self.sources) if source.page.item.id == text.item.id]
        covering = [at for at in of_item if _covers(self.sources[at].region, boxes)]
        return ClaimCheck(
            claim,
            verdict,
            tuple(covering or of_item[:1]),
            self.words(place),
            text.item.id,
            boxes,
            outside=not covering,
            reason=reason,
        )


def _inside(text: SourceText, regions: Sequence[Box | None]) -> NDArray[np.bool_]:
    return np.asarray(
        [
            statement.rect is None or any(_covers(region, (statement.rect.box(),)) for region in regions)
            for statement in text.statements
        ],
        np.bool_,
    )


def _covers(region: Box | None, boxes: Sequence[Box]) -> bool:
    """Return whether a rectangle has the centres of all boxes."""
    return region is None or all(region.covers(*box.center) for box in boxes)


def _is_variant(term: str, word: str) -> bool:
    """Return whether two words begin alike, or differ by one letter, as by an error of recognition."""
    if len(word) < 5 or (word[0] != term[0] and word[1:] != term[1:]):
        return False
    short, long = sorted((len(term), len(word)))
    same = next((n for n in range(short) if term[n] != word[n]), short)
    return (same >= 5 and same >= 0.65 * long) or (short >= 6 and one_edit_apart(term, word))


def _around(text: SourceText, value: TextValue, statement: int) -> ValueContext:
    """Return the context of a value, with the words of its sentence around it."""
    found = text.statements[statement]
    first, last = max(value.start - BEFORE, found.start), min(value.end + BEHIND, found.end)
    return replace(found.context, words=f"{found.context.words} {text.text[first:last]}")


class _SentenceCheck:
    """The check of one sentence of an answer and the claims in it."""

    def __init__(
        self,
        question: str,
        answer: str,
        sentence: ReadSentence,
        evidence: _Evidence,
        computations: Computations,
    ) -> None:
        self.question, self.answer, self.sentence, self.evidence = question, answer, sentence, evidence
        self.computations = computations
        self.text = answer[sentence.start : sentence.end]
        self.own, values = self._content_terms()
        asked = [term.text for term in parse(question).terms] if len(self.own) < MIN_OWN else []
        self.weights = evidence.weights(dict.fromkeys([*self.own, *values, *asked]))
        self.asked_values = find_values(question)

    def _content_terms(self) -> tuple[list[str], list[str]]:
        """Return the words of the sentence outside of its values, and those of the values."""
        terms: dict[str, bool] = {}
        for token in tokens(self.text):
            at = self.sentence.start + token.start
            in_value = any(value.start <= at < value.end for value in self.sentence.values)
            if token.term not in STOP_WORDS:
                terms[token.term] = terms.get(token.term, True) and in_value
        return [term for term in terms if not terms[term]], [term for term in terms if terms[term]]

    def checks(self) -> list[ClaimCheck]:
        """Return the verdicts on the claims and then on the sentence."""
        values = {(value.start, value.end): value for value in self.sentence.values}
        found = [
            self._check_value(claim, values[claim.start, claim.end])
            if claim.kind is not ClaimKind.NAME
            else self._check_name(claim)
            for claim in self.sentence.claims
        ]
        if self.sentence.is_alone:
            return found
        return [*found, self._check_sentence(found)]

    def _support_without(self, start: int, end: int) -> list[NDArray[np.float64]]:
        """Return the support by the words around a claim."""
        own = {token.term for token in tokens(self.answer[start:end])}
        weights = {term: weight for term, weight in self.weights.items() if term not in own}
        found = self.evidence.support(weights or self.weights, MIN_PRESENT)
        return [
            support + INSIDE * inside for support, inside in zip(found, self.evidence.inside, strict=True)
        ]

    def _raise(self, support: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """Return the support of statements, or of the cells in their rows and under them if that is more.

        A name or a date in the head of a row belongs to what the cells of the row say.
        """
        return [
            np.asarray(
                [max(scores[[at, *beside]]) for at, beside in enumerate(text.companions)], np.float64
            )
            for text, scores in zip(self.evidence.texts, support, strict=True)
        ]

    def _check_value(self, claim: Claim, value: TextValue) -> ClaimCheck:
        support = self._support_without(claim.start, claim.end)
        if value.is_date:
            support = self._raise(support)
        rounding = read_rounding(self.question, self.answer[: claim.start])
        near = self.answer[max(claim.start - BEFORE, self.sentence.start) : claim.end + BEHIND]
        claimed = ValueContext(words=near if len(self.own) >= MIN_OWN else f"{self.question} {near}")
        ranked: dict[Agreement, tuple[float, TextPlace]] = {}
        for page, text in enumerate(self.evidence.texts):
            years = {other.day.year for other, _ in text.values if other.day is not None}
            for other, statement in text.values:
                around = _around(text, other, statement)
                agreement = compare(value, other, claimed=claimed, around=around, rounding=rounding)
                if agreement is Agreement.OTHER_VALUE and self._is_stated(other):
                    continue
                if value.day and other.day and not other.day.year and value.day.year not in {0, *years}:
                    agreement = Agreement.OTHER_VALUE
                score = float(support[page][statement])
                if agreement not in ranked or score > ranked[agreement][0]:
                    ranked[agreement] = score, TextPlace(page, statement, other.start, other.end)
        if value.day and value.day.year and value.day.month and Agreement.SAME not in ranked:
            ranked |= self._find_parted_date(value.day, support)
        check = self._decide(claim, ranked, MARGIN)
        stands = not ranked.keys().isdisjoint({Agreement.SAME, Agreement.LOOSE, Agreement.OTHER_FORM})
        if stands or value.amount is None:
            return check
        derivation = self.computations.find(value, self.text, self._operands(support), rounding)
        if not derivation:
            return check
        return ClaimCheck(claim, ClaimVerdict.SUPPORTED, found=derivation, reason="computed")

    def _operands(self, support: Sequence[NDArray[np.float64]]) -> list[Operand]:
        """Return the numbers of the pages, those with most words of the sentence around them first."""
        ranked = sorted(
            (
                (-float(support[page][at]), page, value.start, value, at)
                for page, text in enumerate(self.evidence.texts)
                for value, at in text.values
                if value.amount is not None and not value.spelled
            ),
            key=lambda entry: entry[:3],
        )
        return [
            Operand(
                value,
                self.evidence.texts[page].text[value.start : value.end],
                self.evidence.texts[page].statements[at].rect,
                (page, at),
            )
            for score, page, _, value, at in ranked[:MAX_OPERANDS]
            if score <= OPERAND_SHARE * ranked[0][0]
        ]

    def _find_parted_date(
        self, day: Day, support: Sequence[NDArray[np.float64]]
    ) -> dict[Agreement, tuple[float, TextPlace]]:
        """Return the place of a day whose year stands apart, as in the heads of tables or in lists of dates."""
        for page, text in enumerate(self.evidence.texts):
            years = {at for other, at in text.values if other.day == Day(day.year, 0, 0)}
            for other, at in text.values:
                same = other.day is not None and other.day[1:] == day[1:]
                if same and any(abs(year - at) <= MAX_APART for year in years):
                    place = TextPlace(page, at, other.start, other.end)
                    return {Agreement.SAME: (float(support[page][at]), place)}
        return {}

    def _is_stated(self, value: TextValue) -> bool:
        """Return whether answer or question state a value, so that it is no other value in a claim's place."""
        stated = (*self.sentence.values, *self.asked_values)
        return any(compare(one, value) is Agreement.SAME for one in stated)

    def _decide(
        self, claim: Claim, ranked: dict[Agreement, tuple[float, TextPlace]], margin: float
    ) -> ClaimCheck:
        same, loose, form, rival = (ranked.get(agreement) for agreement in list(Agreement)[:4])
        if same is None and loose is not None and (form is None or form[0] < loose[0] + FORM_MARGIN):
            same = loose
        if same is not None:
            if form and form[0] - same[0] >= FORM_MARGIN:
                return self.evidence.check(claim, ClaimVerdict.CONTRADICTED, form[1])
            if rival and rival[0] >= STRONG and rival[0] - same[0] >= margin:
                return self.evidence.check(claim, ClaimVerdict.CONTRADICTED, rival[1])
            return self.evidence.check(claim, ClaimVerdict.SUPPORTED, same[1])
        if form is not None:
            return self.evidence.check(claim, ClaimVerdict.CONTRADICTED, form[1])
        if rival is not None and rival[0] >= STRONG:
            return self.evidence.check(claim, ClaimVerdict.CONTRADICTED, rival[1])
        return self._missing(claim)

    def _missing(self, claim: Claim) -> ClaimCheck:
        if not self.evidence.has_text:
            return ClaimCheck(claim, ClaimVerdict.ONLY_VISIBLE, reason="the evidence has too little text")
        return ClaimCheck(claim, ClaimVerdict.NOT_FOUND)

    def _check_name(self, claim: Claim) -> ClaimCheck:
        places = list(find_name(claim.text, self.evidence.texts, self.evidence.resolve))
        if not places:
            return self._missing(claim)
        support = self._raise(self._support_without(claim.start, claim.end))
        best = max(places, key=lambda place: support[place.page][place.statement])
        rival = max(float(scores.max()) for scores in support if len(scores))
        margin = NAME_MARGIN if len(self.own) >= MIN_OWN else SHORT_NAME_MARGIN
        if rival >= STRONG and rival - float(support[best.page][best.statement]) >= margin:
            return self.evidence.check(claim, ClaimVerdict.NOT_FOUND, best, reason=ELSEWHERE)
        return self.evidence.check(claim, ClaimVerdict.SUPPORTED, best)

    def _check_sentence(self, found: Sequence[ClaimCheck]) -> ClaimCheck:
        claim = self.sentence.as_claim(self.answer)
        weights = self.evidence.weights(self.own)
        support = self.evidence.support(weights, 1.0)
        scored = [
            (float(score), page, statement)
            for page, scores in enumerate(support)
            for statement, score in enumerate(scores + INSIDE * self.evidence.inside[page] * (scores > 0))
        ]
        doubted = [check for check in found if check.verdict is not ClaimVerdict.SUPPORTED]
        contradicted = next((check for check in doubted if check.verdict is ClaimVerdict.CONTRADICTED), None)
        if contradicted is not None:
            return replace(contradicted, claim=claim)
        if not scored:
            return self._missing(claim)
        score, page, number = max(scored)
        statement = self.evidence.texts[page].statements[number]
        place = TextPlace(page, number, statement.start, statement.end)
        needed = COVER_WITH_VALUES if found else COVER
        if doubted or score < needed:
            return self._missing(claim)
        if are_opposite(self.text, self.evidence.texts[page].text[statement.start : statement.end]):
            return self.evidence.check(claim, ClaimVerdict.CONTRADICTED, place)
        return self.evidence.check(claim, ClaimVerdict.SUPPORTED, place)
