"""LVBench from files in its published shapes, with what is odd in them."""

from __future__ import annotations

import importlib
import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.datasets.lvbench import LVBench, stretch
from vrag.datasets.protocols import FileDocument
from vrag.errors import CaseError
from vrag.types import AnswerFormat

if TYPE_CHECKING:
    from pathlib import Path

pa: Any = importlib.import_module("pyarrow")
parquet: Any = importlib.import_module("pyarrow.parquet")

KEY, OTHER = "Cm73ma6Ibcs", "-_xYz012345"
STEM = "What year appears in the opening caption?"
OPTIONS = "(A) 1636\n(B) 1366\n(C) 1363\n(D) 1633"


def asked(uid: object, **changed: object) -> dict[str, object]:
    """A question as published."""
    return {
        "uid": uid,
        "question": f"{STEM}\n{OPTIONS}",
        "answer": "D",
        "question_type": ["key information retrieval", "reasoning"],
        "time_reference": "00:15-00:19",
    } | changed


def video(key: str, *questions: object) -> dict[str, object]:
    """A line of the published file."""
    info = {"duration_minutes": 60.5, "fps": 30.0, "resolution": {"width": 1920, "height": 1080}}
    return {"key": key, "type": "cartoon", "video_info": info, "qa": list(questions)}


