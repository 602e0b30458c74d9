"""The stage between converters and tables: every item gets its own vector, or a reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vrag.corpus.converter import Conversion, Converted, Failed, Finished, ItemCount, SourceFile
from vrag.embed.embedder import EmbedContent, Modality
from vrag.errors import EmbedderFailedError, EmbedError
from vrag.geometry import Size
from vrag.index.vectors import embed_items
from vrag.index.vectors.embed_items import MIN_BATCH, Embedded, content_of, embed_all
from vrag.testing import HashEmbedder, passage
from vrag.types import Clip, Item, ItemKind, TextSource, item_id

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from numpy.typing import NDArray

TEXT, IMAGE, VIDEO = Modality.TEXT, Modality.IMAGE, Modality.VIDEO


def usable_content(item: Item, folder: Path, modalities: set[Modality]) -> EmbedContent:
    """The content of an item that the embedder takes."""
    content = content_of(item, folder, modalities)
    assert content is not None
    return content


class Strict(HashEmbedder):
    """Refuses every batch in which a text says "bad"."""

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        if any("bad" in content.text for content in contents):
            raise EmbedError("That is bad.")
        return super().embed_items(contents)


def source(name: str) -> SourceFile:
    return SourceFile(Path(f"/{name}"), name.ljust(64, "0"), name, 1, 1)


def text_item(owner: SourceFile, ordinal: int, text: str) -> Item:
    return Item(
        id=item_id(owner.document, ordinal),
        document=owner.document,
        document_name=owner.name,
        kind=ItemKind.PASSAGE,
        ordinal=ordinal,
        text=text,
        text_source=TextSource.FILE,
    )


def stream(*conversions: Conversion) -> Generator[Conversion, None, None]:
    yield from conversions


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["fine", "bad", "well"])), max_size=50))
def test_each_item_comes_out_once_and_finished_comes_last(parts: list[tuple[str, str]]) -> None:
    sources = {name: source(name) for name in "abc"}
    made: list[Conversion] = [ItemCount(one, 99) for one in sources.values()]
    for number, (name, text) in enumerate(parts, 1):
        made.append(Converted(sources[name], text_item(sources[name], number, f"{text} {number}")))
        if all(later != name for later, _ in parts[number:]):
            made.append(Finished(sources[name]))
    embedder = Strict()

    out = list(embed_all(stream(*made), embedder, Path("/none")))

    embedded = {one.item.ordinal: one for one in out if isinstance(one, Embedded)}
    failed = {one.ordinal: one.reason for one in out if isinstance(one, Failed)}
    for number, (_, text) in enumerate(parts, 1):
        if text == "bad":
            assert "That is bad." in failed[number]
        else:
            (alone,) = embedder.embed_items([EmbedContent(text=f"{text} {number}")])
            assert np.array_equal(embedded[number].vector, alone)
    assert len(embedded) + len(failed) == len(parts)
    for place, one in enumerate(out):
        if isinstance(one, Finished):
            assert all(later.source is not one.source for later in out[place + 1 :])
    assert sum(isinstance(one, Finished) for one in out) == len({name for name, _ in parts})


def test_live_a_file_is_embedded_as_soon_as_it_is_finished() -> None:
    small, large = source("a"), source("b")
    made: list[Conversion] = [Converted(large, text_item(large, 1, "one"))]
    made += [Converted(small, text_item(small, 1, "two")), Finished(small)]
    made += [Converted(large, text_item(large, number, f"{number}")) for number in (2, 3)]
    out = [
        (one.source.name, type(one))
        for one in embed_all(stream(*made, Finished(large)), HashEmbedder(), Path("/none"), live=True)
    ]
    assert out.index(("a", Finished)) < out.index(("b", Finished)) - 2
    assert [name for name, kind in out if kind is Embedded] == ["b", "a", "b", "b"]


def test_a_batch_is_embedded_as_soon_as_it_is_full() -> None:
    owner = source("a")
    taken: list[int] = []

    def conversions() -> Generator[Conversion, None, None]:
        for number in range(1, 2 * MIN_BATCH + 1):
            taken.append(number)
            yield Converted(owner, text_item(owner, number, f"text {number}"))

    out = embed_all(conversions(), HashEmbedder(), Path("/none"))
    next(out)
    assert len(taken) == MIN_BATCH


class Recorded(HashEmbedder):
    """Says how many contents, of how many pixels, came together."""

    seen: ClassVar[list[tuple[int, int]]] = []

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        pictures = [content.image for content in contents if content.image is not None]
        self.seen.append((len(contents), sum(one.width * one.height for one in pictures)))
        return super().embed_items(contents)


def test_the_batch_is_that_of_the_embedder_where_that_is_larger() -> None:
    owner = source("a")
    items = [Converted(owner, text_item(owner, number, f"text {number}")) for number in range(1, 101)]
    for asked, sizes in ((1, [16] * 6 + [4]), (16, [16] * 6 + [4]), (40, [40, 40, 20])):
        Recorded.seen.clear()
        assert len(list(embed_all(stream(*items), Recorded(), Path("/none"), asked))) == 100
        assert [count for count, _ in Recorded.seen] == sizes


@given(st.lists(st.sampled_from([0, 1, 3, 10, 25]), max_size=40))
def test_pictures_wait_together_only_up_to_so_many_pixels(
    tmp_path_factory: pytest.TempPathFactory, widths: list[int]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "pictures"
    folder.mkdir(exist_ok=True)
    owner = source("a")
    made: list[Converted] = []
    for number, width in enumerate(widths, 1):
        if width and not (folder / f"{width}.png").exists():
            Image.new("RGB", (width, 1), "red").save(folder / f"{width}.png")
        item = text_item(owner, number, f"text {number}")
        made.append(Converted(owner, replace(item, image=f"{width}.png") if width else item))
    Recorded.seen.clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(embed_items, "_MAX_PIXELS", 20)
        out = list(embed_all(stream(*made), Recorded(), folder))
    assert [one.item.ordinal for one in out if isinstance(one, Embedded)] == list(range(1, len(widths) + 1))
    assert all(pixels <= 20 or count == 1 for count, pixels in Recorded.seen)
    for one in out:
        assert isinstance(one, Embedded)
        (alone,) = HashEmbedder().embed_items([usable_content(one.item, folder, {TEXT, IMAGE})])
        assert np.array_equal(one.vector, alone)


class Gone(HashEmbedder):
    """Its server goes away as soon as a text says "bad"."""

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        if any("bad" in content.text for content in contents):
            raise EmbedderFailedError("It does not answer.")
        return super().embed_items(contents)


def test_an_embedder_that_is_gone_costs_no_item() -> None:
    owner = source("a")
    texts = ["fine"] * MIN_BATCH + ["bad"] + ["fine"] * MIN_BATCH
    items = [Converted(owner, text_item(owner, number, text)) for number, text in enumerate(texts, 1)]
    out: list[object] = []
    with pytest.raises(EmbedderFailedError):
        out.extend(embed_all(stream(*items), Gone(), Path("/none")))
    assert len(out) == MIN_BATCH
    assert all(isinstance(one, Embedded) for one in out)


def test_closing_closes_the_converters() -> None:
    closed: list[bool] = []

    def conversions() -> Generator[Conversion, None, None]:
        try:
            yield ItemCount(source("a"), 1)
            yield Finished(source("a"))
        finally:
            closed.append(True)

    out = embed_all(conversions(), HashEmbedder(), Path("/none"))
    next(out)
    out.close()
    assert closed == [True]


class TestContent:
    @pytest.fixture
    def page(self, tmp_path: Path) -> Item:
        Image.new("L", (4, 3), 7).save(tmp_path / "1.png")
        return Item(
            id="a-1",
            document="a",
            document_name="a.pdf",
            kind=ItemKind.PAGE,
            ordinal=1,
            text="words",
            size=Size(4, 3),
            image="1.png",
        )

    def test_a_page_is_its_picture_where_pictures_are_understood(self, tmp_path: Path, page: Item) -> None:
        content = usable_content(page, tmp_path, {TEXT, IMAGE})
        assert content.modalities == {IMAGE}
        assert content.image is not None
        assert (content.image.mode, content.image.size) == ("RGB", (4, 3))

    def test_and_its_text_elsewhere(self, tmp_path: Path, page: Item) -> None:
        assert usable_content(page, tmp_path, {TEXT}).text == "words"

    def test_a_passage_stands_under_its_headings(self, tmp_path: Path) -> None:
        assert usable_content(passage("a.md", 1, "text"), tmp_path, {TEXT, IMAGE}).text == "text"

    def test_a_clip_is_its_video_or_else_a_frame_of_it(self, tmp_path: Path, page: Item) -> None:
        clip = Item(
            id="a-1",
            document="a",
            document_name="a.mp4",
            kind=ItemKind.CLIP,
            ordinal=1,
            size=page.size,
            image=page.image,
            clip=Clip("1.mp4", 0, 60),
        )
        assert usable_content(clip, tmp_path, {IMAGE, VIDEO}).video == tmp_path / "1.mp4"
        assert usable_content(clip, tmp_path, {IMAGE}).modalities == {IMAGE}
        assert content_of(clip, tmp_path, {TEXT}) is None

    def test_a_picture_that_is_gone_is_told(self, tmp_path: Path, page: Item) -> None:
        (tmp_path / "1.png").unlink()
        with pytest.raises(EmbedError, match="cannot be opened"):
            usable_content(page, tmp_path, {IMAGE})
