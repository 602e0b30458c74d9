"""The base class of GVE and Qwen3-VL-Embedding: Qwen-VL networks whose last state is the vector."""

from __future__ import annotations

import hashlib
import json
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from vrag.embed.device import Batches, is_out_of_memory, library, open_device, refusal
from vrag.embed.embedder import EmbedContent, Modality, VectorKind, escape_special_tokens
from vrag.embed.model_files import checkpoint_digest, find_checkpoint, read_settings
from vrag.embed.models.loader import loading, rgb
from vrag.embed.options import EmbedOptions
from vrag.errors import CorpusError, EmbedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from PIL.Image import Image

    from vrag.corpus.formats.video import VideoFrame

VIDEO_MARK = "<|video_pad|>"
_IMAGE = "<|image_pad|>"
_KEYS = {
    r"^model\.visual\.": "visual.",
    r"^model\.language_model\.": "language_model.",
    r"^model\.(?!visual\.|language_model\.)": "language_model.",
}
"""Names of weights on disk, as regular expressions → names in the network without its head.

transformers wrote `visual.*` and `model.*` up to 4.51, `model.visual.*` and `model.language_model.*` in
memory since then, and `visual.*` and `language_model.*` for the network alone.
"""
_HEAD = "lm_head."
"""Weights that predict words, which are not needed."""

VisualInputs: TypeAlias = "defaultdict[str, list[Any]]"
"""Inputs of a batch that belong to images and videos: lists of tensors to be joined."""
PixelLimits = tuple[int, int]
"""Least and greatest number of pixels of an image."""


