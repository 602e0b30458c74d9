"""Videos are found by their key: in their name, in the file beside a numbered one, or in an archive."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from document_sets import write_files, write_json, write_lines
from hypothesis import given
from hypothesis import strategies as st

from vrag.datasets.files.clean_cases import Remarks
from vrag.datasets.lvbench import LVBench, _key_in, find_videos  # pyright: ignore[reportPrivateUsage]
from vrag.datasets.protocols import FileDocument
from vrag.errors import CaseError
from vrag.evaluation.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY, OTHER = "Cm73ma6Ibcs", "-_xYz012345"
URL = f"https://www.youtube.com/watch?v={KEY}"


def found(folder: Path, *keys: str) -> dict[str, str]:
    """The path of each key within the folder."""
    videos = find_videos(folder, keys, Remarks())
    return {
        key: one.relative_to(folder).as_posix() if isinstance(one, Path) else f"{one.archive.name}/{one.path}"
        for key in keys
        if (one := videos.get(key))
    }


def numbered(folder: Path, number: str, told: object) -> None:
    """A video and what video2dataset leaves beside it."""
    write_files(folder, f"videos/00000/{number}.mp4")
    write_json(folder / f"videos/00000/{number}.json", told)


@pytest.mark.parametrize(
    "told",
    [
        {"url": URL, "key": "00000000", "status": "success", "error_message": None},
        {"url": f"https://youtu.be/{KEY}?t=5", "key": 0},
        {"url": f"http://m.youtube.com/watch?t=1&v={KEY}"},
        {"url": f"https://youtube.com/shorts/{KEY}"},
        {"url": "https://example.org/film.mp4", "video_id": KEY},
        {"url": None, "id": KEY},
    ],
)
def test_a_numbered_video_is_the_one_that_the_file_beside_it_tells(
    tmp_path: Path, told: Mapping[str, object]
) -> None:
    numbered(tmp_path, "00000000", told)
    numbered(tmp_path, "00000001", {"url": URL.replace(KEY, OTHER)})

    assert found(tmp_path, KEY, OTHER) == {
        KEY: "videos/00000/00000000.mp4",
        OTHER: "videos/00000/00000001.mp4",
    }


def test_numbered_videos_become_documents_that_are_called_by_their_keys(tmp_path: Path) -> None:
    numbered(tmp_path, "000000007", {"url": URL})
    question = {"uid": 1, "question": "Who?\n(A) I\n(B) You", "answer": "A"}
    write_lines(tmp_path / "video_info.meta.jsonl", [{"key": KEY, "qa": [question]}])

    opened = LVBench().open(tmp_path)

    assert [case.file_name for case in opened.cases] == [f"{KEY}.mp4"]
    assert [*opened.documents] == [FileDocument(f"{KEY}.mp4", tmp_path / "videos/00000/000000007.mp4")]
    assert opened.notes == [
        "Questions have a time reference that cannot be read, and no gold (1): lvbench-1."
    ]


def test_a_video_that_is_called_by_its_key_goes_before_one_that_is_numbered(tmp_path: Path) -> None:
    numbered(tmp_path, "00000000", {"url": URL})
    write_files(tmp_path, f"{KEY}.webm")

    assert found(tmp_path, KEY) == {KEY: f"{KEY}.webm"}


def test_a_key_may_look_like_a_number(tmp_path: Path) -> None:
    numbered(tmp_path, "12345678901", {"url": URL})

    assert found(tmp_path, "12345678901", KEY) == {"12345678901": "videos/00000/12345678901.mp4"}


@pytest.mark.parametrize(
    "told",
    [
        "{",
        "[]",
        '"text"',
        "null",
        "[" * 10_000,
        '{"url": 7, "id": 8}',
        "\x00",
        f'{{"url": "{URL}", "more": "{"x" * 2**20}"}}',
    ],
)
def test_what_is_beside_and_tells_nothing_is_counted(tmp_path: Path, told: str) -> None:
    numbered(tmp_path, "00000000", {})
    (tmp_path / "videos/00000/00000000.json").write_text(told)
    remarks = Remarks()

    assert KEY not in find_videos(tmp_path, [KEY], remarks)
    assert remarks.notes == [
        "Videos are named by a number, without a .json beside that says which they are (1): 00000000.mp4."
    ]


@pytest.mark.parametrize(
    "url",
    ["https://youtube.com.evil.org/watch?v=x", "https://vimeo.com/x", "http://[", "", None, 5, "youtu.be"],
)
def test_other_addresses_have_no_key(url: object) -> None:
    assert _key_in(url) == ""


@given(key=st.text("abcXYZ019-_", min_size=1), more=st.text("abc=&", max_size=9))
def test_the_key_of_an_address_is_read_whatever_follows(key: str, more: str) -> None:
    assert _key_in(f"https://www.youtube.com/watch?v={key}&{more}") == key


@given(url=st.text())
def test_any_address_is_survived(url: str) -> None:
    assert isinstance(_key_in(url), str)
    assert isinstance(_key_in(f"https://youtube.com/{url}"), str)


def test_videos_are_read_out_of_archives_where_any_is_missing(tmp_path: Path) -> None:
    write_files(tmp_path, f"{KEY}.mp4")
    with zipfile.ZipFile(tmp_path / "videos_chunk_001.zip", "w") as made:
        made.writestr(f"all_videos/{KEY}.mp4", b"another")
        made.writestr(f"all_videos/{OTHER}.mkv", b"film")
    (tmp_path / "videos_chunk_002.zip").write_bytes(b"still coming")

    assert found(tmp_path, KEY) == {KEY: f"{KEY}.mp4"}
    assert found(tmp_path, KEY, OTHER)[KEY] == f"{KEY}.mp4"
    assert found(tmp_path, KEY, OTHER)[OTHER] == f"videos_chunk_001.zip/all_videos/{OTHER}.mkv"
    with pytest.raises(CaseError, match=r"videos_chunk_002\.zip is not a complete archive"):
        found(tmp_path, KEY, OTHER, "gone")


def test_lvbench_is_prepared_from_an_archive(tmp_path: Path) -> None:
    question = {"uid": 1, "question": "Who?\n(A) I\n(B) You", "answer": "A", "time_reference": "00:01-00:02"}
    (tmp_path / "video_info.meta.jsonl").write_text(json.dumps({"key": KEY, "qa": [question]}))
    with zipfile.ZipFile(tmp_path / "all_videos.zip", "w") as made:
        made.writestr(f"all_videos/{KEY}.mp4", b"film")

    made = prepare([(LVBench(), tmp_path, None)], tmp_path / "out")

    assert {path.name: path.read_bytes() for path in made.documents.iterdir()} == {f"{KEY}.mp4": b"film"}
