"""Video files → clip items: a stretch of the video, one of its frames as a picture, and its subtitles.

Clips begin at key frames, the first at or after each multiple of `clip_seconds`, and last longer where the
video has none; together they show every frame once. They are copied, not coded anew, where frames allow it:
a key frame that others reach across (an open group of pictures, the rule in HEVC and in old AVI files) cannot
end one file and begin the next. Where no other is within `clip_seconds`, the clips on both its sides
are coded anew.
"""

from __future__ import annotations

import os
import pickle
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from vrag.corpus.formats.clip_cut import code_stretch, copy_stretch
from vrag.corpus.formats.image import MIN_SIDE
from vrag.corpus.formats.pyav import Timeline, decode, demuxer, frame_at, scan
from vrag.corpus.image_store import store_jpeg
from vrag.corpus.ocr import read_picture
from vrag.corpus.sniff import describe
from vrag.errors import CollectionError, CorpusError, MissingExtra, TooLarge, UnsupportedFormat
from vrag.geometry import MAX_ASPECT, Size
from vrag.types import Clip, Item, ItemKind, TextSource, item_id

if TYPE_CHECKING:
    from pathlib import Path

    from PIL.Image import Image

    from vrag.corpus.converter import ConversionContext, SourceFile
    from vrag.corpus.options import CorpusOptions
    from vrag.types import Word

__all__ = [
    "CONTAINERS",
    "SUFFIXES",
    "VideoFile",
    "VideoFrame",
    "cut_points",
    "sample_evenly",
    "sample_frames",
]

SUFFIXES = (".mp4", ".mkv", ".mov", ".webm", ".m4v", ".avi")
CONTAINERS = {".mp4": "mp4", ".mov": "mov", ".mkv": "matroska", ".webm": "webm"}
"""Suffix of a stored clip → FFmpeg's name of its container."""
JPEG_QUALITY = 88
MAX_SECONDS = 200 * 3600.0
"""No recording is longer; times beyond are damage."""
BYTES_PER_SECOND = 20e6
"""How fast a slow disk reads."""
CANDIDATES = 5
"""Key frames of a clip among which its picture is chosen."""
FLAT = 24
"""Difference between bright and dark (the 2nd and 98th percentile of grey) up to which a frame is fades,
black or a blank screen, and another is taken."""


@dataclass(frozen=True, slots=True, eq=False)
class VideoFrame:
    """A frame of a video."""

    image: Image
    """RGB, upright."""
    seconds: float
    """When it is shown, from the first frame of the video."""


@dataclass(frozen=True, slots=True)
class ClipPlan:
    """How a video is cut: what the first worker that opens it finds out and the others need."""

    timeline: Timeline
    cuts: tuple[int, ...]
    """Where clips begin, in ticks."""
    open: frozenset[int]
    """Those of the cuts that frames reach across."""
    suffix: str
    """Of the stored clips, with the dot."""


