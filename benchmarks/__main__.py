"""`python -m benchmarks`: every comparison of speed in one table, kept in `benchmarks/results.json`.

Studies of quality and safety are run by themselves: `benchmarks/retrieval.py`, `grounding.py`, `kills.py`.
"""

from __future__ import annotations

from benchmarks import imports, ocr, rendering
from benchmarks.table import keep, show


def main() -> None:
    """Runs them one after the other."""
    rows = [*imports.main(), *rendering.main(), *ocr.main()]
    show(rows)
    keep(rows)


if __name__ == "__main__":
    main()
