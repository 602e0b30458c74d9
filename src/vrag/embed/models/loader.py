"""Loading of models and processors of transformers: complete weights, one way to resize images, positions.

transformers logs a table of missing and unexpected tensors at every load, and goes on with random numbers for
the missing ones. Here harmless reports are dropped, and all others become errors.

Some embedding models were trained with positions and attention that transformers 5 no longer has: they are
restored here.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from vrag.embed.device import library
from vrag.embed.options import EmbedOptions
from vrag.errors import EmbedError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from PIL.Image import Image

PROCESSOR_SETTINGS = {"backend": "pil"}
"""Arguments of processors. Resized by PIL and by torchvision, the same image gives vectors that differ
by about 1e-3; one of the two is fixed so that an index does not depend on what else is installed."""
PROJECTION = "custom_text_proj"
"""The projection of colpali-engine's models, which sentence-transformers keeps in a module `Dense`: not part
of the network that transformers loads, so that base and adapter both hold weights for it without a place."""

_NETWORKS, _ADAPTERS = "transformers.modeling_utils", "transformers.integrations.peft"
_REPORT = "log_state_dict_report"
_MAX_NAMES = 3
_PARTS = ["image_processor", "tokenizer"]
_CLASSES = ("Qwen2VLProcessor", "Qwen2_5_VLProcessor", "Qwen3VLProcessor")
_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The tensors of one checkpoint that do not match the network they were loaded into."""

    source: str
    """Folder of the checkpoint."""
    adapter: bool
    """True if the checkpoint is an adapter over another model."""
    missing: tuple[str, ...]
    """Names of the network that the checkpoint has no tensor for."""
    unexpected: tuple[str, ...]
    """Names of the checkpoint that the network has no place for."""
    mismatched: tuple[str, ...]
    """Names whose shapes differ, with both shapes."""

    @classmethod
    def of(cls, source: object, info: Any, *, adapter: bool) -> LoadReport:  # noqa: ANN401
        """Read a `LoadStateDictInfo` of transformers."""
        shapes = (
            f"{name} {tuple(on_disk)}, not {tuple(expected)}"
            for name, on_disk, expected in info.mismatched_keys
        )
        missing, unexpected = tuple(sorted(info.missing_keys)), tuple(sorted(info.unexpected_keys))
        return cls(str(source), adapter, missing, unexpected, tuple(sorted(shapes)))

    def check(self) -> None:
        """Refuse weights that would be left random or unused.

        Names without a place are harmless in a whole model (a head that is not asked for). In an adapter
        they are updates that would silently not be applied; only those of `PROJECTION` are harmless. The
        `EmbedError` has some of the names.
        """
        mismatched = _count("of another shape", self.mismatched)
        if self.adapter:
            unused = [name for name in self.unexpected if PROJECTION not in name]
            faults = [
                *_count("without a place in it", unused),
                *_count("missing in the adapter", self.missing),
            ]
            faults += mismatched
            if faults:
                raise EmbedError(
                    f"The adapter {self.source} does not fit the network of its base model: "
                    f"{'; '.join(faults)}. Vectors would be those of the base model.",
                    "Check base_model_name_or_path in its adapter_config.json, upgrade transformers and peft "
                    "(names of tensors change between versions), or use the merged model.",
                )
        elif self.missing or self.mismatched:
            faults = _count("random", self.missing) + mismatched
            raise EmbedError(
                f"The checkpoint {self.source} lacks weights, which would be random: {'; '.join(faults)}",
                "Download it again.",
            )


def _count(fault: str, names: Sequence[str]) -> list[str]:
    """Describe how many tensors have a fault, with some of their names; nothing when there are none."""
    if not names:
        return []
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return [f"{len(names)} {fault} ({', '.join(names[:_MAX_NAMES])}{more})"]


@contextlib.contextmanager
def loading() -> Generator[None, None, None]:
    """Make models load quietly, with or without torchvision, and never with invented weights.

    Qwen-VL processors contain one for videos, which needs torchvision and has no backend of Pillow, so that
    with `PROCESSOR_SETTINGS` it loads nowhere. They are put together without it for the time of loading, and
    know afterwards that they have none. Such a model takes no videos, and must not be saved again. May be
    entered within itself. Raises `EmbedError` if a checkpoint lacks weights, which transformers would fill
    with random numbers, or an adapter has weights that do not fit its base model.
    """
    with _lock, contextlib.ExitStack() as undo:
        bars = library("transformers.utils.logging")
        if bars.is_progress_bar_enabled():
            bars.disable_progress_bar()
            undo.callback(bars.enable_progress_bar)
        reports = undo.enter_context(collect_reports())
        undo.enter_context(_without_video())
        try:
            yield
        except (EmbedError, RuntimeError, ValueError):
            for report in reports:  # names the tensors, where transformers refers to its log
                report.check()
            raise
        for report in reports:
            report.check()


