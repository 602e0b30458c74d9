"""Files of one name in one collection are told apart by their folders, and removed one at a time."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from library_harness import FIRST, library

from vrag.index.build import add
from vrag.server.collections.files import distinct_folders

if TYPE_CHECKING:
    from library_harness import Desk

PATHS = st.lists(st.sampled_from("abc"), max_size=4).map(lambda parts: "/" + "/".join([*parts, "a.pdf"]))


@pytest.mark.parametrize(
    ("paths", "folders"),
    [
        ([], {}),
        (["/r/2023/a.pdf", "/r/2024/b.pdf"], {}),
        (["/r/2023/a.pdf", "/r/2024/a.pdf"], {"/r/2023/a.pdf": "2023", "/r/2024/a.pdf": "2024"}),
        (["/r/23/q1/a.pdf", "/r/24/q1/a.pdf"], {"/r/23/q1/a.pdf": "23/q1", "/r/24/q1/a.pdf": "24/q1"}),
        (["/q/a.pdf", "/r/q/a.pdf"], {"/q/a.pdf": "q", "/r/q/a.pdf": "r/q"}),
        (["/a.pdf", "/r/a.pdf"], {"/a.pdf": "/", "/r/a.pdf": "r"}),
    ],
)
def test_the_end_that_differs_tells_files_of_one_name_apart(
    paths: list[str], folders: dict[str, str]
) -> None:
    assert distinct_folders(paths) == folders


@given(paths=st.lists(PATHS, unique=True))
def test_no_two_files_of_one_name_are_told_alike_and_none_by_more_than_it_needs(paths: list[str]) -> None:
    told = distinct_folders(paths)
    assert len(set(told.values())) == len(told) == (len(paths) if len(paths) > 1 else 0)
    for path, folder in told.items():
        assert folder == "/" or f"{PurePosixPath(path).parent}".endswith(f"/{folder}")
        shorter = folder.partition("/")[2]
        others = [f"{PurePosixPath(other).parent}" for other in paths if other != path]
        assert not shorter or any(other.endswith(f"/{shorter}") for other in others)


def _reports(desk: Desk, folder: Path) -> list[Path]:
    """The same report in two folders, and another one of its name, indexed."""
    files = [folder / "reports" / year / "a.md" for year in ("2022", "2023", "2024")]
    for file, text in zip(files, ("one", "two", "two"), strict=True):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    add(desk.shelf.collection, [folder / "reports"])
    return files


def test_a_list_names_folders_only_where_names_are_not_enough_and_never_whole_paths(tmp_path: Path) -> None:
    with library(tmp_path) as desk:
        _reports(desk, tmp_path)
        desk.added("b.md", "three")
        told = [(one["name"], one["folder"], one["size"]) for one in desk.documents()]
        assert told == [("a.md", "2022", 3), ("a.md", "2023", 3), ("a.md", "2024", 3), ("b.md", None, 5)]
        assert str(tmp_path) not in desk.client.get(f"/collections/{FIRST}/documents").text
        desk.added("a.md", "four")
        assert [one["folder"] for one in desk.documents()] == ["2022", "2023", "2024", "uploads", None]


def test_of_files_of_one_name_and_content_the_one_is_removed_whose_folder_is_named(tmp_path: Path) -> None:
    with library(tmp_path) as desk:
        _reports(desk, tmp_path)
        document = desk.documents()[1]["id"]
        address = f"/collections/{FIRST}/documents/{document}"
        for folder in ("2022", "reports/2023", "", str(tmp_path / "reports" / "2023")):
            answer = desk.client.delete(address, params={"file": "a.md", "folder": folder})
            assert answer.status_code == 404, folder
        assert desk.client.delete(address, params={"file": "a.md", "folder": "2023"}).status_code == 204
        assert [one["folder"] for one in desk.documents()] == ["2022", "2024"]
        assert desk.found("two") == ["a.md"]  # the other one is still there
        assert desk.client.delete(address, params={"file": "a.md"}).status_code == 204
        assert [one["folder"] for one in desk.documents()] == [None]


def test_a_collection_whose_folder_is_gone_says_so_and_comes_back_with_it(tmp_path: Path) -> None:
    with library(tmp_path) as desk:
        desk.added("a.md", "one")
        place = desk.shelf.collection.directory
        place.rename(tmp_path / "elsewhere")
        (told,) = desk.client.get("/collections").json()["collections"]
        assert (told["readable"], told["writable"]) == (False, False)
        assert "folder" in told["reason"]
        assert str(tmp_path) not in told["reason"]
        (tmp_path / "elsewhere").rename(place)
        (told,) = desk.client.get("/collections").json()["collections"]
        assert (told["readable"], told["writable"], told["reason"]) == (True, True, None)
