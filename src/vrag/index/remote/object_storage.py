"""Object storage: bytes under names below a URL, and its failures turned into ours.

The keys and the endpoint come from the environment, as every tool takes them (`AWS_ACCESS_KEY_ID`,
`AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`), and reach both who reads
files (pyarrow) and who reads tables (LanceDB). Where the keys are not set, either finds those of the
machine's role or profile by itself.

Only `s3://` is tested. `gs://` and `az://` take the same way as far as both libraries know them.
"""

from __future__ import annotations

import importlib
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vrag.errors import CollectionError

if TYPE_CHECKING:
    from collections.abc import Generator
    from datetime import datetime
    from pathlib import Path

__all__ = ["Objects", "StoredObject", "is_url", "storage_hint"]

FileSystem: TypeAlias = Any
"""A `pyarrow.fs.FileSystem`."""

SCHEMES = ("s3", "gs", "az")
_URL = re.compile(r"([a-z][a-z0-9+.-]+)://(.*)", re.DOTALL)
_CHUNK = 2**20
"""Bytes read from a file at a time when it is uploaded."""
_CONNECT_SECONDS, _REQUEST_SECONDS, _ATTEMPTS = 5.0, 60.0, 4
"""Patience with a server: half a minute with one that cannot be reached."""

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
    ("no such bucket", "nosuchbucket", "bucket does not exist"): "Make the bucket, or correct the address.",
    _KEYS: "Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and the rights they give.",
    _NETWORK: "Check the network, AWS_ENDPOINT_URL and AWS_REGION, and run the command again.",
}
"""What libraries say of a failure, and what to do about it."""


def is_url(address: str | os.PathLike[str]) -> bool:
    """Whether an address is a URL and no directory.

    >>> is_url("s3://bucket/reports"), is_url("/data/reports"), is_url("C:/reports")
    (True, False, False)
    """
    return isinstance(address, str) and _URL.fullmatch(address) is not None


class StoredObject(NamedTuple):
    """An object."""

    size: int
    """Bytes."""
    modified: datetime
    """In UTC."""


class Objects:
    """The objects below a URL. May be shared by threads.

    Args:
        url: `s3://bucket/prefix`; the prefix may be empty.

    Raises:
        CollectionError: If it is no such URL, or the library cannot be set up for it. Nothing is
            asked of the server yet.
    """

    def __init__(self, url: str) -> None:
        scheme, root = _parsed(url)
        self.url = f"{scheme}://{root}"
        """Without a slash at its end."""
        self._root = root
        self.options = _lance_options(scheme)
        """What LanceDB needs to know to read from there."""
        with self.failures("used"):
            self._files = _file_system(scheme)

    def read(self, name: str) -> bytes | None:
        """The bytes of an object; None if there is none.

        Raises:
            CollectionError: If the storage cannot be reached, or refuses.
        """
        with self.failures("read"):
            try:
                with self._files.open_input_stream(self._path(name)) as stream:
                    return bytes(stream.read())
            except FileNotFoundError:
                return None

    def open(self, name: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """An object as a file to read and seek in; only what is read travels.

        Raises:
            FileNotFoundError: If there is none.
            CollectionError: If the storage cannot be reached, or refuses.
        """
        with self.failures("read"):
            return self._files.open_input_file(self._path(name))

    def write(self, name: str, content: bytes) -> None:
        """Stores an object; it appears whole or not at all, in place of what was there.

        Raises:
            CollectionError: If the storage cannot be reached, or refuses.
        """
        with self._writing(name) as stream:
            stream.write(content)

    def upload(self, path: Path, name: str) -> int:
        """Stores a file as an object, piece by piece; it appears whole or not at all.

        Returns:
            How many bytes it has.

        Raises:
            OSError: If the file cannot be read.
            CollectionError: If the storage cannot be reached, or refuses.
        """
        done = 0
        with path.open("rb") as file, self._writing(name) as stream:
            while piece := file.read(_CHUNK):
                stream.write(piece)
                done += len(piece)
        return done

    def delete(self, name: str) -> None:
        """Deletes an object, if there is one.

        Raises:
            CollectionError: If the storage cannot be reached, or refuses.
        """
        with self.failures("written"):
            try:
                self._files.delete_file(self._path(name))
            except FileNotFoundError:
                return

    def list(self, below: str = "") -> dict[str, StoredObject]:
        """All objects below a name, by name.

        Raises:
            CollectionError: If there is no such bucket, or it cannot be reached, or refuses.
        """
        lib: Any = importlib.import_module("pyarrow.fs")
        base = self._path(below).rstrip("/")
        with self.failures("read"):
            infos = self._files.get_file_info(lib.FileSelector(base, allow_not_found=True, recursive=True))
        files = (info for info in infos if info.type == lib.FileType.File)
        return {info.path[len(self._root) + 1 :]: StoredObject(info.size, info.mtime) for info in files}

    def check(self) -> None:
        """Asks whether the bucket is there and can be listed.

        Raises:
            CollectionError: If not.
        """
        lib: Any = importlib.import_module("pyarrow.fs")
        bucket = self._root.split("/", 1)[0]
        with self.failures("read"):
            found = self._files.get_file_info(bucket).type != lib.FileType.NotFound
        if not found:
            raise CollectionError(
                f"There is no bucket {bucket} for {self.url}.", "Make it, or correct the address."
            )

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    @contextmanager
    def _writing(self, name: str) -> Generator[Any]:
        with self.failures("written"), self._files.open_output_stream(self._path(name)) as stream:
            yield stream

    @contextmanager
    def failures(self, done: str) -> Generator[None]:
        """Turns what libraries raise into a `CollectionError` with a hint, but for a missing object.

        They raise OSError with what the server said.

        Args:
            done: What could not be done, as a participle.
        """
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, ValueError, NotImplementedError) as error:  # Arrow's own errors are the last two
            raise CollectionError(
                f"{self.url} could not be {done}: {_first_line(error)}.", storage_hint(str(error))
            ) from error


def storage_hint(message: str) -> str:
    """What to do about a failure of object storage, judged by what the library says of it."""
    lowered = message.casefold().replace("_", " ")
    for signs, hint in _HINTS.items():
        if any(sign in lowered for sign in signs):
            return hint
    return "Check the address, the keys (AWS_…) and the network, and run the command again."


def _parsed(url: str) -> tuple[str, str]:
    match = _URL.fullmatch(url)
    scheme, rest = match.groups() if match else ("", "")
    parts = rest.rstrip("/").split("/")
    if scheme not in SCHEMES or not all(parts) or any(part in {".", ".."} for part in parts) or "?" in rest:
        raise CollectionError(
            f"{url!r} is no address in object storage.", "Give one like s3://bucket/reports."
        )
    return scheme, "/".join(parts)


def _file_system(scheme: str) -> FileSystem:
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
    """The region; servers other than Amazon's do not care, and the library must not ask Amazon."""
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


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300].rstrip(".")
