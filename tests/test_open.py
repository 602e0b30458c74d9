"""`vrag.open`: the entry point for Python."""

from __future__ import annotations

import asyncio
import base64
import copy
import io
import pickle
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from source_collection import REGION, SIZE, report

import vrag
from vrag.agent.agent import Agent
from vrag.agent.events import AnswerGiven
from vrag.agent.evidence import Evidence
from vrag.agent.runs.run_store import RunState
from vrag.errors import CollectionError, CorpusError, SettingsError
from vrag.factory import agents, progress
from vrag.factory.indexing import documents_under, open_for_adding
from vrag.factory.session import MAX_AGENTS
from vrag.geometry import Space, View, look_alike
from vrag.index import build
from vrag.index.build import add, add_sources
from vrag.index.collection import Collection
from vrag.index.manifest import IndexProgress
from vrag.index.vectors.embed_items import local
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.corpus.converter import CorpusOptions
    from vrag.index.build import AddReport
    from vrag.settings import Settings

CITY = "# Ferries\n\nThe single fare for a kayak is 12 crowns.\n"
shown_in_notebook = methodcaller("_repr_html_")
ISLAND = "# Islands\n\nThe lighthouse of Vardo was built in 1903.\n"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "ferries.md").write_text(CITY)
    return folder


@pytest.fixture
def session(docs: Path, tmp_path: Path) -> vrag.Session:
    return vrag.open(docs, collection=tmp_path / "collection")


def test_a_folder_is_indexed_and_a_question_answered_with_evidence(session: vrag.Session) -> None:
    result = session.ask("What is the single fare for a kayak?")

    assert result.answer is not None
    assert "12 crowns" in result.answer
    assert result.evidence[0].document == "ferries.md"


def test_runs_are_recorded(session: vrag.Session) -> None:
    result = session.ask("What is the single fare for a kayak?")

    assert session.runs.read("last").result == result


def test_the_image_of_evidence_is_the_part_of_the_page_in_its_box(tmp_path: Path) -> None:
    page = Image.new("RGB", (200, 100), "white")
    page.paste((255, 0, 0), (58, 20, 110, 60))
    page.save(tmp_path / "page.png")
    session = vrag.open(tmp_path / "page.png", collection=tmp_path / "collection", ocr="off")
    item = session.searcher.item(f"{session.documents[0].id[:16]}-1")
    evidence = Evidence(
        item=item.id,
        document="page.png",
        document_id=item.document,
        page=1,
        kind=item.kind,
        box=(0.29, 0.2, 0.55, 0.6),
    )

    image = session.image(evidence)

    assert image.size == (52, 40)
    assert (np.asarray(image)[:, :, 0] - np.asarray(image)[:, :, 1].astype(int)).min() > 200
    assert session.image(evidence.model_copy(update={"box": None})).size == (200, 100)
    assert session.image(evidence, scale=2.5).size == (130, 100)


def test_evidence_is_enlarged_from_the_file_of_its_document(tmp_path: Path) -> None:
    (tmp_path / "report.pdf").write_bytes(report())
    session = vrag.open(tmp_path / "report.pdf", collection=tmp_path / "collection")
    item = session.searcher.item(f"{session.documents[0].id[:16]}-1")
    box = View.whole(SIZE, SIZE).convert(REGION, Space.UNIT).as_tuple()
    evidence = Evidence(
        item=item.id,
        document="report.pdf",
        document_id=item.document,
        page=1,
        kind=item.kind,
        box=box,
    )
    drawn = session.image(evidence, scale=3)
    (tmp_path / "report.pdf").unlink()
    enlarged = session.image(evidence, scale=3)
    assert drawn.size == enlarged.size == (900, 240)
    assert look_alike(drawn, enlarged)
    assert drawn.tobytes() != enlarged.tobytes()


def test_events_come_as_they_happen(session: vrag.Session) -> None:
    events = session.stream("What is the single fare for a kayak?")
    next(events)
    run = session.runs.ids()[0]

    assert session.runs.state(run, ended=session.runs.read(run).has_end) is RunState.RUNNING
    assert isinstance(list(events)[-1], AnswerGiven)


