"""Checkpoints of a training: what it goes on from, whole or not there at all.

`<run>/checkpoints/step-000040/` holds the model as transformers saves it, the state of the optimizer and
`state.json`. It is written beside and then renamed: a folder of that name is complete.
`<run>/training.json` says how the run is made; another run's folder is refused.
"""

from __future__ import annotations

import json
import re
import shutil
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from vrag.atomic_io import one_writer, write_whole
from vrag.embed.device import library
from vrag.errors import TrainingError
from vrag.rl.atomic_dir import placed, refused
from vrag.run_config import changed

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Mapping
    from pathlib import Path

    from vrag.rl.model import TrainableModel
    from vrag.rl.update import Updates

__all__ = ["Checkpoints", "SavedCheckpoint"]

_NAME = re.compile(r"step-(\d{6,})")
_REMOVE = "Remove it to go on from the one before."
_ROOM = "Make room or mend the rights; the same command goes on from the last checkpoint."
_PLACE = "Make room or mend the rights, or name another folder."
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
"""What reading a damaged file may raise."""
_STATE, _OPTIMIZER, _SETTINGS = "state.json", "optimizer.pt", "training.json"


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """A checkpoint on disk."""

    folder: Path
    step: int
    state: Mapping[str, Any]
    """What else the training wanted to know again."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of one run."""

    run: Path
    keep: int = 2
    """How many of the latest are kept."""

    @contextmanager
    def held(self) -> Generator[None]:
        """Keeps other processes away from the run.

        Raises:
            TrainingError: If one is at it, or the disk refuses.
        """
        place = self.run.absolute()
        busy = TrainingError(f"Another process trains in {self.run}.", "Wait for it, or name another folder.")
        with ExitStack() as stack:
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(one_writer(place.with_name(f".{place.name}.lock"), busy))
            except OSError as error:
                raise refused(self.run, error, _PLACE) from error
            yield

    def begin(
        self, settings: Mapping[str, Any], *, again: bool = False, free: Collection[str] = ()
    ) -> SavedCheckpoint | None:
        """Takes up a run: the checkpoint that it goes on from, if there is one.

        Args:
            settings: How the run is made, as JSON.
            again: Whether a run that is there is thrown away.
            free: Names of settings that may change from one time to the next.

        Raises:
            TrainingError: If the folder holds a run that was made otherwise, or something else, or the disk
                refuses.
        """
        try:
            self._take_up(settings, again=again, free=free)
        except OSError as error:
            raise refused(self.run, error, _PLACE) from error
        return self.latest

    @property
    def latest(self) -> SavedCheckpoint | None:
        """The newest one; None before the first."""
        steps = self._steps()
        if not steps:
            return None
        step, folder = steps[-1]
        try:
            state: dict[str, Any] = dict(json.loads((folder / _STATE).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise TrainingError(f"{folder} is damaged: {error}.", _REMOVE) from error
        return SavedCheckpoint(folder, step, state)

    def save(self, step: int, network: TrainableModel, updates: Updates, state: Mapping[str, Any]) -> Path:
        """Writes a checkpoint. It is there whole, or not at all.

        Raises:
            TrainingError: If the disk refuses.
        """

        def write(folder: Path) -> None:
            network.save(folder)
            library("torch").save(updates.optimizer.state_dict(), folder / _OPTIMIZER)
            told = json.dumps({"step": step, "updates": updates.done, **state})
            (folder / _STATE).write_text(told, encoding="utf-8")

        target = placed(self.run / "checkpoints" / f"step-{step:06}", write, _ROOM)
        for _, old in self._steps()[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)
        return target

    def restore(self, saved: SavedCheckpoint, updates: Updates) -> None:
        """The optimizer as it was; the network is opened from the checkpoint's folder.

        Raises:
            TrainingError: If the state does not fit.
        """
        try:
            state = library("torch").load(saved.folder / _OPTIMIZER, weights_only=True, map_location="cpu")
            updates.optimizer.load_state_dict(state)
            updates.done = int(saved.state["updates"])
        except _DAMAGE as error:
            reason = str(error).strip().split("\n")[0] or type(error).__name__
            raise TrainingError(f"{saved.folder} cannot be gone on from: {reason}.", _REMOVE) from error

    def publish(self, network: TrainableModel) -> Path:
        """The model as it is at the end: `<run>/model`, whole; one that was there stands until then.

        Raises:
            TrainingError: If the disk refuses.
        """
        return placed(self.run / "model", network.save, _ROOM)

    def _take_up(self, settings: Mapping[str, Any], *, again: bool, free: Collection[str]) -> None:
        """Writes down how the run is made, or compares it with how it was."""
        known = self.run / _SETTINGS
        if self.run.exists() and not self.run.is_dir():
            raise TrainingError(f"{self.run} is a file.", "Name another folder.")
        if again and known.is_file():
            shutil.rmtree(self.run)
        if self.run.is_dir() and any(path.name[0] != "." for path in self.run.iterdir()):
            self._check(settings, known, free)
        self.run.mkdir(parents=True, exist_ok=True)
        text = json.dumps(settings, indent=2, sort_keys=True) + "\n"
        if not known.is_file() or known.read_text(encoding="utf-8") != text:
            write_whole(known, text.encode())
        for unfinished in (self.run / "checkpoints").glob(".step-*"):
            shutil.rmtree(unfinished, ignore_errors=True)

    def _check(self, settings: Mapping[str, Any], known: Path, free: Collection[str]) -> None:
        try:
            before: dict[str, Any] = dict(json.loads(known.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise TrainingError(
                f"{self.run} is not empty and holds no run.", "Name another folder."
            ) from None
        if others := changed(before, settings, free):
            raise TrainingError(
                f"{self.run} holds a run with other settings: {', '.join(others)}.",
                "Name another folder, give the same settings to go on, or --again to begin anew.",
            )

    def _steps(self) -> list[tuple[int, Path]]:
        folder = self.run / "checkpoints"
        named = ((_NAME.fullmatch(path.name), path) for path in (folder.iterdir() if folder.is_dir() else ()))
        return sorted((int(match[1]), path) for match, path in named if match)
