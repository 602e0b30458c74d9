"""Numbers, dates and amounts that stand beside a label: figures on slides, forms, timelines and charts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from vrag.geometry import Box
from vrag.reading.answer import Mark, MarkRole
from vrag.reading.spans.span_types import VALUE_TYPES, SpanType, type_of_span
from vrag.reading.tables.text_pieces import Piece, StraightView, StraightWords, join_words, split_pieces
from vrag.text.terms import STOP_WORDS, tokens

MAX_VALUES = 150
"""Values of a page that are looked at."""
MAX_VALUE_CHARS = 30
MAX_LABEL_LINES = 4
REACH = 1.3
"""Largest gap between a value and a label above or below it, in heights of the higher one."""
ACROSS = 12.0
"""Largest gap between a value and a label beside it, in heights of the label."""
LINE_GAP = 0.9
"""Largest gap between two lines of a label, in heights of a line."""
_LETTERS = re.compile(r"[^\W\d_]{2}|[\u3040-\u30ff\u3400-\u9fff]")
_DIGIT = re.compile(r"\d")
_SEVERAL = re.compile(r"[%$€£¥].*\d[\d.,]*\s?%|%.*[$€£¥]")
"""Values that stand beside each other, such as 44 % > 75 $."""
_FIRST = re.compile(r"[-+−–±~≈<>(]{0,2}\s?(?:[$€£¥₹]|US\$|USD|EUR|Rs\.?)?\s?\d")


class LabelSide(StrEnum):
    """The side of a value on which its label stands."""

    BELOW = "below"
    ABOVE = "above"
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledValue:
    """A value with one of the labels beside it."""

    text: str
    label: str
    side: LabelSide
    size: float
    """Height of the value over that of a line of the label."""
    gap: float
    """Space between the two, in heights of a line of the label."""
    marks: tuple[Mark, ...]
    """The value, then its label."""


class MatchedValue(NamedTuple):
    """A value whose label has words of a question."""

    value: LabelledValue
    cover: float
    """Weighted share of the question's terms that stand in the label, 0 to 1."""
    precision: float
    """Share of the label's terms that stand in the question, 0 to 1."""

    @property
    def score(self) -> float:
        """The order among the values of a page; higher is better."""
        return self.cover * (1 + self.precision)


def match_values(
    values: Iterable[LabelledValue], weights: Mapping[str, float], count: int
) -> list[MatchedValue]:
    """Return the values whose labels have most of a question, best first; its terms have `weights`."""
    matched: list[MatchedValue] = []
    for value in values:
        terms = {token.term for token in tokens(value.label)}
        common = terms.intersection(weights)
        cover = sum(weights[term] for term in common)
        content = terms.difference(STOP_WORDS) or terms
        if cover > 0:
            matched.append(MatchedValue(value, cover, len(common) / len(content)))
    return sorted(matched, key=lambda match: -match.score)[:count]


def find_labelled_values(views: Iterable[StraightView]) -> tuple[LabelledValue, ...]:
    """Return the values of a page, which is given by its views, with the labels at each of their sides."""
    found: list[LabelledValue] = []
    for view, words in views:
        for value in _find_upright_values(words):
            marks = tuple(replace(mark, box=view.on_picture(mark.box)) for mark in value.marks)
            found.append(replace(value, marks=marks))
    return tuple(found)


def _find_upright_values(page: StraightWords) -> list[LabelledValue]:
    rows = split_pieces(page, range(len(page.numbers)))
    pieces = [piece for row in rows for piece in row]
    values = [piece for piece in pieces if _is_value(piece.text)][:MAX_VALUES]
    labels = [piece for piece in pieces if _LETTERS.search(piece.text) and not _is_value(piece.text)]
    return [found for value in values for found in _find_labels(page, value, labels)]


def _is_value(text: str) -> bool:
    if len(text) > MAX_VALUE_CHARS or not _DIGIT.search(text) or _SEVERAL.search(text):
        return False
    kind = type_of_span(text)
    return kind is SpanType.DATE or (kind in VALUE_TYPES and _FIRST.match(text) is not None)