def test_closing_the_events_stops_the_run(session: vrag.Session) -> None:
    async def begin() -> None:
        events = session.astream("What is the single fare for a kayak?")
        await anext(events)
        await events.aclose()

    asyncio.run(begin())

    assert not session.runs.read("last").has_end
    assert session.runs.state(session.runs.ids()[0], ended=False) is RunState.INTERRUPTED


def test_many_questions_are_answered_at_once(session: vrag.Session) -> None:
    async def ask_all() -> list[str | None]:
        question = "What is the single fare for a kayak?"
        results = await asyncio.gather(*(session.aask(question) for _ in range(5)))
        return [result.answer for result in results]

    answers = asyncio.run(ask_all())
    again = asyncio.run(ask_all())  # in another event loop

    assert again == answers
    assert len(answers) == 5
    assert len(set(answers)) == 1
    assert len(session.runs.ids()) == 10


def test_questions_from_several_threads_share_one_agent(
    session: vrag.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Settings] = []
    open_agent = agents.open_agent

    def count(settings: Settings, *others: Any, **named: Any) -> Agent:  # noqa: ANN401
        opened.append(settings)
        return open_agent(settings, *others, **named)

    monkeypatch.setattr(agents, "open_agent", count)

    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(session.ask, ["What is the single fare for a kayak?"] * 8))

    assert {result.answer for result in results} == {results[0].answer}
    assert len(opened) == 1


def test_only_the_documents_under_the_paths_are_used(session: vrag.Session, tmp_path: Path) -> None:
    islands = tmp_path / "islands"
    islands.mkdir()
    (islands / "vardo.md").write_text(ISLAND)

    other = vrag.open(islands, collection=tmp_path / "collection")

    assert [hit.document_name for hit in other.search("lighthouse")] == ["vardo.md"]
    assert other.search("kayak") == []
    assert session.search("lighthouse") == []


def test_documents_that_are_added_later_are_used_too(session: vrag.Session, tmp_path: Path) -> None:
    before = session.ask("When was the lighthouse of Vardo built?")
    (tmp_path / "vardo.md").write_text(ISLAND)

    session.add(tmp_path / "vardo.md")
    after = session.ask("When was the lighthouse of Vardo built?")

    assert before.answer is None
    assert after.answer is not None
    assert "1903" in after.answer


def test_documents_are_added_to_the_collection_that_is_open(docs: Path, tmp_path: Path) -> None:
    vrag.open(docs, collection=tmp_path / "named")
    (tmp_path / "vardo.md").write_text(ISLAND)
    session = vrag.open(collections=[tmp_path / "named"])

    report = session.add(tmp_path / "vardo.md")

    assert report.items == 1
    assert {document.name for document in session.documents} == {"ferries.md", "vardo.md"}
    assert [hit.document_name for hit in session.search("lighthouse")] == ["vardo.md"]


def test_what_was_set_for_the_session_holds_for_documents_that_are_added(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = vrag.open(docs, collection=tmp_path / "collection", workers=1)
    used: list[CorpusOptions] = []
    add = build.add

    def spy(collection: Collection, paths: Sequence[Path], options: CorpusOptions, **more: Any) -> AddReport:  # noqa: ANN401
        used.append(options)
        return add(collection, paths, options, **more)

    monkeypatch.setattr(build, "add", spy)
    (tmp_path / "vardo.md").write_text(ISLAND)

    session.add(tmp_path / "vardo.md")

    assert [options.workers for options in used] == [1]


def test_documents_are_not_added_to_several_collections_or_a_server(docs: Path, tmp_path: Path) -> None:
    for name in "ab":
        vrag.open(docs, collection=tmp_path / name)
    with pytest.raises(SettingsError, match="several are open"):
        vrag.open(collections=[tmp_path / "a", tmp_path / "b"]).add(docs)
    with pytest.raises(SettingsError, match="several are named"):
        vrag.open(docs, collections=[tmp_path / "a", tmp_path / "b"])
    with pytest.raises(SettingsError, match="no local collection"):
        vrag.open(search_url="http://localhost:9").add(docs)


def test_a_new_scope_holds_for_search_and_questions(session: vrag.Session) -> None:
    assert session.ask("What is the single fare for a kayak?").answer is not None

    session.scope = frozenset()

    assert session.search("kayak") == []
    assert session.ask("What is the single fare for a kayak?").answer is None


def test_a_collection_is_opened_without_paths(session: vrag.Session, tmp_path: Path) -> None:
    assert session.documents

    opened = vrag.open(collection=tmp_path / "collection")

    assert [document.name for document in opened.documents] == ["ferries.md"]
    assert opened.scope is None


def test_documents_are_found_by_every_name_that_a_search_shows(tmp_path: Path) -> None:
    collection, options, _ = open_for_adding(load_settings(collection=tmp_path / "collection"))
    upload = collection.directory / "uploads" / "sub／a.txt"
    files = [tmp_path / "docs" / "b.txt", tmp_path / "docs" / "deep" / "b.txt"]
    for file in (upload, *files):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"The words of {file}.")
    add(collection, files, options)
    add_sources(collection, [upload], local(None))

    def find(name: str) -> list[str]:
        return [document.path for document in documents_under(collection, [Path(name)])]

    assert find("sub/a.txt") == find("collection/sub/a.txt") == [str(upload)]
    assert find("b.txt") == [str(files[0])]
    assert find("deep/b.txt") == find("collection/deep/b.txt") == [str(files[1])]
    files[1].unlink()
    assert find("deep/b.txt") == [str(files[1])], "a search still finds it"
    assert find(str(files[1])) == []


