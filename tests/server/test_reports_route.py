"""`POST /reports` on a real socket: whatever is asked for is a document or a refusal that says why."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hosting import Nothing, Scripted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from server_harness import serving
from stored_events import reopen, write_events

from vrag.agent.runs.run_store import RunStore
from vrag.server.app import Service
from vrag.server.options import ServerOptions

if TYPE_CHECKING:
    from collections.abc import Generator

ABSENT = "20200101-000000-000000-beef"


@pytest.fixture(scope="module")
def answering(tmp_path_factory: pytest.TempPathFactory) -> Scripted:
    return Scripted(tmp_path_factory.mktemp("served") / "runs")


@pytest.fixture(scope="module")
def client(answering: Scripted) -> Generator[httpx.Client]:
    with (
        serving(service=Service(answering, Nothing()), options=ServerOptions(drain_seconds=2)) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        try:
            yield client
        finally:
            answering.policy.go.set()


@pytest.fixture(scope="module")
def runs(client: httpx.Client, answering: Scripted) -> list[str]:
    """Ids of two runs that have ended."""
    answering.policy.go.set()
    asked = [client.post("/runs", json={"question": f"Question {n}?"}).json()["id"] for n in (1, 2)]
    for run in asked:
        while client.get(f"/runs/{run}").json()["state"] == "running":
            time.sleep(0.01)
    return asked


def report(client: httpx.Client, *runs: str, **more: object) -> httpx.Response:
    return client.post("/reports", json={"runs": runs, **more})


def refused(response: httpx.Response, status: int, *words: str) -> bool:
    """Whether it is a refusal as every other, that says these words."""
    told = response.json()
    assert response.status_code == status, told
    assert set(told) == {"detail", "hint"}
    return all(word in told["detail"] for word in words)


@pytest.mark.parametrize(("format", "kind"), [("html", "text/html"), ("markdown", "text/markdown")])
def test_two_hundred_runs_are_told_in_the_order_in_which_they_are_named(
    client: httpx.Client, runs: list[str], format: str, kind: str
) -> None:
    named = [runs[1], runs[0]] * 100
    response = report(client, *named, title="Many", format=format)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith(kind)
    assert response.headers["content-disposition"].startswith('attachment; filename="many.')
    assert "200 questions, 200 answered" in response.text
    assert response.text.index("Question 2?") < response.text.index("Question 1?")
    assert response.text.count("data:image/jpeg") == report(client, *runs, format=format).text.count(
        "data:image/jpeg"
    ), "a picture is in it once"


def test_more_than_two_hundred_are_refused(client: httpx.Client, runs: list[str]) -> None:
    assert refused(report(client, *runs[:1] * 201), 422, "runs", "200")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_id_of_no_run_is_named_wherever_it_stands(
    client: httpx.Client, runs: list[str], place: int
) -> None:
    named = [*runs[:place], ABSENT, *runs[place:]]
    assert refused(report(client, *named), 404, ABSENT)


def test_the_beginning_of_an_id_is_no_id(client: httpx.Client, runs: list[str]) -> None:
    assert refused(report(client, runs[0][:-1]), 404, runs[0][:-1])


@pytest.mark.parametrize(
    "id",
    ["last", "", "..", "../runs", "A" * 8, "x/y", "a\x00b", "a\n", "a" * 41, "%2e%2e", 7, None, ["a"], {}],
)  # fmt: skip
def test_what_is_no_id_is_refused(client: httpx.Client, runs: list[str], id: object) -> None:
    assert refused(client.post("/reports", json={"runs": [*runs, id]}), 422, "runs")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"{",
        b"\xff",
        b'{"runs": []}',
        b'{"runs": "20200101"}',
        b'{"runs": null}',
        b'{"runs": ["a"], "format": "json"}',
        b'{"runs": ["a"], "format": null}',
        b'{"runs": ["a"], "title": null}',
        b'{"runs": ["a"], "title": "\\ud800"}',
        b'{"runs": ["a"], "more": 1}',
        b'{"runs": ["a"], "title": "' + b"x" * 301 + b'"}',
        b"[" * 5000,
    ],
)
def test_what_is_no_request_is_refused(client: httpx.Client, body: bytes) -> None:
    response = client.post("/reports", content=body, headers={"Content-Type": "application/json"})
    assert refused(response, 422)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=30),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    )
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_that_is_sent_is_a_fault_of_the_server(client: httpx.Client, value: Any) -> None:  # noqa: ANN401
    for body in (value, {"runs": value}, {"runs": [value]}, {"runs": ["0"], "title": value}):
        content = json.dumps(body).encode()
        response = client.post("/reports", content=content, headers={"Content-Type": "application/json"})
        assert response.status_code in {404, 422}, (body, response.text)


@pytest.mark.parametrize("title", ['"\r\nX-Evil: 1', "…", "\x00\x1b", "../../x", "年报", " ", "x" * 300])
def test_a_title_makes_no_header_and_no_path(client: httpx.Client, runs: list[str], title: str) -> None:
    for written_as in ("html", "markdown"):
        response = report(client, runs[0], title=title, format=written_as)
        assert response.status_code == 200
        name = response.headers["content-disposition"].removeprefix('attachment; filename="').rstrip('"')
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-."), name
        assert "x-evil" not in response.headers


@pytest.fixture
def store(answering: Scripted) -> RunStore:
    return RunStore(answering.directory)


@pytest.fixture
def copy(store: RunStore, runs: list[str]) -> Generator[str]:
    """A run, to be broken."""
    stored = store.read(runs[0])
    files = {name: store.read_file(runs[0], *name.split(".")) for name in store.file_names(runs[0])}
    store.add(run := "dead-0", stored.events, files)
    yield run
    store.delete(run)


@pytest.mark.parametrize(
    "events",
    [
        [],
        [b"{"],
        [b"\xff\xfe"],
        [b"[]"],
        [b'{"type": "nothing"}'],
        [b'{"schema_version": 99, "type": "run_started"}'],
    ],
)
def test_a_run_that_cannot_be_read_is_refused_by_its_name(
    client: httpx.Client, store: RunStore, runs: list[str], copy: str, events: list[bytes]
) -> None:
    write_events(store, copy, events)
    assert refused(report(client, runs[0], copy), 404, copy)


def test_a_run_that_was_cut_off_is_told(client: httpx.Client, store: RunStore, copy: str) -> None:
    reopen(store, copy)
    assert "was interrupted" in report(client, copy).text


def test_pictures_that_are_gone_are_told(client: httpx.Client, store: RunStore, copy: str) -> None:
    with store.changing() as connection:
        connection.execute("DELETE FROM files WHERE run = (SELECT number FROM runs WHERE id = ?)", (copy,))
    assert "not among the files of the run" in report(client, copy).text


def test_a_report_of_a_run_under_way_tells_it_as_far_as_it_has_come(
    client: httpx.Client, answering: Scripted, runs: list[str]
) -> None:
    answering.policy.go.clear()
    try:
        run = client.post("/runs", json={"question": "Not yet?"}).json()["id"]
        response = report(client, run, *runs)
        assert response.status_code == 200
        assert "3 questions, 2 answered, 1 still running" in response.text
        assert "Interrupted" not in response.text
    finally:
        answering.policy.go.set()


def test_reports_are_made_side_by_side(client: httpx.Client, runs: list[str]) -> None:
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(report(client, *runs * 20, format="markdown").status_code)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= 1
    assert len(statuses) == len(threads)


@pytest.mark.parametrize("format", ["html", "markdown"])
def test_links_open_the_places_at_the_address_that_was_asked(
    client: httpx.Client, runs: list[str], format: str
) -> None:
    text = report(client, *runs, format=format).text
    for run in runs:
        assert f"{client.base_url}/#/runs/{run}?cite=1" in text
        exported = client.get(f"/runs/{run}/export?format={format}").text
        assert f"{client.base_url}/#/runs/{run}?cite=1" in exported
