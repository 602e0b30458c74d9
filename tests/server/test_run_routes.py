"""Runs over HTTP, on a real socket."""

from __future__ import annotations

import io
import json
import re
import time
import zipfile
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hosting import Nothing, Scripted
from pydantic import BaseModel, ValidationError
from server_harness import serving

from vrag.server.app import Service
from vrag.server.options import ServerOptions
from vrag.server.runs.schema import ReportRequest, RunRequest

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

ASKED = {"question": "How many passengers?"}


@pytest.fixture
def answering(tmp_path: Path) -> Scripted:
    return Scripted(tmp_path / "runs")


@pytest.fixture
def client(answering: Scripted) -> Generator[httpx.Client]:
    with (
        serving(service=Service(answering, Nothing()), options=ServerOptions(drain_seconds=2)) as address,
        httpx.Client(base_url=address, timeout=120) as client,
    ):
        try:
            yield client
        finally:
            answering.policy.go.set()


class Frames(list[tuple[str, str, Any]]):
    """Server-sent events as (kind, id, data), parsed as the standard says."""

    @classmethod
    def of(cls, lines: Generator[str]) -> Frames:
        frames, kind, id, data = cls(), "message", "", list[str]()
        for line in lines:
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "id":
                id = value
            elif name == "data":
                data.append(value)
            elif not line and data:
                frames.append((kind, id, json.loads("\n".join(data))))
                kind, data = "message", []
        return frames

    @property
    def numbers(self) -> list[int]:
        return [data["seq"] for kind, _, data in self if kind == "message"]


def followed(client: httpx.Client, run: str, **how: Any) -> Frames:  # noqa: ANN401
    with client.stream("GET", f"/runs/{run}/events", **how) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        return Frames.of(response.iter_lines())  # pyright: ignore[reportArgumentType]


def started(client: httpx.Client, **asked: Any) -> dict[str, Any]:  # noqa: ANN401
    response = client.post("/runs", json=ASKED | asked)
    assert response.status_code == 201, response.text
    assert response.headers["location"] == f"/runs/{response.json()['id']}"
    return response.json()


def ended(client: httpx.Client, run: str) -> dict[str, Any]:
    detail: dict[str, Any] = {}
    for _ in range(1000):
        detail = client.get(f"/runs/{run}").json()
        if detail["state"] != "running":
            return detail
        time.sleep(0.01)
    raise AssertionError(detail)


def _call(name: str, **arguments: object) -> str:
    written = json.dumps({"name": name, "arguments": arguments})
    return f"<think>So.</think>\n<tool_call>{written}</tool_call>"


def test_a_run_is_started_followed_and_found_again(client: httpx.Client, answering: Scripted) -> None:
    run = started(client)
    assert run["state"] == "running"
    answering.policy.go.set()
    frames = followed(client, run["id"])
    assert frames.numbers == list(range(len(frames) - 1))
    assert [id for kind, id, _ in frames if kind == "message"] == [str(n) for n in frames.numbers]
    assert frames[-1] == ("end", frames[-2][1], {"state": "finished"})
    detail = ended(client, run["id"])
    assert detail["answer"] == "48,200"
    assert detail["evidence"]
    assert detail["events"] == len(frames) - 1
    assert client.get("/runs").json()["runs"][0]["id"] == run["id"]


def test_a_stream_is_resumed_by_the_last_id_without_a_gap(client: httpx.Client, answering: Scripted) -> None:
    run = started(client, agent="vrag")["id"]
    with client.stream("GET", f"/runs/{run}/events") as response:
        lines = response.iter_lines()
        while not (line := next(lines)).startswith("id: "):
            pass
    answering.policy.go.set()
    rest = followed(client, run, headers={"Last-Event-ID": line.removeprefix("id: ")})
    assert rest.numbers == list(range(1, len(rest)))
    assert followed(client, run, params={"after": 3}).numbers[0] == 4
    assert followed(client, run, headers={"Last-Event-ID": "no number"}).numbers[0] == 0


