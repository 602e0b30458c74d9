"""Does a random model learn to search and to look, whatever the seed and the machine?

`examples/learn_to_look.sh` is run with each seed under each setting of threads and kernels, which change
the last bits of every sum and so, some steps later, the whole training. A run counts if its model answers at
least 90 % of the test questions, about documents that decided nothing, only guesses them with blank pictures,
and took ten minutes of processor time at most.

`python -m benchmarks.proof OUT` writes a line for each run into `OUT/runs.jsonl`, and `OUT/report.md`. Runs
that are there are not made again. It exits with 1 if a run does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from vrag.rl.metrics import read_metrics

__all__ = ["main"]

EXAMPLE = Path(__file__).parents[1] / "examples" / "learn_to_look.sh"
MIN_RIGHT, MAX_BLANK, MAX_CPU_SECONDS = 0.9, 0.5, 600.0
"""A guess among four colours is right in a quarter of 20 questions, in more than half once in 250 times."""
SETTINGS = {
    "1 thread, all kernels": {"OMP_NUM_THREADS": "1"},
    "2 threads, AVX2 and MKL compatible": {
        "OMP_NUM_THREADS": "2",
        "OMP_WAIT_POLICY": "PASSIVE",  # threads that spin where cores are few would only heat them
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_CBWR": "COMPATIBLE",
    },
}
"""Environment variables by the name of a setting. MKL and oneDNN multiply matrices, ATen does the rest."""
COLORS = ("#2166ac", "#b2182b")
"""Of the curves of each setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRun:
    """The outcome of the example; shares are of the test questions, 0 to 1."""

    seed: int
    setting: str
    taught: int
    """Supervised steps until the gate."""
    trained: int
    """Steps of reinforcement."""
    found_untrained: float
    """Share of the pages that the model's own searches found: `seen_recall`."""
    found_before: float
    """Before reinforcement, after the demonstrations."""
    found_after: float
    right_before: float
    right_after: float
    right_blank: float
    cpu_seconds: float
    """Of the whole example in all processes."""

    @property
    def counts(self) -> bool:
        """Whether the model has learned what it should in the time that it has."""
        learned = self.right_after >= MIN_RIGHT and self.right_blank <= MAX_BLANK
        return learned and self.cpu_seconds <= MAX_CPU_SECONDS


def run_example(folder: Path, seed: int, setting: str, command: str) -> ProofRun:
    """Run the example in a folder; raise `CalledProcessError` if a command of it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **SETTINGS[setting], "SEED": str(seed), "VRAG": command}
    before = _child_seconds()
    with (folder.with_suffix(".log")).open("w") as log:
        subprocess.run([EXAMPLE, folder], env=environment, stdout=log, stderr=log, check=True)
    used = _child_seconds() - before
    found: dict[str, float] = {}
    right: dict[str, float] = {}
    for name in ("untrained", "before", "after", "blank"):
        records = [json.loads(line) for line in (folder / name / "records.jsonl").read_text().splitlines()]
        found[name] = sum(record["measures"].get("seen_recall", 0.0) for record in records) / len(records)
        right[name] = sum(record["outcome"] == "right" for record in records) / len(records)
    return ProofRun(
        seed=seed,
        setting=setting,
        taught=read_metrics(folder / "taught")[-1].step,
        trained=read_metrics(folder / "trained")[-1].step,
        found_untrained=found["untrained"],
        found_before=found["before"],
        found_after=found["after"],
        right_before=right["before"],
        right_after=right["after"],
        right_blank=right["blank"],
        cpu_seconds=used,
    )


def write_table(runs: list[ProofRun]) -> str:
    """Write the runs as a table in Markdown."""
    titles = (
        "seed",
        "setting",
        "steps taught",
        "steps trained",
        "pages found by its own searches: untrained, taught, trained",
        "right: taught, trained, blank",
        "CPU minutes",
    )
    rows = [titles, ["---"] * len(titles)]
    for run in sorted(runs, key=lambda run: (run.setting, run.seed)):
        found = f"{run.found_untrained:.0%}, {run.found_before:.0%}, {run.found_after:.0%}"
        right = f"{run.right_before:.0%}, {run.right_after:.0%}, {run.right_blank:.0%}"
        minutes = f"{run.cpu_seconds / 60:.1f}"
        rows.append([f"{run.seed}", run.setting, f"{run.taught}", f"{run.trained}", found, right, minutes])
    failed = sum(not run.counts for run in runs)
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", f"{len(runs) - failed} of {len(runs)} runs count.", ""])


def draw_curves(out: Path, runs: Sequence[ProofRun], path: Path) -> None:
    """Draw what the evaluations of all runs measured: own searches while taught, answers while trained."""
    figure: Any = Figure(figsize=(10, 3.6), layout="constrained")  # its types are incomplete
    left, right = figure.subplots(1, 2)
    left.set_title("Pages found by its own searches, held-out documents", fontsize=10)
    left.set_xlabel("supervised steps")
    right.set_title("Right answers, held-out documents", fontsize=10)
    right.set_xlabel("steps of reinforcement")
    for axes, name, measure in (
        (left, "taught", "eval/reward/retrieval"),
        (right, "trained", "eval/accuracy"),
    ):
        for run in runs:
            number = list(SETTINGS).index(run.setting)
            metrics = read_metrics(out / f"seed-{run.seed}-{number}" / name)
            points = [(line.step, line.values[measure]) for line in metrics if measure in line.values]
            axes.plot(*zip(*points, strict=True), color=COLORS[number], linewidth=1.2, alpha=0.8)
        axes.set_ylim(-0.03, 1.03)
        axes.spines[["top", "right"]].set_visible(False)
    for setting, color in zip(SETTINGS, COLORS, strict=True):
        right.plot([], [], color=color, label=setting)
    right.axhline(0.25, color="#999999", linestyle="--", linewidth=1, label="guessing")
    right.legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> int:
    """Make the runs that are missing, and report all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument(
        "--settings", type=int, nargs="+", default=list(range(len(SETTINGS))), help="By number."
    )
    parser.add_argument("--vrag", default="vrag", help="The command.")
    parser.add_argument("--figure", type=Path, help="PNG file to draw the curves into.")
    options = parser.parse_args(arguments)
    out: Path = options.out
    settings: list[int] = options.settings
    seeds: list[int] = options.seeds
    out.mkdir(parents=True, exist_ok=True)
    file = out / "runs.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    runs = [ProofRun(**json.loads(line)) for line in lines]
    made = {(run.seed, run.setting) for run in runs}
    for seed, number in [(seed, number) for seed in seeds for number in settings]:
        setting = list(SETTINGS)[number]
        if (seed, setting) not in made:
            run = run_example(out.absolute() / f"seed-{seed}-{number}", seed, setting, options.vrag)
            runs.append(run)
            with file.open("a") as stream:
                stream.write(json.dumps(asdict(run)) + "\n")
    report = write_table(runs)
    (out / "report.md").write_text(report)
    print(report)
    if options.figure is not None:
        draw_curves(out, runs, options.figure)
    return int(not all(run.counts for run in runs))


def _child_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
