"""The doors of `examples/trainers`, in the real packages: ten episodes each, over scripted replies.

Set `VRAG_DOORS` to a folder with the environments `verifiers` (also of SkyRL-gym) and `trl` (also of
OpenEnv); `make test-doors` does. Real are verifiers' evaluation, SkyRL-gym's registry, OpenEnv's server
process and client, and TRL's trainer: it makes steps of GRPO with a tiny Qwen2.5-VL of random weights.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import door_pages
import httpx
import pytest
import vllm_server
from chat_server import Asked, ChatServer, Say

from vrag.cases.case_json import write_cases
from vrag.rl import Episode

DOORS = os.environ.get("VRAG_DOORS", "")
HERE = Path(__file__).parent
SECONDS = 1200
TEN = range(10)

pytestmark = pytest.mark.skipif(
    not DOORS, reason="VRAG_DOORS names no folder with the environments of `make test-doors`"
)


def python_of(name: str) -> str:
    """The Python of an environment."""
    python = Path(DOORS) / name / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{DOORS} holds no environment {name}: make test-doors DOORS={DOORS}")
    return str(python)


def environment(python: str, folder: Path) -> dict[str, str]:
    known = vllm_server.environment(python, folder)
    known["PYTHONPATH"] += os.pathsep + str(HERE)
    return known | {"HOME": str(folder), "TRL_EXPERIMENTAL_SILENCE": "1"}


def run(command: list[str], python: str, folder: Path, **more: str) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env=environment(python, folder) | more,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def job(name: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """What `door_job.py` found out."""
    python = python_of(name)
    printed = run([python, str(HERE / "door_job.py"), *arguments], python, folder)
    return json.loads(printed.strip().splitlines()[-1])


def evaluate(
    folder: Path, server: ChatServer, method: str, options: dict[str, Any], *more: str
) -> list[dict[str, Any]]:
    """The episodes of verifiers' own command."""
    python = python_of("verifiers")
    write_cases(folder / "cases.json", door_pages.cases())
    command = [str(Path(python).with_name("vf-eval")), "vrag_verifiers", "--model", "scripted"]
    command += ["--client.base-url", server.url, "--client.api-key-var", "DOOR_KEY", "--no-push", "--no-rich"]
    command += ["--env.agent.runtime.type", "subprocess", "--env.taskset.cases", "cases.json"]
    command += ["--env.taskset.options", json.dumps(options), "--env.taskset.method", method]
    run([*command, *more], python, folder, DOOR_KEY="none")
    [traces] = folder.rglob("traces.jsonl")
    return [json.loads(line) for line in traces.read_text().splitlines()]


def hashes(urls: list[str]) -> list[str]:
    return [hashlib.sha256(base64.b64decode(url.partition(",")[2])).hexdigest() for url in urls]


def check_pictures(server: ChatServer, least: int) -> None:
    """Every picture that reached the model is the page that its question is about."""
    shown = [(door_pages.number_in(asked.text), asked.images) for asked in server.requests if asked.images]
    assert len(shown) >= least
    for number, urls in shown:
        assert hashes(urls) == [door_pages.drawn_hash(number)]


def test_verifiers_plays_ten_episodes_by_its_own_evaluation(tmp_path: Path) -> None:
    def say(asked: Asked) -> Say:
        return Say(door_pages.script(door_pages.number_in(asked.text))[asked.turn])

    with ChatServer(say) as server:
        episodes = evaluate(tmp_path, server, "vrag", door_pages.OPTIONS)
        check_pictures(server, 14)
    assert len(episodes) == 10
    for episode in episodes:
        [trace] = episode["traces"]
        number = door_pages.number_in(trace["task"]["data"]["prompt"])
        assert trace["rewards"]["reward"]["score"] == pytest.approx(door_pages.reward(number))
        assert episode["ok"]
        replies = [node["message"]["content"] for node in trace["nodes"] if node["sampled"]]
        assert tuple(replies) == door_pages.script(number)


