"""Reading of video files as packets and frames, by PyAV, a library that is only partly typed.

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
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from PIL.Image import Image

    from vrag.corpus.sniff import Openable

DEMUXERS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi"
READ = {"format_whitelist": DEMUXERS, "protocol_whitelist": "file", "fflags": "+genpts"}
TEXT_CODECS = frozenset({"subrip", "srt", "mov_text", "ass", "ssa", "webvtt", "text"})
STYLE = re.compile(r"\{\\[^}]*\}|\\[Nnh]|<[^<>]{1,80}>")
"""Formatting marks of subtitles, and line breaks."""


@dataclass(frozen=True, slots=True)
class SubtitleLine:
    """A line of subtitles."""

    start: float
    """Seconds from the first frame."""
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The times of the frames of a video, in ticks of its stream."""

    tick: Fraction
    """Seconds."""
    pts: Sequence[int]
    """Time of every packet, in the order of decoding."""
    keys: bytes
    """For every packet 1 where decoding can begin, else 0."""
    first: int
    """Time of the first frame."""
    end: int
    """End of the last frame."""
    size: tuple[int, int]
    """Pixels as coded: neither turned nor stretched."""
    lines: tuple[SubtitleLine, ...] = ()
    broken: str = ""
    """Damage at the end of the file; empty when all of it could be read."""

    def seconds(self, pts: int) -> float:
        """Convert the time of a frame to seconds from the first."""
        return round(float((pts - self.first) * self.tick), 6)

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.seconds(self.end)

    @property
    def shown(self) -> list[int]:
        """Times of all frames that are shown, in order."""
        return sorted({pts for pts in self.pts if pts >= self.first})


def pyav() -> Any:  # noqa: ANN401 - a library half typed
    """Import PyAV. Raises `MissingExtra` if it is not installed."""
    try:
        return importlib.import_module("av")
    except ImportError as error:
        raise MissingExtra("av", "video") from error


@contextmanager
def open_video(path: Openable) -> Generator[Any]:
    """Open a container. Raises `CorpusError` if it is not a video."""
    av = pyav()
    with path.open("rb") as file:
        try:
            container = av.open(file, options=READ, metadata_errors="replace")
        except (av.error.FFmpegError, ValueError) as error:
            raise CorpusError(f"The video is damaged or of an unknown kind: {cause(error)}.") from error
        with container:
            yield container


