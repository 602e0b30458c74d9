"""The results of a study: a line for each case in a file, by which a study goes on, and a table of counts."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


class Results:
    """The cases of a study that are done. Each has a number, a group, counts, and what is wrong."""

    def __init__(self, path: Path | None) -> None:
        """Read those of earlier runs from a file, to which further ones are added."""
        self._path = path
        self.cases: list[dict[str, Any]] = []
        if path is not None and path.exists():
            self.cases = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]

    def run(self, numbers: Iterable[int], case: Callable[[int], dict[str, Any]]) -> None:
        """Run those of the cases that are not done."""
        done = {facts["case"] for facts in self.cases}
        for number in numbers:
            if number not in done:
                began = time.monotonic()
                facts = {"case": number, **case(number), "seconds": round(time.monotonic() - began, 3)}
                self.add(facts)

    def add(self, facts: dict[str, Any]) -> None:
        """Add a case, and print what is wrong with it."""
        self.cases.append(facts)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(facts) + "\n")
        if facts["wrong"]:
            print(
                f"case {facts['case']} ({facts['group']}): {str(facts)[:1200]}", file=sys.stderr, flush=True
            )
        if sys.stderr.isatty():
            print(f"\r{len(self.cases)}", end="", file=sys.stderr, flush=True)

    @property
    def wrong(self) -> int:
        """Number of cases with which something is wrong."""
        return sum(bool(facts["wrong"]) for facts in self.cases)

    def print_table(self, title: str) -> None:
        """Print the sums of counts by group, and what is wrong."""
        groups: dict[str, Counter[str]] = {}
        columns: dict[str, None] = {}
        for facts in self.cases:
            row = groups.setdefault(facts["group"], Counter())
            row["cases"] += 1
            for name, value in facts["counts"].items():
                columns[name] = None
                row[name] += value
            row["wrong"] += bool(facts["wrong"])
            row["seconds"] += facts.get("seconds", 0)
        names = ["cases", *columns, "wrong", "seconds"]
        width = {name: max(len(name), 7) + 2 for name in names}
        print(f"{title:<28}" + "".join(f"{name:>{width[name]}}" for name in names))
        for group, row in (*sorted(groups.items()), ("all", sum(groups.values(), Counter[str]()))):
            values = (round(row[name]) for name in names)
            print(f"{group:<28}" + "".join(f"{v:>{width[n]}}" for n, v in zip(names, values, strict=True)))
        faults = Counter(fault for facts in self.cases for fault in facts["wrong"])
        for fault, count in faults.most_common(20):
            print(f"  {count} × {fault}")
