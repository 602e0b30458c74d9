"""Whatever is uploaded, under whatever name, becomes a document, or a refusal that leaves nothing behind."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import signal
import subprocess
import sys
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from library_harness import FIRST, OVER, Desk, Lines, first_collection, library, until
from PIL import Image
from server_harness import dial

from vrag.corpus.convert import CONVERTERS
from vrag.errors import CollectionError, EmbedderGone
from vrag.index.store import Collection
from vrag.server.library.kinds import HEAD_BYTES, SUFFIXES, fault_of_head
from vrag.server.library.names import MOST_BYTES, safe_name
from vrag.server.library.uploads import UploadLimits
from vrag.server.options import ServerOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        with library(tmp_path, real=True, ocr=False) as desk:
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
            assert (job["state"], job["problems"]) == ("finished", ["No. 2: torn"])
            assert job["message"] == "2 of 3 can be found; some could not be read."

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
        with library(tmp_path, lines=Lines(fail=EmbedderGone("It is gone."))) as desk:
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
            assert lines.began.acquire(timeout=30)
            running = until(lambda: told if (told := desk.job(job["id"]))["total"] else None)
            assert (running["state"], running["done"], running["total"]) == ("running", 0, 2)
            waiting = desk.put("b.md", "three").json()
            assert desk.job(waiting["id"])["message"] == "It waits for its turn."
            listed = desk.jobs()
            assert [told["file"] for told in listed] == ["b.md", "a.md"]

    def test_waits_while_another_process_writes_and_says_so(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            desk.added("a.md", "birds")
            with desk.shelf.collection.lock():
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
            assert lines.began.acquire(timeout=30)
            second = desk.put("a.md", "new")
            lines.go.set()
            assert desk.ended(first)["problems"] == ["Another file was uploaded under this name."]
            assert desk.ended(second)["state"] == "finished"
            assert (desk.found("new"), desk.found("old")) == (["a.md"], [])


class TestNames:
    @pytest.mark.parametrize("name", HOSTILE)
    def test_that_are_hostile_stay_in_their_folder(self, tmp_path: Path, name: str) -> None:
        with library(tmp_path) as desk:
            before = sorted(path.name for path in desk.shelf.collection.directory.iterdir())
            desk.added(quote(name, safe=""), "whales")
            assert desk.files() == [HOSTILE[name]] == desk.found("whales")
            after = sorted(path.name for path in desk.shelf.collection.directory.iterdir())
            assert set(after) - set(before) <= {"uploads", "index", "items", "cache"}

    def test_that_are_long_are_cut_and_stay_apart(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            for end in "ab":
                desk.added(quote("é" * 300 + end + ".md"), f"whales {end}")
            assert len(desk.files()) == 2
            assert all(len(name.encode()) <= MOST_BYTES for name in desk.files())
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
        assert len(safe.encode()) <= MOST_BYTES
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


class TestKinds:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("a.exe", b"MZ"),
            ("a", b"text"),
            (".md", b"text"),
            ("a.md.", b"text"),
            ("a.md\n", b"text"),
            ("\n", b"text"),
            ("a.pdf", b"# A text"),
            ("a.pdf", b"\x89PNG\r\n\x1a\n"),
            ("a.png", b"%PDF-1.7"),
            ("a.docx", b"<html></html>"),
            ("a.mp4", b"#!/bin/sh\n"),
            ("a.md", b"%PDF-1.7"),
            ("a.html", b"\x7fELF\x02"),
            ("a.txt", b"\x00\x00\x00\x20ftypisom"),
        ],
    )
    def test_that_are_not_read_are_refused_and_leave_nothing(
        self, tmp_path: Path, name: str, content: bytes
    ) -> None:
        with library(tmp_path) as desk:
            answer = desk.put(quote(name, safe=""), content)
            assert answer.status_code == 415
            assert answer.json()["hint"]
            until(lambda: not desk.files())
            assert desk.jobs() == []

    @given(st.sampled_from(SUFFIXES), st.binary(max_size=HEAD_BYTES))
    def test_are_told_by_any_first_bytes(self, suffix: str, head: bytes) -> None:
        fault = fault_of_head(suffix, head)
        assert not fault or fault.startswith("This is not ")

    def test_are_those_that_the_converters_take(self) -> None:
        assert set(SUFFIXES) == set(CONVERTERS)

    def test_are_not_refused_for_what_their_makers_write(self) -> None:
        from vrag.samples import __file__ as samples

        files = [path for path in Path(samples).parent.rglob("*") if path.suffix.lower() in SUFFIXES]
        assert files
        for path in files:
            with path.open("rb") as file:
                assert fault_of_head(path.suffix.lower(), file.read(HEAD_BYTES)) == "", path.name
        for form, suffix in (
            ("JPEG", ".jpg"),
            ("WEBP", ".webp"),
            ("TIFF", ".tif"),
            ("BMP", ".bmp"),
            ("GIF", ".gif"),
        ):
            buffer = io.BytesIO()
            Image.new("RGB", (20, 20)).save(buffer, form)
            assert fault_of_head(suffix, buffer.getvalue()[:HEAD_BYTES]) == ""
        for text in ("\ufeffUTF-8", "日本語", "BM is a word", "MZ too", ""):
            for code in ("utf-8", "utf-16"):
                assert fault_of_head(".txt", text.encode(code)) == ""


class TestLimits:
    def test_a_file_that_is_said_to_be_too_long_is_not_read(self, tmp_path: Path) -> None:
        with library(tmp_path, options=ServerOptions(upload_bytes=1000)) as desk:
            with dial(desk.address) as connection:
                head = b"PUT /collections/first/documents/a.md HTTP/1.1\r\nHost: localhost\r\n"
                connection.sendall(head + b"Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n")
                assert connection.recv(65536).split(b" ")[1] == b"413"
            assert desk.files() == []

    def test_a_file_that_is_too_long_is_refused_wherever_it_says_so(self, tmp_path: Path) -> None:
        with library(tmp_path, options=ServerOptions(upload_bytes=1000)) as desk:
            assert desk.put("a.md", "x" * 1001).status_code == 413

            def pieces() -> Iterator[bytes]:
                for _ in range(30):
                    yield b"x" * 100

            answer = desk.client.put(f"/collections/{FIRST}/documents/a.md", content=pieces())
            assert answer.status_code == 413
            until(lambda: not desk.files())
            assert desk.put("a.md", "x" * 1000).status_code == 202

    def test_a_long_file_arrives_as_it_was_sent(self, tmp_path: Path) -> None:
        content = os.urandom(256 * 1024).hex().encode() * 20
        with library(tmp_path, lines=Lines()) as desk:
            job = desk.ended(desk.put("a.md", content))
            assert job["document"] == hashlib.sha256(content).hexdigest()
            assert (desk.uploads / "a.md").read_bytes() == content

    def test_an_empty_file_is_refused(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            assert desk.put("a.md", b"").status_code == 422
            until(lambda: not desk.files())

    def test_all_uploads_of_a_collection_have_a_limit(self, tmp_path: Path) -> None:
        with library(tmp_path, limits=UploadLimits(collection_bytes=1000)) as desk:
            desk.added("a.md", "x" * 900)
            assert desk.put("b.md", "x" * 200).status_code == 507
            until(lambda: desk.files() == ["a.md"])
            desk.added("c.md", "x" * 100)

    def test_the_disk_keeps_some_room(self, tmp_path: Path) -> None:
        with library(tmp_path, limits=UploadLimits(free_bytes=2**62)) as desk:
            answer = desk.put("a.md", "whales")
            assert answer.status_code == 507
            assert str(tmp_path) not in answer.text
            until(lambda: not desk.files())

    def test_a_disk_that_fills_up_leaves_nothing_and_harms_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with library(tmp_path) as desk:
            kept = desk.added("a.md", "whales")
            with monkeypatch.context() as full:
                full.setattr(os, "fsync", no_space)
                answer = desk.put("a.md", "birds")
            assert answer.status_code == 507
            assert str(tmp_path) not in answer.text
            until(lambda: desk.files() == ["a.md"])
            assert [d["id"] for d in desk.documents()] == [kept]
            assert desk.found("whales") == ["a.md"]
            desk.added("a.md", "birds")

    def test_a_disk_that_fills_up_while_a_file_is_read_has_it_sent_again(self, tmp_path: Path) -> None:
        with library(tmp_path, lines=Lines(fail=CollectionError("No space left on device"))) as desk:
            job = desk.ended(desk.put("a.md", "whales"))
            assert job["state"] == "failed"
            assert "space" not in job["message"]
            assert [d["status"] for d in desk.documents()] == ["pending"]
            desk.lines.fail = None
            desk.added("b.md", "birds")
            desk.added("a.md", "whales")
            assert desk.found("whales") == ["a.md"]

    def test_as_many_files_wait_as_are_allowed(self, tmp_path: Path) -> None:
        lines = Lines()
        with library(tmp_path, lines=lines, limits=UploadLimits(waiting=1)) as desk:
            lines.go.clear()
            desk.put("a.md", "one")
            assert lines.began.acquire(timeout=30)
            assert desk.put("b.md", "two").status_code == 202
            assert desk.put("c.md", "three").status_code == 503
            assert "c.md" not in desk.files()

    def test_many_files_that_wait_are_all_read(self, tmp_path: Path) -> None:
        lines = Lines()
        limits = UploadLimits(waiting=200)
        with library(tmp_path, lines=lines, limits=limits) as desk, ThreadPoolExecutor(4) as pool:
            lines.go.clear()
            desk.put("first.md", "one")
            assert lines.began.acquire(timeout=30)
            names = [f"{n}.md" for n in range(200)]
            assert {answer.status_code for answer in pool.map(desk.put, names, names)} == {202}
            assert desk.put("over.md", "one").status_code == 503
            told = desk.client.get(f"/collections/{FIRST}/documents?limit=1").json()
            assert told["total"] == 201
            lines.go.set()
            until(lambda: {job["state"] for job in desk.jobs()} <= OVER)
            assert [job["state"] for job in desk.jobs()] == ["finished"] * 201
            assert desk.client.get("/collections").json()["collections"][0]["documents"] == 201


class TestAClientThatLeaves:
    @pytest.mark.parametrize("sent", [b"", b"whales", b"%PDF-1.7" + b"x" * 3_000_000])
    def test_half_way_leaves_nothing(self, tmp_path: Path, sent: bytes) -> None:
        with library(tmp_path) as desk:
            name = b"a.pdf" if sent.startswith(b"%PDF") else b"a.md"
            with dial(desk.address) as connection:
                head = b"PUT /collections/first/documents/" + name + b" HTTP/1.1\r\nHost: localhost\r\n"
                connection.sendall(head + b"Content-Length: 9000000\r\n\r\n" + sent)
                if len(sent) > 1_000_000:
                    until(desk.files)
            until(lambda: not desk.files())
            assert desk.documents() == []
            desk.added("b.md", "the server goes on")

    def test_does_not_touch_the_document_that_was_there(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            desk.added("a.md", "whales")
            with dial(desk.address) as connection:
                head = b"PUT /collections/first/documents/a.md HTTP/1.1\r\nHost: localhost\r\n"
                connection.sendall(head + b"Content-Length: 100\r\n\r\nbirds")
            until(lambda: desk.files() == ["a.md"])
            assert desk.found("whales") == ["a.md"]


class TestARestart:
    def test_takes_up_what_waited_and_keeps_what_was_done(self, tmp_path: Path) -> None:
        slow = Lines(pace=0.02)
        with library(tmp_path, lines=slow) as desk:
            desk.put("a.md", "\n".join(f"line {n}" for n in range(400)))
            assert slow.began.acquire(timeout=30)
            desk.put("b.md", "whales")
        with library(tmp_path) as desk:
            until(lambda: {d["status"] for d in desk.documents()} == {"ready"})
            assert desk.found("whales") == ["b.md"]
            jobs = desk.jobs()
            assert {job["file"] for job in jobs} == {"a.md", "b.md"}
            assert len(slow.made) + len(desk.lines.made) == 401, "nothing is made twice but what was in hand"

    def test_does_not_read_again_what_is_done_or_failed(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            desk.added("a.md", "whales")
            desk.ended(desk.put("c.txt", "BAD It is torn."))
        with library(tmp_path) as desk:
            desk.added("b.md", "birds")
            assert desk.lines.made == ["birds"]
            assert len(desk.jobs()) == 1

    def test_clears_away_what_was_left_of_old_uploads(self, tmp_path: Path) -> None:
        uploads = first_collection(tmp_path) / "uploads"
        uploads.mkdir()
        for name, age in ((".old.part", 3600), (".new.part", 0)):
            (uploads / name).write_bytes(b"half")
            os.utime(uploads / name, (time.time() - age, time.time() - age))
        with library(tmp_path) as desk:
            until(lambda: desk.files() == [".new.part"])
            assert desk.documents() == []

    def test_after_a_kill_in_mid_upload_has_what_was_there_before(self, tmp_path: Path) -> None:
        place = first_collection(tmp_path)
        server = Killable(place)
        uploads = place / "uploads"
        try:
            server.put("a.md", "whales")
            until(lambda: Collection.open(place).scan(["id"]).data.num_rows)
            with dial(server.address) as connection:
                head = b"PUT /collections/first/documents/a.md HTTP/1.1\r\nHost: localhost\r\n"
                connection.sendall(head + b"Content-Length: 9000000\r\n\r\n" + b"birds " * 500_000)
                [part] = until(lambda: [path for path in uploads.glob(".*.part") if path.stat().st_size])
                server.kill()
        finally:
            server.kill()
        with library(tmp_path) as desk:
            desk.added("b.md", "squids")
            assert desk.found("birds") == []
            assert desk.found("whales") == ["a.md"]
            assert [d["name"] for d in desk.documents()] == ["a.md", "b.md"]
            assert (uploads / "a.md").read_text(encoding="utf-8") == "whales"
            os.utime(part, (0, 0))
            desk.added("c.md", "and the next upload clears it away")
            assert desk.files() == ["a.md", "b.md", "c.md"]

    def test_after_a_kill_in_mid_indexing_gives_what_a_quiet_run_gives(self, tmp_path: Path) -> None:
        text = "\n\n".join(f"Paragraph {n} speaks of whales at length. " * 40 for n in range(400))
        place = first_collection(tmp_path)
        server = Killable(place)
        try:
            for n in range(6):
                server.put(f"{n}.md", text.replace("Paragraph", f"Part {n}"))
            server.wait_for_items(place)
        finally:
            server.kill()
        with library(tmp_path, real=True) as desk:
            done = until(
                lambda: (
                    rows
                    if len(rows := desk.documents()) == 6 and {row["status"] for row in rows} == {"ready"}
                    else None
                )
            )
            items = {row["name"]: row["items"] for row in done}
            listed = [item["id"] for row in done for item in pages(desk, row["id"])]
            assert len(listed) == len(set(listed)) == sum(items.values())
        with library(tmp_path / "quiet", real=True) as desk:
            for n in range(6):
                desk.added(f"{n}.md", text.replace("Paragraph", f"Part {n}"))
            assert {row["name"]: row["items"] for row in desk.documents()} == items
            quiet = desk.shelf.version
        assert Collection.open(place).content_version == quiet


class Panic(BaseException):
    """As `pyo3_runtime.PanicException`."""


def date_alike(opened: int) -> None:
    """What a clock does to files that are written within one of its ticks."""
    os.utime(opened, ns=(10**18, 10**18))


def no_space(_: int) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device", "/secret/place")


def pages(desk: Desk, document: str) -> list[dict[str, Any]]:
    return desk.client.get(f"/documents/{document}").json()["items"]


SERVE = """
import sys, pathlib
sys.path[:0] = sys.argv[2:]
from library_harness import library
with library(pathlib.Path(sys.argv[1]), real=True) as desk:
    print(desk.address, flush=True)
    sys.stdin.read()
"""


class Killable:
    """A server in a process of its own."""

    def __init__(self, place: Path) -> None:
        command = [sys.executable, "-c", SERVE, str(place.parent.parent), str(Path(__file__).parent)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()

    def put(self, name: str, text: str) -> None:
        import httpx

        path = f"{self.address}/collections/{FIRST}/documents/{name}"
        assert httpx.put(path, content=text.encode(), timeout=30).status_code == 202

    def wait_for_items(self, place: Path) -> None:
        """Until some items are there."""
        until(lambda: Collection.open(place).scan(["id"]).data.num_rows)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
