from __future__ import annotations

import hashlib
import os
import socket
import sys
from pathlib import Path

import pytest

from vrag.corpus.discover import Skipped, find, read_source

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")


def touch(path: Path, data: bytes = b"text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def split(*paths: Path) -> tuple[list[Path], dict[Path, str]]:
    found = list(find(paths))
    skipped = {entry.path: entry.reason for entry in found if isinstance(entry, Skipped)}
    assert all(reason for reason in skipped.values())
    return [entry for entry in found if isinstance(entry, Path)], skipped


def test_files_are_found_at_any_depth_sorted_and_in_any_case(tmp_path: Path) -> None:
    wanted = [touch(tmp_path / name) for name in ("B.PDF", "a.Txt", "z/y/x/deep.md")]
    files, skipped = split(tmp_path)
    assert files == sorted(wanted)
    assert not skipped


def test_unknown_suffixes_are_reported_and_hidden_files_are_not(tmp_path: Path) -> None:
    touch(tmp_path / ".hidden.pdf")
    touch(tmp_path / ".git" / "a.txt")
    odd, none, mail = (touch(tmp_path / name) for name in ("a.xyz", "Makefile", "a.msg"))
    files, skipped = split(tmp_path)
    assert files == []
    assert skipped == {
        odd: "Files of type .xyz are not supported.",
        none: "Files without a suffix are not supported.",
        mail: "Files of type .msg are not supported. Save mail of Outlook as .eml.",
    }


def test_the_insides_of_a_collection_are_no_documents(tmp_path: Path) -> None:
    """Neither of this version nor of an earlier one; nor those of a backup."""
    for name, files in {
        "mine": ("collection.db", "writer.lock", "runs/a.txt"),
        "backup": ("collection.db", "backup.json"),
        "old": ("collection.json", "items/0123/1.jpg"),
    }.items():
        for file in files:
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "records").mkdir()
    for file in ("collection.db", "b.txt"):
        (tmp_path / "records" / file).write_text("of another program")
    found = list(find([tmp_path]))
    files = [path.relative_to(tmp_path).as_posix() for path in found if isinstance(path, Path)]
    assert files == ["a.txt", "records/b.txt"]
    skipped = [each.path.relative_to(tmp_path).as_posix() for each in found if isinstance(each, Skipped)]
    assert skipped == ["backup", "mine", "old", "records/collection.db"]


def test_each_file_comes_once_however_often_it_is_named(tmp_path: Path) -> None:
    path = touch(tmp_path / "b" / "a.txt")
    files, _ = split(path, tmp_path, tmp_path / "b" / ".." / "b", path)
    assert files == [path]


def test_a_path_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    assert split(tmp_path / "no.pdf")[1] == {tmp_path / "no.pdf": "It does not exist."}


@posix
def test_links_are_followed_within_the_folder_and_never_out_of_it(tmp_path: Path) -> None:
    outside = touch(tmp_path / "outside" / "a.txt")
    root = tmp_path / "root"
    inside = touch(root / "inside.txt")
    for name, target in {
        "file.txt": inside,
        "loop": root,
        "out.txt": outside,
        "out": outside.parent,
        "nowhere.txt": root / "missing",
        "self.txt": root / "self.txt",
    }.items():
        (root / name).symlink_to(target)
    files, skipped = split(root)
    assert files == [root / "file.txt", inside]
    reasons = {path.name: reason for path, reason in skipped.items()}
    assert "out of the folder" in reasons["out.txt"]
    assert "out of the folder" in reasons["out"]
    assert "searched anyway" in reasons["loop"]
    assert "nowhere" in reasons["nowhere.txt"]
    assert "nowhere" in reasons["self.txt"]


@posix
def test_a_link_that_is_named_may_lead_anywhere(tmp_path: Path) -> None:
    touch(tmp_path / "real" / "a.txt")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert split(tmp_path / "link")[0] == [tmp_path / "link" / "a.txt"]


@posix
def test_pipes_sockets_and_devices_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    monkeypatch.chdir(tmp_path)  # socket paths are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.txt")
        files, skipped = split(tmp_path, Path("/dev/null"))
    assert files == []
    assert set(skipped.values()) == {"It is not a regular file."}
    assert len(skipped) == 3
    with pytest.raises(OSError, match="Not a regular file"):
        read_source(tmp_path / "pipe.txt")


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_reported(tmp_path: Path) -> None:
    folder = touch(tmp_path / "secret" / "a.txt").parent
    folder.chmod(0)
    try:
        assert "Permission denied" in split(tmp_path)[1][folder]
    finally:
        folder.chmod(0o700)


@posix
@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are Unicode")
def test_odd_names_are_found_and_shown_as_valid_unicode(tmp_path: Path) -> None:
    names = [
        "new\nline.txt",
        "emoji 🦆.txt",
        "quote'\".txt",
        " .txt",
        "日本語.txt",
        "x" * 251 + ".txt",
        "-rf.txt",
    ]
    for name in names:
        touch(tmp_path / name)
    os.close(os.open(os.fsencode(tmp_path) + b"/bad\xff.txt", os.O_CREAT | os.O_WRONLY))
    files, skipped = split(tmp_path)
    assert len(files) == len(names) + 1
    assert not skipped
    shown = {read_source(path).name for path in files}
    assert shown == {*names, "bad\ufffd.txt"}
    "".join(shown).encode()


@posix
def test_folders_deeper_than_a_path_may_be_are_reported_not_a_crash(tmp_path: Path) -> None:
    top = os.open(tmp_path, os.O_RDONLY)
    here = top
    for _ in range(60):
        os.mkdir("d" * 100, dir_fd=here)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        if here != top:
            os.close(here)
        here = below
    os.close(here)
    os.close(top)
    files, skipped = split(tmp_path)
    assert files == []
    assert [reason for reason in skipped.values() if "too long" in reason]


def test_the_hash_is_that_of_the_bytes(tmp_path: Path) -> None:
    path = touch(tmp_path / "a.txt", b"abc" * 1000)
    source = read_source(path)
    assert source.document == hashlib.sha256(b"abc" * 1000).hexdigest()
    assert (source.size, source.name, source.path) == (3000, "a.txt", path)
