"""Fields of a form on a page: where the words that name them and what is filled in stand in its text.

The file says what a field has as its value, and where; which words beside it are its label is seen. A label
stands at the left of a field or above it, or else at its right; on some forms all stand below. Where two of
these could be, or where several fields could share one, the field has no label: a wrong one is worse than
none.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.corpus.formats.pdfium_annotations import AnnotationKind
from vrag.corpus.pages.placed_text import unit_boxes
from vrag.text.signs import CHECKED, CHOSEN
from vrag.types import FormField

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from vrag.corpus.formats.pdfium import PageFrame
    from vrag.corpus.formats.pdfium_annotations import FieldEntry, ShownAnnotation
    from vrag.types import Word

MAX_FIELDS = 1000
"""Fields of a page that are looked at."""
MAX_GAP = 0.35
"""Largest space between a field and a label at its left, in widths of the page."""
MAX_SPACE = 1.0
"""Largest space between two words of a label, in heights of a word."""
NEAR = 2.0
"""Largest space between a button and its label, a field and a label at its right, or two fields that share a
label, in heights of a word."""
ABOVE = 1.5
"""Largest space between a field and a label above it, in heights of a word."""
MUCH_NEARER = 0.7
"""Space between a label and one field, by that to the field at its other side, up to which it is the label of
the first one."""
CLOSE = 0.5
"""Least space between that label and the field at its other side, in heights of a word: rows that are set
close touch a label from both sides."""
EVEN = 0.15
"""Largest difference of the places of labels from one field to the next, likewise, where rows touch."""
MAX_UNLIKE = 0.5
"""Largest difference of the space between a field and a label below it from that of the others, likewise."""
MAX_LINES_ABOVE = 3
"""Lines of a label above a field."""
LINE_GAP = 0.6
"""Largest space between two of its lines, in heights of a word."""
MAX_UNIT_LETTERS = 3
"""Letters of a unit between two fields: "3 h 20 min"."""
_TITLE_WORD = re.compile(r"[^\W\d_]{3,}")


class _Run(NamedTuple):
    """Words beside a field."""

    words: tuple[int, ...]
    """Their numbers, in the order of the text."""
    gap: float
    """Space between them and the field, in heights of a word."""


def locate_fields(
    text: str, words: Sequence[Word], frame: PageFrame, shown: Sequence[ShownAnnotation]
) -> tuple[FormField, ...]:
    """Find the fields of a page in its text.

    Args:
        text: The text of the page.
        words: Its words.
        frame: The visible part of the page.
        shown: The annotations that the page shows.
    """
    fields = [each for each in shown if each.field is not None][:MAX_FIELDS]
    if not fields:
        return ()
    width, height = frame.shown_size
    page = _FormPage(text, words, [frame.to_unit(*each.bounds).as_tuple() for each in fields], width / height)
    return tuple(_list_fields(page, fields))


def _list_fields(page: _FormPage, fields: Sequence[ShownAnnotation]) -> Iterator[FormField]:
    entries = [each.field for each in fields if each.field is not None]
    values = {
        number: page.find_values(number, each)
        for number, each in enumerate(fields)
        if each.kind is not AnnotationKind.BUTTON
    }
    buttons = [number for number, each in enumerate(fields) if each.kind is AnnotationKind.BUTTON]
    for _, members in groupby(sorted(buttons, key=lambda at: entries[at].name), lambda at: entries[at].name):
        yield from _read_buttons(page, list(members), fields)
    labels = page.find_labels(list(values))
    for number, found in values.items():
        yield _make_field(page, labels[number], found, entries[number])


def _make_field(
    page: _FormPage, label: _Run | None, values: tuple[tuple[int, int], ...], entry: FieldEntry
) -> FormField:
    """Make a field; words beside it that have nothing of its title are not its label."""
    places = page.spans(label.words) if label else ()
    title = " ".join(entry.title.split())
    words = set(_TITLE_WORD.findall(title.casefold()))
    beside = {word for place in places for word in _TITLE_WORD.findall(page.text[slice(*place)].casefold())}
    is_other = len(words) > 1 and beside and words.isdisjoint(beside)
    return FormField(() if is_other else places, values, title)


def _read_buttons(
    page: _FormPage, members: Sequence[int], fields: Sequence[ShownAnnotation]
) -> Iterator[FormField]:
    """Yield a box to tick, or the field of which several buttons are the choices."""
    labels = page.find_button_labels(members)
    page.take(word for label in labels for word in (label.words if label else ()))
    entry = fields[members[0]].field
    assert entry is not None
    is_set = [fields[number].text in (CHECKED, CHOSEN) for number in members]
    if len(members) == 1 and fields[members[0]].text != CHOSEN:
        marks = page.spans(page.words_inside(members[0]))
        field = _make_field(page, labels[0], marks if is_set[0] else (), entry)
        yield FormField(field.label, field.values, field.name, is_check=True)
        return
    chosen = [label for label, on in zip(labels, is_set, strict=True) if on]
    values = [place for label in chosen if label for place in page.spans(label.words)] if all(chosen) else []
    label = page.find_group_label(members)
    page.take(label.words if label else ())
    yield _make_field(page, label, tuple(values), entry)


class _FormPage:
    """The words of a page and the fields on it; lengths are fractions of its height."""

    def __init__(
        self,
        text: str,
        words: Sequence[Word],
        bounds: Sequence[tuple[float, float, float, float]],
        aspect: float,
    ) -> None:
        scale = np.array([aspect, 1.0, aspect, 1.0])
        self.text = text
        self._words = words
        self._aspect = aspect
        self._boxes = unit_boxes(words) * scale
        self._fields = np.array(bounds) * scale
        self._heights = np.maximum(self._boxes[:, 3] - self._boxes[:, 1], 1e-6)
        self._middles = (self._boxes[:, 1] + self._boxes[:, 3]) / 2
        self._line = float(np.median(self._heights)) if words else 1e-6
        self._owner = self._find_owners()
        self._is_label = np.array(
            [self._owner[at] < 0 and _has_letters(self.word(at)) for at in range(len(words))], bool
        )

    def word(self, number: int) -> str:
        """Return the text of a word."""
        return self.text[self._words[number].start : self._words[number].end]

    def _find_owners(self) -> NDArray[np.int64]:
        """Return for each word the smallest field that it stands in; -1 for none."""
        owners = np.full(len(self._words), -1)
        sides = self._fields
        x, y = (self._boxes[:, 0] + self._boxes[:, 2]) / 2, (self._boxes[:, 1] + self._boxes[:, 3]) / 2
        areas = (sides[:, 2] - sides[:, 0]) * (sides[:, 3] - sides[:, 1])
        for number in np.argsort(-areas).tolist():
            x1, y1, x2, y2 = sides[number]
            owners[(x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2)] = number
        return owners

    def words_inside(self, number: int) -> tuple[int, ...]:
        """Return the words in a field."""
        return tuple(np.flatnonzero(self._owner == number).tolist())

    def take(self, words: Iterable[int]) -> None:
        """Note words that are a label."""
        self._is_label[list(words)] = False

    def spans(self, words: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Return the ranges of some words in the text, a range for those that only signs stand between."""
        spans: list[tuple[int, int]] = []
        before = -1
        for at in words:
            is_next = 0 <= before < at and not any(
                _has_letters(self.word(each)) for each in range(before + 1, at)
            )
            start = spans.pop()[0] if is_next else self._words[at].start
            spans.append((start, self._words[at].end))
            before = at
        return tuple(spans)

    def find_values(self, number: int, shown: ShownAnnotation) -> tuple[tuple[int, int], ...]:
        """Return where the value of a field stands, if it is seen whole; words beside it stay labels."""
        inside = self.words_inside(number)
        if shown.kind is AnnotationKind.LIST and shown.field:
            names = [shown.field.options[chosen] for chosen in sorted(shown.field.chosen)]
            found = [self._find_run(inside, name) for name in names]
            return tuple(place for run in found for place in self.spans(run)) if all(found) else ()
        run = self._find_run(inside, shown.text)
        if run:
            others = [at for at in inside if at not in run and _has_letters(self.word(at))]
            self._is_label[others] = True
        elif _letters(shown.text) and _letters(shown.text) in _letters("".join(map(self.word, inside))):
            run = inside  # a number is shown in a form of its own
        return self.spans(run)

    def _find_run(self, words: Sequence[int], wanted: str) -> tuple[int, ...]:
        """Return the words one behind the other that are a text without its spaces."""
        letters = "".join(wanted.split())
        for first in range(len(words) if letters else 0):
            joined = ""
            for last in range(first, len(words)):
                joined += self.word(words[last])
                if joined == letters:
                    return tuple(words[first : last + 1])
                if not letters.startswith(joined):
                    break
        return ()

    def find_labels(self, numbers: Sequence[int]) -> dict[int, _Run | None]:
        """Return the label of each field."""
        left = {number: self.beside(number, left=True) for number in numbers}
        above = {number: self.above(number) for number in numbers}
        labels: dict[int, _Run | None] = {}
        below = self._find_below([number for number in numbers if not left[number]], above)
        for number in numbers:
            labels[number] = self._choose(left[number], above[number])
        labels.update(below)
        taken = {word for label in labels.values() if label for word in label.words}
        for number in numbers:
            is_below = any(below.values()) and self.below(number)
            if not (left[number] or above[number] or is_below):
                right = self._near_right(number)
                labels[number] = right if right and taken.isdisjoint(right.words) else None
        return self._without_shared(labels, below)

    def _find_below(self, numbers: Sequence[int], above: Mapping[int, _Run | None]) -> dict[int, _Run | None]:
        """Return the labels of fields that have them below; none for each if it may be so.

        What stands between two fields is the label of the one that it is much nearer to. Where nothing does,
        labels are below if there are none above.

        Args:
            numbers: Fields without a label at their left.
            above: The words above each field.
        """
        below = {number: self.below(number) for number in numbers}
        own = [number for number in numbers if above[number] or not self._near_right(number)]
        upper = {word: run.gap for run in below.values() if run for word in run.words}
        gaps = {
            number: [(upper[at], run.gap) for at in run.words if at in upper]
            for number in own
            if (run := above[number])
        }
        pairs = [pair for found in gaps.values() for pair in found]
        is_below = bool(pairs) and all(_is_much_nearer(gap, lower) for gap, lower in pairs)
        lacks_above, lacks_below = (any(run[number] is None for number in own) for run in (above, below))
        if len(own) < 2 or (lacks_below and not lacks_above):
            return dict.fromkeys(numbers) if is_below else {}
        if is_below or not (gaps or lacks_below):
            free = {number for number in own if not above[number] or gaps[number]}
            return _keep_alike({number: below[number] if number in free else None for number in own})
        is_above = all(_is_much_nearer(lower, gap) for gap, lower in pairs)
        return {} if is_above or self._are_above(own, above, below) else dict.fromkeys(numbers)

    def _are_above(
        self, numbers: Sequence[int], above: Mapping[int, _Run | None], below: Mapping[int, _Run | None]
    ) -> bool:
        """Return whether labels that touch fields at both sides are those of the fields below them.

        The first fields have words above them just where those of the others are, and there are none where
        labels of the last ones would be below them: a footer stands elsewhere. The contrary is not certain:
        the first field may have no label, and a footer may stand where one would be.
        """
        uppers, lowers = (
            {word for run in runs.values() if run for word in run.words} for runs in (below, above)
        )
        firsts = [at for at in numbers if not (run := above[at]) or uppers.isdisjoint(run.words)]
        lasts = [at for at in numbers if not (run := below[at]) or lowers.isdisjoint(run.words)]
        return (
            bool(firsts and lasts)
            and all(self._is_even(at, above, firsts) for at in firsts)
            and not any(self._is_even(at, below, lasts) for at in lasts)
        )

    def _is_even(self, number: int, runs: Mapping[int, _Run | None], ends: Sequence[int]) -> bool:
        """Return whether the words above or below a field stand where those of the others but `ends` do."""
        places = [self._measure_place(at, run) for at, run in runs.items() if run and at not in ends]
        run = runs[number]
        if not run or not places:
            return False
        return abs(self._measure_place(number, run) - float(np.median(places))) <= EVEN * self._line

    def _measure_place(self, number: int, run: _Run) -> float:
        """Return the distance of the top of a label's last line from the nearer edge of a field."""
        last = run.words[-1]
        line = [
            at for at in run.words if abs(self._middles[at] - self._middles[last]) < self._heights[last] / 2
        ]
        top = float(self._boxes[line, 1].min())
        return min(abs(top - float(self._fields[number, side])) for side in (1, 3))

    def _near_right(self, number: int) -> _Run | None:
        """Return the words right behind a field."""
        right = self.beside(number, left=False)
        return right if right and right.gap <= NEAR else None

    def _choose(self, left: _Run | None, above: _Run | None) -> _Run | None:
        """Return the label at the left or above, or neither where both may be."""
        if left is None or above is None:
            return left or above
        ends = [self.word(run.words[-1]).endswith((":", "：")) for run in (left, above)]
        if ends[0] == ends[1]:
            return None
        return left if ends[0] else above

    def _without_shared(
        self, labels: Mapping[int, _Run | None], below: Mapping[int, _Run | None]
    ) -> dict[int, _Run | None]:
        """Leave out labels of several fields: two that claim one, and fields in a row behind one label.

        Those in `below` have labels of their own.
        """
        counts = Counter(word for label in labels.values() if label for word in label.words)
        kept = {
            number: label if label and max(counts[word] for word in label.words) == 1 else None
            for number, label in labels.items()
        }
        for number in labels:
            follower = self._find_follower(number)
            if follower in labels and self.above(follower) is None and not below.get(follower):
                kept[number] = None
                kept[follower] = None
        return kept

    def _find_follower(self, number: int) -> int:
        """Return the field right behind another one, with no more than a unit between them; -1 for none."""
        x1, y1, x2, y2 = self._fields[number]
        sides = self._fields
        middle = (sides[:, 1] + sides[:, 3]) / 2
        in_row = (y1 < middle) & (middle < y2) & (sides[:, 0] >= x2 - (x2 - x1) / 4)
        in_row[number] = False
        if not in_row.any():
            return -1
        follower = int(np.where(in_row, sides[:, 0], np.inf).argmin())
        words = (self._boxes[:, 0] + self._boxes[:, 2]) / 2
        between = (x2 < words) & (words < sides[follower, 0]) & (y1 < self._middles) & (self._middles < y2)
        letters = sum(len(self.word(at)) for at in np.flatnonzero(between & self._is_label).tolist())
        if letters > MAX_UNIT_LETTERS or (not letters and sides[follower, 0] - x2 > NEAR * self._line):
            return -1
        return follower

    def beside(self, number: int, *, left: bool) -> _Run | None:
        """Return the words at the left or right of a field, in its first line, up to the next field."""
        x1, y1, x2, y2 = self._fields[number]
        y2 = min(y2, y1 + 2.5 * self._line)
        tops, bottoms, middle = self._boxes[:, 1], self._boxes[:, 3], self._middles
        in_row = ((y1 < middle) & (middle < y2)) | ((tops < (y1 + y2) / 2) & ((y1 + y2) / 2 < bottoms))
        gaps = x1 - self._boxes[:, 2] if left else self._boxes[:, 0] - x2
        row = np.flatnonzero(in_row & self._is_label & (gaps > -0.5 * self._heights))
        order = row[np.argsort(gaps[row], kind="stable")].tolist()
        if not order or gaps[order[0]] > MAX_GAP * self._aspect or self._is_cut(number, order[0], left=left):
            return None
        first = order[0]
        order = [at for at in order if abs(middle[at] - middle[first]) < self._heights[first] / 2]
        return _Run(self._grow(order, left=left), float(gaps[first] / self._heights[first]))

    def _grow(self, order: Sequence[int], *, left: bool) -> tuple[int, ...]:
        """Return the first of some words of one line, and those that follow without a wide space."""
        run = [order[0]]
        for at in order[1:]:
            one, other = (at, run[-1]) if left else (run[-1], at)
            x1, x2 = self._boxes[one, 2], self._boxes[other, 0]
            if x2 - x1 > MAX_SPACE * self._heights[at] or self._has_field(x1, x2, self._boxes[at]):
                break
            run.append(at)
        return tuple(sorted(run))

    def _has_field(self, x1: float, x2: float, box: NDArray[np.float64]) -> bool:
        """Return whether a field lies between two places in the line of a word."""
        centres = (self._fields[:, 0] + self._fields[:, 2]) / 2
        in_line = (self._fields[:, 1] < box[3]) & (box[1] < self._fields[:, 3])
        return bool((in_line & (x1 < centres) & (centres < x2)).any())

    def _is_cut(self, number: int, word: int, *, left: bool) -> bool:
        """Return whether another field lies between a field and a word of its line."""
        box = self._boxes[word]
        x1, x2 = (box[2], self._fields[number, 0]) if left else (self._fields[number, 2], box[0])
        return self._has_field(x1, x2, box)

    def above(self, number: int, reach: float = ABOVE) -> _Run | None:
        """Return the words above a field that begin at its left side.

        `reach` says how far they may begin before it, in heights of a word.
        """
        x1, y1, x2, _ = self._fields[number]
        lefts, heights = self._boxes[:, 0], self._heights
        gaps = y1 - self._boxes[:, 3]
        fits = (-0.5 * heights < gaps) & (gaps <= ABOVE * heights)
        fits &= self._is_label & (x1 - reach * heights <= lefts) & (lefts < x2)
        found = np.flatnonzero(fits)
        if not len(found):
            return None
        run = self._line_from(found, int(found[np.argmin(gaps[found])]))
        if not run or self._has_field_above(number, run[0]):
            return None
        gap = float(gaps[run[0]] / heights[run[0]])
        for _ in range(MAX_LINES_ABOVE - 1):
            run = (*self._line_above(run), *run)
        return _Run(run, gap)

    def below(self, number: int) -> _Run | None:
        """Return the words of the line right below a field that begin at its left side."""
        x1, _, x2, y2 = self._fields[number]
        lefts, heights = self._boxes[:, 0], self._heights
        gaps = self._boxes[:, 1] - y2
        fits = (-0.5 * heights < gaps) & (gaps <= ABOVE * heights)
        found = np.flatnonzero(fits & self._is_label & (x1 - ABOVE * heights <= lefts) & (lefts < x2))
        if not len(found):
            return None
        run = self._line_from(found, int(found[np.argmin(gaps[found])]))
        if not run or self._has_field_below(number, run[0]):
            return None
        return _Run(run, float(gaps[run[0]] / heights[run[0]]))

    def _line_from(self, found: NDArray[np.int64], lowest: int) -> tuple[int, ...]:
        """Return the words of a line from the first of some of them on; none if others stand before it."""
        lefts, height = self._boxes[:, 0], self._heights[lowest]
        in_line = self._is_label & (np.abs(self._middles - self._middles[lowest]) < height / 2)
        first = min(found[in_line[found]].tolist(), key=lambda at: lefts[at])
        space = lefts[first] - self._boxes[:, 2]
        if (in_line & (lefts < lefts[first]) & (space < MAX_SPACE * height)).any():
            return ()
        return self._line_to_right(first)

    def _line_to_right(self, first: int) -> tuple[int, ...]:
        """Return a word and those that follow it in its line without a wide space."""
        in_line = np.abs(self._middles - self._middles[first]) < self._heights[first] / 2
        line = np.flatnonzero(self._is_label & in_line & (self._boxes[:, 0] >= self._boxes[first, 0]))
        return self._grow(sorted(line.tolist(), key=lambda at: self._boxes[at, 0]), left=False)

    def _line_above(self, run: Sequence[int]) -> tuple[int, ...]:
        """Return the words right above the first line of a label: it begins there."""
        first = run[0]
        gaps = self._boxes[first, 1] - self._boxes[:, 3]
        height = self._heights[first]
        right = max(self._boxes[at, 2] for at in run)
        fits = self._is_label & (-0.5 * height < gaps) & (gaps < LINE_GAP * height)
        fits &= (self._boxes[:, 0] < right) & (self._boxes[first, 0] - height < self._boxes[:, 2])
        found = np.flatnonzero(fits)
        if not len(found):
            return ()
        return self._line_to_right(min(found.tolist(), key=lambda at: self._boxes[at, 0]))

    def _has_field_above(self, number: int, word: int) -> bool:
        """Return whether another field lies between a field and a word above it."""
        x1, y1, x2, _ = self._fields[number]
        sides = self._fields
        between = (sides[:, 1] + sides[:, 3]) / 2
        across = (sides[:, 0] < x2) & (x1 < sides[:, 2])
        return bool((across & (self._boxes[word, 3] < between) & (between < y1)).any())

    def _has_field_below(self, number: int, word: int) -> bool:
        """Return whether another field lies between a field and a word below it."""
        x1, _, x2, y2 = self._fields[number]
        sides = self._fields
        between = (sides[:, 1] + sides[:, 3]) / 2
        across = (sides[:, 0] < x2) & (x1 < sides[:, 2])
        return bool((across & (y2 < between) & (between < self._boxes[word, 1])).any())

    def find_button_labels(self, members: Sequence[int]) -> list[_Run | None]:
        """Return the label of each of some buttons, all at the same side; none where that is not certain."""
        sides = [[self.beside(number, left=left) for number in members] for left in (False, True)]
        reached = [[run.gap if run else np.inf for run in side] for side in sides]
        right, left = (max(gaps) for gaps in reached)
        near = min(right, left)
        if near > NEAR or max(right, left) < 2 * max(near, 0.3):
            return [None] * len(members)
        return sides[0] if right < left else sides[1]

    def find_group_label(self, members: Sequence[int]) -> _Run | None:
        """Return the words at the left of the first of some buttons, or above it."""
        first = min(members, key=lambda number: (round(self._fields[number, 1], 2), self._fields[number, 0]))
        left, above = self.beside(first, left=True), self.above(first, 3 * ABOVE)
        return left if above is None else above if left is None else None


def _is_much_nearer(gap: float, other: float) -> bool:
    """Return whether a label stands much nearer to a field than to another one, by its space to each."""
    return other >= CLOSE and gap <= MUCH_NEARER * other


def _keep_alike(labels: Mapping[int, _Run | None]) -> dict[int, _Run | None]:
    """Return the labels below fields but those that stand at another distance than most do."""
    gaps = [run.gap for run in labels.values() if run]
    usual = float(np.median(gaps)) if gaps else 0.0
    most = min(usual + MAX_UNLIKE, MUCH_NEARER * ABOVE)
    return {
        number: run if run and usual - MAX_UNLIKE <= run.gap <= most else None
        for number, run in labels.items()
    }


def _has_letters(text: str) -> bool:
    return any(map(str.isalnum, text))


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
