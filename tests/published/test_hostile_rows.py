"""Whatever stands in a row, loaders read it or refuse it in their own words; nothing else comes out."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vrag.datasets.protocols import PageDocument
from vrag.datasets.registry import BENCHMARKS
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUESTION = {"uid": 1, "question": "?\n(A) a\n(B) b", "answer": "A", "time_reference": "00:01-00:02"}
FACTS = [{"image_id": 30_000_000, "title": "t"}]
SNIPPETS = [{"snippet_id": "s", "title": "t", "fact": "f"}]
FILES: dict[str, tuple[str, Any]] = {
    "lvbench": (
        "video_info.meta.jsonl",
        {"key": "k", "type": "tv", "video_info": {"duration_minutes": 1.5}, "qa": [QUESTION]},
    ),
    "hotpotqa": (
        "hotpot_dev_distractor_v1.json",
        [
            {
                "_id": "1",
                "question": "?",
                "answer": "a",
                "type": "bridge",
                "supporting_facts": [["t", 0]],
                "context": [["t", ["f"]]],
            }
        ],
    ),
    "squad": (
        "dev-v2.0.json",
        {
            "data": [
                {
                    "title": "t",
                    "paragraphs": [
                        {"context": "c", "qas": [{"id": "1", "question": "?", "answers": [{"text": "a"}]}]}
                    ],
                }
            ]
        },
    ),
    "webqa": (
        "WebQA_train_val.json",
        {
            "g": {
                "Q": '"?"',
                "A": ['"a"'],
                "split": "val",
                "Qcate": "text",
                "img_posFacts": FACTS,
                "txt_posFacts": SNIPPETS,
            }
        },
    ),
    "m3docvqa": (
        "MMQA_dev.jsonl",
        {
            "qid": "q",
            "question": "?",
            "answers": [{"answer": 1.5, "type": "number"}],
            "metadata": {"type": "TextQ"},
            "supporting_context": [{"doc_id": "d", "doc_part": "text"}],
        },
    ),
}

texts = st.text(max_size=6) | st.sampled_from(
    ["../a", "/a", "\x00", "\ud800", "a" * 5_000, "nan", "[" * 99, "1e999"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what benchmarks need beside their questions."""
    made = tmp_path_factory.mktemp("sets")
    (made / "pdfs_dev").mkdir()
    (made / "pdfs_dev" / "d.pdf").write_bytes(b"%PDF")
    (made / "k.mp4").write_bytes(b"film")
    (made / "imgs.tsv").write_bytes(b"30000000\tbm8gcGljdHVyZQ==\n")
    (made / "imgs.lineidx").write_bytes(b"0\n")
    return made


def places(value: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - any JSON
    """Each place in a value, however deep, as its holder and its key."""
    if isinstance(value, dict):
        pairs = list(cast("dict[Any, Any]", value).items())
    else:
        pairs = list(enumerate(cast("list[Any]", value))) if isinstance(value, list) else []
    for key, inner in pairs:
        yield value, key
        yield from places(inner)


def take(folder: Path, name: str) -> tuple[list[str], list[str]]:
    """Uids of the cases and names of the documents, whose pages are read."""
    opened = BENCHMARKS[name].open(folder)
    uids = [case.uid for case in opened.cases]
    documents = [*opened.documents]
    for document in documents:
        if isinstance(document, PageDocument):
            list(document.pages())
    assert all(opened.notes)
    return uids, [document.name for document in documents]


@pytest.mark.parametrize("name", FILES)
def test_the_row_that_is_changed_below_is_read(folder: Path, name: str) -> None:
    file, value = FILES[name]
    (folder / file).write_text(json.dumps(value))

    uids, documents = take(folder, name)

    assert len(uids) == 1
    assert documents


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(FILES)), data=st.data())
def test_any_value_in_any_place_is_read_or_refused(folder: Path, name: str, data: st.DataObject) -> None:
    file, value = FILES[name]
    changed = copy.deepcopy(value)
    holder, key = data.draw(st.sampled_from(list(places(changed))))
    holder[key] = data.draw(values)
    (folder / file).write_text(json.dumps(changed))

    try:
        uids, documents = take(folder, name)
    except CaseError:
        return

    assert all(uid.startswith(f"{name}-") for uid in uids)
    assert len(set(uids)) == len(uids)
    assert all(name.isprintable() and not set(name) & set("/\\") for name in documents)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(FILES)), data=st.data())
def test_a_file_that_is_cut_off_or_damaged_is_read_or_refused(
    folder: Path, name: str, data: st.DataObject
) -> None:
    file, value = FILES[name]
    whole = json.dumps(value).encode()
    at = data.draw(st.integers(0, len(whole)))
    (folder / file).write_bytes(whole[:at] + data.draw(st.binary(max_size=4)))

    with suppress(CaseError):
        take(folder, name)
