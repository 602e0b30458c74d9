"""`collection.json`: what a collection was built with. Written once, when it is created."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from vrag.atomic_io import write_file
from vrag.corpus.options import CorpusOptions
from vrag.embed.embedder import EmbedderInfo, VectorKind
from vrag.embed.fingerprint import check_same
from vrag.errors import CollectionError, FingerprintMismatch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["FILE_NAME", "IMPORTED", "SCHEMA", "CollectionHeader", "EmbedderRecord"]

FILE_NAME = "collection.json"
IMPORTED = "imported:"
"""What the fingerprint begins with of vectors that came without the model that made them."""
SCHEMA = 2
"""Version of the layout on disk. Any other is refused."""


@dataclass(frozen=True, slots=True)
class EmbedderRecord:
    """The embedder whose vectors a collection holds."""

    name: str
    """What it was called then: the model may have moved since."""
    kind: VectorKind
    dimension: int
    fingerprint: str
    settings: Mapping[str, str | int] = field(default_factory=dict[str, str | int], compare=False)
    """What it was opened with that vectors depend on, as part of the fingerprint: `dtype`, `max_pixels`."""

    @property
    def imported(self) -> bool:
        """Whether nobody has said yet which embedder made these vectors: they cannot be searched."""
        return self.fingerprint.startswith(IMPORTED)

    @classmethod
    def of(cls, embedder: EmbedderInfo) -> EmbedderRecord:
        """The mark of an embedder."""
        settings = dict(embedder.settings)
        return cls(embedder.name, embedder.kind, embedder.dimension, embedder.fingerprint, settings)

    @classmethod
    def parse(cls, mark: dict[str, Any]) -> EmbedderRecord:
        """The mark as `collection.json` holds it; the first ones had no settings."""
        kind, settings = VectorKind(mark["kind"]), dict(mark.get("settings", {}))
        return cls(mark["name"], kind, mark["dimension"], mark["fingerprint"], settings)


@dataclass(frozen=True, slots=True)
class CollectionHeader:
    """What a collection was built with."""

    options: CorpusOptions
    """The number of worker processes is not kept: it is a matter of the machine."""
    corpus_fingerprint: str
    """`options.fingerprint` of the version of vrag that created the collection."""
    embedder: EmbedderRecord | None = None

    @classmethod
    def of(cls, options: CorpusOptions, embedder: EmbedderInfo | None) -> CollectionHeader:
        """The header of a new collection."""
        mark = EmbedderRecord.of(embedder) if embedder else None
        return cls(options, options.fingerprint, mark)

    @classmethod
    def read(cls, directory: Path) -> CollectionHeader | None:
        """The header of the collection in a directory; None when it has none.

        Raises:
            CollectionError: If it is damaged or of a newer version of vrag.
        """
        path = directory / FILE_NAME
        try:
            return cls.parse(path.read_text(encoding="utf-8"), str(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise CollectionError(f"{path} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise _damaged(str(path), error) from error

    @classmethod
    def parse(cls, text: str, where: str) -> CollectionHeader:
        """The header that a file holds.

        Args:
            text: What the file holds.
            where: The file, for people.

        Raises:
            CollectionError: If it is damaged or of another version of vrag.
        """
        try:
            content: dict[str, Any] = json.loads(text)
            _check_schema(content["schema"], where)
            mark: dict[str, Any] | None = content["embedder"]
            return cls(
                CorpusOptions(**content["corpus"]),
                content["corpus_fingerprint"],
                EmbedderRecord.parse(mark) if mark else None,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(where, error) from error

    def write(self, directory: Path) -> None:
        """Writes it, all or nothing: also when the machine loses power."""
        corpus = asdict(self.options)
        del corpus["workers"]
        content = {
            "schema": SCHEMA,
            "corpus": corpus,
            "corpus_fingerprint": self.corpus_fingerprint,
            "embedder": asdict(self.embedder) if self.embedder else None,
        }
        scratch = (
            directory / f"{FILE_NAME}.new"
        )  # what a kill may leave: `vrag.index.location.LEFTOVERS` knows it
        write_file(scratch, json.dumps(content, indent=2).encode())
        scratch.replace(directory / FILE_NAME)

    def check_options(self, options: CorpusOptions) -> None:
        """Refuses settings that make other items.

        Raises:
            FingerprintMismatch: If items made with `options` would differ from those already there.
        """
        if options.fingerprint == self.corpus_fingerprint:
            return
        if self.options.fingerprint != self.corpus_fingerprint:
            raise FingerprintMismatch(
                "The collection was built by another version of vrag, which reads files differently.",
                "It can still be searched. To add files, build it again in another directory.",
            )
        raise FingerprintMismatch(
            f"The collection was built with other settings: {_differences(self.options, options)}.",
            "Leave these settings out to use the collection's own, or use another directory.",
        )

    def check_embedder(self, embedder: EmbedderInfo | None) -> None:
        """Refuses another model's vectors.

        Raises:
            FingerprintMismatch: If `embedder` is not the one the collection was built with.
        """
        ours = self.embedder
        if ours is not None and ours.imported:
            raise FingerprintMismatch(
                f"The collection has imported vectors, and no one has said which {ours.name} made them.",
                "Import the index again and name the model: vrag index import DIR --embedder MODEL",
            )
        if ours is not None and embedder is not None:
            check_same(ours, embedder)
        elif ours is not embedder:
            raise FingerprintMismatch(
                f"The collection was built with {_model(ours)} and is now used with {_model(embedder)}.",
                "Use the one it was built with, or build it again in another directory.",
            )


def _check_schema(schema: int, where: str) -> None:
    if schema > SCHEMA:
        raise CollectionError(
            f"{where} was made by a newer version of vrag (layout {schema}).",
            "Upgrade: pip install -U vrag-agent",
        )
    if schema < SCHEMA:
        raise CollectionError(
            f"{where} was made by an earlier version of vrag (layout {schema}, now {SCHEMA}).",
            "Build the collection again in another directory: the documents are where they were.",
        )


def _damaged(where: str, error: Exception) -> CollectionError:
    return CollectionError(
        f"{where} is damaged: {error}.", "Build the collection again in another directory."
    )


def _differences(ours: CorpusOptions, theirs: CorpusOptions) -> str:
    """The settings that differ, for people."""
    before, now = asdict(ours), asdict(theirs)
    changed = [f"{name} {before[name]}, not {now[name]}" for name in before if before[name] != now[name]]
    return "; ".join(part for part in changed if not part.startswith("workers "))


def _model(mark: EmbedderInfo | None) -> str:
    return f"the embedder {mark.name}" if mark else "no embedder"
