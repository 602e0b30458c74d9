"""The JSON that an expert wrote, wherever in its reply it stands."""

from __future__ import annotations

import json
import re
from typing import cast

__all__ = ["Unusable", "first_object", "four_numbers"]

_START = re.compile(r"[{\[]")
_MAX_STARTS = 200
"""Places at which reading is tried: a reply full of brackets is no JSON."""


class Unusable(ValueError):
    """A reply cannot be used; the message is a sentence that the expert is told."""


def first_object(reply: str) -> dict[str, object]:
    r"""The first JSON object in a reply, also inside a list or a code fence.

    Raises:
        Unusable: If there is none.

    >>> first_object('Sure! ```json\n[{"bbox_2d": [1, 2, 3, 4]}]\n```')
    {'bbox_2d': [1, 2, 3, 4]}
    """
    decoder = json.JSONDecoder()
    for number, start in enumerate(_START.finditer(reply)):
        if number == _MAX_STARTS:
            break
        try:
            value = decoder.raw_decode(reply, start.start())[0]
        except (ValueError, RecursionError):
            continue
        if isinstance(value, list) and value:
            value = cast("list[object]", value)[0]
        if isinstance(value, dict):
            return cast("dict[str, object]", value)
    raise Unusable("The reply holds no JSON object.")


def four_numbers(value: object) -> tuple[float, float, float, float]:
    """The sides of a box.

    Raises:
        Unusable: If the value is not four numbers.
    """
    sides = cast("list[object]", value) if isinstance(value, list) else []
    if len(sides) != 4 or not all(map(_is_number, sides)):
        raise Unusable("A box is a list of four numbers.")
    x1, y1, x2, y2 = (float(cast("float", side)) for side in sides)
    return x1, y1, x2, y2


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9
