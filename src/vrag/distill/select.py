"""Which samples a trainer is given: the right ones, of every length, with and without crops."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from statistics import median_high
from typing import TYPE_CHECKING, Any

from vrag.agent.actions import Crop, Search
from vrag.atomic_io import write_lines, write_whole
from vrag.distill.sample_store import SampleOutcome
from vrag.distill.trace import trace
from vrag.errors import RunError, SampleError, SettingsError
from vrag.model_profiles import profile_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vrag.agent.runs.run_store import StoredRun
    from vrag.distill.sample_store import Sample, SampleStore
    from vrag.distill.trace import RunTrace

__all__ = [
    "DroppedSample",
    "SampleSelection",
    "SelectedSample",
    "SelectionOptions",
    "read_selected",
    "select_samples",
    "write_selection",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionOptions:
    """What is kept."""

    score: int = 5
    """Least score."""
    images: tuple[int, int] = (1, 6)
    """Pictures shown, from and to."""
    steps: tuple[int, int] = (2, 6)
    """Turns, from and to: a search and an answer are two."""
    most: int | None = None
    """Samples to keep, shared evenly among the kinds; None for as many of a kind as the median kind has."""
    seed: int = 0
    """Of the choice among samples of one kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedSample:
    """A sample that is kept."""

    uid: str
    run: str
    steps: int
    searches: int
    crops: int
    images: int

    @property
    def kind(self) -> str:
        """What is balanced: its length, and whether it looks closer."""
        return f"{self.steps} steps, {'with' if self.crops else 'without'} a crop"


@dataclass(frozen=True, slots=True)
class DroppedSample:
    """A sample that is not kept, and why."""

    uid: str
    reason: str
    kind: str
    """The reason without its numbers, for counting."""


@dataclass(frozen=True, slots=True)
class SampleSelection:
    """The choice: every record is in one of the two."""

    kept: tuple[SelectedSample, ...] = ()
    dropped: tuple[DroppedSample, ...] = ()
    found: Mapping[str, int] = field(default_factory=dict[str, int])
    """Samples of each kind before balancing."""

    def as_dict(self) -> dict[str, Any]:
        """What is reported as JSON."""
        left = Counter(one.kind for one in self.kept)
        return {
            "kept": len(self.kept),
            "dropped": len(self.dropped),
            "kinds": {kind: {"found": n, "kept": left[kind]} for kind, n in sorted(self.found.items())},
            "reasons": dict(Counter(one.kind for one in self.dropped).most_common()),
        }


def select_samples(store: SampleStore, selecting: SelectionOptions) -> SampleSelection:
    """Chooses among all records of a store. The same records and options give the same choice.

    Raises:
        SampleError: If a record is damaged.
    """
    fit: list[SelectedSample] = []
    dropped: list[DroppedSample] = []
    for sample in store.samples.read():
        one = _fit(sample, store, selecting)
        if isinstance(one, SelectedSample):
            fit.append(one)
        else:
            dropped.append(DroppedSample(sample.uid, *one))
    kinds: defaultdict[str, list[SelectedSample]] = defaultdict(list)
    for one in fit:
        kinds[one.kind].append(one)
    found = {kind: len(ones) for kind, ones in kinds.items()}
    room = _room(found, selecting.most)
    kept: set[str] = set()
    for kind, ones in kinds.items():
        chosen = sorted(ones, key=lambda one: _draw(selecting.seed, one.uid))
        kept |= {one.uid for one in chosen[: room[kind]]}
        why = f"Of {found[kind]} samples of {kind}, {room[kind]} are kept for balance."
        dropped += (DroppedSample(one.uid, why, "balance") for one in chosen[room[kind] :])
    return SampleSelection(tuple(one for one in fit if one.uid in kept), tuple(dropped), found)


