"""A server under load for some minutes, and then killed: are events lost, does memory grow, is anything forgotten?

    python -m benchmarks.load [--minutes 5] [--streams 200] [--searches 2000] [--json FILE]

A real `vrag serve` over the sample corpus, a real model server over HTTP whose replies are scripted, and
the clients are three processes on one machine. Each stream follows a run of its own: the model thinks one
piece a second, searches once, and answers at the end of the time; so the server holds as many calls to a
model and writes as many files. Every tenth stream hangs up in the middle and resumes by `Last-Event-ID`.
Meanwhile searches go on at an even pace. Delay is from the time that an event bears, which is before it is
written to disk, to its arrival; both by the clock of this machine. A search is timed from its request to
the end of its response, over a few connections that stay open.

Then further runs begin, the server gets SIGKILL in their middle, and starts again over the same files:
finished runs must be there letter by letter, and the others be marked as interrupted, with every event that a
client had seen.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np

from tests.chat_server import Asked, ChatServer, Say
from vrag.samples import corpus_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Sequence

ROOT = Path(__file__).resolve().parents[1]
FIRST_TICKS = 5
"""Seconds of thinking before the search."""
OPENING, SEARCHERS = 10.0, 4
"""Seconds over which runs begin; connections that search."""
RESUMING = 10
"""Every so manieth stream hangs up once."""
KILLED, KILLED_AFTER = 50, 6.0
"""Runs under way when the server is killed, and for how many seconds."""
QUERIES = ("ferry passengers", "shore power", "annual report", "harbour", "return ticket", "crew", "glacier")


@dataclass
class Stream:
    """What one client saw of one run."""

    run: str = ""
    events: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    """Of all events as they came."""
    delays: list[float] = field(default_factory=list[float])
    """Seconds, of events that happened while it was connected."""
    faults: list[str] = field(default_factory=list[str])
    ended: str = ""
    stop_reason: str = ""

    def take(self, id: int, data: str, connected: float) -> None:
        """One event."""
        if id != self.events:
            self.faults.append(f"event {id} came where {self.events} was due")
        event = json.loads(data)
        self.events = id + 1
        self.digest.update(data.encode())
        self.stop_reason = event.get("stop_reason", "")
        if event["ts"] >= connected:
            self.delays.append(time.time() - event["ts"])


@dataclass(frozen=True)
class Sample:
    """What a process takes."""

    seconds: float
    """Since the load began."""
    rss_mib: float
    files: int
    threads: int
    cpu: float
    """Seconds of processor time so far."""

    @classmethod
    def of(cls, pid: int, seconds: float) -> Sample:
        """A look into /proc."""
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        told = dict(re.findall(r"^(VmRSS|Threads):\s+(\d+)", status, re.MULTILINE))
        times = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        cpu = (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return cls(round(seconds, 1), int(told["VmRSS"]) / 1024, files, int(told["Threads"]), cpu)


def main() -> int:
    """Runs the study; 1 when anything was lost or failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--searches", type=int, default=2000)
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--model", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.model:
        return serve_model()
    with tempfile.TemporaryDirectory() as folder, model_server() as url:
        figures = asyncio.run(study(Path(folder), url, asked.minutes * 60, asked.streams, asked.searches))
    show(figures)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")
    return 1 if figures["faults"] else 0


async def study(folder: Path, model: str, seconds: float, streams: int, searches: int) -> dict[str, Any]:
    """All figures."""
    index(folder)
    with server(folder, model, streams) as (url, process):
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            figures, seen = await loaded(client, process.pid, seconds, streams, searches)
            cut = await killed(client, process)
    with server(folder, model, streams) as (url, _):
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            figures |= await checked(client, seen, cut)
    figures["faults"] += log_faults(folder)
    return figures


# The load.


