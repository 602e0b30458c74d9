"""Files of one name in one collection are told apart by their folders, and removed one at a time."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from library_harness import FIRST, library

from vrag.index.build import add
from vrag.index.shown_names import relative_folders

if TYPE_CHECKING:
    from library_harness import Desk

UPLOADS = Path("/c/uploads")
PATHS = st.lists(st.sampled_from("abc"), max_size=4).map(lambda parts: "/" + "/".join([*parts, "a.pdf"]))


@pytest.mark.parametrize(
    ("paths", "folders"),
    [
        ([], []),
        (["/r/a.pdf", "/r/b.pdf"], ["", ""]),
        (["/r/2023/a.pdf", "/r/2024/a.pdf"], ["2023", "2024"]),
        (["/r/2023/a.pdf", "/r/2024/q1/a.pdf", "/r/b.pdf"], ["2023", "2024/q1", ""]),
        (["/r/23/q1/a.pdf", "/r/24/q1/a.pdf"], ["23/q1", "24/q1"]),
        (
            ["/home/me/docs/a.pdf", "/srv/docs/x/a.pdf", "/srv/docs/b.pdf"],
            ["me/docs", "srv/docs/x", "srv/docs"],
        ),
        (["/home/me/a.pdf", "/srv/docs/x/a.pdf"], ["me", "x"]),
        (["/a.pdf", "/r/a.pdf"], ["", "r"]),
        (["/c/uploads/a.pdf", "/c/uploads/x／y／a.pdf"], ["", "x/y"]),
        (["/c/uploads/a.pdf", "/c/uploads/x／a.pdf", "/r/b.pdf"], ["", "x", ""]),
        (["/c/uploads/a.pdf", "/r/a.pdf"], ["uploads", ""]),
    ],
)
def test_folders_are_told_without_what_all_paths_begin_with(paths: list[str], folders: list[str]) -> None:
    assert relative_folders(paths, UPLOADS) == dict(zip(paths, folders, strict=True))


@given(paths=st.lists(PATHS, unique=True))
def test_no_two_files_of_one_name_are_told_alike_and_folders_are_ends_of_paths(paths: list[str]) -> None:
    told = relative_folders(paths, UPLOADS)
    assert len(set(told.values())) == len(told) == len(paths)
    for path, folder in told.items():
        assert not folder or f"{PurePosixPath(path).parent}".endswith(f"/{folder}")


def _reports(desk: Desk, folder: Path) -> list[Path]:
    """The same report in two folders, and another one of its name, indexed."""
    files = [folder / "reports" / year / "a.md" for year in ("2022", "2023", "2024")]
    for file, text in zip(files, ("one", "two", "two"), strict=True):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    add(desk.shelf.collection, [folder / "reports"])
    return files


def test_a_list_names_folders_and_never_whole_paths(tmp_path: Path) -> None:
    with library(tmp_path) as desk:
        _reports(desk, tmp_path)
        desk.added("b.md", "three")
        told = [(one["name"], one["folder"], one["size"]) for one in desk.documents()]
        assert told == [("a.md", "2022", 3), ("a.md", "2023", 3), ("a.md", "2024", 3), ("b.md", "", 5)]
        assert str(tmp_path) not in desk.client.get(f"/collections/{FIRST}/documents").text
        desk.added("a.md", "four")
        assert [one["folder"] for one in desk.documents()] == ["", "2022", "2023", "2024", ""]


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
        assert [one["folder"] for one in desk.documents()] == [""]


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
