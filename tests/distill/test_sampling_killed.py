"""Sampling is killed with SIGKILL, again and again: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import sampling_process
from chat_server import ChatServer
from expert_server import FAILING, ExpertScript

from vrag.distill.sample_store import SampleOutcome, SampleStore, is_complete
from vrag.errors import RunError

pytestmark = pytest.mark.slow


HERE = Path(__file__).parent
COUNT = 12


def start(directory: Path, url: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(HERE / "sampling_process.py"), str(directory), url, str(COUNT)]
    places = os.pathsep.join([str(HERE), str(HERE.parent)])
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": places})


def test_nothing_is_lost_and_nothing_done_twice(tmp_path: Path) -> None:
    store = SampleStore(tmp_path / "samples")
    with ChatServer(ExpertScript(slow=0.02), models=None) as server:
        seen: dict[str, str] = {}

        def has_more() -> bool:
            return len(store.samples.read()) > len(seen)

        for is_time in (lambda: len(server.requests) >= 12, has_more, has_more):
            process = start(store.directory, server.url)
            deadline = time.monotonic() + 120
            while not is_time():
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            assert process.wait(10) == -signal.SIGKILL
            now = {record.uid: record.model_dump_json() for record in store.samples.read()}
            assert seen.items() <= now.items()  # what was over is as it was
            seen = now
        assert 0 < len(seen) < COUNT
        asked_before_end = len(server.requests)
        sampling_process.main(str(store.directory), server.url, str(COUNT))
        judged = Counter(
            asked.text.split('"Question ')[1].split(":")[0]
            for asked in server.requests
            if asked.body["model"] == "judge" and "cannot be used" not in asked.text
        )
        asked = len(server.requests)
        assert asked > asked_before_end
        sampling_process.main(str(store.directory), server.url, str(COUNT))
        assert len(server.requests) == asked  # all is over

    records = store.samples.read()
    assert seen.items() <= {record.uid: record.model_dump_json() for record in records}.items()
    assert Counter(record.uid for record in records) == Counter(f"case-{n}" for n in range(COUNT))
    for record in records:
        fault = int(record.uid.removeprefix("case-")) % 8
        assert record.score == (None if fault in FAILING else 2 if fault == 7 else 5)
    finished = Counter[str]()
    for line in (store.directory / "attempts.jsonl").read_text().splitlines():
        begun = json.loads(line)
        try:
            run = store.runs.read(begun["run"])
        except RunError:  # killed before its first event
            continue
        finished[begun["uid"]] += is_complete(run)
    scored = {record.uid for record in records if record.outcome is SampleOutcome.SCORED}
    assert +finished == Counter(scored)  # each answered by one run, never by two
    assert all(is_complete(store.runs.read(r.run or "")) for r in records if r.uid in scored)
    assert sum(judged.values()) <= len(scored) + 3 * 4  # at most the ones in flight at each kill
