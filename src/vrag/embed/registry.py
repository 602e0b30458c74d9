"""Opening of embedders: by name, only when needed, and only the one that built a collection."""

from __future__ import annotations

import difflib
import functools
import threading
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol, Unpack, cast

from vrag.embed.embedder import VectorKind
from vrag.embed.options import EmbedArguments, EmbedOptions
from vrag.errors import EmbedError, FingerprintMismatch
from vrag.model_profiles import profile_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from vrag.embed.embedder import EmbedContent, Embedder, EmbedderInfo, Modality

ENTRY_POINTS = "vrag.embedders"
"""Group of entry points of embedders of other packages; their names are schemes."""

SHORT_NAMES = {
    "colqwen2": "sentence:vidore/colqwen2-v1.0",
    "colqwen2-hf": "sentence:vidore/colqwen2-v1.0-hf",
    "colqwen2.5": "sentence:vidore/colqwen2.5-v0.2",
    "colpali": "sentence:vidore/colpali-v1.3",
    "colsmol": "sentence:vidore/colSmol-256M",
    "gve-3b": "gve:Alibaba-NLP/GVE-3B",
    "gve-7b": "gve:Alibaba-NLP/GVE-7B",
    "qwen3-vl-embedding-2b": "qwen3-vl:Qwen/Qwen3-VL-Embedding-2B",
    "qwen3-vl-embedding-8b": "qwen3-vl:Qwen/Qwen3-VL-Embedding-8B",
    "bge-m3": "sentence:BAAI/bge-m3",
}
"""Short names of the reference's models and a few others."""
_BARE_SCHEMES = {"qwen2_5_vl": "gve", "qwen3_vl": "qwen3-vl"}
"""Schemes of checkpoints without `modules.json`, by their `model_type`."""
RETIRED = frozenset({"gve-reference"})
"""Schemes whose embedders made wrong vectors in earlier versions; in settings they mean `gve`."""


class EmbedderFactory(Protocol):
    """A function that opens an embedder: the target of an entry point of the group `vrag.embedders`."""

    def __call__(self, argument: str, options: EmbedOptions, /) -> Embedder:
        """Open the embedder of an argument, the part of the name after the colon.

        Raises `EmbedError` if it cannot be opened.
        """
        ...


def open_embedder(spec: str, **settings: Unpack[EmbedArguments]) -> Embedder:
    """Open the embedder of a name; see `full_name`. Settings are those of `EmbedOptions`.

    Raises `EmbedError` if the name is unknown, or the embedder cannot be opened, and `MissingExtra` if its
    libraries are not installed.
    """
    scheme, _, argument = full_name(spec).partition(":")
    return _factories()[scheme.lower()](argument, EmbedOptions(**settings))


def full_name(spec: str) -> str:
    """Return the `SCHEME:ARGUMENT` of an embedder, which is named by that, a short name, a folder or the hub.

    Schemes are `sentence`, `gve`, `qwen3-vl`, `remote`, `remote-chat`, `pooling` and those of entry points;
    `gve-reference` is an old spelling of `gve`. Short names, the hub's names of the same models, and schemes
    are matched without regard to case. The scheme of a folder, or of another model of the hub, is read from
    its files, for which a model is downloaded.

    Raises `EmbedError` if the name is unknown, the folder does not exist or holds no embedder, or the hub has
    no such model, and `MissingExtra` if the client of the hub is not installed.
    """
    from vrag.embed.model_files import find_checkpoint, lasting_name, names_checkpoint

    name = spec.strip()
    known = {full.partition(":")[2].lower(): full for full in SHORT_NAMES.values()} | SHORT_NAMES
    if full := known.get(name.lower()):
        return full
    scheme, _, argument = name.partition(":")
    if argument and scheme.lower() in _factories():
        _check_built_in(scheme.lower())
        return name
    if not names_checkpoint(name):
        names = embedder_names()
        near = difflib.get_close_matches(name.lower(), names, 1, cutoff=0.6)
        hint = (f"Do you mean {near[0]}? " if near else "") + f"Known: {', '.join(names)}, and folders."
        raise EmbedError(f"Unknown embedder {spec!r}.", hint)
    return f"{_scheme_of(find_checkpoint(name), name)}:{lasting_name(name)}"


