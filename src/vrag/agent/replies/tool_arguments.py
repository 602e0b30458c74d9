"""Arguments of a tool call, read as models really write them: each reader takes any JSON value.

What is meant without doubt is taken (`"Image 3"` for `Picture 3`, `"4"` for 4, one id for a list of one);
everything else raises a `ValueError` that says what is expected. The functions that begin with `repair` read
what breaks the schema and is clear all the same; they are asked where the others refuse.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, cast

from vrag.agent.replies.json_repairs import read_damaged_json
from vrag.text.folding import fold_case

T = TypeVar("T")

MAX_NODE_CHARS = 120
"""Characters of the id of a node."""
_IDENTIFIER = re.compile(r"[\w-]{1,64}")
"""Pattern of ids in runs without `RunSettings.own_ids`."""
LABEL = re.compile(r"(Text|Picture|Video) ([1-9][0-9]{0,3})")
"""Pattern of the label of a search result within its node."""

_LABEL = re.compile(r"\W*(text|passage|picture|image|page|video|clip)[\s_#:-]*0*([1-9][0-9]{0,3})\W*")
_LABEL_WITHIN = re.compile(
    r"(?<!\w)(text|passage|picture|image|page|video|clip)[\s_#:-]{0,4}0{0,3}([1-9][0-9]{0,3})(?!\w)"
)
_KINDS = {"passage": "Text", "image": "Picture", "page": "Picture", "clip": "Video"}
_NUMBER = re.compile(r"([+-]?[0-9]{1,15}(?:\.[0-9]{0,15})?)\s*(?:s|sec|secs|seconds?)?", re.IGNORECASE)
_CLOCK = re.compile(r"(?:([0-9]{1,4}):)?([0-9]{1,4}):([0-9]{1,2}(?:\.[0-9]{0,9})?)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_YES = frozenset({"true", "yes", "y", "1"})
_NO = frozenset({"false", "no", "n", "0"})


class Arguments:
    """The arguments of one call; each is read once, and none may be left over.

    Args:
        given: The arguments as the model wrote them.
        repairs: Where what breaks the schema is clear, it is read, and named here in a phrase; None to refuse
            it.
    """

    def __init__(self, given: dict[str, object], repairs: list[str] | None = None) -> None:
        self._left = dict(given)
        self.repairs = repairs

    def take(
        self,
        name: str,
        read: Callable[[object], T],
        repair: Callable[[object], T] | None = None,
        aliases: tuple[str, ...] = (),
    ) -> T:
        """Return an argument that must be there, under its name or an alias that models write.

        It is read by the schema, or, where that refuses it, by `repair`. Raises `ValueError` if it is missing
        or not as expected; the message names it.
        """
        key = self._find(name, aliases)
        if key is None:
            raise ValueError(f"{name} is missing")
        return self._read(name, read, repair, self._left.pop(key))

    def maybe(
        self,
        name: str,
        read: Callable[[object], T],
        default: T,
        repair: Callable[[object], T] | None = None,
        aliases: tuple[str, ...] = (),
    ) -> T:
        """Return an argument that may be missing or null; see `take`.

        Raises `ValueError` if it is there and not as expected; the message names it.
        """
        key = self._find(name, aliases)
        value = None if key is None else self._left.pop(key)
        return default if value is None else self._read(name, read, repair, value)

    def get(self, name: str) -> object:
        """Return an argument as it is written, or None; it is still to be read."""
        return self._left.get(name)

    def ignore(self, *names: str) -> None:
        """Discard arguments that have no meaning here."""
        for name in names:
            self._left.pop(name, None)

    def note(self, repair: str) -> None:
        """Name a repair, where repairs are made."""
        if self.repairs is not None:
            self.repairs.append(repair)

    def finish(self) -> None:
        """Reject arguments that were not read, or discard them where repairs are made.

        Raises `ValueError` if there are unexpected arguments; the message names the first.
        """
        for name in self._left:
            if self.repairs is None:
                raise ValueError(f"there is no argument {quoted(name)}")
            self.repairs.append(f"there is no argument {quoted(name)}; left out")

    def _find(self, name: str, aliases: tuple[str, ...]) -> str | None:
        """Return the name under which an argument stands."""
        if name in self._left or self.repairs is None:
            return name if name in self._left else None
        alias = next((alias for alias in aliases if alias in self._left), None)
        if alias is not None:
            self.repairs.append(f"{alias} stands for {name}")
        return alias

    def _read(
        self, name: str, read: Callable[[object], T], repair: Callable[[object], T] | None, value: object
    ) -> T:
        try:
            return read(value)
        except ValueError as error:
            fault = f"{name} {error}"
        if self.repairs is None or repair is None:
            raise ValueError(fault)
        try:
            repaired = repair(value)
        except ValueError:
            raise ValueError(fault) from None
        shown = quoted(repaired) if isinstance(repaired, str) else quoted(str(repaired))[1:-1]
        self.repairs.append(f"{fault}; read as {shown}")
        return repaired


def quoted(name: str) -> str:
    """Return a name that a model made up, quoted in at most forty characters."""
    return repr(name if len(name) <= 40 else f"{name[:37]}...")


def entries(value: object) -> list[object]:
    """Return a list."""
    if not isinstance(value, list):
        raise ValueError("must be a list")  # noqa: TRY004 - a fault of the model, like the others
    return cast("list[object]", value)


def _one_or_more(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def mapping(value: object) -> dict[str, object]:
    """Return an object."""
    if not isinstance(value, dict):
        raise ValueError("must be a JSON object")  # noqa: TRY004 - a fault of the model, like the others
    return cast("dict[str, object]", value)


def text(value: object) -> str:
    """Return non-empty text; lone surrogates become U+FFFD, since no file can hold one."""
    if not isinstance(value, str) or not (stripped := _SURROGATE.sub("\ufffd", value).strip()):
        raise ValueError("must be a text that is not empty")
    return stripped


def node_id(value: object) -> str:
    """Return the id of a node: the model's own words on one line, in composed characters.

    >>> node_id(" Ferry  fares, 2023? ")
    'Ferry fares, 2023?'
    """
    written = value if isinstance(value, str) else ""
    shown = "".join(sign if sign.isprintable() else " " if sign.isspace() else "" for sign in written)
    words = " ".join(unicodedata.normalize("NFC", shown).split())
    if not 0 < len(words) <= MAX_NODE_CHARS:
        raise ValueError(f"must be a text of 1 to {MAX_NODE_CHARS} characters")
    return words


def node_ids(value: object) -> tuple[str, ...]:
    """Return a list of ids, each taken once; one id alone is a list of one."""
    listed = _one_or_more(value)
    try:
        ids = tuple(dict.fromkeys(node_id(entry) for entry in listed))
    except ValueError:
        raise ValueError('must be a list of ids of nodes, such as ["root"]') from None
    if not ids:
        raise ValueError('must name at least one node, such as ["root"]')
    return ids


def node_key(name: str) -> str:
    """Return the form of an id in which its other spellings are equal: words and digits in lower case.

    >>> node_key("Ferry fares (2023)?") == node_key("ferry_fares-2023")
    True
    """
    plain = fold_case(name)
    return " ".join(re.findall(r"[^\W_]+", plain)) or plain


def label(value: object) -> str:
    """Return the label of a result, in its one spelling: `Text 1`, `Picture 3`, `Video 1`.

    >>> label(" [image_3] ")
    'Picture 3'
    """
    match = _LABEL.fullmatch(value.casefold()) if isinstance(value, str) else None
    if match is None:
        raise ValueError('must be the label of a result, such as "Text 1", "Picture 3" or "Video 1"')
    return f"{_KINDS.get(match[1], match[1].capitalize())} {match[2]}"


def repair_label(value: object) -> str:
    """Return the one label that stands in a text, such as `report, Picture 1`."""
    found = _LABEL_WITHIN.findall(value.casefold()) if isinstance(value, str) else []
    labels = {label(" ".join(groups)) for groups in found}
    if len(labels) != 1:
        raise ValueError("must be one label")
    return labels.pop()


def number(value: object) -> float:
    """Return a finite number; also as text, with its unit or as minutes and seconds.

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
    """Return a whole number."""
    read = number(value)
    if read != int(read):
        raise ValueError("must be a whole number")
    return int(read)


