"""Benchmarks become one folder: whole or not at all, with names that cannot be mistaken."""

from __future__ import annotations

import errno
import io
import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pypdfium2 as pdfium
import pytest
from PIL import Image

from vrag.datasets.protocols import (
    Benchmark,
    DocumentSource,
    FileDocument,
    Hub,
    OpenBenchmark,
    PageDocument,
    TextDocument,
)
from vrag.errors import CaseError
from vrag.evaluation.prepare import prepare, read_prepared
from vrag.geometry import Box
from vrag.types import AnswerFormat, Case, GoldPage, Region

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def case(uid: str, file_name: str = "a.txt", **more: object) -> Case:
    return Case(uid=uid, query="Who?", reference_answer="Orla", file_name=file_name, **more)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class Small(Benchmark):
    """A benchmark of what a test needs."""

    found_cases: Iterable[Case]
    found: Iterable[DocumentSource]
    name: str = "small"
    title: str = "Small"
    about: str = "a test"
    licence: str = "none"
    measures: tuple[str, ...] = ("em",)
    hub: Hub = field(default_factory=lambda: Hub(repo="nobody/small"))

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        notes: list[str] = []

        def documents() -> Iterator[DocumentSource]:
            yield from self.found
            notes.append("One was dropped.")

        return OpenBenchmark(self.found_cases, documents(), notes)


def test_cases_documents_and_notes_come_back(tmp_path: Path) -> None:
    (tmp_path / "film.mp4").write_bytes(b"frames")
    whole = case(
        "1",
        gold=(GoldPage("b.txt"), GoldPage("a.txt", 2, 2)),
        regions=(Region(1, Box.unit(0, 0, 0.5, 0.5), "b.txt"),),
        spans=((1.0, 2.0),),
        alternatives=("O.",),
        answer_format=AnswerFormat.TEXT,
        document_type="letter",
    )
    small = Small(
        [whole],
        [
            TextDocument("a.txt", "é"),
            TextDocument("b.txt", "b"),
            FileDocument("film.mp4", tmp_path / "film.mp4"),
        ],
    )
    told: list[str] = []
    made = prepare([(small, tmp_path, None)], tmp_path / "out", tell=told.append)
    again = read_prepared(tmp_path / "out")
    assert again == made
    (read,) = again.cases()
    assert read == replace(whole, benchmark="small")
    assert told == ["a.txt", "b.txt", "film.mp4"]
    assert again.parts[0].notes == ("One was dropped.",)
    assert (again.parts[0].cases, again.parts[0].documents) == (1, 3)
    assert (again.documents / "a.txt").read_text("utf-8") == "é"
    assert (again.documents / "film.mp4").read_bytes() == b"frames"


def test_pictures_of_pages_become_a_pdf(tmp_path: Path) -> None:
    saved = io.BytesIO()
    Image.new("RGB", (80, 60), "red").save(saved, "JPEG")
    small = Small([case("1", "deck.pdf")], [PageDocument("deck.pdf", lambda: iter([saved.getvalue(), None]))])
    made = prepare([(small, tmp_path, None)], tmp_path / "out")
    pdf = pdfium.PdfDocument(made.documents / "deck.pdf")
    assert len(pdf) == 2
    pdf.close()


def test_two_documents_of_one_name_are_told_apart_and_cases_follow(tmp_path: Path) -> None:
    region = Region(1, Box.unit(0, 0, 1, 1), "a.txt")
    first = Small([case("1")], [TextDocument("a.txt", "one")], name="first")
    second = Small(
        [case("2", "A.txt", gold=(GoldPage("A.txt"),), regions=(region,))],
        [TextDocument("A.txt", "two")],
        name="second",
    )
    made = prepare([(first, tmp_path, None), (second, tmp_path, None)], tmp_path / "out")
    one, two = made.cases()
    assert (made.documents / one.file_name).read_text() == "one"
    assert (made.documents / two.file_name).read_text() == "two"
    assert two.file_name == two.gold[0].document == "A--second.txt"
    assert len(list(made.documents.iterdir())) == 2


def test_the_same_document_twice_is_there_once(tmp_path: Path) -> None:
    parts = [Small([case(name)], [TextDocument("a.txt", "same")], name=name) for name in ("first", "second")]
    made = prepare([(part, tmp_path, None) for part in parts], tmp_path / "out")
    assert [path.name for path in made.documents.iterdir()] == ["a.txt"]
    assert [one.file_name for one in made.cases()] == ["a.txt", "a.txt"]


