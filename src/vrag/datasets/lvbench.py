"""LVBench (arXiv 2406.08035): questions with four options about videos of an hour and more."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import parse_qs, urlsplit

from vrag.cases.case_json import case_of
from vrag.cases.rows import any_list, any_object, object_of, plain_list, text_of
from vrag.datasets.files.archive import members
from vrag.datasets.files.clean_cases import Remarks, distinct_names
from vrag.datasets.files.lookup import blamed, check_name, choose_split, document, find_all, missing, objects
from vrag.datasets.protocols import Benchmark, Hub, OpenBenchmark
from vrag.errors import CaseError
from vrag.metrics import normalised
from vrag.types import AnswerFormat

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from vrag.datasets.files.archive import Member
    from vrag.datasets.protocols import FileDocument, StreamDocument
    from vrag.types import Case

HUB = Hub(
    repo="zai-org/LVBench",
    files=("video_info.meta.jsonl",),
    note=(
        "Its videos come from YouTube, or as archives; each is to be called <key>.mp4, or by its number, "
        "with the .json of video2dataset beside it."
    ),
)
SPLITS = {"test": ("video_info.meta.jsonl", "data/train-*.parquet", "data/test-*.parquet", "train-*.parquet")}
_MOMENT = r"(\d{1,3}):(\d{1,2})(?::(\d{1,2}))?"
_STRETCH = re.compile(rf"{_MOMENT}\s*[-–—~]\s*(?:{_MOMENT}|(end))", re.IGNORECASE)
_LETTER = re.compile(r"\(?([A-Z])\)?[.:]?", re.IGNORECASE)
_OPTION = re.compile(r"(?m)^\s*\(?A[).:]")
_MARK = re.compile(r"^\s*\(?[A-Z][).:]\s*")
SUFFIXES = (".mp4", ".mkv", ".webm", ".m4v", ".mov", ".avi")
"""Endings of videos; of one in several formats, the first is taken."""
MAX_METADATA_BYTES = 2**20
"""Length of a metadata file."""
_NUMBER = re.compile(r"\d{5,}")
"""Name of a video by video2dataset: the digits of its shard, then those of its place in it."""
_PLACES = ("embed", "live", "shorts", "v")
"""Parts before the key in the path of an address."""
_Video = TypeVar("_Video", bound="Path | Member")


class _Question(NamedTuple):
    where: str
    key: str
    """Key of its video."""
    kind: str
    """Kind of its video."""
    seconds: float
    """Length of the video; infinite if unknown."""
    row: Mapping[str, Any]


class LVBench(Benchmark):
    """The test set: the published lines, a video each, or a parquet with a question a row.

    Questions about a video that is not there are asked all the same, as their authors' number of questions
    is what scores are shares of. Kinds of questions, of which one has several, are source types, so that it
    counts in each of them as in the published scores.
    """

    name = "lvbench"
    title = "LVBench (arXiv 2406.08035)"
    about = "questions with four options about videos of an hour and more"
    licence = "CC BY-NC-SA 4.0, for research; the videos belong to their makers"
    hub = HUB
    measures = ("lvbench",)

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Find the questions, and the videos at any depth, or in zip archives; see `find_videos`."""
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
    """Videos by key; filled when the keys are known."""

    def cases(self) -> Iterator[Case]:
        keys = dict.fromkeys(question.key for question in _questions(self.paths))
        self.videos.update(find_videos(self.folder, keys, self.remarks))
        for question in _questions(self.paths):
            yield self._case(question)
        if keys.keys().isdisjoint(self.videos):
            raise CaseError(f"None of the {len(self.videos):,} videos is one that is asked about.", HUB.note)

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
        kinds = row.get("question_type")
        kinds = [kinds] if isinstance(kinds, str) else any_list(kinds)
        with blamed(where):
            uid = f"lvbench-{text_of(row, 'uid')}"
            query, answer = text_of(row, "question"), text_of(row, "answer")
            if not _OPTION.search(query):  # the options are in a column of their own
                options = [
                    _MARK.sub("", text) for text in any_list(row.get("options")) if isinstance(text, str)
                ]
                if not options:
                    self.remarks.count("questions list no options", uid)
                marked = (f"({chr(ord('A') + at)}) {option}" for at, option in enumerate(options[:26]))
                query = "\n".join([query.rstrip(), *marked])
            letter = _LETTER.fullmatch(answer.strip())
            if letter is None:
                raise CaseError(f"The answer is not a letter: {answer!r:.40}.")
            fields = {
                "uid": uid,
                "query": query,
                "reference_answer": letter[1].upper(),
                "meta_info": {
                    "file_name": check_name(self._name(question.key), where),
                    "source_type": list(
                        dict.fromkeys(kind for kind in kinds if isinstance(kind, str) and kind)
                    ),
                    "document_type": question.kind,
                    "answer_format": AnswerFormat.LETTER.value,
                    "benchmark": "lvbench",
                },
            }
        span = stretch(row.get("time_reference"), question.seconds)
        if span is None:
            self.remarks.count("questions have a time reference that cannot be read, and no gold", uid)
        return replace(case_of(fields, where), spans=() if span is None else (span,))


