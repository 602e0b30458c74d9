from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest
from server_harness import PacedSearcher, dial, serving

from vrag.errors import SearchError
from vrag.server.options import ServerOptions
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from vrag.types import Hit, Query


@pytest.fixture
def paced() -> Generator[PacedSearcher]:
    searcher = PacedSearcher()
    yield searcher
    searcher.go.set()


def post(address: str, query: str | list[str], top_k: int = 3) -> httpx.Response:
    return httpx.post(f"{address}/search", json={"queries": query, "top_k": top_k}, timeout=120)


def wait_for(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.005)


def waiting(address: str) -> float:
    lines = httpx.get(f"{address}/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith("vrag_search_waiting_queries ")).split()[1])


def test_requests_that_wait_together_are_searched_together(paced: PacedSearcher) -> None:
    words = ["passengers", "crowns.", "free.", "january"]
    with serving(paced) as address, ThreadPoolExecutor(20) as threads:
        first = threads.submit(post, address, "ferry")
        assert paced.began.acquire(timeout=120)
        others = [threads.submit(post, address, words[n % 4]) for n in range(16)]
        wait_for(lambda: waiting(address) == 16)
        paced.go.set()
        assert first.result().json()["results"][0]["data"][0]["document_name"] == "ferry.pdf"
        alone = {word: tiny_search(word) for word in words}
        for number, other in enumerate(others):
            assert [entry["id"] for entry in other.result().json()["results"][0]["data"]] == alone[
                words[number % 4]
            ]
    assert [len(queries) for queries, _ in paced.calls] == [1, 16]


def tiny_search(word: str) -> list[str]:
    from vrag.types import Query

    return [hit.item for hit in tiny_corpus().search([Query(word)], 3)[0]]


def test_each_top_k_has_a_call_of_its_own(paced: PacedSearcher) -> None:
    """What is found never depends on what else was asked: a searcher may rank deeper for a larger one."""
    with serving(paced) as address, ThreadPoolExecutor(20) as threads:
        threads.submit(post, address, "ferry")
        assert paced.began.acquire(timeout=120)
        asked = [threads.submit(post, address, ["ferry the", "2024"], top_k) for top_k in (1, 2, 1, 3, 2)]
        wait_for(lambda: waiting(address) == 10)
        paced.go.set()
        for top_k, answer in zip((1, 2, 1, 3, 2), asked, strict=True):
            first, second = answer.result().json()["results"]
            assert len(first["data"]) == top_k
            assert len(second["data"]) == min(top_k, 2)
    assert sorted((top_k, len(queries)) for queries, top_k in paced.calls[1:]) == [(1, 4), (2, 4), (3, 2)]


def test_a_batch_is_not_larger_than_allowed(paced: PacedSearcher) -> None:
    with serving(paced, ServerOptions(batch_queries=4)) as address, ThreadPoolExecutor(20) as threads:
        asked = [threads.submit(post, address, "ferry")]
        assert paced.began.acquire(timeout=120)
        asked += [threads.submit(post, address, ["a", "b"]) for _ in range(5)]
        asked += [threads.submit(post, address, list("abcdefgh"))]
        wait_for(lambda: waiting(address) == 18)
        paced.go.set()
        assert {answer.result().status_code for answer in asked} == {200}
    sizes = [len(queries) for queries, _ in paced.calls]
    assert sum(sizes) == 19
    assert max(sizes) == 4


def test_a_large_request_takes_turns_with_others(paced: PacedSearcher) -> None:
    large = [f"large {number}" for number in range(12)]
    with serving(paced, ServerOptions(batch_queries=4)) as address, ThreadPoolExecutor(4) as threads:
        threads.submit(post, address, "first")
        assert paced.began.acquire(timeout=120)
        long = threads.submit(post, address, ["ferry", *large[1:]])
        wait_for(lambda: waiting(address) == 12)
        short = threads.submit(post, address, "crowns.")
        wait_for(lambda: waiting(address) == 13)
        paced.go.set()
        assert short.result().json()["results"][0]["data"]
        found = [result["data"] for result in long.result().json()["results"]]
        assert [entry["id"] for entry in found[0]] == tiny_search("ferry")
        assert len(found) == 12
    assert "crowns." in paced.calls[2][0]
    asked = [query for queries, _ in paced.calls[1:] for query in queries if query != "crowns."]
    assert asked == ["ferry", *large[1:]]
    assert [len(queries) for queries, _ in paced.calls] == [1, 4, 4, 4, 1]


def test_what_is_left_of_a_request_that_was_given_up_is_not_searched(paced: PacedSearcher) -> None:
    options = ServerOptions(batch_queries=4, search_seconds=0.5)
    with serving(paced, options) as address:
        assert post(address, ["ferry"] * 40).status_code == 504
        paced.go.set()
        assert post(address, "crowns.").status_code == 200
        assert waiting(address) == 0
    assert [len(queries) for queries, _ in paced.calls] == [4, 1]


def test_what_is_left_of_a_request_that_failed_is_not_searched(paced: PacedSearcher) -> None:
    paced.fail = SearchError("A bad query.")
    paced.go.set()
    with serving(paced, ServerOptions(batch_queries=4)) as address:
        assert post(address, ["ferry"] * 40).status_code == 422
        paced.fail = None
        assert post(address, "crowns.").status_code == 200
    assert [len(queries) for queries, _ in paced.calls] == [4, 1]


def test_health_is_answered_while_a_search_blocks(paced: PacedSearcher) -> None:
    with serving(paced) as address, ThreadPoolExecutor(4) as threads:
        blocked = threads.submit(post, address, "ferry")
        assert paced.began.acquire(timeout=120)
        started = time.monotonic()
        assert httpx.get(f"{address}/healthz").json() == {"status": "ok"}
        assert time.monotonic() - started < 1
        assert not blocked.done()
        paced.go.set()
        assert blocked.result().status_code == 200


def test_pictures_are_shown_while_a_search_blocks(paced: PacedSearcher) -> None:
    with serving(paced) as address, ThreadPoolExecutor(4) as threads:
        threads.submit(post, address, "ferry")
        assert paced.began.acquire(timeout=120)
        assert httpx.get(f"{address}/items/66657272792e7064-1/image").status_code == 200
        paced.go.set()


def test_too_many_are_told_to_come_back(paced: PacedSearcher) -> None:
    with serving(paced, ServerOptions(waiting_queries=3)) as address, ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(post, address, "ferry")]
        assert paced.began.acquire(timeout=120)
        asked += [threads.submit(post, address, "ferry") for _ in range(3)]
        wait_for(lambda: waiting(address) == 3)
        refused = post(address, "ferry")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        paced.go.set()
        assert {answer.result().status_code for answer in asked} == {200}
        assert post(address, "ferry").status_code == 200


