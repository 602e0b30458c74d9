"""The stage between converters and tables: every item gets its own vector, or a reason."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vrag.corpus.base import Conversion, Converted, Counted, Failed, Finished, Source
from vrag.embed.base import Content, Modality
from vrag.errors import EmbedError
from vrag.geometry import Size
from vrag.index.embedding import BATCH, Embedded, content_of, embed_all
from vrag.testing import HashEmbedder, passage
from vrag.types import Clip, Item, ItemKind, TextSource, item_id

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from numpy.typing import NDArray

TEXT, IMAGE, VIDEO = Modality.TEXT, Modality.IMAGE, Modality.VIDEO


class Strict(HashEmbedder):
    """Refuses every batch in which a text says "bad"."""

    def embed_items(self, contents: Sequence[Content]) -> Sequence[NDArray[np.float32]]:
        if any("bad" in content.text for content in contents):
            raise EmbedError("That is bad.")
        return super().embed_items(contents)


def source(name: str) -> Source:
    return Source(Path(f"/{name}"), name.ljust(64, "0"), name, 1, 1)


def text_item(owner: Source, ordinal: int, text: str) -> Item:
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
    made: list[Conversion] = [Counted(one, 99) for one in sources.values()]
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
            (alone,) = embedder.embed_items([Content(text=f"{text} {number}")])
            assert np.array_equal(embedded[number].vector, alone)
    assert len(embedded) + len(failed) == len(parts)
    for place, one in enumerate(out):
        if isinstance(one, Finished):
            assert all(later.source is not one.source for later in out[place + 1 :])
    assert sum(isinstance(one, Finished) for one in out) == len({name for name, _ in parts})


def test_a_batch_is_embedded_as_soon_as_it_is_full() -> None:
    owner = source("a")
    taken: list[int] = []

    def conversions() -> Generator[Conversion, None, None]:
        for number in range(1, 2 * BATCH + 1):
            taken.append(number)
            yield Converted(owner, text_item(owner, number, f"text {number}"))

    out = embed_all(conversions(), HashEmbedder(), Path("/none"))
    next(out)
    assert len(taken) == BATCH


def test_closing_closes_the_converters() -> None:
    closed: list[bool] = []

    def conversions() -> Generator[Conversion, None, None]:
        try:
            yield Counted(source("a"), 1)
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
        content = content_of(page, tmp_path, {TEXT, IMAGE})
        assert content.modalities == {IMAGE}
        assert content.image is not None
        assert (content.image.mode, content.image.size) == ("RGB", (4, 3))

    def test_and_its_text_elsewhere(self, tmp_path: Path, page: Item) -> None:
        assert content_of(page, tmp_path, {TEXT}).text == "words"

    def test_a_passage_stands_under_its_headings(self, tmp_path: Path) -> None:
        assert content_of(passage("a.md", 1, "text"), tmp_path, {TEXT, IMAGE}).text == "text"

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
        assert content_of(clip, tmp_path, {IMAGE, VIDEO}).video == tmp_path / "1.mp4"
        assert content_of(clip, tmp_path, {IMAGE}).modalities == {IMAGE}
        with pytest.raises(EmbedError, match=r"nothing.*\(text\)"):
            content_of(clip, tmp_path, {TEXT})

    def test_a_picture_that_is_gone_is_told(self, tmp_path: Path, page: Item) -> None:
        (tmp_path / "1.png").unlink()
        with pytest.raises(EmbedError, match="cannot be opened"):
            content_of(page, tmp_path, {IMAGE})
