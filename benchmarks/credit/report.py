"""The study in words: `report.md` with its tables, and `curves.svg` beside it.

python -m benchmarks.credit OUT --report
"""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

from benchmarks.credit.pictures import study_svg
from benchmarks.credit.results import results_of
from benchmarks.credit.setting import FROZEN, frozen
from vrag.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from benchmarks.credit.results import Arm, Contrast, Difference, Results, Run
    from benchmarks.credit.setting import Setting
    from benchmarks.credit.statistics import Interval

__all__ = ["CURVES", "REPORT", "markdown", "write_report"]

REPORT, CURVES = "report.md", "curves.svg"


def write_report(folder: Path) -> Results:
    """Writes what a study has come to, finished or not, into its folder.

    Raises:
        SettingsError: If there is no study.
    """
    setting = frozen(folder)
    if setting is None:
        raise SettingsError(f"There is no study in {folder}: it has no {FROZEN}.", "Run it first.")
    results = results_of(folder, setting)
    (folder / CURVES).write_text(study_svg(results), encoding="utf-8")
    (folder / REPORT).write_text(markdown(results), encoding="utf-8")
    return results


def markdown(results: Results) -> str:
    """The report. It says of every figure how many runs it rests on."""
    return "\n".join(line.rstrip() for line in _lines(results)) + "\n"


def _lines(results: Results) -> Iterator[str]:
    setting = results.setting
    yield "# Credit by the graph, or for the whole trajectory"
    yield ""
    if setting.note:
        yield from (setting.note, "")
    final = "the last evaluation" if setting.final == 1 else f"the last {setting.final} evaluations"
    yield (
        f"{len(setting.arms)} arms × {len(setting.seeds)} paired seeds. Threshold: `{setting.measure}` "
        f"{_percent(setting.threshold)}. Budget: {setting.budget_steps:,} steps, evaluated every "
        f"{setting.evaluate_every:,}. The final accuracy is the mean of {final}."
    )
    yield ""
    yield from _lacking(results)
    yield f"![Curves of the arms]({CURVES})"
    yield ""
    yield from _arms(results)
    yield from _contrasts(results)
    yield from _every(results)
    yield from _commands(setting)
    yield from _reading(results)


def _lacking(results: Results) -> Iterator[str]:
    if not results.lacking:
        yield f"All {len(results.runs)} runs are finished."
    else:
        yield (
            f"**{len(results.lacking)} of {len(results.runs)} runs are not finished:** "
            + ", ".join(f"{run.job.name} ({run.state})" for run in results.lacking)
            + ". Final accuracies and differences are of the others, and all may change."
        )
    yield ""


def _arms(results: Results) -> Iterator[str]:
    yield "## Arms"
    yield ""
    heads = ("arm", "finished", "reached the threshold", "median steps", "mean steps, at most the budget")
    yield from _table((*heads, "final accuracy"), (_arm(arm, results) for arm in results.arms))


def _arm(arm: Arm, results: Results) -> Sequence[str]:
    budget = results.setting.budget_steps
    seeds = len(results.setting.seeds)
    median = f"{arm.median:,}" if arm.median is not None else f"more than {budget:,}" if arm.waits else "–"
    if arm.median is None and arm.finished < len(arm.waits):
        median = "not known yet"
    return (
        arm.name,
        f"{arm.finished} of {seeds}",
        f"{arm.reached} of {len(arm.waits)}",
        median,
        _interval(arm.restricted, lambda value: f"{value:,.0f}"),
        _interval(arm.final, _percent),
    )


def _contrasts(results: Results) -> Iterator[str]:
    yield "## Differences"
    yield ""
    yield from _table(
        ("difference", "of", "pairs", "mean", "by seed", "p, permutation", "p, sign"),
        (row for contrast in results.contrasts for row in _contrast(contrast)),
    )


def _contrast(contrast: Contrast) -> Iterator[Sequence[str]]:
    name = f"{contrast.first} − {contrast.second}"
    if contrast.final is None or contrast.steps is None:
        yield (name, "–", "0", "–", "–", "–", "–")
        return
    yield (name, "final accuracy, points", *_difference(contrast.final, 100, "+.1f"))
    yield (name, "steps to the threshold", *_difference(contrast.steps, 1, "+,.0f"))


def _difference(found: Difference, factor: float, form: str) -> Sequence[str]:
    def told(value: float) -> str:
        return f"{value * factor:{form}}".replace("-", "−")

    each = ", ".join(map(told, found.by_seed))
    figures = (_interval(found.interval, told), each, f"{found.permutation:.3g}", f"{found.sign:.3g}")
    return (str(len(found.by_seed)), *figures)


def _every(results: Results) -> Iterator[str]:
    yield "## Runs"
    yield ""
    yield from _table(
        ("run", "state", "reached the threshold at step", "final accuracy"),
        ((run.job.name, run.state, _reached(run), _final(run)) for run in results.runs),
    )


def _reached(run: Run) -> str:
    if run.wait.reached:
        return f"{run.wait.steps:,}"
    return "–" if run.fault else "never" if run.final is not None else f"not by {run.wait.steps:,}"


def _final(run: Run) -> str:
    return "–" if run.final is None else _percent(run.final)


def _commands(setting: Setting) -> Iterator[str]:
    yield "## What was run"
    yield ""
    yield from ("```sh", shlex.join(setting.command), "```", "")
    arms = ((name, f"`{shlex.join(flags)}`" if flags else "–") for name, flags in setting.arms.items())
    yield from _table(("arm (`{arm}`)", "adds to the command"), arms)


def _reading(results: Results) -> Iterator[str]:
    seeds = len(results.setting.seeds)
    yield "## How to read this"
    yield ""
    yield (
        "Intervals are of 95 %: percentile bootstrap over seeds, every resample counted. With few seeds "
        "they are too narrow: of five normal values such an interval holds the truth in 84 % of the cases. "
        "A run that never reached the threshold counts as the budget in the means of steps, which are "
        "therefore too small; medians count it as what it is. While runs are unfinished, means of steps are "
        "by Kaplan and Meier. A difference is of the runs of one seed. Both p are two-sided and exact, and "
        f"with {seeds} pairs neither can be below {2 / 2**seeds:.4g}; they are not corrected for the number "
        "of differences."
    )
    yield ""
    yield (
        "A seed draws the questions of each step and the replies; where the command names one model to begin "
        "with, all runs begin as that model, and what another one would do is not told. GRPO takes the mean "
        "of its loss over trajectories, GGPO over segments: between the two both that and the masks differ. "
        "What the graph adds is told by GGPO beside GGPO with its masks dealt at random: as many segments "
        "are masked there, but others. A mask in a group without an advantage takes nothing away, in either."
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _interval(found: Interval | None, told: Callable[[float], str]) -> str:
    if found is None:
        return "–"
    if math.isnan(found.low):
        return told(found.value)
    return f"{told(found.value)} [{told(found.low)}, {told(found.high)}]"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"