@contextlib.contextmanager
def collect_reports() -> Generator[list[LoadReport]]:
    """Collect the reports of all models loaded inside the block, none of which reaches the log.

    The function of transformers that logs them is replaced inside the block. Not thread-safe. Raises
    `EmbedError` if transformers has no such function: weights could then be missing unnoticed.
    """
    reports: list[LoadReport] = []
    with contextlib.ExitStack() as undo:
        for name in (_NETWORKS, _ADAPTERS):
            module = library(name)
            original = getattr(module, _REPORT, None)
            if original is None:
                raise EmbedError(
                    "This version of transformers does not report which weights a model lacks.",
                    "Install a tested one: pip install 'transformers>=5.20,<5.24'",
                )
            setattr(module, _REPORT, _collector(original, reports, adapter=name == _ADAPTERS))
            undo.callback(setattr, module, _REPORT, original)
            log = logging.getLogger(name)
            log.addFilter(_is_error)
            undo.callback(log.removeFilter, _is_error)
        yield reports


def _collector(
    original: Callable[..., None], reports: list[LoadReport], *, adapter: bool
) -> Callable[..., None]:
    muted = logging.getLogger(f"{__name__}.muted")
    muted.disabled = True

    def collect(*, loading_info: Any, pretrained_model_name_or_path: object, **rest: Any) -> None:  # noqa: ANN401
        reports.append(LoadReport.of(pretrained_model_name_or_path, loading_info, adapter=adapter))
        source = {"pretrained_model_name_or_path": pretrained_model_name_or_path}
        original(loading_info=loading_info, **source, **rest | {"logger": muted})  # raises what it must

    return collect