async def loaded(
    client: httpx.AsyncClient, pid: int, seconds: float, count: int, searches: int
) -> tuple[dict[str, Any], list[Stream]]:
    """The server under load."""
    began = time.monotonic()
    samples: list[Sample] = [Sample.of(pid, 0.0)]
    opening = min(OPENING, seconds / 3)
    following = [
        asyncio.create_task(
            followed(
                client,
                f"Load {number}, ticks={seconds - opening:.0f}",
                delay=opening * number / count,
                hang_up=seconds / 2 if number % RESUMING == 0 else None,
            )
        )
        for number in range(count)
    ]
    sampling = asyncio.create_task(sampled(pid, began, samples))
    times, errors = await searching(client, searches, opening, seconds - opening)
    seen = await asyncio.gather(*following)
    sampling.cancel()
    took = time.monotonic() - began
    samples.append(Sample.of(pid, took))
    faults = [f"{stream.run}: {fault}" for stream in seen for fault in stream.faults]
    faults += [
        f"{stream.run}: ended {stream.ended!r}, {stream.stop_reason!r}"
        for stream in seen
        if (stream.ended, stream.stop_reason) != ("finished", "answered")
    ]
    delays = [delay for stream in seen for delay in stream.delays]
    return {
        "streams": count,
        "seconds": round(took, 1),
        "events": sum(stream.events for stream in seen),
        "events_per_stream_and_second": round(sum(s.events for s in seen) / count / (took - opening), 2),
        "resumed": sum(number % RESUMING == 0 for number in range(count)),
        "event_ms": percentiles(delays),
        "searches": len(times),
        "search_ms": percentiles(times),
        "samples": [asdict(sample) for sample in samples],
        "cpu_share": round((samples[-1].cpu - samples[0].cpu) / took, 3),
        "faults": faults + errors,
    }, list(seen)


async def followed(
    client: httpx.AsyncClient, question: str, *, delay: float = 0.0, hang_up: float | None = None
) -> Stream:
    """One run and its stream, from the question to the end.

    Args:
        client: Of the server.
        question: Says how long the model thinks.
        delay: Seconds before it is asked.
        hang_up: Seconds after which the connection is cut once, and the stream resumed.
    """
    await asyncio.sleep(delay)
    stream = Stream()
    try:
        response = await client.post("/runs", json={"question": question})
        if response.status_code != 201:
            stream.faults.append(f"POST /runs: {response.status_code} {response.text[:200]}")
            return stream
        stream.run = response.json()["id"]
        if hang_up is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(hang_up):
                    await follow(client, stream)
        if not stream.ended:
            await follow(client, stream)
    except OSError as error:  # the server was killed
        stream.faults.append(repr(error))
    return stream


async def follow(client: httpx.AsyncClient, stream: Stream) -> None:
    """Follows a stream from where it is, over a bare socket: clients share two cores with the server."""
    host, port = client.base_url.host, client.base_url.port
    assert port is not None
    reader, writer = await asyncio.open_connection(host, port)
    connected = time.time()
    resume = f"Last-Event-ID: {stream.events - 1}\r\n" if stream.events else ""
    writer.write(f"GET /runs/{stream.run}/events HTTP/1.1\r\nHost: {host}:{port}\r\n{resume}\r\n".encode())
    try:
        async for fields in frames(reader):
            if fields.get("event") == "end":
                stream.ended = json.loads(fields["data"])["state"]
                return
            if "id" in fields:
                stream.take(int(fields["id"]), fields["data"], connected)
        stream.faults.append("the stream broke off")
    finally:
        writer.close()


async def frames(reader: asyncio.StreamReader) -> AsyncGenerator[dict[str, str], None]:
    """The frames of an event stream that comes in chunks; nothing more when it breaks off."""
    left = b""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise OSError(head.split(b"\r\n", 1)[0].decode())
        while size := int(await reader.readuntil(b"\r\n"), 16):
            left += (await reader.readexactly(size + 2))[:-2]
            *whole, left = left.split(b"\n\n")
            for frame in whole:
                lines = (line.partition(": ") for line in frame.decode().split("\n"))
                yield {name: value for name, _, value in lines if name}
    except asyncio.IncompleteReadError:
        return


