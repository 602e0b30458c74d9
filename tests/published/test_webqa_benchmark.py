"""WebQA from files in its published shapes, with what is odd in them."""

from __future__ import annotations

import base64
import io
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from vrag.cases import gold_documents
from vrag.datasets.files.documents import ParagraphDocument
from vrag.datasets.protocols import DocumentSource, StreamDocument, TextDocument
from vrag.datasets.webqa import WebQA
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GUID = "d5bbc7ac0dba11ecb1e81171463288e9"
FIRST, SECOND, THIRD = 30_000_000, 30_000_001, 30_000_002
"""Ids of pictures: lines 0 to 2 of their file."""


def jpeg(colour: str = "red") -> bytes:
    saved = io.BytesIO()
    Image.effect_noise((64, 48), 60).convert("RGB").save(saved, "JPEG", comment=colour)
    return saved.getvalue()


def pictured(id: object, title: str = "The Nice Eagle / 2") -> dict[str, object]:
    return {"image_id": id, "title": title, "caption": "An eagle", "url": "u", "imgUrl": "i"}


def snippet(id: str, fact: str, title: str = "Eagle") -> dict[str, object]:
    return {"snippet_id": id, "title": title, "fact": fact, "url": "u"}


def asked(split: str = "val", **changed: object) -> dict[str, Any]:
    """A question as published."""
    return {
        "Guid": GUID,
        "Q": '"What colour has the "nice" eagle?"',
        "A": ['"It is red."'],
        "topic": "birds",
        "split": split,
        "Qcate": "color",
        "img_posFacts": [pictured(FIRST)],
        "img_negFacts": [pictured(SECOND, "Crow")],
        "txt_posFacts": [],
        "txt_negFacts": [snippet("s_1", "A crow is black.", "Crow")],
    } | changed


def written(document: DocumentSource) -> bytes:
    """The file of a picture."""
    assert isinstance(document, StreamDocument)
    return b"".join(document.pieces())


def shown(document: DocumentSource) -> bytes | None:
    """The picture in the file of a picture."""
    found = re.search(rb';base64,([^"]*)"', written(document))
    return base64.b64decode(found[1]) if found else None


def folder_of(
    folder: Path,
    questions: object,
    pictures: Mapping[int, bytes] | None = None,
    name: str = "WebQA_train_val.json",
) -> Path:
    (folder / name).write_text(json.dumps(questions), encoding="utf-8")
    lines = {FIRST: jpeg(), SECOND: jpeg()} if pictures is None else pictures
    rows = [b"%d\t%b\n" % (id, base64.b64encode(data)) for id, data in lines.items()]
    starts = [sum(map(len, rows[:at])) for at in range(len(rows))]
    (folder / "imgs.tsv").write_bytes(b"".join(rows))
    (folder / "imgs.lineidx").write_text("".join(f"{start}\n" for start in starts))
    return folder


def test_quotes_around_a_question_and_its_answers_are_no_part_of_them(tmp_path: Path) -> None:
    answers = ['"It is red."', "It is red.", '"Red"']
    opened = WebQA().open(folder_of(tmp_path, {GUID: asked(A=answers)}))

    (case,) = opened.cases

    assert case.query == 'What colour has the "nice" eagle?'
    assert case.references == ("It is red.", "Red")
    assert (case.uid, case.benchmark) == (f"webqa-{GUID}", "webqa")
    assert (case.query_type, case.document_type, case.source_type) == ("color", "birds", ("Image",))


def test_pictures_and_snippets_are_gold_as_documents(tmp_path: Path) -> None:
    facts = [snippet("s_7", "An eagle is red.")]
    opened = WebQA().open(folder_of(tmp_path, {GUID: asked(txt_posFacts=facts)}))

    (case,) = opened.cases
    documents = {document.name: document for document in opened.documents}

    eagle = ParagraphDocument("Eagle", "An eagle is red.")
    assert case.file_name == f"The Nice Eagle 2-{FIRST}.html"
    assert gold_documents(case) == {case.file_name, eagle.name}
    assert case.source_type == ("Image", "Text")
    assert documents[eagle.name] == TextDocument(eagle.name, "# Eagle\n\nAn eagle is red.\n")
    assert [*documents] == [
        case.file_name,
        f"Crow-{SECOND}.html",
        eagle.name,
        ParagraphDocument("Crow", "A crow is black.").name,
    ]


def test_a_picture_is_read_when_its_page_is_asked_for(tmp_path: Path) -> None:
    lines = {FIRST: jpeg("first"), SECOND: jpeg("second")}
    opened = WebQA().open(folder_of(tmp_path, {GUID: asked()}, lines))

    documents = [document for document in opened.documents if isinstance(document, StreamDocument)]

    assert [shown(document) for document in documents] == [lines[FIRST], lines[SECOND]]
    assert opened.notes == []


def test_facts_of_several_questions_are_one_document_whether_ids_are_numbers_or_texts(tmp_path: Path) -> None:
    other = asked(Guid="b", img_posFacts=[pictured(str(FIRST), "Another title")])
    opened = WebQA().open(folder_of(tmp_path, {GUID: asked(), "b": other}))

    one, two = opened.cases

    assert one.gold == two.gold
    assert one.file_name == f"The Nice Eagle 2-{FIRST}.html"  # by the title that is met first
    assert len([*opened.documents]) == 3


