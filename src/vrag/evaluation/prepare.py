"""Benchmarks as they were published → one folder that can be indexed and asked about.

::

    benchmark.json      which benchmarks, their licences, what was dropped or mended; written last
    cases.json          their questions, in the dataset JSON
    documents/          their documents, of all benchmarks together
    .preparing          held by the one process that prepares

Several benchmarks become one corpus, as the papers do. Where two have a document of the same name, the later
one's is renamed, in its cases as well; the same bytes under the same name are there once.
"""

from __future__ import annotations

import errno
import filecmp
import os
import secrets
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from vrag.atomic_io import one_writer, write_whole
from vrag.cases import write_cases
from vrag.corpus.formats.images_to_pdf import bind_pages
from vrag.datasets.protocols import FileDocument, PageDocument, StreamDocument, TextDocument
from vrag.datasets.registry import open_cases
from vrag.errors import CaseError, VragError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vrag.datasets.protocols import Benchmark, DocumentSource, OpenBenchmark
    from vrag.types import Case

ABOUT, CASES, DOCUMENTS = "benchmark.json", "cases.json", "documents"
LOCK = ".preparing"
"""Held by the one process that prepares; what else is in a folder that has it is ours."""
SCHEMA_VERSION = 1
LONGEST_NAME = 200
"""Bytes of a file name."""
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
ANEW = "Prepare it anew: vrag eval prepare, with the same --out."


