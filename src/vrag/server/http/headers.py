"""Headers of responses: what browsers may do with them, and pages of which other sites may ask.

A route sets those that it needs to be different; the rest is added to every response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.render.html import POLICY

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["EXPORT_POLICY", "SHELL_POLICY", "Headers", "allowing", "preflight", "treated"]

Headers = list[tuple[bytes, bytes]]

SHELL_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
"""What the page may do: load its own files, ask its own server, and nothing else."""
EXPORT_POLICY = f"{POLICY}; frame-ancestors 'none'; sandbox"
"""What an exported run may do when it is opened at the server's address: be drawn."""
_STRICTEST = b"default-src 'none'; frame-ancestors 'none'; sandbox"
"""Pictures and texts come from documents that nobody has checked."""
_POLICY = b"content-security-policy"
_ALWAYS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
]
_OPENER = (b"cross-origin-opener-policy", b"same-origin")
_NO_STORE = (b"cache-control", b"no-store")
_FRESH = (b"application/json", b"text/event-stream", b"text/plain")
"""Types of what is true only now."""
_METHODS = b"GET, HEAD, POST, PUT, DELETE"
_ASKED = b"authorization, content-type, last-event-id, mcp-protocol-version, mcp-session-id"
_TOLD = b"content-disposition, etag, location, mcp-session-id, retry-after"


def treated(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers of a response, with those that it lacks.

    A policy with `sandbox` goes without Cross-Origin-Opener-Policy: by the HTML standard a browser opens
    nothing that has both.
    """
    present = list(headers)
    given = {name.lower(): value for name, value in present}
    policy = given.get(_POLICY, _STRICTEST)
    wanted = [*_ALWAYS, (_POLICY, policy)]
    if b"sandbox" not in policy:
        wanted.append(_OPENER)
    if given.get(b"content-type", b"").startswith(_FRESH):
        wanted.append(_NO_STORE)
    return [*present, *((name, value) for name, value in wanted if name not in given)]


def allowing(origin: bytes) -> Headers:
    """What tells a browser that a page of that origin may read the response."""
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", _TOLD),
        (b"vary", b"Origin"),
    ]


def preflight(origin: bytes) -> Headers:
    """What tells a browser that a page of that origin may ask, with a token and never with a cookie."""
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", _ASKED),
        (b"access-control-max-age", b"600"),
        (b"vary", b"Origin"),
    ]