def test_a_jpeg_that_was_cut_off_is_mended_and_noted(tmp_path: Path) -> None:
    whole = jpeg()
    opened = WebQA().open(
        folder_of(tmp_path, {GUID: asked()}, {FIRST: whole[: len(whole) // 2], SECOND: whole})
    )

    first, _, _ = opened.documents
    page = shown(first)

    assert page is not None
    with Image.open(io.BytesIO(page)) as image:
        image.load()
        assert image.size == (64, 48)
    assert opened.notes == [f"Images are cut off; their missing part is grey (1): {FIRST}."]


@pytest.mark.parametrize("data", [b"", b"no picture", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"])
def test_a_broken_picture_is_its_caption_and_noted(tmp_path: Path, data: bytes) -> None:
    opened = WebQA().open(folder_of(tmp_path, {GUID: asked()}, {FIRST: data, SECOND: jpeg()}))

    first, *_ = opened.documents

    assert shown(first) is None
    assert b"<p>The Nice Eagle / 2: An eagle</p>" in written(first)
    assert opened.notes == [f"Images are broken; their captions stand for them (1): {FIRST}."]


@pytest.mark.parametrize("id", [THIRD, 39_999_999])
def test_a_picture_beyond_the_index_is_its_caption_and_noted(tmp_path: Path, id: int) -> None:
    opened = WebQA().open(folder_of(tmp_path, {GUID: asked(img_posFacts=[pictured(id)])}))

    first, *_ = opened.documents

    assert shown(first) is None
    assert b"<p>The Nice Eagle / 2: An eagle</p>" in written(first)
    assert opened.notes == [f"Images are not in imgs.tsv; their captions stand for them (1): {id}."]


def test_an_index_that_leads_to_another_picture_is_refused(tmp_path: Path) -> None:
    opened = WebQA().open(folder_of(tmp_path, {GUID: asked()}, {THIRD: jpeg(), SECOND: jpeg()}))

    first, *_ = opened.documents

    with pytest.raises(CaseError, match="has the image b'30000002' where") as refused:
        written(first)
    assert "belong" in refused.value.hint


@pytest.mark.parametrize("index", ["a\n", "-1\n", "99999999999999999999999\n"])
def test_an_index_that_is_not_made_of_numbers_is_refused(tmp_path: Path, index: str) -> None:
    opened = WebQA().open(folder_of(tmp_path, {GUID: asked()}))
    (tmp_path / "imgs.lineidx").write_text(index)

    first, *_ = opened.documents

    with pytest.raises(CaseError, match="does not hold numbers"):
        written(first)


def test_one_file_holds_both_splits_and_one_is_read(tmp_path: Path) -> None:
    questions = {
        "a": asked("train", Guid="a", img_posFacts=[pictured(THIRD)]),
        "b": asked("val", Guid="b"),
        "c": {name: value for name, value in asked(Guid="c").items() if name != "split"} | {"Split": "val"},
    }
    opened = WebQA().open(folder_of(tmp_path, questions))
    other = WebQA().open(tmp_path, "train")

    assert [case.uid for case in opened.cases] == ["webqa-b", "webqa-c"]
    assert [case.uid for case in other.cases] == ["webqa-a"]
    assert not any(str(THIRD) in document.name for document in opened.documents)


def test_the_test_split_is_refused_as_its_answers_are_not_public(tmp_path: Path) -> None:
    row: dict[str, object] = {"Guid": "t", "Q": "?", "split": "test", "txt_Facts": [], "img_Facts": []}
    folder = folder_of(tmp_path, {"t": row}, name="WebQA_test.json")

    with pytest.raises(CaseError, match="no questions of val with answers"):
        list(WebQA().open(folder).cases)
    with pytest.raises(CaseError, match="no split 'test' with answers"):
        WebQA().open(folder, "test")


@pytest.mark.parametrize(
    "row",
    [
        asked(A=[]),
        asked(A=None),
        asked(A=['""']),
        asked(Q=None),
        asked(img_posFacts=[]),
        asked(img_posFacts=["a"]),
        asked(img_posFacts=[{"title": "t"}]),
        asked(img_posFacts=[pictured("../../1")]),
        asked(img_posFacts=[pictured(-1)]),
        asked(txt_posFacts=[{"snippet_id": "s", "title": "t"}]),
    ],
)
def test_a_question_that_is_not_as_published_is_refused_by_name(tmp_path: Path, row: object) -> None:
    opened = WebQA().open(folder_of(tmp_path, {"a": asked(Guid="a"), GUID: row}))

    with pytest.raises(CaseError, match=rf"WebQA_train_val\.json, {GUID}") as refused:
        list(opened.cases)

    assert refused.value.hint


@pytest.mark.parametrize("value", [[3], {"a": 3}, "text"])
def test_a_file_that_is_no_object_of_questions_is_refused(tmp_path: Path, value: object) -> None:
    opened = WebQA().open(folder_of(tmp_path, value))

    with pytest.raises(CaseError):
        list(opened.cases)


@pytest.mark.parametrize("name", ["imgs.tsv", "imgs.lineidx", "WebQA_train_val.json"])
def test_files_that_are_missing_are_told_where_to_get(tmp_path: Path, name: str) -> None:
    (folder_of(tmp_path, {GUID: asked()}) / name).unlink()

    with pytest.raises(CaseError, match=name.partition(".")[0]) as refused:
        WebQA().open(tmp_path)

    assert "imgs.7z.001" in refused.value.hint
