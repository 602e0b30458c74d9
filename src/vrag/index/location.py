"""The place of a collection, on this machine or in object storage, and its header `collection.json`.

The header holds the settings a collection was built with. It is written once, when the collection is created.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from vrag.atomic_io import one_writer, write_whole
from vrag.corpus.converter import CorpusOptions
from vrag.embed.embedder import EmbedderInfo, Modality, VectorKind
from vrag.embed.registry import check_same
from vrag.errors import REPAIR_COMMAND, CollectionBusy, CollectionError, FingerprintMismatch, first_line
from vrag.index.integrity.sealed_json import Seal, check_seal, seal_json
from vrag.index.tables.store import Directory
from vrag.parsing import parse_json
from vrag.scratch import remove_abandoned, remove_unfinished_files

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from vrag.index.tables.store import TableStore

log = logging.getLogger("vrag")

FILE_NAME = "collection.json"
COPIES = "index"
"""The folder with copies of sealed files: without its header nothing of a collection can be read."""
IMPORTED = "imported:"
"""Prefix of the fingerprint of vectors that came without the model that made them."""
SCHEMA = 2
"""Version of the layout on disk. Any other is refused."""
MIN_ADDRESS_BYTES = 2 * 2**30
"""Address space that the library of the tables and its threads need: with less they abort or hang."""
_MAX_OPTION = 1e15
"""Largest number of an option that is believed."""
_MAX_DIMENSION = 1_000_000
_REPAIR = f"Run: {REPAIR_COMMAND}. If that cannot repair it, restore a backup: vrag index restore"
_LOCK = "lock"
_WRITER = "writer.json"


@dataclass(frozen=True, slots=True)
class EmbedderRecord:
    """The embedder whose vectors a collection holds."""

    name: str
    """Its name at the time: the model may have moved since."""
    kind: VectorKind
    dimension: int
    fingerprint: str
    settings: Mapping[str, str | int] = field(default_factory=dict[str, str | int], compare=False)
    """Its settings that vectors depend on, as part of the fingerprint: `dtype`, `max_pixels`."""
    modalities: frozenset[Modality] = field(default=frozenset(), compare=False)
    """The inputs that it takes; empty in collections that do not record them."""

    @property
    def imported(self) -> bool:
        """True if the embedder of these vectors is not known yet: they cannot be searched."""
        return self.fingerprint.startswith(IMPORTED)

    @classmethod
    def of(cls, embedder: EmbedderInfo) -> EmbedderRecord:
        """Describe an embedder."""
        settings = dict(embedder.settings)
        return cls(
            embedder.name,
            embedder.kind,
            embedder.dimension,
            embedder.fingerprint,
            settings,
            embedder.modalities,
        )

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> EmbedderRecord:
        """Parse the fields of `collection.json`; the first ones had no settings and no modalities."""
        kind, settings, dimension = (
            VectorKind(fields["kind"]),
            _object(fields.get("settings", {})),
            fields["dimension"],
        )
        if type(dimension) is not int or not 1 <= dimension <= _MAX_DIMENSION:
            raise TypeError("its vectors have no length")
        if not all(type(value) in {str, int} for value in settings.values()):
            raise TypeError("a setting of its embedder is neither text nor a number")
        modalities = frozenset(map(Modality, fields.get("modalities", ())))
        return cls(_text(fields["name"]), kind, dimension, _text(fields["fingerprint"]), settings, modalities)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for `collection.json`."""
        return asdict(self) | {"modalities": sorted(self.modalities)}


