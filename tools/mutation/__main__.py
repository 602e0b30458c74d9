"""Measures which share of the mutants of covered code each tier of the tests finds.

Sites are drawn at random. One run of both tiers notes which tests run each of them, also in processes that
tests start. Then each of the first covered mutants is applied, and the tests that run it are tried: those of
the first tier, the likeliest and cheapest first, until one fails; those of the second only if none does.

Why not mutmut or cosmic-ray: both change files, so that one mutant runs at a time, and run the whole suite
for each, or know nothing of processes that tests start. Here an import hook applies a mutant to one run.

A statement that only a shared fixture runs counts for the test that set it up. Tests beyond the time limit
of a mutant (`--seconds` of each tier) are left out, so that they might find a mutant that survives.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tools.mutation.startup.mutants import MUTANT, STUDY, draw_sites, read_sites, write_sites
from vrag.evaluation.intervals import wilson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.mutation.startup.mutants import Site

ROOT = Path(__file__).parents[2]
STARTUP = Path(__file__).parent / "startup"
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "mutation_plugin")
COLLECTING_SECONDS = 60
"""What starting pytest and collecting some files may take on a busy machine."""
PATIENCE = 10
"""A mutant whose tests take so many times as long as without it has brought them to a halt."""
FAILED, COLLECTION_FAILED = 1, 2
"""Exit statuses of pytest when tests fail, and when their files cannot be imported."""


@dataclass(frozen=True, slots=True)
class TimedTest:
    """A test, and what it takes."""

    name: str
    tier: Literal[1, 2]
    seconds: float


@dataclass(frozen=True, slots=True)
class Record:
    """What a run of all tests has shown."""

    tests: Mapping[str, TimedTest]
    covering: Mapping[int, frozenset[str]]
    """The tests that run a site, by its number."""

    def choose(self, site: Site, tier: int, seconds: float) -> list[TimedTest]:
        """Choose the tests of a tier that run a site, those near it and the cheapest first."""
        names = self.covering.get(site.number, frozenset())
        tests = [test for name in names if (test := self.tests.get(name)) and test.tier == tier]
        tests.sort(key=lambda test: (-_nearness(site.module, test.name), test.seconds, test.name))
        chosen: list[TimedTest] = []
        for test in tests:
            seconds -= test.seconds
            if seconds >= 0:
                chosen.append(test)
        return chosen


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a mutant: the tier that found it, None if it survived, and the numbers of its tests."""

    number: int
    found_by: int | None
    tests: tuple[int, int]
    """Number of covering tests of each tier that were tried, or would have been."""


def _nearness(module: str, test: str) -> int:
    """Count the folders that the file of a test shares with a module."""
    folders = zip(module.split(".")[1:], test.partition("::")[0].split("/")[1:], strict=False)
    count = 0
    for one, other in folders:
        if one != other:
            break
        count += 1
    return count


def record(study: Path, count: int, seed: int, workers: int) -> None:
    """Draw sites and run all tests with marks."""
    for name in ("hits", "times", "code"):
        (study / name).mkdir(parents=True)
    write_sites(study, draw_sites(ROOT / "src", count, seed))
    command = [*PYTEST, "-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder"]
    subprocess.run(command, cwd=ROOT, env=_environment(study), check=False)


def read_record(study: Path) -> Record:
    """Read what `record` has written."""
    tests: dict[str, TimedTest] = {}
    for path in (study / "times").iterdir():
        for line in path.read_text(encoding="utf-8").splitlines():
            seconds, tier, name = line.split("\t", 2)
            tests[name] = TimedTest(name, 2 if tier == "2" else 1, float(seconds))
    covering: dict[int, set[str]] = defaultdict(set)
    for path in (study / "hits").iterdir():
        for line in path.read_text(encoding="utf-8").splitlines():
            number, _, name = line.partition("\t")
            covering[int(number)].add(name)
    return Record(tests, {number: frozenset(names & tests.keys()) for number, names in covering.items()})


