"""A stretch of a video → a file of its own, copied or coded anew."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from vrag.corpus.formats.pyav import cause, decoded, moment_of, open_video, pyav, upright, video_stream
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from vrag.corpus.formats.pyav import Timeline

__all__ = ["code_stretch", "copy_stretch"]

WRITE = {"fflags": "+bitexact"}
"""No time of day and no random ids in what is written: the same bytes give the same clip."""
MAX_CODED = 1280 * 720
"""Pixels of a frame that is coded anew: more than any model here looks at, and done within a minute."""
Bounds = tuple[Fraction | None, Fraction | None]
"""From and until when, in seconds of the file; None for no bound."""
SLACK = 5
"""Seconds by which the sound of a moment may lie before or after its picture in the file."""


def copy_stretch(path: Path, timeline: Timeline, span: tuple[int, int | None], out: Path, kind: str) -> None:
    """Writes a stretch of a video with its sound to a file of its own, without coding it anew.

    Every packet goes into the stretch in which it is shown or heard, so that stretches which meet
    neither lose nor double anything.

    Args:
        path: The video.
        timeline: Of the video.
        span: From the key frame shown at the first to before the one shown at the second, in ticks; the
            stretch that begins with the first frame takes what comes before as well, and the one that ends
            with None what comes after.
        out: Where to.
        kind: FFmpeg's name of the container.

    Raises:
        CorpusError: If the container does not take these streams, or they are damaged.
        OSError: If it cannot be written.
    """
    with open_video(path) as container, out.open("wb") as file, _writing():
        stream = video_stream(container)
        kept = [stream, *_sound(container)]
        with pyav().open(file, "w", format=kind, options=WRITE) as target:
            duplicates = {s.index: target.add_stream_from_template(s) for s in kept}
            for packet in _within(container, stream, kept, _bounds(timeline, span)):
                _move(packet, duplicates, span[0] * timeline.tick)
                target.mux(packet)


def code_stretch(path: Path, timeline: Timeline, span: tuple[int, int | None], out: Path, kind: str) -> None:
    """Writes a stretch of a video to a file of its own, its pictures coded anew as H.264, its sound copied.

    For stretches that begin or end at a key frame which frames reach across. Otherwise like
    `copy_stretch`. Pictures come out upright and with at most `MAX_CODED` pixels.
    """
    start, end = span
    frames = [pts for pts in timeline.shown if pts >= start and (end is None or pts < end)]
    with open_video(path) as container, open_video(path) as again, out.open("wb") as file, _writing():
        stream, sound = video_stream(container), _sound(again)
        with pyav().open(file, "w", format=kind, options=WRITE) as target:
            duplicates = {s.index: target.add_stream_from_template(s) for s in sound}
            packets = _within(
                again, video_stream(again), [video_stream(again), *sound], _bounds(timeline, span)
            )
            video = None
            for frame in decoded(container, stream, timeline, frames):
                picture = _fitting(frame, stream)
                video = video or _coder(target, picture, stream)
                picture.pts, picture.time_base = frame.pts - start, stream.time_base
                target.mux(video.encode(picture))
            target.mux(video.encode(None) if video else [])
            for packet in (packet for packet in packets if packet.stream.index in duplicates):
                _move(packet, duplicates, start * timeline.tick)
                target.mux(packet)


@contextmanager
def _writing() -> Generator[None]:
    """Turns what goes wrong with the video into a reason; what goes wrong with the disk stays as it is."""
    try:
        yield
    except (pyav().error.FFmpegError, ValueError) as error:
        raise CorpusError(f"The clip cannot be cut out: {cause(error)}.") from error


def _sound(container: Any) -> list[Any]:  # noqa: ANN401
    return [audio for audio in container.streams.audio if audio.codec_context is not None]


def _bounds(timeline: Timeline, span: tuple[int, int | None]) -> Bounds:
    start, end = span
    begin = None if start == timeline.first else start * timeline.tick
    return begin, None if end is None else end * timeline.tick


def _coder(target: Any, picture: Any, stream: Any) -> Any:  # noqa: ANN401
    """A stream of H.264 as large as a picture."""
    video = target.add_stream("libx264", rate=stream.average_rate or 25)
    video.width, video.height, video.pix_fmt = picture.width, picture.height, "yuv420p"
    video.options = {"preset": "veryfast", "crf": "21", "threads": "1"}
    video.codec_context.time_base = stream.time_base
    return video


def _fitting(frame: Any, stream: Any) -> Any:  # noqa: ANN401
    """A frame as H.264 takes it: upright, of even sides, not too large."""
    scale = min(1.0, (MAX_CODED / frame.width / frame.height) ** 0.5)
    if frame.rotation or stream.sample_aspect_ratio not in {None, 0, 1}:
        frame = pyav().VideoFrame.from_image(upright(frame, stream))
    width, height = (max(2, round(side * scale / 2) * 2) for side in (frame.width, frame.height))
    return frame.reformat(width=width, height=height, format="yuv420p")


def _within(container: Any, stream: Any, kept: list[Any], bounds: Bounds) -> Iterator[Any]:  # noqa: ANN401
    """The packets between two moments, as they lie in the file."""
    start, end = bounds
    for packet in _from(container, stream, kept, start):
        moment = moment_of(packet)
        if moment is None or not packet.size:
            continue
        seconds = moment * packet.time_base
        if end is not None and packet.stream is stream and seconds > end + SLACK:
            return
        if (start is None or seconds >= start) and (end is None or seconds < end):
            yield packet


def _from(container: Any, stream: Any, kept: list[Any], start: Fraction | None) -> Iterator[Any]:  # noqa: ANN401
    """The packets from a moment on, or from an earlier one."""
    if start is not None:
        with suppress(pyav().error.FFmpegError):
            container.seek(int((start - SLACK) / stream.time_base), stream=stream)
        packets = container.demux(*kept)
        early: list[Any] = []
        for packet in packets:
            early.append(packet)
            if packet.stream is stream and packet.pts is not None:
                break
        if early and early[-1].size and early[-1].pts * early[-1].time_base <= start:
            yield from early
            yield from packets
            return
        container.seek(0)  # the file's index is missing or wrong
    yield from container.demux(*kept)


def _move(packet: Any, duplicates: dict[int, Any], start: Fraction) -> None:  # noqa: ANN401
    """Puts a packet into its clip: its times count from the beginning of that."""
    ticks = round(start / packet.time_base)
    packet.pts = moment_of(packet) - ticks
    if packet.dts is not None:
        packet.dts -= ticks
    packet.stream = duplicates[packet.stream.index]
