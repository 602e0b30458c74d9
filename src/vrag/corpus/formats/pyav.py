"""Video files as a series of packets: PyAV as far as it is needed here, the border to a library half typed.

Files come in as file objects and only three demuxers are let in: others read play lists, which name
files and addresses that a video has no business with.
"""

from __future__ import annotations

import importlib
import re
from array import array
from bisect import bisect_right
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from vrag.errors import CorpusError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from pathlib import Path

    from PIL.Image import Image

__all__ = [
    "SubtitleLine",
    "Timeline",
    "cause",
    "decode",
    "decoded",
    "demuxer",
    "frame_at",
    "moment_of",
    "open_video",
    "pyav",
    "scan",
    "upright",
    "video_stream",
]

DEMUXERS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi"
READ = {"format_whitelist": DEMUXERS, "protocol_whitelist": "file", "fflags": "+genpts"}
TEXT_CODECS = frozenset({"subrip", "srt", "mov_text", "ass", "ssa", "webvtt", "text"})
STYLE = re.compile(r"\{\\[^}]*\}|\\[Nnh]|<[^<>]{1,80}>")
"""What subtitles say about their looks, and line breaks."""


@dataclass(frozen=True, slots=True)
class SubtitleLine:
    """A line of subtitles."""

    start: float
    """Seconds from the first frame."""
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """When each frame of a video is shown, in ticks of its stream."""

    tick: Fraction
    """Seconds."""
    pts: Sequence[int]
    """Of every packet, in the order of decoding."""
    keys: bytes
    """For every packet 1 where decoding can begin, else 0."""
    first: int
    """When the first frame is shown."""
    end: int
    """When the last frame is over."""
    size: tuple[int, int]
    """Pixels as coded: neither turned nor stretched."""
    lines: tuple[SubtitleLine, ...] = ()
    broken: str = ""
    """What is wrong with the end of the file; empty when all of it could be read."""

    def seconds(self, pts: int) -> float:
        """When a frame is shown, in seconds from the first."""
        return round(float((pts - self.first) * self.tick), 6)

    @property
    def duration(self) -> float:
        """In seconds."""
        return self.seconds(self.end)

    @property
    def shown(self) -> list[int]:
        """When each frame is shown, in order."""
        return sorted({pts for pts in self.pts if pts >= self.first})


def pyav() -> Any:  # noqa: ANN401 - a library half typed
    """PyAV.

    Raises:
        MissingExtra: If it is not installed.
    """
    try:
        return importlib.import_module("av")
    except ImportError as error:
        raise MissingExtra("av", "video") from error


@contextmanager
def open_video(path: Path) -> Generator[Any]:
    """A container.

    Raises:
        CorpusError: If it is no video.
    """
    av = pyav()
    with path.open("rb") as file:
        try:
            container = av.open(file, options=READ, metadata_errors="replace")
        except (av.error.FFmpegError, ValueError) as error:
            raise CorpusError(f"The video is damaged or of an unknown kind: {cause(error)}.") from error
        with container:
            yield container


def video_stream(container: Any) -> Any:  # noqa: ANN401
    """The first video stream that is no picture of a cover.

    Raises:
        CorpusError: If there is none, or nothing here can decode it.
    """
    cover = pyav().stream.Disposition.attached_pic
    videos = [stream for stream in container.streams.video if not stream.disposition & cover]
    if not videos:
        kind = "sound only" if container.streams.audio else "neither pictures nor sound"
        raise CorpusError(f"There is no video in the file: it holds {kind}.")
    stream = videos[0]
    if stream.codec_context is None:
        raise CorpusError("The video is in a format that cannot be decoded.")
    stream.codec_context.thread_count = 1
    return stream


def demuxer(path: Path) -> str:
    """Which of the kinds of container a file is: `mp4`, `matroska` or `avi`."""
    with open_video(path) as container:
        name = container.format.name
    return "mp4" if "mp4" in name else "matroska" if "matroska" in name else "avi"


