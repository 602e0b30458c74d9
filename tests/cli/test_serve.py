"""`vrag serve` as somebody starts it, and what its page in the documentation shows."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from command_line import Done, run_vrag

from vrag.samples import corpus_dir
from vrag.search.client import SearchClient
from vrag.types import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

pytestmark = pytest.mark.slow


SLIDES = corpus_dir() / "guillemot-slides.pdf"
PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "reports"
    done = run_vrag("index", "add", str(SLIDES), "-c", str(path), cwd=path.parent, VRAG_OCR="false")
    assert done.status == 0, done.err
    return path


@contextlib.contextmanager
def running(
    collection: Path | tuple[Path, ...], *arguments: str, warned: str = "", **environment: str
) -> Generator[tuple[str, str]]:
    """The address of a server, and all it printed when it answered; ends it and looks that it ended well."""
    several = collection if isinstance(collection, tuple) else (collection,)
    where = [part for path in several for part in ("-c", str(path))]
    line = [sys.executable, "-m", "vrag", "serve", "--port", "0", *where, *arguments]
    known = {**os.environ, "COLUMNS": "200", **environment}
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=known
    ) as process:
        assert process.stdout is not None
        told = process.stdout.readline() + process.stdout.readline()
        address = re.search(r"(http://[^/ ]+)/search", told)
        assert address, told
        try:
            yield address.group(1), told
        finally:
            process.send_signal(signal.SIGTERM)
            rest, log = process.communicate(timeout=120)
            assert process.returncode == 0
            assert ("VRAG_MODELS" in log, warned in log) == (bool(warned), True)
    assert rest.endswith("Stopped.\n")


@contextlib.contextmanager
def kept_logging() -> Generator[None]:
    """The logging of this process, put back in the end."""
    loggers = [logging.getLogger(name) for name in ("", "vrag", "uvicorn.error")]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    try:
        yield
    finally:
        logging.captureWarnings(capture=False)
        for logger, level, handlers in before:
            logger.setLevel(level)
            logger.handlers[:] = handlers


def refused(collection: Path, *arguments: str) -> Done:
    """Run the command in this process; it is to end before it serves, and to leave no logging behind."""
    with kept_logging(), pytest.MonkeyPatch.context() as patch:
        patch.delattr("vrag.cli.serve.run_server")
        return run_vrag("serve", "-c", str(collection), *arguments, cwd=collection.parent)


def test_with_json_logs_it_prints_json_alone(collection: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(app: object, socket: object, options: object, ready: Callable[[], None]) -> None:
        ready()

    monkeypatch.setattr("vrag.cli.serve.run_server", serve)
    with kept_logging():
        done = run_vrag(
            "serve", "-c", str(collection), "--port", "0", "--logs", "json", cwd=collection.parent
        )
    messages = [json.loads(line)["message"] for line in done.err.splitlines()]
    assert (done.status, done.out) == (0, "")
    assert re.fullmatch(r"listening on http://127\.0\.0\.1:\d+", messages[0])
    assert messages[1:] == ["stopped"]


@pytest.mark.smoke
@pytest.mark.slow
def test_it_serves_what_the_page_shows(collection: Path) -> None:
    with running(collection, "--only", "search") as (address, told):
        done = refused(collection, "--port", address.rsplit(":", 1)[1])
        assert (done.status, "another program listens there" in done.err) == (2, True)

        example = re.search(r"-H '(?P<header>[^']+)' (?P<url>\S+) -d '(?P<body>[^']+)'", told)
        assert example
        name, _, value = example["header"].partition(": ")
        found = httpx.post(example["url"], content=example["body"], headers={name: value}).json()
        assert len(found["results"][0]["data"]) <= 3

        (entry,) = httpx.post(f"{address}/search", json={"queries": "shore power", "top_k": 1}).json()[
            "results"
        ][0]["data"]
        path = Path(entry["file_path"])
        assert re.fullmatch(rf"[\w-]+_{entry['page']}\.jpg", path.name)
        assert path.read_bytes() == httpx.get(address + entry["url"]).content

        (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
        shown = code.replace("http://127.0.0.1:8001", address) + "\nprint(hits[0].item, picture.size)"
        done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
        assert entry["id"] in done.stdout


def test_it_asks_for_the_token_of_the_environment(collection: Path) -> None:
    with running(collection, VRAG_API_KEY="secret") as (address, told):
        assert "secret" not in told
        assert httpx.get(f"{address}/version").status_code == 401
        with SearchClient(address, token="secret") as client:
            assert client.corpora == ("reports",)
            assert client.search([Query("shore power", corpora=frozenset({"reports"}))], 1)[0]


def test_it_serves_several_collections_by_their_names(collection: Path, tmp_path: Path) -> None:
    note = tmp_path / "ferry note.md"
    note.write_text("The ferry does not run in January because of ice.", encoding="utf-8")
    notes = tmp_path / "notes"
    assert run_vrag("index", "add", str(note), "-c", str(notes), cwd=tmp_path).status == 0
    with (
        running((collection, notes), "--ranking", "lexical") as (address, _),
        SearchClient(address) as client,
    ):
        assert sorted(client.corpora) == ["notes", "reports"]
        text = "ferry ice shore power"
        both, first, second = (
            {hit.document_name for hit in client.search([Query(text, corpora=names)], 10)[0]}
            for names in (None, frozenset({"reports"}), frozenset({"notes"}))
        )
        assert (first, second) == ({SLIDES.name}, {note.name})
        assert both == first | second


@pytest.mark.parametrize(
    ("option", "value"),
    [("--ranking", "sideways"), ("--reranker", "nowhere/none"), ("--device", "abacus")],
)
def test_how_to_search_can_be_said_and_is_checked_before_it_listens(
    collection: Path, option: str, value: str
) -> None:
    done = refused(collection, "--port", "0", option, value)
    assert done.status != 0
    assert "Error: " in done.err
    assert "Traceback" not in done.err


def test_it_does_not_open_itself_to_others_unasked(collection: Path) -> None:
    done = refused(collection, "--host", "0.0.0.0")
    assert done.status == 2
    assert "VRAG_API_KEY" in done.err
    assert "--insecure" in done.err


@pytest.mark.parametrize(
    ("host", "why"), [("nosuch.invalid", "name is known"), ("192.0.2.77", "cannot assign")]
)
def test_an_address_that_is_not_here_is_refused_in_words(collection: Path, host: str, why: str) -> None:
    done = refused(collection, "--host", host, "--insecure", "--port", "0")
    assert done.status == 2
    assert why in " ".join(done.err.split())
    assert "Errno" not in done.err
    assert "--host" in done.err


def test_models_without_commas_between_them_are_noticed(collection: Path) -> None:
    with running(collection, VRAG_MODELS="a b", VRAG_MODEL="m", warned="by commas") as (address, _):
        offered = httpx.get(f"{address}/options").json()["models"]
        assert "a b" in [model["name"] for model in offered]
    with running(collection, VRAG_MODELS="a, b", VRAG_MODEL="m") as (address, _):
        offered = httpx.get(f"{address}/options").json()["models"]
        assert [model["name"] for model in offered] == ["", "m", "a", "b"]


def test_steps_and_hits_of_the_agents_can_be_set(collection: Path) -> None:
    with running(collection, "--max-steps", "2", "--top-k", "3") as (address, _):
        offer = httpx.get(f"{address}/options").json()
        assert (offer["defaults"]["max_steps"], offer["defaults"]["top_k"]) == (2, 3)
        run = httpx.post(f"{address}/runs", json={"question": "What is shore power?"}).json()["id"]
        frames = httpx.get(f"{address}/runs/{run}/events", timeout=60).text
    events = [json.loads(line[6:]) for line in frames.splitlines() if line.startswith('data: {"run_id"')]
    assert events[0]["settings"]["limits"]["steps"] == 2
    found = [len(event["hits"]) for event in events if event["type"] == "search_returned"]
    assert 0 < max(found) <= 3


def test_it_serves_others_when_told_to(collection: Path) -> None:
    with running(collection, "--host", "0.0.0.0", "--insecure", "--files", "names") as (address, _):
        request = httpx.Request(
            "GET", f"{address}/search?queries=shore+power", headers={"host": "search.lan"}
        )
        with httpx.Client() as client:
            found = client.send(request).json()[0]
    assert all(re.fullmatch(r"[\w-]+_\d+\.jpg", hit["image_file"]) for hit in found)


def test_a_missing_collection_is_said_so(tmp_path: Path) -> None:
    done = refused(tmp_path / "none")
    assert (done.status, "vrag index add" in done.err) == (1, True)


def test_the_page_names_every_route_and_field() -> None:
    from vrag.search.schema import SearchRequest
    from vrag.server.app import create_app
    from vrag.testing import tiny_corpus

    for path in create_app(tiny_corpus()).openapi()["paths"]:
        assert path in PAGE or path == "/session", path
    assert re.findall(r"^\| `(\w+)` \| ", PAGE, re.MULTILINE)[: len(SearchRequest.model_fields)] == list(
        SearchRequest.model_fields
    )
