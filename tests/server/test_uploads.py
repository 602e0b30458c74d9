"""Documents that clients upload: whole or not at all, under a name that is safe."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from urllib.parse import quote

import pytest
from corpus.annotated_pdfs import ATTACHED_PLAN, annotated_page
from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from hypothesis import example, given
from hypothesis import strategies as st
from library_harness import Lines, library, until
from PIL import Image
from server_harness import dial

from vrag.errors import EmbedderFailedError
from vrag.server.collections import uploads
from vrag.server.collections.files import MAX_NAME_BYTES, SUFFIXES, safe_name
from vrag.server.http.errors import Refusal

HOSTILE = {
    "../../x.md": "．.／..／x.md",
    "/etc/passwd.md": "／etc／passwd.md",
    "C:\\x.md": "C：＼x.md",
    "a\0b.md": "a␀b.md",
    "line\nbreak.md": "line␊break.md",
    "CON.md": "_CON.md",
    ".hidden.md": "．hidden.md",
    "..md.md": "．.md.md",
    "\u202edm.exe.md": "dm.exe.md",
    "שלום.md": "שלום.md",
    '"quo\'te".md': "＂quo'te＂.md",
    "<img src=x onerror=alert(1)>.md": "＜img src=x onerror=alert(1)＞.md",
    "100%.md": "100%.md",
    "a%2e%2e%2fb.md": "a%2e%2e%2fb.md",
    "e\u0301te\u0301.md": "été.md",
    "  spaces  .md": "spaces  .md",
    "報告書 🐋.md": "報告書 🐋.md",
    "documents/documents/x.md": "documents／documents／x.md",
}


def png() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (60, 40), "white").save(buffer, "PNG")
    return buffer.getvalue()


class TestAnUpload:
    def test_becomes_a_document_that_can_be_found(self, tmp_path: Path) -> None:
        with library(tmp_path, real=True) as desk:
            answer = desk.put("whales.md", "# Whales\n\nThey sing.")
            assert (answer.status_code, answer.headers["location"]) == (202, f"/jobs/{answer.json()['id']}")
            job = desk.ended(answer)
            document = hashlib.sha256(b"# Whales\n\nThey sing.").hexdigest()
            assert (job["state"], job["document"], job["file"]) == ("finished", document, "whales.md")
            assert (job["done"], job["total"], job["problems"]) == (1, 1, [])
            assert desk.found("sing") == ["whales.md"]

    def test_of_a_picture_is_read_by_the_real_converter(self, tmp_path: Path) -> None:
        with library(tmp_path, real=True, ocr="never") as desk:
            job = desk.ended(desk.put("chart.PNG", png()))
            assert job["state"] == "finished"
            [item] = desk.client.get(f"/documents/{job['document']}").json()["items"]
            assert (item["kind"], item["width"], item["height"]) == ("page", 60, 40)
            assert desk.client.get(f"/items/{item['id']}/image").status_code == 200

    def test_that_cannot_be_read_fails_with_the_converters_sentence(self, tmp_path: Path) -> None:
        with library(tmp_path, real=True) as desk:
            job = desk.ended(desk.put("torn.pdf", b"%PDF-1.7 and nothing more"))
            assert job["state"] == "failed"
            assert job["problems"] == [desk.documents()[0]["problems"][0]]
            assert desk.documents()[0]["status"] == "failed"

    def test_that_can_be_read_in_part_says_what_is_missing(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            job = desk.ended(desk.put("a.md", "one\n!torn\nthree"))
            assert (job["state"], job["problems"]) == ("finished", ["Part 2: torn"])
            assert job["message"] == "2 of 3 passages are ready to ask."

    def test_of_which_every_page_is_there_and_not_all_read_says_so(self, tmp_path: Path) -> None:
        document = pdf_bytes(PdfPage(text_at(72, 700, "Seen") + "1 1 1 rg " + text_at(72, 600, "Not seen")))
        attached = annotated_page(catalog=ATTACHED_PLAN)
        with library(tmp_path, real=True) as desk:
            job = desk.ended(desk.put("a.pdf", attached))
            assert job["message"] == "Ready to ask, but not all of it: 1 page."
            assert "plan.dwg" in job["problems"][0]
            desk.ended(desk.put("b.pdf", document))
            assert [row["hidden_words"] for row in desk.documents()] == [0, 2]

    def test_of_the_same_name_replaces_the_document(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            before, after = desk.added("a.md", "whales"), desk.added("a.md", "birds")
            assert before != after
            assert (desk.found("whales"), desk.found("birds")) == ([], ["a.md"])
            assert [d["id"] for d in desk.documents()] == [after]

    def test_of_the_same_bytes_again_changes_nothing(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            assert desk.added("a.md", "whales") == desk.added("a.md", "whales")
            assert desk.lines.made == ["whales"]
            assert len(desk.documents()) == 1

    def test_that_failed_is_tried_again_when_it_is_sent_again(self, tmp_path: Path) -> None:
        with library(tmp_path, lines=Lines(fail=EmbedderFailedError("It is gone."))) as desk:
            job = desk.ended(desk.put("a.md", "whales"))
            assert job["state"] == "failed"
            assert "It is gone." not in job["message"], "what fails inside is told in the log alone"
            desk.lines.fail = None
            desk.added("a.md", "whales")
            assert desk.found("whales") == ["a.md"]

    def test_that_makes_a_library_panic_fails_and_the_next_one_is_read(self, tmp_path: Path) -> None:
        """What extensions in Rust raise then is no `Exception`: it would end the thread that indexes."""
        with library(tmp_path, lines=Lines(fail=Panic("index out of bounds"))) as desk:
            job = desk.ended(desk.put("a.md", "whales"))
            assert job["state"] == "failed"
            assert "bounds" not in job["message"]
            desk.lines.fail = None
            desk.added("b.md", "birds")

    def test_tells_how_far_it_has_come(self, tmp_path: Path) -> None:
        lines = Lines()
        with library(tmp_path, lines=lines) as desk:
            lines.go.clear()
            job = desk.put("a.md", "one\ntwo").json()
            assert job["state"] in {"waiting", "running"}, "its turn may come before the answer is written"
            assert lines.began.acquire(timeout=120)
            running = until(lambda: told if (told := desk.job(job["id"]))["total"] else None)
            assert (running["state"], running["done"], running["total"]) == ("running", 0, 2)
            waiting = desk.put("b.md", "three").json()
            assert desk.job(waiting["id"])["message"] == "Waiting in the queue."
            listed = desk.jobs()
            assert [told["file"] for told in listed] == ["b.md", "a.md"]

    def test_waits_while_another_process_writes_and_says_so(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            desk.added("a.md", "birds")
            with desk.locked():
                job = desk.put("b.md", "whales")
                told = until(
                    lambda: (
                        told if "another process" in (told := desk.job(job.json()["id"]))["message"] else 0
                    )
                )
                assert told["state"] == "waiting"
            assert desk.ended(job)["state"] == "finished"

    def test_by_many_at_once_is_read_in_full(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk, ThreadPoolExecutor(6) as pool:
            names = [f"{n}.md" for n in range(24)]
            jobs = list(pool.map(desk.put, names, [f"whale {name}" for name in names]))
            assert {desk.ended(job)["state"] for job in jobs} == {"finished"}
            assert len(desk.found("whale")) == 20
            assert len(desk.documents()) == 24

    def test_of_one_name_by_many_at_once_leaves_the_last_one(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk, ThreadPoolExecutor(8) as pool:
            texts = [f"whale {n}\n" * 200 for n in range(8)]
            for answer in pool.map(desk.put, ["a.md"] * 8, texts):
                desk.ended(answer)
            last, *others = desk.jobs()
            [document] = desk.documents()
            assert (document["status"], last["state"]) == ("ready", "finished")
            stored = (desk.uploads / "a.md").read_bytes()
            assert hashlib.sha256(stored).hexdigest() == last["document"] == document["id"]
            replaced = ["Another file was uploaded under this name."]
            assert all(job["problems"] == replaced for job in others if job["state"] != "finished")
            assert desk.files() == ["a.md"]

    def test_of_the_same_name_and_length_within_one_tick_of_the_clock_is_noticed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "fsync", date_alike)
        with library(tmp_path) as desk:
            for text in ("whales", "sharks", "squids", "whales"):
                document = desk.added("a.md", text)
                assert [d["id"] for d in desk.documents()] == [document]
                assert desk.found(text) == ["a.md"]

    def test_replaced_while_it_is_read_gives_the_new_document(self, tmp_path: Path) -> None:
        lines = Lines()
        with library(tmp_path, lines=lines) as desk:
            lines.go.clear()
            first = desk.put("a.md", "old\nolder")
            assert lines.began.acquire(timeout=120)
            second = desk.put("a.md", "new")
            lines.go.set()
            assert desk.ended(first)["problems"] == ["Another file was uploaded under this name."]
            assert desk.ended(second)["state"] == "finished"
            assert (desk.found("new"), desk.found("old")) == (["a.md"], [])


class TestNames:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", HOSTILE)
    def test_that_are_hostile_stay_in_their_folder(self, tmp_path: Path, name: str) -> None:
        with library(tmp_path) as desk:
            if "\0" in name:  # refused with the request
                assert (
                    desk.client.put(f"/collections/main/documents/{quote(name, safe='')}").status_code == 400
                )
                return
            before = sorted(path.name for path in desk.shelf.collection.directory.iterdir())
            desk.added(quote(name, safe=""), "whales")
            assert desk.files() == [HOSTILE[name]] == desk.found("whales")
            after = sorted(path.name for path in desk.shelf.collection.directory.iterdir())
            new = {name for name in set(after) - set(before) if not name.endswith(".lock")}
            assert new <= {"uploads", "blobs", "cache"}

    def test_that_are_long_are_cut_and_stay_apart(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            for end in "ab":
                desk.added(quote("é" * 300 + end + ".md"), f"whales {end}")
            assert len(desk.files()) == 2
            assert all(len(name.encode()) <= MAX_NAME_BYTES for name in desk.files())
            assert sorted(desk.found("whales")) == desk.files()

    @pytest.mark.parametrize("raw", [b"../../up.md", b"..%2f..%2fup.md", b"%2e%2e/up.md", b"a/../../up.md"])
    def test_sent_as_they_stand_do_not_lead_out(self, tmp_path: Path, raw: bytes) -> None:
        """A client's library would tidy the address up."""
        with library(tmp_path) as desk, dial(desk.address) as connection:
            head = b"PUT /collections/first/documents/" + raw + b" HTTP/1.1\r\nHost: localhost\r\n"
            connection.sendall(head + b"Content-Length: 6\r\nConnection: close\r\n\r\nwhales")
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
            assert answer.split(b" ")[1] == b"202"
            [name] = until(desk.files)
            assert name.endswith("up.md")
            assert not list(tmp_path.glob("*.md")) + list(tmp_path.glob("shelves/*.md"))

    @given(st.text(max_size=400))
    @example("." * 300)
    @example("con")
    @example("\ud800.md")
    @example("a." + "b" * 300)
    @example("~" * 219 + "é.md")
    def test_are_made_safe_whatever_they_are(self, name: str) -> None:
        safe = safe_name(name)
        assert PurePosixPath(safe).name == safe
        assert len(safe.encode()) <= MAX_NAME_BYTES
        assert not any(unicodedata.category(letter) in {"Cc", "Cs", "Zl", "Zp"} for letter in safe)
        assert not set(safe) & set('/\\:*?"<>|')
        assert not safe.startswith((".", " "))
        assert not safe.endswith((".", " "))

    @given(st.text(max_size=400))
    def test_that_are_safe_stay_as_they_are(self, name: str) -> None:
        assert safe_name(safe_name(name)) == safe_name(name)

    @given(st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="\u0345"), max_size=60))
    def test_that_differ_stay_apart(self, name: str) -> None:
        plain = unicodedata.normalize("NFC", f"x{name}.md")
        for sign in '/:?*"<>|\\':
            assert safe_name(f"x{sign}{name}.md") != safe_name(plain)

    @given(st.text(max_size=60), st.sampled_from(SUFFIXES))
    def test_keep_their_suffix(self, stem: str, suffix: str) -> None:
        assert PurePosixPath(safe_name(f"x{stem}y{suffix}")).suffix == suffix


class Panic(BaseException):
    """As `pyo3_runtime.PanicException`."""


def date_alike(opened: int) -> None:
    """What a clock does to files that are written within one of its ticks."""
    if stat.S_ISREG(os.fstat(opened).st_mode):  # folders of tables say by their time that they changed
        os.utime(opened, ns=(10**18, 10**18))


def test_a_file_that_is_in_use_keeps_all_files_of_a_removal_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows renames no file that is open."""
    files = {tmp_path / "a.md", tmp_path / "b.md"}
    for path in files:
        path.write_text("whales")

    def refuse(source: Path, target: Path) -> None:
        if source.name == "b.md":
            raise PermissionError(errno.EACCES, "The file is being used by another process")
        source.replace(target)

    monkeypatch.setattr(uploads, "replace_file", refuse)
    with pytest.raises(Refusal, match="is being used"):
        uploads.hide_files(files)
    assert set(tmp_path.iterdir()) == files
