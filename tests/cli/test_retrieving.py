"""`vrag eval retrieval`: pages, documents and regions, of a file of questions or a prepared folder."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from extras import require
from typer.testing import CliRunner

from vrag.cli.eval import app
from vrag.cli.eval.run import By
from vrag.errors import CaseError, CorpusError, EmbedError
from vrag.evaluation.summary import GROUPS

if TYPE_CHECKING:
    from typer.testing import Result

FERRY, PRICES = "How many passengers did the ferry carry?", "What does a return ticket cost?"


def question(query: str, page: int, box: list[float] | None, kind: str) -> dict[str, Any]:
    about = {"file_name": "ferry.pdf", "reference_page": [page], "source_type": [kind]}
    row = {"uid": query, "query": query, "reference_answer": "12", "meta_info": about}
    return row if box is None else row | {"regions": [{"page": page, "box": box}]}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pages with a line of text each, one of which is gold with the top of its page."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "pdf").mkdir()
    pages = (
        text_at(72, 700, "The ferry carried 48,200 passengers"),
        text_at(72, 100, "A return ticket costs 12"),
    )
    (folder / "pdf" / "ferry.pdf").write_bytes(pdf_bytes(*map(PdfPage, pages)))
    rows = [question(FERRY, 1, [0, 0, 1, 0.5], "Text"), question(PRICES, 2, None, "Table")]
    unanswerable = {"uid": "none", "query": "Why?", "reference_answer": "Not answerable"}
    rows.append(unanswerable | {"meta_info": {"file_name": "ferry.pdf"}})
    (folder / "rag_dataset.json").write_text(json.dumps({"examples": rows}))
    return folder


@pytest.fixture(scope="module")
def prepared(published: Path) -> Path:
    out = published / "out"
    assert invoked("prepare", f"dataset={published}", "--out", str(out)).exit_code == 0
    return out


def invoked(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def measured(*words: str) -> dict[str, Any]:
    done = invoked("retrieval", *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_prepared_folder_has_its_own_documents_and_collection(prepared: Path) -> None:
    told = measured(str(prepared))
    assert (told["questions"], told["skipped"], told["pages"]) == (2, 1, 2)
    assert (told["recall@1"], told["document_recall@10"]) == (1, 1)
    assert (prepared / "collection" / "collection.db").is_file()
    assert told["region_precision@1"] == told["estimates"]["region_precision@1"]["mean"] == 1
    assert 0 < told["region_recall@1"] < 0.5
    assert told["estimates"]["region_recall@5"]["n"] == 1
    assert told["estimates"]["mrr"].keys() == {"mean", "n", "low", "high", "few"}


def test_a_file_of_questions_is_measured_on_the_documents_named(published: Path, tmp_path: Path) -> None:
    line = (str(published / "rag_dataset.json"), "--docs", str(published / "pdf"))
    told = measured(*line, "--collection", str(tmp_path / "c"))
    assert (told["recall@1"], told["region_precision@1"]) == (1, 1)
    assert (tmp_path / "c" / "collection.db").is_file()
    assert invoked("retrieval", line[0]).exit_code == 2


def test_groups_are_told_with_their_intervals(prepared: Path) -> None:
    told = measured(str(prepared), "--by", "source_type")
    assert told["by"] == "source_type"
    groups = told["estimates_by"]
    assert {label: one["recall@1"]["n"] for label, one in groups.items()} == {"Table": 1, "Text": 1}
    assert "region_recall@1" in groups["Text"]
    assert "region_recall@1" not in groups["Table"]
    shown = invoked("retrieval", str(prepared), "--by", "source_type").stdout
    lines = [line.split() for line in shown.splitlines()]
    assert ["figure", "value", "95", "%", "questions"] in lines
    assert ["Table", "ndcg@5", "1.000"] in [line[:3] for line in lines]
    assert any(line[:1] == ["region_precision@10"] and line[-1] == "1" for line in lines)
    assert "2 questions over 2 pages" in shown
    assert "*" in shown, "one document says little of others"


def test_a_kind_that_no_question_has_is_told(prepared: Path) -> None:
    assert "No question has a document_type." in invoked(
        "retrieval", str(prepared), "--by", "document_type"
    ).stdout  # fmt: skip
    assert {by.value for by in By} == GROUPS.keys()


def test_what_is_missing_is_told(published: Path, prepared: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    questions = str(published / "rag_dataset.json")
    wrong: list[tuple[type[Exception], tuple[str, ...]]] = [
        (CaseError, (str(tmp_path / "empty"),)),
        (CaseError, (str(tmp_path / "none.json"),)),
        (CorpusError, (questions, "--docs", str(tmp_path / "empty"), "-c", str(tmp_path / "c"))),
        (EmbedError, (str(prepared), "--regions", "match")),
    ]
    for kind, line in wrong:
        assert isinstance(invoked("retrieval", *line).exception, kind), line


def test_regions_are_where_the_embedder_says_that_pages_match(prepared: Path, tmp_path: Path) -> None:
    require("models", "sentence_transformers")
    sys.path.append(str(Path(__file__).parents[1] / "embed"))
    try:
        model = importlib.import_module("tiny_models").colqwen2(tmp_path / "model")
    finally:
        sys.path.pop()
    line = (str(prepared), "-c", str(tmp_path / "c"), "--device", "cpu", "--ranking", "lexical")
    by_words = measured(*line, "--embedder", f"sentence:{model}")
    by_match = measured(*line, "--regions", "match")
    assert by_match["recall@1"] == by_words["recall@1"] == 1
    assert by_match["estimates"]["region_recall@10"]["n"] == 1
    assert by_match["region_precision@10"] != by_words["region_precision@10"]
