"""LVBench (arXiv 2406.08035): questions with four options about videos of an hour and more."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from vrag.cases import case_of
from vrag.cases.case_format import any_list, plain_list, text_of
from vrag.errors import CaseError
from vrag.evaluation.benchmark import Hub, OpenBenchmark
from vrag.evaluation.sources.file_lookup import check_name, document
from vrag.evaluation.sources.load_report import Remarks
from vrag.evaluation.sources.source_files import (
    blamed,
    choose_split,
    distinct_names,
    find_all,
    missing,
    objects,
)
from vrag.evaluation.sources.videos import SUFFIXES, find_videos
from vrag.types import AnswerFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vrag.evaluation.benchmark import FileDocument, StreamDocument
    from vrag.evaluation.sources.archive import Member
    from vrag.types import Case

__all__ = ["LVBench", "stretch"]

HUB = Hub(
    repo="zai-org/LVBench",
    files=("video_info.meta.jsonl",),
    note=(
        "Its videos come from YouTube, or as archives; each is to be called <key>.mp4, or by its number, "
        "with the .json of video2dataset beside it."
    ),
)
SPLITS = {
    "test": ("video_info.meta.jsonl", "data/train-*.parquet", "data/test-*.parquet", "train-*.parquet"),
}
_MOMENT = r"(\d{1,3}):(\d{1,2})(?::(\d{1,2}))?"
_STRETCH = re.compile(rf"{_MOMENT}\s*[-–—~]\s*(?:{_MOMENT}|(end))", re.IGNORECASE)
_LETTER = re.compile(r"\(?([A-Z])\)?[.:]?", re.IGNORECASE)
_OPTION = re.compile(r"(?m)^\s*\(?A[).:]")
_MARK = re.compile(r"^\s*\(?[A-Z][).:]\s*")


class _Question(NamedTuple):
    where: str
    key: str
    """Of its video."""
    kind: str
    """What kind of video it is."""
    seconds: float
    """Length of the video; infinite where it is not told."""
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LVBench:
    """The test set: the published lines, a video each, or a parquet with a question a row.

    Questions about a video that is not there are asked all the same, as their authors' number of questions
    is what scores are shares of. Kinds of questions, of which one has several, are source types, so that it
    counts in each of them as in the published scores.
    """

    name: str = "lvbench"
    title: str = "LVBench (arXiv 2406.08035)"
    about: str = "questions with four options about videos of an hour and more"
    licence: str = "CC BY-NC-SA 4.0, for research; the videos belong to their makers"
    hub: Hub = HUB
    measures: tuple[str, ...] = ("lvbench",)

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Finds the questions and the videos.

        Args:
            folder: Where they are; the videos at any depth, or in zip archives. See `find_videos`.
            split: There is one, `test`.

        Raises:
            CaseError: If questions or all videos are missing; while reading, if a row is not as published,
                or an archive is damaged.
        """
        _, paths = choose_split(folder, SPLITS, split, self.hub)
        if not any(path.suffix.lower() in {*SUFFIXES, ".zip"} for path in find_all(folder, "*")):
            raise missing(folder, "videos", self.hub)
        reader = _LVBenchReader(paths, folder)
        return OpenBenchmark(
            distinct_names(reader.cases(), reader.remarks), reader.documents(), reader.remarks.notes
        )


@dataclass(frozen=True, slots=True)
class _LVBenchReader:
    paths: Sequence[Path]
    folder: Path
    remarks: Remarks = field(default_factory=Remarks)
    videos: dict[str, Path | Member] = field(default_factory=dict[str, "Path | Member"])
    """By key; filled when the keys are known."""

    def cases(self) -> Iterator[Case]:
        keys = dict.fromkeys(question.key for question in _questions(self.paths))
        self.videos.update(find_videos(self.folder, keys, self.remarks))
        there = False
        for question in _questions(self.paths):
            there |= question.key in self.videos
            yield self._case(question)
        if not there:
            raise CaseError(
                f"None of the {len(self.videos):,} videos there is one that is asked about.", HUB.note
            )

    def documents(self) -> Iterator[FileDocument | StreamDocument]:
        keys = dict.fromkeys(question.key for question in _questions(self.paths))
        for key in keys:
            if key in self.videos:
                yield document(self._name(key), self.videos[key])

    def _name(self, key: str) -> str:
        return f"{key}{Path(self.videos[key].name).suffix}" if key in self.videos else f"{key}.mp4"

    def _case(self, question: _Question) -> Case:
        where, row = question.where, question.row
        if question.key not in self.videos:
            self.remarks.count(
                "videos are missing; questions about them are asked all the same", question.key
            )
        with blamed(where):
            uid = f"lvbench-{text_of(row, 'uid')}"
            fields = {
                "uid": uid,
                "query": self._query(row, uid),
                "reference_answer": _letter(text_of(row, "answer")),
                "meta_info": {
                    "file_name": check_name(self._name(question.key), where),
                    "source_type": _kinds(row.get("question_type")),
                    "document_type": question.kind,
                    "answer_format": AnswerFormat.LETTER.value,
                    "benchmark": "lvbench",
                },
            }
        span = stretch(row.get("time_reference"), question.seconds)
        if span is None:
            self.remarks.count("questions have a time reference that cannot be read, and no gold", uid)
        return replace(case_of(fields, where), spans=() if span is None else (span,))

    def _query(self, row: Mapping[str, Any], uid: str) -> str:
        """The question with its options, which stand in it, or in a column of their own."""
        text = text_of(row, "question")
        if _OPTION.search(text):
            return text
        options = [
            _MARK.sub("", option) for option in any_list(row.get("options")) if isinstance(option, str)
        ]
        if not options:
            self.remarks.count("questions list no options", uid)
        marked = (f"({chr(ord('A') + at)}) {option}" for at, option in enumerate(options[:26]))
        return "\n".join([text.rstrip(), *marked])


