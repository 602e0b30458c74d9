"""What is wrong with a value that was sent, in words of people. Nothing that was sent is repeated."""

from __future__ import annotations

from typing import Any

from vrag.search.schema import NOT_BLANK

__all__ = ["fault_message"]

_WORDS = {
    "missing": "It is missing",
    "extra_forbidden": "There is no such field",
    "string_too_long": "It has more than {max_length:,} characters",
    "string_too_short": "It has fewer than {min_length:,} characters",
    "too_long": "It has more than {max_length:,} entries",
    "too_short": "It has fewer than {min_length:,} entries",
    "model_attributes_type": "It is not a JSON object",
    "model_type": "It is not a JSON object",
    "dict_type": "It is not a JSON object",
}
_EMPTY = frozenset({"string_too_short", "too_short"})


def fault_message(fault: Any) -> str:  # noqa: ANN401 - pydantic's, typed differently by its makers
    """A sentence without its full stop.

    Args:
        fault: One of the `errors()` of pydantic or FastAPI.
    """
    kind, given = fault["type"], fault.get("ctx", {})
    if kind == "json_invalid":
        return "The body is not JSON"
    if kind == "string_pattern_mismatch":
        blank = given["pattern"] == NOT_BLANK
        return "It must not be blank" if blank else "It does not look like one of this server"
    if kind in _EMPTY and given.get("min_length") == 1:
        return "It is empty"
    if kind in _WORDS:
        return _WORDS[kind].format(**given)
    message = str(fault["msg"]).removeprefix("Value error, ")
    return message[:1].upper() + message[1:]
