"""Every searcher shows pictures as small as they may be, and the frames of clips."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest
from corpus.video_files import Film, film_bytes, number_of
from extras import require
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from stored_items import blob_path

from vrag.corpus.converter import CorpusOptions
from vrag.errors import CollectionError, MissingExtra, SearchError, ServerError
from vrag.geometry import Size
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.search import client as client_module
from vrag.search.client import SearchClient
from vrag.search.engine import Engine
from vrag.search.multi import MultiSearcher
from vrag.search.rerank import Reranked
from vrag.server.app import create_app
from vrag.server.http.uvicorn_server import listen, make_server
from vrag.server.item_files import CollectionFiles
from vrag.server.options import ServerOptions
from vrag.testing import MemorySearcher, clip, page, passage
from vrag.types import Item, ItemKind

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from vrag.embed.embedder import EmbedContent, Modality
    from vrag.search.searcher import Searcher

require("video", "av")

LARGE = (1403, 992)
"""Odd sides, so that halves are rounded."""


class NoReranker:
    name = "none"
    modalities: frozenset[Modality] = frozenset()

    def score(self, query: str, contents: Sequence[EmbedContent]) -> Sequence[float]:
        raise NotImplementedError


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """A photograph, a diagram, a note and a video of twelve seconds in clips of four."""
    folder = tmp_path_factory.mktemp("files")
    shade = np.linspace(0, 255, LARGE[0], dtype=np.uint8)
    noise = np.random.default_rng(1).integers(0, 60, (LARGE[1], LARGE[0], 3), dtype=np.uint8)
    Image.fromarray(noise + shade[None, :, None] // 2).save(folder / "photo.jpg", quality=90)
    Image.new("RGB", (300, 200), "navy").save(folder / "diagram.png")
    (folder / "note.md").write_text("# Ferries\n\nThe ferry sails at noon.")
    (folder / "film.mp4").write_bytes(film_bytes(Film()))
    made = Collection.create(
        tmp_path_factory.mktemp("collection") / "c", CorpusOptions(ocr="never", workers=1, clip_seconds=4)
    )
    report = add(made, [folder])
    assert report.failed == 0, report
    return made


def items(collection: Collection, kind: ItemKind) -> list[Item]:
    found = collection.items(collection.store.read_items(["id"]).column("id")).values()
    return sorted((item for item in found if item.kind is kind), key=lambda item: item.ordinal)


def photo(collection: Collection) -> Item:
    return next(item for item in items(collection, ItemKind.PAGE) if item.document_name == "photo.jpg")


@contextlib.contextmanager
def served(collection: Collection) -> Generator[SearchClient]:
    app = create_app(Engine(collection), ServerOptions(), files=CollectionFiles([collection]))
    ready = threading.Event()
    server = make_server(app, ServerOptions(), ready.set)
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            assert ready.wait(20)
            with SearchClient(f"http://127.0.0.1:{listening.getsockname()[1]}") as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(40)


@pytest.fixture(scope="module", params=["engine", "several", "reranked", "client"])
def searcher(request: pytest.FixtureRequest, collection: Collection) -> Generator[Searcher]:
    match request.param:
        case "engine":
            yield Engine(collection)
        case "several":
            yield MultiSearcher({"c": Engine(collection)})
        case "reranked":
            yield Reranked(Engine(collection), NoReranker())
        case _:
            with served(collection) as client:
                yield client


class TestSmallerPictures:
    @pytest.mark.parametrize(
        ("least", "expected"),
        [
            ((1403, 992), (1403, 992)),
            ((702, 497), (1403, 992)),
            ((701, 496), (702, 496)),
            ((10, 496), (702, 496)),
            ((351, 10), (702, 496)),
            ((350, 248), (351, 248)),
            ((175, 124), (176, 124)),
            ((1, 1), (176, 124)),
            ((9000, 1), (1403, 992)),
        ],
    )
    def test_have_the_sides_that_libjpeg_decodes_at(
        self, searcher: Searcher, collection: Collection, least: tuple[int, int], expected: tuple[int, int]
    ) -> None:
        assert searcher.image(photo(collection).id, least=Size(*least)).size == expected

    @settings(max_examples=30, deadline=None)
    @given(st.integers(1, 1500), st.integers(1, 1100))
    def test_are_never_smaller_than_asked_for(self, collection: Collection, width: int, height: int) -> None:
        shown = Engine(collection).image(photo(collection).id, least=Size(width, height))
        assert shown.width >= min(width, LARGE[0])
        assert shown.height >= min(height, LARGE[1])

    def test_show_the_whole_picture(self, searcher: Searcher, collection: Collection) -> None:
        whole = searcher.image(photo(collection).id).resize((40, 30), Image.Resampling.BOX)
        small = searcher.image(photo(collection).id, least=Size(300, 200)).resize(
            (40, 30), Image.Resampling.BOX
        )
        assert np.abs(np.asarray(whole, float) - np.asarray(small, float)).mean() < 3

    def test_are_the_same_each_time_and_everywhere(self, searcher: Searcher, collection: Collection) -> None:
        shown = [searcher.image(photo(collection).id, least=Size(300, 200)).tobytes() for _ in range(2)]
        assert shown == [Engine(collection).image(photo(collection).id, least=Size(300, 200)).tobytes()] * 2

    def test_without_a_least_size_they_are_in_full(self, searcher: Searcher, collection: Collection) -> None:
        assert searcher.image(photo(collection).id).size == LARGE

    def test_those_without_loss_stay_in_full(self, searcher: Searcher, collection: Collection) -> None:
        diagram = next(i for i in items(collection, ItemKind.PAGE) if i.document_name == "diagram.png")
        assert searcher.image(diagram.id, least=Size(3, 2)).size == (300, 200)


class TestFrames:
    def test_are_those_of_the_clip_with_the_times_of_the_video(
        self, searcher: Searcher, collection: Collection
    ) -> None:
        clips = items(collection, ItemKind.CLIP)
        assert [clip.clip.start for clip in clips if clip.clip] == [0, 4, 8]
        for one in clips:
            found = searcher.frames(one.id, fps=1, most=32)
            start = one.clip.start if one.clip else -1
            assert [frame.seconds for frame in found] == [start, start + 1, start + 2, start + 3]
            assert [number_of(frame.image) for frame in found] == [round(10 * f.seconds) for f in found]
            assert {frame.image.mode for frame in found} == {"RGB"}

    def test_that_are_too_many_are_spread_from_the_first_to_the_last(
        self, searcher: Searcher, collection: Collection
    ) -> None:
        found = searcher.frames(items(collection, ItemKind.CLIP)[1].id, fps=10, most=4)
        assert [frame.seconds for frame in found] == [4.0, 5.3, 6.6, 7.9]

    def test_that_are_large_come_smaller_with_their_proportions(
        self, searcher: Searcher, collection: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """32 frames in 4K would take 800 MB, and no model is shown so much of one."""
        monkeypatch.setattr("vrag.corpus.media.SHOWN_FRAME_PIXELS", 2500)
        found = searcher.frames(items(collection, ItemKind.CLIP)[1].id, fps=1, most=4)
        assert {frame.image.size for frame in found} == {(75, 33)}
        assert [number_of(frame.image) for frame in found] == [40, 50, 60, 70]

    def test_one_is_the_first(self, searcher: Searcher, collection: Collection) -> None:
        found = searcher.frames(items(collection, ItemKind.CLIP)[2].id, fps=1, most=1)
        assert [(frame.seconds, number_of(frame.image)) for frame in found] == [(8.0, 80)]

    def test_of_a_page_and_a_passage_there_are_none(self, searcher: Searcher, collection: Collection) -> None:
        for kind in (ItemKind.PAGE, ItemKind.PASSAGE):
            with pytest.raises(SearchError, match=f"no frames: it is a {kind}") as raised:
                searcher.frames(items(collection, kind)[0].id, fps=1, most=4)
            assert not isinstance(raised.value, ServerError)

    def test_of_no_item_there_are_none(self, searcher: Searcher) -> None:
        with pytest.raises(SearchError, match=r"There is no (item|page)"):
            searcher.frames(f"{'0' * 16}-1", fps=1, most=4)

    def test_no_frames_cannot_be_asked_for(self, searcher: Searcher, collection: Collection) -> None:
        for fps, most in ((0.0, 4), (1.0, 0)):
            with pytest.raises(ValueError, match="Not 0 <"):
                searcher.frames(items(collection, ItemKind.CLIP)[0].id, fps=fps, most=most)

    def test_need_pyav(
        self, searcher: Searcher, collection: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "av", None)
        with pytest.raises(MissingExtra, match=r"vrag-agent\[video\]"):
            searcher.frames(items(collection, ItemKind.CLIP)[0].id, fps=1, most=4)


def test_a_clip_that_lies_elsewhere_is_copied_for_the_time_being(
    collection: Collection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in object storage: there is a stream and no file."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    one = items(collection, ItemKind.CLIP)[1]
    expected = [frame.image.tobytes() for frame in Engine(collection).frames(one.id, fps=2, most=9)]
    found = Engine(collection).frames(one.id, fps=2, most=9)
    assert [frame.image.tobytes() for frame in found] == expected
    assert list(tmp_path.iterdir()) == []


class TestDamagedClips:
    @pytest.fixture
    def damaged(self, collection: Collection) -> Generator[Item]:
        one = items(collection, ItemKind.CLIP)[1]
        assert one.clip
        path = blob_path(collection, one.clip.path)
        kept = path.read_bytes()
        yield one
        path.unlink(missing_ok=True)
        path.write_bytes(kept)

    def path(self, collection: Collection, item: Item) -> Path:
        assert item.clip
        return blob_path(collection, item.clip.path)

    @pytest.mark.parametrize("content", [None, b"", b"nothing", b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n"])
    def test_are_said_so(self, collection: Collection, damaged: Item, content: bytes | None) -> None:
        self.path(collection, damaged).unlink()
        if content is not None:
            self.path(collection, damaged).write_bytes(content)
        for searcher in (Engine(collection), MultiSearcher({"c": Engine(collection)})):
            with pytest.raises(
                CollectionError, match=r"clip of film_2 (cannot be opened|is damaged).*verify"
            ):
                searcher.frames(damaged.id, fps=1, most=4)
        with (
            served(collection) as client,
            pytest.raises(SearchError, match=r"cannot be opened|cannot be used"),
        ):
            client.frames(damaged.id, fps=1, most=4)

    def test_another_file_in_their_place_is_not_opened(
        self, collection: Collection, damaged: Item, tmp_path: Path
    ) -> None:
        """Also one that is a film: a clip is the file of a hash."""
        other = tmp_path / "other.mp4"
        other.write_bytes(self.path(collection, damaged).read_bytes() + b"\0")
        self.path(collection, damaged).unlink()
        self.path(collection, damaged).symlink_to(other)
        with pytest.raises(CollectionError, match="is damaged"):
            Engine(collection).frames(damaged.id, fps=1, most=4)

    def test_too_large_from_a_server_are_refused(
        self, collection: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = items(collection, ItemKind.CLIP)[0]
        with served(collection) as client:
            for name, limit in (("MAX_FRAME_PIXELS", 1000), ("MAX_FRAMES", 10)):
                with monkeypatch.context() as patch:
                    patch.setattr(f"vrag.corpus.media.{name}", limit)
                    with pytest.raises(ServerError, match=r"a clip cannot be opened: (Its frames|It) ha"):
                        client.frames(one.id, fps=1, most=4)
            monkeypatch.setattr(client_module, "_CLIP_BYTES", 1000)
            with pytest.raises(ServerError, match="longer than 1,000 bytes"):
                client.frames(one.id, fps=1, most=4)


class TestMemorySearcher:
    """The fake keeps the rules of the real ones."""

    SEARCHER = MemorySearcher(
        (clip("talk.mp4", 2, "Boats", 60.0, 100.0), page("a.pdf", 1, "a"), passage("b.md", 1, "b"))
    )

    def test_frames_bear_times_of_the_video_and_differ(self) -> None:
        found = self.SEARCHER.frames(self.SEARCHER.items[0].id, fps=1, most=64)
        assert [frame.seconds for frame in found] == [60.0 + n for n in range(40)]
        assert len({frame.image.tobytes() for frame in found}) == 40

    def test_too_many_are_spread_to_the_last(self) -> None:
        found = self.SEARCHER.frames(self.SEARCHER.items[0].id, fps=1, most=4)
        assert [frame.seconds for frame in found] == [60.0, 73.3, 86.6, 99.9]

    def test_only_clips_have_frames(self) -> None:
        for item in self.SEARCHER.items[1:]:
            with pytest.raises(SearchError, match="no frames"):
                self.SEARCHER.frames(item.id, fps=1, most=4)

    def test_pictures_become_smaller_by_halves(self) -> None:
        name = self.SEARCHER.items[1].id
        sizes = [self.SEARCHER.image(name, least=Size(n, n)).size for n in (1001, 501, 500, 250, 125, 1)]
        assert sizes == [(1000, 1400)] * 2 + [(500, 700), (250, 350), (125, 175), (125, 175)]
