"""A server in use for hours by many clients that do all that it offers: does it fail, slow down, or grow?

    python -m benchmarks.soak --out DIR [--minutes 120] [--clients 30] [--collection DIR --questions FILE]
    python -m benchmarks.soak_plot DIR

A real `vrag serve` with three users runs over a copy of a collection, by default of the sample documents. Its
model is a real server over HTTP whose replies are scripted; half of the questions are asked without a model.
The clients (`benchmarks/soak_clients.py`) check every answer. Every ten seconds a sample is written to
`DIR/samples.jsonl`, and every fault to `DIR/faults.jsonl`, so that a soak that is cut off leaves what it had.
At the end the server is told to stop: its exit status, its processes, its temporary files, what uploads left,
and the collection are checked, and `DIR/end.json` says what was found.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from benchmarks.load_processes import index, log_faults, model_server, server
from benchmarks.soak_clients import Client, Outcomes, User
from benchmarks.soak_samples import children_of, cpu_seconds, sample
from vrag.server.http.users import TokenFile

if TYPE_CHECKING:
    from collections.abc import Sequence

SAMPLE_SECONDS = 10.0
USERS = 3
MAX_RUNS_AT_ONCE = 64
STOP_SECONDS = 60.0
QUESTIONS = Path(__file__).parents[1] / "src/vrag/samples/questions.json"


@dataclass(frozen=True)
class SoakOptions:
    """How long, by how many, and with what."""

    seconds: float
    clients: int
    think: float
    """Mean pause of a client between two things that it does, in seconds."""
    out: Path
    collection: Path | None
    """Copied; the sample documents if None."""
    questions: Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the soak; 1 when anything failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--clients", type=int, default=30)
    parser.add_argument("--think", type=float, default=8.0, help="mean pause of a client, in seconds")
    parser.add_argument("--out", type=Path, required=True, help="folder of samples and faults")
    parser.add_argument("--collection", type=Path, help="a collection; it is copied")
    parser.add_argument(
        "--questions", type=Path, default=QUESTIONS, help="questions, as those of the samples"
    )
    asked = parser.parse_args(arguments)
    options = SoakOptions(
        asked.minutes * 60, asked.clients, asked.think, asked.out, asked.collection, asked.questions
    )
    if (options.out / "samples.jsonl").exists():
        parser.error(f"{options.out} has a soak already; name another folder")
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.out) as folder, model_server("looks") as model:
        end = soak(Path(folder), model, options)
    (options.out / "end.json").write_text(json.dumps(end, indent=2), encoding="utf-8")
    print(json.dumps(end, indent=2))
    return 1 if end["faults"] else 0


def soak(folder: Path, model: str, options: SoakOptions) -> dict[str, Any]:
    """Load the server, stop it, and return what was found at the end."""
    temporary = folder / "tmp"
    temporary.mkdir()
    if options.collection is None:
        index(folder)
    else:
        shutil.copytree(options.collection, folder / "collection")
    users = make_users(folder)
    tokens = ["--tokens", str(folder / "tokens.toml")]
    with server(folder, model, MAX_RUNS_AT_ONCE, *tokens, TMPDIR=str(temporary)) as (url, process):
        figures = asyncio.run(loaded(folder, url, process.pid, users, options))
        figures |= stopped(process)
    figures["temporary_files"] = [str(path.relative_to(temporary)) for path in temporary.rglob("*")]
    verified = vrag(folder, "index", "verify")
    figures |= {"verify_status": verified.returncode, "verify": verified.stdout[-1000:]}
    logged = log_faults(folder)
    figures["warnings"] = [line for line in logged if "'level': 'warning'" in line]
    shutil.copy(folder / "log", options.out / "server.log")
    figures["faults"] = [
        *(f"{count} × {fault}" for fault, count in figures["errors"].items()),
        *figures["left"],
        *(f"a temporary file is left: {name}" for name in figures["temporary_files"]),
        *([f"exit status {figures['exit_status']}"] if figures["exit_status"] else []),
        *(["a process is left"] if figures["processes_left"] else []),
        *([f"verify: exit status {verified.returncode}"] if verified.returncode else []),
        *(line for line in logged if line not in figures["warnings"]),
    ]
    return figures


def make_users(folder: Path) -> list[User]:
    """Write the file of users."""
    file = TokenFile(folder / "tokens.toml")
    return [User(name, file.add(name)) for name in (f"user{number}" for number in range(USERS))]


async def loaded(
    folder: Path, url: str, pid: int, users: Sequence[User], options: SoakOptions
) -> dict[str, Any]:
    """Let the clients work until the time is over; what is left in the collection then."""
    examples = json.loads(options.questions.read_text(encoding="utf-8"))["examples"]
    questions = [example["query"] for example in examples]
    outcomes = Outcomes()
    clients = [
        Client(url, number, users[number % len(users)], "collection", questions, outcomes)
        for number in range(options.clients)
    ]
    for client in clients:
        others = [one for one in clients if one.user != client.user]
        client.strangers = others[0].runs if others else []
    began = time.monotonic()
    headers = {"Authorization": f"Bearer {users[0].token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as http:
        before = (await http.get("/collections/collection/documents")).json()["total"]
        sampling = asyncio.create_task(sampled(folder, pid, outcomes, options.out, began))
        await asyncio.gather(*(client.go_on(began + options.seconds, options.think) for client in clients))
        sampling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sampling
        left = await leftovers(http, before)
    totals = write_sample(folder, pid, outcomes, options.out, began)
    figures = summed(options.out)
    return figures | {"left": left, "cpu_of_clients": cpu_seconds(os.getpid()), "last": totals["server"]}


async def leftovers(http: httpx.AsyncClient, before: int) -> list[str]:
    """Say what clients left in the collection that should be gone, and which jobs and runs have no end."""
    found: list[str] = []
    documents = (await http.get("/collections/collection/documents")).json()
    if documents["total"] != before:
        names = [document["name"] for document in documents["documents"]]
        found.append(f"{documents['total']} documents, {before} before: {names}")
    if jobs := (await http.get("/collections/collection/jobs", params={"open": "true"})).json()["jobs"]:
        found.append(f"open jobs: {jobs}")
    collections = (await http.get("/collections")).json()["collections"]
    if len(collections) != 1:
        found.append(f"collections: {[one['name'] for one in collections]}")
    return found


async def sampled(folder: Path, pid: int, outcomes: Outcomes, out: Path, began: float) -> None:
    """Take a sample every ten seconds."""
    while True:
        await asyncio.sleep(SAMPLE_SECONDS)
        write_sample(folder, pid, outcomes, out, began)


def write_sample(folder: Path, pid: int, outcomes: Outcomes, out: Path, began: float) -> dict[str, Any]:
    """Take a sample, and write it and the faults at once."""
    seen = outcomes.take()
    collection = folder / "collection"
    folders = {
        "collection": collection,
        "blobs": collection / "blobs",
        "runs": collection / "runs",
        "temporary": folder / "tmp",
    }
    taken = sample(time.monotonic() - began, pid, seen, folders)
    append(out / "samples.jsonl", [taken])
    append(out / "faults.jsonl", seen.faults)
    return taken


def append(path: Path, records: Sequence[dict[str, Any]]) -> None:
    """Append records to a JSON-lines file."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def summed(out: Path) -> dict[str, Any]:
    """Add up the samples."""
    samples = [json.loads(line) for line in (out / "samples.jsonl").read_text(encoding="utf-8").splitlines()]
    errors: dict[str, int] = {}
    kinds: dict[str, int] = {}
    for one in samples:
        for kind, count in one["errors"].items():
            errors[kind] = errors.get(kind, 0) + count
        for kind, figures in one["latency_ms"].items():
            kinds[kind] = kinds.get(kind, 0) + figures["n"]
    return {
        "seconds": samples[-1]["seconds"],
        "requests": sum(one["requests"] for one in samples),
        "errors": errors,
        "requests_by_kind": dict(sorted(kinds.items())),
    }


def stopped(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Tell the server to stop; its exit status, and which of its processes are left."""
    processes = children_of(process.pid)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    try:
        status = process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        status = -9
    took = time.monotonic() - began
    time.sleep(1)
    left = [pid for pid in processes if Path(f"/proc/{pid}").exists()]
    return {"exit_status": status, "seconds_to_stop": round(took, 2), "processes_left": left}


def vrag(folder: Path, *line: str) -> subprocess.CompletedProcess[str]:
    """Run a command of vrag on the collection."""
    command = [sys.executable, "-m", "vrag", *line, "--collection", str(folder / "collection")]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)


if __name__ == "__main__":
    sys.exit(main())