def folder_of(tmp_path: Path, *lines: object, films: tuple[str, ...] = (f"all_videos/{KEY}.mp4",)) -> Path:
    """A folder with these lines and these videos."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "video_info.meta.jsonl").write_text(text, encoding="utf-8")
    for film in films:
        (tmp_path / film).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / film).write_bytes(b"film")
    return tmp_path


def test_a_question_is_read_with_its_options_its_letter_and_its_stretch(tmp_path: Path) -> None:
    opened = LVBench().open(folder_of(tmp_path, video(KEY, asked("1157"))))

    (case,) = opened.cases

    assert (case.uid, case.benchmark, case.file_name) == ("lvbench-1157", "lvbench", f"{KEY}.mp4")
    assert case.query == f"{STEM}\n{OPTIONS}"
    assert (case.reference_answer, case.answer_format) == ("D", AnswerFormat.LETTER)
    assert case.spans == ((15.0, 19.0),)
    assert case.source_type == ("key information retrieval", "reasoning")
    assert case.document_type == "cartoon"
    assert [*opened.documents] == [FileDocument(f"{KEY}.mp4", tmp_path / "all_videos" / f"{KEY}.mp4")]
    assert opened.notes == []


@pytest.mark.parametrize("name", [f"{KEY}.mp4", f"deep/er/{KEY}.mkv", f"{KEY}.webm", f"{KEY}.MP4"])
def test_a_video_is_found_by_its_key_however_deep(tmp_path: Path, name: str) -> None:
    opened = LVBench().open(folder_of(tmp_path, video(KEY, asked(1)), films=(name,)))

    assert [case.file_name for case in opened.cases] == [name.rpartition("/")[2]]
    assert [each.path for each in opened.documents if isinstance(each, FileDocument)] == [tmp_path / name]


def test_questions_about_a_missing_video_are_asked_all_the_same_and_counted_once(tmp_path: Path) -> None:
    lines = [video(KEY, asked(1)), video(OTHER, asked(2), asked(3))]
    opened = LVBench().open(folder_of(tmp_path, *lines))

    assert [case.file_name for case in opened.cases] == [f"{KEY}.mp4", f"{OTHER}.mp4", f"{OTHER}.mp4"]
    assert [document.name for document in opened.documents] == [f"{KEY}.mp4"]
    assert opened.notes == [f"Videos are missing; questions about them are asked all the same (1): {OTHER}."]


def test_without_any_video_it_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="holds no videos") as refused:
        LVBench().open(folder_of(tmp_path, video(KEY, asked(1)), films=()))

    assert "<key>.mp4" in refused.value.hint


def test_videos_that_are_called_by_numbers_are_refused_with_how_to_call_them(tmp_path: Path) -> None:
    opened = LVBench().open(folder_of(tmp_path, video(KEY, asked(1)), films=("videos/00000/00000000.mp4",)))

    with pytest.raises(CaseError, match=r"None of the 1 videos.*<key>\.mp4.*\.json of video2dataset"):
        list(opened.cases)
    assert opened.notes[0] == (
        "Videos are named by a number, without a .json beside that says which they are (1): 00000000.mp4."
    )


def test_a_video_that_two_lines_tell_is_one_document(tmp_path: Path) -> None:
    opened = LVBench().open(folder_of(tmp_path, video(KEY, asked(1)), video(KEY, asked(2), asked(1))))

    assert [case.uid for case in opened.cases] == ["lvbench-1", "lvbench-2"]
    assert len([*opened.documents]) == 1
    assert opened.notes == ["Questions are there twice and were taken once (1): lvbench-1."]


def test_another_question_with_the_same_uid_gets_one_of_its_own(tmp_path: Path) -> None:
    opened = LVBench().open(folder_of(tmp_path, video(KEY, asked(1), asked("1", answer="A"))))

    assert [(case.uid, case.reference_answer) for case in opened.cases] == [
        ("lvbench-1", "D"),
        ("lvbench-1-2", "A"),
    ]


@pytest.mark.parametrize(("written", "letter"), [(" B ", "B"), ("(C)", "C"), ("d.", "D")])
def test_a_letter_is_read_however_it_is_written(tmp_path: Path, written: str, letter: str) -> None:
    opened = LVBench().open(folder_of(tmp_path, video(KEY, asked(1, answer=written))))

    assert [case.reference_answer for case in opened.cases] == [letter]


def test_the_parquet_with_a_question_a_row_reads_as_the_lines(tmp_path: Path) -> None:
    (tmp_path / "lines").mkdir()
    (tmp_path / "rows" / "data").mkdir(parents=True)
    lines = folder_of(tmp_path / "lines", video(KEY, asked("7")))
    columns = {"video_path": f"{KEY}.mp4", "key": KEY, "type": "cartoon"}
    table = pa.Table.from_pylist([asked("7") | columns])
    parquet.write_table(table, tmp_path / "rows" / "data" / "train-00000-of-00001.parquet")
    (tmp_path / "rows" / f"{KEY}.mp4").write_bytes(b"film")

    assert [*LVBench().open(tmp_path / "rows").cases] == [*LVBench().open(lines).cases]


@pytest.mark.parametrize("options", [["1636", "1366"], ["(A) 1636", "(B) 1366"], ["A. 1636", "B. 1366"]])
def test_options_of_a_column_are_put_below_the_question(tmp_path: Path, options: list[str]) -> None:
    question = asked(1, question=STEM, options=options, answer="A")
    opened = LVBench().open(folder_of(tmp_path, video(KEY, question)))

    assert [case.query for case in opened.cases] == [f"{STEM}\n(A) 1636\n(B) 1366"]


def test_options_that_stand_in_the_question_are_not_put_there_again(tmp_path: Path) -> None:
    opened = LVBench().open(folder_of(tmp_path, video(KEY, asked(1, options=["1636", "1366"]))))

    assert [case.query for case in opened.cases] == [f"{STEM}\n{OPTIONS}"]


@pytest.mark.parametrize(
    ("reference", "span"),
    [
        ("00:15-00:19", (15, 19)),
        ("1:02:03-1:02:04", (3723, 3724)),
        ("59:50-1:00:10", (3590, 3610)),  # minutes first, hours then
        ("90:00 - 90:30", (5400, 5430)),  # minutes go on beyond 59
        ("00:00-end", (0, 6000)),
        ("00:00-1:40:00", (0, 6000)),  # all of it
        ("10:00-10:00", (600, 601)),  # a moment lasts its second
        ("02:00-01:00", None),
        ("00:60-01:10", None),
        ("1:60:00-1:61:00", None),
        ("2:00:00-2:00:10", None),  # the video is over by then
        ("10:00", None),
        ("", None),
        ("whole video", None),
        (None, None),
        (15, None),
        (["00:15-00:19"], None),
    ],
)
def test_time_references_are_told_in_seconds(reference: object, span: tuple[float, float] | None) -> None:
    assert stretch(reference, 6000.0) == span


def test_the_end_of_a_video_of_unknown_length_is_unknown() -> None:
    assert stretch("00:00-end", math.inf) is None


@given(start=st.integers(0, 359_999), length=st.integers(1, 3_000), hours=st.booleans())
def test_a_time_reference_comes_back_from_its_text(start: int, length: int, hours: bool) -> None:
    def told(seconds: int) -> str:
        minutes, rest = divmod(seconds, 60)
        if hours or minutes > 999:
            return f"{minutes // 60:02}:{minutes % 60:02}:{rest:02}"
        return f"{minutes:02}:{rest:02}"

    assert stretch(f"{told(start)}-{told(start + length)}") == (start, start + length)


@given(text=st.text(alphabet="0123456789:-– end", max_size=20))
def test_any_text_is_a_stretch_in_order_or_none(text: str) -> None:
    found = stretch(text, 5000.0)

    assert found is None or 0 <= found[0] < found[1]


def test_a_question_whose_time_reference_cannot_be_read_has_no_gold_and_is_asked(tmp_path: Path) -> None:
    opened = LVBench().open(folder_of(tmp_path, video(KEY, asked(1, time_reference="later"))))

    assert [case.spans for case in opened.cases] == [()]
    assert opened.notes == [
        "Questions have a time reference that cannot be read, and no gold (1): lvbench-1."
    ]


@pytest.mark.parametrize(
    "line",
    [
        video(KEY, asked(1, answer="The answer is B")),
        video(KEY, asked(1, answer=None)),
        video(KEY, asked(1, question=math.nan)),
        video(KEY, {"uid": 1}),
        video(KEY, "a question"),
        video("../../etc/passwd", asked(1)),
        video("a\x00b", asked(1)),
        video("C:\\film", asked(1)),
        {"key": KEY, "qa": {"uid": 1}},
        {"qa": [asked(1)]},
        ["no object"],
    ],
)
def test_a_line_that_is_not_as_published_is_refused_by_name(tmp_path: Path, line: object) -> None:
    opened = LVBench().open(folder_of(tmp_path, video(KEY, asked(0)), line))

    with pytest.raises(CaseError, match=r"video_info\.meta\.jsonl, row 2") as refused:
        list(opened.cases)

    assert refused.value.hint


def test_lines_that_are_missing_are_told_where_to_get(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"no video_info\.meta\.jsonl") as refused:
        LVBench().open(tmp_path)

    assert "zai-org/LVBench" in refused.value.hint


def test_there_is_one_split(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="no split 'train'"):
        LVBench().open(folder_of(tmp_path, video(KEY, asked(0))), "train")
