"""Object storage: bytes under names below a URL, with its failures converted.

Any storage that fsspec has a driver for: `file://` and `memory://` have none to install. For `s3://` the keys
and the endpoint come from the environment, as in every tool (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
`AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`); where the keys are not set, the driver finds those of
the machine's role or profile.

`s3://`, `file://` and `memory://` are tested. `gs://` and `az://` work as far as their drivers do.
"""

from __future__ import annotations

import importlib
import os
import time
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vrag.atomic_io import atomic_file, make_directory
from vrag.errors import CollectionError, MissingExtra, first_line
from vrag.index.location import URL
from vrag.providers import hide_credentials

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

FileSystem: TypeAlias = Any
"""An `fsspec.AbstractFileSystem`, which has no types."""

_DRIVERS = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "file": "", "memory": ""}
"""Scheme → the package with its driver; empty for fsspec itself."""
_CHUNK_BYTES = 2**20
_CONNECT_SECONDS, _REQUEST_SECONDS, _ATTEMPTS = 5.0, 60.0, 4
"""Timeouts and tries: a server that cannot be reached fails after half a minute."""
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")
"""The names that drivers give to the time of the last change."""

_KEYS = (
    "access denied",
    "accessdenied",
    "access key",
    "invalidaccesskeyid",
    "signature",
    "forbidden",
    "unauthorized",
    "credential",
    "expired token",
)
_NETWORK = ("could not connect", "cannot connect", "connection", "timed out", "timeout", "dns", "resolve")
_HINTS = {
    ("no such bucket", "nosuchbucket", "bucket does not exist"): "Create the bucket, or correct the address.",
    _KEYS: "Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and the rights they give.",
    _NETWORK: "Check the network, AWS_ENDPOINT_URL and AWS_REGION, and run the command again.",
}
"""Parts of error messages of the drivers, and what to do about them."""
_LOCAL_HINT = "Free some disk space or fix the permissions, and run the command again."


class StoredObject(NamedTuple):
    """An object of the storage."""

    size: int
    """Bytes."""
    modified: float
    """Seconds since 1970."""


