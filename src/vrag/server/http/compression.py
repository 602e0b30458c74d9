"""gzip for JSON, and what a client accepts.

Only JSON is compressed here, in answer to GET: lists of documents, runs and items, each of them some ten
kilobytes of repeated words. Streams of events, pictures, videos, documents and ranges of them leave as they
are; Starlette's `GZipMiddleware` compresses all but a list of types, and takes `gzip;q=0` for consent.

The length of a compressed response tells whether two of its parts are alike (the attack BREACH). That needs a
secret and text of the attacker's choice in one response, many requests that a page of another site has the
victim's browser send, and a view of the lengths. No response holds a token, cookie or key; requests that
pages of other sites cause are refused before any route (`SiteMiddleware`), and sessions have a cookie that
browsers do not send for other sites (`SameSite=Strict`). Responses to POST, which repeat what was sent, are
not compressed.
"""

from __future__ import annotations

import asyncio
import gzip
import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_MIN_BYTES = 1000
"""Shorter responses fit into a packet as they are."""
_THREAD_BYTES = 128 * 1024
"""Longer ones are compressed in a thread: they take milliseconds."""
_LEVEL = 5
_MAX_HEADER_CHARS = 1000
_CODING = re.compile(r"\s*([\w*-]+)\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*)?")


def accepts_gzip(header: str) -> bool:
    """Return whether a value of Accept-Encoding allows gzip (RFC 9110, section 12.5.3).

    >>> accepts_gzip("br, gzip"), accepts_gzip("gzip;q=0"), accepts_gzip("*"), accepts_gzip("br, *;q=0")
    (True, False, True, False)
    """
    weights: dict[str, float] = {}
    for part in header[:_MAX_HEADER_CHARS].split(","):
        if match := _CODING.fullmatch(part):
            weights[match[1].casefold()] = float(match[2] or 1)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


class JsonCompression:
    """Compresses JSON that answers GET, if it is long and the client accepts it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        accepted = accepts_gzip(", ".join(Headers(scope=scope).getlist("accept-encoding")))
        start: Message | None = None
        """The head of a JSON response, until its body is known."""

        async def send_compressed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_json(message):
                start = message
                return
            if start is not None:
                head, start = start, None
                await send(await _compress(head, message) if accepted else _vary(head))
            await send(message)

        await self._app(scope, receive, send_compressed)


def _is_json(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    is_plain = headers.get("content-type") == "application/json" and "content-encoding" not in headers
    return bool(start["status"] == 200 and is_plain)


async def _compress(start: Message, body: Message) -> Message:
    """Compress a body in its message if it is whole and long; return the head that fits."""
    content: bytes = body.get("body", b"")
    headers = _vary(start)
    if body.get("more_body") or len(content) < _MIN_BYTES:
        return headers
    if len(content) < _THREAD_BYTES:
        body["body"] = gzip.compress(content, _LEVEL, mtime=0)
    else:
        body["body"] = await asyncio.to_thread(gzip.compress, content, _LEVEL, mtime=0)
    changed = MutableHeaders(raw=start["headers"])
    changed["Content-Encoding"] = "gzip"
    changed["Content-Length"] = str(len(body["body"]))
    return start


def _vary(start: Message) -> Message:
    """Say that the response depends on Accept-Encoding."""
    MutableHeaders(raw=start["headers"]).add_vary_header("Accept-Encoding")
    return start
