"""Preparation of published benchmarks: their files downloaded, and one folder to index and ask about.

::

    benchmark.json      the benchmarks, their licences, what was dropped or corrected; written last
    cases.json          their questions, in the dataset JSON
    documents/          their documents, of all benchmarks together
    .preparing          lock of the process that prepares

Several benchmarks become one corpus, as the papers do. Where two have a document of the same name, the later
one's is renamed, in its cases as well; the same bytes under the same name are there once.

Only the files that are read are fetched, and what is in the cache already is not fetched again. The client of
the Hugging Face hub does it, so its settings count: `HF_ENDPOINT`, `HF_TOKEN`, `HF_HOME`, `HF_HUB_OFFLINE`.
Nothing that comes is executed.
"""

from __future__ import annotations

import errno
import filecmp
import os
import re
import secrets
import shutil
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from vrag.atomic_io import one_writer, write_whole
from vrag.cases import write_cases
from vrag.corpus.formats.image_binding import bind_pages
from vrag.datasets.files.lookup import check_name
from vrag.datasets.protocols import FileDocument, PageDocument, StreamDocument, TextDocument
from vrag.datasets.registry import open_cases
from vrag.embed.device import library
from vrag.errors import CaseError, VragError, first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vrag.datasets.protocols import Benchmark, DocumentSource, OpenBenchmark
    from vrag.types import Case

ABOUT, CASES, DOCUMENTS = "benchmark.json", "cases.json", "documents"
LOCK = ".preparing"
"""Lock of the process that prepares; the other files of a folder that has it were made by one."""
SCHEMA_VERSION = 1
_FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
PREPARE_AGAIN = "Prepare it again: vrag eval prepare, with the same --out."
_REPOSITORY = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


class PreparedPart(BaseModel):
    """One benchmark of a prepared folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    licence: str
    source: str
    """Folder of its published files."""
    split: str | None
    cases: int
    documents: int
    measures: tuple[str, ...]
    """Measures that its authors report, their main one first."""
    notes: tuple[str, ...]
    """Sentences about what was dropped or corrected."""


class _About(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int
    parts: tuple[PreparedPart, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared folder."""

    folder: Path
    parts: tuple[PreparedPart, ...]

    @property
    def documents(self) -> Path:
        """Folder of its documents."""
        return self.folder / DOCUMENTS

    def cases(self) -> list[Case]:
        """Read its questions, in order; a `CaseError` if they are damaged."""
        try:
            return list(open_cases(self.folder / CASES)[1])
        except CaseError as error:
            raise CaseError(error.message, PREPARE_AGAIN) from error