def test_verifiers_keeps_a_context_that_is_rebuilt_as_a_branch(tmp_path: Path) -> None:
    def say(asked: Asked) -> Say:
        turn = 2 if "harbour" in asked.text and not asked.turn else asked.turn
        return Say(door_pages.graph_script(door_pages.number_in(asked.text))[turn])

    with ChatServer(say) as server:
        [episode] = evaluate(tmp_path, server, "vimrag", door_pages.OPTIONS, "-n", "1")
    ours = Episode.of(door_pages.OPTIONS, agent="vimrag", images="url")
    contexts = [ours.reset(door_pages.cases()[0])]
    contexts += [ours.step(text).messages for text in door_pages.graph_script(0)[:2]]
    assert [asked.body["messages"] for asked in server.requests] == contexts
    assert [len(asked.images) for asked in server.requests] == [0, 1, 1]
    [trace] = episode["traces"]
    assert trace["rewards"]["reward"]["score"] == 1.0
    parents = {node.get("parent") for node in trace["nodes"]}
    assert len(set(range(len(trace["nodes"]))) - parents) == 2  # the context before, and the new one


def test_a_missing_reward_is_an_error_of_its_rollout_in_verifiers(tmp_path: Path) -> None:
    def say(asked: Asked) -> Say:
        return Say(door_pages.script(1)[asked.turn].replace("Birch", "Alder"))

    with ChatServer(say) as server:
        [episode] = evaluate(tmp_path, server, "vrag", door_pages.OPTIONS | door_pages.UNREACHABLE, "-n", "1")
    [trace] = episode["traces"]
    assert not episode["ok"]
    assert trace["rewards"]["reward"] is None
    assert "The reward is missing: The judge none failed" in trace["errors"][0]["message"]


def test_skyrl_gym_plays_ten_episodes(tmp_path: Path) -> None:
    found = job("verifiers", tmp_path, "skyrl")
    for number, episode in enumerate(found["episodes"]):
        *before, last = episode["rewards"]
        assert (set(before), last) == ({0.0}, pytest.approx(door_pages.reward(number)))
        assert episode["done"]
        assert episode["pictures"] == [door_pages.drawn_hash(number)]
        assert episode["roles"] == ["user", "assistant"] * len(door_pages.script(number))
        assert episode["metrics"]["missing"] == 0
    assert len(found["episodes"]) == 10
    assert (found["broken"]["reward"], found["broken"]["done"], found["missing"]) == (0.0, True, 1.0)
    assert found["broken"]["metadata"]["total"] is None


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def test_openenv_plays_ten_episodes_over_its_own_server_and_client(tmp_path: Path) -> None:
    python, port = python_of("trl"), free_port()
    command = [python, "-m", "uvicorn", "vrag_openenv:app", "--host", "127.0.0.1", "--port", str(port)]
    known = environment(python, tmp_path) | {"VRAG_EPISODE": json.dumps(door_pages.OPTIONS)}
    with (
        (tmp_path / "server.log").open("wb") as log,
        subprocess.Popen(command, env=known, cwd=tmp_path, stdout=log, stderr=log) as server,
    ):
        try:
            wait_for(f"http://127.0.0.1:{port}/health", server, tmp_path / "server.log")
            found = job("trl", tmp_path, "openenv", f"http://127.0.0.1:{port}")
        finally:
            server.terminate()
    for number, episode in enumerate(found["episodes"]):
        *before, last = episode["rewards"]
        assert (set(before), last) == ({None}, pytest.approx(door_pages.reward(number)))
        assert episode["done"]
        assert episode["pictures"] == [door_pages.drawn_hash(number)]
        assert episode["state"]["step_count"] == len(door_pages.script(number))
    assert len(found["episodes"]) == 10


def wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()[-3000:]
        try:
            if httpx.get(url, timeout=5).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    pytest.fail(f"The server did not answer: {log.read_text()[-3000:]}")


def test_trl_trains_on_ten_questions(tmp_path: Path) -> None:
    python = python_of("trl")
    model = vllm_server.make_checkpoint(python, tmp_path)
    found = job("trl", tmp_path, "trl", str(model), str(tmp_path / "out"))
    assert found["steps"] == 5
    assert found["failures"] == [0.0] * 5
    for number in TEN:
        wrong = 0.3 if number % 3 else 0.2  # the second row of a question answers wrongly
        assert found["rewards"][str(number)] == pytest.approx([door_pages.reward(number), wrong])
        assert found["pictures"][str(number)] == [found["expected"][str(number)]]
        assert found["prompts"][str(number)] == found["agent_prompts"][str(number)]
    assert len(set(found["expected"].values())) == 10
    assert found["forward"] == 5
    assert found["vision_changed"]
    assert max(found["norms"]) > 1e-3
    ends = found["ends"]
    assert (ends.pop("answered"), ends.pop("no judge")) == (1.0, None)
    assert set(ends.values()) == {0.0}
