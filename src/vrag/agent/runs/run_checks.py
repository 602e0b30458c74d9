"""The verification of recorded runs: every event line, picture and message, and the metadata."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from vrag.agent.events import AnswerGiven, Event, RunFailed, event_from_json
from vrag.agent.runs.event_lines import END, EventLine, RunEnd, read_end, repair_lines, unseal_lines
from vrag.agent.runs.run_meta import META, RunMeta
from vrag.agent.runs.run_store import EVENTS, FILES, LOCK, RunStore, is_held
from vrag.atomic_io import read_lines, write_lines, write_whole
from vrag.index.integrity.checksums import checksum, flip_back
from vrag.index.integrity.problems import ProblemKind, VerifyProblem, repair_seal
from vrag.index.integrity.sealed_json import Seal, check_seal, seal_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.index.integrity.problems import Progress

_FILE = re.compile(r"([0-9a-f]{64})\.(jpg|json)")
_ADVICE = "What is left of it can be read in its folder. Ask again, or delete it: vrag runs delete."


class RunReport(NamedTuple):
    """The result of a check of the runs of a store."""

    runs: int
    problems: tuple[VerifyProblem, ...]


def check_runs(store: RunStore, *, repair: bool = False, progress: Progress | None = None) -> RunReport:
    """Check all runs that nobody writes at the moment; with `repair`, flip single bits back.

    Nothing else of a run can be made again. Nothing of it is deleted. Raises `RunError` if the collection is
    gone, and `OSError` if a repair cannot be written.
    """
    ids = sorted(store.stamps())
    problems: list[VerifyProblem] = []
    for number, run in enumerate(ids, 1):
        if not is_held(store.directory / run / LOCK):
            found = list(_RunCheck(store, run).run())
            if repair and found:
                _repair(store.directory / run)
                left = {(problem.file, problem.detail) for problem in _RunCheck(store, run).run()}
                found = [
                    replace(problem, repaired=(problem.file, problem.detail) not in left) for problem in found
                ]
            problems += found
        if progress:
            progress(number, len(ids))
    return RunReport(len(ids), tuple(problems))


class _RunCheck:
    """The check of a run of a store."""

    def __init__(self, store: RunStore, run: str) -> None:
        self._directory = store.directory / run
        self._within = store.within

    def run(self) -> Iterator[VerifyProblem]:
        """Yield the problems of the run."""
        yield from self._check_meta()
        if not (self._directory / EVENTS).is_file():
            yield self._problem(
                EVENTS, "It has no events: it was begun and not written.", ProblemKind.LEFTOVER
            )
            return
        try:
            end = read_end(self._directory)
        except (ValueError, KeyError, TypeError) as error:
            yield self._problem(END, f"What it consists of is damaged: {error}.")
            end = None
        yield from self._check_events(end)
        yield from self._check_files(end)

    def _check_meta(self) -> Iterator[VerifyProblem]:
        try:
            data = (self._directory / META).read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            yield self._problem(META, f"Its metadata cannot be read: {error.strerror}.")
            return
        try:
            is_sound = check_seal(data, tuple(RunMeta.model_fields)) is not Seal.BROKEN
            RunMeta.model_validate_json(data)
        except ValidationError:
            is_sound = False
        if not is_sound:
            advice = (
                "Only administrators see it now. If it cannot be repaired, rename it to set a title again."
            )
            yield self._problem(META, "Its metadata, with owner and title, is damaged.", advice=advice)

    def _check_events(self, end: RunEnd | None) -> Iterator[VerifyProblem]:
        path = self._directory / EVENTS
        size, lines, last = path.stat().st_size, read_lines(path), None
        for number, line in enumerate(unseal_lines(lines), 1):
            last, fault = _read_line(line, number)
            if fault:
                yield self._problem(EVENTS, f"Line {number} is damaged: {fault}.")
        whole = sum(map(len, lines)) + len(lines)
        if end is not None and size != end.bytes:
            text = f"Its events have {size} bytes instead of {end.bytes}: {len(lines)} lines are left."
            yield self._problem(EVENTS, text)
        elif size > whole:
            text = f"Its last line, {len(lines) + 1}, is torn: its process died, or the file was cut."
            yield self._problem(EVENTS, text, ProblemKind.LEFTOVER)
        elif end is None and _is_end(last) and unseal_lines(lines)[0].seal is Seal.SOUND:
            yield self._problem(END, "What it consists of was not written.", ProblemKind.LEFTOVER)

    def _check_files(self, end: RunEnd | None) -> Iterator[VerifyProblem]:
        folder = self._directory / FILES
        present = {path.name: path for path in sorted(folder.iterdir())} if folder.is_dir() else {}
        for name, path in present.items():
            match = _FILE.fullmatch(name)
            if match is None:
                text = "It is no file of the run."
                yield self._problem(f"{FILES}/{name}", text, ProblemKind.LEFTOVER)
            elif hashlib.sha256(path.read_bytes()).hexdigest() != match[1]:
                title = "A picture" if match[2] == "jpg" else "A message"
                yield self._problem(f"{FILES}/{name}", f"{title} of it is not the one that was saved.")
        for name in sorted(end.files.keys() - present.keys()) if end else ():
            yield self._problem(f"{FILES}/{name}", "A file of it is missing.")

    def _problem(
        self, name: str, detail: str, kind: ProblemKind = ProblemKind.DAMAGE, advice: str = _ADVICE
    ) -> VerifyProblem:
        path = self._directory / name
        file = path.relative_to(self._within) if self._within else path
        advice = "" if kind is ProblemKind.LEFTOVER else advice
        return VerifyProblem("", f"run {self._directory.name}", detail, kind, file.as_posix(), advice=advice)


def _read_line(line: EventLine, number: int) -> tuple[Event | None, str]:
    """Return the event of a line, and what is wrong with it."""
    if line.seal is Seal.BROKEN:
        return None, "its checksum does not match"
    try:
        event = event_from_json(line.data)
    except ValidationError as error:
        return None, error.errors()[0]["msg"]
    return event, "" if event.seq == number - 1 else f"it is event {event.seq}"


def _is_end(event: Event | None) -> bool:
    return isinstance(event, AnswerGiven | RunFailed)


def _repair(directory: Path) -> None:
    """Flip back single bits; write the list of files of a finished run where it is missing or damaged."""
    events = directory / EVENTS
    meta = directory / META
    if meta.is_file() and check_seal(meta.read_bytes(), tuple(RunMeta.model_fields)) is Seal.BROKEN:
        _repair_small(meta)
    if not events.is_file():
        return
    try:
        end = read_end(directory)
    except (ValueError, KeyError, TypeError):
        _repair_small(directory / END)
        end = None
    data = events.read_bytes()
    lines = data.split(b"\n")[:-1]
    is_sealed = any(line.seal is not Seal.MISSING for line in unseal_lines(lines))
    repaired = repair_lines(lines) if is_sealed else lines
    if repaired != lines:
        write_lines(events, repaired)
    elif end is not None and data and len(data) == end.bytes and not data.endswith(b"\n"):
        write_whole(events, data[:-1] + b"\n")
    _repair_files(directory, end)
    if end is None and not (directory / END).is_file() and repaired and _ends(repaired):
        sums = {path.name: _sum(path) for path in sorted((directory / FILES).glob("*.*"))}
        write_whole(directory / END, seal_json({"bytes": events.stat().st_size, "files": sums}))


def _repair_files(directory: Path, end: RunEnd | None) -> None:
    for name, expected in end.files.items() if end else ():
        path = directory / FILES / name
        if path.is_file() and hashlib.sha256(data := path.read_bytes()).hexdigest() != path.stem:
            repaired = flip_back(data, expected)
            if repaired is not None and hashlib.sha256(repaired).hexdigest() == path.stem:
                write_whole(path, repaired)


def _repair_small(path: Path) -> None:
    repaired = repair_seal(path.read_bytes())
    if repaired is not None:
        write_whole(path, repaired)


def _ends(lines: Sequence[bytes]) -> bool:
    last = unseal_lines(list(lines))[-1]
    try:
        return last.seal is Seal.SOUND and _is_end(event_from_json(last.data))
    except ValidationError:
        return False


def _sum(path: Path) -> int:
    return checksum(path.read_bytes())
