"""Files as they were published: found, refused by name, their questions told apart; remarks on them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from vrag.datasets.files.clean_cases import Remarks, distinct_names
from vrag.datasets.files.lookup import blamed, choose_split, find_all, objects
from vrag.datasets.protocols import Hub
from vrag.errors import CaseError
from vrag.types import Case

if TYPE_CHECKING:
    from pathlib import Path

HUB = Hub(repo="some/set")


def folder_of(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("[]")
    return folder


def case(uid: str, query: str = "?") -> Case:
    return Case(uid=uid, query=query, reference_answer="a", file_name="a.pdf")


def test_the_first_pattern_that_any_file_has_counts(tmp_path: Path) -> None:
    folder_of(tmp_path, "deep/b.json", "a.json", "deep/er/b.json", "xb.json")

    assert find_all(tmp_path, "c.json", "b.json", "a.json") == [
        tmp_path / "deep/b.json",
        tmp_path / "deep/er/b.json",
    ]
    assert find_all(tmp_path, "deep/b.json") == [tmp_path / "deep/b.json"]
    assert find_all(tmp_path / "deep", "deep/b.json") == [tmp_path / "deep/b.json"]
    assert find_all(tmp_path, "c.json") == []
    assert find_all(tmp_path / "deep", "d*.json", "de*/b.json") == [tmp_path / "deep/b.json"]


def test_hidden_files_and_those_of_archives_are_passed_over(tmp_path: Path) -> None:
    folder_of(tmp_path, ".cache/a.json", "__MACOSX/a.json", "._a.json", "x/.a.json")

    assert find_all(tmp_path, "*.json") == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_links_to_files_are_files_and_pipes_and_links_to_nothing_are_none(tmp_path: Path) -> None:
    folder_of(tmp_path, "blobs/1")
    (tmp_path / "a.json").symlink_to("blobs/1")  # as in the cache of the hub
    (tmp_path / "b.json").symlink_to("blobs/2")
    (tmp_path / "c.json").mkdir()
    os.mkfifo(tmp_path / "d.json")

    assert find_all(tmp_path, "*.json") == [tmp_path / "a.json"]


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="is not a directory"):
        find_all(tmp_path / "away", "*")


def test_shards_of_one_place_are_read_together_and_one_file_alone(tmp_path: Path) -> None:
    splits = {"test": ("test-*.parquet", "test*.json"), "dev": ("dev.json",)}
    folder_of(tmp_path, "a/test-1.parquet", "a/test-0.parquet", "b/test-0.parquet", "dev.json")
    folder_of(tmp_path / "c", "test.json", "test2.json")

    assert choose_split(tmp_path, splits, None, HUB) == (
        "test",
        [tmp_path / "a/test-0.parquet", tmp_path / "a/test-1.parquet"],
    )
    assert choose_split(tmp_path / "c", splits, None, HUB) == ("test", [tmp_path / "c/test.json"])
    assert choose_split(tmp_path, splits, "dev", HUB) == ("dev", [tmp_path / "dev.json"])


def test_a_split_that_is_not_there_is_not_replaced_by_another(tmp_path: Path) -> None:
    folder_of(tmp_path, "dev.json")

    with pytest.raises(CaseError, match=r"holds no test\.json") as refused:
        choose_split(tmp_path, {"test": ("test.json",), "dev": ("dev.json",)}, "test", HUB)

    assert "some/set" in refused.value.hint


def test_rows_that_are_no_objects_are_refused_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"a": 1}, 2]')

    with pytest.raises(CaseError, match=r"a\.json, row 2 is not an object"):
        list(objects([tmp_path / "a.json"]))


def test_an_error_is_told_with_its_place_and_a_hint() -> None:
    with pytest.raises(CaseError, match=r"^row 3: Wrong") as refused, blamed("row 3"):
        raise CaseError("Wrong.")

    assert refused.value.hint


def test_uids_differ_in_the_end_and_the_same_question_comes_once() -> None:
    remarks = Remarks()
    cases = [case("a"), case("a"), case("a", "!"), case("a-2"), case("a")]

    assert [each.uid for each in distinct_names(cases, remarks)] == ["a", "a-2", "a-2-2"]
    assert len(remarks.notes) == 2


def test_remarks_are_right_at_any_moment_and_name_few() -> None:
    remarks = Remarks()
    remarks.say("First.")
    remarks.say("First.")
    for number in range(1_200):
        remarks.count("pages are blank", f"p{number}")
        remarks.count("pages are blank", f"p{number}")
    remarks.count("pages are cut", "long" * 50)

    assert remarks.notes == [
        "First.",
        "Pages are blank (1,200): p0, p1, p2, p3, p4, ….",
        f"Pages are cut (1): {'long' * 20}.",
    ]
