"""`sentence:MODEL`: models of sentence-transformers."""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.embed.device import Batches, is_out_of_memory, library, open_device, refusal
from vrag.embed.embedder import EmbedContent, MatchMap, Modality, VectorKind, escape_special_tokens
from vrag.embed.model_files import checkpoint_digest, find_checkpoint, lasting_name
from vrag.embed.model_kind import EmbedderRole, read_layout
from vrag.embed.models import loader
from vrag.embed.options import EmbedOptions
from vrag.errors import EmbedError, first_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from PIL.Image import Image

    from vrag.embed.model_kind import ModelKindReport

_RECIPE = 1
"""Raised whenever this module makes other vectors of the same model."""


class SentenceEmbedder:
    """An `Embedder` for models of sentence-transformers; see `docs/embedders.md`.

    Its kind is read from the checkpoint's files. The many vectors of a page include those of the few words
    around the image, as colpali-engine scores them. Texts are never taken for addresses of images, which
    sentence-transformers would otherwise fetch.

    The model is a folder, or `ORGANISATION/NAME[@REVISION]` of the hub; `name` is `sentence:MODEL` when
    empty. Raises `EmbedError` if the model cannot be found, or would be loaded for a task that it was not
    trained for, and `MissingExtra` if the libraries are not installed.
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
        loader.set_pixels(self._model[0].processor, options)
        self.settings = options.settings(self._device.dtype) | self._limit_visual_tokens()
        self._restored = loader.restore_positions(self._model[0].model)
        loader.restore_attention(self._model[0].model)
        self._has_one_prompt = self._model[0].transformer_task == "retrieval"  # one prompt for all texts
        able = {
            modality for modality in (Modality.TEXT, Modality.IMAGE) if self._model.supports(str(modality))
        }
        if layout.sees and Modality.IMAGE not in able:
            raise EmbedError(
                f"The network of {self.name} takes images; its files have it loaded for text alone.",
                "Use a revision whose sentence_bert_config.json has a modality_config.",
            )
        self.modalities = frozenset(able)
        self.dimension = int(self._model.get_embedding_dimension())
        self.fingerprint = self._fingerprint()
        self._lock = threading.Lock()
        self._items, self._queries = Batches(options.batch), Batches(options.batch)

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        """Embed contents; see `Embedder.embed_items`."""
        inputs = [self._input(content) for content in contents]
        groups: dict[tuple[str, ...], list[int]] = {}
        for place, parts in enumerate(inputs):
            groups.setdefault(tuple(parts), []).append(place)
        vectors: dict[int, NDArray[np.float32]] = {}
        with self._lock:
            for kinds, places in groups.items():  # one kind per batch: mixed ones have other prompts
                as_query = kinds == ("text",) and self._has_one_prompt
                method = self._model.encode_query if as_query else self._model.encode_document
                encoded = self._items.run([inputs[place] for place in places], partial(self._encode, method))
                vectors.update(zip(places, encoded, strict=True))
        return [vectors[place] for place in range(len(contents))]

    def embed_queries(self, queries: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """Embed queries; see `Embedder.embed_queries`."""
        inputs = [{"text": escape_special_tokens(query)} for query in queries]
        with self._lock:
            return self._queries.run(inputs, partial(self._encode, self._model.encode_query))

    def match_map(self, image: Image, query: str) -> MatchMap:
        """Compute the similarity of each token of a query and each patch of an image.

        Tokens that the model adds to every query are left out. They sum up the whole, match anywhere, and
        would hide what the words match (Faysse et al. 2024, "ColPali", section on interpretability). Raises
        `EmbedError` if the model makes one vector of an image, or its patches form no grid.
        """
        if self.kind is VectorKind.SINGLE or Modality.IMAGE not in self.modalities:
            raise EmbedError(
                f"{self.name} makes one vector of an image and cannot show where it matched.",
                "Use a model of many vectors, such as sentence:vidore/colqwen2-v1.0-hf.",
            )
        page = self.embed_items([EmbedContent(image=image)])[0]
        query_vectors = self.embed_queries([query])[0]
        with self._lock:
            ids, grid = self._patches(image)
            tokens, begin, end = self._tokens(query)
        if len(page) == len(ids):
            page = page[np.asarray(ids)]
        rows, columns = grid
        if len(page) != rows * columns:
            raise EmbedError(f"{self.name} pools or splits images: its {len(page)} vectors form no grid.")
        similarity = (query_vectors[begin:end] @ page.T).reshape(-1, rows, columns)
        return MatchMap(tokens, np.ascontiguousarray(similarity, dtype=np.float32))

    def _input(self, content: EmbedContent) -> dict[str, Any]:
        """Convert a content for sentence-transformers; the order of the keys is that of the prompt."""
        missing = content.modalities - self.modalities
        if missing or not content.modalities:
            kinds = ", ".join(sorted(missing)) or "an empty content"
            known = ", ".join(sorted(self.modalities))
            raise EmbedError(f"{self.name} cannot embed {kinds}, only {known}.")
        inputs: dict[str, Any] = {}
        if content.image is not None:
            inputs["image"] = loader.rgb(content.image)
        if content.text:
            inputs["text"] = escape_special_tokens(content.text)
        return inputs

    def _encode(self, encode: Any, inputs: Sequence[dict[str, Any]]) -> list[NDArray[np.float32]]:  # noqa: ANN401
        try:
            encoded = encode(list(inputs), batch_size=len(inputs), show_progress_bar=False)
            vectors = [
                np.asarray(vector.float().cpu() if hasattr(vector, "cpu") else vector, dtype=np.float32)
                for vector in encoded  # tensors, or already arrays
            ]
        except (ValueError, TypeError, KeyError, IndexError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise
            raise refusal(self.name, error) from error
        if self._model.similarity_fn_name != "cosine":
            return vectors
        # In half precision the model's own normalisation leaves lengths off by 1e-3.
        return [np.float32(1 / max(np.linalg.norm(vector), 1e-12)) * vector for vector in vectors]

    def _limit_visual_tokens(self) -> dict[str, int]:
        """Apply the limit of visual tokens; it is a setting of the collection where it has an effect."""
        most = self._options.visual_tokens
        if self.kind is VectorKind.SINGLE or not most or self._options.max_pixels is not None:
            return {}
        lowered = loader.limit_visual_tokens(self._model[0].processor, most)
        return {"visual_tokens": most} if lowered else {}

    def _fingerprint(self) -> str:
        """Hash the files and everything here that vectors depend on."""
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
            "images": loader.image_backend(processor),
            "size": dict(size) if size is not None else {},
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

    def _patches(self, image: Image) -> tuple[list[bool], tuple[int, int]]:
        """Return which of an image's vectors are patches, and the numbers of their rows and columns."""
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
        """Return the tokens of the query's own words, and their begin and end among its vectors."""
        empty, ids = (self._token_ids(text) for text in ("", escape_special_tokens(query)))
        begin = _common_length(empty, ids)
        end = len(ids) - _common_length(empty[begin:][::-1], ids[begin:][::-1])
        tokenizer = self._model[0].processor.tokenizer
        return tuple(tokenizer.decode([token]) for token in ids[begin:end]), begin, end

    def _token_ids(self, text: str) -> list[int]:
        features = self._features({"text": text}, "query")
        return features["input_ids"][0][features["attention_mask"][0].bool()].tolist()

    def _features(self, inputs: Mapping[str, Any], task: str) -> dict[str, Any]:
        prompt = self._model.prompts.get(task)
        return self._model.preprocess([dict(inputs)], prompt=prompt, task=task)


def _load(layout: ModelKindReport, device: str, dtype: str) -> Any:  # noqa: ANN401
    """Load the model, from local files alone and without running code that comes with it."""
    torch, package = library("torch"), library("sentence_transformers")
    kind = package.MultiVectorEncoder if layout.role is EmbedderRole.MULTI else package.SentenceTransformer
    with loader.loading():
        try:
            return kind(
                str(layout.folder),
                device=device,
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"dtype": getattr(torch, dtype), "use_safetensors": True},
                processor_kwargs=loader.PROCESSOR_SETTINGS if layout.sees else {},
            )
        except (OSError, ValueError, RuntimeError, ImportError, KeyError, TypeError) as error:
            raise EmbedError(f"{layout.folder} cannot be loaded: {first_line(error)}.") from error


def _common_length(left: Sequence[int], right: Sequence[int]) -> int:
    pairs = zip(left, right, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