def test_a_large_request_is_taken_when_nothing_waits(paced: PacedSearcher) -> None:
    paced.go.set()
    with serving(paced, ServerOptions(waiting_queries=3)) as address:
        assert post(address, ["ferry"] * 50).status_code == 200


def test_clients_that_left_drop_out(paced: PacedSearcher) -> None:
    body = json.dumps({"queries": "left"}).encode()
    kind = "Content-Type: application/json\r\n"
    head = f"POST /search HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: {len(body)}\r\n\r\n".encode()
    with serving(paced) as address, ThreadPoolExecutor(8) as threads:
        threads.submit(post, address, "first")
        assert paced.began.acquire(timeout=120)
        leaving = [dial(address) for _ in range(5)]
        for connection in leaving:
            connection.sendall(head + body)
        wait_for(lambda: waiting(address) == 5)
        last = threads.submit(post, address, "stays")
        wait_for(lambda: waiting(address) == 6)
        for connection in leaving:
            connection.close()
        wait_for(lambda: 'status="499"} 5.0' in httpx.get(f"{address}/metrics").text)
        paced.go.set()
        assert last.result().status_code == 200
    assert [queries for queries, _ in paced.calls] == [["first"], ["stays"]]


def test_a_search_that_takes_too_long_is_given_up(paced: PacedSearcher) -> None:
    with serving(paced, ServerOptions(search_seconds=0.3)) as address:
        response = post(address, "ferry")
        assert response.status_code == 504
        assert "0.3 s" in response.json()["detail"]
        paced.go.set()
        wait_for(lambda: post(address, "ferry").status_code == 200)


