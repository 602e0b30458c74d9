"""A reverse proxy that serves a server below a path: it strips the path, or passes it on."""

from __future__ import annotations

import http.client
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping


@contextmanager
def below(
    prefixes: Mapping[str, str], *, strips: bool = True, headers: Mapping[str, str] | None = None
) -> Generator[str]:
    """Serve servers, by the paths below which they are found; yields the address of the proxy.

    `headers` are added to each request.
    """

    class Handler(BaseHTTPRequestHandler):
        def forward(self) -> None:
            path = next(
                (path for path in prefixes if f"{urlsplit(self.path).path}/".startswith(f"{path}/")), None
            )
            if path is None:
                self.send_error(404)
                return
            target = (self.path[len(path) :] or "/") if strips else self.path
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            upstream = http.client.HTTPConnection(urlsplit(prefixes[path]).netloc, timeout=60)
            sent = dict(self.headers.items()) | dict(headers or {}) | {"Connection": "close"}
            upstream.request(self.command, target, body or None, sent)
            answer = upstream.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.casefold() not in {"connection", "transfer-encoding", "date", "server"}:
                    self.send_header(name, value)
            self.end_headers()
            while data := answer.read1(65536):
                self.wfile.write(data)
                self.wfile.flush()
            upstream.close()

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.forward)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Take it that a browser has left."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
