"""The demo of an agent with the first model that there is; vLLM serves one where it and a GPU are there.

`run_demo.sh` calls it in the root of a clone: `demo_agent.py vrag|vimrag [ARGUMENTS OF vrag demo]`. It is not
a part of that script, since bash may send itself SIGINT without end where one arrives while it waits.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from vrag.cli.terminal.console import print_error
from vrag.errors import SettingsError
from vrag.model_profiles import profile_of
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

NAME = "Qwen/Qwen2.5-VL-7B-Instruct"
"""What the model is served as."""
CHECKPOINT = os.environ.get("MODEL_PATH") or "autumncc/Qwen2.5-VL-7B-VRAG"
CHECKPOINT_SIZE = "about 17 GB"
MIN_GPU_MIB = 20_000
"""For its weights, and room for some pages."""
VLLM = os.environ.get("VLLM") or "vllm"
PORT = os.environ.get("MODEL_PORT") or "8002"
ADDRESS = f"http://127.0.0.1:{PORT}/v1"
LOG = Path(".venv/vllm.log")
HOSTED_MODEL = "qwen3.5-plus"
"""Asked where only `DASHSCOPE_API_KEY` is set."""
STOP_SECONDS = 20.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(agent: str, *arguments: str) -> int:
    """Run `vrag demo` with an agent; return its exit status."""
    command = [sys.executable, "-m", "vrag", "demo", "--agent", agent, *arguments]
    try:
        named = load_settings().settings.model
    except SettingsError as error:
        return print_error(error, 2)
    if agent == "vrag" and not named and not os.environ.get("VRAG_BASE_URL"):
        if NAME in served_models():
            note(f"The model server on port {PORT} is used.")
            named = use_served_model()
        elif reason := reason_against_vllm():
            note(f"vLLM is not started: {reason}.")
        else:
            with served_by_vllm():
                use_served_model()
                use_profile_of(CHECKPOINT)
                return run_in_front(command)
    if not named and os.environ.get("DASHSCOPE_API_KEY"):
        named = os.environ["VRAG_MODEL"] = HOSTED_MODEL
    if not named:
        variables = "VRAG_MODEL and VRAG_BASE_URL, or DASHSCOPE_API_KEY"
        note(f"No model is named ({variables}): questions are answered without a model.")
    os.execv(command[0], command)
    raise AssertionError("this process became another")


def note(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)


def use_served_model() -> str:
    """Have commands ask the model on the port; return its name."""
    os.environ |= {"VRAG_MODEL": NAME, "VRAG_BASE_URL": ADDRESS}
    return NAME


def use_profile_of(checkpoint: str) -> None:
    """Have commands treat the model as what the checkpoint is by its name, unless the user said otherwise."""
    profile = profile_of(checkpoint)
    if profile is not None and load_settings().settings.profile == "auto":
        os.environ["VRAG_PROFILE"] = profile.name


def served_models() -> list[str]:
    """The names of the models that are served on the port; empty where nobody answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{ADDRESS}/models", timeout=5) as answer:
            listed: Any = json.load(answer)
            return [model["id"] for model in listed["data"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def reason_against_vllm() -> str:
    """Why vLLM cannot be started here; empty where it can."""
    if not shutil.which("nvidia-smi"):
        return "there is no NVIDIA GPU (no nvidia-smi)"
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    memory = done.stdout.split()
    if done.returncode or not memory:
        return "nvidia-smi finds no GPU"
    sizes = [int(size) for size in memory if size.isdigit()]  # a GPU without memory of its own says [N/A]
    if sizes and max(sizes) < MIN_GPU_MIB:
        return f"no GPU has {MIN_GPU_MIB} MiB of memory: {' '.join(memory)} MiB"
    if not shutil.which(VLLM):
        return (
            "vLLM is not installed (in an environment of its own: pip install vllm; then VLLM=/path/to/vllm)"
        )
    return ""


@contextmanager
def served_by_vllm() -> Generator[None]:
    """Serve the model while the block runs; a signal ends the process, and vLLM with it."""
    for number in SIGNALS:
        signal.signal(number, end_by_signal)
    there = Path(CHECKPOINT).is_dir()
    download = "" if there else f" It is downloaded if it is not on this machine: {CHECKPOINT_SIZE}."
    note(f"vLLM serves {CHECKPOINT} on port {PORT}.{download}")
    command = [VLLM, "serve", CHECKPOINT, "--host", "127.0.0.1", "--port", PORT, "--served-model-name", NAME]
    command += ["--max-model-len", "32768", "--limit-mm-per-prompt", '{"image": 12}']
    with LOG.open("wb") as log:  # a process group of its own: Ctrl-C reaches it by `stop` alone
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, process_group=0
        )
    try:
        wait_for_model(server)
        yield
    finally:
        stop(server)


def end_by_signal(number: int, _: object) -> NoReturn:
    """End the process with the status of a signal."""
    sys.exit(128 + number)


def wait_for_model(server: subprocess.Popen[bytes]) -> None:
    """Wait until the model is served, and show every ten seconds how far vLLM is.

    Raises:
        SystemExit: If vLLM ends before.
    """
    for seconds in itertools.count():
        if NAME in served_models():
            return
        lines = LOG.read_text(encoding="utf-8", errors="replace").splitlines()
        if server.poll() is not None:
            note(f"vLLM ended before it answered; the last lines of {LOG}:")
            sys.exit("\n".join(lines[-20:]))
        if seconds % 10 == 0:
            note(f"Waiting for vLLM ({seconds} s): {lines[-1][:120] if lines else ''}")
        time.sleep(1)


def run_in_front(command: Sequence[str]) -> int:
    """Run a command to its end, pass signals on to it, and return its exit status as a shell has it."""
    child = subprocess.Popen(command, process_group=0)
    for number in SIGNALS:
        signal.signal(number, lambda number, _: child.send_signal(number))
    status = child.wait()
    return status if status >= 0 else 128 - status


def stop(server: subprocess.Popen[bytes]) -> None:
    """Stop vLLM with all its processes."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    note("Stopping vLLM …")
    end = time.monotonic() + STOP_SECONDS
    try:
        os.killpg(server.pid, signal.SIGTERM)
        while time.monotonic() < end:
            server.poll()  # otherwise what has ended stays a member of its group
            os.killpg(server.pid, 0)
            time.sleep(0.1)
        os.killpg(server.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
