from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from corpus.image_files import png_bomb
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.image import ImageFile, drop_colors, to_image
from vrag.errors import CorpusError, FileTooLargeError
from vrag.types import ItemKind, TextSource

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.types import Item

OPTIONS = CorpusOptions(ocr="never")


def items_of(path: Path, options: CorpusOptions = OPTIONS) -> list[Item]:
    with ImageFile(read_source(path), ConversionContext(path.parent / "items", options)) as file:
        return [file.item(ordinal) for ordinal in range(1, file.count + 1)]


def stored(path: Path, item: Item) -> Image.Image:
    assert item.image
    with Image.open(path.parent / "items" / item.image) as picture:
        picture.load()
        assert picture.size == item.size
        return picture.convert("RGB")


def corners() -> Image.Image:
    """Red at the top left, blue elsewhere: shows every turn and mirror."""
    picture = Image.new("RGB", (40, 20), "blue")
    picture.paste("red", (0, 0, 10, 10))
    return picture


@pytest.mark.parametrize("place", [(0, 0), (199, 30), (101, 7)])
def test_a_single_coloured_pixel_keeps_the_colours_of_a_picture(place: tuple[int, int]) -> None:
    levels = np.arange(200 * 31, dtype=np.uint32).reshape(200, 31) % 256
    pixels = np.full((200, 31, 4), 255, np.uint8)
    pixels[:, :, :3] = levels[:, :, np.newaxis]
    assert np.array_equal(drop_colors(pixels), levels)
    assert to_image(drop_colors(pixels)).mode == "L"
    pixels[(*place, 2)] ^= 1
    assert drop_colors(pixels) is pixels
    assert to_image(pixels).convert("RGB").getpixel((place[1], place[0])) == tuple(pixels[place][:3].tolist())


@pytest.mark.parametrize("suffix", ["png", "jpg", "jpeg", "webp", "tif", "tiff", "bmp", "gif", "PNG"])
def test_every_format_gives_one_page_with_the_same_colours(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    corners().save(path, quality=95)
    (item,) = items_of(path)
    assert item.kind is ItemKind.PAGE
    assert item.text_source is TextSource.NONE
    pixels = np.asarray(stored(path, item), dtype=int)
    assert np.abs(pixels[3, 3] - [255, 0, 0]).max() < 40
    assert np.abs(pixels[15, 30] - [0, 0, 255]).max() < 40


@pytest.mark.parametrize(
    ("orientation", "red"),
    [
        (1, (3, 3)),
        (2, (3, 36)),
        (3, (16, 36)),
        (4, (16, 3)),
        (5, (3, 3)),
        (6, (3, 16)),
        (7, (36, 16)),
        (8, (36, 3)),
    ],
)
def test_exif_orientation_is_applied(tmp_path: Path, orientation: int, red: tuple[int, int]) -> None:
    path = tmp_path / "a.jpg"
    exif = Image.Exif()
    exif[0x0112] = orientation
    corners().save(path, exif=exif, quality=95)
    (item,) = items_of(path)
    pixels = np.asarray(stored(path, item))
    assert item.size == ((40, 20) if orientation < 5 else (20, 40))
    assert pixels[red][0] > 200 > pixels[red][2]


def test_what_is_transparent_becomes_white(tmp_path: Path) -> None:
    for number, mode in enumerate(("RGBA", "LA", "P")):
        path = tmp_path / f"{number}.png"
        picture = Image.new("RGBA", (20, 20), (0, 0, 0, 0))
        picture.paste((255, 0, 0, 255), (10, 0, 20, 20))
        picture.convert(mode).save(path, transparency=0 if mode == "P" else None)
        (item,) = items_of(path)
        pixels = stored(path, item)
        assert pixels.getpixel((2, 2)) == (255, 255, 255) or mode == "P"
        assert pixels.getpixel((15, 2)) != (255, 255, 255)


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "YCbCr", "LAB", "I;16", "I", "F"])
def test_every_mode_keeps_light_and_dark_apart(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "a.tif"
    picture = Image.new("L", (20, 20), 0)
    picture.paste(255, (10, 0, 20, 20))
    if mode == "I;16":
        picture = Image.fromarray(np.asarray(picture, dtype=np.uint16) * 257)
    elif mode == "LAB":
        neutral = Image.new("L", picture.size, 128)
        picture = Image.merge("LAB", (picture, neutral, neutral))
    else:
        picture = picture.convert("RGB").convert(mode) if mode in {"YCbCr", "CMYK"} else picture.convert(mode)
    assert picture is not None
    picture.save(path)
    (item,) = items_of(path)
    grey = np.asarray(stored(path, item).convert("L"))
    assert grey[:, 2:8].max() < 30
    assert grey[:, 12:18].min() > 225


def test_each_frame_of_a_tiff_is_an_item_and_only_the_first_of_a_gif(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (20, 20 + 2 * n), (80 * n, 0, 0)) for n in range(3)]
    for name, count in (("a.tiff", 3), ("a.gif", 1)):
        path = tmp_path / name
        frames[0].save(path, save_all=True, append_images=frames[1:])
        items = items_of(path)
        assert len(items) == count
        assert [item.ordinal for item in items] == list(range(1, count + 1))
    assert [item.size for item in items_of(tmp_path / "a.tiff")] == [(20, 20), (20, 22), (20, 24)]


@pytest.mark.parametrize(("width", "height"), [(100_000, 100_000), (1_000_000, 51), (7072, 7072)])
def test_bombs_are_refused_by_their_header(tmp_path: Path, width: int, height: int) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png_bomb(width, height))
    with pytest.raises(FileTooLargeError, match=f"{width:,} × {height:,}"):
        items_of(path)


@pytest.mark.parametrize(("size", "reason"), [((7, 100), "shorter than 8"), ((10, 2001), "200 times")])
def test_shapes_that_no_model_accepts_are_refused(tmp_path: Path, size: tuple[int, int], reason: str) -> None:
    path = tmp_path / "a.png"
    Image.new("RGB", size).save(path)
    with pytest.raises(CorpusError, match=reason):
        items_of(path)


def test_a_pdf_named_jpg_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(b"%PDF-1.7 and so on")
    with pytest.raises(CorpusError, match="PDF file"):
        items_of(path)


def test_a_png_named_jpg_is_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    corners().save(path, "PNG")
    assert len(items_of(path)) == 1


def test_a_truncated_picture_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.effect_noise((100, 100), 50).save(path)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(CorpusError, match="damaged"):
        items_of(path)


def test_drawings_are_stored_without_loss_and_photographs_as_jpeg(tmp_path: Path) -> None:
    drawing, photograph = tmp_path / "a.png", tmp_path / "b.jpg"
    corners().save(drawing)
    Image.effect_noise((200, 200), 50).save(photograph)
    (first,), (second,) = items_of(drawing), items_of(photograph)
    assert first.image
    assert first.image.endswith(".png")
    assert second.image
    assert second.image.endswith(".jpg")
