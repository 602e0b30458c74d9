"""`python -m benchmarks [NAME ...]`: comparisons of speed in one table.

A run of all of them is kept in `benchmarks/results.json`.

Studies of quality, safety and size are run by themselves: `benchmarks/retrieval.py`, `conflicts.py`,
`durability`, `first_word.py`, `grounding.py`, `growth.py`, `injection.py`, `load.py`, `page.py`,
`page_cost.py`, `pooling.py`, `reading.py`, `scale.py`, `soak.py`, `text_recall.py`, `tokens.py`, `trust.py`,
`verification.py`.
"""

from __future__ import annotations

import argparse

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

COMPARISONS = {
    "imports": imports.main,
    "rendering": rendering.main,
    "ocr": ocr.main,
    "dense": dense.main,
    "maxsim": maxsim.main,
    "opening": opening.main,
    "serving": serving.main,
    "turns": turns.main,
    "crowd": crowd.main,
    "rollouts": rollouts.main,
    "evaluating": evaluating.main,
}


def main() -> None:
    """Run the named comparisons, or all of them, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Compare the speed of vrag.")
    comparisons = ", ".join(COMPARISONS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {comparisons}; default: all")
    names: list[str] = parser.parse_args().names
    if unknown := set(names) - COMPARISONS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {comparisons}")
    rows = [row for name in names or COMPARISONS for row in COMPARISONS[name]()]
    show(rows)
    if not names:
        keep(rows)


if __name__ == "__main__":
    main()