def _scheme_of(folder: Path, name: str) -> str:
    """Return the scheme of a checkpoint by its files.

    GVE, and Qwen3-VL-Embedding without `modules.json`, look like the model that they were made from: their
    names tell them apart. Raises `EmbedError` if it is that model, or the files are damaged.
    """
    from vrag.embed.model_files import read_settings

    bare = _BARE_SCHEMES.get(str(read_settings(folder, "config.json").get("model_type")))
    if bare is None or (folder / "modules.json").is_file():
        return "sentence"
    if profile_of(name) is not None:
        raise EmbedError(
            f"{name} writes text: it is no embedder.",
            "Name an embedding model, such as qwen3-vl-embedding-2b. If this is one all the same, write "
            f"{bare}:{name}",
        )
    return bare


def embedder_names() -> list[str]:
    """Return the short names, then the schemes with a colon behind them."""
    schemes = sorted(_factories().keys() - RETIRED)
    return [*sorted(SHORT_NAMES), *(f"{scheme}:" for scheme in schemes)]


def _open_sentence(argument: str, options: EmbedOptions) -> Embedder:
    """Open a model of sentence-transformers; Qwen3-VL-Embedding through its own adapter."""
    from vrag.embed.model_files import find_checkpoint, lasting_name
    from vrag.embed.model_kind import is_qwen3_vl_embedding
    from vrag.embed.models.qwen3_vl import Qwen3VLEmbedder
    from vrag.embed.models.sentence import SentenceEmbedder

    if is_qwen3_vl_embedding(find_checkpoint(argument)):
        return Qwen3VLEmbedder(argument, options, name=f"sentence:{lasting_name(argument)}")
    return SentenceEmbedder(argument, options)


def _open_gve(argument: str, options: EmbedOptions) -> Embedder:
    from vrag.embed.models.gve import GveEmbedder

    return GveEmbedder(argument, options)


def _open_qwen3_vl(argument: str, options: EmbedOptions) -> Embedder:
    from vrag.embed.models.qwen3_vl import Qwen3VLEmbedder

    return Qwen3VLEmbedder(argument, options)


def _open_remote(
    argument: str, options: EmbedOptions, *, kind: VectorKind = VectorKind.SINGLE, chat: bool = False
) -> Embedder:
    from vrag.embed.models.remote import RemoteEmbedder

    return RemoteEmbedder(argument, options, kind=kind, chat=chat)


_FACTORIES: dict[str, EmbedderFactory] = {
    "sentence": _open_sentence,
    "gve": _open_gve,
    "gve-reference": _open_gve,
    "qwen3-vl": _open_qwen3_vl,
    "remote": _open_remote,
    "remote-chat": functools.partial(_open_remote, chat=True),
    "pooling": functools.partial(_open_remote, kind=VectorKind.MULTI),
}


def _open_entry_point(name: str, argument: str, options: EmbedOptions) -> Embedder:
    point = next(iter(entry_points(group=ENTRY_POINTS, name=name)))
    try:
        factory = cast("EmbedderFactory", point.load())
    except Exception as error:  # other packages may raise anything when they are imported
        raise EmbedError(
            f"The embedder {name!r} of {point.value} cannot be loaded: {type(error).__name__}: {error}.",
            "Fix its package, or use another embedder.",
        ) from error
    return factory(argument, options)


def _factories() -> dict[str, EmbedderFactory]:
    """Return the factories by scheme; ours cannot be replaced by others'."""
    points = {point.name.lower(): point.name for point in entry_points(group=ENTRY_POINTS)}
    return {
        scheme: functools.partial(_open_entry_point, name) for scheme, name in points.items()
    } | _FACTORIES


