"""What the study holds fixed: written once, frozen in the folder of the study before its first run."""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag.atomic_io import write_whole
from vrag.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["FROZEN", "Job", "Setting", "freeze", "frozen", "read_setting"]

FROZEN = "study.json"
"""What the frozen setting is called in the folder of a study."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_GAP = re.compile(r"\{([a-z]+)\}")


@dataclass(frozen=True, slots=True)
class Job:
    """One run of the study."""

    arm: str
    seed: int

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.arm}-{self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The frozen setting of a study."""

    command: tuple[str, ...]
    """Of every run. `{python}` is this Python, `{out}` the folder of the run, `{study}` that of the study,
    `{seed}`, `{arm}`, `{steps}` and `{every}` are what they say. Called again it has to go on from its
    checkpoint."""
    arms: Mapping[str, tuple[str, ...]]
    """What an arm adds to the command, by its name."""
    seeds: tuple[int, ...]
    """Of all arms: the runs of one seed are compared with each other."""
    threshold: float
    """What `measure` is to reach, from 0 to 1."""
    budget_steps: int
    """Steps of a whole run; one that has not reached the threshold by then never does."""
    evaluate_every: int
    """Steps between two evaluations: no run is seen to reach anything in between."""
    measure: str = "eval/accuracy"
    """Name in the metrics file."""
    final: int = 1
    """How many of the last evaluations the final accuracy is the mean of."""
    contrasts: tuple[tuple[str, str], ...] = ()
    """Pairs of arms to compare; every other arm with the first one when empty."""
    parallel: int = 1
    """Runs at once. It says nothing about the outcome, and may be changed in between."""
    note: str = ""
    """For the reader of the report: the task, how the setting was found."""

    def __post_init__(self) -> None:
        if fault := next(_faults(self), None):
            raise SettingsError(f"The setting of the study cannot be used: {fault}.")

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All runs, seed by seed, so that there are pairs early."""
        return tuple(Job(arm, seed) for seed in self.seeds for arm in self.arms)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The arms that are compared: a difference is the first one minus the second."""
        first, *others = self.arms
        return self.contrasts or tuple((arm, first) for arm in others)

    def line(self, job: Job, out: Path, python: str) -> list[str]:
        """The command line of a run."""
        known = {
            "python": python,
            "out": str(out),
            "study": str(out.parent),
            "seed": str(job.seed),
            "arm": job.arm,
            "steps": str(self.budget_steps),
            "every": str(self.evaluate_every),
        }
        return [_GAP.sub(lambda gap: known[gap[1]], part) for part in (*self.command, *self.arms[job.arm])]

    def as_dict(self) -> dict[str, Any]:
        """As it is frozen."""
        return json.loads(json.dumps(asdict(self)))


def read_setting(path: Path) -> Setting:
    """A setting from a TOML or JSON file.

    Raises:
        SettingsError: If it cannot be read or used.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return _setting(json.loads(text) if path.suffix == ".json" else tomllib.loads(text))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {os.strerror(error.errno or 0)}.") from error
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise SettingsError(f"{path} is no setting of a study: {error}.") from error


def frozen(folder: Path) -> Setting | None:
    """The setting of a study that has begun; None before that.

    Raises:
        SettingsError: If it cannot be read or used.
    """
    return read_setting(folder / FROZEN) if (folder / FROZEN).exists() else None


def freeze(folder: Path, setting: Setting) -> None:
    """Freezes the setting of a study, or makes sure that it is the frozen one.

    Raises:
        SettingsError: If the study has begun with another one.
    """
    begun = frozen(folder)
    if begun is None:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / FROZEN, json.dumps(setting.as_dict(), indent=2).encode() + b"\n")
        return
    old, new = begun.as_dict(), setting.as_dict()
    if changed := [name for name in old if name != "parallel" and old[name] != new[name]]:
        raise SettingsError(
            f"The study in {folder} has begun with another setting: {', '.join(changed)}.",
            "Name another folder; a setting that changes half-way would tell nothing.",
        )


def _setting(found: dict[str, Any]) -> Setting:
    if unknown := set(found) - {field.name for field in fields(Setting)}:
        raise ValueError(f"nothing is called {', '.join(sorted(unknown))}")
    given = dict(found)
    given["command"] = _words(given["command"])
    given["arms"] = {name: _words(flags) for name, flags in given["arms"].items()}
    given["seeds"] = tuple(given["seeds"])
    given["contrasts"] = tuple((first, second) for first, second in given.get("contrasts", ()))
    return Setting(**given)


def _words(words: Any) -> tuple[str, ...]:  # noqa: ANN401 - what a file holds
    if not isinstance(words, list | tuple):
        raise TypeError("a command and the flags of an arm are lists of words")
    return tuple(map(str, words))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _faults(setting: Setting) -> Iterator[str]:
    words = [*setting.command, *(flag for flags in setting.arms.values() for flag in flags)]
    gaps = {gap for word in words for gap in _GAP.findall(word)}
    if unknown := gaps - {"python", "out", "study", "seed", "arm", "steps", "every"}:
        yield f"nothing fills {', '.join(sorted(unknown))} in the command"
    if not {"out", "seed"} <= gaps:
        yield "the command names no {out} or no {seed}, so that runs would be alike"
    if not setting.arms or not all(map(_NAME.fullmatch, setting.arms)):
        yield "arms have names of small letters, digits and hyphens, and there is one at least"
    if not 0 < len(setting.seeds) <= 10 or len(set(setting.seeds)) < len(setting.seeds):
        yield "there is no seed, one is there twice, or there are more than ten"
    if min(setting.budget_steps, setting.evaluate_every, setting.final, setting.parallel) < 1:
        yield "a number of steps, of evaluations or of runs is less than 1"
    if not 0 < setting.threshold <= 1:
        yield "the threshold is not between 0 and 1"
    if strange := {arm for pair in setting.contrasts for arm in pair} - set(setting.arms):
        yield f"no arm is called {', '.join(sorted(strange))}"
