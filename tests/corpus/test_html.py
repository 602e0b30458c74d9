from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from corpus.image_files import png_bomb
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.html import HtmlFile
from vrag.corpus.formats.texts.html_tree import html_page
from vrag.corpus.pages.page_pass import PageReading
from vrag.corpus.workers.replies import TaskRejected
from vrag.corpus.workers.requests import Task
from vrag.corpus.workers.worker import OpenFileCache, run
from vrag.errors import CorpusError
from vrag.types import Item, ItemFacts, ItemKind, TextSource

if TYPE_CHECKING:
    from collections.abc import Sequence

Outcome = Item | str
"""An item, or the reason why there is none."""


def picture(color: str = "red", side: int = 40, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (side, side), color).save(file, kind)
    return file.getvalue()


def outcomes(folder: Path, html: str, name: str = "page.html") -> list[Outcome]:
    """What comes of each item of an HTML file, in order."""
    path = folder / name
    path.write_text(html, encoding="utf-8")
    context = ConversionContext(folder.parent / "items", CorpusOptions(ocr="never"))
    results: list[Outcome] = []
    with HtmlFile(read_source(path), context) as file:
        for ordinal in range(1, file.count + 1):
            try:
                results.append(file.item(ordinal))
            except CorpusError as error:
                results.append(str(error))
    return results


def pictures(results: Sequence[Outcome]) -> list[Item]:
    return [item for item in results if isinstance(item, Item) and item.kind is ItemKind.PAGE]


