"""Damaged JSON, read where its meaning is clear: by the library `json_repair`, within bounds.

The library reads anything as something. It is kept from three faults: it takes time with the square of the
number of brackets and quotes, it closes what was cut off in the middle of a text, and it leaves out what it
cannot place. So the input is bounded, must end where a value ends, and every letter and digit of it must
stand in the result, in the same order.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn, cast

from json_repair import repair_json

MAX_CHARACTERS = 16_384
"""Length of a text that is repaired; a tool call with twenty results has 4,000."""
MAX_MARKS = 768
"""Quotes and opening brackets in it; a tool call with twenty results has 300."""

_MARK = re.compile(r"[{\[(\"'“”]")
_ENDS_OF_VALUES = frozenset("}]\"'”’")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\[bfnrt]")
_NOTHING = re.compile(r"\b(?:null|none|undefined)\b", re.IGNORECASE)
_STRING_OR_COMMENT = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"|(?<=[\s,:{\[])'(?:[^'\\\n]|\\.)*')"""
    r"""|(?:(?<=[\s,:{}\[\]])|\A)(?://[^\n]*|\#[^\n]*|/\*.*?\*/)""",
    re.DOTALL,
)
_FRACTION = re.compile(r"(?<=\d)\.\d+")


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _read_integer(digits: str) -> int:
    if len(digits) > 400:  # more than any float holds
        raise ValueError("a number has too many digits")
    return int(digits)


_DECODER = json.JSONDecoder(strict=False, parse_constant=_reject_constant, parse_int=_read_integer)
"""Line breaks may stand in strings, as models write them."""


def read_json(text: str, start: int = 0) -> tuple[object, int]:
    """Return the JSON value that begins at `start`, and where it ends.

    Raises `ValueError` if there is none, with the reason.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at character {error.pos - start}") from None
    return cast("object", value), end


def read_damaged_json(text: str) -> object:
    """Return the object or list that a text means; valid JSON means what `json` reads in it.

    Repaired are quotes, commas, comments, brackets that are missing at the end, bare words, and the words of
    Python. Raises `ValueError` if it cannot be read without doubt, with the reason.

    >>> read_damaged_json("{'pages': [3, 4,], title: 'Fares'")
    {'pages': [3, 4], 'title': 'Fares'}
    """
    text = text.strip()
    try:
        value = _read_or_repair(text)
    except ValueError:
        uncommented = without_comments(text) if len(text) <= MAX_CHARACTERS else text
        if uncommented == text:
            raise
        value = _read_or_repair(uncommented)
    if not isinstance(value, dict | list):
        raise ValueError("it is neither an object nor a list")  # noqa: TRY004 - a fault of the text
    return cast("object", value)


def _read_or_repair(text: str) -> object:
    try:
        value, end = read_json(text)
    except ValueError as error:
        return _repair(text, str(error))
    return _repair(text, "something follows the end of the JSON") if text[end:].strip() else value


def without_comments(text: str) -> str:
    """Return a text without comments in the form of C, Python or shell; strings stay as they are.

    A comment stands after white space or a sign between values, so that `http://` begins none.

    >>> without_comments('{"id": "a", // the first')
    '{"id": "a",'
    """
    return _STRING_OR_COMMENT.sub(lambda match: match["string"] or "", text).strip()


def _repair(text: str, fault: str) -> object:
    if len(text) > MAX_CHARACTERS or len(_MARK.findall(text)) > MAX_MARKS:
        raise ValueError(f"{fault}, and it is too long to be repaired")
    if text[-1:] not in _ENDS_OF_VALUES:
        raise ValueError(f"{fault}, and it does not end where a value ends")
    try:
        value: object = repair_json(text, return_objects=True, skip_json_loads=True)
        repaired = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except Exception as error:  # the library may raise anything on damaged text
        raise ValueError(fault) from error
    if _letters(text) != _letters(repaired):
        raise ValueError(f"{fault}, and a part of it has no place in what it could mean")
    return value


def _letters(text: str) -> str:
    """Return letters and digits alone, as far as they are part of what is meant."""
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else " ", text)
    plain = _FRACTION.sub(lambda match: match[0].rstrip("0"), _NOTHING.sub(" ", plain))
    return "".join(re.findall(r"[^\W_]", plain)).casefold()