def scan(path: Path) -> Timeline:
    """Reads a video through once without decoding it.

    Raises:
        MissingExtra: If PyAV is not installed.
        CorpusError: If it is no video, or has no frames.
        OSError: If it cannot be read.
    """
    with open_video(path) as container:
        stream = video_stream(container)
        reading = _Reading(stream, container)
        reading.run()
        return reading.timeline()


@dataclass(slots=True)
class _Reading:
    """What has been read of a video."""

    stream: Any
    container: Any
    pts: array[int] = field(default_factory=lambda: array("q"))
    keys: bytearray = field(default_factory=bytearray)
    hidden: int = 0
    """Packets before the first that is shown: there to be decoded only."""
    end: int = 0
    last: Fraction = Fraction(0)
    """The latest moment of any stream, in seconds of the file."""
    lines: list[tuple[Fraction, str]] = field(default_factory=list[tuple[Fraction, str]])
    broken: str = ""

    def run(self) -> None:
        """Reads to the end, or as far as it goes."""
        streams = [self.stream, *self.container.streams.audio]
        texts = [s for s in self.container.streams.subtitles if _is_text(s)][:1]
        try:
            for packet in self.container.demux(*streams, *texts):
                self._take(packet)
        except pyav().error.FFmpegError as error:
            self.broken = f"It is damaged after {float(self.last):.1f} seconds: {cause(error)}."

    def _take(self, packet: Any) -> None:  # noqa: ANN401
        moment = moment_of(packet)
        if moment is None or not packet.size:
            return
        end = moment + (packet.duration or 0)
        self.last = max(self.last, end * packet.time_base)
        if packet.stream.type == "subtitle":
            self.lines += ((moment * packet.time_base, text) for text in _texts(packet))
        elif packet.stream is self.stream:
            self.pts.append(moment)
            self.keys.append(packet.is_keyframe)
            self.hidden += packet.is_discard
            self.end = max(self.end, end) if len(self.pts) > 1 else end

    def timeline(self) -> Timeline:
        """What was read."""
        if not any(self.keys) or self.hidden == len(self.pts):
            raise CorpusError("There are no frames in the video, or none that decoding can begin with.")
        tick, first = Fraction(self.stream.time_base), sorted(self.pts)[self.hidden]
        lines = (SubtitleLine(round(float(at - first * tick), 6), text) for at, text in sorted(self.lines))
        codec = self.stream.codec_context
        return Timeline(
            tick=tick,
            pts=self.pts,
            keys=bytes(self.keys),
            first=first,
            end=self.end,
            size=(codec.width, codec.height),
            lines=tuple(lines),
            broken=self.broken or self._cut_short(),
        )

    def _cut_short(self) -> str:
        """Says so when the file ends before it says it does: by more than two seconds and a fiftieth."""
        says = (self.container.duration or 0) / 1e6
        if says - float(self.last) <= max(2.0, says / 50):
            return ""
        return f"The file says that it lasts {says:.1f} seconds and ends after {float(self.last):.1f}."


def moment_of(packet: Any) -> int | None:  # noqa: ANN401
    """When a packet is shown, in ticks of its stream; None when nothing says so."""
    return packet.dts if packet.pts is None else packet.pts


def _is_text(stream: Any) -> bool:  # noqa: ANN401
    return stream.codec_context is not None and stream.codec_context.name in TEXT_CODECS


def _texts(packet: Any) -> Iterator[str]:  # noqa: ANN401
    """The words of a packet of subtitles."""
    with suppress(pyav().error.FFmpegError, UnicodeDecodeError, ValueError):
        for subtitle in packet.decode():
            text: bytes = getattr(subtitle, "dialogue", b"") or b""
            if words := " ".join(STYLE.sub(" ", text.decode("utf-8", "replace")).split()):
                yield words