def _find_labels(page: StraightWords, value: Piece, labels: Sequence[Piece]) -> Iterator[LabelledValue]:
    for side, nearest in (
        (LabelSide.BELOW, _nearest_along(value, labels, down=True)),
        (LabelSide.ABOVE, _nearest_along(value, labels, down=False)),
        (LabelSide.LEFT, _nearest_across(value, labels, left=True)),
        (LabelSide.RIGHT, _nearest_across(value, labels, left=False)),
    ):
        if nearest is None:
            continue
        lines = [nearest]
        if side in (LabelSide.BELOW, LabelSide.ABOVE):
            lines = _extend(nearest, labels, down=side is LabelSide.BELOW)
        words = [page.numbers[index] for line in lines for index in line.words]
        height = max(nearest.height, 1e-6)
        yield LabelledValue(
            text=value.text,
            label=join_words(page.item, words),
            side=side,
            size=value.height / height,
            gap=max(_gap(value, nearest, along=side in (LabelSide.BELOW, LabelSide.ABOVE)), 0.0) / height,
            marks=(
                Mark(MarkRole.ANSWER, _box(page, value.words)),
                Mark(MarkRole.HEAD, _box(page, [index for line in lines for index in line.words])),
            ),
        )


def _gap(one: Piece, other: Piece, *, along: bool) -> float:
    if along:
        return max(other.y1 - one.y2, one.y1 - other.y2)
    return max(other.x1 - one.x2, one.x1 - other.x2)


def _nearest_along(value: Piece, labels: Sequence[Piece], *, down: bool) -> Piece | None:
    """Return the nearest label below or above a value that shares some of its width."""
    found: list[tuple[float, Piece]] = []
    for label in labels:
        gap = label.y1 - value.y2 if down else value.y1 - label.y2
        shared = min(value.x2, label.x2) - max(value.x1, label.x1)
        reach = REACH * max(value.height, label.height)
        if shared > 0 and -0.3 * min(value.height, label.height) <= gap <= reach:
            found.append((gap, label))
    return min(found, key=lambda entry: entry[0])[1] if found else None


def _nearest_across(value: Piece, labels: Sequence[Piece], *, left: bool) -> Piece | None:
    """Return the nearest label in the line of a value, at its left or right."""
    found: list[tuple[float, Piece]] = []
    for label in labels:
        gap = value.x1 - label.x2 if left else label.x1 - value.x2
        beside = min(value.y2, label.y2) - max(value.y1, label.y1) > 0.3 * min(value.height, label.height)
        if beside and 0 <= gap <= ACROSS * label.height:
            found.append((gap, label))
    return min(found, key=lambda entry: entry[0])[1] if found else None


def _extend(first: Piece, labels: Sequence[Piece], *, down: bool) -> list[Piece]:
    """Return the lines of a label that goes on below or above its first line, in reading order."""
    lines = [first]
    while len(lines) < MAX_LABEL_LINES:
        last = lines[-1]
        following = [
            label
            for label in labels
            if abs(label.height - last.height) <= 0.3 * last.height
            and min(last.x2, label.x2) > max(last.x1, label.x1)
            and (label.y1 - last.y2 if down else last.y1 - label.y2) + 0.3 * last.height >= 0
            and (label.y1 - last.y2 if down else last.y1 - label.y2) <= LINE_GAP * last.height
            and label not in lines
        ]
        if not following:
            break
        lines.append(min(following, key=lambda label: abs(label.y1 - last.y1)))
    return lines if down else lines[::-1]


def _box(page: StraightWords, words: Sequence[int]) -> Box:
    """Return the rectangle around words, as on the picture."""
    boxes = page.boxes[list(words)]
    x1, y1 = boxes[:, :2].min(axis=0).tolist()
    x2, y2 = boxes[:, 2:].max(axis=0).tolist()
    return Box.unit(x1 / page.width, y1 / page.height, x2 / page.width, y2 / page.height)
