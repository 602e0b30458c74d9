"""Uploads that a server took are there after it was killed and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from library_harness import FIRST, OVER, Desk, Lines, first_collection, library, until
from server_harness import dial
from stored_items import count_items

from vrag.index.collection import Collection
from vrag.server.state.database import ServerState


class TestARestart:
    def test_takes_up_what_waited_and_keeps_what_was_done(self, tmp_path: Path) -> None:
        slow = Lines(pace=0.02)
        with library(tmp_path, lines=slow) as desk:
            desk.put("a.md", "\n".join(f"line {n}" for n in range(400)))
            assert slow.began.acquire(timeout=120)
            desk.put("b.md", "whales")
            ids = {job["file"]: job["id"] for job in desk.jobs()}
        with library(tmp_path) as desk:
            until(lambda: {d["status"] for d in desk.documents()} == {"ready"})
            assert desk.found("whales") == ["b.md"]
            jobs = desk.jobs()
            assert {job["file"]: job["id"] for job in jobs} == ids
            assert len(slow.made) + len(desk.lines.made) == 401, "nothing is made twice but what was in hand"

    def test_does_not_read_again_what_is_done_or_failed(self, tmp_path: Path) -> None:
        with library(tmp_path) as desk:
            desk.added("a.md", "whales")
            desk.ended(desk.put("c.txt", "BAD It is torn."))
        with library(tmp_path) as desk:
            desk.added("b.md", "birds")
            assert desk.lines.made == ["birds"]
            states = [(job["file"], job["state"]) for job in desk.jobs()]
            assert states == [("b.md", "finished"), ("c.txt", "failed"), ("a.md", "finished")]

    def test_ends_a_job_whose_file_is_gone_or_another_one(self, tmp_path: Path) -> None:
        names = ("begun.md", "gone.md", "other.md")
        ids: dict[str, str] = {}
        with library(tmp_path, lines=(slow := Lines(pace=0.02))) as desk:
            for name in names:
                ids[name] = desk.put(name, "\n".join(f"{name} {n}" for n in range(400))).json()["id"]
                if name == "begun.md":
                    assert slow.began.acquire(timeout=120)
            uploads = desk.uploads
        (uploads / "gone.md").unlink()
        (uploads / "other.md").write_text("squids", encoding="utf-8")
        with library(tmp_path) as desk:
            begun, gone, other = (until(lambda id=ids[name]: over(desk, id)) for name in names)
            assert (begun["state"], gone["state"], other["state"]) == ("finished", "failed", "failed")
            assert "Upload it again." in gone["message"]
            assert "Another file" in other["message"]
            until(lambda: desk.found("squids") == ["other.md"])

    def test_a_collection_without_its_folder_of_uploads_ends_its_jobs(self, tmp_path: Path) -> None:
        with library(tmp_path, lines=Lines(pace=0.02)) as desk:
            id = desk.put("a.md", "\n".join(f"line {n}" for n in range(400))).json()["id"]
            uploads = desk.uploads
        shutil.rmtree(uploads)
        with library(tmp_path) as desk:
            assert until(lambda: over(desk, id))["state"] == "failed"

    def test_old_jobs_and_those_of_removed_documents_leave_no_name(self, tmp_path: Path) -> None:
        state = tmp_path / "state"
        with library(tmp_path) as desk:
            kept = desk.ended(desk.put("kept.md", "whales"))
            again = desk.ended(desk.put("kept.md", "whales and squids"))
            removed = desk.added("removed.md", "birds")
            desk.client.delete(f"/collections/first/documents/{removed}").raise_for_status()
            assert bytes_of(state).count(b"removed.md") == 0
        with library(tmp_path) as desk:
            assert [job["id"] for job in desk.jobs()] == [again["id"]]
            assert desk.client.get(f"/jobs/{kept['id']}").status_code == 404
        database = ServerState.open(state)
        database.write(lambda connection: connection.execute("UPDATE jobs SET changed = changed - 8 * 86400"))
        database.close()
        with library(tmp_path) as desk:
            assert desk.jobs() == []
            assert b"kept.md" not in bytes_of(state)

    def test_clears_away_what_was_left_of_old_uploads(self, tmp_path: Path) -> None:
        uploads = first_collection(tmp_path) / "uploads"
        uploads.mkdir()
        for name, age in ((".old.part", 3600), (".new.part", 0)):
            (uploads / name).write_bytes(b"half")
            os.utime(uploads / name, (time.time() - age, time.time() - age))
        with library(tmp_path) as desk:
            until(lambda: desk.files() == [".new.part"])
            assert desk.documents() == []

    @pytest.mark.slow
    def test_after_a_kill_in_mid_upload_has_what_was_there_before(self, tmp_path: Path) -> None:
        place = first_collection(tmp_path)
        server = Killable(place)
        uploads = place / "uploads"
        try:
            server.put("a.md", "whales")
            until(lambda: count_items(Collection.open(place)))
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

    @pytest.mark.slow
    def test_after_a_kill_no_upload_that_was_accepted_is_forgotten(self, tmp_path: Path) -> None:
        server = Killable(first_collection(tmp_path))
        try:
            ids = {f"{n}.md": server.put(f"{n}.md", f"whales {n}") for n in range(12)}
        finally:
            server.kill()
        with library(tmp_path, real=True) as desk:
            for name, id in ids.items():
                job = until(lambda id=id: over(desk, id))
                assert (job["file"], job["state"]) == (name, "finished")
            assert sorted(desk.found("whales")) == sorted(ids)

    @pytest.mark.slow
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


def over(desk: Desk, id: str) -> dict[str, Any] | None:
    """The job, once it has ended."""
    return job if (job := desk.job(id))["state"] in OVER else None


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


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

    def put(self, name: str, text: str) -> str:
        """Upload a document; return the id of its job."""
        import httpx

        path = f"{self.address}/collections/{FIRST}/documents/{name}"
        answer = httpx.put(path, content=text.encode(), timeout=120)
        assert answer.status_code == 202
        return answer.json()["id"]

    def wait_for_items(self, place: Path) -> None:
        """Until some items are there."""
        until(lambda: count_items(Collection.open(place)))

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
