"""The measures of a training, step by step, in a file that only grows.

`metrics.jsonl` holds one JSON object a line: `step`, and its measures by name. A training
that is killed leaves at worst a torn last line. One that resumes from the checkpoint of step N removes
later lines and writes them again, so that no step is lost or there twice. For this to hold, every
line of step N has to be written before the checkpoint of step N is.

Loggers are given each line once it is in the file: TensorBoard and Weights & Biases, which show it. A logger
that a training begins to use later is given the earlier lines as well.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any, Protocol

from vrag.atomic_io import Journal, read_lines, write_lines, write_whole
from vrag.embed.device import library
from vrag.errors import MissingExtra, RunError, TrainingError, first_line
from vrag.parsing import parse_json
from vrag.rollouts.resumable_store import report_disk_errors

FILE = "metrics.jsonl"
MAX_VALUE = 1e300
"""The difference of two larger numbers may be infinite."""
MAX_STEP = 2**53
"""Floats cannot tell later steps apart."""


@dataclass(frozen=True, slots=True)
class TrainingMetrics:
    """The measures of a step: a line of the file."""

    step: int
    """Updates of the weights up to and with it; 0 is before the first."""
    values: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])
    """By name; None where it was no finite number, or there was nothing to measure. The names:

    - `reward`, `reward/<part>`: means over the rollouts that have one, in [0, 1].
    - `accuracy`: share of those rollouts that the judge found correct.
    - `missing`, `failed`: rollouts without a reward, and those that failed; `dropped`: replies or
      rows of them that could not be trained on faithfully. Counts.
    - `calls`, `tokens`: calls of the model and tokens that it sampled, means of a rollout.
    - `invalid`: share of the calls without a valid action.
    - `masked`: share of the segments that the graph took out of the gradient (GGPO).
    - `skipped`: share of the rows from which nothing is to be learned, and which were not computed: masked
      ones, and without entropy and divergence in the loss those without an advantage. The means of the
      update (`policy` to `clipped`) are over the sampled tokens of the others, and missing without any.
    - `loss`, and `policy`: its term of the advantages; `grad_norm`: before it was clipped.
    - `kl`: to the reference policy, `entropy`: of the policy, in nats a token; `drift`: mean absolute
      difference of the log-probabilities from the sampler's; `ratio`: of new to old probability; `clipped`:
      share of the ratios that were; `truncated`: share of the importance weights that were, where used.
    - `seconds`: wall time of the step; `seconds/<part>`.
    - `tokens_per_second/rollouts`: tokens sampled in a second of the rollouts, searches and verdicts
      included; `tokens_per_second/update`: tokens of rows, prompts included, that were learned from in a
      second of the update.
    - `eval/<name>`: likewise over the held-out cases, by default without sampling.
    """


@dataclass(frozen=True, slots=True)
class MetricsFile:
    """The file, open for the next steps."""

    path: Path
    _journal: Journal
    loggers: Sequence[MetricsLogger] = ()

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, after: int | None, loggers: Sequence[str] = ()) -> Generator[MetricsFile]:
        """Open the file behind the lines that count.

        Args:
            path: The file; created with its folder if it does not exist.
            after: Step of the checkpoint that the training resumes from: later lines are removed, and a torn
                one at the end. None for a training that begins: every line is.
            loggers: Names of `LOGGERS` that are given each line.

        Raises:
            RunError: If a line that is whole is damaged, or the disk refuses.
            MissingExtra: If the package of a logger is not installed.
            TrainingError: If a logger cannot be opened.
        """
        with report_disk_errors(path, RunError):
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = read_lines(path, missing_ok=True)
            kept = [
                line
                for number, line in enumerate(lines, 1)
                if after is not None and _parse(line, number, path).step <= after
            ]
            if len(kept) < len(lines):
                write_lines(path, kept)
            journal = Journal(path)
        with journal, ExitStack() as stack:
            opened = [stack.enter_context(_open_logger(name, path.parent, after, kept)) for name in loggers]
            yield cls(path, journal, opened)

    def write(self, step: int, values: Mapping[str, float | None]) -> None:
        """Append a line; it is on disk when this returns.

        Args:
            step: Of the line.
            values: By name, as in `TrainingMetrics`; also numbers of NumPy and one-element tensors.

        Raises:
            RunError: If the disk refuses. Nothing of the line is in the file then.
        """
        kept = {name: _finite(value) for name, value in values.items()}
        line = json.dumps({"step": step, **kept}, allow_nan=False)
        with report_disk_errors(self.path, RunError):
            self._journal.append(line.encode())
        _log(self.loggers, TrainingMetrics(step, kept))


class MetricsLogger(Protocol):
    """A program that shows the measures of a training."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the measures of a step that have a value."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


class TensorBoardLogger:
    """TensorBoard's event files, in `<training>/tensorboard`."""

    def __init__(self, training: Path, after: int | None) -> None:
        purge = 0 if after is None else after + 1  # TensorBoard forgets what earlier files say of these steps
        writer = library("torch.utils.tensorboard").SummaryWriter
        self._writer = writer(str(training / "tensorboard"), purge_step=purge)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write the measures of a step; they are in the file when this returns."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


