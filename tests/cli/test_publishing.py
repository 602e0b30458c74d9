"""A collection leaves the machine and is searched elsewhere, by the commands a person types."""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from command_line import Done, run_vrag
from extras import require

from vrag.index.remote.remote_collection import FRESH_SECONDS

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

pytestmark = pytest.mark.slow


URL = "s3://shelves/notes"


@pytest.fixture(scope="module")
def endpoint() -> Generator[str]:
    """An S3-compatible server on this machine."""
    require("s3", "s3fs")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto: Any = importlib.import_module("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def home(endpoint: str, tmp_path: Path) -> Home:
    for path, method in (("moto-api/reset", "POST"), ("shelves", "PUT")):
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{path}", b"", method=method)).close()
    (tmp_path / "notes.md").write_text("# Ferry\n\nThe ferry carried 48,200 passengers.\n")
    home = Home(tmp_path, endpoint)
    assert home.vrag("index", "add", "notes.md").status == 0
    return home


class Home:
    """A person's folder, with keys for the storage."""

    def __init__(self, path: Path, endpoint: str) -> None:
        self.path = path
        self.environment = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "VRAG_COLLECTION": str(path / "collection"),
            "XDG_CACHE_HOME": str(path / "cache"),
            "COLUMNS": "200",
        }

    def vrag(self, *arguments: str) -> Done:
        return run_vrag(*arguments, cwd=self.path, **self.environment)

    def start(self, *arguments: str) -> Done:
        """Run a command in a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "vrag", *arguments],
            capture_output=True,
            text=True,
            cwd=self.path,
            env={**os.environ, **self.environment},
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def serve(self) -> tuple[subprocess.Popen[str], str]:
        """A search server over what is published, and its address."""
        command = [sys.executable, "-m", "vrag", "serve", "--only", "search", "--port", "0"]
        server = subprocess.Popen(
            [*command, "--collection", URL],
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.path,
            env={**os.environ, **self.environment},
        )
        assert server.stdout is not None
        for line in server.stdout:
            if found := re.search(r"http://[\d.]+:\d+", line):
                return server, found.group()
        raise AssertionError(server.wait())


def ask(address: str, query: str) -> Any:  # noqa: ANN401 - JSON
    body = json.dumps({"queries": [query], "top_k": 1}).encode()
    request = urllib.request.Request(
        f"{address}/search", data=body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


def wait_for_hit(address: str, query: str) -> Any:  # noqa: ANN401 - JSON
    """Search until there is a hit: a server looks for a new publication every `FRESH_SECONDS`."""
    for _ in range(600):
        if hits := ask(address, query)["results"][0]["data"]:
            return hits[0]
        time.sleep(FRESH_SECONDS / 5)
    raise AssertionError(f"{address} finds nothing for {query!r}")


def test_published_searched_by_url_changed_and_published_again(home: Home) -> None:
    report = json.loads(home.vrag("index", "publish", URL, "--json").out)
    assert (report["number"], report["fresh"]) == (1, True)
    found = json.loads(home.vrag("search", "passengers", "--collection", URL, "--json").out)
    assert [hit["document_name"] for hit in found["hits"]] == ["notes.md"]
    (home.path / "notes.md").write_text("# Ferry\n\nThe ferry burnt.\n")
    home.vrag("index", "add", "notes.md")
    told = home.vrag("index", "publish", URL, "--prune", "--keep", "0")
    assert "Published 2" in told.out
    assert "deleted" in told.out
    found = json.loads(home.vrag("search", "burnt", "--collection", URL, "--json").out)
    assert len(found["hits"]) == 1
    assert "Nothing has changed" in home.vrag("index", "publish", URL).out
    assert URL in home.vrag("index", "status", "--collection", URL).out


def test_adding_to_what_is_published_is_refused_with_the_way_out(home: Home) -> None:
    home.vrag("index", "publish", URL)
    (home.path / "more.md").write_text("more")
    done = home.vrag("index", "add", "more.md", "--collection", URL)
    assert done.status == 1
    assert "read-only" in done.err
    assert "vrag index publish" in done.err


@pytest.mark.parametrize("address", ["s3://nowhere/x", "qdrant://127.0.0.1:9/x", "nonsense"])
def test_where_nothing_can_be_published_it_says_so(address: str, home: Home) -> None:
    done = home.vrag("index", "publish", address)
    assert done.status == 1
    assert done.err.strip()


@pytest.mark.slow
def test_a_cluster_indexes_and_prints_nothing_of_its_own(home: Home) -> None:
    (home.path / "more.md").write_text("# Prices\n\nA ticket costs 12 crowns.\n")
    done = home.start("index", "add", "more.md", "--engine", "ray", "--json")
    assert json.loads(done.out)["added"] == 1
    assert "ray" not in done.err.casefold()
    assert "ticket" in home.vrag("search", "ticket").out


@pytest.mark.slow
def test_two_servers_over_the_storage_follow_what_is_published(home: Home) -> None:
    home.vrag("index", "publish", URL)
    servers = [home.serve() for _ in range(2)]
    try:
        for _, address in servers:
            (result,) = ask(address, "passengers")["results"]
            assert result["data"][0]["document"]
        (home.path / "notes.md").write_text("# Ferry\n\nThe ferry burnt.\n")
        home.vrag("index", "add", "notes.md")
        home.vrag("index", "publish", URL)
        for _, address in servers:
            assert "burnt" in wait_for_hit(address, "burnt")["content"]
    finally:
        for server, _ in servers:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=120)
