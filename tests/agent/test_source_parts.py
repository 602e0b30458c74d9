"""What is enlarged is drawn from the file; evidence and replays hold whatever becomes of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from agent_scripts import PROFILE, answers, enlarges, memorizes, note, of, searches
from PIL import Image
from source_collection import CHANGES, REGION, SIZE, collection_of, id_of, kept, path_of, write_files
from stored_items import blob_path

from vrag.agent.agent import Agent
from vrag.agent.environment import Environment
from vrag.agent.events import AnswerGiven, ImageShown, event_from_json
from vrag.agent.evidence import check_evidence, picture_evidence
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policy import PictureOrigin
from vrag.agent.runs.replay import differences, replay
from vrag.agent.runs.run_store import RunStore
from vrag.errors import RunError
from vrag.geometry import Box, Size, Space, View, draw_view, encode_jpeg
from vrag.search.engine import Engine
from vrag.search.searcher import StoredPictures
from vrag.testing import ScriptedPolicy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vrag.agent.evidence import EvidenceCandidate
    from vrag.agent.method import Method
    from vrag.agent.runs.run_store import StoredRun
    from vrag.index.collection import Collection
    from vrag.search.searcher import Searcher

WHOLE = View.whole(SIZE, SIZE)
LARGE = Box(0, 0, 1224, 1000, Space.ITEM)
"""A part that is shown smaller than it is stored."""


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return collection_of(folder, tmp_path_factory.mktemp("collection") / "c")


@pytest.fixture(scope="module")
def id(collection: Collection) -> str:
    return id_of(collection, "report.pdf")


def environment(searcher: Searcher) -> Environment:
    return Environment(searcher, PROFILE)


def stored_jpeg(collection: Collection, id: str, view: View) -> bytes:
    return encode_jpeg(draw_view(collection.image(id), view))


class TestCloser:
    def test_what_is_enlarged_is_drawn_from_the_file(self, collection: Collection, id: str) -> None:
        picture = environment(Engine(collection)).closer(id, WHOLE, REGION)
        assert picture.origin is PictureOrigin.SOURCE
        assert picture.canvas.area > REGION.area
        assert picture.jpeg != stored_jpeg(collection, id, picture.view)
        assert picture.sha256 == environment(Engine(collection)).closer(id, WHOLE, REGION).sha256

    @pytest.mark.parametrize("region", [LARGE, WHOLE.region])
    def test_what_is_not_is_the_stored_picture(self, collection: Collection, id: str, region: Box) -> None:
        picture = environment(Engine(collection)).closer(id, WHOLE, region)
        assert picture.origin is PictureOrigin.PAGE
        assert picture.jpeg == environment(StoredPictures(Engine(collection))).closer(id, WHOLE, region).jpeg

    def test_a_small_page_as_a_whole_is_the_stored_picture(self, collection: Collection, id: str) -> None:
        shown = Size(SIZE.width * 2, SIZE.height * 2)
        picture = environment(Engine(collection)).whole(collection.item(id), shown=shown)
        assert picture.origin is PictureOrigin.PAGE

    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
    def test_without_the_file_it_is_the_stored_picture(
        self, collection: Collection, id: str, change: Callable[[Path], None]
    ) -> None:
        with kept(path_of(collection)):
            change(path_of(collection))
            picture = environment(Engine(collection)).closer(id, WHOLE, REGION)
        assert picture.origin is PictureOrigin.PAGE
        assert picture.jpeg == stored_jpeg(collection, id, picture.view)


class TestEvidence:
    def seen(self, where: Environment, id: str) -> EvidenceCandidate:
        return picture_evidence(where.closer(id, WHOLE, REGION), where.item(id), "Image 2")

    def test_it_says_what_it_was_drawn_from(self, collection: Collection, id: str) -> None:
        engine = Engine(collection)
        assert self.seen(environment(engine), id).evidence.origin is PictureOrigin.SOURCE
        assert self.seen(environment(StoredPictures(engine)), id).evidence.origin is PictureOrigin.PAGE

    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
    def test_it_holds_when_its_file_is_gone(
        self, collection: Collection, id: str, change: Callable[[Path], None]
    ) -> None:
        where = environment(Engine(collection))
        seen = self.seen(where, id)
        assert check_evidence([seen], where) == ((seen.evidence,), ())
        with kept(path_of(collection)):
            change(path_of(collection))
            assert check_evidence([seen], where) == ((seen.evidence,), ())

    def test_without_its_file_it_falls_if_the_stored_page_shows_something_else(
        self, collection: Collection, id: str
    ) -> None:
        where = environment(Engine(collection))
        seen = self.seen(where, id)
        stored = blob_path(collection, collection.item(id).image)
        with kept(path_of(collection)), kept(stored):
            path_of(collection).unlink()
            Image.new("RGB", SIZE, "white").save(stored, "JPEG")
            kept_evidence, faults = check_evidence([seen], where)
        assert kept_evidence == ()
        assert "no longer looks" in faults[0]

    def test_shown_from_the_page_it_is_compared_with_the_page(self, collection: Collection, id: str) -> None:
        """The file was gone when it was shown, and is back when it is checked."""
        where = environment(Engine(collection))
        with kept(path_of(collection)):
            path_of(collection).unlink()
            seen = self.seen(where, id)
        assert seen.evidence.origin is PictureOrigin.PAGE
        assert check_evidence([seen], where) == ((seen.evidence,), ())


SHOWN = View.whole(SIZE, PROFILE.shown_size(SIZE)).from_item(REGION, Space.SHOWN)
BOX = [round(side) for side in SHOWN.as_tuple()]
SCRIPTS = {
    "vrag": (
        VragMethod(),
        (
            "<think>Look.</think><search>harbour report</search>",
            f"<think>Closer.</think><bbox>{BOX}</bbox>",
            "<think>Seen.</think><answer>48,217</answer>",
        ),
    ),
    "vrag, of a whole page": (
        VragMethod(),
        (
            "<think>Look.</think><search>harbour report</search>",
            "<think>Seen.</think><answer>48,217</answer>",
        ),
    ),
    "vimrag": (
        Vimrag(memory=MemoryOptions(crop_nodes=True, tokens=1500, fresh_tokens=20_000)),
        (
            searches("found", "harbour report"),
            memorizes(note("Picture 1")),
            enlarges("closer", "found", "Picture 1", BOX),
            memorizes(note("Picture 1", 3)),
            answers("closer", text="48,217"),
        ),
    ),
}


def recorded(directory: Path, method: Method, script: tuple[str, ...], searcher: Searcher) -> StoredRun:
    agent = Agent(ScriptedPolicy(script), environment(searcher), method)
    store = RunStore(directory)
    with store.record() as log:
        for event in agent.stream("How many passengers?", run_id=log.id, save=log.save):
            log.write(event)
    return store.read(log.id)


def origins(run: StoredRun) -> set[PictureOrigin]:
    evidence = [entry for event in of(AnswerGiven, run.events) for entry in event.evidence]
    return {entry.origin for entry in (*of(ImageShown, run.events), *evidence)}


@pytest.mark.parametrize(("method", "script"), SCRIPTS.values(), ids=SCRIPTS)
class TestReplay:
    def test_it_gives_the_same_events(
        self, collection: Collection, tmp_path: Path, method: Method, script: tuple[str, ...]
    ) -> None:
        run = recorded(tmp_path, method, script, Engine(collection))
        assert PictureOrigin.SOURCE in origins(run)
        assert run.result.evidence
        assert differences(run.events, list(replay(run, Engine(collection)))) == []

    def test_of_a_run_without_files_it_shows_stored_pictures(
        self, collection: Collection, tmp_path: Path, method: Method, script: tuple[str, ...]
    ) -> None:
        run = recorded(tmp_path, method, script, StoredPictures(Engine(collection)))
        assert origins(run) == {PictureOrigin.PAGE}
        assert differences(run.events, list(replay(run, Engine(collection)))) == []

    def test_without_the_file_it_is_refused_with_its_name(
        self, collection: Collection, tmp_path: Path, method: Method, script: tuple[str, ...]
    ) -> None:
        run = recorded(tmp_path, method, script, Engine(collection))
        with kept(path_of(collection)):
            path_of(collection).unlink()
            with pytest.raises(RunError, match=r"report\.pdf drawn from its file"):
                replay(run, Engine(collection))


def test_events_of_earlier_versions_were_drawn_from_the_page(collection: Collection, tmp_path: Path) -> None:
    run = recorded(tmp_path, *SCRIPTS["vrag"], Engine(collection))
    shown = of(ImageShown, run.events)[-1]
    assert shown.origin is PictureOrigin.SOURCE
    earlier = shown.model_dump_json(exclude={"origin"})
    assert event_from_json(earlier) == shown.model_copy(update={"origin": PictureOrigin.PAGE})
