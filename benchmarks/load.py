"""A server under load for some minutes, and then killed: is an event lost, does memory grow?

    python -m benchmarks.load [--minutes 5] [--streams 200] [--searches 2000] [--run-seconds 60] [--json FILE]

A real `vrag serve` over the sample corpus, a real model server over HTTP whose replies are scripted, and
the clients are three processes on one machine. Each client asks one question after the other and follows its
run: the model thinks one piece a second, searches once, and answers after some time; so the server holds
as many calls to a model as streams, and writes as many files. Every tenth client hangs up once in the middle
and resumes by `Last-Event-ID`.
Meanwhile searches go on at an even pace. Delay is from the time that an event bears, which is before it is
written to disk, to its arrival; both by the clock of this machine. A search is timed from the moment when
it was due to the end of its response, over a few connections that stay open.

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
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np

from benchmarks.load_processes import Sample, index, log_faults, model_server, server

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

OPENING, SEARCHERS = 10.0, 4
"""Seconds over which runs begin; connections that search."""
LEAST = 5.0
"""Seconds for which it is worth beginning another run."""
RESUMING = 10
"""Every so manieth stream hangs up once."""
KILLED, KILLED_AFTER = 50, 6.0
"""Runs under way when the server is killed, and for how many seconds."""
QUERIES = ("ferry passengers", "shore power", "annual report", "harbour", "return ticket", "crew", "glacier")


@dataclass(frozen=True)
class Load:
    """How much is asked of the server."""

    seconds: float
    streams: int
    searches: int
    run_seconds: float

    @property
    def opening(self) -> float:
        """Seconds over which the first runs begin."""
        return min(OPENING, self.seconds / 3)


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
    seconds: float = 0.0
    """From the first connection to the end."""

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

    def told(self) -> list[str]:
        """What is wrong with it."""
        end = self.ended, self.stop_reason
        wrong = [] if end == ("finished", "answered") else [f"it ended {end}"]
        return [f"{self.run}: {fault}" for fault in self.faults + wrong]


def main() -> int:
    """Runs the study; 1 when anything was lost or failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--searches", type=int, default=2000)
    parser.add_argument("--run-seconds", type=float, default=60.0, help="length of a run")
    parser.add_argument("--json", type=Path, help="file for all figures")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, model_server() as url:
        load = Load(asked.minutes * 60, asked.streams, asked.searches, asked.run_seconds)
        figures = asyncio.run(study(Path(folder), url, load))
    show(figures)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")
    return 1 if figures["faults"] else 0


async def study(folder: Path, model: str, load: Load) -> dict[str, Any]:
    """All figures."""
    index(folder)
    with server(folder, model, load.streams + KILLED) as (url, process):
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            figures, seen = await loaded(client, process.pid, load)
            cut = await killed(client, process)
    with server(folder, model, load.streams + KILLED) as (url, _):
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            figures |= await checked(client, seen, cut)
    figures["faults"] += log_faults(folder)
    return figures


# The load.


async def loaded(client: httpx.AsyncClient, pid: int, load: Load) -> tuple[dict[str, Any], list[Stream]]:
    """The server under load."""
    began = time.monotonic()
    samples: list[Sample] = [Sample.of(pid, 0.0)]
    clients = [asyncio.create_task(asking(client, load, number)) for number in range(load.streams)]
    sampling = asyncio.create_task(sampled(pid, began, samples))
    times, errors = await searching(client, load)
    seen = [stream for streams in await asyncio.gather(*clients) for stream in streams]
    sampling.cancel()
    took = time.monotonic() - began
    samples.append(Sample.of(pid, took))
    return {
        "streams": load.streams,
        "seconds": round(took, 1),
        "all_open": [load.opening, round(load.seconds - load.opening, 1)],
        "runs": len(seen),
        "events": sum(stream.events for stream in seen),
        "events_per_stream_and_second": round(sum(s.events for s in seen) / sum(s.seconds for s in seen), 3),
        "resumed": len(range(0, load.streams, RESUMING)),
        "event_ms": percentiles([delay for stream in seen for delay in stream.delays]),
        "searches": len(times),
        "search_ms": percentiles([seconds for _, seconds in times]),
        "slow_searches": [(round(due), round(seconds, 2)) for due, seconds in times if seconds > 0.5],
        "samples": [asdict(sample) for sample in samples],
        "cpu_share": round((samples[-1].cpu - samples[0].cpu) / took, 3),
        "load_average": os.getloadavg(),
        "faults": [fault for stream in seen for fault in stream.told()] + errors,
    }, seen


async def asking(client: httpx.AsyncClient, load: Load, number: int) -> list[Stream]:
    """One client: a question after the other, until the time is over."""
    end = time.monotonic() + load.seconds
    await asyncio.sleep(load.opening * number / load.streams)
    streams: list[Stream] = []
    while (left := end - time.monotonic()) > LEAST or not streams:
        ticks = min(load.run_seconds, left)
        hang_up = ticks / 2 if number % RESUMING == 0 and not streams else None
        question = f"Load {number}.{len(streams)}, ticks={ticks:.0f}"
        streams.append(await followed(client, question, hang_up=hang_up))
        if streams[-1].faults:
            break
    return streams


async def followed(client: httpx.AsyncClient, question: str, *, hang_up: float | None = None) -> Stream:
    """One run and its stream, from the question to the end.

    Args:
        client: Of the server.
        question: Says how long the model thinks.
        hang_up: Seconds after which the connection is cut once, and the stream resumed.
    """
    stream = Stream()
    try:
        response = await client.post("/runs", json={"question": question})
        if response.status_code != 201:
            stream.faults.append(f"POST /runs: {response.status_code} {response.text[:200]}")
            return stream
        stream.run, began = response.json()["id"], time.monotonic()
        if hang_up is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(hang_up):
                    await follow(client, stream)
        if not stream.ended:
            await follow(client, stream)
        stream.seconds = time.monotonic() - began
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


async def searching(client: httpx.AsyncClient, load: Load) -> tuple[list[tuple[float, float]], list[str]]:
    """Searches at an even pace: when each was due and what it took, in seconds; and what failed."""
    times: list[tuple[float, float]] = []
    errors: list[str] = []
    began = time.monotonic()
    numbers = iter(range(load.searches))

    async def searcher() -> None:
        for number in numbers:
            due = began + load.opening + number * (load.seconds - load.opening) / load.searches
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            body = {"queries": [f"{QUERIES[number % len(QUERIES)]} {number}"], "top_k": 3}
            response = await client.post("/search", json=body)
            times.append((due - began, time.monotonic() - due))
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
    moments = (0.0, 60.0, figures["all_open"][1], figures["seconds"])
    near = (min(samples, key=lambda sample: abs(sample["seconds"] - at)) for at in moments)
    chosen = {f"after {sample['seconds']:.0f} s": sample for sample in near}
    rows = [
        ("streams open at one time", f"{figures['streams']}"),
        ("runs, one stream each", f"{figures['runs']:,}"),
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
