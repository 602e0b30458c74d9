"""The path below which a proxy serves the server, such as `/docs` for `https://example.org/docs/`.

The page needs to know nothing of it: its addresses are relative. What has to name a path of the server whole
(the OpenAPI document, links in exports and answers, Location headers) gets it from the option `root_path` or
from the header X-Forwarded-Prefix of a trusted proxy. A proxy may pass the path on or take it away: what is
no path of the server itself is looked up without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vrag.errors import SettingsError
from vrag.server.http.errors import Refusal
from vrag.server.http.limits import peer_is_proxy, peer_of
from vrag.server.options import ServerOptions, checked_root_path

HEADER = "x-forwarded-prefix"
_KEY = "app_root_path"
"""The key of the path in the scope of a request, which Starlette puts into `base_url`."""


class RootPathMiddleware:
    """Finds the root path of each request, and takes it from the path; the outermost middleware.

    What is behind it sees the paths of the server. Redirects are made relative: they lead to the same place
    below any path, also where the server does not know it.
    """

    def __init__(self, app: ASGIApp, options: ServerOptions, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._options = options
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            root_path = self._root_path(scope)
        except Refusal as refusal:
            await refusal.response()(scope, receive, send)
            return
        scope = {**scope, _KEY: root_path, "scheme": self._scheme(scope)}
        path: str = scope["path"]
        if root_path and path == root_path and not self._is_own(scope):
            query = scope["query_string"].decode("latin-1")
            response = RedirectResponse(f"{root_path}/{query and '?'}{query}")
            await response(scope, receive, send)
            return
        if root_path and path.startswith(f"{root_path}/") and not self._is_own(scope):
            scope["path"] = path[len(root_path) :]
            raw: bytes = scope.get("raw_path") or b""
            if raw.startswith(f"{root_path}/".encode()):
                scope["raw_path"] = raw[len(root_path) :]

        async def send_relative(message: Message) -> None:
            if message["type"] == "http.response.start" and 300 <= message["status"] < 400:
                _make_relative(MutableHeaders(scope=message), scope["path"])
            await send(message)

        await self._app(scope, receive, send_relative)

    def _root_path(self, scope: Scope) -> str:
        """Return the root path of a request; refuse a header of a trusted proxy that has no path."""
        values = Headers(scope=scope).getlist(HEADER)
        if not values or not peer_is_proxy(scope, self._options.proxies):
            return self._options.root_path
        parts = [part.strip() for value in values for part in value.split(",")]
        try:
            return "".join(map(checked_root_path, parts))  # each proxy of a row adds its own
        except SettingsError as error:
            message = "X-Forwarded-Prefix has no path that can be used."
            raise Refusal(400, message, f"Correct the proxy. {error.hint}", reason="host") from error

    def _scheme(self, scope: Scope) -> str:
        """Return the scheme that the browser sees, as far as a trusted proxy says so."""
        scheme = peer_of(scope, self._options.proxies).scheme
        return scheme if scheme in {"http", "https"} else "http"

    def _is_own(self, scope: Scope) -> bool:
        """Return whether the path is one of the server itself."""
        return any(route.matches(scope)[0] is not Match.NONE for route in self._routes)


def own_address(request: Request, path: str) -> str:
    """Return the address of a path of the server on its host, with the root path as far as that is known."""
    return f"{root_path_of(request)}{path}"


def root_path_of(request: Request) -> str:
    """Return the root path of a request; empty at the root, or if the server does not know of it."""
    return str(request.scope.get(_KEY, ""))


def _make_relative(headers: MutableHeaders, path: str) -> None:
    """Make a redirect to a path without its last slash relative to the path of the request."""
    location = headers.get("location", "")
    target = urlsplit(location)
    if target.netloc and path.endswith("/") and target.path == path.rstrip("/"):
        query = f"?{target.query}" if target.query else ""
        headers["location"] = f"../{target.path.rsplit('/', 1)[-1]}{query}"