class QwenVLEmbedder(ABC):
    """An `Embedder` over a Qwen-VL network: one vector of length 1, the last layer's state at the last token.

    Sequences are padded on the right, so that a vector does not depend on its batch. A subclass builds
    prompts and samples videos.

    The model is a folder, or `ORGANISATION/NAME[@REVISION]` of the hub. Raises `EmbedError` if it cannot be
    found, is another network, or lacks weights, and `MissingExtra` if the libraries are not installed.
    """

    kind = VectorKind.SINGLE
    modalities = frozenset(Modality)

    title: ClassVar[str]
    """The model, for messages."""
    model_type: ClassVar[str]
    """`model_type` in `config.json`."""
    network: ClassVar[str]
    """A class of transformers."""
    image_pixels: ClassVar[PixelLimits]
    frame_pixels: ClassVar[PixelLimits]
    max_tokens: ClassVar[int]
    """Maximum of the tokens of a sequence, which is cut off there as by the reference implementation."""
    frames: ClassVar[int]
    """Maximum of the frames of a video, unless the options have one."""
    closing: ClassVar[str] = ""
    """The token that follows every sequence."""

    def __init__(self, model: str, options: EmbedOptions, *, name: str) -> None:
        self.name = name
        self._device = open_device(options)
        folder = find_checkpoint(model)
        found = read_settings(folder, "config.json").get("model_type", "nothing known")
        if found != self.model_type:
            raise EmbedError(
                f"{folder} is not {self.title}: it holds {found}, and {self.title} is a {self.model_type}.",
                "Try sentence:PATH.",
            )
        self._model = _load_network(folder, self.network, self._device.name, self._device.dtype)
        self._tokenizer = self._load_tokenizer(folder)
        self._images = _image_processor(folder, options, self.image_pixels)
        self._frames = _image_processor(folder, options, self._limit_frames(options))
        self._most_frames = options.frames or self.frames
        self.dimension = int(self._model.config.get_text_config().hidden_size)
        parts = self._identity() | {"files": checkpoint_digest(folder), "precision": self._device.precision}
        content = json.dumps(parts, sort_keys=True, default=str).encode()
        self.fingerprint = hashlib.sha256(content).hexdigest()
        self.settings = options.settings(self._device.dtype)
        self._lock = threading.Lock()
        self._batches, self._query_batches = Batches(options.batch), Batches(options.batch)

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        """Embed contents to vectors (dimension,); see `Embedder.embed_items`."""
        if not all(content.modalities for content in contents):
            raise EmbedError(f"{self.name} cannot embed an empty content.")
        with self._lock:
            return self._batches.run(contents, lambda batch: self._encode(batch, self._word_item))

    def embed_queries(self, queries: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """Embed queries to vectors (dimension,); see `Embedder.embed_queries`."""
        contents = [EmbedContent(text=query) for query in queries]
        with self._lock:
            return self._query_batches.run(contents, lambda batch: self._encode(batch, self._word_query))

    @abstractmethod
    def _word_item(self, parts: list[dict[str, str]]) -> str:
        """Build the prompt of an item from the parts of a chat message; `{"type": "image"}` is an image."""

    @abstractmethod
    def _sample(self, path: Path) -> tuple[list[VideoFrame], float]:
        """Sample frames of a video; return them and their number per second of the video."""

    @abstractmethod
    def _place_video(self, prompt: str, frames: list[VideoFrame], grid: tuple[int, int]) -> str:
        """Insert the tokens of a video into a prompt with one video token.

        `grid` is the number of steps in time and the number of tokens of each.
        """

    def _describe_video(self, rate: float) -> dict[str, Any]:  # noqa: ARG002
        """Return further inputs of the network for a video."""
        return {}

    @abstractmethod
    def _identity(self) -> dict[str, object]:
        """Return everything but files and precision that vectors depend on."""

    def _positions(self, inputs: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Return the positions of tokens, where those of transformers are not the model's."""
        return {}

    def _limit_frames(self, options: EmbedOptions) -> PixelLimits:  # noqa: ARG002
        """Return the pixel limits of a frame, unless the options have others."""
        return self.frame_pixels

    def _word_query(self, parts: list[dict[str, str]]) -> str:
        return self._word_item(parts)

    def _load_tokenizer(self, folder: Path) -> Any:  # noqa: ANN401
        """Load the tokenizer with its chat template, padding on the right."""
        with loading():
            try:
                tokenizer = library("transformers").AutoTokenizer.from_pretrained(
                    folder, local_files_only=True, trust_remote_code=False
                )
            except (OSError, ValueError, RuntimeError) as error:
                raise EmbedError(f"{folder} cannot be loaded: {error}") from error
        tokenizer.padding_side = "right"
        if not tokenizer.chat_template:
            tokenizer.chat_template = read_settings(folder, "chat_template.json").get("chat_template")
        if not tokenizer.chat_template:
            raise EmbedError(f"{folder} has no chat template.", "Download the model again.")
        return tokenizer

    def _encode(
        self, contents: Sequence[EmbedContent], word: Callable[[list[dict[str, str]]], str]
    ) -> list[NDArray[np.float32]]:
        """Embed one batch, padded on the right."""
        torch = library("torch")
        try:
            with torch.inference_mode():
                inputs, lengths = self._inputs(contents, word)
                states = self._model(**inputs, use_cache=False).last_hidden_state
                last = states[torch.arange(len(lengths)), torch.tensor(lengths) - 1].float()
                unit = torch.nn.functional.normalize(last, dim=-1).cpu()
        except (ValueError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise
            raise refusal(self.name, error) from error
        return list(np.asarray(unit, dtype=np.float32))

    def _inputs(
        self, contents: Sequence[EmbedContent], word: Callable[[list[dict[str, str]]], str]
    ) -> tuple[dict[str, Any], list[int]]:
        """Return the inputs of the network, and the length of each sequence in tokens."""
        torch = library("torch")
        visual: VisualInputs = defaultdict(list)
        prompts = [self._prompt(content, word, visual) for content in contents]
        sequences: list[list[int]] = self._tokenizer(prompts, truncation=True, max_length=self.max_tokens)[
            "input_ids"
        ]
        if self.closing:
            closing = self._tokenizer.convert_tokens_to_ids(self.closing)
            sequences = [[*ids, closing] for ids in sequences]
        batch = self._tokenizer.pad({"input_ids": sequences}, return_tensors="pt")
        ids, mask = batch["input_ids"], batch["attention_mask"]
        config = self._model.config
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        inputs |= {name: torch.cat(parts) for name, parts in visual.items()}
        inputs["mm_token_type_ids"] = (ids == config.image_token_id) + 2 * (ids == config.video_token_id)
        inputs |= self._positions(inputs)
        on_device = {name: part.to(self._device.name) for name, part in inputs.items()}
        return on_device, [len(sequence) for sequence in sequences]

    def _prompt(
        self, content: EmbedContent, word: Callable[[list[dict[str, str]]], str], inputs: VisualInputs
    ) -> str:
        """Build the prompt of one content, and add its patches to those of the batch."""
        parts: list[dict[str, str]] = []
        if content.video is not None:
            parts.append({"type": "video"})
        if content.image is not None:
            parts.append({"type": "image"})
        if content.text:
            parts.append({"type": "text", "text": escape_special_tokens(content.text)})
        prompt = word(parts)
        if content.video is not None:
            prompt = self._add_video(prompt, content.video, inputs)
        if content.image is not None:
            patches, grid = image_patches(self._images, rgb(content.image))
            inputs["pixel_values"].append(patches)
            inputs["image_grid_thw"].append(grid)
            prompt = prompt.replace(_IMAGE, _IMAGE * (len(patches) // self._images.merge_size**2), 1)
        return prompt

    def _add_video(self, prompt: str, path: Path, inputs: VisualInputs) -> str:
        try:
            frames, rate = self._sample(path)
        except (CorpusError, OSError) as error:
            raise EmbedError(f"The video {path.name} cannot be read: {error}") from error
        if not frames:
            raise EmbedError(f"The video {path.name} has no frames.")
        patches, grid = video_patches(self._frames, [frame.image.convert("RGB") for frame in frames])
        parts = {"pixel_values_videos": patches, "video_grid_thw": grid, **self._describe_video(rate)}
        for name, part in parts.items():
            inputs[name].append(part)
        steps = int(grid[0][0])
        tokens = len(patches) // self._frames.merge_size**2 // steps
        return self._place_video(prompt, frames, (steps, tokens))

    def _sizes(self) -> list[dict[str, int]]:
        return [dict(processor.size) for processor in (self._images, self._frames)]


def _load_network(folder: Path, network: str, device: str, dtype: str) -> Any:  # noqa: ANN401
    """Load the network without its language head, with every weight that the files hold.

    The repositories may name a class of their own; code that comes with a model is not run. Raises
    `EmbedError` if weights are missing, or the files hold some that the network has no place for.
    """
    torch, transformers = library("torch"), library("transformers")
    with loading():
        try:
            model, report = getattr(transformers, network).from_pretrained(
                folder,
                dtype=getattr(torch, dtype),
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                key_mapping=_KEYS,
                output_loading_info=True,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise EmbedError(f"{folder} cannot be loaded: {error}") from error
    unknown = sorted(name for name in report["unexpected_keys"] if not name.startswith(_HEAD))
    if unknown:
        raise EmbedError(
            f"{len(unknown)} weights in {folder} have no place in the network, among them {unknown[0]}.",
            "Use the checkpoint as it was published, with adapters merged into it.",
        )
    return model.to(device).eval()


def _image_processor(folder: Path, options: EmbedOptions, limits: PixelLimits) -> Any:  # noqa: ANN401
    """Load the processor that resizes images, by PIL, and cuts them into patches."""
    pil = library("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl").Qwen2VLImageProcessorPil
    processor = pil.from_pretrained(folder, local_files_only=True)
    least, most = limits
    bounds = {"shortest_edge": options.min_pixels or least, "longest_edge": options.max_pixels or most}
    if bounds["shortest_edge"] > bounds["longest_edge"]:
        if options.min_pixels and options.max_pixels is None:
            raise EmbedError(f"Images cannot have between {options.min_pixels} and {most} pixels.")
        bounds["shortest_edge"] = bounds["longest_edge"]
    processor.size = type(processor.size)(**bounds)
    return processor


def image_patches(processor: Any, image: Image) -> tuple[Any, Any]:  # noqa: ANN401
    """Cut an RGB image into patches (patches, numbers); also return its grid (1, 3): time, rows, columns.

    Raises `ValueError` if its proportions are beyond the limits of the model.
    """
    output = processor(images=[image], return_tensors="pt")
    return output["pixel_values"], output["image_grid_thw"]


def video_patches(processor: Any, frames: Sequence[Image]) -> tuple[Any, Any]:  # noqa: ANN401
    """Cut RGB frames of one size into patches; see `image_patches`.

    A patch of a video spans `temporal_patch_size` frames, where a patch of an image repeats one; the last
    frame is repeated to make the count even. Patches are those of the video processor of transformers, but
    for its resizing by torchvision where PIL is used here. Raises `ValueError` if the proportions of the
    frames are beyond the limits of the model.
    """
    torch = library("torch")
    span = int(processor.temporal_patch_size)
    padded = [*frames, *[frames[-1]] * (-len(frames) % span)]
    output = processor(images=padded, return_tensors="pt")
    rows, columns = (int(side) for side in output["image_grid_thw"][0][1:])
    side = int(processor.patch_size)
    patches = output["pixel_values"].reshape(len(padded), rows * columns, -1, span, side, side)[:, :, :, 0]
    steps = patches.reshape(len(padded) // span, span, *patches.shape[1:])
    pixels = steps.movedim(1, 3).reshape(len(padded) // span * rows * columns, -1)
    return pixels, torch.tensor([[len(padded) // span, rows, columns]])