class VideoFile:
    """A video that was read through.

    A file that ends before it says it does has one item more, which cannot be made and says so.

    Raises:
        UnsupportedFormat: If PyAV is not installed.
        TooLarge: If its frames have more pixels than allowed, or a shape that no model accepts.
        CorpusError: If it is no video, or damaged beyond reading.
    """

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        self._source = source
        self._context = context
        self._plan = _plan(source, context)
        self.count = len(self._plan.cuts) + bool(self._plan.timeline.broken)

    @staticmethod
    def opening_seconds(source: SourceFile, options: CorpusOptions) -> float:  # noqa: ARG004 - a protocol's
        """Seconds that opening may take beyond the limit of a page; see `vrag.corpus.converter.Slow`."""
        return source.size / BYTES_PER_SECOND

    def item(self, ordinal: int) -> Item:
        """Cuts out one clip and makes its item."""
        timeline, cuts = self._plan.timeline, self._plan.cuts
        if ordinal > len(cuts):
            raise CorpusError(timeline.broken)
        start = cuts[ordinal - 1]
        end = cuts[ordinal] if ordinal < len(cuts) else None
        path = self._store(start, end, ordinal)
        try:
            picture = _representative(self._context.items_dir / path)
        except BaseException:
            (self._context.items_dir / path).unlink(missing_ok=True)
            raise
        begin, over = timeline.seconds(start), timeline.seconds(timeline.end if end is None else end)
        text, words, origin = self._text(begin, over, picture)
        return Item(
            id=item_id(self._source.document, ordinal),
            document=self._source.document,
            document_name=self._source.name,
            kind=ItemKind.CLIP,
            ordinal=ordinal,
            text=text,
            words=words,
            text_source=origin,
            size=Size(*picture.size),
            image=store_jpeg(picture, JPEG_QUALITY, self._context, self._source, ordinal),
            clip=Clip(path, begin, over, _key_frames(timeline, start, end)),
        )

    def _text(self, begin: float, over: float, picture: Image) -> tuple[str, tuple[Word, ...], TextSource]:
        """The subtitles of a clip; without any, what stands in its picture."""
        spoken = "\n".join(line.text for line in self._plan.timeline.lines if begin <= line.start < over)
        if spoken:
            return spoken, (), TextSource.FILE
        text, words = read_picture(picture) if self._context.options.ocr else ("", ())
        return text, words, TextSource.OCR if text else TextSource.NONE

    def _store(self, start: int, end: int | None, ordinal: int) -> str:
        """Stores a clip in the container of its video, or in Matroska, which takes everything."""
        suffix = self._plan.suffix
        try:
            return self._write(start, end, ordinal, suffix)
        except CorpusError:
            if suffix == ".mkv":
                raise
            return self._write(start, end, ordinal, ".mkv")

    def _write(self, start: int, end: int | None, ordinal: int, suffix: str) -> str:
        """Writes beside the final name and renames: a reader never sees half a clip."""
        name = f"{self._source.document[:16]}/{ordinal}{suffix}"
        path = self._context.items_dir / name
        part = path.with_suffix(f".{os.getpid()}.clip.part")
        write = copy_stretch if self._plan.open.isdisjoint((start, end)) else code_stretch
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(self._source.path, self._plan.timeline, (start, end), part, CONTAINERS[suffix])
            part.replace(path)
        except OSError as error:
            raise CollectionError(
                f"A clip cannot be written to {self._context.items_dir}: {error.strerror or error}."
            ) from error
        finally:
            with suppress(OSError):
                part.unlink()
        return name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _plan(source: SourceFile, context: ConversionContext) -> ClipPlan:
    """How to cut a video; kept in the run's scratch directory for the other workers."""
    kept = context.scratch and context.scratch / f"{source.document[:16]}.plan"
    if kept and kept.exists():
        return pickle.loads(kept.read_bytes())  # noqa: S301 - our own, in a directory of our own
    timeline = _checked(source, context.options)
    cuts, reached = cut_points(timeline, context.options.clip_seconds)
    plan = ClipPlan(timeline, cuts, reached, _suffix(source.path))
    if kept:
        part = kept.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(pickle.dumps(plan))
        part.replace(kept)
    return plan


def _checked(source: SourceFile, options: CorpusOptions) -> Timeline:
    """Reads a video through and refuses what no clips can be made of."""
    with source.path.open("rb") as file:
        head = file.read(12)
    if not _looks_like_video(head):
        raise CorpusError(f"This is not a video that can be read: {describe(source.path)}.")
    try:
        timeline = scan(source.path)
    except MissingExtra as error:
        raise UnsupportedFormat(
            f"PyAV is needed to read videos: {error.message}",
            f"{error.hint}, then run the command again; `vrag index add` needs --retry-failed.",
        ) from error
    if head[:4] == b"RIFF" and not timeline.broken and _promised(head) > source.size:
        missing = (
            f"The file has {source.size:,} bytes and says that it has {_promised(head):,}: it was cut short."
        )
        timeline = replace(timeline, broken=missing)
    width, height = timeline.size
    shape = f"The frames of the video have {width:,} × {height:,} pixels"
    if width * height > options.max_pixels:
        raise TooLarge(f"{shape}; the limit is {options.max_pixels:,} in all.")
    if min(width, height) < MIN_SIDE or max(width, height) > MAX_ASPECT * min(width, height):
        raise TooLarge(f"{shape}; a side is too short.")
    if not 0 < timeline.duration <= MAX_SECONDS:
        raise CorpusError(f"The video lasts {timeline.duration:,.1f} seconds.")
    return timeline


