"""Whatever rows of sets of documents hold: they are read, or the row is named; names lead nowhere."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

import pytest
from document_sets import cell, pa, parquet, picture, write_files, write_json, write_lines
from hypothesis import given
from hypothesis import strategies as st

from vrag.datasets.docscope import DocScope
from vrag.datasets.mmdocir import MMDocIR
from vrag.datasets.mmlongbench import MMLongBench
from vrag.datasets.own import DatasetJson
from vrag.datasets.protocols import FileDocument, PageDocument
from vrag.datasets.slidevqa import SlideVQA
from vrag.datasets.vidore import ViDoReV2, ViDoReV3
from vrag.datasets.vidoseek import ViDoSeek
from vrag.errors import CaseError

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.datasets.protocols import Benchmark

META = {"file_name": "a.pdf", "reference_page": [1], "source_type": "text", "query_type": "single_hop"}
OURS = {"uid": "a_0", "query": "Who?", "reference_answer": "Orla", "meta_info": META}
LAYOUT = {"page": 0, "page_size": [600, 800], "bbox": [0, 0, 9, 9]}
ROWS: dict[str, tuple[Benchmark, str, dict[str, Any]]] = {
    "mmlongbench": (
        MMLongBench(),
        "samples.json",
        {
            "doc_id": "a.pdf",
            "doc_type": "Brochure",
            "question": "Who?",
            "answer": "Orla",
            "evidence_pages": "[1]",
            "evidence_sources": "['Table']",
            "answer_format": "Str",
        },
    ),
    "mmdocir": (
        MMDocIR(),
        "MMDocIR_annotations.jsonl",
        {
            "doc_name": "a.pdf",
            "domain": "News",
            "page_indices": [0, 3],
            "questions": [
                {"Q": "Who?", "A": "Orla", "type": "['Table']", "page_id": [0], "layout_mapping": [LAYOUT]}
            ],
        },
    ),
    "slidevqa": (
        SlideVQA(),
        "qa/test.jsonl",
        {
            "deck_name": "a",
            "image_urls": ["https://image.example.com/a-1-1024.jpg"],
            "qa_id": 7,
            "question": "Who?",
            "answer": "Orla",
            "evidence_pages": [1],
            "reasoning_type": "Single-Hop",
        },
    ),
    "docscope": (
        DocScope(),
        "benchmark.json",
        {
            "id": "a::q1",
            "split": "test",
            "question": "Who?",
            "answer": {"answer_text": "Orla", "is_answerable": True},
            "pdf": {"doc_id_str": "a"},
            "evidences": [{"local_id": "e1", "page": 1, "bbox": [0, 0, 9, 9], "element_type": "text"}],
            "facts": [{"local_id": "f1", "evidence_local_id": "e1", "text_description": "Orla did."}],
            "extract_class": "class1",
        },
    ),
    "vidoseek": (ViDoSeek(), "vidoseek.json", OURS),
    "dataset": (DatasetJson(), "rag_dataset.json", OURS | {"regions": [{"page": 1, "box": [0, 0, 1, 1]}]}),
}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["../a.pdf", "..", "/etc/passwd", "a\x00.pdf", "[0]", "['a', [1]]", "a.pdf", 10**400, "9" * 5000]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in a row something can be put instead."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(cast("dict[Any, Any]", value).items())
    elif isinstance(value, list):
        inner = list(enumerate(cast("list[Any]", value)))
    return [path, *(place for key, part in inner for place in places(part, (*path, key)))][not path :]


def replaced(row: dict[str, Any], place: tuple[Any, ...], value: object) -> dict[str, Any]:
    changed = copy.deepcopy(row)
    spot: Any = changed
    for key in place[:-1]:
        spot = spot[key]
    spot[place[-1]] = value
    return changed


def read_all(benchmark: Benchmark, folder: Path) -> None:
    """Takes everything; checks what is said of every case and document."""
    opened = benchmark.open(folder)
    cases = list(opened.cases)
    names: set[str] = set()
    for source in opened.documents:
        names.add(source.name)
        if isinstance(source, PageDocument):
            assert len(list(source.pages())) < 200
        elif isinstance(source, FileDocument):
            assert not source.path.relative_to(folder).parts[0].startswith("..")
    assert all(case.uid.startswith(benchmark.name) and case.benchmark == benchmark.name for case in cases)
    assert len({case.uid for case in cases}) == len(cases)
    assert {case.file_name for case in cases} <= names
    assert all(min(case.reference_page, default=1) > 0 for case in cases)
    assert all(0 <= side <= 1 for case in cases for region in case.regions for side in region.box.as_tuple())


@pytest.mark.parametrize("name", ROWS)
@given(data=st.data())
def test_a_row_is_read_or_named(
    name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    benchmark, file, row = ROWS[name]
    folder = tmp_path_factory.getbasetemp() / f"hostile-{name}"
    write_files(folder, "pdf/a.pdf")
    changed = replaced(row, data.draw(st.sampled_from(places(row))), data.draw(VALUES))
    (write_lines if file.endswith("jsonl") else write_json)(
        folder / file, [row, changed] if file.endswith("jsonl") else {"examples": [row, changed]}
    )

    try:
        read_all(benchmark, folder)
    except CaseError as error:
        assert error.hint or "row 2" in error.message  # noqa: PT017 - most rows are read


COLUMNS: dict[str, dict[str, Any]] = {
    "corpus": {"corpus_id": 0, "image": cell(picture()), "doc_id": "a", "page_number_in_doc": 0},
    "queries": {
        "query_id": 0,
        "query": "Who?",
        "language": "english",
        "answer": "Orla",
        "raw_answers": ["O."],
        "query_types": ["numerical"],
        "content_type": ["Table"],
    },
    "qrels": {
        "query_id": 0,
        "corpus_id": 0,
        "score": 2,
        "answer": "Orla",
        "bounding_boxes": [{"annotator": 0, "x1": 1, "x2": 9, "y1": 1, "y2": 9}],
    },
    "documents_metadata": {"doc_id": "a", "doc_type": "Law"},
}
CELLS: tuple[object, ...] = (
    None, True, -1, 2**62, 0.5, float("nan"), "", "../a", "\x00", b"", b"\xff", [], [None], [1], ["a"],
    {"bytes": b"x"}, {"path": "/etc/passwd"}, [{"x1": 1}], [{"x1": None, "x2": 1, "y1": 2, "y2": 3}],
    [{"x1": float("nan"), "x2": 1.0, "y1": 2.0, "y2": 3.0}],
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", [ViDoReV2(), ViDoReV3()], ids=lambda one: one.name)
@pytest.mark.parametrize(("table", "column"), [(table, name) for table in COLUMNS for name in COLUMNS[table]])
def test_a_table_with_a_column_of_another_type_is_read_or_named(
    tmp_path: Path, benchmark: Benchmark, table: str, column: str
) -> None:
    for number, value in enumerate(CELLS):
        for name, row in COLUMNS.items():
            held = {**row, column: value} if name == table else row
            if benchmark.name == "vidore_v2":
                held = {key.replace("_id", "-id"): part for key, part in held.items()}
            path = tmp_path / str(number) / name / "test-0.parquet"
            path.parent.mkdir(parents=True)
            parquet.write_table(pa.Table.from_pylist([held]), path)
        try:
            read_all(benchmark, tmp_path / str(number))
        except CaseError as error:
            assert error.hint or "test-0.parquet" in error.message  # noqa: PT017 - many are read