def cause(error: Exception) -> str:
    """What PyAV says is wrong, as a part of a sentence."""
    return str(getattr(error, "strerror", None) or error).rstrip(".") or type(error).__name__


def decode(path: Path, timeline: Timeline, wanted: Iterable[int]) -> Iterator[tuple[int, Image]]:
    """Some frames of a video, upright and in the shape they are meant to be seen in.

    Only the stretches between key frames in which they lie are decoded.

    Args:
        path: The video.
        timeline: Of the video.
        wanted: When they are shown, in ticks.

    Yields:
        When it is shown, and the frame as RGB; damaged ones are left out. In order within a stretch.
    """
    with open_video(path) as container:
        stream = video_stream(container)
        for frame in decoded(container, stream, timeline, wanted):
            yield frame.pts, upright(frame, stream)


def decoded(container: Any, stream: Any, timeline: Timeline, wanted: Iterable[int]) -> Iterator[Any]:  # noqa: ANN401
    """Some frames of a video, as they are coded; see `decode`."""
    left = _by_stretch(timeline, wanted)
    stretch, open_ = 0, False
    packets = (packet for packet in container.demux(stream) if packet.size and moment_of(packet) is not None)
    with suppress(pyav().error.FFmpegError):  # a damaged end: what was found until there counts
        for key, packet in zip(timeline.keys, packets, strict=False):
            stretch += key
            needed = stretch in left
            if needed or open_:
                yield from _struck(left, _frames(stream, packet if needed else None))
            open_ = needed
            if not left:
                return
        if open_:
            yield from _struck(left, _frames(stream, None))


def _by_stretch(timeline: Timeline, wanted: Iterable[int]) -> dict[int, set[int]]:
    """Number of the stretch → frames for which it must be decoded.

    A stretch begins with a key frame; the one before the first is 0. Frames that are decoded after a
    key frame and shown before it need the stretch before as well.
    """
    asked = set(wanted)
    left: dict[int, set[int]] = {}
    stretch, begin = 0, timeline.pts[0]
    for pts, key in zip(timeline.pts, timeline.keys, strict=True):
        stretch, begin = (stretch + 1, pts) if key else (stretch, begin)
        if pts in asked:
            left.setdefault(stretch, set()).add(pts)
            if pts < begin:
                left.setdefault(stretch - 1, set()).add(pts)
    return left


def _struck(left: dict[int, set[int]], frames: Iterable[Any]) -> Iterator[Any]:
    """Those frames that were still wanted; from now on they are not."""
    for frame in frames:
        found = [stretch for stretch, wanted in left.items() if frame.pts in wanted]
        for stretch in found:
            left[stretch].discard(frame.pts)
            if not left[stretch]:
                del left[stretch]
        if found:
            yield frame


def _frames(stream: Any, packet: Any) -> list[Any]:  # noqa: ANN401
    """The frames that a packet gives; with None, those that the decoder holds back at an end."""
    codec = stream.codec_context
    try:
        return list(codec.decode(packet))
    except pyav().error.FFmpegError:
        return []
    finally:
        if packet is None:
            codec.flush_buffers()


def upright(frame: Any, stream: Any) -> Image:  # noqa: ANN401
    """A frame as it is meant to be seen."""
    image: Image = frame.to_image()
    ratio = stream.sample_aspect_ratio or stream.codec_context.sample_aspect_ratio
    if ratio and ratio != 1 and Fraction(1, 8) <= ratio <= 8:
        image = image.resize((max(1, round(image.width * ratio)), image.height))
    if frame.rotation % 90 == 0 and frame.rotation % 360:
        image = image.rotate(frame.rotation, expand=True)
    return image


def frame_at(timeline: Timeline, shown: Sequence[int], seconds: float) -> int:
    """The frame that is seen at a moment."""
    ticks = timeline.first + Fraction(seconds).limit_denominator(10**6) / timeline.tick
    return shown[max(0, bisect_right(shown, ticks) - 1)]
