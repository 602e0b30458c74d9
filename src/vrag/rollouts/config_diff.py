"""What was made with other values, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["otherwise"]

_LONGEST = 40
"""Characters of a value that is told; longer ones, such as digests, tell nobody anything."""


def otherwise(names: Iterable[str], before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What differs; both values where they are plain numbers or short text.

    >>> otherwise(["model", "sampling"], {"model": "a", "sampling": {"seed": 3, "top_p": 1}},
    ...           {"model": "b", "sampling": {"seed": 4, "top_p": 1}})
    'model a, not b, seed 3, not 4'

    Args:
        names: Of what differs.
        before: What was made with, as JSON values by name.
        now: What is asked for.
    """
    told = [part for name in names for part in _parts(name, before.get(name), now.get(name))]
    others = [name for name, words in told if not words]
    values = [f"{name} {words}" for name, words in told if words]
    return ", ".join([*values, *([f"other {', '.join(others)}"] if others else [])])


def _parts(name: str, before: object, now: object) -> Iterator[tuple[str, str]]:
    """Names and words; no words where the values would not tell anything."""
    plain = _plain(before) and _plain(now)
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        first, second = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", now)
        for part in sorted(first.keys() | second.keys()):
            if (part in first, first.get(part)) != (part in second, second.get(part)):
                yield from _parts(part, first.get(part), second.get(part))
    else:
        yield name, f"{before}, not {now}" if plain else ""


def _plain(value: object) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= _LONGEST and value.isprintable()
    return isinstance(value, int | float)
