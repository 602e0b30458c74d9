"""Audited requests: what is logged of whom, before what, and what happens when the log cannot be written."""

from __future__ import annotations

import asyncio
import errno
import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hosting import ANSWER, SEARCH, Nothing
from library_harness import Desk, library, until
from server_harness import ask, serving
from service_harness import scripted

from vrag.server.app import Service, create_app
from vrag.server.http.audit import MAX_REFUSED, MAX_REFUSED_TOTAL, AuditTrail
from vrag.server.http.audit_log import AuditEntry, AuditLog, read_entries
from vrag.server.http.users import TokenFile, UserRole
from vrag.server.options import ServerOptions
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

QUESTION_TEXT = "How many passengers does nobody else ask about?"
TOKEN = "0123456789abcdef"
BEARER = {"authorization": f"Bearer {TOKEN}"}
JSON = {"accept": "application/json, text/event-stream"}


@dataclass
class FailingLog(AuditLog):
    """A log on a disk that refuses entries with some results."""

    path: Path
    refuses: set[str] = field(default_factory=set[str])
    code: int = errno.ENOSPC

    def __post_init__(self) -> None:
        super().__init__(self.path)

    def write(self, entry: AuditEntry) -> None:
        if entry.result in self.refuses:
            raise OSError(self.code, "it is full")
        super().write(entry)


def entries(path: Path, **wanted: Any) -> list[AuditEntry]:  # noqa: ANN401
    return [
        entry
        for entry in read_entries(path)
        if all(getattr(entry, name) == value for name, value in wanted.items())
    ]


def results(path: Path, action: str) -> list[str]:
    return [entry.result for entry in entries(path, action=action)]


@contextmanager
def audited_library(folder: Path, log: AuditLog | None = None) -> Generator[tuple[Desk, Path]]:
    """A server with collections, whose client is an administrator of the name admin."""
    log = log or AuditLog(folder / "audit.log")
    with library(folder, options=ServerOptions(token=TOKEN, audit=log)) as desk:
        desk.client.headers.update(BEARER)
        yield desk, log.path


def test_each_change_of_documents_and_collections_has_an_entry_before_and_after(tmp_path: Path) -> None:
    with audited_library(tmp_path) as (desk, path):
        document = desk.added("note.txt", "The ferry\nsails")
        desk.added("note.txt", "The ferry\nsails twice")
        desk.client.delete(f"/collections/first/documents/{document}")
        desk.client.post("/collections", json={"name": "second"})
        desk.client.delete("/collections/second")
        desk.put("note.exe", "no")
        found = entries(path)
    told = [(entry.action, entry.result, entry.status) for entry in found]
    assert told == [
        ("upload", "begun", None), ("upload", "done", 202),
        ("upload", "begun", None), ("replace", "done", 202),
        ("remove_document", "begun", None), ("remove_document", "failed", 404),
        ("create_collection", "begun", None), ("create_collection", "done", 201),
        ("delete_collection", "begun", None), ("delete_collection", "done", 204),
        ("upload", "begun", None), ("upload", "failed", 415),
    ]  # fmt: skip
    for before, after in zip(found[::2], found[1::2], strict=True):
        assert before.id == after.id
        assert before.id
    assert {(entry.user, entry.role, entry.address) for entry in found} == {
        ("admin", "administer", "127.0.0.1")
    }
    uploaded = found[1]
    assert (uploaded.collection, uploaded.file, uploaded.document) == ("first", "note.txt", document)
    assert {entry.collection for entry in found[6:10]} == {"second"}


def test_an_entry_is_in_the_file_before_the_answer_comes_and_before_the_change(tmp_path: Path) -> None:
    with audited_library(tmp_path) as (desk, path):

        def body() -> Generator[bytes]:
            yield b"The ferry "
            until(lambda: results(path, "upload") == ["begun"])
            assert not (desk.uploads / "slow.txt").exists()
            yield b"sails"

        assert desk.client.put("/collections/first/documents/slow.txt", content=body()).status_code == 202
        assert results(path, "upload") == ["begun", "done"]


