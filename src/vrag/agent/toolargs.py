"""Arguments of a tool call, read as models really write them: each reader takes any JSON value.

What is meant without doubt is taken (`"Image 3"` for `Picture 3`, `"4"` for 4, one id for a list of one);
everything else raises a `ValueError` that says what is expected.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "IDENTIFIER",
    "LABEL",
    "Arguments",
    "entries",
    "flag",
    "identifier",
    "identifiers",
    "label",
    "mapping",
    "number",
    "sides",
    "text",
    "times",
    "whole",
]

T = TypeVar("T")

IDENTIFIER = re.compile(r"[\w-]{1,64}")
"""What a node may be called: letters of any script, digits, `_` and `-`."""
LABEL = re.compile(r"(Text|Picture|Video) ([1-9][0-9]{0,3})")
"""How a result of a search is called within its node."""

_LABEL = re.compile(r"\W*(text|passage|picture|image|page|video|clip)[\s_#:-]*0*([1-9][0-9]{0,3})\W*")
_KINDS = {"passage": "Text", "image": "Picture", "page": "Picture", "clip": "Video"}
_NUMBER = re.compile(r"([+-]?[0-9]{1,15}(?:\.[0-9]{0,15})?)\s*(?:s|sec|secs|seconds?)?", re.IGNORECASE)
_CLOCK = re.compile(r"(?:([0-9]{1,4}):)?([0-9]{1,4}):([0-9]{1,2}(?:\.[0-9]{0,9})?)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_YES = frozenset({"true", "yes", "y", "1"})
_NO = frozenset({"false", "no", "n", "0"})


class Arguments:
    """The arguments of one call; each is read once, and none may be left over."""

    def __init__(self, given: dict[str, object]) -> None:
        self._left = dict(given)

    def take(self, name: str, read: Callable[[object], T]) -> T:
        """An argument that must be there.

        Raises:
            ValueError: If it is missing or not as expected; the message names it.
        """
        if name not in self._left:
            raise ValueError(f"{name} is missing")
        return _named(name, read, self._left.pop(name))

    def maybe(self, name: str, read: Callable[[object], T], default: T) -> T:
        """An argument that may be missing or null.

        Raises:
            ValueError: If it is there and not as expected; the message names it.
        """
        value = self._left.pop(name, None)
        return default if value is None else _named(name, read, value)

    def ignore(self, *names: str) -> None:
        """Arguments that say nothing here, whatever they are."""
        for name in names:
            self._left.pop(name, None)

    def finish(self) -> None:
        """Nothing may be left.

        Raises:
            ValueError: If there are arguments that nobody asked for; the message names the first.
        """
        if self._left:
            raise ValueError(f"there is no argument {shortened(next(iter(self._left)))}")


def _named(name: str, read: Callable[[object], T], value: object) -> T:
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


def shortened(name: str) -> str:
    """A name that a model made up, quoted in at most forty characters."""
    return repr(name if len(name) <= 40 else f"{name[:37]}...")


def entries(value: object) -> list[object]:
    """A list."""
    if not isinstance(value, list):
        raise ValueError("must be a list")  # noqa: TRY004 - a fault of the model, like the others
    return cast("list[object]", value)


def _one_or_more(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def mapping(value: object) -> dict[str, object]:
    """An object."""
    if not isinstance(value, dict):
        raise ValueError("must be a JSON object")  # noqa: TRY004 - a fault of the model, like the others
    return cast("dict[str, object]", value)


def text(value: object) -> str:
    """Text that says something; half a surrogate pair becomes U+FFFD, since no file can hold one."""
    if not isinstance(value, str) or not (stripped := _SURROGATE.sub("\ufffd", value).strip()):
        raise ValueError("must be a text that is not empty")
    return stripped


def identifier(value: object) -> str:
    """The id of a node, in composed characters."""
    name = unicodedata.normalize("NFC", value).strip() if isinstance(value, str) else ""
    if not IDENTIFIER.fullmatch(name):
        raise ValueError("must be 1 to 64 letters, digits, _ or -")
    return name


def identifiers(value: object) -> tuple[str, ...]:
    """A list of ids, each taken once; one id alone is a list of one."""
    listed = _one_or_more(value)
    try:
        ids = tuple(dict.fromkeys(identifier(entry) for entry in listed))
    except ValueError:
        raise ValueError('must be a list of ids of nodes, such as ["root"]') from None
    if not ids:
        raise ValueError('must name at least one node, such as ["root"]')
    return ids


def label(value: object) -> str:
    """How a result is called, in its one spelling: `Text 1`, `Picture 3`, `Video 1`.

    >>> label(" [image_3] ")
    'Picture 3'
    """
    match = _LABEL.fullmatch(value.casefold()) if isinstance(value, str) else None
    if match is None:
        raise ValueError('must be the label of a result, such as "Text 1", "Picture 3" or "Video 1"')
    return f"{_KINDS.get(match[1], match[1].capitalize())} {match[2]}"


def number(value: object) -> float:
    """A finite number; also as text, with its unit or as minutes and seconds.

    >>> number("<12.0 seconds>"), number("1:05")
    (12.0, 65.0)
    """
    if isinstance(value, str):
        value = value.strip().lstrip("<").rstrip(">").strip()
        if clock := _CLOCK.fullmatch(value):
            return int(clock[1] or 0) * 3600 + int(clock[2]) * 60 + float(clock[3])
        plain = _NUMBER.fullmatch(value)
        value = float(plain[1]) if plain else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number")  # noqa: TRY004 - a fault of the model, like the others
    try:
        read = float(value)
    except OverflowError:
        read = math.inf
    if not math.isfinite(read):
        raise ValueError("must be a finite number")
    return read


def whole(value: object) -> int:
    """A whole number."""
    read = number(value)
    if read != int(read):
        raise ValueError("must be a whole number")
    return int(read)


def times(value: object) -> tuple[float, ...]:
    """Seconds, in a list; one alone is a list of one."""
    listed = _one_or_more(value)
    try:
        return tuple(number(entry) for entry in listed)
    except ValueError:
        raise ValueError("must be a list of seconds, such as [12.0, 30.5]") from None


def sides(value: object) -> tuple[float, float, float, float]:
    """The four numbers of a box."""
    try:
        x1, y1, x2, y2 = (number(side) for side in entries(value))
    except ValueError:
        raise ValueError("must be four numbers between brackets") from None
    return x1, y1, x2, y2


def flag(value: object) -> bool:
    """Yes or no."""
    word = str(value).strip().casefold() if isinstance(value, str | bool | int) else ""
    if word not in _YES | _NO:
        raise ValueError("must be true or false")
    return word in _YES
