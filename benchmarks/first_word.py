"""The time from the first token of an answer to the first word that a user sees, beside other runs.

A model in a process of its own writes token by token, at the pace of a served model, and puts the time at
which it sends the first token of the answer into that token. `vrag serve` is a real process. Other runs go
on at the same time, each with somebody who follows it. The time ends when a client of
`GET /runs/{id}/events`, one of `POST /v1/chat/completions`, or the page in Chromium has the word; of the page
it is also taken at the frame that is drawn after it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import httpx

from benchmarks.load_processes import ROOT, index, server
from tests.chromium import CHROMIUM

__all__ = ["main"]

PACE = 0.04
"""Seconds between the tokens of a reply."""
THOUGHT_TOKENS, ANSWER_TOKENS = 15, 30
"""Tokens of a reply that is measured."""
OTHER_TOKENS = 400
"""Tokens of the thought and of the answer of each other run."""
_STAMP = re.compile(r"T(\d{16})")
_SENTENCE = "is when the ferry left with its passengers for the islands that year. "
_WATCH = """
() => {
  window.firstWord = new Promise((resolve) => {
    const look = () => {
      for (const part of document.querySelectorAll(".answer-text")) {
        const found = /T(\\d{16})/.exec(part.textContent);
        if (found === null) continue;
        observer.disconnect();
        const age = () => performance.timeOrigin + performance.now() - Number(found[1]) / 1000;
        const seen = age();
        requestAnimationFrame(() => requestAnimationFrame(() => resolve([seen, age()])));
        return;
      }
    };
    const observer = new MutationObserver(look);
    observer.observe(document, { subtree: true, childList: true, characterData: true });
  });
}
"""


def main() -> int:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--others", type=int, default=20, help="runs that go on at the same time")
    parser.add_argument("--times", type=int, default=30, help="questions that are measured at each place")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--model", action="store_true", help="be the model")
    asked = parser.parse_args()
    if asked.model:
        asyncio.run(write_replies())
        return 0
    with tempfile.TemporaryDirectory() as folder, model() as url:
        index(Path(folder))
        with server(Path(folder), url, asked.others + 8) as (address, process):
            figures = asyncio.run(measure(address, process.pid, asked.others, asked.times))
    for place, found in figures.items():
        print(place, found)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")
    return 0


async def measure(address: str, pid: int, others: int, times: int) -> dict[str, Any]:
    """Return the figures of each place, in milliseconds."""
    figures: dict[str, Any] = {}
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as client:
        begun = [asyncio.Event() for _ in range(others)]
        running = [asyncio.create_task(keep_asking(client, *one)) for one in enumerate(begun)]
        await asyncio.gather(*(event.wait() for event in begun))
        cpu, began = _cpu_seconds(pid), time.monotonic()
        figures["events"] = summarize([await first_event(client) for _ in range(times)])
        figures["openai"] = summarize([await first_content(client) for _ in range(times)])
        if CHROMIUM is not None:
            seen = await first_paints(address, times)
            figures["page, in the document"] = summarize([place for place, _ in seen])
            figures["page, drawn"] = summarize([drawn for _, drawn in seen])
        took = time.monotonic() - began
        figures["load"] = {
            "others": others,
            "server_cpu": round((_cpu_seconds(pid) - cpu) / took, 2),
            "load_average": os.getloadavg(),
            "cores": os.cpu_count(),
        }
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return figures


def summarize(milliseconds: list[float]) -> dict[str, float]:
    """Return the middle of some times, the value that 95 of 100 do not exceed, and the longest."""
    ordered = sorted(milliseconds)
    at = max(0, -(-len(ordered) * 95 // 100) - 1)
    figures = {"median": statistics.median(ordered), "p95": ordered[at], "longest": ordered[-1]}
    return {name: round(value, 1) for name, value in figures.items()} | {"times": len(ordered)}


async def keep_asking(client: httpx.AsyncClient, number: int, begun: asyncio.Event) -> None:
    """Ask one question after the other, and follow each to its end; set `begun` with the second reply."""
    await asyncio.sleep(number * 0.3)
    host, port = client.base_url.host, client.base_url.port
    while True:
        response = await client.post("/runs", json={"question": f"other {number}"})
        run = response.raise_for_status().json()["id"]
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(f"GET /runs/{run}/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        data = b"\n"
        while data and b"event: end" not in data:
            data = await reader.read(1 << 16)
            if b" word" in data:
                begun.set()
        writer.close()


async def first_event(client: httpx.AsyncClient) -> float:
    """Return the time until a follower of the events of a run has the first word."""
    async for event in events_of(client, "measured"):
        if event["type"] == "answer_delta" and (stamp := _STAMP.search(event["text"])) is not None:
            age = _age(stamp)
            await asyncio.sleep(PACE * ANSWER_TOKENS)
            return age
    raise RuntimeError("The run ended without its answer.")


async def events_of(client: httpx.AsyncClient, question: str) -> AsyncGenerator[dict[str, Any]]:
    """Ask a question, and yield the events of the run."""
    run = (await client.post("/runs", json={"question": question})).raise_for_status().json()["id"]
    async with client.stream("GET", f"/runs/{run}/events") as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {") and '"type"' in line:
                yield json.loads(line.removeprefix("data: "))


async def first_content(client: httpx.AsyncClient) -> float:
    """Return the time until a client of OpenAI's interface has the first word."""
    body = {"model": "vrag", "stream": True, "messages": [{"role": "user", "content": "measured"}]}
    found: float | None = None
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            stamp = _STAMP.search(line)
            if found is None and stamp is not None and '"content"' in line:
                found = _age(stamp)
    if found is None:
        raise RuntimeError("The run ended without its answer.")
    return found


