"""Answers from the fields of a form: what is filled in, for a question that asks for a field by its label.

A question and a label must have the same words, but for those that the kind of the question stands for
("who": a name) and those that any form has. Where two fields fit, there is no answer; nor where the field
that fits best is not filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from vrag.geometry import Box
from vrag.reading.answer import Mark, MarkRole, Reading
from vrag.reading.answer_checks import is_measured_otherwise, is_of_kind
from vrag.reading.questions.answer_types import AnswerKind, find_focus
from vrag.reading.questions.query_analysis import without_form
from vrag.reading.spans.span_types import AGREES, SpanType, type_of_span
from vrag.text.terms import STOP_WORDS, stem, tokens
from vrag.types import FormField, Item

PROBABILITY = 0.9
"""The probability of a value whose label has the words of the question."""
MAX_VALUE_CHARS = 400
YES = "Yes"
MIN_WORDS = 2
"""Words of a label from which a question may name the form too: "the policy number of the claim"."""
_DISTINCT = frozenset(
    """after all and any before both down during each either every from no not only or other out over own per
    same than through to under until up""".split()
)
"""Stop words that tell one label from another."""
_EMPTY = STOP_WORDS - _DISTINCT - {"name", "named"}
_FORM_WORDS = frozenset(
    stem(word)
    for word in """apply ask chosen choose document enter entered entry field fill filled form give indicate
    noted note please record registered request select selected specified specify state stated tick ticked
    value want write written""".split()
)
"""Words about any field of any form."""
_IMPLIED: dict[AnswerKind, frozenset[str]] = {
    kind: frozenset(map(stem, words.split()))
    for kind, words in {
        AnswerKind.PERSON: "name full",
        AnswerKind.NAME: "name full",
        AnswerKind.DATE: "date day time",
        AnswerKind.TIME: "time",
        AnswerKind.YEAR: "year",
        AnswerKind.PLACE: "place location city address port",
        AnswerKind.NUMBER: "number",
        AnswerKind.MONEY: "amount cost price eur usd",
    }.items()
}
"""Words of labels that the kind of a question stands for."""
UNANSWERED = frozenset(
    {AnswerKind.COMPUTE, AnswerKind.REASON, AnswerKind.MANNER, AnswerKind.DEFINITION, AnswerKind.COLOR}
)
"""Kinds of answers that nobody fills in."""
_TYPED = frozenset({AnswerKind.DATE, AnswerKind.TIME, AnswerKind.YEAR, AnswerKind.DURATION})
"""Kinds of answers that a value must look like."""
_HOW_MANY = re.compile(r"\bhow many\b", re.IGNORECASE)
_AMOUNTS = frozenset({SpanType.NUMBER, SpanType.QUANTITY})
_DIGIT = re.compile(r"\d")
_ENUMERATOR = re.compile(r"\(?(?:\d{1,3}[a-z]?|[a-z])[.):]\s+|\d{1,3}[a-z]?\s+(?=[^\W\d_])")
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_OR = re.compile(r"\s+[/|]\s+")
_SPACE = re.compile(r"\s+")


class _Match(NamedTuple):
    """A field whose label has the words of a question."""

    item: Item
    field: FormField
    excess: int
    """Words of the question or the label that the other lacks."""


def find_field_answer(question: str, items: Iterable[Item]) -> Reading | None:
    """Return what is filled in where a question asks for one field of a form by its label."""
    kind = find_focus(question).kind
    if kind in UNANSWERED:
        return None
    matches = [match for item in items for match in _match_fields(question, kind, item)]
    least = min((match.excess for match in matches), default=0)
    readings = [_read_field(match) for match in matches if match.excess == least]
    first = next(iter(readings), None)
    if first is None or len({reading and reading.text.casefold() for reading in readings}) > 1:
        return None
    return first if is_answer(question, kind, first) else None


def is_answer(question: str, kind: AnswerKind, reading: Reading) -> bool:
    """Return whether a value that a question names is of the kind that it asks for."""
    if kind is AnswerKind.YES_NO or reading.text == YES:
        return kind is AnswerKind.YES_NO and reading.text == YES
    if kind is AnswerKind.PERSON and _DIGIT.search(reading.text):
        return False
    if _HOW_MANY.search(question):
        # "How many numbers of boats" does not ask for the number of a boat.
        is_number_asked = "number" in name_terms(question)
        return not is_number_asked and type_of_span(reading.text) in _AMOUNTS
    if kind in _TYPED and type_of_span(reading.text) not in AGREES[kind]:
        return False
    return is_of_kind(reading.text, kind) and not is_measured_otherwise(
        question, reading.text, reading.context
    )


def _match_fields(question: str, kind: AnswerKind, item: Item) -> Iterator[_Match]:
    """Yield the fields of an item whose label has the words of a question."""
    if not item.facts.fields:
        return
    asked, common = name_terms(without_form(question)), common_words(kind)
    title = name_terms(" ".join((item.document_name, item.heading, *item.text.split("\n", 2)[:2])))
    for field in item.facts.fields:
        for label in _list_names(item, field):
            shared = asked & label
            around = title if len(shared) >= MIN_WORDS else frozenset[str]()
            if shared and asked ^ label <= common | around and not _is_named_alone(shared, common):
                yield _Match(item, field, len(asked ^ label))
                break


def common_words(kind: AnswerKind) -> frozenset[str]:
    """Return the words that a question and what it names need not share."""
    return _FORM_WORDS | _IMPLIED.get(kind, frozenset())


def _is_named_alone(shared: frozenset[str], common: frozenset[str]) -> bool:
    """Return whether a question and a label share only words that many labels have."""
    return shared <= common - {"name", "date", "time", "address"}


def _list_names(item: Item, field: FormField) -> Iterator[frozenset[str]]:
    """Yield the terms of the label of a field, or of each of its languages."""
    label = _ENUMERATOR.sub("", _BRACKETS.sub(" ", _label_of(item, field)).strip(" *•"), count=1)
    parts: Sequence[str] = _OR.split(label)
    for part in dict.fromkeys((label, *parts)):
        if terms := name_terms(part):
            yield terms


def _label_of(item: Item, field: FormField) -> str:
    """Return the words that name a field: those beside it, or what its file calls it."""
    beside = " ".join(item.text[start:end] for start, end in field.label)
    return _SPACE.sub(" ", beside or field.name)


def name_terms(text: str) -> frozenset[str]:
    """Return the words of a question or a name that tell it from others."""
    return frozenset(
        token.term
        for token in tokens(text)
        if _EMPTY.isdisjoint((token.term, text[token.start : token.end].casefold()))
    )


def _read_field(match: _Match) -> Reading | None:
    """Return the value of a field as an answer; None if nothing is filled in."""
    item, field = match.item, match.field
    values = [_SPACE.sub(" ", item.text[slice(*place)]).strip() for place in field.values]
    text = ", ".join(values)[:MAX_VALUE_CHARS]
    if not text:
        return None
    roles = ((MarkRole.ANSWER, field.values), (MarkRole.HEAD, field.label))
    marks = [Mark(role, box) for role, places in roles for place in places if (box := _box_of(item, place))]
    return Reading(
        item=item.id,
        text=YES if field.is_check else text,
        context=f"{_label_of(item, field).rstrip(' :')}: {text}",
        probability=PROBABILITY,
        is_certain=True,
        frame=Box.around([mark.box for mark in marks]) if marks else None,
        marks=tuple(marks),
    )


def _box_of(item: Item, place: tuple[int, int]) -> Box | None:
    start, end = place
    boxes = [word.box for word in item.words if word.start < end and start < word.end]
    return Box.around(boxes) if boxes else None
