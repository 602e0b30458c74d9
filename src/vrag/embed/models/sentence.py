"""`sentence:MODEL`: everything that sentence-transformers loads, behind one adapter."""

from __future__ import annotations

import hashlib
import json
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.embed.batches import Batches, is_out_of_memory, refusal
from vrag.embed.device import library, open_device
from vrag.embed.embedder import EmbedContent, MatchMap, Modality, VectorKind
from vrag.embed.model_files import checkpoint_digest, find_checkpoint, lasting_name
from vrag.embed.model_kind import EmbedderRole, read_layout
from vrag.embed.models.escape_tokens import harmless
from vrag.embed.models.processors import (
    PROCESSOR_SETTINGS,
    image_backend,
    limit_visual_tokens,
    loading,
    rgb,
    set_pixels,
)
from vrag.embed.models.rotary import restore_attention, restore_positions
from vrag.embed.options import EmbedOptions
from vrag.errors import EmbedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from PIL.Image import Image

    from vrag.embed.model_kind import ModelKindReport

__all__ = ["SentenceEmbedder"]

_RECIPE = 1
"""Raised whenever this module makes other vectors of the same model."""


class SentenceEmbedder:
    """An `Embedder` over a model that sentence-transformers loads; see `docs/embedders.md`.

    Which kind it is, is read from the checkpoint's files. Many vectors of a page are all that the model
    gives, those of the few words around the picture included, as colpali-engine scores them. Texts are
    never taken for addresses of pictures, which sentence-transformers would otherwise fetch.

    Args:
        model: A folder, or `ORGANISATION/NAME[@REVISION]` of the hub.
        options: Device, precision, batch, sizes of pictures.
        name: How settings name it; `sentence:MODEL` when empty.

    Raises:
        EmbedError: If the model cannot be found, or would be loaded as something it was not trained to be.
        MissingExtra: If the libraries are not installed.
    """

    def __init__(self, model: str, options: EmbedOptions | None = None, *, name: str = "") -> None:
        self._options = options = options or EmbedOptions()
        self.name = name or f"sentence:{lasting_name(model)}"
        options.refuse_instructions(self.name)
        self._device = open_device(options)
        self._layout = layout = read_layout(find_checkpoint(model))
        if layout.role is EmbedderRole.RERANK:
            raise EmbedError(f"{model} scores pairs and makes no vectors.", "Use it as the reranker.")
        self.kind = VectorKind.MULTI if layout.role is EmbedderRole.MULTI else VectorKind.SINGLE
        self._model = _load(layout, self._device.name, self._device.dtype)
        if self.kind is VectorKind.SINGLE and self._model.similarity_fn_name not in {"cosine", "dot"}:
            raise EmbedError(
                f"{model} compares by {self._model.similarity_fn_name} distance; vectors are compared by the "
                "dot product here."
            )
        set_pixels(self._model[0].processor, options)
        self.settings = options.settings(self._device.dtype) | self._limit_visual_tokens()
        self._restored = restore_positions(self._model[0].model)
        restore_attention(self._model[0].model)
        self._asks_only = self._model[0].transformer_task == "retrieval"  # has one wording for all texts
        self.modalities = self._modalities()
        self.dimension = int(self._model.get_embedding_dimension())
        self.fingerprint = self._fingerprint()
        self._lock = threading.Lock()
        self._items, self._queries = Batches(options.batch), Batches(options.batch)

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        """The vectors of contents, in their order; see `Embedder.embed_items`.

        Raises:
            EmbedError: If any of them cannot be embedded.
        """
        inputs = [self._input(content) for content in contents]
        groups: dict[tuple[str, ...], list[int]] = {}
        for place, made in enumerate(inputs):
            groups.setdefault(tuple(made), []).append(place)
        vectors: dict[int, NDArray[np.float32]] = {}
        with self._lock:
            for kinds, places in groups.items():  # one kind per batch: mixed ones are worded differently
                encode = (
                    self._encode_queries if kinds == ("text",) and self._asks_only else self._encode_items
                )
                made = self._items.run([inputs[place] for place in places], encode)
                vectors.update(zip(places, made, strict=True))
        return [vectors[place] for place in range(len(contents))]

    def embed_queries(self, queries: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """The vectors of queries, worded as the model asks; see `Embedder.embed_queries`.

        Raises:
            EmbedError: If any of them cannot be embedded.
        """
        inputs = [{"text": harmless(query)} for query in queries]
        with self._lock:
            return self._queries.run(inputs, self._encode_queries)

    def match_map(self, image: Image, query: str) -> MatchMap:
        """Where a picture matches a query: the similarity of each token of the query and each patch.

        Tokens that the model adds to every query are left out. They sum up the whole, match anywhere,
        and would hide what the words match (Faysse et al. 2024, "ColPali", section on interpretability).

        Raises:
            EmbedError: If the model gives one vector for a picture, or its patches form no grid.
        """
        if self.kind is VectorKind.SINGLE or Modality.IMAGE not in self.modalities:
            raise EmbedError(
                f"{self.name} gives one vector for a picture: it cannot say where it matched.",
                "Use a model of many vectors, such as sentence:vidore/colqwen2-v1.0-hf.",
            )
        page = self.embed_items([EmbedContent(image=image)])[0]
        asked = self.embed_queries([query])[0]
        with self._lock:
            ids, grid = self._patches(image)
            tokens, begin, end = self._tokens(query)
        if len(page) == len(ids):
            page = page[np.asarray(ids)]
        rows, columns = grid
        if len(page) != rows * columns:
            raise EmbedError(f"{self.name} pools or splits pictures: its {len(page)} vectors form no grid.")
        similarity = (asked[begin:end] @ page.T).reshape(-1, rows, columns)
        return MatchMap(tokens, np.ascontiguousarray(similarity, dtype=np.float32))

    def _input(self, content: EmbedContent) -> dict[str, Any]:
        """A content as sentence-transformers takes it; the order of the keys is that of the prompt."""
        missing = content.modalities - self.modalities
        if missing or not content.modalities:
            what = ", ".join(sorted(missing)) or "nothing"
            known = ", ".join(sorted(self.modalities))
            raise EmbedError(f"{self.name} was given {what} and looks at {known} only.")
        made: dict[str, Any] = {}
        if content.image is not None:
            made["image"] = rgb(content.image)
        if content.text:
            made["text"] = harmless(content.text)
        return made

    def _encode_items(self, inputs: Sequence[dict[str, Any]]) -> list[NDArray[np.float32]]:
        return self._encode(self._model.encode_document, inputs)

    def _encode_queries(self, inputs: Sequence[dict[str, Any]]) -> list[NDArray[np.float32]]:
        return self._encode(self._model.encode_query, inputs)

    def _encode(self, encode: Any, inputs: Sequence[dict[str, Any]]) -> list[NDArray[np.float32]]:  # noqa: ANN401
        try:
            made = encode(list(inputs), batch_size=len(inputs), show_progress_bar=False)
            vectors = [_array(vector) for vector in made]
        except (ValueError, TypeError, KeyError, IndexError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise
            raise refusal(self.name, error) from error
        if self._model.similarity_fn_name != "cosine":
            return vectors
        # In half precision the model's own normalisation leaves lengths off by 1e-3.
        return [np.float32(1 / max(np.linalg.norm(vector), 1e-12)) * vector for vector in vectors]

    def _modalities(self) -> frozenset[Modality]:
        """What the loaded model looks at.

        Raises:
            EmbedError: If the network could look at pictures and was loaded so that it does not.
        """
        able = {
            modality for modality in (Modality.TEXT, Modality.IMAGE) if self._model.supports(str(modality))
        }
        if self._layout.sees and Modality.IMAGE not in able:
            raise EmbedError(
                f"The network of {self.name} looks at pictures; its files have it loaded for text alone.",
                "Use a revision whose sentence_bert_config.json has a modality_config.",
            )
        return frozenset(able)

    def _limit_visual_tokens(self) -> dict[str, int]:
        """Apply the limit of visual tokens; it is a setting of the collection where it has an effect."""
        most = self._options.visual_tokens
        if self.kind is VectorKind.SINGLE or not most or self._options.max_pixels is not None:
            return {}
        lowered = limit_visual_tokens(self._model[0].processor, most)
        return {"visual_tokens": most} if lowered else {}

    def _fingerprint(self) -> str:
        """Over the files and everything here that vectors depend on."""
        layout = self._layout
        processor = self._model[0].processor
        size = getattr(getattr(processor, "image_processor", None), "size", None)
        parts = {
            "recipe": _RECIPE,
            "role": layout.role,
            "route": layout.route,
            "positions": self._restored,
            "files": checkpoint_digest(layout.folder),
            "base": checkpoint_digest(layout.base) if layout.base else "",
            "precision": self._device.precision,
            "images": image_backend(processor),
            "size": dict(size) if size is not None else {},
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

    def _patches(self, image: Image) -> tuple[list[bool], tuple[int, int]]:
        """Which of a picture's vectors are patches, and how many rows and columns of them there are."""
        features = self._features({"image": image.convert("RGB")}, "document")
        processor = self._model[0].processor
        token = processor.tokenizer.convert_tokens_to_ids(processor.image_token)
        kept = features["attention_mask"][0].bool()
        ids = (features["input_ids"][0][kept] == token).tolist()
        grid = features.get("image_grid_thw")
        if grid is None:
            side = round(sum(ids) ** 0.5)
            return ids, (side, side)
        merge = processor.image_processor.merge_size
        return ids, (int(grid[0][1]) // merge, int(grid[0][2]) // merge)

    def _tokens(self, query: str) -> tuple[tuple[str, ...], int, int]:
        """The tokens of the query's own words, and where they begin and end among its vectors."""
        bare, asked = (self._token_ids(text) for text in ("", harmless(query)))
        begin = _common(bare, asked)
        end = len(asked) - _common(bare[begin:][::-1], asked[begin:][::-1])
        tokenizer = self._model[0].processor.tokenizer
        return tuple(tokenizer.decode([token]) for token in asked[begin:end]), begin, end

    def _token_ids(self, text: str) -> list[int]:
        features = self._features({"text": text}, "query")
        return features["input_ids"][0][features["attention_mask"][0].bool()].tolist()

    def _features(self, made: Mapping[str, Any], task: str) -> dict[str, Any]:
        prompt = self._model.prompts.get(task)
        return self._model.preprocess([dict(made)], prompt=prompt, task=task)


def _load(layout: ModelKindReport, device: str, dtype: str) -> Any:  # noqa: ANN401
    """The model, from local files alone and without running code that comes with it."""
    torch, library_ = library("torch"), library("sentence_transformers")
    kind = library_.MultiVectorEncoder if layout.role is EmbedderRole.MULTI else library_.SentenceTransformer
    with loading():
        try:
            return kind(
                str(layout.folder),
                device=device,
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"dtype": getattr(torch, dtype), "use_safetensors": True},
                processor_kwargs=PROCESSOR_SETTINGS if layout.sees else {},
            )
        except (OSError, ValueError, RuntimeError, ImportError, KeyError, TypeError) as error:
            raise EmbedError(f"{layout.folder} cannot be loaded: {_first_line(error)}") from error


def _array(vectors: Any) -> NDArray[np.float32]:  # noqa: ANN401 - a tensor, or already an array
    return np.asarray(vectors.float().cpu() if hasattr(vectors, "cpu") else vectors, dtype=np.float32)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:300] or type(error).__name__


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """How many numbers two sequences have in common from their beginning."""
    for place, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return place
    return min(len(left), len(right))