@dataclass(frozen=True, slots=True)
class _PreparedDocuments:
    folder: Path
    tell: Callable[[str], None]
    renamed: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """New names by benchmark and original name, where they differ."""
    taken: set[str] = field(default_factory=set[str])
    """Names in lower case, as some file systems ignore case."""
    given: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Benchmarks and original names of all documents."""

    def put(self, source: DocumentSource, benchmark: str) -> bool:
        """Write a document, whole or not at all, and return whether it is a new one."""
        name = source.name
        try:
            check_name(name, benchmark)
        except CaseError as error:
            raise CaseError(f"{benchmark} has a document that cannot be a file: {name!r}.") from error
        beside = self.folder / f".{secrets.token_hex(8)}"
        try:
            _write(source, beside)
            if name.lower() in self.taken:
                if (self.folder / name).is_file() and filecmp.cmp(beside, self.folder / name, shallow=False):
                    return False
                if (benchmark, name) in self.given:
                    raise CaseError(f"{benchmark} has two documents that are called {name!r}.")
                path = PurePosixPath(name)
                tries = (f"{path.stem}--{benchmark}{'-' * n}{path.suffix}" for n in range(1000))
                name = next(free for free in tries if free.lower() not in self.taken)
                self.renamed[benchmark, source.name] = name
            beside.replace(self.folder / name)
        finally:
            beside.unlink(missing_ok=True)
        self.taken.add(name.lower())
        self.given.add((benchmark, source.name))
        self.tell(name)
        return True

    def case(self, case: Case, benchmark: str) -> Case:
        """Return a case with the new names of its documents."""

        def here(name: str) -> str:
            return self.renamed.get((benchmark, name), name)

        return replace(
            case,
            benchmark=benchmark,
            file_name=here(case.file_name),
            gold=tuple(replace(gold, document=here(gold.document)) for gold in case.gold),
            regions=tuple(
                replace(region, document=here(region.document) if region.document else "")
                for region in case.regions
            ),
        )


def prepare(
    benchmarks: Sequence[tuple[Benchmark, Path, str | None]],
    out: Path,
    *,
    limit: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Prepared:
    """Prepare benchmarks for a run, each with the folder of its files and its split.

    Files of an earlier preparation in the folder are made again: they are kept while questions are read, and
    removed before the first document. `limit` is the maximum number of cases of each benchmark, the first
    ones; all its documents are prepared. `tell` is called with the name of each. Raises `CaseError` if files
    are missing or not as published, or the folder cannot be written.
    """
    names = [benchmark.name for benchmark, *_ in benchmarks]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise CaseError(f"{twice} is named twice.", "Prepare splits of one benchmark apart.")
    try:
        # Documents in a folder that was not prepared are the user's own.
        present = {path.name for path in out.iterdir()} if out.is_dir() else set[str]()
        known = {ABOUT, CASES, DOCUMENTS, LOCK, "collection", *_unfinished_files(out)}
        if others := sorted(present - known if present & {ABOUT, LOCK} else present):
            raise CaseError(f"{out} holds other files: {others[0]!r}.", "Name another folder.")
        for _, folder, _ in benchmarks:  # they would be removed before they are read
            if folder.resolve().is_relative_to(out.resolve()):
                raise CaseError(f"{folder} lies in {out}, which is made again.", "Name another folder.")
        opened = [
            _Opened(benchmark, folder, split, benchmark.open(folder, split))
            for benchmark, folder, split in benchmarks
        ]
        out.mkdir(parents=True, exist_ok=True)
        busy = CaseError(f"Another process is preparing {out}.", "Wait for it, or name another folder.")
        with one_writer(out / LOCK, busy):
            for part in opened:
                part.read_cases(limit)
            counts = Counter(case.uid for part in opened for case in part.cases)
            if repeated := next((uid for uid, count in counts.items() if count > 1), None):
                raise CaseError(f"Two questions have the uid {repeated!r:.80}.")
            return _prepare(opened, out, tell)
    except OSError as error:
        raise _disk_error(error, out) from error


@dataclass(slots=True)
class _Opened:
    benchmark: Benchmark
    folder: Path
    split: str | None
    found: OpenBenchmark
    cases: list[Case] = field(default_factory=list["Case"])

    def read_cases(self, limit: int | None) -> None:
        self.cases = list(self.found.cases)[:limit]
        if not self.cases:
            raise CaseError(
                f"{self.folder} holds no questions of {self.benchmark.title}.", "Is it another split?"
            )

    def part(self, documents: int) -> PreparedPart:
        """Describe it when its documents were taken: then its notes are complete."""
        return PreparedPart(
            name=self.benchmark.name,
            title=self.found.title or self.benchmark.title,
            licence=self.benchmark.licence,
            source=str(self.folder),
            split=self.split,
            cases=len(self.cases),
            documents=documents,
            measures=self.benchmark.measures,
            notes=tuple(self.found.notes),
        )


def _prepare(opened: Sequence[_Opened], out: Path, tell: Callable[[str], None]) -> Prepared:
    for name in (ABOUT, *_unfinished_files(out)):  # an earlier preparation
        (out / name).unlink(missing_ok=True)
    shutil.rmtree(out / DOCUMENTS, ignore_errors=True)
    documents = _PreparedDocuments(out / DOCUMENTS, tell)
    documents.folder.mkdir(parents=True)
    cases: list[Case] = []
    parts: list[PreparedPart] = []
    for part in opened:
        name = part.benchmark.name
        parts.append(part.part(sum(documents.put(source, name) for source in part.found.documents)))
        cases += [documents.case(case, name) for case in part.cases]
    write_cases(out / CASES, cases)
    about = _About(schema_version=SCHEMA_VERSION, parts=tuple(parts))
    write_whole(out / ABOUT, (about.model_dump_json(indent=2) + "\n").encode())
    return Prepared(out, about.parts)


def read_prepared(folder: Path) -> Prepared:
    """Read a prepared folder.

    Raises `CaseError` if it was not prepared, or not completely, or documents were removed since.
    """
    try:
        about = _About.model_validate_json((folder / ABOUT).read_bytes())
    except FileNotFoundError as error:
        hint = "Prepare it completely: vrag eval prepare."
        raise CaseError(f"{folder} is not a prepared benchmark.", hint) from error
    except OSError as error:
        message = f"{folder / ABOUT} cannot be read: {error.strerror or error}."
        raise CaseError(message, PREPARE_AGAIN) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        message = f"{folder / ABOUT} is damaged: {where and where + ': '}{first['msg']}."
        raise CaseError(message, PREPARE_AGAIN) from error
    if about.schema_version != SCHEMA_VERSION:
        raise CaseError(f"{folder} was prepared by another version.", PREPARE_AGAIN)
    prepared = Prepared(folder, about.parts)
    expected = sum(part.documents for part in about.parts)
    try:
        present = sum(not path.name.startswith(".") for path in prepared.documents.iterdir())
    except OSError:
        present = 0
    if present < expected:  # a benchmark that lacks documents is another one
        missing = f"{expected - present} of the {expected} documents of {folder}"
        raise CaseError(f"{missing} are missing.", PREPARE_AGAIN)
    return prepared


def _unfinished_files(out: Path) -> list[str]:
    return [path.name for name in (ABOUT, CASES) for path in out.glob(f".{name}.*")]


def _write(source: DocumentSource, target: Path) -> None:
    """Write a document; a file on the same disk gets a hard link."""
    match source:
        case TextDocument():
            target.write_text(source.text, encoding="utf-8", errors="replace")
        case PageDocument():
            try:
                target.write_bytes(bind_pages(source.pages()))
            except VragError as error:
                raise CaseError(f"{source.name} cannot be made: {error.message}", error.hint) from error
        case StreamDocument():
            with target.open("wb") as file:
                file.writelines(source.pieces())
        case FileDocument():
            try:
                os.link(source.path.resolve(), target)
            except OSError:
                shutil.copyfile(source.path, target)


def _disk_error(error: OSError, out: Path) -> CaseError:
    """Return the error of a file that cannot be read, or of a folder that cannot be written."""
    named, target = out.absolute(), out.absolute()
    if isinstance(error.filename, str | bytes):
        named = Path(os.fsdecode(error.filename)).absolute()
    is_input = not named.is_relative_to(target) and not target.is_relative_to(named)
    reason = error.strerror or error
    if is_input and error.errno not in _FULL_DISK:  # the error of a copy to a full disk names its source
        return CaseError(f"{named} cannot be read: {reason}.", "Repair it, or remove it from the folder.")
    hint = "Free some disk space, fix the permissions, or name another folder."
    return CaseError(f"{out} cannot be written: {reason}.", hint)


def is_on_hub(benchmark: Benchmark) -> bool:
    """Return whether a benchmark's files are a data set of the hub."""
    return _REPOSITORY.fullmatch(benchmark.hub.repo) is not None