def test_a_run_is_stopped(client: httpx.Client) -> None:
    run = started(client)["id"]
    assert client.delete(f"/runs/{run}").status_code == 202
    assert ended(client, run)["stop_reason"] == "cancelled"
    assert client.delete(f"/runs/{run}").status_code == 200


def test_the_graph_comes_with_its_drawing(client: httpx.Client, answering: Scripted) -> None:
    useful = {"is_useful": True, "priority_score": 5, "key_timestamp": list[float]()}
    notes = [{"information_id": f"Picture {n}"} | useful for n in (1, 2, 3)]
    answering.policy.replies = (
        _call("add_search_node", id="s1", parent_ids=["root"], query="ferry passengers"),
        _call("summarize_and_memorize", summarize="It says so.", memorize=notes),
        _call("add_answer_node", parent_ids=["s1"], answer="48,200"),
    )
    answering.policy.go.set()
    frames = followed(client, started(client, agent="vimrag")["id"])
    graphs = [
        n for n, (kind, _, data) in enumerate(frames) if kind == "message" and data["type"] == "graph_changed"
    ]
    assert graphs
    for number in graphs:
        kind, _, drawing = frames[number - 1]
        assert kind == "drawing"
        assert [n["id"] for n in drawing["nodes"]] == [n["id"] for n in frames[number][2]["graph"]["nodes"]]


def test_pictures_of_a_run_are_shown_and_nothing_else_is(client: httpx.Client, answering: Scripted) -> None:
    answering.policy.go.set()
    run = started(client)["id"]
    frames = followed(client, run)
    shown = next(data["sha256"] for _, _, data in frames if data.get("type") == "image_shown")
    picture = client.get(f"/runs/{run}/files/{shown}.jpg")
    assert picture.headers["content-type"] == "image/jpeg"
    assert picture.content.startswith(b"\xff\xd8")
    assert client.get(f"/runs/{run}/files/{'0' * 64}.jpg").status_code == 404
    for path in (
        f"/runs/{run}/files/..%2fevents.jsonl",
        f"/runs/..%2f{run}/files/{shown}.jpg",
        "/runs/../events",
    ):
        assert client.get(path).status_code in {404, 422}


@pytest.mark.parametrize(
    ("format", "kind"),
    [("html", "text/html"), ("markdown", "text/markdown"), ("json", "application/json")],
)
def test_a_run_is_taken_away_as_one_document(
    client: httpx.Client, answering: Scripted, format: str, kind: str
) -> None:
    answering.policy.go.set()
    run = started(client)["id"]
    ended(client, run)
    response = client.get(f"/runs/{run}/export", params={"format": format})
    assert response.status_code == 200
    assert response.headers["content-type"].startswith(kind)
    assert response.headers["content-disposition"].startswith("attachment; filename=")
    assert b"48,200" in response.content


def test_the_evidence_of_a_run_is_taken_away_as_annotated_pages_annotations_or_pictures(
    client: httpx.Client, answering: Scripted
) -> None:
    answering.policy.go.set()
    run = started(client)["id"]
    ended(client, run)

    def files(response: httpx.Response) -> list[str]:
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "application/zip"
        with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
            assert archive.testzip() is None
            return archive.namelist()

    assert files(client.get(f"/runs/{run}/export", params={"format": "pdf"})) == [
        "ferry-cited-pages.pdf",
        "notes.txt",
    ]
    assert all(name.endswith(".png") for name in files(client.get(f"/runs/{run}/export?format=pictures")))
    response = client.get(f"/runs/{run}/export", params={"format": "annotations"})
    assert response.headers["content-type"].startswith("application/ld+json;")
    assert response.headers["content-disposition"] == f'attachment; filename="{run}-annotations.jsonld"'
    assert response.json()["total"] == 1
    both = client.post("/reports", json={"runs": [run, run], "format": "pdf", "title": "All"})
    assert files(both) == ["ferry-cited-pages.pdf", "notes.txt"]
    numbers = client.post(
        "/reports", json={"runs": [run, run], "format": "annotations", "title": "All"}
    ).json()
    assert numbers["label"] == "All"
    assert [each["body"][0]["value"] for each in numbers["first"]["items"]] == ["[1.1]", "[2.1]"]