def stretch(reference: object, seconds: float = math.inf) -> tuple[float, float] | None:
    """The stretch of a video that a time reference tells, in seconds from its beginning.

    Args:
        reference: As in `02:10-1:00:05`: minutes and seconds, or hours before them; its end may be `end`.
        seconds: Length of the video.

    Returns:
        Start and end. A moment lasts the second that it names. None where the text is no such reference,
        its end comes before its start, or it begins a minute or more after the video ends.

    >>> stretch("02:10-1:00:05"), stretch("00:07-00:07"), stretch("00:00-end", 90.0), stretch("3:00-2:00")
    ((130.0, 3605.0), (7.0, 8.0), (0.0, 90.0), None)
    """
    found = _STRETCH.fullmatch(reference.strip()) if isinstance(reference, str) else None
    if found is None:
        return None
    start = _seconds(*found.groups()[:3])
    end = seconds if found[7] else _seconds(*found.groups()[3:6])
    if start is None or end is None or end < start or start > seconds + 60 or math.isinf(end):
        return None
    return start, max(end, start + 1)


def _seconds(first: str, second: str, third: str | None) -> float | None:
    """Seconds of `minutes:seconds`, in which minutes may be many, or `hours:minutes:seconds`."""
    hours, minutes, rest = (
        (0, int(first), int(second)) if third is None else (int(first), int(second), int(third))
    )
    if rest > 59 or (third is not None and minutes > 59):
        return None
    return float(hours * 3600 + minutes * 60 + rest)


def _questions(paths: Sequence[Path]) -> Iterator[_Question]:
    """The questions of all rows.

    Raises:
        CaseError: If a row has no video.
    """
    for where, row in objects(paths):
        with blamed(where):
            key = _key(row)
            asked: list[object] = plain_list(row, "qa") if "qa" in row else [row]
        kind = row.get("type")
        for at, question in enumerate(asked):
            place = f"{where}, qa[{at}]" if "qa" in row else where
            if not isinstance(question, dict):
                raise CaseError(f"{place} is no object.", "Take the file as it was published.")
            yield _Question(
                place,
                key,
                kind if isinstance(kind, str) else "",
                _length(row.get("video_info")),
                cast("dict[str, Any]", question),
            )


def _key(row: Mapping[str, Any]) -> str:
    """The key of the video: in a column, or as the name of its file."""
    if row.get("key") is not None or "video_path" not in row:
        return text_of(row, "key")
    return text_of(row, "video_path").replace("\\", "/").rpartition("/")[2].rpartition(".")[0]


def _length(info: object) -> float:
    minutes = cast("dict[str, Any]", info).get("duration_minutes") if isinstance(info, dict) else None
    if isinstance(minutes, int | float) and not isinstance(minutes, bool) and 0 < minutes < 1e6:
        return minutes * 60.0
    return math.inf


def _kinds(value: object) -> list[str]:
    kinds = [value] if isinstance(value, str) else any_list(value)
    return list(dict.fromkeys(kind for kind in kinds if isinstance(kind, str) and kind))


def _letter(answer: str) -> str:
    """The letter of an option.

    Raises:
        CaseError: If it is none.
    """
    found = _LETTER.fullmatch(answer.strip())
    if found is None:
        raise CaseError(f"The answer is no letter: {answer!r:.40}.")
    return found[1].upper()
