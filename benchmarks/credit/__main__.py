"""`python -m benchmarks.credit OUT [--setting FILE]`: runs the study, or what of it is left, and reports.

It may be stopped at any moment; the same command goes on. Exit status: 0 all runs are finished, 1 some
are not, 2 wrong use, 130 stopped.
"""

from __future__ import annotations

import argparse
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.credit.report import REPORT, write_report
from benchmarks.credit.runner import Study
from benchmarks.credit.setting import frozen, read_setting
from vrag.errors import VragError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.credit.setting import Setting

SHIPPED = Path(__file__).with_name("setting.toml")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs and reports; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.credit", description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the study")
    parser.add_argument("--setting", type=Path, help="TOML or JSON; the frozen one, or the one shipped")
    parser.add_argument("--parallel", type=int, help="runs at once, in place of what the setting says")
    parser.add_argument("--report", action="store_true", help="only report what there is")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if not given.report:
            Study(given.out, _setting(given.out, given.setting, given.parallel), _tell).run()
        results = write_report(given.out)
    except VragError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped. The same command goes on from there.", file=sys.stderr)
        return 130
    print(f"Written: {given.out / REPORT}")
    return 1 if results.lacking else 0


def _setting(out: Path, file: Path | None, parallel: int | None) -> Setting:
    setting = read_setting(file) if file else frozen(out) or read_setting(SHIPPED)
    return setting if parallel is None else replace(setting, parallel=parallel)


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