async def first_paints(address: str, times: int) -> list[tuple[float, float]]:
    """Return the times until the page has the first word, and until a frame with it is drawn."""
    from playwright.async_api import async_playwright

    seen: list[tuple[float, float]] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1440, "height": 900})
        for _ in range(times):
            await page.goto(address)
            await page.fill("#ask-box", "measured")
            await page.evaluate(_WATCH)
            await page.keyboard.press("Enter")
            seen.append(tuple(await page.evaluate("window.firstWord")))
            await asyncio.sleep(PACE * ANSWER_TOKENS)
        await browser.close()
    return seen


def _age(stamp: re.Match[str]) -> float:
    """Return the milliseconds since a stamp."""
    return (time.time() - int(stamp[1]) / 1e6) * 1000


def _cpu_seconds(pid: int) -> float:
    times = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


# The model.


@contextlib.contextmanager
def model() -> Generator[str]:
    """Start the model in a process of its own; yields its base URL."""
    line = [sys.executable, "-m", "benchmarks.first_word", "--model"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def write_replies() -> None:
    """Be the model until the process is ended."""
    listening = await asyncio.start_server(_answer_requests, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1", flush=True)
    await listening.serve_forever()


async def _answer_requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of a connection: the first call of a run searches, the second answers."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
            body = (await reader.readexactly(int(length[1]) if length else 0)).decode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            is_first = '"assistant"' not in body
            is_other = re.search(r"other \d", body) is not None
            async for token in _first_reply() if is_first else _second_reply(is_other=is_other):
                await _send(writer, {"choices": [{"index": 0, "delta": {"content": token}}]})
            await _send(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            writer.write(_chunk(b"data: [DONE]\n\n") + _chunk(b""))
    writer.close()


async def _first_reply() -> AsyncGenerator[str]:
    for token in ("<think>", "Look", ".", "</think>", "<search>", "ferry", " passengers", "</search>"):
        yield token


async def _second_reply(*, is_other: bool) -> AsyncGenerator[str]:
    """Yield a thought and an answer, whose first token holds the time in microseconds."""
    yield "<think>"
    for number in range(OTHER_TOKENS if is_other else THOUGHT_TOKENS):
        await asyncio.sleep(PACE)
        yield f" word{number}"
    for token in ("</think>", "\n", "<answer>"):
        yield token
    await asyncio.sleep(PACE)
    yield f"T{time.time_ns() // 1000:016d}"
    words = _SENTENCE.split(" ")
    for number in range(OTHER_TOKENS if is_other else ANSWER_TOKENS):
        await asyncio.sleep(PACE)
        yield f" {words[number % len(words)]}"
    yield "</answer>"


async def _send(writer: asyncio.StreamWriter, chunk: dict[str, Any]) -> None:
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "scripted", **chunk}
    writer.write(_chunk(f"data: {json.dumps(chunk)}\n\n".encode()))
    await writer.drain()


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


if __name__ == "__main__":
    sys.exit(main())
