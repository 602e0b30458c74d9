"""Cutting of clips: a part of a video becomes a file of its own, copied or encoded again."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from vrag.corpus.formats.pyav import cause, decoded, moment_of, open_video, pyav, upright, video_stream
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import BinaryIO

    from vrag.corpus.formats.pyav import Timeline
    from vrag.corpus.sniff import Openable

WRITE_OPTIONS = {"fflags": "+bitexact"}
"""No time of day and no random ids in the output: the same bytes give the same clip."""
MAX_ENCODED_PIXELS = 1280 * 720
"""Size of a frame that is encoded again: more than any model here looks at, and done within a minute."""
Bounds = tuple[Fraction | None, Fraction | None]
"""Begin and end, in seconds of the file; None for no bound."""
MAX_OFFSET_SECONDS = 5
"""Maximum distance of the sound of a moment from its picture in the file."""


def copy_clip(
    path: Openable, timeline: Timeline, span: tuple[int, int | None], out: BinaryIO, kind: str
) -> None:
    """Copy a part of a video with its sound to an empty file, without encoding it again.

    Every packet goes into the clip in which it is shown or heard, so that adjacent clips neither lose nor
    double anything. A span goes from one key frame to before another, in ticks, with None for the end; the
    clip of the first frame also takes the packets before it. `kind` is FFmpeg's name of the container. Raises
    `CorpusError` if the container does not take these streams, or they are damaged, and `OSError` if it
    cannot be written.
    """
    with open_video(path) as container, _explain_errors():
        stream = video_stream(container)
        streams = [stream, *_audio_streams(container)]
        with pyav().open(out, "w", format=kind, options=WRITE_OPTIONS) as target:
            copies = {s.index: target.add_stream_from_template(s) for s in streams}
            for packet in _packets_within(container, stream, streams, _bounds(timeline, span)):
                _move(packet, copies, span[0] * timeline.tick)
                target.mux(packet)


def encode_clip(
    path: Openable, timeline: Timeline, span: tuple[int, int | None], out: BinaryIO, kind: str
) -> None:
    """Write a part of a video to an empty file, its frames encoded again as H.264, its sound copied.

    For clips that begin or end at a key frame which frames reach across. Otherwise like `copy_clip`.
    Frames come out upright and with at most `MAX_ENCODED_PIXELS`.
    """
    start, end = span
    times = [pts for pts in timeline.shown if pts >= start and (end is None or pts < end)]
    with open_video(path) as container, open_video(path) as again, _explain_errors():
        stream, audio = video_stream(container), _audio_streams(again)
        with pyav().open(out, "w", format=kind, options=WRITE_OPTIONS) as target:
            copies = {s.index: target.add_stream_from_template(s) for s in audio}
            again_video = video_stream(again)
            packets = _packets_within(again, again_video, [again_video, *audio], _bounds(timeline, span))
            encoder = None
            for frame in decoded(container, stream, timeline, times):
                # H.264 takes frames of even sides; these are upright, and not too large.
                scale = min(1.0, (MAX_ENCODED_PIXELS / frame.width / frame.height) ** 0.5)
                image = frame
                if frame.rotation or stream.sample_aspect_ratio not in {None, 0, 1}:
                    image = pyav().VideoFrame.from_image(upright(frame, stream))
                width, height = (max(2, round(side * scale / 2) * 2) for side in (image.width, image.height))
                image = image.reformat(width=width, height=height, format="yuv420p")
                if encoder is None:
                    encoder = target.add_stream("libx264", rate=stream.average_rate or 25)
                    encoder.width, encoder.height, encoder.pix_fmt = image.width, image.height, "yuv420p"
                    encoder.options = {"preset": "veryfast", "crf": "21", "threads": "1"}
                    encoder.codec_context.time_base = stream.time_base
                image.pts, image.time_base = frame.pts - start, stream.time_base
                target.mux(encoder.encode(image))
            target.mux(encoder.encode(None) if encoder else [])
            for packet in packets:
                if packet.stream.index in copies:
                    _move(packet, copies, start * timeline.tick)
                    target.mux(packet)


@contextmanager
def _explain_errors() -> Generator[None]:
    """Convert errors of the video to `CorpusError`; those of the disk stay `OSError`."""
    try:
        yield
    except (pyav().error.FFmpegError, ValueError) as error:
        raise CorpusError(f"The clip cannot be cut out: {cause(error)}.") from error


def _audio_streams(container: Any) -> list[Any]:  # noqa: ANN401
    return [audio for audio in container.streams.audio if audio.codec_context is not None]


def _bounds(timeline: Timeline, span: tuple[int, int | None]) -> Bounds:
    start, end = span
    begin = None if start == timeline.first else start * timeline.tick
    return begin, None if end is None else end * timeline.tick


def _packets_within(container: Any, stream: Any, streams: list[Any], bounds: Bounds) -> Iterator[Any]:  # noqa: ANN401
    """Yield the packets between two moments, in the order of the file."""
    start, end = bounds
    for packet in _packets_from(container, stream, streams, start):
        moment = moment_of(packet)
        if moment is None or not packet.size:
            continue
        seconds = moment * packet.time_base
        if end is not None and packet.stream is stream and seconds > end + MAX_OFFSET_SECONDS:
            return
        if (start is None or seconds >= start) and (end is None or seconds < end):
            yield packet


def _packets_from(container: Any, stream: Any, streams: list[Any], start: Fraction | None) -> Iterator[Any]:  # noqa: ANN401
    """Yield the packets from a moment on, or from an earlier one."""
    if start is not None:
        with suppress(pyav().error.FFmpegError):
            container.seek(int((start - MAX_OFFSET_SECONDS) / stream.time_base), stream=stream)
        packets = container.demux(*streams)
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
    yield from container.demux(*streams)


def _move(packet: Any, copies: dict[int, Any], start: Fraction) -> None:  # noqa: ANN401
    """Assign a packet to its clip; its times count from the beginning of the clip."""
    ticks = round(start / packet.time_base)
    packet.pts = moment_of(packet) - ticks
    if packet.dts is not None:
        packet.dts -= ticks
    packet.stream = copies[packet.stream.index]
