"""Frames of a video become the patches that Qwen-VL networks look at, without torchvision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vrag.embed.device import library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL.Image import Image

__all__ = ["image_patches", "rate", "video_patches"]


def image_patches(processor: Any, image: Image) -> tuple[Any, Any]:  # noqa: ANN401
    """The patches of one picture, (patches, numbers), and its grid, (1, 3): time, rows, columns.

    Args:
        processor: The image processor of a Qwen-VL model.
        image: RGB.

    Raises:
        ValueError: If its proportions are beyond what the model takes.
    """
    made = processor(images=[image], return_tensors="pt")
    return made["pixel_values"], made["image_grid_thw"]


def video_patches(processor: Any, frames: Sequence[Image]) -> tuple[Any, Any]:  # noqa: ANN401
    """The patches of a video, (patches, numbers), and its grid, (1, 3): time, rows, columns.

    A patch of a video spans `temporal_patch_size` frames, where a patch of a picture repeats one; the
    last frame is repeated to make the count even. Patches are those of the video processor of
    transformers, but for its resizing by torchvision where PIL is used here.

    Args:
        processor: The image processor of the model.
        frames: RGB, at least one, all of one size.

    Raises:
        ValueError: If the proportions of the frames are beyond what the model takes.
    """
    torch = library("torch")
    span = int(processor.temporal_patch_size)
    padded = [*frames, *[frames[-1]] * (-len(frames) % span)]
    made = processor(images=padded, return_tensors="pt")
    rows, columns = (int(side) for side in made["image_grid_thw"][0][1:])
    side = int(processor.patch_size)
    patches = made["pixel_values"].reshape(len(padded), rows * columns, -1, span, side, side)[:, :, :, 0]
    steps = patches.reshape(len(padded) // span, span, *patches.shape[1:])
    pixels = steps.movedim(1, 3).reshape(len(padded) // span * rows * columns, -1)
    return pixels, torch.tensor([[len(padded) // span, rows, columns]])


def rate(seconds: Sequence[float], asked: float) -> float:
    """Frames per second of a video of which these moments are shown; `asked` where there is one only.

    >>> rate([0.0, 2.0, 4.0], 1.0)
    0.5
    """
    if len(seconds) < 2 or seconds[-1] <= seconds[0]:
        return asked
    return (len(seconds) - 1) / (seconds[-1] - seconds[0])
