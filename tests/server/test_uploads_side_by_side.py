"""Uploads that are read side by side: small files do not wait for large ones; cancelling, trying again."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from library_harness import FIRST, OVER, Lines, library, until

from vrag.errors import EmbedderFailedError
from vrag.index.integrity.verification import verify
from vrag.index.location import LocalLocation
from vrag.index.maintenance import is_settled
from vrag.search.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from collections.abc import Collection as CollectionOf

    from library_harness import Desk

    from vrag.corpus.converter import CorpusOptions, SourceFile
    from vrag.index.vectors.embed_items import Made


def pdf(pages: int, word: str) -> bytes:
    return pdf_bytes(*(PdfPage(text_at(100, 700, f"{word} of page {n}.")) for n in range(1, pages + 1)))


def cancel(desk: Desk, job: str) -> int:
    return desk.client.delete(f"/jobs/{job}").status_code


def retry(desk: Desk, document: str, **meant: str) -> int:
    return desk.client.post(f"/collections/{FIRST}/documents/{document}/retry", params=meant).status_code


class TestASmallFile:
    @pytest.mark.slow
    def test_is_ready_while_a_large_one_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Engine, "PATIENCE", 1e9)  # searches follow what a client was told of, and no more
        with library(tmp_path, real=True) as desk:
            large = desk.put("large.pdf", pdf(300, "Whales")).json()
            until(lambda: desk.job(large["id"])["done"])
            desk.found("whales")
            small = desk.ended(desk.put("small.pdf", pdf(1, "Birds")))
            assert (small["state"], small["message"]) == ("finished", "Ready to ask: 1 page.")
            assert desk.found("birds")[0] == "small.pdf"
            job = desk.job(large["id"])
            assert (job["state"], job["total"], job["kind"], job["size"]) == (
                "running",
                300,
                "page",
                large["size"],
            )
            assert 0 < job["done"] < 300
            listed = {one["name"]: one for one in desk.documents()}
            assert (listed["small.pdf"]["status"], listed["large.pdf"]["status"]) == ("ready", "pending")
            assert cancel(desk, large["id"]) == 204

    def test_comes_before_larger_ones_that_wait(self, tmp_path: Path) -> None:
        lines = Lines()
        with library(tmp_path, lines=lines) as desk:
            lines.go.clear()
            desk.put("a.md", "one")
            assert lines.began.acquire(timeout=120)
            jobs = {
                name: desk.put(name, "x" * size).json()["id"] for name, size in (("l.md", 90), ("s.md", 9))
            }
            assert {name: desk.job(id)["place"] for name, id in jobs.items()} == {"l.md": 2, "s.md": 1}
            lines.go.set()
            until(lambda: all(job["state"] == "finished" for job in desk.jobs()))
            assert {job["place"] for job in desk.jobs()} == {None}


class TestCancelling:
    def test_what_waits_deletes_its_file_alone(self, tmp_path: Path) -> None:
        lines = Lines()
        with library(tmp_path, lines=lines) as desk:
            lines.go.clear()
            first = desk.put("a.md", "one\ntwo")
            assert lines.began.acquire(timeout=120)
            second = desk.put("b.md", "three").json()
            assert cancel(desk, second["id"]) == 204
            assert desk.job(second["id"])["state"] == "cancelled"
            assert desk.files() == ["a.md"]
            lines.go.set()
            assert desk.ended(first)["state"] == "finished"
            assert "three" not in lines.made

    def test_what_is_read_deletes_what_was_made_and_the_others_go_on(self, tmp_path: Path) -> None:
        lines = Lines()
        with library(tmp_path, lines=lines) as desk:
            kept = desk.added("kept.md", "whales")
            lines.go.clear()
            job = desk.put("a.md", "\n".join(f"line {n}" for n in range(500))).json()
            assert lines.began.acquire(timeout=120)
            assert lines.began.acquire(timeout=120)
            waiting = desk.put("b.md", "birds")
            threading.Timer(0.3, lines.go.set).start()
            assert cancel(desk, job["id"]) == 204
            assert desk.job(job["id"])["state"] == "cancelled"
            assert desk.ended(waiting)["state"] == "finished"
            assert [one["name"] for one in desk.documents()] == ["b.md", "kept.md"] == desk.files()
            assert desk.found("line") == []
            assert desk.found("whales") == ["kept.md"]
            assert desk.documents()[1]["id"] == kept
            with desk.locked():
                assert is_settled(desk.shelf.collection)

    def test_what_replaces_a_document_leaves_that_as_it_was(self, tmp_path: Path) -> None:
        lines = Lines()
        with library(tmp_path, lines=lines) as desk:
            kept = desk.added("a.md", "whales")
            assert lines.began.acquire(timeout=120)
            lines.go.clear()
            job = desk.put("a.md", "\n".join(f"line {n}" for n in range(500))).json()
            assert lines.began.acquire(timeout=120)
            threading.Timer(0.3, lines.go.set).start()
            assert cancel(desk, job["id"]) == 204
            assert [one["id"] for one in desk.documents()] == [kept]
            assert desk.files() == ["a.md"]
            assert (desk.uploads / "a.md").read_text(encoding="utf-8") == "whales"
            assert (desk.found("whales"), desk.found("line")) == (["a.md"], [])
        with library(tmp_path) as desk:
            desk.added("b.md", "birds")
            assert desk.lines.made == ["birds"], "what was restored is not read again"

    def test_what_has_ended_or_never_was_is_refused(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            job = desk.ended(desk.put("a.md", "whales"))
            assert cancel(desk, job["id"]) == 409
            assert cancel(desk, "0" * 16) == 404
            assert desk.found("whales") == ["a.md"]

    def test_while_another_process_writes_is_refused_for_what_was_begun(self, tmp_path: Path) -> None:
        lines = Lines()
        with library(tmp_path, lines=lines) as desk:
            with desk.locked():
                job = desk.put("a.md", "whales").json()
                assert cancel(desk, job["id"]) == 204, "nothing was made of it"
            assert desk.files() == []


class TestTryingAgain:
    def test_reads_what_failed(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            job = desk.ended(desk.put("a.md", "BAD It is torn."))
            assert job["state"] == "failed"
            assert retry(desk, job["document"]) == 202
            assert len(desk.jobs()) == 2
            assert desk.ended_again("a.md")["problems"] == ["It is torn."]
            assert [one["status"] for one in desk.documents()] == ["failed"]

    def test_reads_only_what_is_missing_of_a_document(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            document = desk.ended(desk.put("a.md", "one\n!torn\nthree"))["document"]
            desk.lines.mended = True
            assert retry(desk, document, file="a.md", folder="") == 202
            assert desk.ended_again("a.md")["message"] == "Ready to ask: 3 passages."
            assert desk.lines.made == ["one", "three", "torn"]

    def test_of_what_was_read_or_is_gone_is_refused(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            document = desk.added("a.md", "whales")
            assert retry(desk, document) == 409
            assert retry(desk, document, file="b.md") == 404
            failed = desk.ended(desk.put("c.md", "BAD It is torn."))["document"]
            (desk.uploads / "c.md").unlink()
            assert retry(desk, failed) == 409

    def test_of_what_failed_inside_reads_the_stored_file(self, tmp_path: Path) -> None:
        with library(tmp_path, lines=Lines(fail=RuntimeError("broken"))) as desk:
            job = desk.ended(desk.put("a.md", "whales"))
            assert job["state"] == "failed"
            desk.lines.fail = None
            assert retry(desk, job["document"]) == 202
            assert desk.ended_again("a.md")["state"] == "finished"
            assert desk.found("whales") == ["a.md"]


class Failing(Lines):
    """Fails as an embedder does, at the first file and so many times: before it was begun, or then."""

    def __init__(self, times: int, *, begun: bool) -> None:
        super().__init__()
        self.times, self.begun = times, begun

    def __call__(
        self,
        sources: Iterator[SourceFile],
        items_dir: Path,
        options: CorpusOptions,
        have: Callable[[SourceFile], CollectionOf[int]],
    ) -> Generator[Made, None, None]:
        for made in super().__call__(sources, items_dir, options, have):
            if self.begun:
                yield made
            if self.times > 0:
                self.times -= 1
                raise EmbedderFailedError("It is gone.")
            if not self.begun:
                yield made


class TestAFailureOfTheEmbedder:
    @pytest.mark.parametrize("begun", [True, False])
    @pytest.mark.parametrize(("times", "failed"), [(1, ["a.md"]), (9, ["a.md", "b.md", "c.md"])])
    def test_ends_the_file_that_was_read_and_not_those_that_wait(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, failed: list[str], *, begun: bool
    ) -> None:
        monkeypatch.setattr("vrag.server.collections.index_worker._MIN_PAUSE_SECONDS", 0.0)
        names = ["a.md", "b.md", "c.md"]
        with library(tmp_path, lines=Failing(times, begun=begun)) as desk:
            with desk.locked():
                jobs = [desk.put(name, "x" * size) for size, name in enumerate(names, 1)]
            ended = {job["file"]: job["state"] for job in map(desk.ended, jobs)}
            assert ended == {name: "failed" if name in failed else "finished" for name in names}
            assert len([one for one in desk.documents() if one["status"] == "ready"]) == 3 - len(failed)


SERVE = """
import os, pathlib, sys
sys.path[:0] = sys.argv[3:]
from library_harness import Lines, library, until
from vrag.server.collections import index_worker, uploads

