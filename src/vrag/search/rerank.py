"""Reranking of hits by a model that reads query and item together."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vrag.embed.device import Batches, is_out_of_memory, library, open_device
from vrag.embed.embedder import EmbedContent, Modality, escape_special_tokens
from vrag.embed.model_files import find_checkpoint, lasting_name
from vrag.embed.model_kind import EmbedderRole, read_layout
from vrag.embed.models.loader import PROCESSOR_SETTINGS, loading, set_pixels
from vrag.embed.options import EmbedOptions
from vrag.errors import CollectionError, EmbedError, SearchError, ServerError
from vrag.search.searcher import ForwardedItems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.search.searcher import Searcher
    from vrag.types import Hit, Item, Query

SHORT_NAMES = {
    "qwen3-vl-reranker-2b": "Qwen/Qwen3-VL-Reranker-2B",
    "qwen3-vl-reranker-8b": "Qwen/Qwen3-VL-Reranker-8B",
    "bge-reranker-v2-m3": "BAAI/bge-reranker-v2-m3",
}
_SCHEME = "cross-encoder:"
_log = logging.getLogger(__name__)


class Reranker(Protocol):
    """A model that scores how well contents answer a query.

    A score depends on its own pair alone. May be called from several threads.
    """

    @property
    def name(self) -> str:
        """Its name in settings."""
        ...

    @property
    def modalities(self) -> frozenset[Modality]:
        """The content of items that it supports; queries are text."""
        ...

    def score(self, query: str, contents: Sequence[EmbedContent]) -> Sequence[float]:
        """Score how well each content answers the query; higher is better.

        Raises `EmbedError` if any of the pairs cannot be scored; the others may be tried alone.
        """
        ...


class CrossEncoderReranker:
    """A `Reranker` over a cross-encoder of sentence-transformers: of text, or of text and pictures.

    The model is a folder, or `ORGANISATION/NAME[@REVISION]` of the hub. Raises `EmbedError` if it cannot be
    found or was not trained to score pairs, and `MissingExtra` if the libraries are not installed.
    """

    def __init__(self, model: str, options: EmbedOptions | None = None) -> None:
        options = options or EmbedOptions()
        self.name = f"{_SCHEME}{lasting_name(model)}"
        device = open_device(options)
        layout = read_layout(find_checkpoint(model))
        if layout.role is not EmbedderRole.RERANK:
            raise EmbedError(f"{model} computes vectors and does not score pairs.", "Use it as the embedder.")
        settings: dict[str, Any] = {"dtype": getattr(library("torch"), device.dtype), "use_safetensors": True}
        with loading():
            try:
                self._model = library("sentence_transformers").CrossEncoder(
                    str(layout.folder),
                    device=device.name,
                    local_files_only=True,
                    trust_remote_code=False,
                    model_kwargs=settings,
                    processor_kwargs=PROCESSOR_SETTINGS if layout.sees else {},
                )
            except (OSError, ValueError, RuntimeError, ImportError, KeyError) as error:
                raise EmbedError(f"{model} cannot be loaded: {error}") from error
        if (classes := self._model.num_labels) != 1:
            raise EmbedError(f"{model} is a classifier with {classes} classes, not a reranker.")
        set_pixels(self._model[0].processor, options)
        sees = layout.sees and self._model.supports("image")
        self.modalities = frozenset({Modality.TEXT, Modality.IMAGE} if sees else {Modality.TEXT})
        self._lock = threading.Lock()
        self._batches = Batches(options.batch)

    def score(self, query: str, contents: Sequence[EmbedContent]) -> Sequence[float]:
        """Score how well each content answers the query, by the model's own activation."""
        text = escape_special_tokens(query)
        pairs: list[tuple[Any, Any]] = []
        for content in contents:
            missing = content.modalities - self.modalities
            if missing or not content.modalities:
                named = ", ".join(sorted(missing)) or "empty content"
                raise EmbedError(f"{self.name} cannot compare {named}.")
            if Modality.IMAGE not in self.modalities:
                pairs.append((text, escape_special_tokens(content.text)))
                continue
            shown: dict[str, Any] = {}
            if content.image is not None:
                shown["image"] = content.image.convert("RGB")
            if content.text:
                shown["text"] = escape_special_tokens(content.text)
            pairs.append(({"text": text}, shown))
        with self._lock:
            return self._batches.run(pairs, self._scores)

    def _scores(self, pairs: Sequence[tuple[Any, Any]]) -> list[float]:
        try:
            made = self._model.predict(
                list(pairs), batch_size=len(pairs), show_progress_bar=False, convert_to_tensor=True
            )
        except (ValueError, TypeError, KeyError, IndexError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise
            raise EmbedError(f"{self.name} cannot score it: {error}") from error
        return [float(score) for score in np.asarray(made.float().cpu()).reshape(len(pairs))]


def open_reranker(
    spec: str, *, device: str = "auto", dtype: str = "auto", batch: int = 8, max_pixels: int | None = None
) -> Reranker:
    """Open a reranker by a short name, a folder or a hub name, with or without `cross-encoder:`.

    Raises `EmbedError` if there is no such model, or it was not trained to score pairs, and `MissingExtra` if
    its libraries are not installed.
    """
    model = spec.strip().removeprefix(_SCHEME)
    options = EmbedOptions(device=device, dtype=dtype, batch=batch, max_pixels=max_pixels)
    return CrossEncoderReranker(SHORT_NAMES.get(model.lower(), model), options)


class Reranked(ForwardedItems):
    """A `Searcher` whose hits, found by another one, are ordered by a reranker.

    The best `depth` of the other one's hits, or `top_k` if that is more, are scored; the best `top_k` of
    them are returned. Hits have the reranker's scores; ties keep the order of the search. Raises
    `SearchError` if `depth` is not within 1 to 1000.

    A hit whose picture is missing or damaged is scored by its text. One whose item was deleted since it was
    found comes after all others, with the lowest of their scores, or 0 where there are none.
    """

    def __init__(self, searcher: Searcher, reranker: Reranker, depth: int = 30) -> None:
        if not 1 <= depth <= 1000:
            raise SearchError(f"{depth} hits cannot be reranked; it must be from 1 to 1000.")
        self._searcher = self._items = searcher
        self._reranker = reranker
        self._depth = depth

    @property
    def version(self) -> str:
        """Hash over what can be found, and the reranker's name."""
        return f"{self._searcher.version}+{self._reranker.name}"

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Find for each query the best `top_k` items or fewer, best first.

        Raises `SearchError` if a query is empty, `top_k` not within 1 to 1000, or an item cannot be compared
        with the query.
        """
        depth = top_k if top_k < 1 else max(top_k, self._depth)
        found = self._searcher.search(queries, depth)
        items: dict[str, Item] = {}  # each once for all queries; those deleted since are absent
        for name in dict.fromkeys(hit.item for hits in found for hit in hits):
            try:
                items[name] = self._searcher.item(name)
            except ServerError:
                raise
            except SearchError as error:
                _log.warning("A hit is not reranked: %s", error)
        return [self._ordered(query, hits, items)[:top_k] for query, hits in zip(queries, found, strict=True)]

    def _ordered(self, query: Query, hits: Sequence[Hit], items: Mapping[str, Item]) -> list[Hit]:
        loaded_hits = [hit for hit in hits if hit.item in items]
        scores = self._scores(query.text, loaded_hits, [items[hit.item] for hit in loaded_hits])
        order = sorted(range(len(loaded_hits)), key=lambda place: -scores[place])  # stable: ties as they came
        best = [replace(loaded_hits[place], score=scores[place]) for place in order]
        last = best[-1].score if best else 0.0
        rest = [replace(hit, score=last) for hit in hits if hit.item not in items]
        return [replace(hit, rank=rank) for rank, hit in enumerate((*best, *rest), start=1)]

    def _scores(self, query: str, hits: Sequence[Hit], items: Sequence[Item]) -> list[float]:
        """Score hits; if that fails, the error names the hit that cannot be scored."""
        contents = [self._content(item) for item in items]
        scores: list[float] = []
        try:
            if contents:
                scores = [float(score) for score in self._reranker.score(query, contents)]
        except EmbedError:
            for hit, content in zip(hits, contents, strict=True):
                try:
                    scores.append(float(self._reranker.score(query, [content])[0]))
                except EmbedError as error:
                    place = f"{hit.document_name}, {hit.kind} {hit.ordinal}"
                    raise SearchError(
                        f"{place}, cannot be compared with the query: {error}",
                        "Search without the reranker, or remove the item.",
                    ) from error
        if len(scores) != len(hits) or not np.isfinite(scores).all():
            raise SearchError(f"{self._reranker.name} returned no score for each of {len(hits)} hits.")
        return scores

    def _content(self, item: Item) -> EmbedContent:
        """Return what the reranker reads of an item: its picture, or else its text, or else its name."""
        if Modality.IMAGE in self._reranker.modalities and item.image is not None:
            try:
                return EmbedContent(image=self._searcher.image(item.id))
            except ServerError:
                raise
            except (CollectionError, SearchError) as error:  # missing or damaged
                _log.warning("%s is reranked by its text: %s", item.name, error)
        return EmbedContent(text=f"{item.heading}\n{item.text}".strip() or item.name)