@dataclass(frozen=True, slots=True)
class CollectionHeader:
    """The settings a collection was built with."""

    options: CorpusOptions
    """The number of worker processes is not kept: it depends on the machine."""
    corpus_fingerprint: str
    """`options.fingerprint` of the version of vrag that created the collection."""
    embedder: EmbedderRecord | None = None

    @classmethod
    def of(cls, options: CorpusOptions, embedder: EmbedderInfo | None) -> CollectionHeader:
        """Describe a new collection."""
        return cls(options, options.fingerprint, EmbedderRecord.of(embedder) if embedder else None)

    @classmethod
    def read(cls, directory: Path) -> CollectionHeader | None:
        """Read the header of the collection in a directory; None when it has none."""
        path = directory / FILE_NAME
        try:
            return cls.parse(path.read_text(encoding="utf-8"), str(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise CollectionError(f"{path} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise CollectionError(f"{path} is damaged: {first_line(error)}.", _REPAIR) from error

    @classmethod
    def parse(cls, text: str, where: str, hint: str = _REPAIR) -> CollectionHeader:
        """Parse the text of a file; `where` names the file in errors, `hint` is advice where it is damaged.

        Raises `CollectionError` if it is damaged or of another version of vrag.
        """
        try:
            content = _object(parse_json(text))
            if check_seal(text.encode()) is Seal.BROKEN:
                raise ValueError("its checksum does not match")  # noqa: TRY301 - damage like any other
            schema = content["schema"]
            if not isinstance(schema, int) or isinstance(schema, bool):
                raise TypeError("its schema is not a number")  # noqa: TRY301 - damage like any other
            if schema > SCHEMA:
                raise CollectionError(
                    f"{where} was created by a newer version of vrag (layout {schema}).",
                    "Upgrade: pip install -U vrag-agent",
                )
            if schema < SCHEMA:
                raise CollectionError(
                    f"{where} was created by an earlier version of vrag (layout {schema}, now {SCHEMA}).",
                    "Build the collection again in another directory: the documents are unchanged.",
                )
            embedder = content["embedder"]
            return cls(
                _parse_options(_object(content["corpus"])),
                _text(content["corpus_fingerprint"]),
                None if embedder is None else EmbedderRecord.parse(_object(embedder)),
            )
        except KeyError as error:
            raise CollectionError(f"{where} is damaged: it has no {error.args[0]}.", hint) from error
        except (ValueError, TypeError) as error:
            raise CollectionError(f"{where} is damaged: {first_line(error)}.", hint) from error

    def write(self, directory: Path) -> None:
        """Write it as a whole, also when the machine loses power."""
        corpus = asdict(self.options)
        del corpus["workers"]
        content = {
            "schema": SCHEMA,
            "corpus": corpus,
            "corpus_fingerprint": self.corpus_fingerprint,
            "embedder": self.embedder.as_dict() if self.embedder else None,
        }
        write_sealed(directory, FILE_NAME, seal_json(content))

    def check_options(self, options: CorpusOptions) -> None:
        """Refuse settings that make other items."""
        if options.fingerprint == self.corpus_fingerprint:
            return
        if self.options.fingerprint != self.corpus_fingerprint:
            raise FingerprintMismatch(
                "The collection was built by another version of vrag, which reads files differently.",
                "It is searched and asked as before. To add files, build another one of all files: "
                "vrag index add FILES --collection NEW",
            )
        before, now = asdict(self.options), asdict(options)
        changed = [name for name in before if before[name] != now[name] and name != "workers"]
        differences = "; ".join(f"{name} {before[name]}, not {now[name]}" for name in changed)
        raise FingerprintMismatch(
            f"The collection was built with other settings: {differences}.",
            "Leave these settings out to use the collection's own, or use another directory.",
        )

    def check_embedder(self, embedder: EmbedderInfo | None) -> None:
        """Refuse another model's vectors."""
        own = self.embedder
        if own is not None and own.imported:
            raise FingerprintMismatch(
                f"The collection has imported vectors, and it is not known which {own.name} made them.",
                "Import the index again and name the model: vrag index import DIR --embedder MODEL",
            )
        if own is not None and embedder is not None:
            check_same(own, embedder)
        elif own is not embedder:
            raise FingerprintMismatch(
                f"The collection was built with {_model(own)} and is now used with {_model(embedder)}.",
                "Use the one it was built with, or build it again in another directory.",
            )


def write_sealed(directory: Path, name: str, data: bytes) -> None:
    """Write a small file of a collection as a whole, then its copy. Raises `OSError`."""
    write_whole(directory / name, data)
    (directory / COPIES).mkdir(exist_ok=True)
    write_whole(directory / COPIES / name, data)


def _parse_options(fields: dict[str, Any]) -> CorpusOptions:
    """Return the conversion options. Raises `TypeError` for unknown names and values of another type."""
    defaults: dict[str, str | int | float] = asdict(CorpusOptions())
    for name, value in fields.items():
        if name == "ocr":
            continue  # checked by `CorpusOptions`
        allowed = (int, float) if isinstance(defaults.get(name), float) else (type(defaults.get(name)),)
        if type(value) not in allowed or not 0 <= value <= _MAX_OPTION:
            raise TypeError(f"{name!r} cannot have the value {value!r:.40}")
    return CorpusOptions(**fields)


def _object(value: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever a file holds
    if not isinstance(value, dict):
        raise TypeError("an object is missing")
    return cast("dict[str, Any]", value)


def _text(value: Any) -> str:  # noqa: ANN401 - whatever a file holds
    if not isinstance(value, str):
        raise TypeError("a text is missing")
    return value


def _model(embedder: EmbedderInfo | None) -> str:
    return f"the embedder {embedder.name}" if embedder else "no embedder"


def check_memory_limit() -> None:
    """Raise `CollectionError` if the address space of this process is limited too much to open tables."""
    if sys.platform == "win32":
        return
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < MIN_ADDRESS_BYTES:
        raise CollectionError(
            f"The memory of this process is limited to {limit / 2**20:,.0f} MiB of addresses (ulimit -v).",
            f"Allow at least {MIN_ADDRESS_BYTES / 2**20:,.0f} MiB, or limit the memory of its control group.",
        )


def _may_run(pid: int) -> bool:
    """Return whether there is a process with this id; Windows cannot be asked without a handle."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except PermissionError:  # somebody else's
        return True
    except (OSError, OverflowError):
        return False
    return pid > 0


def is_leftover(name: str) -> bool:
    """Check whether a killed creation may have left this file: a directory of such files counts as empty."""
    return name in {_LOCK, _WRITER, f"{FILE_NAME}.new"} or name.startswith(f".{FILE_NAME}.")


class CollectionLocation(Protocol):
    """The place of a collection."""

    address: str
    """The directory or the URL, for people."""
    directory: Path
    """The collection's directory on this machine; of a published one, where its runs are kept."""
    cache_dir: Path
    """The directory of search structures on this machine. May be deleted at any time."""
    repair_hint: str
    """Advice for a stored file that is missing or damaged."""

    @property
    def store(self) -> TableStore:
        """The place of its tables."""
        ...

    def open(self, stored: str) -> BinaryIO:
        """Open a stored picture or clip, as `Collection.stored` describes."""
        ...

    def size(self) -> int:
        """Return the size of the collection in bytes."""
        ...

    @property
    def is_being_written(self) -> bool:
        """True while a process holds the lock for writing, as far as it is known without taking it."""
        ...

    def lock(self, wait: float | None = None) -> AbstractContextManager[None]:
        """Hold the lock for writing, as `Collection.lock` describes."""
        ...


class LocalLocation:
    """A directory."""

    repair_hint = f"Run: {REPAIR_COMMAND}, then vrag index add"

    def __init__(self, directory: Path, wait: float = 0.0, *, durable: bool = True) -> None:
        """`wait` is how long `lock` waits for another process, in seconds."""
        self._wait = wait
        self.directory = directory
        self.durable = durable
        self.address = os.fspath(directory)
        self.cache_dir = directory / "cache"
        self.store: TableStore = Directory(directory / "index", durable=durable)

    def path(self, stored: str) -> Path:
        """Return the path of a stored picture or clip, given relative to `items/`."""
        root = (self.directory / "items").resolve()
        path = (root / stored).resolve()
        if not path.is_relative_to(root) or path == root:
            raise CollectionError(f"The picture {stored!r} lies outside of the collection.")
        return path

    def open(self, stored: str) -> BinaryIO:
        """Open a stored picture or clip."""
        return self.path(stored).open("rb")

    def size(self) -> int:
        """Return the bytes of all files in the directory; those that vanish meanwhile count nothing."""
        total = 0
        for folder, folders, names in os.walk(self.directory):
            for name in (*folders, *names):
                with suppress(OSError):
                    total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 - many files
        return total

    @property
    def is_being_written(self) -> bool:
        """True while a process holds the lock; one on another machine is believed to be alive."""
        match self._read_writer():
            case {"pid": int(pid), "host": str(host)}:
                return host != socket.gethostname() or _may_run(pid)
            case _:
                return False

    @contextmanager
    def lock(self, wait: float | None = None) -> Generator[None]:
        """Hold the lock for writing, and name this process for the messages of others."""
        wait, writer = self._wait if wait is None else wait, self.directory / _WRITER
        with ExitStack() as stack:
            try:
                lock = one_writer(
                    self.directory / _LOCK,
                    lambda: self._busy(wait),
                    wait=wait,
                    on_wait=lambda: log.warning("%s Waiting for it, up to %g s.", self._writing, wait),
                )
                stack.enter_context(lock)
            except OSError as error:
                raise CollectionError(
                    f"{self.directory} cannot be locked for writing: {error.strerror or error}.",
                    "Choose a directory that you may write to.",
                ) from error
            stack.callback(writer.unlink, missing_ok=True)
            try:
                content = {"pid": os.getpid(), "host": socket.gethostname()}
                writer.write_text(json.dumps(content), encoding="utf-8")
            except OSError as error:
                raise CollectionError(
                    f"{self.directory} cannot be written to: {error.strerror or error}.",
                    "Free some disk space or fix the permissions.",
                ) from error
            self._remove_leftovers()
            yield

    def _remove_leftovers(self) -> None:
        """Remove the temporary files that killed processes left. The caller holds the lock."""
        remove_abandoned()
        remove_abandoned(self.directory)
        remove_abandoned(self.cache_dir)
        for folder in (self.directory, self.directory / "index", self.cache_dir):
            remove_unfinished_files(folder)

    def _busy(self, waited: float) -> CollectionBusy:
        time = f" It did not end within {waited:g} s." if waited else ""
        hint = "Wait longer for it with --wait SECONDS (VRAG_WAIT), or stop it. You can search meanwhile."
        return CollectionBusy(f"{self._writing}{time}", hint)

    @property
    def _writing(self) -> str:
        """A sentence that names the process which holds the lock, as far as it is known."""
        match self._read_writer():
            case {"pid": int(pid), "host": str(host)}:
                process = f" (process {pid} on {host:.255})"
            case _:
                process = ""
        return f"Another process is writing to {self.directory}{process}."

    def _read_writer(self) -> object:
        """Read what the process that holds the lock says of itself; None if there is none."""
        try:
            return parse_json((self.directory / _WRITER).read_bytes())
        except (OSError, ValueError):
            return None