def test_a_path_that_does_not_exist_is_an_error_and_makes_no_answer(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="does not exist"):
        vrag.open(tmp_path / "nowhere", collection=tmp_path / "collection")


def test_a_collection_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CollectionError):
        vrag.open(collection=tmp_path / "nowhere")


@pytest.mark.parametrize(
    "settings",
    [{"collektion": "x"}, {"agent": "nobody"}, {"max_steps": "many"}, {"base_url": "http://localhost:9"}],
)
def test_a_wrong_setting_is_an_error_before_anything_is_indexed(
    settings: dict[str, Any], docs: Path, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError):
        vrag.open(docs, **dict[str, Any](collection=str(tmp_path / "collection"), **settings))

    assert not (tmp_path / "collection").exists()


def test_paths_and_a_search_server_exclude_each_other(docs: Path) -> None:
    with pytest.raises(SettingsError, match="has its own documents"):
        vrag.open(docs, search_url="http://localhost:9")


def test_an_empty_question_is_an_error(session: vrag.Session) -> None:
    with pytest.raises(ValueError, match="empty"):
        session.ask("  ")
    assert session.runs.ids() == []


@pytest.mark.slow
def test_importing_the_package_loads_no_session() -> None:
    heavy = "{'vrag.factory', 'vrag.index', 'apsw', 'numpy', 'pydantic'}"
    code = f"import sys, vrag; sys.exit(sorted({heavy} & set(sys.modules)) or 0)"

    subprocess.run([sys.executable, "-c", code], check=True)