def test_the_fault_of_one_is_not_that_of_those_beside_it() -> None:
    class Picky(PacedSearcher):
        def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
            found = super().search(queries, top_k)
            if any(query.text == "bad" for query in queries):
                raise SearchError("A bad query.")
            return found

    picky = Picky()
    with serving(picky) as address, ThreadPoolExecutor(8) as threads:
        threads.submit(post, address, "ferry")
        assert picky.began.acquire(timeout=120)
        asked = [threads.submit(post, address, word) for word in ("ferry", "bad", "crowns.")]
        wait_for(lambda: waiting(address) == 3)
        picky.go.set()
        assert [answer.result().status_code for answer in asked] == [200, 422, 200]


def test_what_a_search_raises_does_not_stop_the_next(paced: PacedSearcher) -> None:
    paced.go.set()
    with serving(paced) as address:
        paced.fail = MemoryError("no room")
        assert post(address, "ferry").status_code == 500
        paced.fail = None
        assert post(address, "ferry").status_code == 200


PROGRAM = """
import sys, threading, time
from vrag.server.app import create_app
from vrag.server.options import ServerOptions
from vrag.server.http.uvicorn_server import listen, run_server
from vrag.testing import MemorySearcher, tiny_corpus

class Slow(MemorySearcher):
    def search(self, queries, top_k):
        print("searching", flush=True)
        time.sleep(1.0)
        return super().search(queries, top_k)

options = ServerOptions()
listening = listen("127.0.0.1", 0)
port = listening.getsockname()[1]
app = create_app(Slow(tiny_corpus().items), options)
run_server(app, listening, options, lambda: print(port, flush=True))
print("ended", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_it_when_what_runs_is_answered(signal: str) -> None:
    from signal import Signals

    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = f"http://127.0.0.1:{int(server.stdout.readline())}"
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(post, address, "ferry")
            assert server.stdout.readline() == "searching\n"
            server.send_signal(Signals[signal])
            assert running.result().json()["results"][0]["data"]
        assert server.stdout.readline() == "ended\n"
        assert server.wait(20) == 0
        with pytest.raises(OSError, match="refused"):
            dial(address)


HANGING = PROGRAM.replace("time.sleep(1.0)", "time.sleep(100)").replace(
    "ServerOptions()", "ServerOptions(drain_seconds=2)"
)


@pytest.mark.slow
def test_a_search_that_hangs_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    from signal import SIGTERM

    log = tmp_path / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-c", HANGING], stdout=subprocess.PIPE, stderr=errors, text=True
        ) as server,
    ):
        assert server.stdout is not None
        address = f"http://127.0.0.1:{int(server.stdout.readline())}"
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(post, address, "ferry")
            assert server.stdout.readline() == "searching\n"
            told = time.monotonic()
            server.send_signal(SIGTERM)
            assert server.stdout.readline() == "ended\n"
            assert server.wait(20) == 0
            assert time.monotonic() - told < 6
            assert asked.result().status_code == 503
    assert "Traceback" not in log.read_text()


def test_an_address_in_use_is_said_so() -> None:
    from vrag.errors import SettingsError
    from vrag.server.http.uvicorn_server import listen

    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"127.0.0.1:{port}: another program listens there"):
            listen("127.0.0.1", port)


def test_an_address_that_is_none_is_said_so() -> None:
    from vrag.errors import SettingsError
    from vrag.server.http.uvicorn_server import listen

    with pytest.raises(SettingsError, match="cannot listen"):
        listen("not a host", 1)


def test_a_hundred_threads_get_their_own_answers() -> None:
    words = ["passengers", "crowns.", "free.", "january", "ice.", "report"]
    searcher = PacedSearcher()
    searcher.go.set()
    lock = threading.Lock()
    wrong: list[str] = []

    def one(address: str, number: int) -> None:
        word = words[number % len(words)]
        with httpx.Client(base_url=address) as client:
            for _ in range(5):
                found = client.post("/search", json={"queries": word}).json()["results"][0]["data"]
                if [entry["id"] for entry in found] != tiny_search(word):
                    with lock:
                        wrong.append(word)

    with serving(searcher) as address, ThreadPoolExecutor(50) as threads:
        for done in [threads.submit(one, address, number) for number in range(50)]:
            done.result()
    assert not wrong
