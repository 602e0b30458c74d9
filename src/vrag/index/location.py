"""The place of a collection, on this machine or in object storage, and its header.

The header holds the settings a collection was built with. It is written once, when the collection is created.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from vrag.corpus.converter import CorpusOptions
from vrag.embed.embedder import EmbedderInfo, Modality, VectorKind
from vrag.embed.registry import check_same
from vrag.errors import (
    REPAIR_COMMAND,
    CollectionBusy,
    CollectionError,
    FingerprintMismatch,
    disk_advice,
    first_line,
)
from vrag.index.schema import SCHEMA
from vrag.index.store import BLOBS, DATABASE, HEADER, CollectionStore
from vrag.parsing import parse_json
from vrag.scratch import remove_abandoned, remove_unfinished_files
from vrag.storage.database import Database
from vrag.storage.drives import ALLOWED
from vrag.storage.rescue import is_rescue_interrupted
from vrag.storage.writer_lock import WriterLock

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

EARLIER = "collection.json"
"""File by which a collection of an earlier layout is known."""
DESCRIPTION = "backup.json"
"""File by which a backup is known; it can be opened as a collection."""
INDEX_FILE, LIST_FILE, META_FILE = "_faiss_index.bin", "_file_data_list.jsonl", "_meta_data.json"
INDEX_PATTERNS = (f"*{INDEX_FILE}", f"*{LIST_FILE}", f"*{META_FILE}", "*.node")
"""Patterns of the files that indexes of the reference consist of."""
URL = re.compile(r"([a-z][a-z0-9+.-]+)://(.*)", re.DOTALL)
"""Pattern of the address of a published collection: its scheme and the rest."""
STAGING = "staging"
"""The folder of pictures of items that are not committed yet."""
MIN_COMMIT_WAIT = 30.0
"""Shortest wait for another process that commits or empties the log, in seconds: that takes a moment."""
WRITER, BUILD = "writer", "build"
"""The locks: of a commit, and of a process that reads documents into a collection."""
IMPORTED = "imported:"
"""Prefix of the fingerprint of vectors that came without the model that made them."""
_MAX_OPTION = 1e15
"""Largest number of an option that is believed."""
_MAX_DIMENSION = 1_000_000
_RESTORE = "Restore a backup (vrag index restore), or index the documents in another directory."
_REPAIR = f"Run: {REPAIR_COMMAND}. If that cannot repair it, restore a backup: vrag index restore"


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
    """The inputs that it takes."""

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
        """Parse the fields of a header."""
        kind, settings, dimension = (
            VectorKind(fields["kind"]),
            _object(fields["settings"]),
            fields["dimension"],
        )
        if type(dimension) is not int or not 1 <= dimension <= _MAX_DIMENSION:
            raise TypeError("its vectors have no length")
        if not all(type(value) in {str, int} for value in settings.values()):
            raise TypeError("a setting of its embedder is neither text nor a number")
        modalities = frozenset(map(Modality, fields["modalities"]))
        return cls(_text(fields["name"]), kind, dimension, _text(fields["fingerprint"]), settings, modalities)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for a header."""
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
        if not is_collection(directory):
            return None
        lock, is_fixed = LocalLocation(directory).writer_lock, (directory / DESCRIPTION).is_file()
        with closing(CollectionStore.open(directory, lock, fixed=is_fixed, read_only=True)) as store:
            return cls.parse(store.setting(HEADER), str(directory))

    @classmethod
    def parse(cls, text: str, where: str, hint: str = _REPAIR) -> CollectionHeader:
        """Parse the text of a file; `where` names the file in errors, `hint` is advice where it is damaged.

        Raises `CollectionError` if it is damaged or of another version of vrag.
        """
        try:
            content = _object(parse_json(text))
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

    def to_json(self) -> str:
        """Return the text that `parse` reads."""
        corpus = asdict(self.options)
        del corpus["workers"]
        return json.dumps(
            {
                "corpus": corpus,
                "corpus_fingerprint": self.corpus_fingerprint,
                "embedder": self.embedder.as_dict() if self.embedder else None,
            }
        )

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


def is_url(address: str | os.PathLike[str]) -> bool:
    """Check whether an address is a URL and not a directory.

    >>> is_url("s3://bucket/reports"), is_url("/data/reports"), is_url("C:/reports")
    (True, False, False)
    """
    return isinstance(address, str) and URL.fullmatch(address) is not None


def is_reference_index(directory: Path) -> bool:
    """Check whether a directory holds files of an index that the reference wrote."""
    return any(True for pattern in INDEX_PATTERNS for _ in directory.glob(pattern))


def is_collection(directory: Path) -> bool:
    """Return whether a directory is a collection.

    Raises `CollectionError` for one of an earlier layout, and for one whose database is gone or empty.
    """
    try:
        if (directory / DATABASE).stat().st_size:
            return True
        raise CollectionError(f"{directory} is damaged: {DATABASE} is empty.", _RESTORE)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise CollectionError(f"{directory} cannot be read: {error.strerror}.") from error
    if is_rescue_interrupted(directory / DATABASE):
        raise CollectionError(f"A repair of {directory} was interrupted.", f"Run: {REPAIR_COMMAND}")
    if (directory / BLOBS).is_dir() and (directory / f"{WRITER}.lock").is_file():
        raise CollectionError(f"{directory} is damaged: {DATABASE} is missing.", _RESTORE)
    if (directory / EARLIER).is_file():
        raise CollectionError(
            f"{directory} was created by an earlier version of vrag.",
            "Index the documents again, which are unchanged: vrag index add DOCUMENTS --collection NEW",
        )
    return False


