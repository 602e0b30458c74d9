"""Loading of processors of transformers, with or without torchvision, and with one way to resize."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, cast

from vrag.embed.device import library
from vrag.embed.models.load_report import check_reports, collect_reports
from vrag.embed.options import EmbedOptions
from vrag.errors import EmbedError

if TYPE_CHECKING:
    from collections.abc import Generator

    from PIL.Image import Image

__all__ = ["PROCESSOR_SETTINGS", "image_backend", "limit_visual_tokens", "loading", "rgb", "set_pixels"]

PROCESSOR_SETTINGS = {"backend": "pil"}
"""How processors are loaded. Resized by PIL and by torchvision, the same picture gives vectors that differ
by about 1e-3; one of the two is fixed so that an index does not depend on what else is installed."""

_PARTS = ["image_processor", "tokenizer"]
_CLASSES = ("Qwen2VLProcessor", "Qwen2_5_VLProcessor", "Qwen3VLProcessor")
_one_at_a_time = threading.RLock()


def set_pixels(processor: Any, options: EmbedOptions) -> None:  # noqa: ANN401
    """Has pictures resized to within the pixel limits that are asked for; the model's own stand else.

    Raises:
        EmbedError: If the model takes pictures of one size only.
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
        raise EmbedError(
            "This model sets the size of pictures itself.", "Leave min_pixels and max_pixels out."
        )
    size |= changed
    if size["shortest_edge"] > size["longest_edge"]:
        least, most = size["shortest_edge"], size["longest_edge"]
        raise EmbedError(f"Pictures cannot have between {least} and {most} pixels.", "Set both limits.")
    part.size = type(part.size)(**size)


def limit_visual_tokens(processor: Any, most: int) -> bool:  # noqa: ANN401
    """Have pictures reduced to so many visual tokens at most, where the processor would allow more.

    Args:
        processor: Any; only those of Qwen-VL models, whose pictures have as many tokens as they have pixels
            to a token, are changed.
        most: Visual tokens of a picture.

    Returns:
        Whether the limit of the processor was lowered.
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
    """What resizes pictures: `pil`, `torchvision`, or `none` where nothing looks at pictures."""
    part = getattr(processor, "image_processor", None)
    if part is None:
        return "none"
    pil = library("transformers.image_processing_backends").PilBackend
    return "pil" if isinstance(part, pil) else "torchvision"


def rgb(image: Image) -> Image:
    """The picture in three colours: itself where it is so, since Pillow would make a copy."""
    return image if image.mode == "RGB" else image.convert("RGB")


@contextlib.contextmanager
def loading() -> Generator[None, None, None]:
    """A model is loaded here: quietly, with or without torchvision, and never with invented weights.

    Qwen-VL processors contain one for videos, which needs torchvision and has no backend of Pillow, so that
    with `PROCESSOR_SETTINGS` it loads nowhere. They are put together without it for the time of loading, and
    know afterwards that they have none. Such a model takes no videos, and must not be saved again. May be
    entered within itself.

    Raises:
        EmbedError: If a checkpoint lacks weights, which transformers would fill with random numbers, or an
            adapter has weights that do not fit its base model.
    """
    with _one_at_a_time, contextlib.ExitStack() as undo:
        bars = library("transformers.utils.logging")
        if bars.is_progress_bar_enabled():
            bars.disable_progress_bar()
            undo.callback(bars.enable_progress_bar)
        reports = undo.enter_context(collect_reports())
        undo.enter_context(_without_video())
        try:
            yield
        except (EmbedError, RuntimeError, ValueError):
            check_reports(reports)  # names the tensors, where transformers refers to its log
            raise
        check_reports(reports)


@contextlib.contextmanager
def _without_video() -> Generator[None, None, None]:
    """Qwen-VL processors are made of a tokenizer and a processor of images alone."""
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
    """The class of a processor that has no part for videos and says so when asked later."""
    if "get_attributes" in vars(kind) and kind.__name__ not in _CLASSES:
        return kind
    return type(kind.__name__, (kind,), {"get_attributes": classmethod(lambda _: list(_PARTS))})
