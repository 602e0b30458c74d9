"""Facts of items as JSON (in the index, in the replies of workers, over HTTP) and as sentences for people."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from vrag.types import OF_WHOLE_DOCUMENT, AddressedCell, ItemFacts, ItemKind, MarkedHeading, TurnedText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pydantic import TypeAdapter

    from vrag.types import FormField, TextCell, TextTable

_PartT = TypeVar("_PartT", TurnedText, AddressedCell, MarkedHeading)


def encode_facts(facts: ItemFacts) -> str:
    """Write facts as a JSON object of those that are known; "" if none is.

    >>> encode_facts(ItemFacts(label="iv")), encode_facts(ItemFacts())
    ('{"label":"iv"}', '')
    """
    values = asdict(facts)
    known = {each.name: value for each in fields(facts) if (value := values[each.name]) != each.default}
    return json.dumps(known, separators=(",", ":")) if known else ""


def decode_facts(text: str) -> ItemFacts:
    """Read facts that were written by `encode_facts`. Raises `ValueError` if they were not.

    >>> decode_facts('{"label": "iv"}').label
    'iv'
    """
    return _adapter().validate_json(text) if text else ItemFacts()


def list_places(facts: ItemFacts) -> Iterator[tuple[int, int]]:
    """Yield the range of the text that each fact about a part of it is about."""
    for part in (*facts.turned, *facts.cells, *facts.headings):
        yield part.start, part.end
    for table in facts.tables:
        yield from ((cell.start, cell.end) for cell in table.cells)
        if table.caption:
            yield table.caption
    for each in facts.fields:
        yield from list_field_places(each)


def list_field_places(field: FormField) -> list[tuple[int, int]]:
    """Return the ranges of the text of a field: its label, then its values."""
    return [*field.label, *field.values]


def move_places(
    facts: ItemFacts, move_start: Callable[[int], int], move_end: Callable[[int], int]
) -> ItemFacts:
    """Return facts of a text that was changed. What is about a part that is no more in it is left out.

    Args:
        facts: Facts of the text before.
        move_start: Returns the new place of one where a part begins.
        move_end: Returns the new place of one where a part ends.
    """

    def move(part: _PartT) -> _PartT:
        return replace(part, start=move_start(part.start), end=move_end(part.end))

    def move_range(place: tuple[int, int]) -> tuple[int, int]:
        return move_start(place[0]), move_end(place[1])

    return replace(
        facts,
        turned=tuple(filter(_has_place, map(move, facts.turned))),
        cells=tuple(filter(_has_place, map(move, facts.cells))),
        headings=tuple(filter(_has_place, map(move, facts.headings))),
        tables=tuple(_move_table(table, move_range) for table in facts.tables),
        fields=tuple(move_field(each, move_range) for each in facts.fields),
    )


def _has_place(part: TurnedText | AddressedCell | MarkedHeading | TextCell) -> bool:
    return part.start < part.end


def _move_table(table: TextTable, move: Callable[[tuple[int, int]], tuple[int, int]]) -> TextTable:
    cells = (cell._replace(start=start, end=end) for cell in table.cells for start, end in [move(cell[4:6])])
    caption = table.caption and _keep_place(move(table.caption))
    return replace(table, cells=tuple(filter(_has_place, cells)), caption=caption)


def move_field(field: FormField, move: Callable[[tuple[int, int]], tuple[int, int]]) -> FormField:
    """Return a field with its places moved; those that are empty then are left out."""
    label, values = (tuple(filter(_keep_place, map(move, places))) for places in (field.label, field.values))
    return replace(field, label=label, values=values)


def _keep_place(place: tuple[int, int]) -> tuple[int, int] | None:
    return place if place[0] < place[1] else None


def describe_unread(
    reasons: Mapping[int, Sequence[str]], kinds: Mapping[int, ItemKind], count: int
) -> list[str]:
    """Return what is not read of a document, each with its places. What concerns all of it names none.

    Args:
        reasons: Sentences, as in `ItemFacts.unread`, by the ordinal of the item.
        kinds: Kinds of the items that are known, by ordinal.
        count: Number of items of the document.

    >>> describe_unread({2: ["It is faint."], 3: ["It is faint."]}, {2: ItemKind.PAGE, 3: ItemKind.PAGE}, 9)
    ['Pages 2–3: It is faint.']
    """
    ordinals_by_reason: dict[str, list[int]] = {}
    for ordinal, sentences in sorted(reasons.items()):
        for sentence in sentences:
            ordinals_by_reason.setdefault(sentence, []).append(ordinal)
    return [
        sentence
        if count == 1 or sentence.startswith(OF_WHOLE_DOCUMENT)
        else f"{format_places(ordinals, _find_unit(ordinals, kinds))}: {sentence}"
        for sentence, ordinals in ordinals_by_reason.items()
    ]


def _find_unit(ordinals: Sequence[int], kinds: Mapping[int, ItemKind]) -> str:
    """Return what people call these items: pages, clips or passages; parts where that is not known."""
    known = set(kinds.values())
    # Passages do not fail alone: beside them, it is a picture that failed.
    others = next(iter(known)) if len(known) == 1 and ItemKind.PASSAGE not in known else None
    units = {kinds.get(ordinal, others) for ordinal in ordinals}
    unit = units.pop()
    return unit.value if unit and not units else "part"


def format_places(numbers: Sequence[int], unit: str = "part") -> str:
    """Format sorted numbers of items for people.

    >>> format_places([3, 5, 6, 7], "page"), format_places([2])
    ('Pages 3, 5–7', 'Part 2')
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    name = unit.capitalize() + ("s" if len(numbers) > 1 else "")
    return f"{name} " + ", ".join("–".join(map(str, run)) for run in runs)


@cache
def _adapter() -> TypeAdapter[ItemFacts]:
    from pydantic import TypeAdapter

    return TypeAdapter(ItemFacts)
