"""Security headers of responses. A route sets those that it needs to be different."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.render.html import POLICY

if TYPE_CHECKING:
    from collections.abc import Iterable

Headers = list[tuple[bytes, bytes]]

SHELL_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
"""The page may load its own files, use its own server, and nothing else."""
EXPORT_POLICY = f"{POLICY}; frame-ancestors 'none'; sandbox"
"""An exported run that is opened at the server's address may be drawn, and nothing else."""
_STRICT_POLICY = b"default-src 'none'; frame-ancestors 'none'; sandbox"
"""Pictures and texts come from documents that nobody has checked."""
_POLICY = b"content-security-policy"
_COMMON: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
]
_UNCACHED_TYPES = (b"application/json", b"text/event-stream", b"text/plain")


def with_security_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of a response with those that it lacks.

    A policy with `sandbox` goes without Cross-Origin-Opener-Policy: by the HTML standard a browser opens
    nothing that has both.
    """
    present = list(headers)
    values = {name.lower(): value for name, value in present}
    policy = values.get(_POLICY, _STRICT_POLICY)
    wanted = [*_COMMON, (_POLICY, policy)]
    if b"sandbox" not in policy:
        wanted.append((b"cross-origin-opener-policy", b"same-origin"))
    if values.get(b"content-type", b"").startswith(_UNCACHED_TYPES):
        wanted.append((b"cache-control", b"no-store"))
    return [*present, *((name, value) for name, value in wanted if name not in values)]
