"""Rollouts of a training that are kept to be read: every n-th step's, as ordinary runs, with their rewards.

::

    <training>/rollouts/rewards.jsonl   one line per rollout: step, group, question, reward and its parts
    <training>/rollouts/runs/           a `RunStore`

A line is what makes a rollout count. The lines of a step are written at once, when its runs are on disk and
before its checkpoint is. A training that resumes from the checkpoint of step N removes later lines, and runs
that no line names, and makes them again: nothing is lost or there twice. When the folder grows beyond its
size, it loses whole steps, so that those left are spread evenly; the first and the last stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from pydantic import BaseModel, ConfigDict, Field

from vrag.agent.runs.run_meta import MAX_TITLE_CHARS, RunMeta
from vrag.agent.runs.run_store import RunStore, StoredRun
from vrag.errors import RunError
from vrag.reward.reward import Reward
from vrag.rollouts.resumable_store import RecordFile, report_disk_errors
from vrag.rollouts.rollout import Rollout
from vrag.rollouts.rollout_store import RUNS, RolloutEntry

ROLLOUTS, REWARDS = "rollouts", "rewards.jsonl"
MAX_HELD_OUT = 16
"""Rollouts of an evaluation that are kept, the first ones: always of the same questions."""
MEGABYTE = 10**6


class KeptReward(BaseModel):
    """A `Reward` on disk."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    total: float | None
    parts: dict[str, float | None]
    correct: bool | None
    why: str = ""
    said: str = ""


class KeptRollout(BaseModel):
    """A line of `rewards.jsonl`: a rollout, where it belongs, and its reward."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: int = Field(ge=0)
    """Step of the training that it was made in."""
    group: int = Field(ge=0)
    """Number of its question in the step."""
    sample: int = Field(ge=0)
    """Its number among the rollouts of the question."""
    held_out: bool = False
    """True if it was made by an evaluation: nothing was learned from it."""
    reference: str
    """The right answer."""
    reward: KeptReward
    rollout: RolloutEntry

    @property
    def name(self) -> str:
        """A short name, unique in a training: `400/3.5`, and `400/held-out-3.5` of an evaluation."""
        return f"{self.step}/{'held-out-' if self.held_out else ''}{self.group}.{self.sample}"

    @property
    def question(self) -> tuple[str, bool]:
        """The key of the question: the uid of its case, and whether it is held out."""
        return self.rollout.case, self.held_out


@dataclass(frozen=True, slots=True)
class QuestionChange:
    """Rollouts of one question at two steps."""

    early: tuple[KeptRollout, ...]
    late: tuple[KeptRollout, ...]

    @property
    def rewards(self) -> tuple[float, float]:
        """The mean rewards, early and late."""
        return mean_reward(self.early), mean_reward(self.late)

    @property
    def size(self) -> float:
        """The change of the mean reward, whatever its direction."""
        early, late = self.rewards
        return abs(late - early)


@dataclass(slots=True)
class KeptRollouts:
    """The kept rollouts of a training that runs."""

    folder: Path
    max_bytes: int
    """Size beyond which steps are removed."""
    entries: list[KeptRollout]

    @classmethod
    def open(cls, training: Path, *, after: int | None, max_bytes: int) -> KeptRollouts:
        """Open the kept rollouts of a training, without those of steps that are made again.

        `after` is the step of the checkpoint that the training resumes from; None for one that begins.
        Raises `RunError` if a line is damaged, or the disk refuses.
        """
        kept = cls(training / ROLLOUTS, max_bytes, [])
        before = kept._records.read()
        kept.entries = [entry for entry in before if after is not None and entry.step <= after]
        if len(kept.entries) < len(before):
            kept._records.rewrite(kept.entries)
        kept._remove_unnamed_runs()
        return kept

    def keep(self, step: int, scored: Sequence[tuple[Rollout, Reward]], *, held_out: bool = False) -> None:
        """Write the rollouts of a step, those of a question in a row; they are on disk when this returns.

        A step takes half of the size at most: questions beyond that are left out. Raises `RunError` if the
        disk refuses. None of the rollouts counts then.
        """
        known: set[str] = set()
        group, written = -1, self._measure(step, self.entries)
        made: list[KeptRollout] = []
        for rollout, reward in scored[: MAX_HELD_OUT if held_out else None]:
            if rollout.attempt.sample == 0:
                if written > self.max_bytes / 2:
                    break
                group += 1
            entry = _entry_of(step, group, rollout, reward, held_out=held_out)
            if entry.rollout.run is not None:
                written += self._write_run(entry, rollout, known)
            made.append(entry)
        with report_disk_errors(self.folder, RunError):
            self.folder.mkdir(parents=True, exist_ok=True)
        self.entries = self._thin_out([*self.entries, *made])
        self._records.rewrite(self.entries)
        self._remove_unnamed_runs()

    @property
    def _records(self) -> RecordFile[KeptRollout]:
        return _records(self.folder)

    @property
    def _store(self) -> RunStore:
        return RunStore(self.folder / RUNS, durable=False)

    def _write_run(self, entry: KeptRollout, rollout: Rollout, known: set[str]) -> int:
        """Write a run; return the bytes of its files that are new. `known` has the names of the step's."""
        assert entry.rollout.run is not None
        meta = RunMeta(title=f"{entry.name}: {entry.rollout.question}"[:MAX_TITLE_CHARS])
        self._store.add(entry.rollout.run, rollout.events, rollout.files, meta)
        new = rollout.files.keys() - known
        known |= new
        return sum(len(rollout.files[name]) for name in new)

    def _thin_out(self, entries: list[KeptRollout]) -> list[KeptRollout]:
        """Leave out steps, until the size suffices for the others; the first and the last stay."""
        sizes = {step: self._measure(step, entries) for step in {entry.step for entry in entries}}
        while sum(sizes.values()) > self.max_bytes and len(sizes) > 2:
            steps = sorted(sizes)
            gaps = {
                step: after - before for before, step, after in zip(steps, steps[1:], steps[2:], strict=False)
            }
            del sizes[min(gaps, key=gaps.__getitem__)]
        return [entry for entry in entries if entry.step in sizes]

    def _measure(self, step: int, entries: Iterable[KeptRollout]) -> int:
        """Return the bytes of the runs of a step; files that several share count once."""
        runs = [entry.rollout.run for entry in entries if entry.step == step and entry.rollout.run]
        store = self._store
        return sum(row.bytes for row in store.rows() if row.id in runs) + store.measure_files(
            runs, shared=True
        )

    def _remove_unnamed_runs(self) -> None:
        """Remove the runs of steps that are made again or left out; their process may have died over them."""
        store = self._store
        unnamed = set(store.ids()) - {entry.rollout.run for entry in self.entries}
        if unnamed:
            with store.changing() as connection:
                store.delete_all(connection, unnamed)
        store.sweep()