def test_what_has_no_evidence_or_too_much_is_refused(
    client: httpx.Client, answering: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(client)["id"]
    response = client.get(f"/runs/{run}/export", params={"format": "pdf"})
    assert response.status_code == 409
    assert "nothing to export" in response.text
    answering.policy.go.set()
    ended(client, run)
    monkeypatch.setattr("vrag.render.exports.MAX_EVIDENCE_BYTES", 1000)
    response = client.get(f"/runs/{run}/export", params={"format": "pictures"})
    assert response.status_code == 413
    assert "Export fewer" in response.text


def test_several_runs_become_one_document(client: httpx.Client, answering: Scripted) -> None:
    answering.policy.go.set()
    runs = [started(client, question=f"Question {n}?")["id"] for n in range(2)]
    for run in runs:
        ended(client, run)
    response = client.post("/reports", json={"runs": runs, "title": "All of it"})
    assert response.status_code == 200
    assert "Question 0?" in response.text
    assert "Question 1?" in response.text
    assert client.post("/reports", json={"runs": ["20200101"]}).status_code == 404
    assert client.post("/reports", json={"runs": []}).status_code == 422


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"question": ""},
        {"question": "   "},
        {"question": "x" * 8001},
        {"question": "?", "agent": "other"},
        {"question": "?", "model": "other"},
        {"question": "?", "max_steps": 0},
        {"question": "?", "top_k": 1000},
        {"question": "?", "surprise": 1},
        {"question": "?", "session": "../../etc"},
        {"question": "?", "images": ["data:text/html,x"]},
        {"question": "?", "images": ["!!"]},
        {"question": "?", "images": ["https://example.org/x.png"]},
        {"question": "?", "images": ["AAAA"] * 5},
    ],
)
def test_a_request_that_cannot_be_is_refused_with_a_sentence(
    client: httpx.Client, asked: dict[str, Any]
) -> None:
    response = client.post("/runs", json=asked)
    assert response.status_code == 422, response.text
    assert response.json()["detail"].endswith(".")
    assert client.get("/runs").json()["runs"] == []


def test_a_run_that_waits_says_its_position_in_its_answer_stream_list_and_counter(
    answering: Scripted,
) -> None:
    with (
        serving(service=Service(answering, Nothing()), options=ServerOptions(runs=1, drain_seconds=2)) as url,
        httpx.Client(base_url=url, timeout=120) as client,
    ):
        _, second, third = (started(client) for _ in range(3))
        assert (third["state"], third["position"]) == ("waiting", 2)
        states = [(run["state"], run["position"]) for run in client.get("/runs").json()["runs"]]
        assert states == [("waiting", 2), ("waiting", 1), ("running", None)]
        counters = client.get("/metrics").text
        assert "\nvrag_runs_waiting 2.0\n" in counters
        assert "\nvrag_runs_running 1.0\n" in counters
        with client.stream("GET", f"/runs/{third['id']}/events") as response:
            lines = response.iter_lines()
            seen = [next(line for line in lines if line.startswith("data: "))]
            assert client.delete(f"/runs/{second['id']}").status_code == 202
            seen.append(next(line for line in lines if line.startswith("data: ")))
        assert seen == ['data: {"position":2}', 'data: {"position":1}']
        answering.policy.go.set()
        frames = followed(client, third["id"])
        assert frames.numbers == list(range(len(frames.numbers)))
        assert frames[-1][2] == {"state": "finished"}
        assert client.get(f"/runs/{third['id']}").json()["position"] is None
        assert "\nvrag_runs_waiting 0.0\n" in client.get("/metrics").text


