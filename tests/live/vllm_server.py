"""A vLLM server with a tiny model of random weights, in the environment of another Python."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Generator

HERE = Path(__file__).parent
MODEL, CONTEXT, IMAGES = "tiny", 16384, 40
START_SECONDS = 600.0
FLAGS = (
    f"--served-model-name {MODEL} --host 127.0.0.1 --dtype bfloat16 --enforce-eager --skip-mm-profiling "
    f"--max-model-len {CONTEXT} --max-num-seqs 16 --enable-auto-tool-choice --tool-call-parser hermes"
)


@dataclass(frozen=True, slots=True)
class VllmServer:
    """A server that answers."""

    url: str
    """With `/v1`."""
    process: subprocess.Popen[bytes]
    """The leader of a process group of its own."""
    log: Path

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to all of its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def running(self) -> float:
        """How many requests it is working on, as it says itself."""
        metrics = httpx.get(self.url.replace("/v1", "/metrics"), timeout=30).text
        lines = [line for line in metrics.splitlines() if line.startswith("vllm:num_requests_running")]
        return sum(float(line.rpartition(" ")[2]) for line in lines)


def make_checkpoint(python: str, folder: Path) -> Path:
    """The tiny model's folder."""
    model = folder / "model"
    command = [python, "-P", HERE / "tiny_vllm_model.py", model]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(python, folder)
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return model


def environment(python: str, folder: Path) -> dict[str, str]:
    """What its processes need to know; torchvision is helped where it cannot be imported as it is."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("VRAG_", "PYTHON"))}
    known |= {"OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    known |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "VLLM_LOGGING_LEVEL": "WARNING"}
    stub = folder / "stub"
    if not stub.exists():
        tried = subprocess.run(
            [python, "-c", "import torchvision"], capture_output=True, check=False, env=known
        )
        stub.mkdir()
        if tried.returncode:
            shutil.copy(HERE / "torchvision_stub.py", stub / "sitecustomize.py")
    return known | {"PYTHONPATH": str(stub)}


@contextlib.contextmanager
def serving(python: str, folder: Path, model: Path) -> Generator[VllmServer, None, None]:
    """A server from the moment when it answers; all its processes are gone afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    limits = f'--limit-mm-per-prompt={{"image":{IMAGES},"video":0}}'
    command = [
        "nice",
        "-n",
        "10",
        python,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        str(model),
        f"--port={port}",
    ]
    log = folder / f"{port}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, *FLAGS.split(), limits],
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment(python, folder),
            process_group=0,  # no session of its own: Linux gives those equal shares of the machine
        )
    server = VllmServer(f"http://127.0.0.1:{port}/v1", process, log)
    try:
        _wait_for(server)
        yield server
    finally:
        server.send(signal.SIGCONT)
        server.send(signal.SIGKILL)
        process.wait(timeout=60)
        _wait_for_the_last_of(process.pid)


def _wait_for_the_last_of(group: int) -> None:
    """Killed processes take a moment to go."""
    with contextlib.suppress(ProcessLookupError):
        for _ in range(300):
            os.killpg(group, 0)
            time.sleep(0.1)


def _wait_for(server: VllmServer) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            break
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{server.url}/models", timeout=5).is_success:
                return
        time.sleep(0.5)
    raise AssertionError(f"the server does not answer:\n{server.log.read_text(errors='replace')[-5000:]}")