class TestOneQuestion:
    """`ask` with another model, another agent or some of the documents."""

    QUESTION = "What is the single fare for a kayak?"

    @pytest.fixture
    def both(self, docs: Path, tmp_path: Path) -> vrag.Session:
        """A session of two documents."""
        (docs / "vardo.md").write_text(ISLAND)
        return vrag.open(docs, collection=tmp_path / "collection")

    def test_another_agent_and_another_model_answer_one_question(self, session: vrag.Session) -> None:
        other = session.ask(self.QUESTION, agent="vimrag")
        refused = session.ask(self.QUESTION, model="m" if session.settings.base_url else "lmstudio:m")
        first = session.ask(self.QUESTION)
        assert (other.started.settings.agent, first.started.settings.agent) == ("vimrag", "vrag")
        assert refused.answer is None
        assert "Connection refused: no server listens at http://localhost:1234/v1." in str(refused.failure)
        assert session.settings.model == ""

    def test_only_the_documents_that_are_named_are_looked_at(self, both: vrag.Session, docs: Path) -> None:
        by_name = both.ask(self.QUESTION, documents="vardo.md")
        by_path = both.ask(self.QUESTION, documents=[docs / "ferries.md"])
        (document,) = (document for document in both.documents if document.name == "ferries.md")
        by_itself = asyncio.run(both.aask(self.QUESTION, documents=[document]))
        assert by_name.answer is None
        assert by_path.answer == by_itself.answer == both.ask(self.QUESTION).answer
        events = list(both.stream(self.QUESTION, documents=document.id))
        assert isinstance(events[-1], AnswerGiven)

    @pytest.mark.parametrize("unknown", ["nowhere.md", ["vardo.md", "nowhere.md"]])
    def test_an_unknown_document_is_an_error(self, both: vrag.Session, unknown: Any) -> None:  # noqa: ANN401
        with pytest.raises(CollectionError, match=r"nowhere\.md is not in the collection"):
            both.ask(self.QUESTION, documents=unknown)

    def test_a_document_that_is_not_in_the_collection_is_an_error(
        self, both: vrag.Session, tmp_path: Path
    ) -> None:
        (tmp_path / "other.md").write_text("Other words.")
        (other,) = vrag.open(tmp_path / "other.md", collection=tmp_path / "elsewhere").documents
        with pytest.raises(CollectionError, match=r"other\.md is not in the collection"):
            both.ask(self.QUESTION, documents=other)

    def test_a_name_is_that_of_a_document_under_the_paths_if_there_is_one(
        self, docs: Path, tmp_path: Path
    ) -> None:
        (docs / "old").mkdir()
        (docs / "old" / "ferries.md").write_text(CITY.replace("12", "9"))
        (docs / "vardo.md").write_text(ISLAND)
        whole = vrag.open(docs, collection=tmp_path / "collection")
        old = vrag.open(docs / "old", collection=tmp_path / "collection")
        for session, fare in ((old, "9 crowns"), (whole, "12 crowns")):
            assert fare in str(session.ask(self.QUESTION, documents="ferries.md").answer)
        assert "1903" in str(old.ask("When was the lighthouse of Vardo built?", documents="vardo.md").answer)

    def test_names_that_a_search_prints_mean_their_documents(self, docs: Path, tmp_path: Path) -> None:
        vrag.open(docs, collection=tmp_path / "a")
        (docs / "ferries.md").write_text(CITY.replace("12", "9"))
        vrag.open(docs, collection=tmp_path / "b")
        session = vrag.open(collections=[tmp_path / "a", tmp_path / "b"])
        assert sorted(hit.title for hit in session.search("kayak")) == ["a/ferries.md", "b/ferries.md"]
        assert "9 crowns" in str(session.ask(self.QUESTION, documents="b/ferries.md").answer)
        assert "12 crowns" in str(session.ask(self.QUESTION, documents="a/ferries.md").answer)
        with pytest.raises(CollectionError, match="2 documents are named"):
            session.ask(self.QUESTION, documents="ferries.md")

    def test_every_agent_of_a_loop_is_closed_after_its_last_question(
        self, both: vrag.Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        closed: list[frozenset[str] | None] = []

        async def close(agent: Agent) -> None:
            closed.append(agent.environment.options.documents)

        monkeypatch.setattr(Agent, "aclose", close)
        ids = {document.name: document.id for document in both.documents}

        async def ask_both() -> None:
            streams = [both.astream(self.QUESTION, documents=name) for name in ids]
            same = both.astream(self.QUESTION, documents=next(iter(ids)))
            for events in (*streams, same):
                await anext(events)
            both._agents.clear()  # pyright: ignore[reportPrivateUsage] - as if many others had been used
            for events in streams:
                await events.aclose()
            assert closed == [frozenset({id}) for id in list(ids.values())[1:]]
            await same.aclose()

        asyncio.run(ask_both())
        assert set(closed) == {frozenset({id}) for id in ids.values()}
        assert len(closed) == 2

    def test_an_unknown_agent_is_an_error(self, session: vrag.Session) -> None:
        with pytest.raises(SettingsError, match="'agent'"):
            session.ask(self.QUESTION, agent="nobody")

    def test_few_agents_are_kept(self, session: vrag.Session) -> None:
        for number in range(MAX_AGENTS + 2):
            session.scope = frozenset({str(number)})
            session.ask(self.QUESTION)
        assert len(session._agents) == MAX_AGENTS  # pyright: ignore[reportPrivateUsage]


def test_a_session_and_a_result_are_represented_in_a_few_lines(session: vrag.Session) -> None:
    result = session.ask("What is the single fare for a kayak?")
    assert len(repr(session)) < 300
    assert "1 documents" in repr(session)
    assert repr(session).endswith("agent vrag, without a model")
    lines = repr(result).splitlines()
    assert lines[0] == "RunResult('What is the single fare for a kayak?')"
    assert "12 crowns" in lines[1]
    assert lines[2] == "  [1] ferries.md, passage 1"
    assert len(lines) <= 6


def test_a_result_is_pickled_and_copied_without_the_session(session: vrag.Session) -> None:
    result = session.ask("What is the single fare for a kayak?", agent="vimrag")
    for other in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(result)):
        assert other == result
        assert other.graph == result.graph
        assert (other.draw_place, result.draw_place is None) == (None, False)
        assert "12 crowns" in str(shown_in_notebook(other))