class Objects:
    """The objects below a URL `s3://bucket/prefix`; the prefix may be empty. May be shared by threads.

    All methods raise `CollectionError` if the storage cannot be reached or refuses. So does the constructor
    if the URL is not valid, or the driver cannot be set up for it; it sends no request yet.
    """

    def __init__(self, url: str) -> None:
        match = URL.fullmatch(url)
        scheme, rest = match.groups() if match else ("", "")
        root = rest.rstrip("/")
        is_local = scheme == "file"
        parts = root.removeprefix("/" if is_local else "").split("/")
        is_valid = all(parts) and not {".", ".."} & set(parts) and not {"?", "@", "\0"} & set(rest)
        if scheme not in _DRIVERS or not is_valid or (is_local and not root.startswith("/")):
            raise CollectionError(
                f"{hide_credentials(url)!r} is not an address in object storage.",
                "Give one like s3://bucket/reports, or file:///directory.",
            )
        self.url = f"{scheme}://{root}"
        """Without a slash at its end."""
        self._is_local = is_local
        self._bucket = parts[0] if scheme in {"s3", "gs", "az"} else ""
        with self._failures("used"):
            identity = os.getpid(), os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_PROFILE")
            self._files = _open_file_system(scheme, _endpoint(), _region(), identity)
            self._root: str = self._files._strip_protocol(self.url)  # noqa: SLF001 - for drivers

    @property
    def place(self) -> str:
        """The URL, and for S3 the server: equal for equal storage."""
        return f"{_endpoint() or ''} {self.url}" if self.url.startswith("s3:") else self.url

    def read(self, name: str) -> bytes | None:
        """Read the bytes of an object; None if there is none."""
        with self._failures("read"):
            try:
                return bytes(self._files.cat_file(self._path(name)))
            except FileNotFoundError:
                return None

    def write(self, name: str, content: bytes) -> None:
        """Store an object; it appears whole or not at all, and replaces an existing one."""
        with self._failures("written"):
            if self._is_local:
                self._write_local(name, [content])
            else:
                self._files.pipe_file(self._path(name), content)

    def upload(self, path: Path, name: str) -> None:
        """Store a file as an object; it appears whole or not at all. `OSError` if it cannot be read."""
        with path.open("rb") as file:
            if self._is_local:
                with self._failures("written"):
                    self._write_local(name, iter(lambda: file.read(_CHUNK_BYTES), b""))
                return
        with self._failures("written"):
            self._files.put_file(str(path), self._path(name))

    def delete(self, name: str) -> None:
        """Delete an object, if there is one."""
        with self._failures("written"):
            try:
                self._files.rm_file(self._path(name))
            except FileNotFoundError:
                return

    def list(self) -> dict[str, StoredObject]:
        """List all objects, by name."""
        with self._failures("read"):
            try:
                found: dict[str, dict[str, Any]] = self._files.find(self._root, detail=True)
            except FileNotFoundError:
                return {}
            return {
                path[len(self._root) + 1 :]: StoredObject(int(entry["size"]), _find_time(entry))
                for path, entry in found.items()
            }

    def check(self) -> None:
        """Check that the bucket exists."""
        with self._failures("read"):
            is_there = not self._bucket or self._files.exists(self._bucket)
        if not is_there:
            raise CollectionError(
                f"There is no bucket {self._bucket} for {self.url}.", "Create it, or correct the address."
            )

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _write_local(self, name: str, chunks: Iterable[bytes]) -> None:
        """Write a file as a whole, which the driver does not."""
        path = Path(self._path(name))
        make_directory(path.parent)
        with atomic_file(path) as file:
            file.writelines(chunks)

    @contextmanager
    def _failures(self, participle: str) -> Generator[None]:
        """Convert errors of the drivers, each of which has its own, to a `CollectionError` with a hint.

        The participle completes "could not be …".
        """
        try:
            yield
        except (CollectionError, MissingExtra):
            raise
        except Exception as error:
            reason = (getattr(error, "strerror", None) or first_line(error)).rstrip(".")
            hint = _LOCAL_HINT if self._is_local else _find_hint(f"{reason} {error}")
            raise CollectionError(f"{self.url} could not be {participle}: {reason}.", hint) from error


def _find_hint(message: str) -> str:
    """Return what to do about a failure of object storage, by the message of the driver."""
    lowered = message.casefold().replace("_", " ")
    for signs, hint in _HINTS.items():
        if any(sign in lowered for sign in signs):
            return hint
    return "Check the address, the keys (AWS_…) and the network, and run the command again."


def _find_time(entry: Mapping[str, Any]) -> float:
    """Return the time of the last change of an object; now, if its driver does not give one."""
    value = next((entry[name] for name in _TIMES if entry.get(name) is not None), time.time())
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return value.timestamp() if isinstance(value, datetime) else float(value)


@lru_cache(maxsize=8)
def _open_file_system(scheme: str, endpoint: str | None, region: str | None, _identity: object) -> FileSystem:
    """Set up a driver: once for each process and set of keys, since it holds connections."""
    lib: Any = importlib.import_module("fsspec")
    options: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    if scheme == "s3":
        retries = {"total_max_attempts": _ATTEMPTS, "mode": "standard"}
        timeouts = {"connect_timeout": _CONNECT_SECONDS, "read_timeout": _REQUEST_SECONDS}
        options |= {
            "endpoint_url": endpoint,
            "client_kwargs": {"region_name": region},
            "config_kwargs": {**timeouts, "retries": retries, "max_pool_connections": 32},
            "max_concurrency": 1,  # or the size of an object is requested before each read of it
        }
    try:
        return lib.filesystem(scheme, **options)
    except ImportError as error:
        driver = _DRIVERS[scheme]
        if scheme == "s3":
            raise MissingExtra(driver, scheme) from error
        raise CollectionError(f"{driver} is not installed.", f"Run: pip install {driver}") from error


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def _region() -> str | None:
    """Return the region; servers other than Amazon's ignore it, and the driver must not query Amazon."""
    named = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return named or ("us-east-1" if _endpoint() else None)
