"""Stored pictures and clips are opened to be looked at: in full, or only as large as they will be shown."""

from __future__ import annotations

import io
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from vrag.corpus.formats.pyav import scan
from vrag.corpus.formats.video import VideoFrame, sample_frames
from vrag.errors import TooLarge

if TYPE_CHECKING:
    from collections.abc import Generator

    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

    from vrag.geometry import Size

__all__ = [
    "MAX_FRAMES",
    "MAX_FRAME_PIXELS",
    "SHOWN_FRAME_PIXELS",
    "check_clip",
    "clip_frames",
    "decode_as_small_as",
    "on_disk",
    "rgb",
]

SHOWN_FRAME_PIXELS = 1280 * 720
"""Of a frame as it is given: more than any model here is shown of one."""
MAX_FRAME_PIXELS = 36_000_000
"""Of a frame of a clip that came from elsewhere: those of 8K video have 33 million."""
MAX_FRAMES = 200_000
"""Of a clip that came from elsewhere: half an hour at 100 a second."""


def rgb(image: ImageFile, least: Size | None = None) -> Image:
    """The picture of an opened file.

    Args:
        image: Opened and not decoded yet.
        least: As `decode_as_small_as` takes it; None for the picture in full.

    Raises:
        OSError: If it is damaged. So do `ValueError` and `SyntaxError` say it.
    """
    if least is not None:
        decode_as_small_as(image, least)
    if image.mode != "RGB":
        return image.convert("RGB")
    image.load()  # where it is RGB already, converting would copy it
    return image


def decode_as_small_as(image: ImageFile, least: Size) -> None:
    """Has a JPEG decoded at 1/2, 1/4 or 1/8, as far as both sides stay at least so long.

    libjpeg leaves out what it need not compute: a page takes 3 ms and not 12. Sides are rounded up, the
    whole picture is there, and the same file and sizes give the same pixels. Other formats stay in full.
    """
    image.draft(None, least)  # pyright: ignore[reportArgumentType] - Pillow takes None for the mode


def clip_frames(path: Path, start: float, *, fps: float, most: int) -> list[VideoFrame]:
    """Frames of a clip, with their times in its video.

    Args:
        path: Of the clip.
        start: Where the clip begins in its video, in seconds.
        fps: Frames per second.
        most: Frames beyond which they are spread evenly from the first to the last.

    Returns:
        In the order in which they are shown, with at most `SHOWN_FRAME_PIXELS` each, and `VideoFrame.seconds`
        counted from the first frame of the video;
        damaged frames are left out.

    Raises:
        MissingExtra: If PyAV is not installed.
        CorpusError: If it is no video, or none of these frames can be decoded.
        ValueError: If `fps` or `most` is not positive.
        OSError: If it cannot be read.
    """
    found = sample_frames(path, fps, most, least=1, pixels=SHOWN_FRAME_PIXELS)
    return [VideoFrame(frame.image, round(start + frame.seconds, 6)) for frame in found]


def check_clip(path: Path) -> float:
    """Refuses a clip from elsewhere that would take too much memory or time to decode.

    Returns:
        How long it lasts, in seconds.

    Raises:
        MissingExtra: If PyAV is not installed.
        TooLarge: If its frames are larger than `MAX_FRAME_PIXELS`, or more than `MAX_FRAMES`.
        CorpusError: If it is no video.
        OSError: If it cannot be read.
    """
    timeline = scan(path)
    width, height = timeline.size
    if width * height > MAX_FRAME_PIXELS:
        raise TooLarge(f"Its frames have {width:,} × {height:,} pixels.")
    if len(timeline.pts) > MAX_FRAMES:
        raise TooLarge(f"It has {len(timeline.pts):,} frames.")
    return timeline.duration


@contextmanager
def on_disk(file: BinaryIO) -> Generator[Path]:
    """Where the content of a file lies on this machine: where it is, or a copy for the time being."""
    name: object = getattr(file, "name", None)
    if isinstance(file, io.FileIO | io.BufferedIOBase) and isinstance(name, str):
        yield Path(name)
        return
    with tempfile.TemporaryDirectory(prefix="vrag-clip-") as folder:
        path = Path(folder) / "clip"
        with path.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        yield path