class WandbLogger:
    """A run of Weights & Biases, at its server or, with `WANDB_MODE=offline`, in `<training>/wandb`.

    A training that resumes continues the run. Its measures are drawn over their own steps, as W&B refuses
    steps that it has had.
    """

    def __init__(self, training: Path, after: int | None) -> None:  # noqa: ARG002 - as all loggers
        wandb = library("wandb")
        file = training / "wandb" / "run-id"
        file.parent.mkdir(exist_ok=True)
        if not file.is_file():
            write_whole(file, secrets.token_hex(4).encode())
        settings = training / "training.json"
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "vrag"),
                name=training.resolve().name,
                dir=str(training),
                id=file.read_text(),
                resume="allow",
                config=parse_json(settings.read_bytes()) if settings.is_file() else None,
                settings=wandb.Settings(console="off", save_code=False, disable_git=True),
            )
        except wandb.Error as error:
            hint = "Log in with `wandb login`, or set WANDB_MODE=offline."
            raise TrainingError(f"W&B cannot be used: {first_line(error)}.", hint) from error
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Hand the measures of a step over."""
        self._run.log({"step": step, **values})

    def close(self) -> None:
        """End the run, once everything is handed over."""
        self._run.finish()


LOGGERS: Mapping[str, Callable[[Path, int | None], MetricsLogger]] = {
    "tensorboard": TensorBoardLogger,
    "wandb": WandbLogger,
}
"""Loggers by name, which is also the name of their package and of the extra with it."""


def require_loggers(names: Iterable[str]) -> None:
    """Raise `MissingExtra` if the package of a logger is not installed."""
    for name in names:
        try:
            library(name)
        except MissingExtra as error:
            raise MissingExtra(name, name) from error


@contextmanager
def _open_logger(
    name: str, training: Path, after: int | None, lines: Iterable[bytes]
) -> Generator[MetricsLogger]:
    """Open a logger; one that is new in the training is given the lines of the file."""
    require_loggers([name])
    is_new = not (training / name).is_dir()
    logger = LOGGERS[name](training, after)
    try:
        for number, line in enumerate(lines if is_new else (), 1):
            _log([logger], _parse(line, number, training / FILE))
        yield logger
    finally:
        logger.close()


def _log(loggers: Iterable[MetricsLogger], line: TrainingMetrics) -> None:
    values = {name: value for name, value in line.values.items() if value is not None}
    for logger in loggers:
        logger.log(line.step, values)


def read_metrics(path: Path) -> tuple[TrainingMetrics, ...]:
    """Read the lines of a file, in order; a torn one at the end is left out.

    Args:
        path: The file, or the folder of a training; the training may still run.

    Raises:
        RunError: If there is none, or a line that is whole is damaged.
    """
    file = path / FILE if path.is_dir() else path
    try:
        lines = read_lines(file)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise RunError(f"{file} cannot be read: {reason}.", "Give the folder of a training.") from error
    return tuple(_parse(line, number, file) for number, line in enumerate(lines, 1))


def names(records: Iterable[TrainingMetrics]) -> tuple[str, ...]:
    """List the measures with at least one value, in the order of their first."""
    found = (name for record in records for name, value in record.values.items() if value is not None)
    return tuple(dict.fromkeys(found))


def series(records: Iterable[TrainingMetrics], name: str) -> tuple[tuple[int, float], ...]:
    """Return steps and values of one measure, by step; steps without a value are left out.

    >>> series([TrainingMetrics(2, {"loss": 0.5}), TrainingMetrics(1, {"loss": 1.0})], "loss")
    ((1, 1.0), (2, 0.5))
    """
    found = {record.step: value for record in records if (value := record.values.get(name)) is not None}
    return tuple(sorted(found.items()))


def latest(records: Iterable[TrainingMetrics]) -> dict[str, tuple[int, float]]:
    """Return the last step at which each measure had a value, and that value."""
    lines = tuple(records)
    return {name: series(lines, name)[-1] for name in names(lines)}


def _parse(line: bytes, number: int, path: Path) -> TrainingMetrics:
    try:
        found: Any = json.loads(line)
        step = found.pop("step")
        if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step <= MAX_STEP:
            raise TypeError(step)  # noqa: TRY301 - damage like any other
        return TrainingMetrics(step, {str(name): _finite(value) for name, value in found.items()})
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise RunError(
            f"Line {number} of {path} is damaged.", "Remove the line, or use another training."
        ) from error


def _finite(value: Any) -> float | None:  # noqa: ANN401 - numbers of several libraries, or what a file holds
    """Convert to a number of JSON, None if it is nearly infinite; raise TypeError if it is no number."""
    if value is None:
        return None
    if isinstance(value, str | bytes | bool):
        raise TypeError(value)
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number) or abs(number) > MAX_VALUE:
        return None
    return int(value) if isinstance(value, Integral) else number
