"""Checkpoints of a training: whole or not there at all.

`<run>/checkpoints/step-000040/` holds the model as transformers saves it, the state of the optimizer and
`state.json`. It is written under a temporary name and then renamed: a folder of that name is complete.
`<run>/training.json` holds the settings of the run; a folder with other settings is refused.

A training can be repeated: its order depends on nothing but seed and step, and its operations are
deterministic. The order in which floating-point numbers are added decides their last bits. On a CPU it is the
same on the same machine, with the same libraries and the same number of threads (`OMP_NUM_THREADS`), and with
nothing else. On CUDA some operations add in whatever order their threads arrive, unless torch is told not to:
`repeatable` does, strictly, so that an operation which cannot do otherwise is an error and no silent
difference. It is slower; attention too is repeatable only then. Another device, driver, or version still
gives other bits. The samplers' randomness is not torch's: it is drawn beforehand, by run, step, case, sample.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, TypeVar

import numpy as np

from vrag.atomic_io import atomic_dir, changed, one_writer, write_whole
from vrag.embed.device import library
from vrag.errors import TrainingError, first_line
from vrag.parsing import parse_json
from vrag.rl.model import TrainableModel
from vrag.rl.update import Updates

_NAME = re.compile(r"step-(\d{6,})")
_REMOVE = "Remove it to resume from the one before."
_RESUME = "Free some disk space or fix the permissions; the same command resumes from the last checkpoint."
USE_ANOTHER = "Free some disk space or fix the permissions, or use another folder."
_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    LookupError,
    TypeError,
    AttributeError,
    UnpicklingError,
)
"""The errors that reading a damaged file can raise."""
_STATE, _OPTIMIZER, _SETTINGS = "state.json", "optimizer.pt", "training.json"
_ADAPTERS = "adapters.pt"
"""Weights of adapters; a checkpoint with them holds the model without."""


def write_directory(target: Path, write: Callable[[Path], None], hint: str) -> Path:
    """Write a folder as a whole, also where libraries write it; an existing one stays until it is complete.

    Raises `TrainingError` with the hint if the disk refuses.
    """
    # Weights and optimizer are written by Rust and C++, whose errors are no `OSError`.
    refusals = (OSError, RuntimeError, library("safetensors").SafetensorError)
    try:
        with atomic_dir(target) as partial:
            write(partial)
    except refusals as error:
        raise _write_error(target, error, hint) from error
    return target


def _write_error(path: Path, error: Exception, hint: str) -> TrainingError:
    reason = getattr(error, "strerror", None) or first_line(error)
    return TrainingError(f"{path} cannot be written: {reason}.", hint)


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """A checkpoint on disk."""

    folder: Path
    step: int
    state: Mapping[str, Any]
    """Other values that the training saved."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of one run."""

    run: Path
    keep: int = 2
    """Number of the latest checkpoints that are kept."""

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep other processes away from the run.

        Raises `TrainingError` if one writes to it, or the disk refuses.
        """
        path = self.run.absolute()
        busy = TrainingError(
            f"Another process trains in {self.run}.", "Wait until it ends, or use another folder."
        )
        with ExitStack() as stack:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(one_writer(path.with_name(f".{path.name}.lock"), busy))
            except OSError as error:
                raise _write_error(self.run, error, USE_ANOTHER) from error
            yield

    def begin(
        self, settings: Mapping[str, Any], *, again: bool = False, free: Collection[str] = ()
    ) -> SavedCheckpoint | None:
        """Open a run; return the checkpoint to resume from, if there is one.

        With `again` an existing run is deleted first. The settings in `free` may change from one time to the
        next. Raises `TrainingError` if the folder holds a run with other settings, or something else, or the
        disk refuses.
        """
        try:
            self._open(settings, again=again, free=free)
        except OSError as error:
            raise _write_error(self.run, error, USE_ANOTHER) from error
        return self.latest

    @property
    def latest(self) -> SavedCheckpoint | None:
        """The newest one; None before the first."""
        steps = self._steps()
        if not steps:
            return None
        step, folder = steps[-1]
        try:
            state: dict[str, Any] = dict(parse_json((folder / _STATE).read_bytes()))
        except (OSError, ValueError, TypeError) as error:
            raise TrainingError(f"{folder} is damaged: {error}.", _REMOVE) from error
        return SavedCheckpoint(folder, step, state)

    def save(self, step: int, network: TrainableModel, updates: Updates, state: Mapping[str, Any]) -> Path:
        """Write a checkpoint, whole or not at all; raise `TrainingError` if the disk refuses."""

        def write(folder: Path) -> None:
            network.save(folder, merged=False)
            if adapters := network.adapters():
                library("torch").save(adapters, folder / _ADAPTERS)
            library("torch").save(updates.optimizer.state_dict(), folder / _OPTIMIZER)
            text = json.dumps({"step": step, "updates": updates.done, **state})
            (folder / _STATE).write_text(text, encoding="utf-8")

        target = write_directory(self.run / "checkpoints" / f"step-{step:06}", write, _RESUME)
        for _, old in self._steps()[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)
        return target

    def restore(self, saved: SavedCheckpoint, updates: Updates) -> None:
        """Load the optimizer, and the adapters; the network is opened from the checkpoint's folder.

        Raises `TrainingError` if the state does not fit.
        """
        torch, network = library("torch"), updates.network
        try:
            if network.adapters():
                adapters = torch.load(saved.folder / _ADAPTERS, weights_only=True, map_location="cpu")
                network.model.load_state_dict(adapters, strict=False)
            state = torch.load(saved.folder / _OPTIMIZER, weights_only=True, map_location="cpu")
            updates.optimizer.load_state_dict(state)
            updates.done = int(saved.state["updates"])
        except _DAMAGE as error:
            raise TrainingError(f"{saved.folder} cannot be resumed: {first_line(error)}.", _REMOVE) from error

    def publish(self, network: TrainableModel) -> Path:
        """Write the final model to `<run>/model`, whole; raise `TrainingError` if the disk refuses."""
        return write_directory(self.run / "model", network.save, _RESUME)

    def _open(self, settings: Mapping[str, Any], *, again: bool, free: Collection[str]) -> None:
        """Write the settings of the run, or compare them with its former ones."""
        known = self.run / _SETTINGS
        if self.run.exists() and not self.run.is_dir():
            raise TrainingError(f"{self.run} is a file.", "Use another folder.")
        if again and known.is_file():
            shutil.rmtree(self.run)
        if self.run.is_dir() and any(path.name[0] != "." for path in self.run.iterdir()):
            try:
                before: dict[str, Any] = dict(parse_json(known.read_bytes()))
            except (OSError, ValueError, TypeError):
                message = f"{self.run} is not empty and holds no run."
                raise TrainingError(message, "Use another folder.") from None
            if others := changed(before, settings, free):
                raise TrainingError(
                    f"{self.run} holds a run with other settings: {', '.join(others)}.",
                    "Use another folder, the same settings to resume, or --again to start over.",
                )
        self.run.mkdir(parents=True, exist_ok=True)
        text = json.dumps(settings, indent=2, sort_keys=True) + "\n"
        if not known.is_file() or known.read_text(encoding="utf-8") != text:
            write_whole(known, text.encode())
        for unfinished in (self.run / "checkpoints").glob(".step-*"):
            shutil.rmtree(unfinished, ignore_errors=True)

    def _steps(self) -> list[tuple[int, Path]]:
        folder = self.run / "checkpoints"
        named = ((_NAME.fullmatch(path.name), path) for path in (folder.iterdir() if folder.is_dir() else ()))
        return sorted((int(match[1]), path) for match, path in named if match)


T = TypeVar("T")
_WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
"""Without it cuBLAS may choose another algorithm each time; read when it is first used."""


@contextmanager
def repeatable(device: str, *, wanted: bool = True) -> Generator[None]:
    """Make operations on CUDA deterministic; on a CPU, or unless `wanted`, do nothing. Enter before any use.

    It applies to the process: other models in it are slower as well. Raises `TrainingError` if an operation
    cannot be.
    """
    if not wanted or not device.startswith("cuda"):
        yield
        return
    torch = library("torch")
    os.environ.setdefault(*_WORKSPACE)
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        raise TrainingError(
            f"An operation on {device} cannot be repeated bit by bit: {error}.",
            "Train with --no-together, which does not promise that.",
        ) from error
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]


def in_turn(things: Sequence[T], step: int, each: int, seed: tuple[int, ...]) -> list[T]:
    """Select the things of a step, from 1: all in turn, in an order that is drawn again for each round.

    It depends on nothing but the arguments, so that a resumed training takes what it would have taken. Where
    there are fewer than `each` things, some come twice in a step.

    >>> sorted(in_turn("abc", 1, 2, (0,)) + in_turn("abc", 2, 2, (0,))[:1])
    ['a', 'b', 'c']
    """
    count = len(things)
    places = range((step - 1) * each, step * each)
    rounds = {place // count for place in places}
    orders = {turn: np.random.default_rng((*seed, turn)).permutation(count) for turn in rounds}
    return [things[int(orders[place // count][place % count])] for place in places]
