from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from extras import require
from PIL import Image

from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from corpus.test_video import numbers
from corpus.video_files import Film, film_bytes
from vrag.corpus.converter import CorpusOptions
from vrag.corpus.export import Exported, ExportProblem, export_clips, export_pages
from vrag.errors import CollectionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPTIONS = CorpusOptions(workers=2, clip_seconds=3)


def pdf(count: int, words: str = "words of page") -> bytes:
    return pdf_bytes(*(PdfPage(text_at(72, 700, f"{words} {n}")) for n in range(count)))


def split(events: Iterator[Exported | ExportProblem]) -> tuple[list[Exported], dict[str, str]]:
    """What was written, and the reasons of what was not by file name."""
    written: list[Exported] = []
    reasons: dict[str, str] = {}
    for event in events:
        if isinstance(event, Exported):
            written.append(event)
        else:
            reasons[event.source.name] = event.reason
    return written, reasons


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_every_page_is_a_jpeg_named_by_stem_and_number(tmp_path: Path) -> None:
    (tmp_path / "report 1.pdf").write_bytes(pdf(11))
    Image.new("RGBA", (60, 40), (255, 0, 0, 128)).save(tmp_path / "photo.PNG")
    written, reasons = split(export_pages([tmp_path], tmp_path / "out", OPTIONS))
    assert names(tmp_path / "out") == {f"report 1_{n}.jpg" for n in range(1, 12)} | {"photo_1.jpg"}
    assert not reasons
    assert len(written) == 12
    for file in written:
        with Image.open(file.path) as image:
            assert image.format == "JPEG"
            assert file.size
            assert image.size == (file.size.width, file.size.height)


def test_documents_of_one_name_do_not_overwrite_each_other(tmp_path: Path) -> None:
    for folder, count in (("a", 1), ("b", 2), ("c", 2)):
        (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / "in" / folder / ("Plan.pdf" if folder == "b" else "plan.pdf")).write_bytes(
            pdf(count, "the same" if folder != "a" else "another")
        )
    (tmp_path / "in" / "d-2.pdf").write_bytes(pdf(1))
    written, reasons = split(export_pages([tmp_path / "in"], tmp_path / "out", OPTIONS))
    made = {"plan_1.jpg", "Plan-2_1.jpg", "Plan-2_2.jpg", "plan-3_1.jpg", "plan-3_2.jpg", "d-2_1.jpg"}
    assert names(tmp_path / "out") == made
    assert len(written) == 6
    assert not reasons


def test_files_that_are_there_stay_unless_they_are_to_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf(3))
    out = tmp_path / "out"
    out.mkdir()
    (out / "a_2.jpg").write_bytes(b"mine")
    written, reasons = split(export_pages([tmp_path / "a.pdf"], out, OPTIONS))
    assert len(written) == 2
    assert reasons["a.pdf"] == "a_2.jpg already exists; --overwrite replaces it."
    assert (out / "a_2.jpg").read_bytes() == b"mine"
    again, reasons = split(export_pages([tmp_path / "a.pdf"], out, OPTIONS))
    assert not again
    assert "a_1.jpg already exists" in reasons["a.pdf"]
    replaced, reasons = split(export_pages([tmp_path / "a.pdf"], out, OPTIONS, overwrite=True))
    assert len(replaced) == 3
    assert not reasons
    assert (out / "a_2.jpg").read_bytes() != b"mine"


def test_what_has_no_pages_and_what_is_bad_is_listed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Words.")
    (tmp_path / "page.html").write_text("<p>Words.</p>")
    (tmp_path / "bad.pdf").write_bytes(b"nothing")
    (tmp_path / "film.mp4").write_bytes(b"nothing")
    (tmp_path / "other.xyz").write_bytes(b"nothing")
    (tmp_path / "good.pdf").write_bytes(pdf(1))
    written, reasons = split(export_pages([tmp_path], tmp_path / "out", OPTIONS))
    assert [file.path.name for file in written] == ["good_1.jpg"]
    assert reasons["notes.txt"] == reasons["page.html"] == reasons["film.mp4"] == "It has no pages."
    assert "not a PDF" in reasons["bad.pdf"]
    assert ".xyz are not supported" in reasons["other.xyz"]
    assert names(tmp_path / "out") == {"good_1.jpg"}


def test_a_folder_within_the_documents_is_not_read_itself(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf(2))
    for _ in range(2):
        written, reasons = split(export_pages([tmp_path], tmp_path / "out", OPTIONS, overwrite=True))
        assert len(written) == 2
        assert not reasons
    assert names(tmp_path / "out") == {"a_1.jpg", "a_2.jpg"}


def test_videos_become_clips(tmp_path: Path) -> None:
    require("video", "av")
    (tmp_path / "talk.MP4").write_bytes(film_bytes(Film(sound="aac")))
    (tmp_path / "a.pdf").write_bytes(pdf(1))
    written, reasons = split(export_clips([tmp_path], tmp_path / "out", OPTIONS))
    assert names(tmp_path / "out") == {f"talk_{n}.mp4" for n in range(1, 5)}
    assert reasons == {"a.pdf": "It is not a video."}
    written.sort(key=lambda file: file.ordinal)
    assert [n for file in written for n in numbers(file.path)] == list(range(120))
    assert [file.clip and (file.clip.start, file.clip.end) for file in written][1] == (3, 6)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf(1))
    (tmp_path / "out").write_text("a file stands in the way")
    with pytest.raises(CollectionError, match="cannot be written"):
        list(export_pages([tmp_path / "a.pdf"], tmp_path / "out", OPTIONS))