def _looks_like_video(head: bytes) -> bool:
    """Whether the first twelve bytes are those of MP4 and QuickTime, Matroska and WebM, or AVI."""
    boxes = {b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"moof", b"styp"}
    return head[4:8] in boxes or head[:4] == b"\x1aE\xdf\xa3" or (head[:4], head[8:]) == (b"RIFF", b"AVI ")


def _promised(head: bytes) -> int:
    """The length of an AVI file up to its first gigabyte, by its first bytes."""
    return int.from_bytes(head[4:8], "little") + 8


def _suffix(path: Path) -> str:
    """The suffix of stored clips: the video's own where that is its kind."""
    kind, own = demuxer(path), path.suffix.lower()
    if kind == "mp4":
        return own if own == ".mov" else ".mp4"
    return own if own == ".webm" and kind == "matroska" else ".mkv"


def cut_points(timeline: Timeline, seconds: float) -> tuple[tuple[int, ...], frozenset[int]]:
    """Where clips begin.

    Args:
        timeline: Of the video.
        seconds: Length that clips aim at.

    Returns:
        The first frame and the key frames that begin the other clips, in ticks; and those of these key
        frames that other frames reach across.
    """
    keys, closed = _keys(timeline)
    step = seconds / float(timeline.tick)
    cuts = [timeline.first]
    while True:
        target = timeline.first + (int((cuts[-1] - timeline.first) // step) + 1) * step
        target = max(target, cuts[-1] + 1)  # whatever rounding does, it goes on
        near, good = bisect_left(keys, target), bisect_left(closed, target)
        if near == len(keys):
            return tuple(cuts), frozenset(cuts[1:]).difference(closed)
        usable = good < len(closed) and closed[good] < max(target + step, keys[near] + 1)
        cuts.append(closed[good] if usable else keys[near])


def _keys(timeline: Timeline) -> tuple[list[int], list[int]]:
    """Key frames after the first, in order; and those of them that no frame reaches across.

    These are such that all that is decoded before is shown before, and all that is decoded after is shown
    after.
    """
    import numpy as np

    pts = np.asarray(timeline.pts, dtype=np.int64)
    before = np.maximum.accumulate(np.concatenate([[np.iinfo(np.int64).min], pts[:-1]]))
    after = np.minimum.accumulate(pts[::-1])[::-1]
    keys = (np.frombuffer(timeline.keys, dtype=np.uint8) > 0) & (pts > timeline.first)
    closed = keys & (before < pts) & (after == pts)
    return np.unique(pts[keys]).tolist(), pts[closed].tolist()


def _key_frames(timeline: Timeline, start: int, end: int | None) -> tuple[float, ...]:
    """When a clip's key frames are shown, in seconds of the video; at most one a second."""
    over = timeline.end if end is None else end
    keys = sorted(
        {pts for pts, key in zip(timeline.pts, timeline.keys, strict=True) if key and start <= pts < over}
    )
    seconds = [timeline.seconds(pts) for pts in keys]
    kept: list[float] = []
    for moment in seconds:
        if not kept or moment - kept[-1] >= 1:
            kept.append(moment)
    return tuple(kept)


def _representative(path: Path) -> Image:
    """The key frame nearest to the middle of a clip that shows something, or the one that shows most.

    Raises:
        CorpusError: If none of them can be decoded.
    """
    timeline = scan(path)
    keys = sorted(pts for pts, key in zip(timeline.pts, timeline.keys, strict=True) if key)
    middle = (timeline.first + timeline.end) / 2
    step = max(1, len(keys) // CANDIDATES)
    nearest = keys[min(bisect_left(keys, middle), len(keys) - 1)]
    wanted = sorted(
        {nearest, *keys[step // 2 :: step][:CANDIDATES]}, key=lambda pts: (abs(pts - middle), pts)
    )
    found = dict(decode(path, timeline, wanted))
    pictures = [found[pts] for pts in wanted if pts in found]
    if not pictures:
        raise CorpusError("None of its frames can be decoded.")
    return next((picture for picture in pictures if _contrast(picture) > FLAT), None) or max(
        pictures, key=_contrast
    )


def _contrast(picture: Image) -> float:
    import numpy as np

    low, high = np.percentile(np.asarray(picture.convert("L").resize((128, 128))), (2, 98))
    return float(high - low)


def sample_frames(
    path: Path, fps: float = 1.0, most: int = 32, least: int = 4, *, pixels: int | None = None
) -> list[VideoFrame]:
    """Frames of a video for a model to look at: `fps` a second, or evenly spread when that is too many.

    Args:
        path: A video file.
        fps: Frames per second of the video.
        most: Frames beyond which they are spread evenly from the first to the last.
        least: Frames of a video that is shorter than that, as far as it has so many. The reference asks
            for at least 32 and at most 8 and so always takes eight.
        pixels: Larger frames are made smaller to that many, one after the other: 32 of them in 4K would
            take 800 MB. None for frames in full.

    Returns:
        In the order in which they are shown, each once; damaged frames are left out.

    Raises:
        MissingExtra: If PyAV is not installed.
        CorpusError: If it is no video, or none of these frames can be decoded.
        ValueError: If `least` is more than `most`, or any of the numbers not positive.
        OSError: If it cannot be read.
    """
    if not (0 < least <= most and fps > 0):
        raise ValueError(f"Not 0 < least ({least}) <= most ({most}), or not 0 < fps ({fps}).")
    timeline = scan(path)
    return _decode_frames(path, timeline, _sample(timeline, fps, most, least), pixels)


def sample_evenly(path: Path, fps: float, most: int, least: int) -> tuple[list[VideoFrame], float]:
    """Frames of a video from its first to its last, equally many apart, as qwen-vl-utils takes them.

    Their number is `fps` times the duration, rounded down to an even number, at least `least` and at most
    `most`, as far as the video has so many.

    Args:
        path: A video file.
        fps: Frames per second of the video.
        most: Frames at most.
        least: Frames at least.

    Returns:
        The frames in the order in which they are shown, each once, without damaged ones; and how many were
        taken per second of the video.

    Raises:
        MissingExtra: If PyAV is not installed.
        CorpusError: If it is no video, or none of these frames can be decoded.
        OSError: If it cannot be read.
    """
    timeline = scan(path)
    shown = timeline.shown
    asked = min(max(timeline.duration * fps, least), most, len(shown))
    count = max(int(asked) // 2 * 2, 1)
    steps = [round(number * (len(shown) - 1) / max(1, count - 1)) for number in range(count)]
    frames = _decode_frames(path, timeline, [shown[step] for step in steps], None)
    return frames, count / timeline.duration if timeline.duration > 0 else fps


def _decode_frames(path: Path, timeline: Timeline, wanted: list[int], pixels: int | None) -> list[VideoFrame]:
    found = {pts: _within(image, pixels) for pts, image in decode(path, timeline, wanted)}
    if not found:
        raise CorpusError("None of its frames can be decoded.")
    return [VideoFrame(found[pts], timeline.seconds(pts)) for pts in sorted(found)]


def _within(image: Image, pixels: int | None) -> Image:
    if pixels is None or image.width * image.height <= pixels:
        return image
    by = (pixels / (image.width * image.height)) ** 0.5
    return image.resize((max(1, int(image.width * by)), max(1, int(image.height * by))), reducing_gap=2.0)


def _sample(timeline: Timeline, fps: float, most: int, least: int) -> list[int]:
    """Which frames to take, in ticks."""
    shown = timeline.shown
    asked = max(1, -int(-timeline.duration * fps // 1))
    if least <= asked <= most:
        wanted = {frame_at(timeline, shown, number / fps) for number in range(asked)}
    else:
        last = timeline.seconds(shown[-1])
        number = min(max(asked, least), most)
        wanted = {frame_at(timeline, shown, last * n / max(1, number - 1)) for n in range(number)}
    if len(wanted) < min(least, len(shown)):  # some frames are shown for long
        steps = min(least, len(shown))
        wanted = {shown[round(n * (len(shown) - 1) / max(1, steps - 1))] for n in range(steps)}
    return sorted(wanted)