def _is_error(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


@contextlib.contextmanager
def _without_video() -> Generator[None, None, None]:
    """Make Qwen-VL processors of a tokenizer and an image processor alone."""
    mixin = library("transformers.processing_utils").ProcessorMixin
    classes = tuple(getattr(library("transformers"), name) for name in _CLASSES)
    original = mixin.__init__
    if original.__name__ == _without_video.__name__:  # entered within itself
        yield
        return

    def init(self: Any, *parts: Any, **settings: Any) -> None:  # noqa: ANN401
        if isinstance(self, classes):
            settings.pop("video_processor", None)
            original(self, *parts[:2], **settings)
            self.__class__ = _image_only(cast("type[Any]", type(self)))
        else:
            original(self, *parts, **settings)

    for kind in classes:
        kind.get_attributes = classmethod(lambda _: list(_PARTS))
    init.__name__ = _without_video.__name__
    mixin.__init__ = init
    try:
        yield
    finally:
        mixin.__init__ = original
        for kind in classes:
            del kind.get_attributes


def _image_only(kind: type[Any]) -> type[Any]:
    """Return the class of a processor that has no part for videos and says so when asked later."""
    if "get_attributes" in vars(kind) and kind.__name__ not in _CLASSES:
        return kind
    return type(kind.__name__, (kind,), {"get_attributes": classmethod(lambda _: list(_PARTS))})


def set_pixels(processor: Any, options: EmbedOptions) -> None:  # noqa: ANN401
    """Apply the pixel limits of the options to the processor of images; else the model's own stand.

    Raises `EmbedError` if the model takes images of one size only.
    """
    asked = {"shortest_edge": options.min_pixels, "longest_edge": options.max_pixels}
    changed = {name: bound for name, bound in asked.items() if bound is not None}
    if not changed:
        return
    part = getattr(processor, "image_processor", None)
    size: dict[str, Any] = {
        name: bound for name, bound in dict(getattr(part, "size", None) or {}).items() if bound
    }
    if part is None or size.keys() != asked.keys() or not hasattr(part, "merge_size"):
        raise EmbedError("This model sets the size of images itself.", "Unset min_pixels and max_pixels.")
    size |= changed
    if size["shortest_edge"] > size["longest_edge"]:
        least, most = size["shortest_edge"], size["longest_edge"]
        raise EmbedError(f"Images cannot have between {least} and {most} pixels.", "Set both limits.")
    part.size = type(part.size)(**size)


def limit_visual_tokens(processor: Any, most: int) -> bool:  # noqa: ANN401
    """Limit the visual tokens of images to `most`; return whether the processor would allow more.

    Only processors of Qwen-VL models are changed, whose images have a fixed number of pixels to a token.
    """
    part = getattr(processor, "image_processor", None)
    sides = (getattr(part, "patch_size", None), getattr(part, "merge_size", None))
    size = dict(getattr(part, "size", None) or {})
    if not all(isinstance(side, int) for side in sides) or not size.get("longest_edge"):
        return False
    pixels = most * (cast("int", sides[0]) * cast("int", sides[1])) ** 2
    if size["longest_edge"] <= pixels:
        return False
    set_pixels(processor, EmbedOptions(max_pixels=pixels))
    return True


def image_backend(processor: Any) -> str:  # noqa: ANN401
    """Return the library that resizes images: `pil`, `torchvision`, or `none` without an image processor."""
    part = getattr(processor, "image_processor", None)
    if part is None:
        return "none"
    pil = library("transformers.image_processing_backends").PilBackend
    return "pil" if isinstance(part, pil) else "torchvision"


def rgb(image: Image) -> Image:
    """Convert an image to RGB; return it as it is where it is RGB, since Pillow would make a copy."""
    return image if image.mode == "RGB" else image.convert("RGB")


def restore_positions(model: Any) -> bool:  # noqa: ANN401 - a network of transformers
    """Restore the positions that the weights of a `ColQwen2ForRetrieval` were trained with.

    Its `forward` (transformers 5.23) hands the language model embeddings alone, from which the
    positions of patches in time, height and width cannot be told, so that they fall back to one
    running number; vectors of pictures then stand at a cosine of .92 to .97 to the right ones. Here the
    positions are computed from the ids and the grid, as the backbone does by itself when it is called
    directly (Wang et al. 2024, "Qwen2-VL", M-RoPE), which makes the vectors those of colpali-engine.
    Queries, which are text alone, do not change. Returns whether the network had this fault; others are not
    changed.
    """
    backbone: Any = getattr(model, "vlm", None)
    if type(model).__name__ != "ColQwen2ForRetrieval" or not hasattr(backbone, "get_rope_index"):
        return False
    forward = model.forward
    image_token = model.config.vlm_config.image_token_id

    @functools.wraps(forward)
    def positioned(*arguments: Any, **inputs: Any) -> Any:  # noqa: ANN401
        grid = inputs.get("image_grid_thw")
        if grid is not None and inputs.get("position_ids") is None:
            ids = inputs["input_ids"]
            inputs["position_ids"], _ = backbone.get_rope_index(
                ids,
                (ids == image_token).int(),
                image_grid_thw=grid,
                attention_mask=inputs.get("attention_mask"),
            )
        return forward(*arguments, **inputs)

    model.forward = positioned
    return True


def qwen2_5_positions(config: Any, inputs: dict[str, Any]) -> Any:  # noqa: ANN401 - tensors
    """Compute positions in time, height and width, (3, sequences, tokens), as in Qwen2.5-VL's training.

    Tokens after an image or video begin behind the largest position in it (Bai et al. 2025, "Qwen2.5-VL",
    after Wang et al. 2024, "Qwen2-VL"). transformers 5.23 begins behind the height and width of a video
    alone, so that the text after a long one gets positions of its frames; releases up to 4.57 were right.

    Inputs are `attention_mask` (padding on the right) and `mm_token_type_ids` (0 text, 1 image, 2 video),
    both (sequences, tokens); the grids of images and videos in patches; `second_per_grid_ts`.
    """
    torch, vision = library("torch"), config.vision_config
    kinds = inputs["mm_token_type_ids"]
    grids = {1: iter(inputs.get("image_grid_thw", ())), 2: iter(inputs.get("video_grid_thw", ()))}
    seconds = iter(inputs.get("second_per_grid_ts", ()))
    positions = torch.zeros(3, *kinds.shape, dtype=torch.long, device=kinds.device)
    lengths = map(sum, inputs["attention_mask"].tolist())
    for sequence, (length, kinds_of_tokens) in enumerate(zip(lengths, kinds.tolist(), strict=True)):
        parts: list[Any] = []
        start = 0
        for kind, tokens in itertools.groupby(kinds_of_tokens[:length]):
            if kind == 0:
                part = torch.arange(len(list(tokens))).expand(3, -1)
            else:
                time, height, width = next(grids[kind]).tolist()
                rows, columns = height // vision.spatial_merge_size, width // vision.spatial_merge_size
                step = float(next(seconds)) * vision.tokens_per_second if kind == 2 else 0.0
                axes = (torch.arange(time) * step).long(), torch.arange(rows), torch.arange(columns)
                part = torch.stack(torch.meshgrid(*axes, indexing="ij")).reshape(3, -1)
            parts.append(part + start)
            start += int(part.max()) + 1
        positions[:, sequence, :length] = torch.cat(parts, dim=1)
    return positions


def restore_attention(model: Any) -> bool:  # noqa: ANN401 - a network of transformers
    """Restore the attention of PaliGemma over its whole input that ColPali was trained with.

    A prompt is a prefix of PaliGemma: each token attends to all others (Beyer et al. 2024, "PaliGemma",
    section on prefix-LM masking). transformers 5.23 does so for an input alone; once a batch has padding
    and no `token_type_ids`, which processors leave out for texts, it masks causally, and vectors of the same
    query then stand at cosines down to -.6 to each other. Here an input without `token_type_ids` is
    one prefix, whatever else is in the batch, as in transformers 4. Padding is masked as before. Returns
    whether the network has a part that is a `PaliGemmaModel`; other parts are not changed.
    """
    parts = [part for part in model.modules() if type(part).__name__ == "PaliGemmaModel"]
    for part in parts:
        part.forward = _as_prefix(part.forward)
    return bool(parts)


def _as_prefix(forward: Any) -> Any:  # noqa: ANN401
    @functools.wraps(forward)
    def attending(*arguments: Any, **inputs: Any) -> Any:  # noqa: ANN401
        ids = inputs.get("input_ids")
        if ids is not None and inputs.get("token_type_ids") is None:
            inputs["token_type_ids"] = ids.new_zeros(ids.shape)
        return forward(*arguments, **inputs)

    return attending
