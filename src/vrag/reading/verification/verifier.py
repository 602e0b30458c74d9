"""Verdicts on the claims of an answer, by the text of its evidence.

A number or date is looked for wherever the evidence has it. It is stated where the words of its sentence (and
of the question) stand around it; where they stand around another value of the same kind, it is doubted. A
sentence is stated if its claims are, its names stand there too, and one statement of the evidence has its
other words. Whether the picture shows the same, a second reading tells; see `second_reading`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from vrag.reading.questions.answer_types import AnswerKind, find_focus
from vrag.reading.questions.query_analysis import parse
from vrag.reading.table_answers.values import Day
from vrag.reading.verification.claim import Claim, ClaimDoubt, ClaimKind, ClaimVerdict
from vrag.reading.verification.claim_evidence import (
    INSIDE,
    MIN_SHARE,
    MIN_WHOLE_SHARE,
    ClaimCheck,
    ClaimEvidence,
    ClaimSource,
    Support,
    TextPlace,
)
from vrag.reading.verification.claims import ReadSentence, SentenceName, read_statements
from vrag.reading.verification.comparison import Agreement, Rounding, ValueContext, compare, read_rounding
from vrag.reading.verification.computed import MAX_OPERANDS, Computations, Derivation, Operand
from vrag.reading.verification.source_text import ROW, SourceText
from vrag.reading.verification.text_values import TextValue, find_values
from vrag.reading.verification.undecidable import is_place_name, leave_undecidable
from vrag.reading.verification.wording import are_opposite, is_negated
from vrag.text.terms import STOP_WORDS, is_cjk, tokens

RankedPlaces: TypeAlias = dict[Agreement, tuple[float, TextPlace]]
"""For each agreement with a claim, the best place of such a value and the support of its statement."""
STANDS = frozenset({Agreement.SAME, Agreement.LOOSE, Agreement.OTHER_FORM})
"""Agreements of values that are the same number."""
STRONG = 0.55
"""Share of the words around a claim from which a statement is about the same."""
WEAK = 0.4
"""The same below which a short number or a year stands somewhere by chance."""
_DRAWN = re.compile(
    r"\b(?:charts?|graphs?|plots?|diagrams?|(?:sub)?figures?(?= \d)|maps?|pictures?|images?|photos?|icons?)\b"
    r"|[图圖](?!书|書)",
    re.IGNORECASE,
)
"""Words of questions about drawings, whose values need not be written."""
MIN_PRESENT = 0.5
"""Share of the words around a claim that count even if the evidence lacks them."""
MARGIN = 0.15
"""The further share of them that another statement must have to contradict what stands elsewhere."""
LONG_MARGIN, LONG_DIGITS = 0.3, 3
"""The same for a day of a month and a number with so many digits, which seldom stand somewhere by chance."""
NAME_MARGIN, SHORT_NAME_MARGIN = 0.4, 0.45
"""The same for a name, in a sentence and in an answer with few words of its own."""
MIN_OWN = 4
"""Words of a sentence below which those of the question count as its own."""
FORM_MARGIN = 0.1
"""The same where it is the same number with another unit, scale or sign."""
COVER = 0.3
"""Share of the words of a sentence that one statement must have."""
COVER_WITH_VALUES = 0.2
"""The same for a sentence with numbers, dates or names, all of which are supported."""
MOST, MOST_PAIRS = 0.5, 0.25
"""Share of its words, numbers and names of which one statement, with its row and heads, must have more; of
its pairs of characters in Chinese and Japanese, where one other character is two other pairs."""
MIN_NEW, MIN_REST = 4, 0.6
"""Pairs of characters in a row that are a new name, in a sentence with this share of its words found."""
OPERAND_SHARE = 0.75
"""Share of the best support that a number needs to be one that was computed with."""
BEFORE, BEHIND = 60, 30
"""Characters before and behind a number whose words may make it negative."""
MAX_APART = 6
"""Statements between a day and its year."""
FULL = 0.9
"""Share of the own words of a sentence from which all of them count as being there."""
MIN_AMOUNT = 100
"""Numbers without a unit below this may be counts of anything."""
MIN_COPIED = 3
"""Digits of a number in which an error of copying can be told from another number."""
MAX_COUNT = 30
"""Numbers that may have been counted are smaller."""
_COUNTED = re.compile(r"\bhow many ((?:\S+ ){1,3})", re.IGNORECASE)
_YES_NO = re.compile(r"(yes|no)\b[.!]?|[是否对不][的是]?。?", re.IGNORECASE)
DRAWN_KINDS = frozenset({AnswerKind.COLOR, AnswerKind.COUNT})
"""Kinds of answers that seldom stand in the text: colours, and counts of things on a page."""


def check_claims(question: str, answer: str, sources: Sequence[ClaimSource]) -> tuple[ClaimCheck, ...]:
    """Return the verdict on each claim of an answer, in the order of `extract_claims`.

    A number that the question states, and that the evidence does not support, is left out.

    Args:
        question: The question, completed if it follows others.
        answer: Its answer, without markers of citations.
        sources: The evidence; each page is read once, whatever number of its parts is evidence.
    """
    evidence = ClaimEvidence.read(sources)
    pages = {source.page.item.id: source.page for source in sources}
    computations = Computations(question, list(pages.values()))
    checks: list[ClaimCheck] = []
    for sentence in read_statements(answer):
        checks += _SentenceCheck(question, answer, sentence, evidence, computations).checks()
    return leave_undecidable(answer, checks, (page.item.text for page in pages.values()))


def _best(support: Support) -> float:
    """Return the highest support of any statement."""
    return max((float(scores.max()) for scores in support if len(scores)), default=0.0)


def _around(text: SourceText, value: TextValue, statement: int) -> ValueContext:
    """Return the context of a value, with the words of its sentence around it."""
    found = text.statements[statement]
    first, last = max(value.start - BEFORE, found.start), min(value.end + BEHIND, found.end)
    return replace(found.context, words=f"{found.context.words} {text.text[first:last]}")


def resemble(one: str, other: str) -> bool:
    """Return whether two numbers differ as by an error of copying: in one digit of three, or in their order.

    >>> resemble("84,210", "84,120"), resemble("$48,900", "48,200"), resemble("1862", "2000")
    (True, True, False)
    """
    digits, others = (re.sub(r"\D", "", text) for text in (one, other))
    if len(digits) != len(others) or len(digits) < MIN_COPIED:
        return False
    differing = sum(a != b for a, b in zip(digits, others, strict=True))
    return 0 < differing <= len(digits) // MIN_COPIED or sorted(digits) == sorted(others)


def is_written_alike(one: str, other: str) -> bool:
    """Return whether two values have the same decimals and a unit or none, or are dates.

    >>> is_written_alike("2.7 %", "2.1 %"), is_written_alike("0.263", "1,788"), is_written_alike("8", "3")
    (True, False, False)
    """
    values, others = find_values(one), find_values(other)
    if not values or not others:
        return False
    value, second = values[0], others[0]
    if value.is_date or second.is_date:
        return value.is_date and second.is_date
    is_count = not value.units and value.step == 1 and abs(value.amount or 0) < MIN_AMOUNT
    same_units = bool(value.units) == bool(second.units)
    return not is_count and same_units and value.step == second.step and not second.spelled


class _SentenceCheck:
    """The check of one sentence of an answer and the claims in it."""

    def __init__(
        self,
        question: str,
        answer: str,
        sentence: ReadSentence,
        evidence: ClaimEvidence,
        computations: Computations,
    ) -> None:
        self.question, self.answer, self.sentence, self.evidence = question, answer, sentence, evidence
        self.computations = computations
        self.text = answer[sentence.start : sentence.end]
        self.own, values = self._content_terms()
        asked = [term.text for term in parse(question).terms] if len(self.own) < MIN_OWN else []
        self.words = evidence.weigh([*self.own, *values, *asked])
        self.asked_values = find_values(question)
        self.asked = {token.term for token in tokens(question)}

    def _content_terms(self) -> tuple[list[str], list[str]]:
        """Return the words of the sentence outside of its values, and those of the values."""
        terms: dict[str, bool] = {}
        for token in tokens(self.text):
            at = self.sentence.start + token.start
            in_value = any(value.start <= at < value.end for value in self.sentence.values)
            if token.term not in STOP_WORDS and at >= self.sentence.content:
                terms[token.term] = terms.get(token.term, True) and in_value
        return [term for term in terms if not terms[term]], [term for term in terms if terms[term]]

    def checks(self) -> list[ClaimCheck]:
        """Return the verdicts on the claims and then on the sentence."""
        found: list[ClaimCheck] = []
        for claim, value in zip(self.sentence.claims, self.sentence.values, strict=True):
            check = self._check_value(claim, value)
            if check.verdict is ClaimVerdict.STATED or not self._is_asked(value):
                found.append(check)
        if self.sentence.is_alone:
            return found
        return [*found, self._check_sentence(found)]

    def _support_without(self, start: int, end: int) -> Support:
        """Return the support by the words around a claim."""
        own = {token.term for token in tokens(self.answer[start:end])}
        found = self.words.support(MIN_PRESENT, own)
        return [
            support + INSIDE * inside for support, inside in zip(found, self.evidence.inside, strict=True)
        ]

    def _raise(self, support: Support) -> Support:
        """Return the support of statements, or of the cells in their rows and under them if that is more.

        A name or a date in the head of a row belongs to what the cells of the row say.
        """
        return [
            np.asarray([max(scores[[at, *beside]]) for at, beside in enumerate(text.companions)], np.float64)
            for text, scores in zip(self.evidence.texts, support, strict=True)
        ]

    def _check_value(self, claim: Claim, value: TextValue) -> ClaimCheck:
        support = self._support_without(claim.start, claim.end)
        if value.is_date:
            support = self._raise(support)
        rounding = read_rounding(self.question, self.answer[: claim.start])
        ranked = self._rank_values(claim, value, support, rounding)
        best = _best(support)
        check = self._decide(claim, ranked, self._margin(claim, value), best)
        if value.amount is None or not ranked.keys().isdisjoint(STANDS):
            return check
        derivation = self.computations.find(value, self.text, self._operands(support), rounding)
        if derivation is not None:
            return self._check_derivation(claim, derivation)
        if self._is_counted(value, ranked):
            return ClaimCheck(claim, ClaimVerdict.UNVERIFIED, needs_picture=True)
        return check

    def _check_derivation(self, claim: Claim, derivation: Derivation) -> ClaimCheck:
        """Return the verdict on a number that follows from others, with their places."""
        operands = [
            self.evidence.words_at(page, operand.value.start, operand.value.end)
            for operand in derivation.operands
            if not self.evidence.is_of_part(page := operand.statement[0], operand.rect)
        ]
        if derivation.reading is not None:
            operands = self.evidence.find_marked(derivation.reading)
        is_known = bool(operands) and len(operands) >= len(derivation.operands)
        items = {words.item for words in operands}
        return ClaimCheck(
            claim,
            ClaimVerdict.STATED,
            tuple(at for at, one in enumerate(self.evidence.sources) if one.page.item.id in items),
            derivation.text,
            is_computed=True,
            operands=tuple(operands) if is_known else (),
        )

    def _margin(self, claim: Claim, value: TextValue) -> float:
        """Return how much better another value must fit to contradict one that stands on the page."""
        if any(compare(value, asked) <= Agreement.LOOSE for asked in self.asked_values):
            return math.inf
        digits = sum(sign.isdigit() for sign in claim.text)
        is_long = value.day.month > 0 if value.day is not None else digits >= LONG_DIGITS
        return LONG_MARGIN if is_long else MARGIN

    def _is_counted(self, value: TextValue, ranked: RankedPlaces) -> bool:
        """Return whether a small number may be that of things which no text counts.

        A statement with another number and the word for these things does count them.
        """
        counted = _COUNTED.search(self.question)
        if counted is None or value.units or value.amount not in range(MAX_COUNT):
            return False
        things = {token.term for token in tokens(counted[1])} - STOP_WORDS
        rival = ranked.get(Agreement.OTHER_VALUE)
        if rival is None:
            return True
        terms = self.evidence.texts[rival[1].page].statements[rival[1].statement].terms
        return not any(terms.get(thing) == 1 for thing in things)

    def _rank_values(
        self, claim: Claim, value: TextValue, support: Support, rounding: Rounding
    ) -> RankedPlaces:
        """Return the best place of a value of the evidence for each agreement with a stated one."""
        near = self.answer[max(claim.start - BEFORE, self.sentence.start) : claim.end + BEHIND]
        claimed = ValueContext(words=near if len(self.own) >= MIN_OWN else f"{self.question} {near}")
        ranked: RankedPlaces = {}
        for page, text in enumerate(self.evidence.texts):
            years = {other.day.year for other, _ in text.values if other.day is not None}
            for other, statement in text.values:
                around = _around(text, other, statement)
                agreement = compare(value, other, claimed=claimed, around=around, rounding=rounding)
                if agreement is Agreement.OTHER_VALUE and other in self.stated:
                    continue
                if value.day and other.day and not other.day.year and value.day.year not in {0, *years}:
                    agreement = Agreement.OTHER_VALUE
                score = float(support[page][statement])
                if agreement not in ranked or score > ranked[agreement][0]:
                    ranked[agreement] = score, TextPlace(page, statement, other.start, other.end)
        if value.day and value.day.year and value.day.month and Agreement.SAME not in ranked:
            ranked |= self._find_parted_date(value.day, support)
        return ranked

    def _operands(self, support: Support) -> list[Operand]:
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
                self.evidence.texts[page].statements[at].context,
            )
            for score, page, _, value, at in ranked[:MAX_OPERANDS]
            if score <= OPERAND_SHARE * ranked[0][0]
        ]

    def _find_parted_date(self, day: Day, support: Support) -> RankedPlaces:
        """Return the place of a day whose year stands apart, as in heads of tables or lists of dates."""
        for page, text in enumerate(self.evidence.texts):
            years = {at for other, at in text.values if other.day == Day(day.year, 0, 0)}
            for other, at in text.values:
                same = other.day is not None and other.day[1:] == day[1:]
                if same and any(abs(year - at) <= MAX_APART for year in years):
                    place = TextPlace(page, at, other.start, other.end)
                    return {Agreement.SAME: (float(support[page][at]), place)}
        return {}

    def _is_asked(self, value: TextValue) -> bool:
        """Return whether the question itself states a number, which is then no claim of the answer."""
        return value.amount is not None and any(
            compare(value, asked) <= Agreement.LOOSE for asked in self.asked_values
        )

    @cached_property
    def stated(self) -> frozenset[TextValue]:
        """The values of the evidence that answer or question state, which contradict no claim."""
        stated = (*self.sentence.values, *self.asked_values)
        return frozenset(
            value
            for text in self.evidence.texts
            for value, _ in text.values
            if any(compare(one, value) is Agreement.SAME for one in stated)
        )

    def _decide(self, claim: Claim, ranked: RankedPlaces, margin: float, best: float) -> ClaimCheck:
        """Return the verdict on a number or a date.

        Args:
            claim: The claim.
            ranked: The best places of such values.
            margin: How much better another value must fit to contradict one that stands on the page.
            best: The highest support of any statement.
        """
        same, loose, form, rival = (ranked.get(agreement) for agreement in list(Agreement)[:4])
        if same is None and loose is not None and (form is None or form[0] < loose[0] + FORM_MARGIN):
            same = loose
        rival = rival if rival is not None and rival[0] >= STRONG else None
        best_same = same[0] if same is not None else -math.inf
        if form is not None and form[0] - best_same >= FORM_MARGIN:
            return self.evidence.check(claim, ClaimVerdict.DOUBTED, form[1], ClaimDoubt.UNIT)
        is_rivalled = rival is not None and rival[0] - best_same >= margin
        if rival is not None and (is_rivalled or same is None) and self._speaks_against(claim, rival[1]):
            doubt = ClaimDoubt.DATE if claim.kind is ClaimKind.DATE else ClaimDoubt.VALUE
            return self.evidence.check(claim, ClaimVerdict.DOUBTED, rival[1], doubt)
        if same is not None and not is_rivalled and (margin > MARGIN or same[0] >= WEAK or best < STRONG):
            return self.evidence.check(claim, ClaimVerdict.STATED, same[1])
        if same is None and rival is not None:  # the text tells, though nothing stands in its place for sure
            return ClaimCheck(claim, ClaimVerdict.UNVERIFIED)
        if same is None or (_DRAWN.search(self.question) and not is_rivalled):
            return self._missing(claim)
        return self.evidence.check(claim, ClaimVerdict.UNVERIFIED, same[1], ClaimDoubt.SUBJECT)

    def _speaks_against(self, claim: Claim, rival: TextPlace) -> bool:
        """Return whether another value stands in the place of a stated one.

        It does among the words of a sentence, if it is written alike. A number that was counted or computed
        stands nowhere, and has others around: an answer of few words, a number of one or two digits without
        a unit, and one with other decimals is doubted only for an error of copying. Few words are enough
        where all of them stand around a number with a unit or a scale.
        """
        written = self.evidence.words(rival)
        context = len(self.own) + len(self.sentence.values) - 1
        own = float(self.evidence.weigh(self.own).support(1.0)[rival.page][rival.statement])
        has_unit = any(value.units or value.scale != 1 for value in find_values(written))
        is_enough = context >= MIN_OWN or (has_unit and len(self.own) > 1 and own >= FULL)
        return (is_enough and is_written_alike(claim.text, written)) or resemble(claim.text, written)

    def _missing(self, claim: Claim, doubt: ClaimDoubt | None = None) -> ClaimCheck:
        """Return the verdict on a claim that does not stand on the evidence."""
        needs_picture = (
            not self.evidence.has_text
            or find_focus(self.question).kind in DRAWN_KINDS
            or _DRAWN.search(self.question) is not None
        )
        return ClaimCheck(
            claim,
            ClaimVerdict.UNVERIFIED,
            doubt=None if needs_picture else doubt,
            needs_picture=needs_picture,
        )

    def _find_names(self) -> tuple[list[TextPlace], ClaimCheck | None]:
        """Return where the names of the sentence stand, or the verdict on it where one does not."""
        claim = self.sentence.as_claim(self.answer)
        found: list[TextPlace] = []
        for name in self.sentence.names:
            place, is_elsewhere = self._find_name(name)
            if place is None:
                if is_place_name(name.text):
                    continue
                return found, self._missing(claim, ClaimDoubt.SUBJECT)
            if is_elsewhere:
                check = self.evidence.check(claim, ClaimVerdict.UNVERIFIED, place, ClaimDoubt.SUBJECT)
                return found, check
            found.append(place)
        return found, None

    def _find_name(self, name: SentenceName) -> tuple[TextPlace | None, bool]:
        """Return where a name stands, and whether the words around it stand together elsewhere."""
        share = MIN_SHARE if len(self.own) > 1 or not self.sentence.is_named else MIN_WHOLE_SHARE
        places = list(self.evidence.find_name(name.text, share))
        if not places:
            return None, False
        support = self._raise(self._support_without(name.start, name.end))
        best = max(places, key=lambda place: support[place.page][place.statement])
        rival = _best(support)
        margin = NAME_MARGIN if len(self.own) >= MIN_OWN else SHORT_NAME_MARGIN
        if self.asked.issuperset(token.term for token in tokens(name.text)):
            margin = math.inf  # what the question is about need not be named again
        return best, rival >= STRONG and rival - float(support[best.page][best.statement]) >= margin

    def _has_new_name(self, score: float) -> bool:
        """Return whether a sentence has characters in a row that the evidence lacks, but is else its words.

        Names in Chinese and Japanese cannot be told from other words: this finds those that were replaced.
        """
        run = longest = 0
        for token in tokens(self.text):
            is_new = is_cjk(token.term) and not self.evidence.resolve(token.term)
            run = run + 1 if is_new else 0
            longest = max(longest, run)
        return longest >= MIN_NEW and score >= MIN_REST

    def _check_sentence(self, found: Sequence[ClaimCheck]) -> ClaimCheck:
        claim = self.sentence.as_claim(self.answer)
        doubted = next((check for check in found if check.verdict is ClaimVerdict.DOUBTED), None)
        if doubted is not None:
            return replace(doubted, claim=claim)
        if _YES_NO.fullmatch(self.text):
            return ClaimCheck(claim, ClaimVerdict.UNVERIFIED, needs_picture=True)
        names, unnamed = self._find_names()
        if unnamed is not None:
            return unnamed
        missing = next((check for check in found if check.verdict is not ClaimVerdict.STATED), None)
        if missing is not None:
            return ClaimCheck(
                claim, missing.verdict, doubt=missing.doubt, needs_picture=missing.needs_picture
            )
        return self._find_sentence(claim, found, names)

    def _find_sentence(
        self, claim: Claim, found: Sequence[ClaimCheck], names: Sequence[TextPlace]
    ) -> ClaimCheck:
        """Check a sentence whose claims and names stand on the evidence."""
        if len(self.own) < 2 and found:
            check = replace(found[0], claim=claim, is_computed=False, operands=())
            return self._with_words(check, names)
        if names and self.sentence.is_named:
            return self._with_words(self.evidence.check(claim, ClaimVerdict.STATED, names[0]), names)
        return self._check_words(claim, COVER_WITH_VALUES if found or names else COVER, names)

    def _check_words(self, claim: Claim, needed: float, names: Sequence[TextPlace]) -> ClaimCheck:
        """Check a sentence by the words of the statement that has most of them."""
        support = self.evidence.weigh(self.own).support(1.0)
        own, values = self._content_terms()
        known = {*values, *(token.term for name in self.sentence.names for token in tokens(name.text))}
        shared = self.evidence.weigh([*own, *values]).shared(ROW, known)
        most = MOST_PAIRS if is_cjk(self.text) else MOST
        quoted = self._find_quoted()
        scored = [
            (float(score), page, number)
            for page, scores in enumerate(support)
            for number, score in enumerate(scores + INSIDE * self.evidence.inside[page] * (scores > 0))
            if shared[page][number] > most or page in quoted
        ]
        score, page, number = max(scored, default=(0.0, 0, 0))
        if score < needed or self._has_new_name(score):
            return self._missing(claim)
        statement = self.evidence.texts[page].statements[number]
        place = TextPlace(page, number, statement.start, statement.end)
        is_opposite = are_opposite(
            self.text,
            self.evidence.texts[page].text[statement.start : statement.end],
            negations=not is_negated(self.question),
        )
        if is_opposite:
            return self.evidence.check(claim, ClaimVerdict.DOUBTED, place, ClaimDoubt.OPPOSITE)
        return self._with_words(self.evidence.check(claim, ClaimVerdict.STATED, place), names)

    def _find_quoted(self) -> frozenset[int]:
        """Return the numbers of the texts that have all words of the sentence in a row."""
        quote = f" {' '.join(token.term for token in tokens(self.text))} "
        texts = (f" {' '.join(token.term for token in text.tokens)} " for text in self.evidence.texts)
        return frozenset(page for page, text in enumerate(texts) if quote in text)

    def _with_words(self, check: ClaimCheck, names: Sequence[TextPlace]) -> ClaimCheck:
        """Return the verdict on a sentence with the places of its words, which a second reading looks at."""
        if not check.item or check.span is None:
            return check
        page = next(at for at, text in enumerate(self.evidence.texts) if text.item.id == check.item)
        words = {place.start: self.evidence.words_at(place.page, place.start, place.end) for place in names}
        missing = 0
        for term in self.own:
            place = self.evidence.find_word(term, page, check.span)
            if place is None:
                missing += 1
            else:
                words.setdefault(place[0], self.evidence.words_at(page, *place))
        return replace(check, words=tuple(words.values()), missing=missing)