def test_whoever_has_enough_questions_is_told_when_to_come_back(client: httpx.Client) -> None:
    """By each door, in the shape that its clients read."""
    options = ServerOptions()
    for _ in range(options.client_runs + options.client_waiting_runs):
        started(client)
    chat = {"model": "vrag", "messages": [{"role": "user", "content": "How many passengers?"}]}
    for path, asked in (("/runs", ASKED), ("/v1/chat/completions", chat)):
        response = client.post(path, json=asked)
        assert response.status_code == 429, path
        assert int(response.headers["retry-after"]) > 1, path


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        (RunRequest, {"question": "?"} | {f"field{number}": 0 for number in range(1000)}),
        (RunRequest, {"question": "?", "documents": [0] * 10_001}),
        (RunRequest, {"question": "?", "images": [0] * 1000}),
        (RunRequest, [0] * 1000),
        (ReportRequest, {"runs": [0] * 1000}),
        (ReportRequest, {"runs": ["0"]} | {f"field{number}": 0 for number in range(1000)}),
    ],
)
def test_not_all_that_is_wrong_is_told(model: type[BaseModel], asked: object) -> None:
    """A body has room for millions of mistakes; to list them would take minutes and gigabytes."""
    for given in (lambda: model.model_validate(asked), lambda: model.model_validate_json(json.dumps(asked))):
        with pytest.raises(ValidationError) as wrong:
            given()
        assert wrong.value.error_count() < 5


@pytest.mark.parametrize("path", ["", "/events", "/export", f"/files/{'0' * 64}.jpg"])
def test_a_run_that_is_not_there_is_not_found(client: httpx.Client, path: str) -> None:
    assert client.get(f"/runs/20200101-000000{path}").status_code == 404
    assert client.delete("/runs/20200101-000000").status_code == 404


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/runs/No-Id", "questions"),
        ("/items/no", "search"),
        ("/documents/no", "documents"),
        ("/jobs/%3D", "upload"),
    ],
)
def test_what_is_no_id_is_told_where_ids_come_from(client: httpx.Client, path: str, hint: str) -> None:
    response = client.get(path)
    assert response.status_code == 422
    assert response.json()["detail"].startswith("id: ")
    assert hint in response.json()["hint"]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/runs", "GET, POST, DELETE"),
        ("/runs/20200101-000000", "GET, PATCH, DELETE"),
        ("/search", "GET, POST"),
        ("/session", "GET, POST, DELETE"),
        ("/", "GET, HEAD"),
        ("/v1/chat/completions", "POST"),
        ("/v1/responses", "POST"),
    ],
)
def test_a_method_that_is_not_there_is_told_which_are(client: httpx.Client, path: str, methods: str) -> None:
    for method in ("PUT", "OPTIONS", "SEARCH"):
        response = client.request(method, path)
        assert (response.status_code, response.headers["allow"]) == (405, methods)


def test_what_can_be_asked_for_is_told(client: httpx.Client, answering: Scripted) -> None:
    assert client.get("/options").json() == answering.offer.model_dump(mode="json")


def test_the_page_and_all_that_it_loads_are_there(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    named = [f"/{path}" for path in re.findall(r'"(static/[^"]+)"', page.text)]
    assert len(named) == 4
    for path in (*named, "/favicon.ico"):
        assert client.get(path).status_code == 200
    assert client.get("/static/../app.py").status_code == 404
    assert client.get("/static/%2e%2e/app.py").status_code == 404


def test_counters_tell_of_runs(client: httpx.Client, answering: Scripted) -> None:
    answering.policy.go.set()
    ended(client, started(client)["id"])
    text = client.get("/metrics").text
    assert 'agent="vrag"' in text
    assert 'reason="answered"' in text


def test_clients_cannot_make_series_of_counters(client: httpx.Client) -> None:
    def labels() -> set[str]:
        text = client.get("/metrics").text
        return {line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")}

    def ask(mark: str) -> None:
        for path in ("", "static/", "static/js/", "runs/", "items/", "mcp/", "jobs/", "v1/models/"):
            for method in ("GET", "DELETE", mark):
                client.request(method, f"/{path}{mark}", params={mark: mark}, headers={"X-Request-ID": mark})

    ask("first1")  # a method with a digit is refused before it has a route
    labels()  # they count themselves
    before = labels()
    for number in range(20):
        ask(f"other{number}")
    assert labels() == before
    assert any('route="/static/{path}"' in label for label in before)
    assert not any("first" in label for label in before)
