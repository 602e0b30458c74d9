"""`python -m benchmarks`: every comparison of speed in one table, kept in `benchmarks/results.json`.

Studies of quality, safety and size are run by themselves: `benchmarks/retrieval.py`, `grounding.py`,
`injection.py`, `kills.py`, `pooling.py`, `scale.py`, `tokens.py`.
"""

from __future__ import annotations

from benchmarks import (
    crowd,
    dense,
    evaluating,
    imports,
    maxsim,
    ocr,
    opening,
    rendering,
    rollouts,
    serving,
    turns,
)
from benchmarks.table import keep, show


def main() -> None:
    """Runs them one after the other."""
    rows = [
        *imports.main(),
        *rendering.main(),
        *ocr.main(),
        *dense.main(),
        *maxsim.main(),
        *opening.main(),
        *serving.main(),
        *turns.main(),
        *crowd.main(),
        *rollouts.main(),
        *evaluating.main(),
    ]
    show(rows)
    keep(rows)


if __name__ == "__main__":
    main()
