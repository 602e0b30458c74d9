"""A trainer for tests of the study: it measures what its arm and its seed say, and learns nothing.

It keeps a checkpoint after every second step and goes on from it, and counts its starts; it may be made to
wait and to fail at a step. Like the real one it refuses a folder in which another program has put
something. So a study can be killed at any moment, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

RATES = {"grpo": 0.05, "ggpo": 0.1}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--every", type=int, required=True)
    parser.add_argument("--arm", required=True)
    parser.add_argument("--wait", type=float, default=0.0)
    parser.add_argument("--fail-at", type=int, default=-1)
    train(parser.parse_args())


def train(given: argparse.Namespace) -> None:
    out: Path = given.out
    mark = out / "checkpoint"
    if out.exists() and not (out / "settings").exists():
        sys.exit(f"{out} is there and holds no run")
    out.mkdir(exist_ok=True)
    (out / "settings").touch()
    (out / "pid").write_text(str(os.getpid()))
    with (out / "starts").open("a") as starts:
        starts.write("x")
    begin = int(mark.read_text()) if mark.exists() else 0
    file = out / "metrics.jsonl"
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= begin]
    file.write_text("".join(kept))
    with file.open("a", buffering=1) as stream:
        for step in range(begin + 1, given.steps + 1):
            if step == given.fail_at and not (out / "failed").exists():
                (out / "failed").touch()
                sys.exit(3)
            time.sleep(given.wait)
            stream.write(json.dumps({"step": step, **measured(given, step)}) + "\n")
            if step % 2 == 0:
                (out / "unfinished").write_text(str(step))
                (out / "unfinished").replace(mark)


def measured(given: argparse.Namespace, step: int) -> dict[str, float]:
    value = min(1.0, RATES[given.arm] * step + 0.01 * given.seed)
    return {"reward": value} | ({"eval/accuracy": value} if step % given.every == 0 else {})


if __name__ == "__main__":
    main()