def video_stream(container: Any) -> Any:  # noqa: ANN401
    """Return the first video stream that is not a cover image.

    Raises `CorpusError` if there is none, or nothing here can decode it.
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


def demuxer(path: Openable) -> str:
    """Return the container of a file: `mp4`, `matroska` or `avi`."""
    with open_video(path) as container:
        name = container.format.name
    return "mp4" if "mp4" in name else "matroska" if "matroska" in name else "avi"


def scan(path: Openable) -> Timeline:
    """Read a video once, without decoding it.

    Raises `MissingExtra` if PyAV is not installed, `CorpusError` if it is not a video, or has no frames, and
    `OSError` if it cannot be read.
    """
    with open_video(path) as container:
        scanner = _Scanner(video_stream(container), container)
        scanner.run()
        return scanner.timeline()


@dataclass(slots=True)
class _Scanner:
    stream: Any
    container: Any
    pts: array[int] = field(default_factory=lambda: array("q"))
    keys: bytearray = field(default_factory=bytearray)
    hidden: int = 0
    """Packets before the first that is shown: there to be decoded only."""
    end: int = 0
    last: Fraction = Fraction(0)
    """The latest time in any stream, in seconds of the file."""
    lines: list[tuple[Fraction, str]] = field(default_factory=list[tuple[Fraction, str]])
    broken: str = ""

    def run(self) -> None:
        streams = [self.stream, *self.container.streams.audio]
        texts = [
            subtitles
            for subtitles in self.container.streams.subtitles
            if subtitles.codec_context is not None and subtitles.codec_context.name in TEXT_CODECS
        ]
        try:
            for packet in self.container.demux(*streams, *texts[:1]):
                self._add(packet)
        except pyav().error.FFmpegError as error:
            self.broken = f"It is damaged after {float(self.last):.1f} seconds: {cause(error)}."

    def _add(self, packet: Any) -> None:  # noqa: ANN401
        moment = moment_of(packet)
        if moment is None or not packet.size:
            return
        end = moment + (packet.duration or 0)
        self.last = max(self.last, end * packet.time_base)
        if packet.stream.type == "subtitle":
            with suppress(pyav().error.FFmpegError, UnicodeDecodeError, ValueError):
                for subtitle in packet.decode():
                    text: bytes = getattr(subtitle, "dialogue", b"") or b""
                    if words := " ".join(STYLE.sub(" ", text.decode("utf-8", "replace")).split()):
                        self.lines.append((moment * packet.time_base, words))
        elif packet.stream is self.stream:
            self.pts.append(moment)
            self.keys.append(packet.is_keyframe)
            self.hidden += packet.is_discard
            self.end = max(self.end, end) if len(self.pts) > 1 else end

    def timeline(self) -> Timeline:
        if not any(self.keys) or self.hidden == len(self.pts):
            raise CorpusError("There are no frames in the video, or none that decoding can begin with.")
        tick, first = Fraction(self.stream.time_base), sorted(self.pts)[self.hidden]
        lines = (SubtitleLine(round(float(at - first * tick), 6), text) for at, text in sorted(self.lines))
        codec = self.stream.codec_context
        claimed = (self.container.duration or 0) / 1e6
        if not self.broken and claimed - float(self.last) > max(2.0, claimed / 50):
            self.broken = (
                f"The file says that it lasts {claimed:.1f} seconds and ends after {float(self.last):.1f}."
            )
        return Timeline(
            tick=tick,
            pts=self.pts,
            keys=bytes(self.keys),
            first=first,
            end=self.end,
            size=(codec.width, codec.height),
            lines=tuple(lines),
            broken=self.broken,
        )


def moment_of(packet: Any) -> int | None:  # noqa: ANN401
    """Return the time of a packet in ticks of its stream; None when it has none."""
    return packet.dts if packet.pts is None else packet.pts


def cause(error: Exception) -> str:
    """Return the reason of an error of PyAV, as a part of a sentence."""
    return str(getattr(error, "strerror", None) or error).rstrip(".") or type(error).__name__


def decode(path: Openable, timeline: Timeline, wanted: Iterable[int]) -> Iterator[tuple[int, Image]]:
    """Decode the frames at the times `wanted`, in ticks: upright, RGB, in the proportions of the display.

    Only the segments between key frames in which they lie are decoded. Damaged frames are left out. Yields
    time and frame, in order within a segment.
    """
    with open_video(path) as container:
        stream = video_stream(container)
        for frame in decoded(container, stream, timeline, wanted):
            yield frame.pts, upright(frame, stream)


def decoded(container: Any, stream: Any, timeline: Timeline, wanted: Iterable[int]) -> Iterator[Any]:  # noqa: ANN401
    """Decode some frames of a video and leave them as they are coded; see `decode`."""
    pending = _segments_to_decode(timeline, wanted)
    segment, open_ = 0, False
    packets = (packet for packet in container.demux(stream) if packet.size and moment_of(packet) is not None)
    with suppress(pyav().error.FFmpegError):  # a damaged end: the frames until there count
        for key, packet in zip(timeline.keys, packets, strict=False):
            segment += key
            needed = segment in pending
            if needed or open_:
                yield from _take_pending(pending, _frames(stream, packet if needed else None))
            open_ = needed
            if not pending:
                return
        if open_:
            yield from _take_pending(pending, _frames(stream, None))


def _segments_to_decode(timeline: Timeline, wanted: Iterable[int]) -> dict[int, set[int]]:
    """Map the number of each segment to decode to the frames that need it.

    A segment begins with a key frame; the one before the first is 0. Frames that are decoded after a
    key frame and shown before it need the segment before as well.
    """
    asked = set(wanted)
    pending: dict[int, set[int]] = {}
    segment, begin = 0, timeline.pts[0]
    for pts, key in zip(timeline.pts, timeline.keys, strict=True):
        segment, begin = (segment + 1, pts) if key else (segment, begin)
        if pts in asked:
            pending.setdefault(segment, set()).add(pts)
            if pts < begin:
                pending.setdefault(segment - 1, set()).add(pts)
    return pending


def _take_pending(pending: dict[int, set[int]], frames: Iterable[Any]) -> Iterator[Any]:
    """Yield the frames that are pending, and remove them from `pending`."""
    for frame in frames:
        segments = [segment for segment, times in pending.items() if frame.pts in times]
        for segment in segments:
            pending[segment].discard(frame.pts)
            if not pending[segment]:
                del pending[segment]
        if segments:
            yield frame


def _frames(stream: Any, packet: Any) -> list[Any]:  # noqa: ANN401
    """Decode a packet; with None, return the frames that the decoder holds back at an end."""
    codec = stream.codec_context
    try:
        return list(codec.decode(packet))
    except pyav().error.FFmpegError:
        return []
    finally:
        if packet is None:
            codec.flush_buffers()


def upright(frame: Any, stream: Any) -> Image:  # noqa: ANN401
    """Convert a frame to an image, rotated and stretched as it is displayed."""
    image: Image = frame.to_image()
    ratio = stream.sample_aspect_ratio or stream.codec_context.sample_aspect_ratio
    if ratio and ratio != 1 and Fraction(1, 8) <= ratio <= 8:
        image = image.resize((max(1, round(image.width * ratio)), image.height))
    if frame.rotation % 90 == 0 and frame.rotation % 360:
        image = image.rotate(frame.rotation, expand=True)
    return image


def frame_at(timeline: Timeline, shown: Sequence[int], seconds: float) -> int:
    """Return the time of the frame that is visible at a moment."""
    ticks = timeline.first + Fraction(seconds).limit_denominator(10**6) / timeline.tick
    return shown[max(0, bisect_right(shown, ticks) - 1)]
