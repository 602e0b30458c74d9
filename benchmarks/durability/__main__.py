"""`python -m benchmarks.durability STUDY`: is anything lost, doubled, stale or altered in silence?

    python -m benchmarks.durability kills --count 1000 --out kills.jsonl

Each study prints a table and exits with 1 if something is wrong. With `--out` it goes on where an earlier
run stopped. `--folder` names the folder in which it works; it is faster in memory, `/dev/shm`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.durability.faults import Faults, start_again_with_faults
from benchmarks.durability.results import Results

if TYPE_CHECKING:
    from collections.abc import Callable

COUNTS = {
    "kills": 1000,
    "full-disk": 200,
    "damage": 2000,
    "readers": 180,
    "erasing": 400,
    "backups": 100,
    "syncs": 1000,
}


def main() -> int:
    """Run a study."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.durability",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    counts = ", ".join(f"{count} of {name}" for name, count in COUNTS.items())
    parser.add_argument("study", choices=COUNTS)
    parser.add_argument("--count", type=int, help=f"number of cases; default: {counts}")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="file of results, by which a study goes on")
    parser.add_argument(
        "--folder", type=Path, help="folder in which to work; default: that of temporary files"
    )
    parser.add_argument("--only", action="append", help="name of an operation, of kills and full disks")
    given = parser.parse_args()
    start_again_with_faults(Path(tempfile.gettempdir()) / "vrag-durability-library")
    with (
        tempfile.TemporaryDirectory(prefix="vrag-durability-", dir=given.folder) as folder,
        ExitStack() as stack,
    ):
        results = Results(given.out)
        numbers = range(given.first, given.first + (given.count or COUNTS[given.study]))
        results.run(numbers, prepare_study(given, Path(folder).resolve(), stack))
    results.print_table(given.study)
    return 1 if results.wrong else 0


def prepare_study(  # noqa: PLR0911 - one for each study
    given: argparse.Namespace, scratch: Path, stack: ExitStack
) -> Callable[[int], dict[str, Any]]:
    """Return the cases of a study, by number."""
    from benchmarks.durability.backups import BackupStudy
    from benchmarks.durability.damage import DamageStudy
    from benchmarks.durability.erasing import ErasingStudy
    from benchmarks.durability.full_disk import FullDiskStudy, small_disk
    from benchmarks.durability.kills import KillStudy
    from benchmarks.durability.operations import Add, BackUp, Bench, Compact, Create, Publish, Remove, Replace
    from benchmarks.durability.readers import ReaderStudy
    from benchmarks.durability.recorded import RecordRuns, Upload
    from benchmarks.durability.syncs import SyncStudy

    bench = Bench(scratch, scratch / "disk")
    bench.disk.mkdir()
    faults = Faults(scratch, bench.disk)
    operations = (Create, Add, Replace, Remove, Compact, BackUp, Publish, RecordRuns, Upload)
    chosen = [each for each in operations if not given.only or each.name in given.only]
    match given.study:
        case "kills":
            return KillStudy(bench, faults, chosen, given.seed).case
        case "full-disk":
            is_mounted = stack.enter_context(small_disk(bench.disk))
            return FullDiskStudy(bench, faults, chosen, given.seed, is_mounted=is_mounted).case
        case "backups":
            study = BackupStudy(bench, faults, given.seed)
            stack.callback(study.close)
            return study.case
        case "syncs":
            return SyncStudy(bench, faults, given.seed).case
        case "erasing":
            return ErasingStudy(bench, faults, given.seed).case
        case "readers":
            return ReaderStudy(bench, faults, given.seed).case
        case _:
            return DamageStudy(bench, faults, given.seed).case


if __name__ == "__main__":
    sys.exit(main())
