"""Runs that are recorded and uploads that a server receives, as operations that are killed."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.durability.files import (
    OPTIONS,
    by_document,
    find_differences,
    read_content,
    write_image,
    write_pdf,
    write_text,
)
from benchmarks.durability.operations import DONE, Bench, Operation, find_damage
from benchmarks.durability.processes import MAX_SECONDS, compute
from vrag.agent.agent import Agent
from vrag.agent.environment import Environment
from vrag.agent.events import event_from_json
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.run_checks import check_runs
from vrag.agent.runs.run_store import RunState, RunStore
from vrag.errors import RunError
from vrag.index.collection import Collection
from vrag.index.integrity.problems import ProblemKind
from vrag.index.schema import KnownFile
from vrag.model_profiles import PROFILES
from vrag.testing import ScriptedPolicy, tiny_corpus

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.agent.events import Event

SCRIPT = (
    "<think>Look.</think><search>ferry passengers</search>",
    "<think>Closer.</think><bbox>[0, 0, 400, 60]</bbox>",
    "<think>Seen.</think><answer>48,200</answer>",
)
RUNS = tuple(f"20260101-00000{number}-000000-abcd" for number in range(1, 4))
OLD = "20250101-000000-000000-abcd"
"""A run that is there before, and deleted."""
SECRET = "Xylophonequartet"
"""Stands in all that the old run says."""


def script_run(script: tuple[str, ...], question: str) -> list[tuple[dict[str, bytes], str]]:
    """Return the events of a run as JSON, each with the files that were saved before it."""
    agent = Agent(ScriptedPolicy(script), Environment(tiny_corpus(), PROFILES["qwen2.5-vl"]), VragMethod())
    files: dict[str, bytes] = {}
    steps: list[tuple[dict[str, bytes], str]] = []
    for event in agent.stream(question, run_id="RUN", save=files.__setitem__):
        steps.append((dict(files), event.model_dump_json()))
        files.clear()
    return steps


def record_run(
    store: RunStore, run: str, steps: list[tuple[dict[str, bytes], str]], say: Callable[[str], None]
) -> None:
    """Record a run, and say each event that is on the disk."""
    with store.record(run=run) as log:
        for number, (files, text) in enumerate(steps, 1):
            for name, data in files.items():
                log.save(name, data)
            log.write(event_of(text, run))
            say(f"event {run} {number}")
    say(f"ended {run}")


def event_of(text: str, run: str) -> Event:
    """Return the event of a step."""
    return event_from_json(text.replace('"RUN"', f'"{run}"').encode())


def is_on_disk(folder: Path, words: str) -> bool:
    """Return whether words are in a byte of any file of a folder, or in the name of one."""
    needle = words.encode()
    return any(
        words in path.name or (path.is_file() and needle in path.read_bytes()) for path in folder.rglob("*")
    )


class RecordRuns(Operation):
    """Recording three runs with pictures, and deleting an older one between them."""

    name, is_repeatable = "runs", False

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._steps = compute(lambda: script_run(SCRIPT, "How many passengers?"))
        secret = compute(
            lambda: script_run(tuple(text.replace("Look", SECRET) for text in SCRIPT), f"How many {SECRET}?")
        )
        self._template = bench.scratch / "runs"
        self._count_old = len(secret)
        compute(lambda: record_run(RunStore(self._template), OLD, secret, lambda _: None))

    @property
    def directory(self) -> Path:
        """The directory of runs."""
        return self.bench.disk / "runs"

    def prepare(self) -> None:
        """Put the older run there."""
        self.bench.reset(None)
        shutil.copytree(self._template, self.directory)

    def run(self, say: Callable[[str], None]) -> None:
        """Record, delete, and record."""
        store = RunStore(self.directory)
        for run in RUNS:
            if run == RUNS[1]:
                say(f"deleting {OLD}")
                store.delete(OLD)
                say(f"deleted {OLD}")
            record_run(store, run, self._steps, say)
        say(DONE)

    def check(self, said: list[str]) -> list[str]:
        """All events that were said are there, one more at most, and none that was deleted."""
        wrong: list[str] = []
        store = RunStore(self.directory)
        ids = store.ids()
        for run in RUNS:
            events = [line for line in said if line.startswith(f"event {run}")]
            wrong += self._check_run(store, run, len(events), f"ended {run}" in said, run in ids)
        if f"deleted {OLD}" in said:
            wrong += ["the deleted run is back."] * (OLD in ids)
            wrong += ["of the deleted run something is left."] * is_on_disk(self.directory, SECRET)
        elif OLD in ids:
            wrong += ["the older run is not whole."] * (len(store.read(OLD).events) != self._count_old)
        elif f"deleting {OLD}" not in said:
            wrong.append("the older run is lost.")
        return wrong + find_run_damage(store)

    def _check_run(self, store: RunStore, run: str, count: int, has_ended: bool, is_there: bool) -> list[str]:
        if not is_there:
            return ["a run is lost."] * (count > 0)
        try:
            stored, state = store.settled(run)
        except RunError as error:
            return [error.message] * (count > 0)
        wrong: list[str] = []
        if not count <= len(stored.events) <= count + 1:
            wrong.append("events are lost." if len(stored.events) < count else "events are too many.")
        expected = [event_of(text, run) for _, text in self._steps]
        wrong += ["events differ."] * (list(stored.events) != expected[: len(stored.events)])
        wrong += ["a run that ended has no end."] * (has_ended and state is not RunState.FINISHED)
        wrong += ["a run is taken to be in progress."] * (state is RunState.RUNNING)
        files = {name: data for each, _ in self._steps[: len(stored.events)] for name, data in each.items()}
        for name, data in files.items():
            sha256, _, suffix = name.partition(".")
            with suppress(OSError):
                if stored.read_file(sha256, suffix) == data:
                    continue
            wrong.append("a file of a run is lost.")
        return wrong

    def finish(self) -> list[str]:
        """Delete what was interrupted, record again, and compare with what was recorded undisturbed."""
        store = RunStore(self.directory)
        store.sweep()
        for run in store.ids():
            if run == OLD or (row := store.row(run)) is None or row.stop_reason is None:
                store.delete(run)
        wrong = ["of the deleted run something is left."] * is_on_disk(self.directory, SECRET)
        for run in RUNS:
            if not store.has_run(run):
                record_run(store, run, self._steps, lambda _: None)
        wrong += [
            fault for run in RUNS for fault in self._check_run(store, run, len(self._steps), True, True)
        ]
        return wrong + find_run_damage(store)


def find_run_damage(store: RunStore) -> list[str]:
    """Return what is wrong with runs but for leftovers."""
    problems = check_runs(store).problems
    return [f"runs: {each.detail}" for each in problems if each.kind is not ProblemKind.LEFTOVER]


class Upload(Operation):
    """Uploads to a real server, one of which replaces another, until they can be searched."""

    name, is_repeatable = "upload", False
    _REPLACED = "replaced.txt"

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        folder = bench.scratch / "uploads"
        folder.mkdir()
        write_text(folder / "one.txt", random.Random(1))
        write_pdf(folder / "two.pdf", random.Random(2))
        write_image(folder / "three.png", random.Random(3))
        write_text(folder / self._REPLACED, random.Random(4))
        self._data = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        write_text(folder / "before.txt", random.Random(5))
        self._before = (folder / "before.txt").read_bytes()
        self._template = bench.scratch / "uploaded"
        place = bench.collection
        bench.reset(None)
        compute(lambda: Collection.create(place, OPTIONS).close())
        compute(lambda: serve(place, lambda port: send(port, {self._REPLACED: self._before}, lambda _: None)))
        shutil.copytree(place, self._template)
        self.old = compute(self._read)
        compute(lambda: serve(place, lambda port: send(port, self._data, lambda _: None)))
        self.new = compute(self._read)

    def _read(self) -> dict[str, Any]:
        """Return the content of the collection without times."""
        with closing(Collection.open(self.bench.collection)) as collection:
            content = read_content(collection)
        for name, entry in content.items():
            if isinstance(entry, KnownFile):
                content[name] = KnownFile(replace(entry.document, mtime_ns=0), entry.rows)
        return content

    def prepare(self) -> None:
        """Put the collection there with the upload that is replaced."""
        self.bench.reset(None)
        shutil.copytree(self._template, self.bench.collection)

    def run(self, say: Callable[[str], None]) -> None:
        """Upload all."""
        serve(self.bench.collection, lambda port: send(port, self._data, say))
        say(DONE)

    def check(self, said: list[str]) -> list[str]:
        """What was acknowledged is there, and what was said to be ready can be searched."""
        content = self._read()
        known, now, found = by_document(self.old), by_document(self.new), by_document(content)
        ready = {line.split()[1] for line in said if line.startswith("ready")}
        wrong = [
            f"{name} is neither as before nor as after."
            for name in now.keys() | found.keys()
            if found.get(name) not in ((now[name],) if name in ready else (known.get(name), now.get(name)))
        ]
        uploads = self.bench.collection / "uploads"
        for name, data in self._data.items():
            place = uploads / name
            stored = place.read_bytes() if place.exists() else None
            if f"stored {name}" in said and stored != data:
                wrong.append("an upload that was acknowledged is lost.")
            if stored not in (None, data, self._before):
                wrong.append("a part of an upload is there.")
        if not any(
            path.read_bytes() in (self._before, self._data[self._REPLACED]) for path in uploads.iterdir()
        ):
            wrong.append("an upload that was to be replaced is lost.")
        self._said = [line.split()[1] for line in said if line.startswith("stored")]
        return wrong + find_damage(self.bench.collection)

    def finish(self) -> list[str]:
        """Start the server again, which reads what it has, and upload the rest."""
        uploads = self.bench.collection / "uploads"
        there = {
            name
            for name, data in self._data.items()
            if (uploads / name).exists() and (uploads / name).read_bytes() == data
        }
        rest = {name: data for name, data in self._data.items() if name not in there}
        serve(
            self.bench.collection,
            lambda port: (send(port, rest, lambda _: None), wait_ready(port, self._data, lambda _: None)),
        )
        now = self._read()
        differing = find_differences(now, self.new)
        for name in differing:
            print(name, now.get(name), self.new.get(name), file=sys.stderr)
        wrong = [f"differs from a clean build: {name.split()[0]}" for name in differing]
        hidden = [
            path.name for path in uploads.iterdir() if path.name[0] == "." and not path.name.endswith(".part")
        ]
        return [
            *dict.fromkeys(wrong),
            *(["hidden files are left."] if hidden else []),
            *find_damage(self.bench.collection),
        ]


def serve(directory: Path, use: Callable[[int], object]) -> None:
    """Run `vrag serve` in a child of this process and its group, as long as it is used."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    log_file = directory.parent.parent / "server.log"
    pid = os.fork()
    if not pid:
        try:
            null = os.open(os.devnull, os.O_RDWR)
            log = os.open(log_file, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            for opened, handle in ((null, 0), (log, 1), (log, 2)):
                os.dup2(opened, handle)
            for name, folder in (
                ("DATA", "data"),
                ("CACHE", "caches"),
                ("CONFIG", "config"),
                ("STATE", "state"),
            ):
                os.environ[f"XDG_{name}_HOME"] = str(directory.parent.parent / folder)
            sys.argv = ["vrag", "serve", "--port", str(port), "--collection", str(directory)]
            from vrag.cli import main

            main()
        finally:
            os._exit(0)
    if not wait_for(port, pid):
        raise RuntimeError(f"The server does not start: {log_file.read_text().splitlines()[-3:]}")
    try:
        use(port)
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


def wait_for(port: int, pid: int) -> bool:
    """Wait until the server listens; return False if it ends."""
    end = time.monotonic() + MAX_SECONDS / 2
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        if os.waitpid(pid, os.WNOHANG)[0]:
            return False
        time.sleep(0.02)
    raise TimeoutError("The server does not listen.")


def ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
    """Return the status and the content of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=MAX_SECONDS)
    with closing(connection):
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")


def send(port: int, files: dict[str, bytes], say: Callable[[str], None]) -> None:
    """Upload files, wait until all are ready, and say so."""
    for name, data in files.items():
        status, content = ask(port, "PUT", f"/collections/collection/documents/{name}", data)
        if status not in (200, 202):
            raise RuntimeError(f"{status}: {content}")
        say(f"stored {name}")
    wait_ready(port, files, say)


def wait_ready(port: int, files: dict[str, bytes], say: Callable[[str], None]) -> None:
    """Wait until files are ready, and say so."""
    wanted = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    end = time.monotonic() + MAX_SECONDS / 2
    while wanted and time.monotonic() < end:
        _, content = ask(port, "GET", "/collections/collection/documents")
        for document in content["documents"]:
            if document["status"] in {"ready", "partial"} and wanted.get(document["name"]) == document["id"]:
                del wanted[document["name"]]
                say(f"ready {document['name']}")
        _, content = ask(port, "GET", "/collections/collection/jobs")
        newest = {job["file"]: job for job in reversed(content["jobs"])}
        for name in wanted.keys() & newest.keys():
            if newest[name]["state"] == "failed":
                raise RuntimeError(f"{name} is not indexed: {newest[name]['message']}")
        time.sleep(0.03)
    if wanted:
        raise TimeoutError(f"{sorted(wanted)} are not ready.")