def _environment(study: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(STARTUP), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {STUDY: str(study), "PYTHONPATH": path, "OMP_NUM_THREADS": "1"} | more


def try_tests(study: Path, site: Site, tests: Sequence[TimedTest]) -> bool:
    """Run tests with a mutant until one fails. Returns whether one has: a halt counts, too."""
    if not tests:
        return False
    names = study / f"tests-{site.number}.txt"
    names.write_text("\n".join(test.name for test in tests), encoding="utf-8")
    limit = PATIENCE * (COLLECTING_SECONDS + sum(test.seconds for test in tests))
    with subprocess.Popen(
        [*PYTEST, "-x", f"@{names}"],
        cwd=ROOT,
        env=_environment(study, **{MUTANT: str(site.number)}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return True
    if status not in {0, FAILED, COLLECTION_FAILED}:
        print(f"{site}: pytest ended with {status}", file=sys.stderr)
    return status != 0


def try_mutant(study: Path, taken: Record, site: Site, seconds: Sequence[float]) -> Trial:
    """Try the tests of the first tier, then those of the second."""
    tests = [taken.choose(site, tier, limit) for tier, limit in enumerate(seconds, 1)]
    found_by = next((tier for tier, of in enumerate(tests, 1) if try_tests(study, site, of)), None)
    return Trial(site.number, found_by, (len(tests[0]), len(tests[1])))


def run(study: Path, mutants: int, jobs: int, seconds: Sequence[float]) -> list[Trial]:
    """Try the first covered mutants that have not been tried yet; returns all trials."""
    taken, results = read_record(study), study / "trials.jsonl"
    sites = [site for site in read_sites(study) if taken.covering.get(site.number)][:mutants]
    rows = results.read_text().splitlines() if results.exists() else []
    trials = {
        row["number"]: Trial(row["number"], row["found_by"], tuple(row["tests"]))
        for row in map(json.loads, rows)
    }

    def attempt(site: Site) -> None:
        trial = try_mutant(study, taken, site, seconds)
        trials[site.number] = trial
        row = {"number": trial.number, "found_by": trial.found_by, "tests": trial.tests}
        with results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{site}: {_tell(trial)}", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(attempt, [site for site in sites if site.number not in trials]))
    return [trials[site.number] for site in sites]


def _tell(trial: Trial) -> str:
    first, second = trial.tests
    found = "survived" if trial.found_by is None else f"found by tier {trial.found_by}"
    return f"{found} ({first} tests of the first tier run it, {second} of the second)"


def make_table(sites: Sequence[Site], trials: Sequence[Trial]) -> str:
    """Write the shares with their intervals, and the mutants that the first tier does not find."""
    found = [sum(trial.found_by == tier for trial in trials) for tier in (1, 2)]
    both, names = sum(found), {site.number: str(site) for site in sites}
    lines = [
        "| tier | mutants found | of what both find | 95 % (Wilson) | of all covered | 95 % (Wilson) |",
        "|---|---|---|---|---|---|",
        *(
            f"| {name} | {number} | {_share(number, both)} | {_share(number, len(trials))} |"
            for name, number in (("first", found[0]), ("second only", found[1]), ("both", both))
        ),
    ]
    for title, tier in (("Found by the second tier only", 2), ("Survivors", None)):
        lines += ["", f"{title}:", ""]
        lines += [f"- {names[each.number]}: {_tell(each)}" for each in trials if each.found_by == tier]
    return "\n".join(lines)


def _share(number: int, of: int) -> str:
    low, high = wilson(number / of, of) if of else (0.0, 1.0)
    return f"{number / max(of, 1):.1%} | {low:.1%} to {high:.1%}"


def main() -> None:
    """Parse the command line, record, run and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build/mutation", help="what is recorded")
    parser.add_argument("--mutants", type=int, default=100, help="mutants of covered code to try")
    parser.add_argument("--sites", type=int, default=400, help="sites to draw, some of which no test runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4, help="processes that record")
    parser.add_argument("--jobs", type=int, default=2, help="mutants that are tried at once")
    parser.add_argument("--seconds", type=float, nargs=2, default=(120.0, 240.0), help="of tests, by tier")
    given = parser.parse_args()
    study: Path = given.folder.absolute()
    if not study.exists():
        record(study, given.sites, given.seed, given.workers)
    trials = run(study, given.mutants, given.jobs, given.seconds)
    print(make_table(read_sites(study), trials))


if __name__ == "__main__":
    main()
