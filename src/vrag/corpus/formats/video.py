"""Video files → clip items: a part of the video, one of its frames as an image, and its subtitles.

Clips begin at key frames, the first at or after each multiple of `clip_seconds`, and last longer where the
video has none; together they show every frame once. They are copied, not encoded again, where frames allow
it: a key frame that others reach across (an open group of pictures, the rule in HEVC and in old AVI files)
cannot end one file and begin the next. Where no other is within `clip_seconds`, the clips on both its sides
are encoded again.
"""

from __future__ import annotations

import errno
import json
from array import array
from bisect import bisect_left
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from vrag.corpus.converter import OpenFile
from vrag.corpus.formats.clip_cut import copy_clip, encode_clip
from vrag.corpus.formats.image import MIN_SIDE, store_jpeg
from vrag.corpus.formats.pyav import SubtitleLine, Timeline, decode, demuxer, frame_at, scan
from vrag.corpus.pages.page_pass import read_picture
from vrag.corpus.sniff import describe
from vrag.errors import CollectionError, CorpusError, FileTooLargeError, MissingExtra, UnsupportedFormatError
from vrag.geometry import MAX_ASPECT, Size
from vrag.types import Clip, Item, ItemFacts, ItemKind, TextSource, item_id

if TYPE_CHECKING:
    from typing import BinaryIO

    from PIL.Image import Image

    from vrag.corpus.converter import ConversionContext, CorpusOptions, SourceFile
    from vrag.corpus.sniff import Openable

SUFFIXES = (".mp4", ".mkv", ".mov", ".webm", ".m4v", ".avi")
CONTAINERS = {".mp4": "mp4", ".mov": "mov", ".mkv": "matroska", ".webm": "webm"}
"""Suffix of a stored clip → FFmpeg's name of its container."""
JPEG_QUALITY = 88
MAX_SECONDS = 200 * 3600.0
"""No recording is longer; times beyond are damage."""
DISK_BYTES_PER_SECOND = 20e6
"""Read speed of a slow disk."""
CANDIDATE_FRAMES = 5
"""Key frames of a clip among which its image is chosen."""
FLAT_CONTRAST = 24
"""Difference between bright and dark (the 2nd and 98th percentile of grey) up to which a frame is fades,
black or a blank screen, and another is taken."""


@dataclass(frozen=True, slots=True, eq=False)
class VideoFrame:
    """A frame of a video."""

    image: Image
    """RGB, upright."""
    seconds: float
    """Its time, from the first frame of the video."""


@dataclass(frozen=True, slots=True)
class ClipPlan:
    """The cuts of a video, which the first worker that opens it computes and the others read."""

    timeline: Timeline
    cuts: tuple[int, ...]
    """The beginnings of clips, in ticks."""
    open: frozenset[int]
    """The cuts that frames reach across."""
    suffix: str
    """File name suffix of the stored clips, with the dot."""

    def to_json(self) -> bytes:
        """Write the plan as JSON, for other processes."""
        line = self.timeline
        timeline = {
            "tick": line.tick.as_integer_ratio(),
            "pts": list(line.pts),
            "keys": line.keys.hex(),
            "lines": [(subtitle.start, subtitle.text) for subtitle in line.lines],
        }
        timeline |= {name: getattr(line, name) for name in ("first", "end", "size", "broken")}
        return json.dumps([timeline, self.cuts, sorted(self.open), self.suffix]).encode()

    @classmethod
    def parse(cls, data: bytes) -> ClipPlan:
        """Read what `to_json` has written."""
        line, cuts, reached, suffix = json.loads(data)
        changes = {
            "tick": Fraction(*line["tick"]),
            "pts": array("q", line["pts"]),
            "keys": bytes.fromhex(line["keys"]),
            "lines": tuple(SubtitleLine(*subtitle) for subtitle in line["lines"]),
            "size": tuple(line["size"]),
        }
        return cls(Timeline(**line | changes), tuple(cuts), frozenset(reached), suffix)


