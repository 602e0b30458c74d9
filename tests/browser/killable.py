"""A server as a process of its own, so that a test can kill it: `python killable.py COLLECTION PORT`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # hosting, server_harness

from browsing import served

if __name__ == "__main__":
    with served(Path(sys.argv[1]), port=int(sys.argv[2])) as desk:
        sys.stdout.write(f"{desk.address}\n")
        sys.stdout.flush()
        sys.stdin.read()