def test_a_search_reads_the_list_of_files_again_only_if_documents_were_added(
    session: vrag.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[None] = []
    documents = Collection.documents

    def read(collection: Collection) -> list[vrag.Document]:
        reads.append(None)
        return documents(collection)

    monkeypatch.setattr(Collection, "documents", read)
    assert [session.search("kayak")[0].title for _ in range(3)] == ["ferries.md"] * 3
    assert len(reads) == 1
    (tmp_path / "islands").mkdir()
    (tmp_path / "islands" / "vardo.md").write_text(ISLAND)
    session.add(tmp_path / "islands")
    assert session.search("lighthouse")[0].title == "vardo.md"


def test_a_result_shows_the_picture_of_the_place_in_a_notebook(tmp_path: Path) -> None:
    (tmp_path / "report.pdf").write_bytes(report())
    session = vrag.open(tmp_path / "report.pdf", collection=tmp_path / "collection")
    document = session.documents[0]
    piece = Evidence(
        item=f"{document.id[:16]}-1", document="report.pdf", document_id=document.id, page=1,
        kind=vrag.ItemKind.PAGE, box=(0.1, 0.2, 0.6, 0.3),
    )  # fmt: skip
    result = replace(session.ask("What?"), evidence=(piece,), cited=1)
    shown = str(shown_in_notebook(result))
    (data,) = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', shown)
    picture = Image.open(io.BytesIO(base64.b64decode(data)))
    assert picture.width > picture.height, "the surroundings of the rectangle, not the whole page"
    assert len(picture.getcolors(picture.width * picture.height) or []) > 1
    shutil.rmtree(tmp_path / "collection" / "blobs")
    assert "data:image" not in str(shown_in_notebook(result)), "a picture that is gone is left out"


def test_progress_is_shown_on_a_terminal_and_in_a_notebook_only(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    vrag.open(docs, collection=tmp_path / "quiet")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    vrag.open(docs, collection=tmp_path / "terminal")
    assert "1/1 files" in capsys.readouterr().err
    vrag.open(docs, collection=tmp_path / "unwanted", show_progress=False)
    assert capsys.readouterr() == ("", "")


def test_a_notebook_shows_one_line_that_ends_with_what_was_indexed(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, bundle: dict[str, str], **_: object) -> None:
            shown.append(bundle["text/plain"])

    def display(bundle: dict[str, str], **_: object) -> Handle:
        shown.append(bundle["text/plain"])
        return Handle()

    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    monkeypatch.setattr(progress, "NOTEBOOK_SECONDS", 0.0)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    vrag.open(docs, collection=tmp_path / "collection")
    assert shown[0].startswith("Indexing: ")
    assert shown[-1] == "Finished: 1 of 1 files, 1 items."
    shown.clear()
    vrag.open(docs, collection=tmp_path / "collection")
    assert shown == [], "nothing is new"
    now = IndexProgress(
        files_done=1, files=2, items_done=3, items=4, failed=1, rate=1.0, share=0.5, remaining_seconds=None,
        current="a.pdf",
    )  # fmt: skip

    def index_interrupted() -> None:
        with progress.show_progress() as report:
            assert report is not None
            report(now)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index_interrupted()
    assert shown[-1] == "Stopped: 1 of 2 files, 3 items, 1 failed."
