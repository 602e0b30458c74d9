"""What a training measures of itself, step by step, in a file that only grows.

`metrics.jsonl` holds one JSON object a line: `step`, and what was measured at it, by name. A training
that is killed leaves at worst a torn last line. One that goes on from the checkpoint of step N cuts what
came after step N and writes it again, so that no step is lost or there twice. For this to hold, every
line of step N has to be written before the checkpoint of step N is.
"""

from __future__ import annotations

import json
import math
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any

from vrag.atomic_io import Journal, read_lines, write_lines
from vrag.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping
    from pathlib import Path

__all__ = ["FILE", "MetricsFile", "TrainingMetrics", "latest", "names", "read_metrics", "series"]

FILE = "metrics.jsonl"
"""What it is called in the folder of a training."""
_LARGEST = 1e300
"""What is larger cannot be reckoned with: the difference of two such numbers may be infinite."""
_LAST = 2**53
"""The last step: floats tell no later one from the next."""


@dataclass(frozen=True, slots=True)
class TrainingMetrics:
    """What was measured at a step: a line of the file."""

    step: int
    """Updates of the weights before and with it; 0 is before the first."""
    values: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])
    """By name; None where it was no finite number, or there was nothing to measure. The names:

    - `reward`, `reward/<part>`: means over the rollouts that have one, in [0, 1].
    - `accuracy`: share of those rollouts that the judge found correct.
    - `missing`, `failed`: rollouts without a reward, and those that broke off; `dropped`: replies or
      rows of them that could not be trained on faithfully. Counts.
    - `calls`, `tokens`: calls of the model and tokens that it sampled, means of a rollout.
    - `invalid`: share of the calls without a valid action.
    - `masked`: share of the segments that the graph took out of the gradient (GGPO).
    - `skipped`: share of the rows from which nothing is to be learned, and which were not computed: masked
      ones, and without entropy and divergence in the loss those without an advantage. The means of the
      update (`policy` to `clipped`) are over the sampled tokens of the others, and missing without any.
    - `loss`, and `policy`: its term of the advantages; `grad_norm`: before it was clipped.
    - `kl`: to the reference policy, `drift`: to the one that sampled, `entropy`: of the policy, in nats
      a token; `ratio`: of new to old probability; `clipped`: share of the ratios that were.
    - `seconds`: wall time of the step; `seconds/<part>`.
    - `tokens_per_second/rollouts`: tokens sampled in a second of the rollouts, searches and verdicts
      included; `tokens_per_second/update`: tokens of rows, prompts included, that were learned from in a
      second of the update.
    - `eval/<name>`: likewise over the held-out cases, by default without sampling.
    """


@dataclass(frozen=True, slots=True)
class MetricsFile:
    """The file, open for what comes next."""

    path: Path
    _journal: Journal

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, after: int | None) -> Generator[MetricsFile]:
        """Opens the file behind the lines that count.

        Args:
            path: The file; made, with its folder, when it is not there.
            after: Step of the checkpoint that the training goes on from: later lines are cut, and so is
                a torn one at the end. None for a training that begins: every line is.

        Raises:
            RunError: If a line that is whole is damaged, or the disk refuses.
        """
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            _cut(path, after)
            journal = Journal(path)
        with journal:
            yield cls(path, journal)

    def write(self, step: int, values: Mapping[str, float | None]) -> None:
        """Appends a line; it is on the disk when this returns.

        Args:
            step: Its step.
            values: By name, as in `TrainingMetrics`; numbers of NumPy and of one-element tensors will do.

        Raises:
            RunError: If the disk refuses. Nothing of the line is in the file then.
        """
        kept = {name: _finite(value) for name, value in values.items()}
        line = json.dumps({"step": step, **kept}, allow_nan=False)
        with _writing(self.path):
            self._journal.append(line.encode())


def read_metrics(path: Path) -> tuple[TrainingMetrics, ...]:
    """The lines of a file, in their order; one that is torn, at the end, is left out.

    Args:
        path: The file, or the folder of a training that has it; the training may still go on.

    Raises:
        RunError: If there is none, or a line that is whole is damaged.
    """
    file = path / FILE if path.is_dir() else path
    try:
        lines = read_lines(file)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise RunError(f"{file} cannot be read: {reason}.", "Name the folder of a training.") from error
    return tuple(_record(line, number, file) for number, line in enumerate(lines, 1))


def names(records: Iterable[TrainingMetrics]) -> tuple[str, ...]:
    """What was measured at least once, in the order of the first time."""
    found = (name for one in records for name, value in one.values.items() if value is not None)
    return tuple(dict.fromkeys(found))


def series(records: Iterable[TrainingMetrics], name: str) -> tuple[tuple[int, float], ...]:
    """Steps and values of one measure, by step; steps without a value are left out.

    >>> losses = {2: 0.5, 1: 1.0, 3: None}
    >>> series([TrainingMetrics(step, {"loss": loss}) for step, loss in losses.items()], "loss")
    ((1, 1.0), (2, 0.5))
    """
    found = {one.step: value for one in records if (value := one.values.get(name)) is not None}
    return tuple(sorted(found.items()))


def latest(records: Iterable[TrainingMetrics]) -> dict[str, tuple[int, float]]:
    """The last step at which each measure had a value, and that value."""
    lines = tuple(records)
    return {name: series(lines, name)[-1] for name in names(lines)}


def _cut(path: Path, after: int | None) -> None:
    """Takes the lines that do not count out of the file, all at once."""
    lines = read_lines(path, missing_ok=True)
    kept = [
        line
        for number, line in enumerate(lines, 1)
        if after is not None and _record(line, number, path).step <= after
    ]
    if len(kept) < len(lines):
        write_lines(path, kept)


def _record(line: bytes, number: int, path: Path) -> TrainingMetrics:
    try:
        found: Any = json.loads(line)
        step = found.pop("step")
        if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step <= _LAST:
            raise TypeError(step)  # noqa: TRY301 - a step that is none is damage like any other
        return TrainingMetrics(step, {str(name): _finite(value) for name, value in found.items()})
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        told = f"Line {number} of {path} is no line of metrics."
        raise RunError(told, "Take it out, or name another training.") from error


def _finite(value: Any) -> float | None:  # noqa: ANN401 - numbers of several libraries, or what a file holds
    """A number as JSON has it; None for what is not finite, or all but infinite.

    Raises:
        TypeError: If it is no number.
    """
    if value is None:
        return None
    if isinstance(value, str | bytes | bool):
        raise TypeError(value)
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number) or abs(number) > _LARGEST:
        return None
    return int(value) if isinstance(value, Integral) else number


@contextmanager
def _writing(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise RunError(f"{path} cannot be written: {reason}.", "Make room or mend the rights.") from error