async def searching(
    client: httpx.AsyncClient, count: int, start: float, seconds: float
) -> tuple[list[float], list[str]]:
    """Searches at an even pace; their times in seconds, and what failed."""
    times: list[float] = []
    errors: list[str] = []
    began = time.monotonic() + start
    numbers = iter(range(count))

    async def searcher() -> None:
        for number in numbers:
            await asyncio.sleep(max(0.0, began + number * seconds / count - time.monotonic()))
            asked = time.perf_counter()
            body = {"queries": [f"{QUERIES[number % len(QUERIES)]} {number}"], "top_k": 3}
            response = await client.post("/search", json=body)
            times.append(time.perf_counter() - asked)
            if response.status_code != 200 or not response.json()["results"][0]["data"]:
                errors.append(f"POST /search: {response.status_code} {response.text[:200]}")

    await asyncio.gather(*(searcher() for _ in range(SEARCHERS)))
    return times, errors


async def sampled(pid: int, began: float, samples: list[Sample]) -> None:
    """Looks at the server every ten seconds."""
    while True:
        await asyncio.sleep(10)
        samples.append(Sample.of(pid, time.monotonic() - began))


# The end of a server, and the beginning of the next.


async def killed(client: httpx.AsyncClient, process: subprocess.Popen[bytes]) -> list[Stream]:
    """What clients had seen of the runs that were under way when the server was killed."""
    running = [asyncio.create_task(followed(client, f"Cut {n}, ticks=600")) for n in range(KILLED)]
    await asyncio.sleep(KILLED_AFTER)
    process.kill()
    return list(await asyncio.gather(*running))


async def checked(client: httpx.AsyncClient, seen: Sequence[Stream], cut: Sequence[Stream]) -> dict[str, Any]:
    """What the next server says of the runs of the one before."""
    faults: list[str] = []
    for stream in seen:
        again = Stream(stream.run)
        await follow(client, again)
        told = (await client.get(f"/runs/{stream.run}")).json()
        if (again.digest.digest(), again.events) != (stream.digest.digest(), stream.events):
            faults.append(f"{stream.run} is not what it was: {again.events} events, {stream.events} before")
        if (told["state"], again.ended) != ("finished", "finished"):
            faults.append(f"{stream.run}: {told['state']}, {again.ended}")
    for stream in cut:
        told = (await client.get(f"/runs/{stream.run}")).json()
        if told["state"] != "interrupted" or told["events"] < stream.events or not stream.events:
            faults.append(f"{stream.run}: {told['state']}, {told['events']} events of {stream.events}")
    states = await listed(client)
    return {
        "finished": states.count("finished"),
        "interrupted": states.count("interrupted"),
        "events_before_kill": sum(stream.events for stream in cut),
        "faults": faults,
    }


async def listed(client: httpx.AsyncClient) -> list[str]:
    """The states of all runs, page by page."""
    states: list[str] = []
    before = ""
    while True:
        page = (await client.get("/runs", params={"limit": 100, "before": before})).json()
        states += [run["state"] for run in page["runs"]]
        if not page["more"]:
            return states
        before = page["runs"][-1]["id"]


# Processes.


