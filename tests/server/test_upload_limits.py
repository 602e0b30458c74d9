"""What uploads are refused for: their kind, their size, a client that leaves."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from library_harness import FIRST, OVER, Lines, library, until
from PIL import Image
from server_harness import dial

from vrag.corpus.convert import CONVERTERS
from vrag.errors import CollectionError
from vrag.server.collections.files import HEAD_BYTES, SUFFIXES, fault_of_head
from vrag.server.collections.uploads import UploadLimits
from vrag.server.options import ServerOptions

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        full = CollectionError(f"{tmp_path} could not be written.")
        full.__cause__ = OSError(errno.ENOSPC, "No space left on device")
        with library(tmp_path, lines=Lines(fail=full)) as desk:
            job = desk.ended(desk.put("a.md", "whales"))
            assert job["state"] == "failed"
            assert "the server's disk is full. Free some disk space" in job["message"]
            assert str(tmp_path) not in job["message"]
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
            assert lines.began.acquire(timeout=120)
            assert desk.put("b.md", "two").status_code == 202
            assert desk.put("c.md", "three").status_code == 503
            assert "c.md" not in desk.files()

    def test_many_files_that_wait_are_all_read(self, tmp_path: Path) -> None:
        lines = Lines()
        limits = UploadLimits(waiting=200)
        with library(tmp_path, lines=lines, limits=limits) as desk, ThreadPoolExecutor(4) as pool:
            lines.go.clear()
            desk.put("first.md", "one")
            assert lines.began.acquire(timeout=120)
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
            desk.added("b.md", "the server continues")

    def test_does_not_touch_the_document_that_was_there(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            desk.added("a.md", "whales")
            with dial(desk.address) as connection:
                head = b"PUT /collections/first/documents/a.md HTTP/1.1\r\nHost: localhost\r\n"
                connection.sendall(head + b"Content-Length: 100\r\n\r\nbirds")
            until(lambda: desk.files() == ["a.md"])
            assert desk.found("whales") == ["a.md"]


def no_space(_: int) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device", "/secret/place")
