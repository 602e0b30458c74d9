"""The processes of studies of load: a model server whose replies are scripted, and the server under load."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from tests.chat_server import Asked, ChatServer, Say
from vrag.samples import corpus_dir

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["Sample", "index", "log_faults", "model_server", "server"]

ROOT = Path(__file__).resolve().parents[1]
PAUSE, FIRST_TICKS = 0.95, 5
"""Seconds between pieces of a reply; pieces of a thought before the search."""
LOOK_PAUSE = 0.05
"""Seconds between the pieces of a reply that looks."""


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


def index(folder: Path) -> None:
    """The sample corpus as a collection."""
    line = [sys.executable, "-m", "vrag", "index", "add", str(corpus_dir())]
    subprocess.run(line, env=environment(folder, ""), cwd=folder, check=True, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def server(
    folder: Path, model: str, runs: int, *options: str, **variables: str
) -> Generator[tuple[str, subprocess.Popen[bytes]]]:
    """A server in a process of its own: its address, and the process.

    Args:
        folder: Has the collection, and gets the log.
        model: Base URL of the model server.
        runs: Most at one time, of all and of each client.
        options: More options of `vrag serve`.
        variables: More variables of its environment.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    most = ["--runs", str(runs), "--client-runs", str(runs)]
    flags = ["--port", str(port), "--logs", "json", "--drain", "2", *most, *options]
    line = [sys.executable, "-m", "vrag", "serve", *flags]
    with (
        (folder / "log").open("ab") as log,
        subprocess.Popen(
            line, env=environment(folder, model) | variables, cwd=folder, stderr=log, stdout=log
        ) as process,
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
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "XDG_STATE_HOME": str(folder),
        "VRAG_MODEL": "scripted" if model else "",
        "VRAG_BASE_URL": model,
        "VRAG_MODEL_REQUESTS": "1000",
        "VRAG_PROFILE": "qwen2.5-vl",
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
def model_server(script: str = "thinks") -> Generator[str]:
    """The model in a process of its own, with one of the scripts of this module; its base URL."""
    line = [sys.executable, "-m", "benchmarks.load_processes", script]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def main() -> None:
    """Is the model until it is told to stop."""
    with ChatServer({"thinks": thinks, "looks": looks}[sys.argv[1]]) as model:
        print(model.url, flush=True)
        while True:  # a study of hours must not keep the pictures of every call
            time.sleep(10)
            for asked in model.requests:
                if asked.done.is_set():
                    asked.body.clear()


def thinks(asked: Asked) -> Say:
    """Thinks as long as the question says, with one search in between.

    Some pieces of its replies are no thoughts; a pause of less than a second makes one event a second of it.
    """
    match = re.search(r"ticks=(\d+)", asked.text)
    ticks = int(match[1]) if match else FIRST_TICKS
    first = min(FIRST_TICKS, ticks // 2)
    if asked.turn == 0:
        return Say("<search>ferry passengers</search>", "tick ticks " * first, piece=11, pause=PAUSE)
    said = "tick ticks " * max(1, ticks - first - 8)
    return Say("<answer>48,200 passengers.</answer>", said, piece=11, pause=PAUSE)


def looks(asked: Asked) -> Say:
    """Searches for the question, enlarges a part of the first page, and answers; or suggests a question."""
    if "<question page=" in asked.text and (
        page := re.search(r"Page (\d+):\s+(\w[\w\s]{20,60})\b", asked.text)
    ):
        words = " ".join(page[2].split())
        return Say(f'<question page="{page[1]}">{words}?</question>', pause=LOOK_PAUSE, piece=40)
    if asked.turn == 0:
        words = " ".join(re.findall(r"\w+", asked.question.rpartition("\n")[2])[:20])
        return Say(f"<search>{words}</search>", "It needs looking up.", pause=LOOK_PAUSE)
    if asked.turn == 1 and asked.images:
        return Say("<bbox>[20, 20, 300, 200]</bbox>", "A closer look.", pause=LOOK_PAUSE)
    return Say("<answer>Forty-two.</answer>", "Seen.", pause=LOOK_PAUSE)


if __name__ == "__main__":
    main()