class PreparedPart(BaseModel):
    """One benchmark of a prepared folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    licence: str
    source: str
    """The folder that it was read from."""
    split: str | None
    cases: int
    documents: int
    measures: tuple[str, ...]
    """What its authors report, their main measure first."""
    notes: tuple[str, ...]
    """What was dropped or mended."""


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
        """Where its documents lie."""
        return self.folder / DOCUMENTS

    def cases(self) -> list[Case]:
        """Its questions, in order.

        Raises:
            CaseError: If they were damaged.
        """
        try:
            return list(open_cases(self.folder / CASES)[1])
        except CaseError as error:
            raise CaseError(error.message, ANEW) from error


@dataclass(frozen=True, slots=True)
class _PreparedDocuments:
    """The documents of a folder that is being prepared."""

    folder: Path
    tell: Callable[[str], None]
    renamed: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """By benchmark and the name there: the name here, where it is another."""
    taken: set[str] = field(default_factory=set[str])
    """Names, in lower case: some file systems know no other."""
    given: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """By benchmark: the names there, of what is here."""

    def put(self, source: DocumentSource, benchmark: str) -> bool:
        """Writes a document, whole or not at all; one that was written before is left.

        Returns:
            Whether it is a new one.
        """
        name = _checked(source.name, benchmark)
        beside = self.folder / f".{secrets.token_hex(8)}"
        try:
            _write(source, beside)
            if name.lower() in self.taken:
                if (self.folder / name).is_file() and filecmp.cmp(beside, self.folder / name, shallow=False):
                    return False
                if (benchmark, name) in self.given:
                    raise CaseError(f"{benchmark} has two documents that are called {name!r:.80}.")
                other = self._free(name, benchmark)
                self.renamed[benchmark, name] = other
                name = other
            beside.replace(self.folder / name)
        finally:
            beside.unlink(missing_ok=True)
        self.taken.add(name.lower())
        self.given.add((benchmark, source.name))
        self.tell(name)
        return True

    def _free(self, name: str, benchmark: str) -> str:
        path = PurePosixPath(name)
        tries = (f"{path.stem}--{benchmark}{'-' * n}{path.suffix}" for n in range(1000))
        return next(one for one in tries if one.lower() not in self.taken)

    def case(self, case: Case, benchmark: str) -> Case:
        """A case that calls its documents by their names here."""

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
    """Prepares benchmarks for a run.

    Args:
        benchmarks: Each with the folder of its files, and its split.
        out: The folder to make; what is in it of an earlier start is made anew.
        limit: Cases of each benchmark at most, the first ones; its documents are all there all the same.
        tell: Is told of each document.

    Raises:
        CaseError: If files are missing or not as published, or the disk refuses. What was prepared there
            before stands as long as questions are read, and is gone with the first document.
    """
    names = [benchmark.name for benchmark, *_ in benchmarks]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise CaseError(f"{twice} is named twice.", "Prepare splits of one benchmark apart.")
    try:
        _check_ours(out)
        _check_apart(out, [folder for _, folder, _ in benchmarks])
        opened = [(*one, one[0].open(*one[1:])) for one in benchmarks]
        out.mkdir(parents=True, exist_ok=True)
        busy = CaseError(f"Another process prepares {out}.", "Wait for it, or name another folder.")
        with one_writer(out / LOCK, busy):
            read = [_read(*one, limit) for one in opened]
            _check_uids(case for one in read for case in one.cases)
            return _prepare(read, out, tell)
    except OSError as error:
        raise _refused(error, out) from error


@dataclass(frozen=True, slots=True)
class _Read:
    """A benchmark whose questions were read."""

    benchmark: Benchmark
    folder: Path
    split: str | None
    found: OpenBenchmark
    cases: list[Case]

    def part(self, documents: int) -> PreparedPart:
        """What is told of it when its documents were taken: then all of its notes are there."""
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


def _read(
    benchmark: Benchmark, folder: Path, split: str | None, found: OpenBenchmark, limit: int | None
) -> _Read:
    cases = list(found.cases)[:limit]
    if not cases:
        raise CaseError(f"{folder} holds no questions of {benchmark.title}.", "Is it another split?")
    return _Read(benchmark, folder, split, found, cases)


def _prepare(read: Sequence[_Read], out: Path, tell: Callable[[str], None]) -> Prepared:
    _clear(out)
    prepared_documents = _PreparedDocuments(out / DOCUMENTS, tell)
    prepared_documents.folder.mkdir(parents=True)
    cases: list[Case] = []
    parts: list[PreparedPart] = []
    for one in read:
        name = one.benchmark.name
        parts.append(one.part(sum(prepared_documents.put(source, name) for source in one.found.documents)))
        cases += [prepared_documents.case(case, name) for case in one.cases]
    write_cases(out / CASES, cases)
    about = _About(schema_version=SCHEMA_VERSION, parts=tuple(parts))
    write_whole(out / ABOUT, (about.model_dump_json(indent=2) + "\n").encode())
    return Prepared(out, about.parts)


def read_prepared(folder: Path) -> Prepared:
    """A folder that was prepared.

    Raises:
        CaseError: If it was not, or not to its end, or documents were taken out of it since.
    """
    try:
        told = _About.model_validate_json((folder / ABOUT).read_bytes())
    except FileNotFoundError as error:
        raise CaseError(
            f"{folder} is no prepared benchmark.", "Prepare it to its end: vrag eval prepare."
        ) from error
    except OSError as error:
        raise CaseError(f"{folder / ABOUT} cannot be read: {error.strerror or error}.", ANEW) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise CaseError(
            f"{folder / ABOUT} is damaged: {where and where + ': '}{first['msg']}.", ANEW
        ) from error
    if told.schema_version != SCHEMA_VERSION:
        raise CaseError(f"{folder} was prepared by another version.", ANEW)
    prepared = Prepared(folder, told.parts)
    _check_documents(prepared)
    return prepared


def _check_documents(prepared: Prepared) -> None:
    """Whether as many are there as were prepared: a benchmark that lacks some is another one."""
    wanted = sum(part.documents for part in prepared.parts)
    try:
        there = sum(not path.name.startswith(".") for path in prepared.documents.iterdir())
    except OSError:
        there = 0
    if there < wanted:
        raise CaseError(f"{wanted - there} of the {wanted} documents of {prepared.folder} are gone.", ANEW)


def _check_ours(out: Path) -> None:
    """Refuses a folder with something else in it.

    Documents in a folder that nobody prepared, or began to, are somebody's own.
    """
    there = {path.name for path in out.iterdir()} if out.is_dir() else set[str]()
    known = (
        {ABOUT, CASES, DOCUMENTS, LOCK, "collection", *_torn(out)} if there & {ABOUT, LOCK} else set[str]()
    )
    if others := sorted(there - known):
        raise CaseError(f"{out} holds something else: {others[0]!r:.80}.", "Name another folder.")


def _check_apart(out: Path, folders: Sequence[Path]) -> None:
    """Refuses to read what would be cleared away."""
    ours = out.resolve()
    for folder in folders:
        if folder.resolve().is_relative_to(ours):
            raise CaseError(f"{folder} lies in {out}, which is made anew.", "Name another folder.")


def _torn(out: Path) -> list[str]:
    """Files that a kill left unfinished."""
    return [path.name for name in (ABOUT, CASES) for path in out.glob(f".{name}.*")]


def _clear(out: Path) -> None:
    """Takes away what an earlier start left."""
    for name in (ABOUT, *_torn(out)):
        (out / name).unlink(missing_ok=True)
    shutil.rmtree(out / DOCUMENTS, ignore_errors=True)


def _checked(name: str, benchmark: str) -> str:
    """A file name that stays in its folder.

    Raises:
        CaseError: If it is none.
    """
    plain = name.isprintable() and not set(name) & set('/\\:*?"<>|') and not name.startswith(".")
    if not plain or not name.strip() or len(name.encode()) > LONGEST_NAME:
        raise CaseError(f"{benchmark} has a document that cannot be a file: {name!r:.80}.")
    return name


def _write(source: DocumentSource, target: Path) -> None:
    """Writes a document; a file that lies on the same disk gets another name, and takes no room."""
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


def _check_uids(cases: Iterable[Case]) -> None:
    """Refuses two cases of one uid."""
    seen: set[str] = set()
    for case in cases:
        if case.uid in seen:
            raise CaseError(f"Two questions have the uid {case.uid!r:.80}.")
        seen.add(case.uid)


def _refused(error: OSError, out: Path) -> CaseError:
    """What the system refused: to read a file of others, or to write ours."""
    named, ours = out.absolute(), out.absolute()
    if isinstance(error.filename, str | bytes):
        named = Path(os.fsdecode(error.filename)).absolute()
    theirs = not named.is_relative_to(ours) and not ours.is_relative_to(named)
    reason = error.strerror or error
    if theirs and error.errno not in _NO_ROOM:  # of a copy that finds none, the file it is of is named first
        return CaseError(f"{named} cannot be read: {reason}.", "Mend it, or take it out of the folder.")
    return CaseError(f"{out} cannot be written: {reason}.", "Make room, or name another folder.")
