"""Reading of stored images and clips: in full, or only as large as they will be shown."""

from __future__ import annotations

import io
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from vrag.corpus.formats.pyav import scan
from vrag.corpus.formats.video import VideoFrame, sample_frames
from vrag.errors import FileTooLargeError
from vrag.scratch import scratch_directory

if TYPE_CHECKING:
    from collections.abc import Generator

    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

    from vrag.geometry import Size

SHOWN_FRAME_PIXELS = 1280 * 720
"""Maximum of a frame that is returned: more than any model here is shown of one."""
MAX_FRAME_PIXELS = 36_000_000
"""Maximum of a frame of a clip from a server: those of 8K video have 33 million."""
MAX_FRAMES = 200_000
"""Maximum of a clip from a server: half an hour at 100 a second."""


def rgb(image: ImageFile, least: Size | None = None) -> Image:
    """Decode an opened image; with `least`, as `decode_as_small_as` does.

    Raises `OSError`, `ValueError` or `SyntaxError` if it is damaged.
    """
    if least is not None:
        decode_as_small_as(image, least)
    if image.mode != "RGB":
        return image.convert("RGB")
    image.load()  # where it is RGB already, converting would copy it
    return image


def decode_as_small_as(image: ImageFile, least: Size) -> None:
    """Have a JPEG decoded at 1/2, 1/4 or 1/8, as long as both sides are at least those of `least`.

    libjpeg leaves out what it need not compute: a page takes 3 ms and not 12. Sides are rounded up, the
    whole image is there, and the same file and sizes give the same pixels. Other formats stay in full.
    """
    image.draft(None, least)  # pyright: ignore[reportArgumentType] - Pillow takes None for the mode


def clip_frames(path: Path, start: float, *, fps: float, most: int) -> list[VideoFrame]:
    """Sample frames of a clip that begins at `start` seconds of its video; see `sample_frames`.

    Each has at most `SHOWN_FRAME_PIXELS`, and its `seconds` count from the beginning of the video.
    """
    found = sample_frames(path, fps, most, least=1, pixels=SHOWN_FRAME_PIXELS)
    return [VideoFrame(frame.image, round(start + frame.seconds, 6)) for frame in found]


def check_clip(path: Path) -> float:
    """Return the duration of a clip from a server, in seconds.

    Raises `FileTooLargeError` if decoding it would take too much memory or time, and the errors of `scan`.
    """
    timeline = scan(path)
    width, height = timeline.size
    if width * height > MAX_FRAME_PIXELS:
        raise FileTooLargeError(f"Its frames have {width:,} × {height:,} pixels.")
    if len(timeline.pts) > MAX_FRAMES:
        raise FileTooLargeError(f"It has {len(timeline.pts):,} frames.")
    return timeline.duration


@contextmanager
def on_disk(file: BinaryIO) -> Generator[Path]:
    """Yield a path with the content of a file: its own path, or that of a temporary copy."""
    name: object = getattr(file, "name", None)
    if isinstance(file, io.FileIO | io.BufferedIOBase) and isinstance(name, str):
        yield Path(name)
        return
    with scratch_directory() as folder:
        path = folder / "clip"
        with path.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        yield path
