"""Selection of samples for training: right answers that cite, of every length, with and without crops."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from statistics import median_high
from typing import Any

from pydantic import TypeAdapter

from vrag.agent.actions import Action, Crop, Flag, Search, Turn, parse
from vrag.agent.events import ImageShown, InvalidAction, ModelCalled
from vrag.agent.evidence import Evidence
from vrag.agent.runs.run_store import StoredRun
from vrag.atomic_io import write_lines, write_whole
from vrag.distill.sample_store import Sample, SampleOutcome, SampleStore
from vrag.errors import RunError, SampleError, SettingsError
from vrag.geometry import Box, Size, Space, View
from vrag.model_profiles import Profile, profile_named
from vrag.parsing import parse_json
from vrag.rollouts.resumable_store import report_disk_errors

_SLACK = 1e-6
"""Units of a model's space by which a box may leave its image: maps are not exact beyond that."""


@dataclass(frozen=True, slots=True)
class RunTrace:
    """The actions of a run of VRAG."""

    turns: tuple[Turn[Action], ...]
    """One per model call."""
    images: tuple[ImageShown, ...]
    """In the order shown: image `n` is the n-th."""
    cropped: tuple[ImageShown | None, ...]
    """For each turn the image that it crops; None for another action, and where there is no such image."""
    refused: tuple[str, ...]
    """The reason turns were not carried out."""

    def over_the_edge(self, profile: Profile) -> int | None:
        """Number of the first turn, from 1, whose box leaves its image, for the recorded family."""
        for number, (turn, image) in enumerate(zip(self.turns, self.cropped, strict=True), 1):
            if not isinstance(turn.action, Crop):
                continue
            if image is None:
                return number
            view, box = view_of(image), profile.box(turn.action.box)
            whole = view.from_item(view.region, profile.boxes).grow(_SLACK)
            if box.area <= 0 or box.intersect(whole) != box:
                return number
        return None


def trace(run: StoredRun) -> RunTrace:
    """Follow a run by its events."""
    turns: list[Turn[Action]] = []
    images: list[ImageShown] = []
    cropped: list[ImageShown | None] = []
    refused: list[str] = []
    for event in run.events:
        match event:
            case ModelCalled():
                turn = parse(event.reply[: event.executed])
                turn = replace(turn, flags=turn.flags | {Flag.REPAIRED} if event.repairs else turn.flags)
                turns.append(turn)
                number = turn.action.image or len(images) if isinstance(turn.action, Crop) else 0
                cropped.append(images[number - 1] if 0 < number <= len(images) else None)
            case ImageShown():
                images.append(event)
            case InvalidAction():
                refused.append(event.reason)
            case _:
                pass
    return RunTrace(tuple(turns), tuple(images), tuple(cropped), tuple(refused))


def view_of(image: ImageShown, shown: Size | None = None) -> View:
    """Return the part of its item that a recorded image is, at another size if `shown` gives one."""
    region = Box(*image.region, Space.ITEM)
    x1, y1, x2, y2 = image.box
    item = Size(round(region.width / max(x2 - x1, 1e-9)), round(region.height / max(y2 - y1, 1e-9)))
    return View(item, region, shown or Size(image.width, image.height))


