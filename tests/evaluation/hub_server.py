"""A hub with one data set: as much of its protocol as its client needs for a snapshot."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

REVISION = "0123456789abcdef0123456789abcdef01234567"


class HubServer:
    """Serves a data set while it is entered.

    Args:
        repo: Its name.
        files: What is in it, by path.
        token: Who does not send it is refused the files; None: nobody is.
    """

    def __init__(self, repo: str, files: Mapping[str, bytes], *, token: str | None = None) -> None:
        self.repo, self.files, self.token = repo, files, token
        self.sent: list[str] = []
        """Paths of files whose bytes were sent."""
        self.asked = 0
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.asked += 1
                status, body, more = hub.reply(
                    unquote(urlsplit(self.path).path), self.headers["Authorization"]
                )
                if self.command == "GET" and "ETag" in more:
                    hub.sent.append(more["X-File"])
                self.send_response(status)
                for name, value in {**more, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def reply(self, path: str, authorization: str | None) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers."""
        api, resolve = f"/api/datasets/{self.repo}", f"/datasets/{self.repo}/resolve/{REVISION}/"
        if path == f"{api}/revision/main":
            return 200, json.dumps({"id": self.repo, "sha": REVISION, "siblings": []}).encode(), {}
        if path == f"{api}/tree/{REVISION}":
            return 200, json.dumps([self._entry(*one) for one in self.files.items()]).encode(), {}
        name = path.removeprefix(resolve)
        if path.startswith(resolve) and name in self.files:
            if self.token and authorization != f"Bearer {self.token}":
                return 403, b"", {"X-Error-Code": "GatedRepo"}
            told = {"ETag": f'"{_digest(self.files[name])}"', "X-Repo-Commit": REVISION, "X-File": name}
            return 200, self.files[name], told
        return 404, b"", {"X-Error-Code": "RepoNotFound"}

    def _entry(self, path: str, data: bytes) -> dict[str, object]:
        return {"type": "file", "path": path, "size": len(data), "oid": _digest(data)}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _digest(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()
