"""Small videos whose frames say their own number, so that tests can tell which of them they see."""

from __future__ import annotations

import importlib
import io
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from PIL.Image import Image

BITS = 12
CELL = 12
WIDTH, HEIGHT = BITS * CELL, 64


@dataclass(frozen=True, kw_only=True)
class Film:
    """How a video is made. Times are in milliseconds."""

    kind: str = "mp4"
    codec: str = "libx264"
    times: Sequence[int] = range(0, 12_000, 100)
    key_every: int = 10
    """Frames from one key frame to the next."""
    sound: str = ""
    """Codec of a sound track; none when empty."""
    options: tuple[tuple[str, str], ...] = ()
    container: tuple[tuple[str, str], ...] = ()
    """Options of the container."""
    blank: frozenset[int] = frozenset()
    """Numbers of frames that are black."""
    size: tuple[int, int] = (WIDTH, HEIGHT)


def film_bytes(film: Film) -> bytes:
    """A video file in which frame n shows the number n as black and white bars."""
    av: Any = importlib.import_module("av")
    file = io.BytesIO()
    with av.open(file, "w", format=film.kind, options=dict(film.container)) as container:
        video = container.add_stream(film.codec, rate=10)
        video.width, video.height = film.size
        video.pix_fmt, video.gop_size = "yuv420p", film.key_every
        video.options = {"threads": "1", "sc_threshold": "0", **dict(film.options)}
        video.codec_context.time_base = Fraction(1, 1000)
        sound = container.add_stream(film.sound, rate=48_000) if film.sound else None
        heard = film.times[0] * 48
        for number, time in enumerate(film.times):
            frame = av.VideoFrame.from_ndarray(numbered(number, film), "rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            container.mux(video.encode(frame))
            while sound and heard < time * 48:
                container.mux(sound.encode(_silence(av, heard)))
                heard += 960
        container.mux(video.encode(None))
        if sound:
            container.mux(sound.encode(None))
    return file.getvalue()


def _silence(av: Any, start: int) -> Any:  # noqa: ANN401 - a library half typed
    frame = av.AudioFrame.from_ndarray(np.zeros((1, 960), np.float32), "fltp", "mono")
    frame.sample_rate, frame.pts, frame.time_base = 48_000, start, Fraction(1, 48_000)
    return frame


def numbered(number: int, film: Film) -> NDArray[np.uint8]:
    """A picture of bars: from the left, white for each bit of the number that is set, the lowest first."""
    width, height = film.size
    picture = np.zeros((height, width, 3), np.uint8)
    if number not in film.blank:
        for bit in range(BITS):
            picture[:, bit * width // BITS : (bit + 1) * width // BITS] = 230 * (number >> bit & 1)
    return picture


def number_of(picture: Image) -> int:
    """The number that a frame shows."""
    grey = np.asarray(picture.convert("L"), np.float64).mean(axis=0)
    cells = np.array_split(grey, BITS)
    return sum(1 << bit for bit, cell in enumerate(cells) if np.median(cell) > 110)


def sound_bytes(kind: str = "mp4", codec: str = "aac") -> bytes:
    """A file with a second of silence and no pictures."""
    av: Any = importlib.import_module("av")
    file = io.BytesIO()
    with av.open(file, "w", format=kind) as container:
        sound = container.add_stream(codec, rate=48_000)
        for start in range(0, 48_000, 960):
            container.mux(sound.encode(_silence(av, start)))
        container.mux(sound.encode(None))
    return file.getvalue()


def subtitled(film: Film, lines: Sequence[tuple[int, int, str]]) -> bytes:
    """A Matroska video with a track of subtitles, written element by element since PyAV encodes none.

    Args:
        film: The video; its kind must be matroska.
        lines: Start and end in milliseconds, and words.
    """
    av: Any = importlib.import_module("av")
    script = "".join(
        f"{n}\n{_clock(a)} --> {_clock(b)}\n{text}\n\n" for n, (a, b, text) in enumerate(lines, 1)
    )
    file = io.BytesIO()
    with (
        av.open(io.BytesIO(film_bytes(film))) as pictures,
        av.open(io.BytesIO(script.encode()), format="srt") as words,
        av.open(file, "w", format=film.kind) as target,
    ):
        twins = {id(s): target.add_stream_from_template(s) for s in (pictures.streams[0], words.streams[0])}
        for source in (pictures, words):
            for packet in source.demux():
                if packet.size:
                    packet.stream = twins[id(packet.stream)]
                    target.mux(packet)
    return file.getvalue()


def _clock(milliseconds: int) -> str:
    seconds, milliseconds = divmod(milliseconds, 1000)
    return f"00:{seconds // 60:02}:{seconds % 60:02},{milliseconds:03}"


def turned(data: bytes) -> bytes:
    """An MP4 file whose picture is to be shown turned by 90° clockwise, as phones write them."""
    one = 1 << 16
    straight = _matrix(one, 0, 0, 0, one, 0, 0, 0, 1 << 30)
    turn = _matrix(0, one, 0, -one, 0, 0, 0, 0, 1 << 30)
    at = data.index(straight, data.index(b"tkhd"))
    return data[:at] + turn + data[at + len(turn) :]


def _matrix(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "big", signed=True) for value in values)
