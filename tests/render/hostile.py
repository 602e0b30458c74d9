"""Runs in which every string is an attack on the page."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, cast

from vrag.agent.events import Event

KEPT = {"type", "sha256", "crop_sha256", "agent", "messages", "kind", "finish", "stop_reason", "propagation"}
"""Fields whose values the schema fixes, or that name files."""


def payload(address: str = "http://127.0.0.1:9/leak") -> str:
    """Ends attributes, elements, styles and drawings, runs scripts and fetches things, where it can."""
    return (
        f"\"'></title></style></svg></pre><script>document.title='PWNED';fetch('{address}?script')</script>"
        f"<img src={address}?img onerror=\"document.title='PWNED'\"><svg onload=\"document.title='PWNED'\">"
        f"<link rel=stylesheet href={address}?css><style>@import url({address}?import);"
        "body{display:none}</style>"
        f"<iframe src={address}?frame></iframe><a href=\"javascript:document.title='PWNED'\">x</a>"
        f"<meta http-equiv=refresh content='0;url={address}?refresh'><base href={address}>"
        "&lt;script&gt; ]]> <!-- \x00\x1b\u202e\ud800 ${1} {{1}} "
    )


def hostile(event: Event, text: str) -> Event:
    """The event with the text before each of its strings."""
    return type(event).model_validate(_attacked(event.model_dump(), text))


def _attacked(value: Any, text: str, name: str = "") -> Any:  # noqa: ANN401 - any part of an event
    match value:
        case dict():
            fields = cast("dict[str, Any]", value)
            return {key: _attacked(part, text, key) for key, part in fields.items()}
        case tuple() | list():
            return tuple(_attacked(part, text, name) for part in cast("tuple[Any, ...]", value))
        case Enum():
            return value
        case str() if name not in KEPT and not re.fullmatch(r"[0-9a-f]{64}", value):
            return text + value
        case _:
            return value