def test_a_limit_takes_the_first_cases_and_all_documents(tmp_path: Path) -> None:
    small = Small([case(str(n)) for n in range(5)], [TextDocument("a.txt", ""), TextDocument("b.txt", "")])
    made = prepare([(small, tmp_path, None)], tmp_path / "out", limit=2)
    assert [one.uid for one in made.cases()] == ["0", "1"]
    assert len(list(made.documents.iterdir())) == 2


@pytest.mark.parametrize(
    "name",
    ["../a.txt", "/a.txt", "a\\b.txt", ".a.txt", "", " ", "a\n.txt", "x" * 201, "a:b.txt", "nul\0.txt"],
)
def test_a_name_that_leaves_its_folder_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="cannot be a file"):
        prepare([(Small([case("1")], [TextDocument(name, "")]), tmp_path, None)], tmp_path / "out")
    assert not list(tmp_path.rglob("a.txt"))


def test_what_was_not_prepared_to_its_end_is_refused_and_made_anew(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"no picture"

    out = tmp_path / "out"
    with pytest.raises(CaseError, match=r"deck\.pdf cannot be made: Page 1"):
        prepare(
            [
                (
                    Small([case("1")], [TextDocument("z.txt", ""), PageDocument("deck.pdf", broken)]),
                    tmp_path,
                    None,
                )
            ],
            out,
        )
    with pytest.raises(CaseError, match="not a prepared benchmark"):
        read_prepared(out)
    prepare([(Small([case("1")], [TextDocument("a.txt", "")]), tmp_path, None)], out)
    assert [path.name for path in read_prepared(out).documents.iterdir()] == ["a.txt"]


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(CaseError, match="other files"):
        prepare([(Small([case("1")], []), tmp_path, None)], tmp_path)
    assert (tmp_path / "letters.txt").read_text() == "dear"


def test_documents_that_nobody_prepared_are_left_alone(tmp_path: Path) -> None:
    letter = tmp_path / "documents" / "letter.txt"
    letter.parent.mkdir()
    letter.write_text("dear")
    with pytest.raises(CaseError, match="other files"):
        prepare([(Small([case("1")], []), tmp_path, None)], tmp_path)
    assert letter.read_text() == "dear"


@pytest.mark.parametrize("left", [".cases.json.0123abcd.part", ".benchmark.json.0123abcd"])
def test_what_a_kill_leaves_is_taken_away(left: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    small = Small([case("1")], [TextDocument("a.txt", "")])
    prepare([(small, tmp_path, None)], out)
    (out / left).write_text("half")
    prepare([(small, tmp_path, None)], out)
    assert {path.name for path in out.iterdir()} == {
        ".preparing",
        "benchmark.json",
        "cases.json",
        "documents",
    }


def test_two_processes_do_not_prepare_one_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def meanwhile(_: str) -> None:
        with pytest.raises(CaseError, match="Another process"):
            prepare([(Small([case("2")], []), tmp_path, None)], out)

    small = Small([case("1")], [TextDocument("a.txt", "")])
    prepare([(small, tmp_path, None)], out, tell=meanwhile)
    assert [one.uid for one in read_prepared(out).cases()] == ["1"]


def test_no_cases_equal_uids_and_a_benchmark_named_twice_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(CaseError, match="holds no questions of Small"):
        prepare([(Small([], []), tmp_path, None)], out)
    with pytest.raises(CaseError, match="the uid '1'"):
        prepare([(Small([case("1"), case("1")], []), tmp_path, None)], out)
    with pytest.raises(CaseError, match="named twice"):
        prepare([(Small([case("1")], []), tmp_path, None)] * 2, out)


def test_what_was_prepared_stands_until_questions_are_read(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = prepare([(Small([case("1")], [TextDocument("a.txt", "a")]), tmp_path, None)], out)
    for cases in ([], [case("2"), case("2")]):
        with pytest.raises(CaseError):
            prepare([(Small(cases, [TextDocument("b.txt", "b")]), tmp_path, None)], out)
    assert read_prepared(out) == made
    assert [path.name for path in made.documents.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("inside", [".", "documents", "documents/deep"])
def test_what_would_be_cleared_away_is_not_read(inside: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    small = Small([case("1")], [TextDocument("a.txt", "a")])
    prepare([(small, tmp_path, None)], out)
    (tmp_path / "link").symlink_to(out)
    for folder in (out / inside, tmp_path / "link" / inside):
        with pytest.raises(CaseError, match="lies in"):
            prepare([(small, folder, None)], out)
    assert (out / "documents" / "a.txt").read_text() == "a"


def test_one_benchmark_has_no_two_documents_of_one_name(tmp_path: Path) -> None:
    twice = Small([case("1")], [TextDocument("a.txt", "one"), TextDocument("a.txt", "two")])
    with pytest.raises(CaseError, match=r"small has two documents .* 'a\.txt'"):
        prepare([(twice, tmp_path, None)], tmp_path / "out")
    same = Small(
        [case("1")],
        [TextDocument("a.txt", "one"), TextDocument("a.txt", "one"), TextDocument("A.txt", "two")],
    )
    made = prepare([(same, tmp_path, None)], tmp_path / "out")
    assert sorted(path.name for path in made.documents.iterdir()) == ["A--small.txt", "a.txt"]


def test_a_file_that_cannot_be_read_is_named_and_not_the_folder_that_is_made(tmp_path: Path) -> None:
    gone = tmp_path / "gone.pdf"
    with pytest.raises(CaseError, match=r"gone\.pdf cannot be read: No such file"):
        prepare([(Small([case("1")], [FileDocument("a.pdf", gone)]), tmp_path, None)], tmp_path / "out")
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "deeper", tmp_path / ("n" * 300) / "out"):
        with pytest.raises(CaseError, match=f"{out.name} cannot be written"):
            prepare([(Small([case("1")], []), tmp_path, None)], out)


def test_a_folder_above_that_cannot_be_made_is_no_file_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path, **__: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "above"))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(CaseError, match="out cannot be written: Permission denied"):
        prepare([(Small([case("1")], []), tmp_path, None)], tmp_path / "above" / "out")


def test_nothing_is_made_of_files_that_are_not_as_published(tmp_path: Path) -> None:
    class Unpublished(Small):
        def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
            raise CaseError("They are not as published.")

    with pytest.raises(CaseError, match="not as published"):
        prepare([(Unpublished([], []), tmp_path, None)], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_of_a_copy_that_finds_no_room_the_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device", str(source), None, str(target))

    def other_disk(*_: object) -> NoReturn:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    (tmp_path / "a.pdf").write_bytes(b"a")
    monkeypatch.setattr(os, "link", other_disk)
    monkeypatch.setattr(shutil, "copyfile", full)
    small = Small([case("1")], [FileDocument("a.pdf", tmp_path / "a.pdf")])
    with pytest.raises(CaseError, match=r"out cannot be written: No space left on device") as told:
        prepare([(small, tmp_path, None)], tmp_path / "out")
    assert "disk space" in (told.value.hint or "")
    assert not list((tmp_path / "out" / "documents").iterdir())


def test_documents_that_were_taken_out_are_missed_and_others_are_not_minded(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = prepare(
        [(Small([case("1")], [TextDocument("a.txt", ""), TextDocument("b.txt", "")]), tmp_path, None)], out
    )
    for name in ("more.txt", ".DS_Store"):
        (made.documents / name).write_text("")
    assert read_prepared(out) == made
    (made.documents / "more.txt").unlink()
    (made.documents / "b.txt").unlink()
    with pytest.raises(CaseError, match="1 of the 2 documents"):
        read_prepared(out)
    shutil.rmtree(made.documents)
    with pytest.raises(CaseError, match="2 of the 2 documents"):
        read_prepared(out)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"examples": [{"uid": 1}]}', b"[", b"\xff"])
def test_damaged_questions_are_told_with_what_helps(data: bytes, tmp_path: Path) -> None:
    made = prepare([(Small([case("1")], []), tmp_path, None)], tmp_path / "out")
    (tmp_path / "out" / "cases.json").write_bytes(data)
    with pytest.raises(CaseError, match=r"cases\.json") as told:
        made.cases()
    assert "vrag eval prepare" in (told.value.hint or "")


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b'{"schema_version": 2, "parts": []}'])
def test_damage_is_told(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "benchmark.json").write_bytes(data)
    with pytest.raises(CaseError) as told:
        read_prepared(tmp_path)
    assert told.value.hint
    assert "validation error" not in told.value.message
