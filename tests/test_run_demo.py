"""`run_demo.sh vrag` in a real shell, with stand-ins for vLLM and for the tool that lists GPUs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.slow


ROOT = Path(__file__).parents[1]
QUESTION = "How many passengers travelled on the line from Orla to Saltby in 2024?"
NAME = "Qwen/Qwen2.5-VL-7B-Instruct"
REPLY = "<think>I read it.</think>\n<answer>The stand-in says seven</answer>"
VLLM = """#!{python}
import json, os, pathlib, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer

here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
(here / "pid.new").write_text(str(os.getpid()))
(here / "pid.new").replace(here / "pid")
mode = os.environ.get("FAKE_VLLM", "")
print("Loading weights", flush=True)
if mode == "fails":
    sys.exit("CUDA out of memory")
if mode == "loads":
    time.sleep(600)


class Handler(BaseHTTPRequestHandler):
    def say(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.say({{"object": "list", "data": [{{"id": {name!r}, "object": "model"}}]}})

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        message = {{"role": "assistant", "content": {reply!r}}}
        choice = {{"index": 0, "message": message, "finish_reason": "stop"}}
        self.say({{"id": "1", "object": "chat.completion", "model": {name!r}, "choices": [choice]}})

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", int(os.environ["MODEL_PORT"])), Handler)
print("Listening", flush=True)
server.serve_forever()
"""


class Clone:
    """A clone whose environment is set up, and a folder of programs before all others."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.home = home
        self.programs = folder / "programs"
        self.programs.mkdir()
        shutil.copy(ROOT / "run_demo.sh", folder)
        (folder / "tools").mkdir()
        shutil.copy(ROOT / "tools" / "demo_agent.py", folder / "tools")
        (folder / ".venv" / "bin").mkdir(parents=True)
        (folder / ".venv" / "dev").touch()
        self.write(folder / ".venv" / "bin" / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        self.write(folder / ".venv" / "bin" / "vrag", f'#!/bin/sh\nexec {sys.executable} -m vrag "$@"\n')
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    @staticmethod
    def write(path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def with_gpu(self, mib: int | str = 81920) -> Clone:
        self.write(self.programs / "nvidia-smi", f"#!/bin/sh\necho '{mib}'\n")
        return self

    def with_vllm(self) -> Clone:
        text = VLLM.format(python=sys.executable, name=NAME, reply=REPLY)
        self.write(self.programs / "vllm", text)
        return self

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("VRAG_", "DASHSCOPE"))
        }
        return {
            **kept,
            "PATH": f"{self.programs}:/usr/bin:/bin",
            "PYTHON": sys.executable,
            "HOME": str(self.home),
            "XDG_DATA_HOME": str(self.home / "data"),
            "MODEL_PORT": str(self.port),
            "VRAG_OCR": "false",
        }

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["./run_demo.sh", *arguments],
            cwd=self.folder,
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        script = self.start(*arguments, **environment)
        said, noted = script.communicate(timeout=300)
        return script.returncode, said, noted

    def vllm_lives(self) -> bool:
        pid = int((self.programs / "pid").read_text())
        stat = Path(f"/proc/{pid}/stat")
        return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the sample documents are indexed, once for all tests."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def clone(tmp_path: Path, home: Path) -> Clone:
    return Clone(tmp_path, home)


def test_vllm_serves_the_model_while_the_question_is_answered(clone: Clone) -> None:
    status, said, noted = clone.with_gpu().with_vllm().run("vrag", QUESTION)

    assert (status, "The stand-in says seven" in said) == (0, True), said + noted
    assert "autumncc/Qwen2.5-VL-7B-VRAG" in noted
    assert "about 17 GB" in noted.split("Waiting")[0]
    (call,) = (clone.programs / "calls").read_text().splitlines()
    assert '["serve", "autumncc/Qwen2.5-VL-7B-VRAG"' in call
    assert '"--limit-mm-per-prompt", "{\\"image\\": 12}"' in call
    assert not clone.vllm_lives()


@pytest.mark.parametrize(
    ("gpu", "why"),
    [(None, "there is no NVIDIA GPU"), (8192, "no GPU has 20000 MiB of memory: 8192 MiB")],
)
def test_without_a_gpu_that_holds_the_model_the_reader_answers(
    clone: Clone, gpu: int | None, why: str
) -> None:
    if gpu:
        clone.with_gpu(gpu)
    status, said, noted = clone.with_vllm().run("vrag", QUESTION)

    assert (status, "86,040" in said) == (0, True), said + noted
    assert f"vLLM is not started: {why}" in noted
    assert "questions are answered without a model" in noted
    assert not (clone.programs / "calls").exists()


@pytest.mark.parametrize("memory", [81920, "[N/A]"])
def test_without_vllm_it_says_how_to_get_it(clone: Clone, memory: int | str) -> None:
    """A GPU that shares the machine's memory does not say how much it has."""
    _, said, noted = clone.with_gpu(memory).run("vrag", QUESTION)

    assert "86,040" in said
    assert "pip install vllm" in noted


@pytest.mark.parametrize("place", ["variable", "file"])
def test_a_model_that_is_named_outweighs_vllm(clone: Clone, place: str) -> None:
    named = {"VRAG_MODEL": "local:/missing"} if place == "variable" else {}
    if place == "file":
        (clone.folder / "vrag.toml").write_text('model = "local:/missing"\n')
    status, _, noted = clone.with_gpu().with_vllm().run("vrag", QUESTION, **named)

    assert status != 0
    assert "No model is set" not in noted
    assert "vLLM" not in noted
    assert not (clone.programs / "calls").exists()


@pytest.mark.slow
def test_a_server_that_has_the_model_already_is_used_and_left_alone(clone: Clone) -> None:
    clone.with_vllm()
    with subprocess.Popen([clone.programs / "vllm"], env=clone.environment, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert any(b"Listening" in line for line in server.stdout)
        _, said, noted = clone.run("vrag", QUESTION)
        alive = server.poll() is None
        server.terminate()

    assert "The stand-in says seven" in said, noted
    assert "is used" in noted
    assert alive
    assert len((clone.programs / "calls").read_text().splitlines()) == 1


@pytest.mark.smoke
def test_the_graph_agent_answers_without_a_model_and_says_so(clone: Clone) -> None:
    status, said, noted = clone.with_gpu().with_vllm().run("vimrag", QUESTION)

    assert (status, "86,040" in said) == (0, True), said + noted
    assert "questions are answered without a model" in noted
    assert not (clone.programs / "calls").exists()


def test_search_answers_until_ctrl_c(clone: Clone) -> None:
    script = clone.start("search", "--port", "0")
    assert script.stdout is not None
    address = next(found[0] for line in script.stdout if (found := re.search(r"http://\S+/search", line)))
    body = {"queries": ["shore power"], "top_k": 1}
    (result,) = httpx.post(address, json=body, trust_env=False, timeout=120).json()["results"]
    script.send_signal(signal.SIGINT)
    script.communicate(timeout=60)

    assert len(result["data"]) == 1
    assert script.returncode == 0


def test_vllm_that_fails_is_shown_with_its_last_lines(clone: Clone) -> None:
    status, _, noted = clone.with_gpu().with_vllm().run("vrag", QUESTION, FAKE_VLLM="fails")

    assert status == 1
    assert "vLLM ended before it answered" in noted
    assert "CUDA out of memory" in noted


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("mode", "line"), [("loads", "Waiting for vLLM"), ("", "http://127.0.0.1:")])
def test_a_signal_stops_vllm_while_it_loads_and_while_it_serves(
    clone: Clone, sent: signal.Signals, mode: str, line: str
) -> None:
    clone.with_gpu().with_vllm()
    clone.write(clone.programs / "xdg-open", "#!/bin/sh\n")
    script = clone.start("vrag", "--no-browser", "--port", "0", FAKE_VLLM=mode)
    streams = {"loads": script.stderr, "": script.stdout}
    stream = streams[mode]
    assert stream is not None
    for text in stream:
        if line in text and (mode == "" or (clone.programs / "pid").exists()):
            break
    script.send_signal(sent)
    script.communicate(timeout=60)

    assert not clone.vllm_lives()
    assert script.returncode == (
        128 + sent if mode == "loads" else 0
    )  # a server that is told to end has not failed