def write_selection(store: SampleStore, selection: SampleSelection) -> None:
    """Writes `selected.jsonl`, `dropped.jsonl` and `selection.json` beside the samples.

    Raises:
        SampleError: If the disk refuses.
    """
    dropped = [{"uid": one.uid, "reason": one.reason} for one in selection.dropped]
    report = json.dumps(selection.as_dict(), ensure_ascii=False, indent=2)
    try:
        write_lines(store.directory / "selected.jsonl", (_line(asdict(one)) for one in selection.kept))
        write_lines(store.directory / "dropped.jsonl", map(_line, dropped))
        write_whole(store.directory / "selection.json", report.encode() + b"\n")
    except OSError as error:
        raise SampleError(
            f"{store.directory} cannot be written: {error.strerror or error}.", "Make room."
        ) from error


def read_selected(store: SampleStore) -> list[str]:
    """Ids of the runs that were selected.

    Raises:
        SampleError: If nothing was selected yet, or the file is damaged.
    """
    path = store.directory / "selected.jsonl"
    try:
        return [_run_in(line) for line in path.read_bytes().splitlines()]
    except FileNotFoundError:
        raise SampleError("Nothing was selected yet.", "Select first: vrag data select.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SampleError(f"{path} cannot be read: {error}.", "Select again.") from error


def _run_in(line: bytes) -> str:
    run = json.loads(line)["run"]
    if not isinstance(run, str):
        raise TypeError(f"{run!r:.80} is no id of a run")
    return run


def _fit(sample: Sample, store: SampleStore, selecting: SelectionOptions) -> SelectedSample | tuple[str, str]:
    """What is to be known of a sample; or why it does not fit, and what kind of reason that is."""
    if sample.outcome is not SampleOutcome.SCORED or sample.score is None or sample.run is None:
        return f"It is {sample.outcome}: {sample.why}", str(sample.outcome)
    if sample.score < selecting.score:
        return f"Its score is {sample.score}: {sample.why}", "score"
    try:
        run = store.runs.read(sample.run)
    except (RunError, OSError) as error:
        return f"Its run cannot be read: {error}", "run"
    steps = trace(run)
    return _fault(run, steps, selecting) or _kept(sample.uid, run.id, steps)


def _fault(run: StoredRun, steps: RunTrace, selecting: SelectionOptions) -> tuple[str, str] | None:
    """Why a run does not fit."""
    if steps.refused:
        return f"A turn was not carried out: {steps.refused[0]}", "invalid turn"
    for what, count, (least, most) in (
        ("steps", len(steps.turns), selecting.steps),
        ("images", len(steps.images), selecting.images),
    ):
        if not least <= count <= most:
            return f"It has {count} {what}, not {least} to {most}.", what
    if any(turn.flags for turn in steps.turns):
        return "A reply does not follow the grammar.", "grammar"
    try:
        profile = profile_named(run.started.settings.profile)
    except SettingsError as error:
        return str(error), "profile"
    if number := steps.over_the_edge(profile):
        return f"The box of turn {number} does not lie inside its picture.", "box"
    return None


def _kept(uid: str, run: str, steps: RunTrace) -> SelectedSample:
    actions = [turn.action for turn in steps.turns]
    return SelectedSample(
        uid=uid,
        run=run,
        steps=len(actions),
        searches=sum(isinstance(action, Search) for action in actions),
        crops=sum(isinstance(action, Crop) for action in actions),
        images=len(steps.images),
    )


def _room(found: Mapping[str, int], most: int | None) -> dict[str, int]:
    """How many of each kind are kept: none more than others, as far as there are that many."""
    if most is None:
        level = median_high(found.values()) if found else 0
        return {kind: min(count, level) for kind, count in found.items()}
    room = dict.fromkeys(found, 0)
    left = min(most, sum(found.values()))
    while left:
        open_kinds = [kind for kind in sorted(found) if room[kind] < found[kind]]
        for kind in open_kinds[:left]:
            room[kind] += 1
        left -= min(left, len(open_kinds))
    return room


def _draw(seed: int, uid: str) -> bytes:
    """The place of a sample in an order that depends on nothing but these two."""
    return hashlib.sha256(f"{seed} {uid}".encode()).digest()


def _line(value: Mapping[str, Any] | Iterable[Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