def test_nothing_is_done_where_it_cannot_be_logged(tmp_path: Path) -> None:
    log = FailingLog(tmp_path / "audit.log")
    with audited_library(tmp_path, log) as (desk, path):
        document = desk.added("note.txt", "The ferry\nsails")
        before = path.read_bytes()
        for log.code, status in ((errno.ENOSPC, 507), (errno.EIO, 503)):
            log.refuses = {"begun", "done", "failed", "refused"}
            for response in (
                desk.put("other.txt", "A kayak"),
                desk.client.delete(f"/collections/first/documents/{document}"),
                desk.client.post("/collections", json={"name": "second"}),
                desk.client.post("/search", json={"queries": "ferry"}),
            ):
                assert response.status_code == status, response.text
                assert "audit log" in response.json()["detail"]
                assert "note.txt" not in response.text
            assert desk.client.get("/collections").status_code == 200  # nothing to log
            assert desk.client.get("/collections", headers={"authorization": "Bearer no"}).status_code == 401
            assert path.read_bytes() == before
            assert desk.files() == ["note.txt"]
            assert [each["name"] for each in desk.documents()] == ["note.txt"]
            log.refuses = set()
        assert desk.put("other.txt", "A kayak").status_code == 202


def test_a_change_that_was_logged_before_is_answered_and_its_end_goes_to_the_servers_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = FailingLog(tmp_path / "audit.log", {"done"})
    with audited_library(tmp_path, log) as (desk, path):
        assert desk.put("note.txt", "The ferry").status_code == 202
        assert results(path, "upload") == ["begun"]
    line = next(message for message in caplog.messages if "could not be written to the audit log" in message)
    assert "note.txt" in line
    assert entries(path)[0].id in line


