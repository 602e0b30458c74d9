"""Documents are read out of archives, which are taken for hostile: nothing is unpacked, all is bounded."""

from __future__ import annotations

import gc
import io
import random
import tracemalloc
import warnings
import zipfile
from typing import TYPE_CHECKING

import pytest
from document_sets import write_files, write_json
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vrag.datasets.files import archive as archives
from vrag.datasets.files.archive import members
from vrag.datasets.files.lookup import PDF, find_documents, need_all
from vrag.datasets.protocols import Hub
from vrag.datasets.vidoseek import ViDoSeek
from vrag.errors import CaseError
from vrag.evaluation.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def zipped(path: Path, files: Mapping[str, bytes], packed: int = zipfile.ZIP_DEFLATED) -> Path:
    """An archive of these files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", packed) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return path


def held(path: Path) -> dict[str, bytes]:
    """The documents of an archive by name."""
    return {one.name: b"".join(one.pieces()) for one in members(path, PDF)}


def tried(path: Path) -> tuple[dict[str, bytes], CaseError | None]:
    """The documents of an archive, or why they cannot be had."""
    try:
        return held(path), None
    except CaseError as error:
        return {}, error


def example(stem: str) -> dict[str, object]:
    meta = {"file_name": f"{stem}.pdf", "reference_page": [1], "source_type": "text", "query_type": "x"}
    return {"uid": stem, "query": "Who?", "reference_answer": "Orla", "meta_info": meta}


def test_vidoseek_is_prepared_as_it_was_fetched(tmp_path: Path) -> None:
    """Its questions and the archive of its PDFs lie side by side, as links into a cache."""
    write_json(tmp_path / "cache" / "q", {"examples": [example("a")]})
    zipped(
        tmp_path / "cache" / "z", {"vidoseek_pdf_document/a.pdf": b"A", "vidoseek_pdf_document/b.pdf": b"B"}
    )
    fetched = tmp_path / "snapshot"
    fetched.mkdir()
    (fetched / "vidoseek.json").symlink_to(tmp_path / "cache" / "q")
    (fetched / "vidoseek_pdf_document.zip").symlink_to(tmp_path / "cache" / "z")

    made = prepare([(ViDoSeek(), fetched, None)], tmp_path / "out")

    assert {path.name: path.read_bytes() for path in made.documents.iterdir()} == {
        "a.pdf": b"A",
        "b.pdf": b"B",
    }
    assert made.parts[0].notes == ("PDFs that no question names were taken as distractors (1): b.pdf.",)
    assert sorted(path.name for path in fetched.iterdir()) == ["vidoseek.json", "vidoseek_pdf_document.zip"]


def test_what_is_unpacked_is_taken_and_no_archive_opened(tmp_path: Path) -> None:
    write_json(tmp_path / "vidoseek.json", {"examples": [example("a")]})
    write_files(tmp_path, "pdf/a.pdf")
    (tmp_path / "vidoseek_pdf_document.zip").write_bytes(b"half of it")

    opened = ViDoSeek().open(tmp_path)

    assert [one.name for one in opened.documents] == ["a.pdf"]


def test_the_archive_of_the_split_is_opened_first(tmp_path: Path) -> None:
    write_json(tmp_path / "vidoseek.json", {"examples": [example("a")]})
    zipped(tmp_path / "vidoseek_pdf_document.zip", {"a.pdf": b"A"})
    (tmp_path / "slidevqa_pdf_document.zip").write_bytes(b"half of it")

    assert [one.name for one in ViDoSeek().open(tmp_path).documents] == ["a.pdf"]


def test_where_no_archive_can_be_read_it_is_said_what_to_unpack(tmp_path: Path) -> None:
    (tmp_path / "doc_pdfs.rar").write_bytes(b"Rar!")
    zipped(tmp_path / "other.zip", {"b.pdf": b"B"})
    files = find_documents(tmp_path, ["a.pdf"])
    with pytest.raises(CaseError, match=r"lacks 1 of.*a\.pdf.*doc_pdfs\.rar are not read: unpack them first"):
        need_all(["a.pdf"], files, tmp_path, Hub(repo="a/b"))


def test_a_name_that_an_archive_spells_in_its_own_way_is_missed_with_what_to_do(tmp_path: Path) -> None:
    """As in a code page of one country, which archives do not name."""
    path = zipped(tmp_path / "a.zip", {"??.pdf": b"A"})
    path.write_bytes(path.read_bytes().replace(b"??.pdf", "表".encode("gbk") + b".pdf"))
    with pytest.raises(CaseError, match=r"lacks 1 of.*表\.pdf.*not in a\.zip under these names: unpack it"):
        need_all(["表.pdf"], find_documents(tmp_path, ["表.pdf"]), tmp_path, Hub(repo="a/b"))


def test_what_systems_add_is_passed_over(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link.pdf")
    link.external_attr = 0o120777 << 16
    path = zipped(
        tmp_path / "a.zip",
        {"__MACOSX/._a.pdf": b"", "x/.b.pdf": b"", "x/": b"", "notes.txt": b"", "x/A.PDF": b"A"},
    )
    with zipfile.ZipFile(path, "a") as made:
        made.writestr(link, "/etc/passwd")

    assert held(path) == {"A.PDF": b"A"}


@pytest.mark.parametrize(
    "name", ["../a.pdf", "x/../../a.pdf", "/a.pdf", "..\\a.pdf", "C:\\a.pdf", "x/../b.txt"]
)
def test_an_archive_that_leads_out_of_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CaseError, match=r"leads out of it.*tampered"):
        members(zipped(tmp_path / "a.zip", {"good.pdf": b"", name: b""}), PDF)


@pytest.mark.parametrize("said", [True, False])
def test_names_beyond_ascii_are_read_whether_or_not_they_say_how(tmp_path: Path, said: bool) -> None:
    """Some programs write UTF-8 without the flag that says so."""
    path = zipped(tmp_path / "a.zip", {"Ünïcode 表.pdf": b"A"})
    if not said:
        path.write_bytes(_unflagged(path.read_bytes()))
        with zipfile.ZipFile(path) as there:
            assert there.namelist() != ["Ünïcode 表.pdf"]

    assert held(path) == {"Ünïcode 表.pdf": b"A"}


def _unflagged(data: bytes) -> bytes:
    """Without the flag for UTF-8, in the one local header and in the list."""
    at = data.index(b"PK\x01\x02") + 8
    return data[:6] + bytes([data[6], data[7] & ~0x8]) + data[8:at] + bytes([data[at], 0]) + data[at + 2 :]


def test_a_name_in_an_old_code_page_stays_what_it_is(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"caf!.pdf": b"A"})
    path.write_bytes(path.read_bytes().replace(b"caf!", b"caf\x82"))  # é in code page 437, no UTF-8

    assert held(path) == {"café.pdf": b"A"}


def test_two_documents_of_one_name_are_refused_unless_they_are_one(tmp_path: Path) -> None:
    def twice(data: bytes) -> Path:
        with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(tmp_path / "a.zip", "w") as made:
            made.writestr("x/a.pdf", b"A")
            made.writestr("x/a.pdf", data)
        return tmp_path / "a.zip"

    with pytest.raises(CaseError, match=r"two documents called x/a\.pdf.*Download"):
        members(twice(b"B"), PDF)
    assert held(twice(b"A")) == {"a.pdf": b"A"}


def test_encrypted_and_oddly_packed_documents_are_to_be_unpacked_by_hand(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"a.pdf": b"A"})
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(CaseError, match=r"encrypted.*by hand"):
        members(path, PDF)
    with pytest.raises(CaseError, match=r"not read here.*by hand"):
        members(zipped(tmp_path / "b.zip", {"a.pdf": b"A"}, zipfile.ZIP_LZMA), PDF)


def test_a_bomb_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "a.zip", {f"{n}.pdf": b"\0" * 2**20 for n in range(3)})
    assert len(members(path, PDF)) == 3
    monkeypatch.setattr(archives, "SMALL_BYTES", 2**20)
    with pytest.raises(CaseError, match=r"would grow to 3,145,728 bytes"):
        members(path, PDF)
    monkeypatch.setattr(archives, "MAX_DOCUMENT_BYTES", 2**19)
    with pytest.raises(CaseError, match=r"too large: 1,048,576 bytes"):
        members(path, PDF)


def test_a_list_that_would_fill_memory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "a.zip", {f"{n}.pdf": b"" for n in range(30)})
    monkeypatch.setattr(archives, "MAX_DIRECTORY_BYTES", 1000)
    with pytest.raises(CaseError, match="directory is too long"):
        members(path, PDF)


@pytest.mark.parametrize("claimed", [1, 2**24, 2**32 - 2])
def test_a_document_is_as_long_as_the_archive_says_or_refused(tmp_path: Path, claimed: int) -> None:
    path = zipped(tmp_path / "a.zip", {"a.pdf": b"A" * 1000})
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02") + 24
    data[at : at + 4] = claimed.to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(CaseError, match=r"a\.zip"):
        held(path)


def test_a_cut_off_archive_is_no_archive(tmp_path: Path) -> None:
    data = zipped(tmp_path / "a.zip", {"a.pdf": random.Random(0).randbytes(3000)}).read_bytes()
    path = tmp_path / "cut.zip"
    for length in (0, 1, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(CaseError, match=r"not a complete archive.*Download it again"):
            members(path, PDF)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(at=st.integers(0, 400), byte=st.integers(0, 255), cut=st.integers(0, 400))
def test_a_damaged_archive_gives_what_was_in_it_or_an_error(
    tmp_path: Path, at: int, byte: int, cut: int
) -> None:
    files = {"a.pdf": b"A" * 50, "deep/b.pdf": bytes(range(50))}
    data = bytearray(zipped(tmp_path / "a.zip", files).read_bytes())
    data[at % len(data)] = byte
    path = tmp_path / "damaged.zip"
    path.write_bytes(data[cut % 20 if cut < 200 else 0 :])
    found, fault = tried(path)
    assert set(found.values()) <= set(files.values())
    assert fault is None or (str(path) in fault.message and fault.hint)


def test_memory_stays_small_and_the_archive_is_closed(tmp_path: Path) -> None:
    """A document of 24 MiB, taken in pieces."""
    path = zipped(tmp_path / "a.zip", {"a.pdf": b"\0" * (24 * 2**20)})
    (one,) = members(path, PDF)
    tracemalloc.start()
    length = sum(len(piece) for piece in one.pieces())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert length == 24 * 2**20
    assert peak < 8 * 2**20
    file = one._zip.fp  # pyright: ignore[reportPrivateUsage]
    assert isinstance(file, io.FileIO)
    del one
    gc.collect()
    assert file.closed
