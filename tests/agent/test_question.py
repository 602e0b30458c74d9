"""What a run is asked: pictures are opened safely, histories do not grow without end."""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from vrag.agent.question import (
    MAX_CHARACTERS,
    MAX_EXCHANGES,
    MAX_HISTORY,
    MAX_PIXELS,
    PreviousTurn,
    Question,
    QuestionImage,
    bounded,
)
from vrag.errors import CorpusError, FileTooLargeError, UnsupportedFormatError, VragError
from vrag.geometry import MAX_ASPECT
from vrag.model_profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import Sequence

RED, BLUE, WHITE = (200, 0, 0), (0, 0, 200), (255, 255, 255)


def halves(width: int = 64, height: int = 48, mode: str = "RGB") -> Image.Image:
    """Red on the left, blue on the right."""
    image = Image.new("RGB", (width, height), BLUE)
    ImageDraw.Draw(image).rectangle((0, 0, width // 2 - 1, height), fill=RED)
    return image.convert(mode)


def file_of(image: Image.Image, format: str, **options: Any) -> bytes:  # noqa: ANN401 - of Pillow
    buffer = io.BytesIO()
    image.save(buffer, format=format, **options)
    return buffer.getvalue()


def opened(attached: QuestionImage) -> Image.Image:
    return Image.open(io.BytesIO(attached.jpeg))


def near(pixel: Any, colour: Sequence[int]) -> bool:  # noqa: ANN401 - whatever Pillow gives
    return all(abs(a - b) < 12 for a, b in zip(pixel, colour, strict=True))


def png_header(width: int, height: int) -> bytes:
    """A PNG file that says how large it is and holds next to nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"\0" * 64)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_a_picture_becomes_a_jpeg_file_whose_hash_and_size_are_told(format: str) -> None:
    attached = QuestionImage.of(file_of(halves(), format))
    image = opened(attached)
    assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (64, 48))
    assert attached.size == (64, 48)
    assert attached.sha256 == hashlib.sha256(attached.jpeg).hexdigest()
    assert near(image.getpixel((10, 20)), RED)
    assert near(image.getpixel((50, 20)), BLUE)


@pytest.mark.parametrize("mode", ["L", "1", "P", "LA", "RGBA", "I;16"])
def test_every_kind_of_png_becomes_rgb(mode: str) -> None:
    grey = mode in {"I;16", "LA"}
    image = Image.new(mode, (40, 40)) if grey else halves(40, 40, mode)
    assert opened(QuestionImage.of(file_of(image, "PNG"))).mode == "RGB"


def test_a_jpeg_in_printers_colours_becomes_rgb() -> None:
    assert opened(QuestionImage.of(file_of(halves(mode="CMYK"), "JPEG"))).mode == "RGB"


def test_a_photograph_is_turned_upright_and_keeps_nothing_that_its_camera_wrote() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    exif[0x010F] = "a camera that tells where it was"
    attached = QuestionImage.of(file_of(halves(), "JPEG", exif=exif.tobytes()))
    assert attached.size == (48, 64)
    assert near(opened(attached).getpixel((20, 10)), RED)
    assert near(opened(attached).getpixel((20, 50)), BLUE)
    assert b"camera" not in attached.jpeg
    assert not opened(attached).getexif()


def test_what_is_transparent_becomes_white() -> None:
    image = Image.new("RGBA", (40, 40), (*RED, 0))
    image.paste((*BLUE, 255), (20, 0, 40, 40))
    shown = opened(QuestionImage.of(file_of(image, "PNG")))
    assert near(shown.getpixel((5, 20)), WHITE)
    assert near(shown.getpixel((35, 20)), BLUE)


def test_of_a_moving_picture_the_first_frame_is_taken() -> None:
    frames = [Image.new("RGB", (40, 40), colour) for colour in (RED, BLUE)]
    data = file_of(frames[0], "WEBP", save_all=True, append_images=frames[1:])
    assert near(opened(QuestionImage.of(data)).getpixel((20, 20)), RED)


def test_colours_are_kept_at_full_resolution() -> None:
    """4:4:4 at quality 90, like every picture that a model is shown."""
    jpeg = QuestionImage.of(file_of(halves(), "PNG")).jpeg
    at = jpeg.index(b"\xff\xc0")
    components = [jpeg[at + 10 + 3 * n : at + 13 + 3 * n] for n in range(3)]
    assert [component[1] for component in components] == [0x11, 0x11, 0x11]


@pytest.mark.parametrize("format", ["GIF", "TIFF", "BMP"])
def test_other_formats_are_refused_with_what_to_do(format: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=format) as refused:
        QuestionImage.of(file_of(halves(), format))
    assert "JPEG, PNG or WebP" in refused.value.hint


@pytest.mark.parametrize(
    "data",
    [b"", b"no picture", b"%PDF-1.7\n", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"\xff\xd8\xff"],
    ids=["empty", "text", "pdf", "svg", "three bytes of a jpeg"],
)
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(CorpusError):
        QuestionImage.of(data)


def test_a_picture_that_ends_early_is_refused() -> None:
    whole = file_of(halves(400, 300), "PNG")
    with pytest.raises(CorpusError):
        QuestionImage.of(whole[: len(whole) // 2])


def test_a_decompression_bomb_is_refused_by_its_header() -> None:
    with pytest.raises(FileTooLargeError, match="50,000,000"):
        QuestionImage.of(png_header(60_000, 60_000))


@pytest.mark.parametrize("size", [(4000, 10), (7, 100)])
def test_shapes_that_no_model_accepts_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(CorpusError, match="pixels"):
        QuestionImage.of(file_of(Image.new("RGB", size), "PNG"))


@pytest.mark.parametrize("size", [(4000, 3000), (29_999, 150), (150, 29_999), (2049, 2048)])
def test_large_pictures_are_made_smaller_in_their_proportions(size: tuple[int, int]) -> None:
    attached = QuestionImage.of(file_of(Image.new("RGB", size, BLUE), "PNG"))
    assert MAX_PIXELS * 0.95 < attached.size.area <= MAX_PIXELS
    assert attached.width / attached.height == pytest.approx(size[0] / size[1], rel=0.02)
    assert max(attached.size) <= MAX_ASPECT * min(attached.size)
    for profile in PROFILES.values():
        assert profile.shown_size(attached.size)


def test_the_same_file_gives_the_same_picture() -> None:
    data = file_of(halves(3000, 2000), "JPEG")
    assert QuestionImage.of(data) == QuestionImage.of(data)


JPEG, PNG, WEBP = file_of(halves(), "JPEG"), file_of(halves(), "PNG"), file_of(halves(), "WEBP")


@given(
    st.sampled_from([JPEG, PNG, WEBP]),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=12),
    st.integers(0, 2000),
)
@example(PNG, [], 40)
def test_damaged_files_are_refused_and_nothing_else_happens(
    data: bytes, changes: list[tuple[int, int]], end: int
) -> None:
    damaged = bytearray(data)
    for at, value in changes:
        damaged[at % len(damaged)] = value
    with suppress(CorpusError):
        assert opened(QuestionImage.of(bytes(damaged[: max(end, 20)]))).mode == "RGB"


def test_every_refusal_is_an_error_that_people_can_act_on() -> None:
    with pytest.raises(VragError) as refused:
        QuestionImage.of(b"?")
    assert str(refused.value).endswith(".")


def test_a_question_is_asked_without_the_blanks_around_it() -> None:
    assert Question.of("  Why?\n") == Question("Why?")
    assert Question.of(Question(" Why? ", session="a")) == Question("Why?", session="a")


@pytest.mark.parametrize("empty", ["", "  ", "\n\t", Question(" ")])
def test_an_empty_question_is_refused(empty: str | Question) -> None:
    with pytest.raises(ValueError, match="empty"):
        Question.of(empty)


def test_what_no_file_can_carry_is_replaced() -> None:
    asked = Question.of(Question("\ud800?", (PreviousTurn("\udfff", "\ud83d"),)))
    assert asked == Question("??", (PreviousTurn("?", "?"),))


exchanges = st.builds(
    PreviousTurn,
    st.text(max_size=30) | st.text(min_size=990, max_size=1400),
    st.none() | st.text(max_size=30) | st.text("xy \n", min_size=990, max_size=4000),
)


@given(st.lists(exchanges, max_size=14).map(tuple))
def test_a_history_is_the_end_of_what_was_said_within_its_limits(history: tuple[PreviousTurn, ...]) -> None:
    told = bounded(history)
    assert bounded(told) == told
    assert len(told) <= MAX_EXCHANGES
    lengths = [(len(one.question), len(one.answer or "")) for one in told]
    assert all(max(pair) <= MAX_CHARACTERS for pair in lengths)
    assert sum(map(sum, lengths)) <= MAX_HISTORY
    said = [one for one in history if one.question.strip() or (one.answer or "").strip()]
    for short, long in zip(reversed(told), reversed(said), strict=False):
        begun = short.question.removesuffix("…").encode("utf-8", "replace").decode()
        assert long.question.strip().encode("utf-8", "replace").decode().startswith(begun)
        assert (short.answer is None) == (not (long.answer or "").strip())


def test_of_a_long_history_the_newest_is_kept() -> None:
    history = tuple(PreviousTurn(f"Question {number}?", "a" * 5000) for number in range(100))
    told = bounded(history)
    assert [one.question for one in told] == [f"Question {number}?" for number in range(93, 100)]
    assert all(one.answer and one.answer.endswith("a…") for one in told)


def test_short_exchanges_are_bounded_by_their_number() -> None:
    told = bounded(tuple(PreviousTurn(f"{number}?", None) for number in range(30)))
    assert [one.question for one in told] == [f"{number}?" for number in range(20, 30)]