def score(value: object) -> int:
    """Return a whole number from 1 to 5."""
    read = whole(value)
    if read not in range(1, 6):
        raise ValueError("must be a whole number from 1 to 5")
    return read


def times(value: object) -> tuple[float, ...]:
    """Return seconds, in a list; one alone is a list of one."""
    listed = _one_or_more(value)
    try:
        return tuple(number(entry) for entry in listed)
    except ValueError:
        raise ValueError("must be a list of seconds, such as [12.0, 30.5]") from None


def seconds(value: object) -> tuple[float, ...]:
    """Return non-negative times in seconds."""
    read = times(value)
    if any(time < 0 for time in read):
        raise ValueError("must hold seconds from 0")
    return read


def sides(value: object) -> tuple[float, float, float, float]:
    """Return the four numbers of a box."""
    try:
        x1, y1, x2, y2 = (number(side) for side in entries(value))
    except ValueError:
        raise ValueError("must be four numbers between brackets") from None
    return x1, y1, x2, y2


def flag(value: object) -> bool:
    """Return a boolean."""
    word = str(value).strip().casefold() if isinstance(value, str | bool | int) else ""
    if word not in _YES | _NO:
        raise ValueError("must be true or false")
    return word in _YES


def _from_text(value: object) -> object:
    """Parse a text that is written as JSON; any other value stays as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in {"[", "{"}:
        return read_damaged_json(value)
    return value


def repair_entries(value: object) -> list[object]:
    """Return a list that is written as a text, or one object in place of a list of one."""
    value = _from_text(value)
    return [cast("object", value)] if isinstance(value, dict) else entries(value)


def repair_text(value: object) -> str:
    """Return a number, a word of logic, a list or an object as text.

    >>> repair_text(48200), repair_text(["red", "blue"]), repair_text(True)
    ('48200', 'red, blue', 'Yes')
    """
    if isinstance(value, bool):
        return "Yes" if value else "No"
    if isinstance(value, int | float):
        return json.dumps(number(value) if isinstance(value, float) else value)
    if isinstance(value, list) and value:
        listed = cast("list[object]", value)
        if all(isinstance(entry, str | int | float) for entry in listed):
            return text(", ".join(map(repair_text, listed)))
    if isinstance(value, list | dict) and value:
        return text(json.dumps(value, ensure_ascii=False))
    return text(cast("object", value))


def repair_node_id(value: object) -> str:
    """Return the id of a node from a number, or from a text that is too long."""
    if isinstance(value, int) and not isinstance(value, bool):
        return node_id(str(value))
    return node_id(value.strip()[:MAX_NODE_CHARS] if isinstance(value, str) else value)


def repair_node_ids(value: object) -> tuple[str, ...]:
    """Return the ids in a list that can be read, also from a text or from objects with an `id`."""
    ids: dict[str, None] = {}
    for entry in _one_or_more(_from_text(value)):
        named = cast("dict[str, object]", entry).get("id") if isinstance(entry, dict) else entry
        with suppress(ValueError):
            ids[repair_node_id(named)] = None
    return tuple(ids)


def is_identifier(name: str) -> bool:
    """Return whether a name is an id also in runs without `RunSettings.own_ids`."""
    return _IDENTIFIER.fullmatch(name) is not None


def clean_identifier(value: object) -> str:
    """Return an id as runs without `RunSettings.own_ids` have it: titles become such names.

    >>> clean_identifier("Ferry fares (2023)?")
    'Ferry_fares_2023'
    """
    written = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    composed = unicodedata.normalize("NFC", written)
    name = composed.strip()
    if not _IDENTIFIER.fullmatch(name):
        name = re.sub(r"[^\w-]+", "_", composed).strip("_")[:64]
    if not name:
        raise ValueError("must be 1 to 64 letters, digits, _ or -")
    return name


def repair_score(value: object) -> int:
    """Return a whole number from 1 to 5: rounded, and no less and no more."""
    return max(1, min(5, math.floor(number(value) + 0.5)))


def repair_times(value: object) -> tuple[float, ...]:
    """Return the seconds in a list that can be read; others name no frame."""
    times_read: list[float] = []
    for entry in _one_or_more(_from_text(value)):
        try:
            read = number(entry)
        except ValueError:
            continue
        times_read += [read] if read >= 0 else []
    return tuple(times_read)


_SIDE = r"([+-]?(?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15}))"
_FOUR = re.compile(r"[\s\[\](),;]*" + r"[\s\[\](),;]+".join([_SIDE] * 4) + r"[\s\[\](),;]*", re.ASCII)
_BOX_TOKEN = re.compile(r"<\|?/?box(?:_start|_end)?\|?>", re.IGNORECASE)
BOX_NAMES = ("bbox_2d", "bbox", "box", "box_2d", "coordinates")
_SIDE_NAMES = ("x1", "y1", "x2", "y2")
_MAX_WRAPPERS = 4
"""Lists and objects around a box."""


def repair_sides(value: object) -> tuple[float, float, float, float]:
    """Return the four numbers of one box, however it is wrapped; two boxes are none.

    >>> repair_sides("[[10, 20, 30, 40]]"), repair_sides({"bbox_2d": [10, 20, 30, 40], "label": "table"})
    ((10.0, 20.0, 30.0, 40.0), (10.0, 20.0, 30.0, 40.0))
    """
    if isinstance(value, str):
        bare = _BOX_TOKEN.sub(" ", value)
        if found := _FOUR.fullmatch(bare):
            return sides([float(side) for side in found.groups()])
        value = _from_text(bare.strip())
    for _ in range(_MAX_WRAPPERS):
        if isinstance(value, list) and len(listed := cast("list[object]", value)) == 1:
            value = listed[0]
        elif isinstance(value, dict):
            value = _sides_in(cast("dict[str, object]", value))
    return sides(cast("object", value))


def _sides_in(value: dict[str, object]) -> object:
    """Return a box in an object: under one name, or its sides under four."""
    if all(name in value for name in _SIDE_NAMES):
        return [value[name] for name in _SIDE_NAMES]
    named = [value[name] for name in BOX_NAMES if name in value]
    if len(named) != 1:
        raise ValueError("must be four numbers between brackets")
    return named[0]
