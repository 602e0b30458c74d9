"""`vrag.open`: the entry point for Python."""

import asyncio
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vrag
from vrag.agent.events import AnswerGiven
from vrag.agent.evidence import Evidence
from vrag.errors import CollectionError, CorpusError, SettingsError

CITY = "# Ferries\n\nThe single fare for a kayak is 12 crowns.\n"
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
    page.paste((255, 0, 0), (50, 20, 100, 60))
    page.save(tmp_path / "page.png")
    session = vrag.open(tmp_path / "page.png", collection=tmp_path / "collection", ocr="off")
    item = session.searcher.item(f"{session.documents[0].id[:16]}-1")
    evidence = Evidence(
        item=item.id,
        document="page.png",
        document_id=item.document,
        page=1,
        kind=item.kind,
        box=(0.25, 0.2, 0.5, 0.6),
    )

    image = session.image(evidence)

    assert image.size == (50, 40)
    assert (np.asarray(image)[:, :, 0] - np.asarray(image)[:, :, 1].astype(int)).min() > 200
    assert session.image(evidence.model_copy(update={"box": None})).size == (200, 100)


def test_events_come_as_they_happen(session: vrag.Session) -> None:
    events = list(session.stream("What is the single fare for a kayak?"))

    assert isinstance(events[-1], AnswerGiven)


def test_many_questions_are_answered_at_once(session: vrag.Session) -> None:
    async def ask_all() -> list[str | None]:
        question = "What is the single fare for a kayak?"
        results = await asyncio.gather(*(session.aask(question) for _ in range(5)))
        return [result.answer for result in results]

    answers = asyncio.run(ask_all())

    assert len(answers) == 5
    assert len(set(answers)) == 1
    assert len(session.runs.ids()) == 5


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


def test_a_collection_is_opened_without_paths(session: vrag.Session, tmp_path: Path) -> None:
    assert session.documents

    opened = vrag.open(collection=tmp_path / "collection")

    assert [document.name for document in opened.documents] == ["ferries.md"]
    assert opened.scope is None


def test_a_path_that_does_not_exist_is_an_error_and_makes_no_answer(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="does not exist"):
        vrag.open(tmp_path / "nowhere", collection=tmp_path / "collection")


def test_a_collection_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CollectionError):
        vrag.open(collection=tmp_path / "nowhere")


@pytest.mark.parametrize("settings", [{"collektion": "x"}, {"agent": "nobody"}, {"max_steps": "many"}])
def test_a_wrong_setting_is_an_error_before_anything_is_indexed(
    settings: dict[str, str], docs: Path, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError):
        vrag.open(docs, **{"collection": str(tmp_path / "collection"), **settings})

    assert not (tmp_path / "collection").exists()


def test_paths_and_a_search_server_exclude_each_other(docs: Path) -> None:
    with pytest.raises(SettingsError, match="has its own documents"):
        vrag.open(docs, search_url="http://localhost:9")


def test_an_empty_question_is_an_error(session: vrag.Session) -> None:
    with pytest.raises(ValueError, match="empty"):
        session.ask("  ")
    assert session.runs.ids() == []


def test_importing_the_package_loads_no_session() -> None:
    heavy = "{'vrag.factory', 'vrag.index', 'lancedb', 'numpy', 'pydantic'}"
    code = f"import sys, vrag; sys.exit(sorted({heavy} & set(sys.modules)) or 0)"

    subprocess.run([sys.executable, "-c", code], check=True)
