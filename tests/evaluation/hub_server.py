"""A hub with one data set: as much of its protocol as its client needs for a snapshot."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

REVISION = "0123456789abcdef0123456789abcdef01234567"


class HubServer:
    """Serves a data set while it is entered.

    Args:
        repo: Its name.
        files: What is in it, by path.
        token: Who does not send it is refused the files; None: nobody is.
        private: Without the token the data set is not shown at all.
        large: Files that lie elsewhere, where the hub redirects to.
    """

    def __init__(
        self,
        repo: str,
        files: Mapping[str, bytes],
        *,
        token: str | None = None,
        private: bool = False,
        large: Collection[str] = (),
    ) -> None:
        self.repo, self.files, self.token, self.private, self.large = repo, files, token, private, large
        self.sent: list[str] = []
        """Paths of files whose bytes were sent."""
        self.cuts: dict[str, list[int]] = {}
        """Bytes after which the connection breaks off, for each time that a file is sent."""
        self.begun: dict[str, list[int]] = {}
        """At which bytes the sending of each file began."""
        self.asked = 0
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.asked += 1
                status, body, more = hub.reply(
                    unquote(urlsplit(self.path).path), self.headers["Authorization"]
                )
                length = len(body)
                if self.command == "GET" and status == 200 and "X-File" in more:
                    start = int((self.headers["Range"] or "bytes=0-")[6:].partition("-")[0])
                    if start:
                        status, more = 206, more | {"Content-Range": f"bytes {start}-{length - 1}/{length}"}
                    body = hub.part(more["X-File"], body, start)
                    length -= start
                self.send_response(status)
                for name, value in {**more, "Content-Length": str(length)}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)
                self.close_connection |= len(body) < length

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.elsewhere = f"http://localhost:{self._server.server_address[1]}/elsewhere/"
        """Another host, as far as the client can tell."""

    def reply(self, path: str, authorization: str | None) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers."""
        api, resolve = f"/api/datasets/{self.repo}", f"/datasets/{self.repo}/resolve/{REVISION}/"
        known = not self.token or authorization == f"Bearer {self.token}"
        told: object = None
        if self.private and not known:  # the hub does not say whether there is such a data set
            return 401, b"", {"X-Error-Code": "RepoNotFound"}
        if path == f"{api}/revision/main":
            told = {"id": self.repo, "sha": REVISION, "siblings": []}
        elif path == f"{api}/tree/{REVISION}":
            told = [self._entry(*one) for one in self.files.items()]
        if told is not None:
            return 200, json.dumps(told).encode(), {}
        for start, send in ((resolve, self._file), ("/elsewhere/", self._elsewhere)):
            if path.startswith(start) and path.removeprefix(start) in self.files:
                if not known and start == resolve:
                    return 403 if authorization else 401, b"", {"X-Error-Code": "GatedRepo"}
                return send(path.removeprefix(start))
        return 404, b"", {"X-Error-Code": "RepoNotFound"}

    def _file(self, name: str) -> tuple[int, bytes, dict[str, str]]:
        data = self.files[name]
        told = {"ETag": f'"{_digest(data)}"', "X-Repo-Commit": REVISION}
        if name not in self.large:
            return 200, data, {**told, "X-File": name}
        linked = {"X-Linked-Size": str(len(data)), "X-Linked-Etag": told["ETag"]}
        return 302, b"", {**told, **linked, "Location": f"{self.elsewhere}{name}"}

    def _elsewhere(self, name: str) -> tuple[int, bytes, dict[str, str]]:
        return 200, self.files[name], {"ETag": '"another"', "X-File": name}

    def part(self, name: str, data: bytes, start: int) -> bytes:
        """What is sent of a file before the connection breaks off."""
        self.sent.append(name)
        self.begun.setdefault(name, []).append(start)
        cuts = self.cuts.get(name)
        return data[start : start + cuts.pop(0)] if cuts else data[start:]

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