def cited_evidence(run: StoredRun) -> list[Evidence]:
    """Return what the model cited in the answer of a run, by markers that name what it was shown."""
    result = run.result
    numbers = {n for citation in result.citations if citation.source == "model" for n in citation.numbers}
    return [result.evidence[number - 1] for number in sorted(numbers)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionOptions:
    """The conditions for keeping a sample."""

    score: int = 5
    """Least score of the answer."""
    images: tuple[int, int] = (1, 6)
    """Images shown, from and to."""
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
        """The kind to balance: its length, and whether it has a crop."""
        return f"{self.steps} steps, {'with' if self.crops else 'without'} a crop"


@dataclass(frozen=True, slots=True)
class DroppedSample:
    """A sample that is not kept, with the reason."""

    uid: str
    reason: str
    kind: str
    """The reason without its numbers, for counting."""


@dataclass(frozen=True, slots=True)
class SampleSelection:
    """The selection: every record is in one of the two."""

    kept: tuple[SelectedSample, ...] = ()
    dropped: tuple[DroppedSample, ...] = ()
    found: Mapping[str, int] = field(default_factory=dict[str, int])
    """Samples of each kind before balancing."""

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the selection: numbers of samples by kind and by reason."""
        left = Counter(sample.kind for sample in self.kept)
        return {
            "kept": len(self.kept),
            "dropped": len(self.dropped),
            "kinds": {kind: {"found": n, "kept": left[kind]} for kind, n in sorted(self.found.items())},
            "reasons": dict(Counter(sample.kind for sample in self.dropped).most_common()),
        }


def select_samples(store: SampleStore, options: SelectionOptions) -> SampleSelection:
    """Select among all records of a store. The same records and options give the same selection.

    Raises `SampleError` if a record is damaged.
    """
    fit: list[SelectedSample] = []
    dropped: list[DroppedSample] = []
    kinds: defaultdict[str, list[SelectedSample]] = defaultdict(list)
    for record in store.samples.read():
        result = _check(record, store, options)
        if isinstance(result, SelectedSample):
            fit.append(result)
            kinds[result.kind].append(result)
        else:
            dropped.append(DroppedSample(record.uid, *result))
    found = {kind: len(samples) for kind, samples in kinds.items()}
    room = _share_room(found, options.most)
    kept: set[str] = set()

    def random_order(sample: SelectedSample) -> bytes:
        """Depend on nothing but the seed and the case."""
        return hashlib.sha256(f"{options.seed} {sample.uid}".encode()).digest()

    for kind, samples in kinds.items():
        samples.sort(key=random_order)
        kept |= {sample.uid for sample in samples[: room[kind]]}
        reason = f"Of {found[kind]} samples of {kind}, {room[kind]} are kept for balance."
        dropped += (DroppedSample(sample.uid, reason, "balance") for sample in samples[room[kind] :])
    return SampleSelection(tuple(sample for sample in fit if sample.uid in kept), tuple(dropped), found)


def write_selection(store: SampleStore, selection: SampleSelection) -> None:
    """Write `selected.jsonl`, `dropped.jsonl` and `selection.json` beside the samples.

    Raises `SampleError` if the disk refuses.
    """
    dropped = [{"uid": sample.uid, "reason": sample.reason} for sample in selection.dropped]
    report = json.dumps(selection.as_dict(), ensure_ascii=False, indent=2)
    with report_disk_errors(store.directory, SampleError):
        write_lines(store.directory / "selected.jsonl", map(_dump_line, map(asdict, selection.kept)))
        write_lines(store.directory / "dropped.jsonl", map(_dump_line, dropped))
        write_whole(store.directory / "selection.json", report.encode() + b"\n")


def read_selected(store: SampleStore) -> list[str]:
    """Read the ids of the selected runs.

    Raises `SampleError` if no selection was made, or the file is damaged.
    """
    path = store.directory / "selected.jsonl"
    try:
        return [
            TypeAdapter(str).validate_python(parse_json(line)["run"])
            for line in path.read_bytes().splitlines()
        ]
    except FileNotFoundError:
        raise SampleError("No samples are selected yet.", "Select some first: vrag data select.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SampleError(f"{path} cannot be read: {error}.", "Select again.") from error


def _check(sample: Sample, store: SampleStore, options: SelectionOptions) -> SelectedSample | tuple[str, str]:
    """Return the facts of a sample; or why it does not fit, and the kind of that reason."""
    if sample.outcome is not SampleOutcome.SCORED or sample.score is None or sample.run is None:
        return f"It is {sample.outcome}: {sample.why}", str(sample.outcome)
    if sample.score < options.score:
        return f"Its score is {sample.score}: {sample.why}", "score"
    try:
        run = store.runs.read(sample.run)
    except (RunError, OSError) as error:
        return f"Its run cannot be read: {error}", "run"
    steps = trace(run)
    if fault := _find_fault(run, steps, options):
        return fault
    if sample.cites_gold is False:
        return "Its answer does not cite a page that is known to hold it.", "citation"
    actions = [turn.action for turn in steps.turns]
    return SelectedSample(
        uid=sample.uid,
        run=run.id,
        steps=len(actions),
        searches=sum(isinstance(action, Search) for action in actions),
        crops=sum(isinstance(action, Crop) for action in actions),
        images=len(steps.images),
    )


def _find_fault(run: StoredRun, steps: RunTrace, options: SelectionOptions) -> tuple[str, str] | None:
    """Return the reason a run does not fit, and the kind of that reason; None if it does."""
    if steps.refused:
        return f"A turn was not carried out: {steps.refused[0]}", "invalid turn"
    for kind, count, (least, most) in (
        ("steps", len(steps.turns), options.steps),
        ("images", len(steps.images), options.images),
    ):
        if not least <= count <= most:
            return f"It has {count} {kind}, not {least} to {most}.", kind
    return _find_fault_of_replies(run, steps)


def _find_fault_of_replies(run: StoredRun, steps: RunTrace) -> tuple[str, str] | None:
    """Return what is wrong with the words of a run, and the kind of that; None if nothing is."""
    if any(turn.flags for turn in steps.turns):
        return "A reply does not follow the grammar.", "grammar"
    if run.result.answer is not None and not cited_evidence(run):
        return "Its answer cites nothing that was shown, as the instruction asks.", "citation"
    try:
        profile = profile_named(run.started.settings.profile)
    except SettingsError as error:
        return str(error), "profile"
    if number := steps.over_the_edge(profile):
        return f"The box of turn {number} does not lie inside its picture.", "box"
    return None


def _share_room(found: Mapping[str, int], most: int | None) -> dict[str, int]:
    """Return how many samples of each kind to keep: equal numbers, as far as there are that many."""
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


def _dump_line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