def stretch(reference: object, seconds: float = math.inf) -> tuple[float, float] | None:
    """Return start and end of a time reference, in seconds from the beginning of a video of this length.

    It has minutes and seconds, or hours before them, as in `02:10-1:00:05`; its end may be `end`. A moment
    lasts the second that it names. None where the text is not a time reference, its end comes before its
    start, or it begins a minute or more after the video ends.

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
    """Return the seconds of `minutes:seconds`, in which minutes may be many, or `hours:minutes:seconds`."""
    hours, minutes, rest = (
        (0, int(first), int(second)) if third is None else (int(first), int(second), int(third))
    )
    if rest > 59 or (third is not None and minutes > 59):
        return None
    return float(hours * 3600 + minutes * 60 + rest)


def _questions(paths: Sequence[Path]) -> Iterator[_Question]:
    for where, row in objects(paths):
        with blamed(where):
            if row.get("key") is not None or "video_path" not in row:
                key = text_of(row, "key")
            else:
                key = text_of(row, "video_path").replace("\\", "/").rpartition("/")[2].rpartition(".")[0]
            values: list[object] = plain_list(row, "qa") if "qa" in row else [row]
        kind, info = row.get("type"), row.get("video_info")
        minutes = any_object(info).get("duration_minutes")
        seconds = math.inf
        if isinstance(minutes, int | float) and not isinstance(minutes, bool) and 0 < minutes < 1e6:
            seconds = minutes * 60.0
        for at, value in enumerate(values):
            place = f"{where}, qa[{at}]" if "qa" in row else where
            with blamed():
                question = object_of(value, place)
            yield _Question(place, key, kind if isinstance(kind, str) else "", seconds, question)


def find_videos(folder: Path, keys: Collection[str], remarks: Remarks) -> dict[str, Path | Member]:
    """Find the videos in a folder, however deep; where some are missing, those in its zip archives as well.

    A video is named by its key; or by a number, as by video2dataset, with a `.json` beside it that has its
    address. Raises `CaseError` if an archive that is looked into is damaged; see `members`.

    Keys are ids at YouTube. Videos are returned by their keys, and by their names without ending.
    """
    videos = _in_order(path for path in find_all(folder, "*") if path.suffix.lower() in SUFFIXES)
    found: dict[str, Path | Member] = {}
    for video in videos:
        found.setdefault(video.stem, video)
    for video in videos:
        if _NUMBER.fullmatch(video.stem) and video.stem not in keys:
            metadata_keys = _read_keys(video.with_suffix(".json"))
            found |= {key: video for key in metadata_keys if key not in found}
            if not metadata_keys:
                remarks.count(
                    "videos are named by a number, without a .json beside that says which they are",
                    video.name,
                )
    for archive in find_all(folder, "*.[zZ][iI][pP]"):
        if all(key in found for key in keys):
            break
        for video in _in_order(members(archive, SUFFIXES)):
            found.setdefault(video.path.stem, video)
    return found


def _in_order(videos: Iterable[_Video]) -> list[_Video]:
    return sorted(videos, key=lambda video: SUFFIXES.index(Path(video.name).suffix.lower()))


def _read_keys(path: Path) -> list[str]:
    """Return candidates for the key in the metadata file beside a video, the surest first.

    The `key` of video2dataset is its number.
    """
    try:
        with path.open("rb") as file:
            metadata = any_object(json.loads(file.read(MAX_METADATA_BYTES)))
    except (OSError, ValueError, RecursionError):
        return []
    keys = [_key_in(metadata.get(name)) for name in ("url", "webpage_url", "original_url")]
    keys += [key for name in ("video_id", "id", "youtube_id") if isinstance(key := metadata.get(name), str)]
    return list(dict.fromkeys(filter(None, keys)))


def _key_in(url: object) -> str:
    """Return the id of a video in its address at YouTube; empty where there is none.

    >>> _key_in("https://www.youtube.com/watch?v=Cm73ma6Ibcs&t=5"), _key_in("https://youtu.be/Cm73ma6Ibcs")
    ('Cm73ma6Ibcs', 'Cm73ma6Ibcs')
    """
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        asked = parse_qs(parts.query).get("v", [""])[0]
    except ValueError:  # as of a half-open [
        return ""
    host, path = (parts.hostname or "").removeprefix("www.").removeprefix("m."), parts.path.split("/")[1:]
    if host == "youtu.be":
        return path[0] if path else ""
    if host != "youtube.com":
        return ""
    return asked or (path[1] if len(path) > 1 and path[0] in _PLACES else "")


_OPTION_LINE = re.compile(r"^[ \t]*\(?([A-D])[).:][ \t]*(\S.*)$", re.MULTILINE)
"""A line of the question with an option, as in `(A) A dog`."""
_ALONE = re.compile(r"\W*([A-Da-d])\W*")
_NAMES = (
    re.compile(r"\(([A-Da-d])\)"),
    re.compile(r"\A\W*([A-D])[).:]"),
    re.compile(r"\b(?i:answer|option|choice)(?i:\s+is)?\W{1,3}([A-D])\b"),
    re.compile(r"(?<![\w'’])([B-D](?![\w'’])|A(?=\s*(?:[.,;:!?]|$)))"),  # sentences begin with "A" as a word
)
"""Ways to name an option, the surest first."""


def score(case: Case, answer: str | None) -> Mapping[str, float]:
    """Measure `lvbench`: whether the letter is right, and `lvbench/official`: the same by the script.

    The script takes "The answer is B" for a T, and "b" for no B. `lvbench` reads letters as people do; see
    `chosen_letter`. By both an answer without the right letter is wrong.

    Deviation: a missing answer is wrong; the script leaves it out of the mean. Who guesses has a quarter.
    """
    if answer is None:
        return {"lvbench": 0.0, "lvbench/official": 0.0}
    right = {first_letter(reference).upper() for reference in case.references} - {""}
    return {
        "lvbench": float(chosen_letter(answer, case.query) in right),
        "lvbench/official": float(first_letter(answer) in right),
    }


def first_letter(answer: str) -> str:
    """Return the letter that the published script takes, or what it takes for one; empty of an empty answer.

    Of the text before the first closing bracket, it takes what follows the first opening one, and of that the
    first character.

    >>> first_letter("(B) A dog"), first_letter("The answer is B")
    ('B', 'T')
    """
    text = answer.strip().split(")", maxsplit=1)[0].strip()
    if "(" in text:
        text = text.split("(")[1].strip()
    return text[:1]


def chosen_letter(answer: str, question: str) -> str | None:
    """Return the option that an answer chooses; None where it chooses none, or several.

    The answer is the letter; or the text of an option; or begins with the letter and a mark; or names
    one, in brackets, after "answer" or "option", or as a capital that stands alone. The question has its
    options, each in a line such as `(A) A dog`.

    >>> chosen_letter("I think it is B.", "Who barks?"), chosen_letter("B or C", "Who barks?")
    ('B', None)
    """
    alone = _ALONE.fullmatch(answer)
    if alone:
        return alone[1].upper()
    words = normalised(answer)
    if words:
        matching = {letter for letter, text in _OPTION_LINE.findall(question) if normalised(text) == words}
        if len(matching) == 1:
            return matching.pop()
    for name in _NAMES:
        letters = {letter.upper() for letter in name.findall(answer)}
        if letters:
            return letters.pop() if len(letters) == 1 else None
    return None