place, point = pathlib.Path(sys.argv[1]), sys.argv[2]
module, name, moment = point.split(":")
owner = {"worker": index_worker, "uploads": uploads}[module]
real = getattr(owner, name)

def die(*args):
    if moment == "after":
        real(*args)
    os._exit(9)

lines = Lines(pace=0.01)
with library(place, lines=lines) as desk:
    kept = desk.added("kept.md", "whales")
    desk.added("replaced.md", "sharks")
    file = "replaced.md" if owner is uploads else "a.md"
    job = desk.put(file, "\\n".join(f"row {n}" for n in range(300))).json()
    until(lambda: desk.job(job["id"])["done"] > 3)
    setattr(owner, name, die)
    desk.client.delete(f"/jobs/{job['id']}")
"""
"""A server that is killed while an upload is cancelled; with `uploads`, one that replaces a document."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "left"),
    [
        ("worker:remove:before", False),
        ("worker:remove:after", False),
        ("uploads:withdraw:before", True),
        ("uploads:withdraw:after", False),
    ],
)
def test_a_kill_while_an_upload_is_cancelled_loses_nothing_else(
    tmp_path: Path, point: str, left: bool
) -> None:
    """`left`: it was not cancelled yet, and is read at the next start."""
    tests = Path(__file__).parent
    command = [sys.executable, "-c", SERVE, str(tmp_path), point, str(tests), str(tests.parent)]
    assert subprocess.run(command, check=False, timeout=120).returncode == 9
    with library(tmp_path) as desk:
        names = ["kept.md", "replaced.md"]
        ready = [(name, "ready") for name in names]
        until(lambda: [(one["name"], one["status"]) for one in desk.documents()] == ready)
        until(lambda: all(job["state"] in OVER for job in desk.jobs()))
        ended = [job["message"] for job in desk.jobs() if job["state"] != "finished"]
        assert len(ended) == (not left)
        assert desk.found("whales") == ["kept.md"]
        assert (desk.found("sharks") == []) == left
        assert (desk.found("row") != []) == left
        desk.added("next.md", "birds")
        assert desk.files() == ["kept.md", "next.md", "replaced.md"]
        with desk.locked():
            pass
        assert verify(LocalLocation(desk.shelf.collection.directory)).ok


class TestTypesThatNeedSoftware:
    def test_are_refused_before_they_are_stored(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr("vrag.corpus.formats.office.PLACES", ())
        monkeypatch.setattr("vrag.corpus.convert.importlib.util.find_spec", missing)
        with library(tmp_path) as desk:
            for name, needs, command in (
                ("a.docx", "LibreOffice", "apt install"),
                ("a.mp4", "PyAV", "pip install"),
            ):
                answer = desk.put(name, b"PK\x03\x04")
                assert answer.status_code == 415
                assert needs in answer.json()["detail"]
                assert command in answer.json()["hint"]
            assert desk.files() == []


def missing(name: str) -> None:
    """Nothing of this name is installed."""
