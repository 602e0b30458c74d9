"""Object storage: bytes under names below a URL, with its failures converted.

The keys and the endpoint come from the environment, as in every tool (`AWS_ACCESS_KEY_ID`,
`AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`), and are used both for
files (pyarrow) and for tables (LanceDB). Where the keys are not set, both libraries find those of the
machine's role or profile.

Only `s3://` is tested. `gs://` and `az://` work as far as both libraries support them.
"""

from __future__ import annotations

import importlib
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vrag.errors import CollectionError, first_line
from vrag.providers import hide_credentials

if TYPE_CHECKING:
    from collections.abc import Generator
    from datetime import datetime
    from pathlib import Path

FileSystem: TypeAlias = Any
"""A `pyarrow.fs.FileSystem`."""

SCHEMES = ("s3", "gs", "az")
_URL = re.compile(r"([a-z][a-z0-9+.-]+)://(.*)", re.DOTALL)
_CHUNK_BYTES = 2**20
"""Bytes read from a file at a time when it is uploaded."""
_CONNECT_SECONDS, _REQUEST_SECONDS, _ATTEMPTS = 5.0, 60.0, 4
"""Timeouts and tries: a server that cannot be reached fails after half a minute."""

_KEYS = (
    "access denied",
    "accessdenied",
    "invalid access key",
    "invalidaccesskeyid",
    "signature",
    "forbidden",
    "http status 403",
    "unauthorized",
    "credential",
    "expired token",
)
_NETWORK = ("network connection", "could not connect", "error sending request", "timed out", "timeout", "dns")
_HINTS = {
    ("no such bucket", "nosuchbucket", "bucket does not exist"): "Create the bucket, or correct the address.",
    _KEYS: "Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and the rights they give.",
    _NETWORK: "Check the network, AWS_ENDPOINT_URL and AWS_REGION, and run the command again.",
}
"""Parts of error messages of the libraries, and what to do about them."""


def is_url(address: str | os.PathLike[str]) -> bool:
    """Check whether an address is a URL and not a directory.

    >>> is_url("s3://bucket/reports"), is_url("/data/reports"), is_url("C:/reports")
    (True, False, False)
    """
    return isinstance(address, str) and _URL.fullmatch(address) is not None


class StoredObject(NamedTuple):
    """An object of the storage."""

    size: int
    """Bytes."""
    modified: datetime
    """In UTC."""


class Objects:
    """The objects below a URL `s3://bucket/prefix`; the prefix may be empty. May be shared by threads.

    All methods raise `CollectionError` if the storage cannot be reached or refuses. So does the constructor
    if the URL is not valid, or the library cannot be set up for it; it sends no request yet.
    """

    def __init__(self, url: str) -> None:
        match = _URL.fullmatch(url)
        scheme, rest = match.groups() if match else ("", "")
        root = rest.rstrip("/")
        parts = root.split("/")
        if scheme not in SCHEMES or not all(parts) or {".", ".."} & set(parts) or {"?", "@"} & set(rest):
            raise CollectionError(
                f"{hide_credentials(url)!r} is not an address in object storage.",
                "Give one like s3://bucket/reports.",
            )
        self.url = f"{scheme}://{root}"
        """Without a slash at its end."""
        self._root = root
        self.options = _lance_options(scheme)
        """Storage options of LanceDB."""
        with self.failures("used"):
            self._files = _open_file_system(scheme)

    def read(self, name: str) -> bytes | None:
        """Read the bytes of an object; None if there is none."""
        with self.failures("read"):
            try:
                with self._files.open_input_stream(self._path(name)) as stream:
                    return bytes(stream.read())
            except FileNotFoundError:
                return None

    def open(self, name: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Open an object as a file to read and seek in; only what is read is transferred."""
        with self.failures("read"):
            return self._files.open_input_file(self._path(name))

    def write(self, name: str, content: bytes) -> None:
        """Store an object; it appears whole or not at all, and replaces an existing one."""
        with self.failures("written"), self._files.open_output_stream(self._path(name)) as stream:
            stream.write(content)

    def upload(self, path: Path, name: str) -> int:
        """Store a file as an object, in pieces, and return its size; it appears whole or not at all."""
        size, target = 0, self._path(name)
        with path.open("rb") as file, self.failures("written"), self._files.open_output_stream(target) as out:
            while piece := file.read(_CHUNK_BYTES):
                out.write(piece)
                size += len(piece)
        return size

    def delete(self, name: str) -> None:
        """Delete an object, if there is one."""
        with self.failures("written"):
            try:
                self._files.delete_file(self._path(name))
            except FileNotFoundError:
                return

    def list(self) -> dict[str, StoredObject]:
        """List all objects, by name."""
        lib: Any = importlib.import_module("pyarrow.fs")
        with self.failures("read"):
            infos = self._files.get_file_info(
                lib.FileSelector(self._root, allow_not_found=True, recursive=True)
            )
        files = (info for info in infos if info.type == lib.FileType.File)
        return {info.path[len(self._root) + 1 :]: StoredObject(info.size, info.mtime) for info in files}

    def check(self) -> None:
        """Check that the bucket exists and can be listed."""
        lib: Any = importlib.import_module("pyarrow.fs")
        bucket = self._root.split("/", 1)[0]
        with self.failures("read"):
            found = self._files.get_file_info(bucket).type != lib.FileType.NotFound
        if not found:
            raise CollectionError(
                f"There is no bucket {bucket} for {self.url}.", "Create it, or correct the address."
            )

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def failures(self, participle: str) -> Generator[None]:
        """Convert errors of the libraries to a `CollectionError` with a hint, but for a missing object.

        They raise OSError with the message of the server. The participle completes "could not be …".
        """
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, ValueError, NotImplementedError) as error:  # Arrow's own errors are the last two
            raise CollectionError(
                f"{self.url} could not be {participle}: {first_line(error)}.", storage_hint(str(error))
            ) from error


def storage_hint(message: str) -> str:
    """Return what to do about a failure of object storage, by the message of the library."""
    lowered = message.casefold().replace("_", " ")
    for signs, hint in _HINTS.items():
        if any(sign in lowered for sign in signs):
            return hint
    return "Check the address, the keys (AWS_…) and the network, and run the command again."


def _open_file_system(scheme: str) -> FileSystem:
    lib: Any = importlib.import_module("pyarrow.fs")
    if scheme == "gs":
        return lib.GcsFileSystem()
    if scheme == "az":
        return lib.AzureFileSystem(
            account_name=os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", ""),
            account_key=os.environ.get("AZURE_STORAGE_ACCOUNT_KEY") or None,
        )
    return lib.S3FileSystem(
        endpoint_override=_endpoint(),
        region=_region(),
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_REQUEST_SECONDS,
        retry_strategy=lib.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def _region() -> str | None:
    """Return the region; servers other than Amazon's ignore it, and the library must not query Amazon."""
    named = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return named or ("us-east-1" if _endpoint() else None)


def _lance_options(scheme: str) -> dict[str, str]:
    if scheme != "s3":
        return {}
    environment = {
        "aws_access_key_id": os.environ.get("AWS_ACCESS_KEY_ID"),
        "aws_secret_access_key": os.environ.get("AWS_SECRET_ACCESS_KEY"),
        "aws_session_token": os.environ.get("AWS_SESSION_TOKEN"),
        "aws_region": _region(),
        "aws_endpoint": _endpoint(),
        "allow_http": "true" if (_endpoint() or "").startswith("http://") else None,
    }
    return {name: value for name, value in environment.items() if value}