def index(folder: Path) -> None:
    """The sample corpus as a collection."""
    line = [sys.executable, "-m", "vrag", "index", "add", str(corpus_dir())]
    subprocess.run(line, env=environment(folder, ""), check=True, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def server(folder: Path, model: str, streams: int) -> Generator[tuple[str, subprocess.Popen[bytes]]]:
    """A server in a process of its own: its address, and the process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    most = str(streams + KILLED)
    flags = ["--port", str(port), "--logs", "json", "--runs", most, "--client-runs", most, "--drain", "2"]
    line = [sys.executable, "-m", "vrag", "serve", *flags]
    with (
        (folder / "log").open("ab") as log,
        subprocess.Popen(line, env=environment(folder, model), stderr=log, stdout=log) as process,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url, process)
            yield url, process
        finally:
            process.send_signal(signal.SIGTERM)


def environment(folder: Path, model: str) -> dict[str, str]:
    """Nothing of this machine's settings; one thread for each library."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VRAG_", "OTEL_"))}
    ours = {
        "VRAG_COLLECTION": str(folder / "collection"),
        "VRAG_CONFIG": os.devnull,
        "VRAG_MODEL": "scripted" if model else "",
        "VRAG_BASE_URL": model,
        "VRAG_MODEL_REQUESTS": "1000",
        "VRAG_OCR": "false",
        "OMP_NUM_THREADS": "1",
    }
    return kept | {name: value for name, value in ours.items() if value}


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Until it answers."""
    for _ in range(600):
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/healthz").status_code == 200:
                return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError("The server did not start.")


def log_faults(folder: Path) -> list[str]:
    """What the log calls a warning or worse."""
    lines = (folder / "log").read_text(encoding="utf-8").splitlines()
    told = [json.loads(line) for line in lines if line.startswith("{")]
    return [f"log: {line}" for line in told if line["level"] in {"warning", "error", "critical"}]


@contextlib.contextmanager
def model_server() -> Generator[str]:
    """The model in a process of its own; its base URL."""
    line = [sys.executable, "-m", "benchmarks.load", "--model"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def serve_model() -> int:
    """Serves until it is told to stop."""
    with ChatServer(thinks) as model:
        print(model.url, flush=True)
        signal.pause()
    return 0


def thinks(asked: Asked) -> Say:
    """Thinks a piece a second, as long as the question says, with one search in between."""
    match = re.search(r"ticks=(\d+)", asked.text)
    ticks = int(match[1]) if match else FIRST_TICKS
    first = min(FIRST_TICKS, ticks // 2)
    if asked.turn == 0:
        return Say("<search>ferry passengers</search>", "tick ticks " * first, piece=11, pause=1.0)
    said = "tick ticks " * max(1, ticks - first - 8)
    return Say("<answer>48,200 passengers.</answer>", said, piece=11, pause=1.0)


# What comes out.


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds."""
    if not seconds:
        return {}
    p50, p99 = np.percentile(np.array(seconds) * 1000, [50, 99])
    return {"p50": round(float(p50), 2), "p99": round(float(p99), 2), "max": round(max(seconds) * 1000, 2)}


def show(figures: dict[str, Any]) -> None:
    """Prints a table in Markdown."""
    samples = figures["samples"]
    minute = min(samples, key=lambda sample: abs(sample["seconds"] - 60))
    chosen = {
        "at the start": samples[0],
        f"after {minute['seconds']:.0f} s": minute,
        "at the end": samples[-2],
    }
    rows = [
        ("streams, each of a run of its own", f"{figures['streams']}"),
        ("seconds", f"{figures['seconds']}"),
        ("events that arrived", f"{figures['events']:,}"),
        ("of a stream, a second", f"{figures['events_per_stream_and_second']}"),
        ("streams that hung up once and resumed", f"{figures['resumed']}"),
        ("delay of an event, ms: median, p99, most", _three(figures["event_ms"])),
        ("searches", f"{figures['searches']:,}"),
        ("time of a search, ms: median, p99, most", _three(figures["search_ms"])),
        ("share of a processor", f"{figures['cpu_share']:.0%}"),
        *((f"memory {when}, MiB", f"{sample['rss_mib']:.0f}") for when, sample in chosen.items()),
        *((f"open files {when}", f"{sample['files']}") for when, sample in chosen.items()),
        ("after SIGKILL: finished runs, letter by letter", f"{figures['finished']}"),
        ("after SIGKILL: runs marked interrupted", f"{figures['interrupted']}"),
        ("lost, doubled, wrong or failed", f"{len(figures['faults'])}"),
    ]
    print("\n| | |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value} |")
    for fault in itertools.islice(figures["faults"], 20):
        print(f"- {fault}")
    print("\n" + json.dumps(figures))


def _three(figures: dict[str, float]) -> str:
    return " / ".join(f"{value:g}" for value in figures.values())


if __name__ == "__main__":
    sys.exit(main())
