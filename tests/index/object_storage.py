"""An S3-compatible server on this machine, spoken to over HTTP as any other."""

from __future__ import annotations

import importlib
import logging
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from extras import require

if TYPE_CHECKING:
    from collections.abc import Generator

    import pytest

BUCKET = "shelves"


@dataclass
class Storage:
    """A running server."""

    endpoint: str
    server: Any

    def start_over(self) -> None:
        """Empties it and makes the bucket."""
        self._tell("/moto-api/reset-auth", b"inf", "POST")
        self._tell("/moto-api/reset", b"", "POST")
        self._tell(f"/{BUCKET}", b"", "PUT")

    def demand_keys(self) -> None:
        """From now on, requests with keys that nobody was given are refused."""
        self._tell("/moto-api/reset-auth", b"0", "POST")

    def _tell(self, path: str, body: bytes, method: str) -> None:
        request = urllib.request.Request(self.endpoint + path, data=body, method=method)
        request.add_header("Content-Type", "application/octet-stream")
        with urllib.request.urlopen(request) as reply:
            reply.read()


def serve() -> Generator[Storage]:
    """Starts a server on a free port, and stops it."""
    require("s3", "s3fs")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto: Any = importlib.import_module("moto.server")
    backends: Any = importlib.import_module("moto.backends")
    services = frozenset(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: services  # it looks into its folder twice in each request
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield Storage(f"http://{host}:{port}", server)
    server.stop()


def environment(storage: Storage) -> dict[str, str]:
    """What a process must know to use it."""
    return {
        "AWS_ENDPOINT_URL": storage.endpoint,
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def use(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this process use it, empty but for its bucket."""
    for name, value in environment(storage).items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    storage.start_over()
