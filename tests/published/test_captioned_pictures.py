"""A picture with title and caption is one page when it is read as a document: the picture, and the words."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from document_sets import picture
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.html import HtmlFile
from vrag.corpus.formats.texts.html_tree import html_page
from vrag.corpus.sniff import drop_invisible
from vrag.datasets.files.documents import image_card
from vrag.types import ItemKind, TextSource

if TYPE_CHECKING:
    from vrag.types import Item


WIDE = picture(size=(80, 60))


def read(folder: Path, data: bytes | None, title: str, caption: str) -> list[Item]:
    """The items of the file."""
    path = folder / "eagle.html"
    path.write_bytes(b"".join(image_card(data, title, caption)))
    with HtmlFile(read_source(path), ConversionContext(folder / "items", CorpusOptions(ocr="never"))) as file:
        return [file.item(ordinal) for ordinal in range(1, file.count + 1)]


@pytest.mark.parametrize("format", ["JPEG", "PNG", "GIF", "WEBP", "BMP"])
def test_a_picture_is_one_page_with_its_title_and_caption_as_text(tmp_path: Path, format: str) -> None:
    (item,) = read(tmp_path, picture(10, (80, 60), format), "Eagle", 'An "eagle" <b>\n& more')

    assert (item.kind, item.ordinal, item.heading) == (ItemKind.PAGE, 1, "")
    assert (item.text, item.text_source) == ('Eagle: An "eagle" <b> & more', TextSource.FILE)
    with Image.open(tmp_path / "items" / str(item.image)) as image:
        assert image.size == (80, 60)
        level = image.convert("L").getpixel((40, 30))
        assert isinstance(level, int | float)
        assert abs(level - 10) < 4


@pytest.mark.parametrize(("title", "caption"), [("Eagle", " "), ("", "Eagle"), (" Eagle", "Eagle\n")])
def test_words_are_said_once(tmp_path: Path, title: str, caption: str) -> None:
    assert [item.text for item in read(tmp_path, picture(size=(80, 60)), title, caption)] == ["Eagle"]


@pytest.mark.parametrize("data", [None, b"", b"no picture", picture(size=(80, 8))])
def test_what_cannot_be_shown_is_a_passage(tmp_path: Path, data: bytes | None) -> None:
    (item,) = read(tmp_path, data, "Eagle", "An eagle")

    assert (item.kind, item.text) == (ItemKind.PASSAGE, "Eagle: An eagle")


def test_without_anything_there_is_a_passage_all_the_same(tmp_path: Path) -> None:
    assert [item.text for item in read(tmp_path, None, "", "")] == ["…"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(title=st.text(max_size=30), caption=st.text(max_size=30))
@example(title="", caption="0|")
@example(title="|", caption=" | |")
@example(title="a", caption="soft\u00adhyphen")
def test_any_words_are_read_as_they_are(title: str, caption: str) -> None:
    told = list(dict.fromkeys(filter(None, (_line(title), _line(caption)))))
    pages = [b"".join(image_card(data, title, caption)).decode() for data in (None, WIDE)]
    ((passage,), none, _), (empty, (figure,), _) = map(html_page, pages)

    assert (none, [section.text for section in empty]) == ([], [""])
    assert passage.text == figure.text == (": ".join(told) or "…")


def _line(text: str) -> str:
    text = drop_invisible(text)
    return " ".join("".join(" " if unicodedata.category(sign) == "Cc" else sign for sign in text).split())