def test_questions_by_every_interface_are_logged_without_their_text(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    log = AuditLog(tmp_path / "audit.log")
    options = ServerOptions(token=TOKEN, audit=log, drain_seconds=2)
    service = Service(scripted(tmp_path / "runs", (SEARCH, ANSWER)), Nothing())
    with (
        serving(options=options, service=service) as address,
        httpx.Client(base_url=address, headers=BEARER, timeout=120) as client,
    ):
        run = client.post("/runs", json={"question": QUESTION_TEXT}).json()["id"]
        messages = [{"role": "user", "content": QUESTION_TEXT}]
        client.post("/v1/chat/completions", json={"model": "vrag", "messages": messages})
        client.post("/search", json={"queries": [QUESTION_TEXT]})
        for name, arguments in (("ask", {"question": QUESTION_TEXT}), ("search", {"query": QUESTION_TEXT})):
            call = {"name": name, "arguments": arguments}
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            assert client.post("/mcp", json=request, headers=JSON).status_code == 200
        client.get(f"/runs/{run}/export")
        client.delete(f"/runs/{run}", params={"remove": "run"})
    found = entries(log.path)
    assert [entry.action for entry in found] == (
        ["ask"] * 4 + ["search"] + ["ask"] * 2 + ["search", "export"] + ["delete_run"] * 2
    )
    asked = [entry for entry in found if entry.action == "ask" and entry.result == "done"]
    assert len({entry.run for entry in asked}) == 3
    assert asked[0].run == run == found[-1].run
    assert QUESTION_TEXT not in log.path.read_text()
    assert TOKEN not in log.path.read_text()


def test_a_setting_adds_the_text_of_questions(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log", with_questions=True)
    app = create_app(tiny_corpus(), ServerOptions(token=TOKEN, audit=log))
    body = {"queries": [QUESTION_TEXT, "And\nthen?"]}
    assert ask(app, "POST", "/search", json=body, headers=BEARER).status_code == 200
    (entry,) = entries(log.path)
    assert entry.question == f"{QUESTION_TEXT}\nAnd\nthen?"
    assert len(log.path.read_bytes().splitlines()) == 1


def test_sign_in_choice_of_a_model_and_roles_that_are_missing(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.toml")
    token = file.add("alice", UserRole.ASK)
    log = AuditLog(tmp_path / "audit.log")
    options = ServerOptions(tokens=file, audit=log, proxies=frozenset({"127.0.0.1"}), drain_seconds=2)
    service = Service(scripted(tmp_path / "runs"), Nothing())
    with (
        serving(options=options, service=service) as address,
        httpx.Client(
            base_url=address, headers={"origin": address, "x-forwarded-for": "192.0.2.7"}, timeout=30
        ) as client,
    ):
        assert client.post("/session", json={"token": "wrong"}).status_code == 401
        assert client.post("/session", json={"token": token}).status_code == 204
        assert client.delete("/collections/x").status_code == 403
        assert client.get("/retention").status_code == 403
        assert client.get("/runs", headers={"origin": "https://evil.example"}).status_code == 403
        assert client.delete("/session").status_code == 204
        assert client.get("/runs").status_code == 401
    found = entries(log.path)
    assert [(e.action, e.result, e.user, e.reason, e.path) for e in found] == [
        ("sign_in", "refused", "", "token", ""),
        ("sign_in", "done", "alice", "", ""),
        ("delete_collection", "refused", "alice", "role", ""),
        ("request", "refused", "alice", "role", "/retention"),
        ("request", "refused", "", "site", "/runs"),
        ("sign_out", "done", "alice", "", ""),
        ("request", "refused", "", "token", "/runs"),
    ]
    assert {entry.address for entry in found} == {"192.0.2.7"}
    assert token not in log.path.read_text()
    assert "wrong" not in log.path.read_text()


def test_refused_requests_do_not_fill_the_disk(tmp_path: Path) -> None:
    now = [0.0]
    trail = AuditTrail(AuditLog(tmp_path / "audit.log"), lambda: now[0])
    admitted = [trail.admit_refused("192.0.2.7") for _ in range(MAX_REFUSED + 5)]
    assert admitted == [0] * MAX_REFUSED + [None] * 5
    assert trail.admit_refused("192.0.2.8") == 0
    now[0] = 120.0
    assert trail.admit_refused("192.0.2.7") == 5  # the next entry of the address has the number
    assert trail.admit_refused("192.0.2.7") == 0
    many = [trail.admit_refused(f"198.51.100.{number}") for number in range(2000)]
    assert many.count(0) == MAX_REFUSED_TOTAL - 2


def test_every_omitted_refusal_is_told_whatever_limit_was_the_reason() -> None:
    now = [0.0]
    trail = AuditTrail(None, lambda: now[0])
    addresses = [f"192.0.2.{number}" for number in range(100)]
    omitted = told = 0
    for minute in range(40):
        now[0] = 60.0 * minute
        order = addresses[minute % 7 :] + addresses[: minute % 7]
        for _ in range(10 + 30 * (minute % 2)):
            for address in order:
                number = trail.admit_refused(address)
                omitted += number is None
                told += number or 0
    for each in range(100):
        now[0] += 60
        told += trail.admit_refused(addresses[each]) or 0
    assert told == omitted > 0


def test_many_refusals_of_one_address_do_not_hide_those_of_others_nor_fill_the_memory() -> None:
    trail = AuditTrail(None, lambda: 0.0)
    for _ in range(5 * MAX_REFUSED_TOTAL):
        trail.admit_refused("192.0.2.7")
    assert trail.admit_refused("192.0.2.8") == 0
    for number in range(50_000):
        trail.admit_refused(str(number))
    assert len(vars(trail)["_omitted"]) < 10_000


def test_without_a_log_nothing_is_written_and_everything_works(tmp_path: Path) -> None:
    app = create_app(tiny_corpus(), ServerOptions(token=TOKEN))
    assert ask(app, "POST", "/search", json={"queries": "ferry"}, headers=BEARER).status_code == 200
    assert list(tmp_path.iterdir()) == []


def test_a_client_that_leaves_is_logged(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")

    async def visit() -> None:
        app = create_app(tiny_corpus(), ServerOptions(audit=log))
        async with app.router.lifespan_context(app):

            async def receive() -> dict[str, Any]:
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:  # noqa: ANN401
                pass

            headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
            scope = {
                "type": "http", "method": "POST", "path": "/search", "raw_path": b"/search", "root_path": "",
                "query_string": b"", "headers": headers, "scheme": "http", "client": ("127.0.0.1", 9),
                "server": ("localhost", 80), "http_version": "1.1",
            }  # fmt: skip
            await app(scope, receive, send)

    asyncio.run(visit())
    (entry,) = entries(log.path)
    assert (entry.action, entry.result) == ("search", "failed")
    assert json.loads(entry.line)["address"] == "127.0.0.1"