def hub_repository(benchmark: Benchmark, split: str | None = None) -> str:
    """Return the data set of the hub that has a benchmark's files.

    Raises `CaseError` if they are somewhere else, or the user's own; or those of the split are not known.
    """
    repo = benchmark.hub.repo
    if not is_on_hub(benchmark):
        raise CaseError(
            f"The files of {benchmark.name} are not on the hub: {repo}.",
            f"{benchmark.hub.note} Name their folder: vrag eval prepare {benchmark.name}=FOLDER.".strip(),
        )
    splits = benchmark.hub.splits
    if split is not None and splits and split not in splits:
        raise CaseError(
            f"Of {benchmark.name} {', '.join(splits)} alone is fetched, not {split!r:.40}.",
            f"Leave the split out. {_by_hand(benchmark, split)} {benchmark.hub.note}".strip(),
        )
    return repo


def fetch(benchmark: Benchmark) -> Path:
    """Fetch the files of a benchmark that are not in the hub's cache, and return their folder.

    Where the hub cannot be reached, or must not be (`HF_HUB_OFFLINE`), files of an earlier fetch are used.

    The folder is a snapshot: its name is the revision. Raises `CaseError` if the hub does not have the files,
    restricts access or cannot be reached, or they cannot be written; `MissingExtra` if the hub's client is
    not installed.
    """
    repo = hub_repository(benchmark)
    hub = library("huggingface_hub")
    patterns = list(benchmark.hub.files)
    folder = _snapshot(hub.snapshot_download, benchmark, repo, patterns)
    if not folder.is_dir() or not any(folder.iterdir()):
        raise CaseError(
            f"{repo} holds none of the files {', '.join(patterns) or 'of a data set'}.",
            f"Its authors may have moved them: see {_page(repo)}. {_by_hand(benchmark)}",
        )
    return folder


def _snapshot(download: Callable[..., str], benchmark: Benchmark, repo: str, patterns: list[str]) -> Path:
    errors, page, by_hand = library("huggingface_hub.errors"), _page(repo), _by_hand(benchmark)
    try:
        return Path(download(repo, repo_type="dataset", allow_patterns=patterns or None))
    except errors.GatedRepoError as error:
        raise CaseError(
            f"{repo} is available after you agree to its terms.",
            f"Agree to them at {page}, then run: hf auth login (or set HF_TOKEN). {by_hand}",
        ) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise CaseError(
            f"The hub has no data set {repo}, or does not show it to you.",
            f"See {page}; if you may read it, run: hf auth login. {by_hand}",
        ) from error
    except Exception as error:  # the hub's client lets errors of many network layers through
        if isinstance(error.__cause__, errors.OfflineModeIsEnabled):
            raise CaseError(
                f"{repo} was not fetched completely before, and HF_HUB_OFFLINE is set.",
                f"Unset HF_HUB_OFFLINE. {by_hand}",
            ) from error
        raise CaseError(
            f"{repo} could not be fetched: {first_line(error).removeprefix('Got: ')}.",
            f"Check that {page} is reachable; the same command continues. {by_hand}",
        ) from error


def _page(repo: str) -> str:
    return f"{library('huggingface_hub.constants').ENDPOINT}/datasets/{repo}"


def _by_hand(benchmark: Benchmark, split: str = "") -> str:
    name = f"{benchmark.name}:{split}" if split else benchmark.name
    return f"Or download the files by hand: vrag eval prepare {name:.80}=FOLDER."
