"""A name in the settings becomes an embedder."""

from __future__ import annotations

import difflib
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol, Unpack, cast

from vrag.embed.embedder import VectorKind
from vrag.embed.fingerprint import RETIRED
from vrag.embed.options import EmbedArguments, EmbedOptions
from vrag.errors import EmbedError

if TYPE_CHECKING:
    from vrag.embed.embedder import Embedder

__all__ = ["ENTRY_POINTS", "SHORT_NAMES", "EmbedderFactory", "embedder_names", "open_embedder"]

ENTRY_POINTS = "vrag.embedders"
"""Group of entry points by which other packages bring embedders: name = what stands before the colon."""

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
"""Names for the models that the reference names, and a few others."""


class EmbedderFactory(Protocol):
    """Opens an embedder: what an entry point of the group `vrag.embedders` names."""

    def __call__(self, argument: str, options: EmbedOptions, /) -> Embedder:
        """The embedder.

        Args:
            argument: What follows the colon in the name.
            options: Device, precision, batch and the rest.

        Raises:
            EmbedError: If it cannot be opened.
        """
        ...


def open_embedder(spec: str, **settings: Unpack[EmbedArguments]) -> Embedder:
    """The embedder of that name: a short one, or `SCHEME:ARGUMENT`.

    Schemes are `sentence`, `gve`, `qwen3-vl`, `remote`, `remote-chat`, `pooling` and those of entry points;
    `gve-reference` is an old spelling of `gve`. Short names and schemes are matched without regard to case.

    Args:
        spec: The name.
        settings: See `EmbedOptions`.

    Raises:
        EmbedError: If there is none of that name, or it cannot be opened.
        MissingExtra: If its libraries are not installed.
    """
    options = EmbedOptions(**settings)
    full = SHORT_NAMES.get(spec.strip().lower(), spec.strip())
    scheme, colon, argument = full.partition(":")
    factory = _factories().get(scheme.lower())
    if not colon or not argument or factory is None:
        raise EmbedError(f"There is no embedder {spec!r}.", _suggestion(spec))
    return factory(argument, options)


def embedder_names() -> list[str]:
    """The short names, then the schemes with a colon behind them."""
    schemes = sorted(_factories().keys() - RETIRED)
    return [*sorted(SHORT_NAMES), *(f"{scheme}:" for scheme in schemes)]


def _sentence(argument: str, options: EmbedOptions) -> Embedder:
    """A model of sentence-transformers; Qwen3-VL-Embedding through its own adapter."""
    from vrag.embed.model_files import find_checkpoint, lasting_name
    from vrag.embed.model_kind import is_qwen3_vl_embedding
    from vrag.embed.models.qwen3_vl import Qwen3VLEmbedder
    from vrag.embed.models.sentence import SentenceEmbedder

    if is_qwen3_vl_embedding(find_checkpoint(argument)):
        return Qwen3VLEmbedder(argument, options, name=f"sentence:{lasting_name(argument)}")
    return SentenceEmbedder(argument, options)


def _qwen3_vl(argument: str, options: EmbedOptions) -> Embedder:
    from vrag.embed.models.qwen3_vl import Qwen3VLEmbedder

    return Qwen3VLEmbedder(argument, options)


def _gve(argument: str, options: EmbedOptions) -> Embedder:
    from vrag.embed.models.gve import GveEmbedder

    return GveEmbedder(argument, options)


def _remote(argument: str, options: EmbedOptions) -> Embedder:
    from vrag.embed.models.remote import RemoteEmbedder

    return RemoteEmbedder(argument, options)


def _remote_chat(argument: str, options: EmbedOptions) -> Embedder:
    from vrag.embed.models.remote import RemoteEmbedder

    return RemoteEmbedder(argument, options, chat=True)


def _pooling(argument: str, options: EmbedOptions) -> Embedder:
    from vrag.embed.models.remote import RemoteEmbedder

    return RemoteEmbedder(argument, options, kind=VectorKind.MULTI)


_OWN: dict[str, EmbedderFactory] = {
    "sentence": _sentence,
    "gve": _gve,
    "gve-reference": _gve,
    "qwen3-vl": _qwen3_vl,
    "remote": _remote,
    "remote-chat": _remote_chat,
    "pooling": _pooling,
}


def _factories() -> dict[str, EmbedderFactory]:
    """What opens embedders, by scheme; ours cannot be replaced by others'."""
    others = {point.name.lower(): _deferred(point.name) for point in entry_points(group=ENTRY_POINTS)}
    return others | _OWN


def _deferred(name: str) -> EmbedderFactory:
    """Opens by an entry point, imported only then."""

    def opened(argument: str, options: EmbedOptions) -> Embedder:
        point = next(iter(entry_points(group=ENTRY_POINTS, name=name)))
        try:
            factory = cast("EmbedderFactory", point.load())
        except (ImportError, AttributeError) as error:
            raise EmbedError(f"The embedder {name!r} of {point.value} cannot be loaded: {error}.") from error
        return factory(argument, options)

    return opened


def _suggestion(spec: str) -> str:
    names = embedder_names()
    if spec.count("/") == 1 and ":" not in spec:
        return f"For a model of the hub or a folder, write sentence:{spec}"
    near = difflib.get_close_matches(spec.lower(), names, 1, cutoff=0.6)
    return (f"Do you mean {near[0]}? " if near else "") + f"Known: {', '.join(names)}."