def read_only_backup(directory: Path) -> CollectionError:
    """Build the refusal to write to a backup."""
    return CollectionError(
        f"{directory} is a backup and read-only.",
        f"Restore it: vrag index restore {directory.parent} TARGET --snapshot {directory.name}. "
        f"To check it: vrag index backups {directory.parent} --check",
    )


def is_leftover(name: str) -> bool:
    """Check whether a killed creation may have left this file: a directory of such files counts as empty."""
    return name == ALLOWED or name.startswith(
        (DATABASE, f".{DATABASE}", f"{WRITER}.", f"{WRITER}-", f"{BUILD}.", f"{BUILD}-")
    )


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

    def open_store(self) -> CollectionStore:
        """Open its database and blobs."""
        ...

    def size(self) -> int:
        """Return the size of the collection in bytes."""
        ...

    @property
    def is_being_written(self) -> bool:
        """True while a process reads documents into it, as far as it is known without its lock."""
        ...

    def build(self, wait: float | None = None) -> AbstractContextManager[Path]:
        """Let this process alone read documents into it, as `LocalLocation.build` describes."""
        ...


class LocalLocation:
    """A directory."""

    repair_hint = f"Run: {REPAIR_COMMAND}, then vrag index add"

    def __init__(self, directory: Path, wait: float = 0.0, *, durable: bool = True) -> None:
        """`wait` is how long another process that reads documents into it is waited for, in seconds."""
        self.directory = directory
        self.durable = durable
        self.address = os.fspath(directory)
        self.cache_dir = directory / "cache"
        self.writer_lock = WriterLock(directory, max(wait, MIN_COMMIT_WAIT), _busy, WRITER)
        self.build_lock = WriterLock(directory, wait, _busy, BUILD, is_long=True)

    def open_store(self) -> CollectionStore:
        """Open its database and blobs."""
        return CollectionStore.open(self.directory, self.writer_lock, durable=self.durable)

    def create_store(self, header: CollectionHeader) -> CollectionStore:
        """Create its database."""
        return CollectionStore.create(
            self.directory, self.writer_lock, header.to_json(), durable=self.durable
        )

    def check_database(self) -> list[str]:
        """Return what is wrong with the database, a sentence each; every page is read."""
        database = Database(self.directory / DATABASE, SCHEMA, self.writer_lock, CollectionError)
        with closing(database):
            return database.check()

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
        """True while a process reads documents into it; one on another machine is believed to be alive."""
        return self.build_lock.is_held

    @contextmanager
    def build(self, wait: float | None = None) -> Generator[Path]:
        """Let this process alone read documents into it; yields an empty directory for their pictures.

        `wait` as for `Collection.open`. Raises `CollectionBusy` if another process does, and
        `CollectionError` if nothing can be written there.
        """
        staging = self.directory / STAGING
        try:
            with self.build_lock.hold(wait):
                for folder in (None, self.directory, self.cache_dir):
                    remove_abandoned(folder)
                for folder in (self.directory, self.cache_dir):
                    remove_unfinished_files(folder)
                shutil.rmtree(staging, ignore_errors=True)  # what a killed build left
                staging.mkdir(exist_ok=True)
                try:
                    yield staging
                finally:
                    shutil.rmtree(staging, ignore_errors=True)
        except OSError as error:
            raise CollectionError(
                f"{self.directory} cannot be written to: {error.strerror or error}.",
                disk_advice(error),
            ) from error


class ReadOnlyLocation:
    """A collection that is only read, of which no file is at hand but its database and blobs."""

    def __init__(
        self,
        address: str,
        folder: str,
        open_store: Callable[[], CollectionStore],
        size: Callable[[], int],
        refusal: CollectionError,
        repair_hint: str,
    ) -> None:
        """Keep its caches and runs in `folder`, below the user's directories; writing raises `refusal`."""
        from platformdirs import user_cache_path, user_data_path

        self.address, self.repair_hint = address, repair_hint
        self.directory: Path = user_data_path("vrag", appauthor=False) / folder
        self.cache_dir: Path = user_cache_path("vrag", appauthor=False) / folder
        self.open_store, self.size = open_store, size
        self._refusal = refusal

    @property
    def is_being_written(self) -> bool:
        """False: it is complete."""
        return False

    def build(self, wait: float | None = None) -> AbstractContextManager[Path]:  # noqa: ARG002 - the protocol's
        """Refuse to write."""
        raise self._refusal


def _busy(holder: str, waited: float) -> CollectionBusy:
    time = f" It did not end within {waited:g} s." if waited else ""
    hint = "Wait longer for it with --wait SECONDS (VRAG_WAIT), or stop it. You can search meanwhile."
    return CollectionBusy(f"{holder}{time}", hint)