class VideoFile(OpenFile):
    """A video that was read through.

    A file that ends before it says it does has one item more, which cannot be made and says so. Raises
    `UnsupportedFormatError` if PyAV is not installed, `FileTooLargeError` if its frames have more pixels than
    allowed, or a shape that no model accepts, and `CorpusError` if it is not a video, or damaged.
    """

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        self._source, self._context = source, context
        notes = context.notes(source)
        self._plan = ClipPlan.parse(notes) if notes else _make_plan(source, context.options)
        self.notes = notes or self._plan.to_json()
        self.count = len(self._plan.cuts) + bool(self._plan.timeline.broken)

    @staticmethod
    def opening_seconds(source: SourceFile, options: CorpusOptions) -> float:  # noqa: ARG004 - a protocol's
        """See `vrag.corpus.converter.Slow`."""
        return source.size / DISK_BYTES_PER_SECOND

    def item(self, ordinal: int) -> Item:
        """Cut out one clip and make its item."""
        timeline, cuts = self._plan.timeline, self._plan.cuts
        if ordinal > len(cuts):
            raise CorpusError(timeline.broken)
        start = cuts[ordinal - 1]
        end = cuts[ordinal] if ordinal < len(cuts) else None
        with self._context.open_clip() as clip:
            suffix = self._cut_clip(start, end, clip.file)
            image = _representative_frame(clip)
            path = self._context.store_clip(self._source, ordinal, suffix, clip)
        begin, over = timeline.seconds(start), timeline.seconds(timeline.end if end is None else end)
        keys = {pts for pts, key in zip(timeline.pts, timeline.keys, strict=True) if key}
        key_frames: list[float] = []  # at most one a second
        for seconds in map(timeline.seconds, sorted(keys)):
            if begin <= seconds < over and (not key_frames or seconds - key_frames[-1] >= 1):
                key_frames.append(seconds)
        lines = (line.text for line in timeline.lines if begin <= line.start < over)
        text, words, origin, facts = "\n".join(lines), (), TextSource.FILE, ItemFacts()
        if not text and self._context.options.ocr != "never":
            text, words, origin, facts = read_picture(image, self._context.options.ocr)
        return Item(
            id=item_id(self._source.document, ordinal),
            document=self._source.document,
            document_name=self._source.name,
            kind=ItemKind.CLIP,
            ordinal=ordinal,
            text=text,
            words=words,
            text_source=origin if text else TextSource.NONE,
            size=Size(*image.size),
            image=store_jpeg(image, JPEG_QUALITY, self._context, self._source, ordinal),
            clip=Clip(path, begin, over, tuple(key_frames)),
            facts=facts,
        )

    def _cut_clip(self, start: int, end: int | None, out: BinaryIO) -> str:
        """Write a clip in the container of its video, or in Matroska, which takes everything.

        Returns the suffix of its name.
        """
        write = copy_clip if self._plan.open.isdisjoint((start, end)) else encode_clip
        for suffix in dict.fromkeys((self._plan.suffix, ".mkv")):
            try:
                out.seek(0)
                out.truncate()
                write(self._source, self._plan.timeline, (start, end), out, CONTAINERS[suffix])
                out.flush()
            except CorpusError:
                if suffix == ".mkv":
                    raise
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise CollectionError("A clip cannot be written: the disk is full.") from error
                raise
            else:
                return suffix
        raise AssertionError("one of the containers takes the clip or raises")


def _make_plan(source: SourceFile, options: CorpusOptions) -> ClipPlan:
    """Compute the cuts of a video."""
    timeline = _scan_and_check(source, options)
    cuts, reached = cut_points(timeline, options.clip_seconds)
    container, suffix = demuxer(source), source.path.suffix.lower()
    if container == "mp4":
        suffix = ".mov" if suffix == ".mov" else ".mp4"
    elif container != "matroska" or suffix != ".webm":
        suffix = ".mkv"
    return ClipPlan(timeline, cuts, reached, suffix)


def _scan_and_check(source: SourceFile, options: CorpusOptions) -> Timeline:
    """Scan a video and refuse one that no clips can be made of."""
    with source.open() as file:
        head = file.read(12)
    boxes = {b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"moof", b"styp"}
    is_avi = (head[:4], head[8:]) == (b"RIFF", b"AVI ")
    if not (head[4:8] in boxes or head[:4] == b"\x1aE\xdf\xa3" or is_avi):  # MP4, Matroska, AVI
        raise CorpusError(f"This is not a video that can be read: {describe(source)}.")
    try:
        timeline = scan(source)
    except MissingExtra as error:
        raise UnsupportedFormatError(
            f"PyAV is needed to read videos: {error.message}",
            f"{error.hint}. Then try the file again.",
        ) from error
    claimed = int.from_bytes(head[4:8], "little") + 8  # bytes of an AVI file up to its first gigabyte
    if is_avi and not timeline.broken and claimed > source.size:
        reason = f"The file has {source.size:,} bytes and says that it has {claimed:,}: it was cut short."
        timeline = replace(timeline, broken=reason)
    width, height = timeline.size
    shape = f"The frames of the video have {width:,} × {height:,} pixels"
    if width * height > options.max_pixels:
        raise FileTooLargeError(f"{shape}; the limit is {options.max_pixels:,} in all.")
    if min(width, height) < MIN_SIDE or max(width, height) > MAX_ASPECT * min(width, height):
        raise FileTooLargeError(f"{shape}; a side is too short.")
    if not 0 < timeline.duration <= MAX_SECONDS:
        raise CorpusError(f"The video lasts {timeline.duration:,.1f} seconds.")
    return timeline


def cut_points(timeline: Timeline, seconds: float) -> tuple[tuple[int, ...], frozenset[int]]:
    """Choose the beginnings of clips of about `seconds`.

    Returns the first frame and the key frames that begin the other clips, in ticks; and those of these key
    frames that other frames reach across.
    """
    keys, closed = _key_frames(timeline)
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