def colors(items: Path, results: Sequence[Outcome]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for item in pictures(results):
        with Image.open(items / str(item.image)) as image:
            pixel = image.convert("RGB").getpixel((5, 5))
            assert isinstance(pixel, tuple)
            found.append(tuple(int(value) for value in pixel))
    return found


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of an HTML file with a red picture, and a secret beside that folder."""
    folder = tmp_path / "site"
    (folder / "page files").mkdir(parents=True)
    (folder / "red.png").write_bytes(picture())
    (folder / "page files" / "blue größer.jpg").write_bytes(picture("blue", kind="JPEG"))
    (tmp_path / "secret.png").write_bytes(picture("green"))
    return folder


def test_pictures_follow_the_passages_with_their_description_and_headings(site: Path) -> None:
    results = outcomes(
        site,
        '<h1>Fleet</h1><p>Words.</p><img src="red.png" alt="A red  square"><h2>Harbour</h2><figure>'
        f'<img src="{quote("page files/blue größer.jpg")}?v=2#top">'
        "<figcaption>The <b>blue</b> one</figcaption></figure><p>After.</p>",
    )
    assert all(isinstance(result, Item) for result in results)
    red, blue = pictures(results)
    assert [red.ordinal, blue.ordinal] == [len(results) - 1, len(results)]
    assert (red.text, red.heading, red.text_source) == ("A red square", "Fleet", TextSource.FILE)
    assert (blue.text, blue.heading) == ("The blue one", "Fleet › Harbour")
    assert red.size
    assert (red.size.width, red.image) == (40, f"{red.document[:16]}/{red.ordinal}.png")
    assert colors(site.parent / "items", results)[0] == (255, 0, 0)


def test_pictures_within_the_file_are_read(site: Path) -> None:
    packed = base64.b64encode(picture("lime")).decode()
    results = outcomes(
        site,
        f'<img src="data:image/png;base64,{packed}"><img src=" DATA:image/png;BASE64,{quote(packed[:30])}\n'
        f'{packed[30:]}"><img src="data:image/png,{quote(picture("white"))}">',
    )
    assert colors(site.parent / "items", results) == [(0, 255, 0), (255, 255, 255)]


def test_a_picture_shown_twice_is_one_item(site: Path) -> None:
    assert (
        len(outcomes(site, '<img src="red.png"><img src="./red.png?x"><img src="page%20files/../red.png">'))
        == 1
    )


def test_text_in_the_picture_stands_before_its_description(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrag.corpus.formats.image.read_picture", _seen)
    path = site / "a.html"
    path.write_text('<img src="red.png" alt="described">')
    with HtmlFile(read_source(path), ConversionContext(site, CorpusOptions())) as file:
        item = file.item(2)
    assert (item.text, item.text_source) == ("seen words", TextSource.OCR)


def _seen(image: Image.Image, mode: str) -> PageReading:
    return PageReading("seen words", (), TextSource.OCR, ItemFacts())


@pytest.mark.parametrize(
    "reference",
    [
        "../secret.png",
        "page%20files/../../secret.png",
        "%2e%2e/secret.png",
        "%2E%2E%2Fsecret.png",
        "{root}/secret.png",
        "file://{root}/secret.png",
        "FILE:///{root}/secret.png",
        "link.png",
        "folder/secret.png",
        "/etc/hostname",
        "C:/secret.png",
        "..",
        ".",
    ],
)
def test_nothing_outside_of_the_folder_is_read(site: Path, reference: str) -> None:
    (site / "link.png").symlink_to(site.parent / "secret.png")
    (site / "folder").symlink_to(site.parent)
    root = str(site.parent)
    (reason, second) = outcomes(site, f'<p>Words stay.</p><img src="{reference.format(root=root)}">')[::-1]
    assert isinstance(second, Item)
    assert second.text == "Words stay."
    assert isinstance(reason, str)
    assert "outside" in reason or "regular file" in reason or "does not exist" in reason


@pytest.mark.parametrize(
    ("head", "reference"),
    [
        ("", "http://127.0.0.1:9/a.png"),
        ("", "HTTPS://example.org/a.png"),
        ("", "//example.org/a.png"),
        ("", "blob:abc"),
        ("", "cid:abc"),
        ("", "javascript:alert(1)"),
        ("", "\\\\host\\share\\a.png"),
        ('<base href="http://127.0.0.1:9/">', "red.png"),
        ('<base href="//host/">', "/red.png"),
        ("", ""),
    ],
)
def test_what_stands_elsewhere_is_left_out_and_its_description_kept(
    site: Path, head: str, reference: str
) -> None:
    (item,) = outcomes(site, f'{head}<p>Words.</p><img src="{reference}" alt="described">')
    assert isinstance(item, Item)
    assert "described" in item.text


def test_spacers_and_icons_are_left_out(site: Path) -> None:
    (site / "dot.gif").write_bytes(picture(side=1, kind="GIF"))
    (site / "icon.png").write_bytes(picture(side=16))
    assert len(outcomes(site, '<p>Words.</p><img src="dot.gif"><img src="icon.png">')) == 1


@pytest.mark.parametrize(
    "attributes",
    ["", 'alt=""', 'alt="logo" role="presentation"', 'alt="x" aria-hidden="true"', 'alt="Menu" width="24"'],
)
def test_a_missing_picture_that_decorates_is_left_out(site: Path, attributes: str) -> None:
    assert len(outcomes(site, f'<p>Words.</p><img src="gone.png" {attributes}>')) == 1


def test_a_side_of_any_length_is_read(site: Path) -> None:
    page = f'<p>Words.</p><img src="gone.png" alt="Menu" width="{"9" * 5000}">'
    assert any(isinstance(outcome, str) and "It is missing" in outcome for outcome in outcomes(site, page))


def test_a_missing_picture_with_a_caption_is_told(site: Path) -> None:
    page = '<p>Words.</p><figure><img src="gone.png"><figcaption>Fares by line</figcaption></figure>'
    assert any(isinstance(outcome, str) and "It is missing" in outcome for outcome in outcomes(site, page))


def test_a_base_within_the_folder_counts(site: Path) -> None:
    results = outcomes(site, '<base href="page%20files/"><img src="blue gr%C3%B6%C3%9Fer.jpg">')
    assert len(pictures(results)) == 1


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("gone.png", None, "It is missing"),
        ("text.png", b"no picture", "it seems to be text"),
        ("drawing.svg", b"<svg/>", "it seems to be text"),
        ("bomb.png", png_bomb(60_000, 60_000), "the limit is"),
        ("cut.png", picture(side=90)[:120], "damaged"),
        ("a\0b.png", None, "null"),
        ("x" * 5000, None, "too long"),
    ],
)
def test_a_picture_that_cannot_be_read_fails_alone_with_its_reason(
    site: Path, name: str, data: bytes | None, reason: str
) -> None:
    if data is not None:
        (site / name).write_bytes(data)
    image = f'<img src="{quote(name)}" alt="A map of the harbour">'
    text, failed, good = outcomes(site, f'<p>Words.</p>{image}<img src="red.png">')
    assert isinstance(text, Item)
    assert isinstance(good, Item)
    assert isinstance(failed, str)
    assert reason in failed
    assert quote(name)[:30] in failed


@pytest.mark.parametrize(
    "reference", ["data:", "data:image/png;base64,@@@", "data:image/png;base64,AAAA", "data:,"]
)
def test_bad_pictures_within_the_file_have_reasons(site: Path, reference: str) -> None:
    words, failed = outcomes(site, f'<p>Words.</p><img src="{reference}">')
    assert isinstance(words, Item)
    assert isinstance(failed, str)


@pytest.mark.skipif(os.name != "posix", reason="makes a pipe")
def test_a_pipe_in_place_of_a_picture_does_not_hang(site: Path) -> None:
    os.mkfifo(site / "pipe.png")
    _, failed = outcomes(site, '<p>Words.</p><img src="pipe.png">')
    assert isinstance(failed, str)
    assert "regular file" in failed


def test_a_file_without_words_and_pictures_is_refused(site: Path) -> None:
    with pytest.raises(CorpusError, match="neither text nor a picture"):
        outcomes(site, "<p></p><img src='http://host/a.png'>")


def test_a_changed_picture_counts_when_the_html_file_changes(site: Path) -> None:
    html = '<img src="red.png">'
    (before,) = outcomes(site, html)
    (site / "red.png").write_bytes(picture("yellow"))
    (same,) = outcomes(site, html)
    (after,) = outcomes(site, html + "<!-- mended -->")
    assert isinstance(before, Item)
    assert isinstance(same, Item)
    assert isinstance(after, Item)
    assert before.id == same.id != after.id


@given(st.text(alphabet='<>/"= abfigureimgsrcdatalt:;,%.h1', max_size=200))
def test_html_of_any_kind_gives_figures_and_never_raises(text: str) -> None:
    _, figures, _ = html_page(text)
    assert all(figure.reference for figure in figures)


@given(reference=st.text(max_size=60))
def test_references_of_any_kind_never_raise(tmp_path_factory: pytest.TempPathFactory, reference: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    quoted = reference.replace("&", "&amp;").replace('"', "&quot;").encode("utf-8", "replace").decode()
    path = folder / "a.html"
    path.write_text(f'<p>{"Words " * 800}</p><img src="{quoted}"><img src="data:{quoted}">', encoding="utf-8")
    options = CorpusOptions(ocr="never")
    task = Task(HtmlFile, read_source(path), options, None)
    for message in run(task, ConversionContext(folder, options), OpenFileCache()):
        assert not isinstance(message, TaskRejected) or message.ordinal