def _check_built_in(scheme: str) -> None:
    """Raise `EmbedError` if a package provides embedders under the scheme of built-in ones."""
    points = [point for point in entry_points(group=ENTRY_POINTS) if point.name.lower() == scheme]
    if points and scheme in _FACTORIES:
        raise EmbedError(
            f"The embedder {points[0].name!r} of {points[0].value} has the name of a built-in one.",
            "Rename it in its package, or remove the package.",
        )


def check_same(built_with: EmbedderInfo, used_with: EmbedderInfo) -> None:
    """Refuse to use a collection with an embedder that makes other vectors than the one it was built with.

    Raises `FingerprintMismatch` if they differ, with all known differences.
    """
    if built_with.fingerprint == used_with.fingerprint:
        return
    check_retired(built_with)
    values = [("vectors", built_with.kind, used_with.kind)]
    values += [("dimension", str(built_with.dimension), str(used_with.dimension))]
    if built_with.settings:  # the first collections kept none
        for name in sorted({*built_with.settings, *used_with.settings}):
            before, now = (
                str(info.settings.get(name, "the model's own")) for info in (built_with, used_with)
            )
            values.append((name, before, now))
    differences = "; ".join(f"{name} {before}, not {now}" for name, before, now in values if before != now)
    if not differences:
        differences = "other weights, configuration or version of vrag"
        if used_with.settings and not built_with.settings:
            differences += ", or other settings than now"
    hint = "Use the embedder it was built with, with the same settings, or rebuild it in another directory."
    before, now = (info.settings.get("visual_tokens", 0) for info in (built_with, used_with))
    if before != now:
        hint = f"{hint} VRAG_VISUAL_TOKENS={before} restores visual_tokens."
    raise FingerprintMismatch(
        f"The collection was built with the embedder {built_with.name} and is now used with the embedder "
        f"{used_with.name}: {differences}.",
        hint,
    )


def check_retired(built_with: EmbedderInfo) -> None:
    """Refuse a collection built with an embedder that made wrong vectors.

    Raises `FingerprintMismatch` if it was; with the command that makes a new one.
    """
    scheme, _, model = built_with.name.partition(":")
    if scheme not in RETIRED:
        return
    raise FingerprintMismatch(
        f"The collection was built with {built_with.name}, which left out the token whose state GVE's vector "
        "is: its vectors, or those of the queries asked of it, were wrong.",
        f"Make a new collection with gve:{model}. Of an imported index: `vrag index import DIR --collection "
        f"NEW --embedder gve:{model}`, which takes its vectors as they are; of files: `vrag index add "
        f"PATH --collection NEW --embedder gve:{model}`. Words can still be searched: VRAG_RANKING=lexical.",
    )


class DeferredEmbedder:
    """The embedder of a collection, opened at the first item or query.

    So nothing has to be loaded to find that there is nothing to add. `info` is what the collection keeps of
    it; the opened embedder must have the same fingerprint.
    """

    info: EmbedderInfo

    def __init__(self, info: EmbedderInfo, open_embedder: Callable[[], Embedder]) -> None:
        self.info = info
        self.name, self.kind, self.dimension = info.name, info.kind, info.dimension
        self.fingerprint, self.settings = info.fingerprint, info.settings
        self._open_embedder = open_embedder
        self._embedder: Embedder | None = None
        self._lock = threading.Lock()

    @property
    def modalities(self) -> frozenset[Modality]:
        """The inputs that it takes. Opens it if the collection does not record them."""
        return self.info.modalities or self.open().modalities

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        """Embed contents. Opens it."""
        return self.open().embed_items(contents)

    def embed_queries(self, queries: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """Embed queries. Opens it."""
        return self.open().embed_queries(queries)

    def open(self) -> Embedder:
        """Return the embedder itself.

        Raises `EmbedError` if it cannot be opened and `FingerprintMismatch` if it is another than that of the
        collection.
        """
        with self._lock:
            if self._embedder is None:
                embedder = self._open_embedder()
                check_same(self.info, embedder)
                self._embedder = embedder
            return self._embedder