def _key_frames(timeline: Timeline) -> tuple[list[int], list[int]]:
    """Return the key frames after the first, in order; and those of them that no frame reaches across.

    Around these, all that is decoded before is shown before, and all that is decoded after is shown after.
    """
    import numpy as np

    pts = np.asarray(timeline.pts, dtype=np.int64)
    before = np.maximum.accumulate(np.concatenate([[np.iinfo(np.int64).min], pts[:-1]]))
    after = np.minimum.accumulate(pts[::-1])[::-1]
    keys = (np.frombuffer(timeline.keys, dtype=np.uint8) > 0) & (pts > timeline.first)
    closed = keys & (before < pts) & (after == pts)
    return np.unique(pts[keys]).tolist(), pts[closed].tolist()


def _representative_frame(path: Openable) -> Image:
    """Return the key frame nearest to the middle of a clip that is not flat, or the one of most contrast.

    Raises `CorpusError` if none of them can be decoded.
    """
    timeline = scan(path)
    keys = sorted(pts for pts, key in zip(timeline.pts, timeline.keys, strict=True) if key)
    middle = (timeline.first + timeline.end) / 2
    step = max(1, len(keys) // CANDIDATE_FRAMES)
    nearest = keys[min(bisect_left(keys, middle), len(keys) - 1)]
    candidates = {nearest, *keys[step // 2 :: step][:CANDIDATE_FRAMES]}
    wanted = sorted(candidates, key=lambda pts: (abs(pts - middle), pts))
    found = dict(decode(path, timeline, wanted))
    images = [found[pts] for pts in wanted if pts in found]
    if not images:
        raise CorpusError("None of its frames can be decoded.")
    return next((image for image in images if _contrast(image) > FLAT_CONTRAST), None) or max(
        images, key=_contrast
    )


def _contrast(image: Image) -> float:
    import numpy as np

    low, high = np.percentile(np.asarray(image.convert("L").resize((128, 128))), (2, 98))
    return float(high - low)


def sample_frames(
    path: Openable, fps: float = 1.0, most: int = 32, least: int = 4, *, pixels: int | None = None
) -> list[VideoFrame]:
    """Sample frames of a video for a model: `fps` a second, or evenly spread when that is too many.

    Args:
        path: A video file.
        fps: Frames per second of the video.
        most: Frames beyond which they are spread evenly from the first to the last.
        least: Frames of a video that is shorter than that, as far as it has so many. The reference asks
            for at least 32 and at most 8 and so always takes eight.
        pixels: Larger frames are made smaller to that many, one after the other: 32 of them in 4K would
            take 800 MB. None for frames in full.

    Returns:
        Each frame once, in order; damaged frames are left out.

    Raises:
        MissingExtra: If PyAV is not installed.
        CorpusError: If it is not a video, or none of these frames can be decoded.
        ValueError: If `least` is more than `most`, or any of the numbers not positive.
        OSError: If it cannot be read.
    """
    if not (0 < least <= most and fps > 0):
        raise ValueError(f"Not 0 < least ({least}) <= most ({most}), or not 0 < fps ({fps}).")
    timeline = scan(path)
    shown = timeline.shown
    asked = max(1, -int(-timeline.duration * fps // 1))
    if least <= asked <= most:
        wanted = {frame_at(timeline, shown, number / fps) for number in range(asked)}
    else:
        last, number = timeline.seconds(shown[-1]), min(max(asked, least), most)
        wanted = {frame_at(timeline, shown, last * n / max(1, number - 1)) for n in range(number)}
    if len(wanted) < min(least, len(shown)):  # some frames are shown for long
        wanted = set(_spread(shown, min(least, len(shown))))
    return _decode_frames(path, timeline, sorted(wanted), pixels)


def sample_evenly(path: Openable, fps: float, most: int, least: int) -> tuple[list[VideoFrame], float]:
    """Sample frames of a video from its first to its last, equally many apart, as qwen-vl-utils does.

    Their number is `fps` times the duration, rounded down to an even number, at least `least` and at most
    `most`, as far as the video has so many. Damaged frames are left out. Returns the frames, and how many
    were taken per second of the video; raises as `sample_frames` does.
    """
    timeline = scan(path)
    shown = timeline.shown
    asked = min(max(timeline.duration * fps, least), most, len(shown))
    count = max(int(asked) // 2 * 2, 1)
    frames = _decode_frames(path, timeline, _spread(shown, count), None)
    return frames, count / timeline.duration if timeline.duration > 0 else fps


def _spread(shown: list[int], count: int) -> list[int]:
    """Choose `count` frames from the first to the last, equally many apart."""
    return [shown[round(number * (len(shown) - 1) / max(1, count - 1))] for number in range(count)]


def _decode_frames(
    path: Openable, timeline: Timeline, wanted: list[int], pixels: int | None
) -> list[VideoFrame]:
    images: dict[int, Image] = {}
    for pts, image in decode(path, timeline, wanted):
        scale = 1.0 if pixels is None else (pixels / (image.width * image.height)) ** 0.5
        size = max(1, int(image.width * scale)), max(1, int(image.height * scale))
        images[pts] = image if scale >= 1 else image.resize(size, reducing_gap=2.0)
    if not images:
        raise CorpusError("None of its frames can be decoded.")
    return [VideoFrame(images[pts], timeline.seconds(pts)) for pts in sorted(images)]