def _entry_of(step: int, group: int, rollout: Rollout, reward: Reward, *, held_out: bool) -> KeptRollout:
    attempt = rollout.attempt
    return KeptRollout(
        step=step,
        group=group,
        sample=attempt.sample,
        held_out=held_out,
        reference=attempt.case.reference_answer,
        reward=KeptReward(**reward.as_dict()),
        rollout=RolloutEntry.of(rollout),
    )


def _records(folder: Path) -> RecordFile[KeptRollout]:
    return RecordFile(folder / REWARDS, KeptRollout, RunError)


def read_kept_rollouts(training: Path) -> list[KeptRollout]:
    """Read the kept rollouts of a training, which may still run, in the order of its steps.

    Raises `RunError` if there are none, or a line is damaged.
    """
    hint = "Give the output folder of vrag train local rl, with --keep-every above 0."
    if not training.is_dir():
        raise RunError(f"{training} is not a folder.", hint)
    entries = _records(training / ROLLOUTS).read()
    if not entries:
        raise RunError(f"{training} has no kept rollouts.", hint)
    return entries


def read_kept_run(training: Path, entry: KeptRollout) -> StoredRun:
    """Read the run of a kept rollout.

    Raises `RunError` if it has none, because it failed before its first event, or is missing or damaged.
    """
    if entry.rollout.run is None:
        raise RunError(f"The rollout {entry.name} failed at once: {entry.rollout.failure}.")
    store = RunStore(training / ROLLOUTS / RUNS)
    if not store.has_run(entry.rollout.run):
        raise RunError(
            f"The run of the rollout {entry.name} is missing: {entry.rollout.run}.",
            "Show another rollout.",
        )
    return store.read(entry.rollout.run)


def find_rollout(entries: Iterable[KeptRollout], name: str) -> KeptRollout:
    """Find a rollout by its name, or by the beginning of the id of its run.

    Raises `RunError` if there is none, or several.
    """
    listed = list(entries)
    found = [entry for entry in listed if entry.name == name]
    found = found or [entry for entry in listed if entry.rollout.run and entry.rollout.run.startswith(name)]
    if len(found) == 1 and name:
        return found[0]
    problem = f"The runs of {len(found)} rollouts begin with" if found else "No kept rollout has the name"
    raise RunError(f"{problem} {name!r}.", "Leave it out to list some; names look like 400/3.5.")


def mean_reward(entries: Iterable[KeptRollout]) -> float:
    """Return the mean reward of rollouts, of which one at least has one."""
    return fmean(entry.reward.total for entry in entries if entry.reward.total is not None)


def rank_rollouts(
    entries: Iterable[KeptRollout], part: str | None = None, *, best: bool = False
) -> list[KeptRollout]:
    """Order rollouts by their reward, or one part of it, from the worst or the best; one of each question.

    Those without a value are left out.
    """

    def value(entry: KeptRollout) -> float:
        found = value_of(entry, part)
        assert found is not None
        return found

    first: dict[tuple[str, bool], KeptRollout] = {}
    for entry in sorted((e for e in entries if value_of(e, part) is not None), key=value, reverse=best):
        first.setdefault(entry.question, entry)
    return list(first.values())


def value_of(entry: KeptRollout, part: str | None) -> float | None:
    """Return the reward of a rollout, or a part of it; None where it is missing."""
    return entry.reward.total if part is None else entry.reward.parts.get(part)


def find_changes(entries: Iterable[KeptRollout]) -> list[QuestionChange]:
    """Compare the first and the last kept rollouts of each question, the greatest change first."""
    by_question: dict[tuple[str, bool], dict[int, list[KeptRollout]]] = {}
    for entry in entries:
        if entry.reward.total is not None:
            by_question.setdefault(entry.question, {}).setdefault(entry.step, []).append(entry)
    changes = [
        QuestionChange(tuple(steps[min(steps)]), tuple(steps[max(steps)]))
        for steps in by_question.values()
        if len(steps) > 1
    ]
    return sorted(changes, key=lambda change: -change.size)
