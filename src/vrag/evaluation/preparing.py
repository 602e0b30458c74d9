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

import filecmp
import os
import secrets
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from vrag.cases import open_cases, write_cases
from vrag.corpus.binding import bind_pages
from vrag.errors import CaseError, VragError
from vrag.evaluation.benchmark import Filed, Packed, Paged, Textual
from vrag.journal import one_writer, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vrag.evaluation.benchmark import Benchmark, DocumentSource, Opened
    from vrag.types import Case

__all__ = ["CASES", "DOCUMENTS", "Part", "Prepared", "prepare", "read_prepared"]

ABOUT, CASES, DOCUMENTS = "benchmark.json", "cases.json", "documents"
LOCK = ".preparing"
"""Held by the one process that prepares; what else is in a folder that has it is ours."""
SCHEMA_VERSION = 1
LONGEST_NAME = 200
"""Bytes of a file name."""


class Part(BaseModel):
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
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared folder."""

    folder: Path
    parts: tuple[Part, ...]

    @property
    def documents(self) -> Path:
        """Where its documents lie."""
        return self.folder / DOCUMENTS

    def cases(self) -> list[Case]:
        """Its questions, in order.

        Raises:
            CaseError: If they were damaged.
        """
        return list(open_cases(self.folder / CASES)[1])


@dataclass(frozen=True, slots=True)
class _Shelf:
    """The documents of a folder that is being prepared."""

    folder: Path
    tell: Callable[[str], None]
    renamed: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """By benchmark and the name there: the name here, where it is another."""
    taken: set[str] = field(default_factory=set[str])
    """Names, in lower case: some file systems know no other."""

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
                other = self._free(name, benchmark)
                self.renamed[benchmark, name] = other
                name = other
            beside.replace(self.folder / name)
        finally:
            beside.unlink(missing_ok=True)
        self.taken.add(name.lower())
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
        CaseError: If files are missing or not as published, or the disk refuses.
    """
    opened = [
        (benchmark, folder, split, benchmark.open(folder, split)) for benchmark, folder, split in benchmarks
    ]
    names = [benchmark.name for benchmark, *_ in opened]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise CaseError(f"{twice} is named twice.", "Prepare splits of one benchmark apart.")
    try:
        _check_ours(out)
        out.mkdir(parents=True, exist_ok=True)
        busy = CaseError(f"Another process prepares {out}.", "Wait for it, or name another folder.")
        with one_writer(out / LOCK, busy):
            return _prepare(opened, out, limit, tell)
    except OSError as error:
        raise CaseError(
            f"{out} cannot be written: {error.strerror or error}.", "Make room, or name another folder."
        ) from error


def _prepare(
    opened: Sequence[tuple[Benchmark, Path, str | None, Opened]],
    out: Path,
    limit: int | None,
    tell: Callable[[str], None],
) -> Prepared:
    _clear(out)
    shelf = _Shelf(out / DOCUMENTS, tell)
    shelf.folder.mkdir(parents=True)
    cases: list[Case] = []
    parts: list[Part] = []
    for benchmark, folder, split, found in opened:
        read = list(found.cases)[:limit]
        if not read:
            raise CaseError(f"{folder} holds no questions of {benchmark.title}.", "Is it another split?")
        documents = sum(shelf.put(source, benchmark.name) for source in found.documents)
        cases += [shelf.case(case, benchmark.name) for case in read]
        parts.append(
            Part(
                name=benchmark.name,
                title=found.title or benchmark.title,
                licence=benchmark.licence,
                source=str(folder),
                split=split,
                cases=len(read),
                documents=documents,
                measures=benchmark.measures,
                notes=tuple(found.notes),
            )
        )
    write_cases(out / CASES, _told_apart(cases))
    about = _About(schema_version=SCHEMA_VERSION, parts=tuple(parts))
    write_whole(out / ABOUT, (about.model_dump_json(indent=2) + "\n").encode())
    return Prepared(out, about.parts)


def read_prepared(folder: Path) -> Prepared:
    """A folder that was prepared.

    Raises:
        CaseError: If it was not, or not to its end.
    """
    hint = "Prepare it: vrag eval prepare."
    try:
        told = _About.model_validate_json((folder / ABOUT).read_bytes())
    except FileNotFoundError as error:
        raise CaseError(f"{folder} is no prepared benchmark.", hint) from error
    except (OSError, ValidationError) as error:
        raise CaseError(f"{folder / ABOUT} cannot be read: {_first_line(error)}.", hint) from error
    if told.schema_version != SCHEMA_VERSION:
        raise CaseError(f"{folder} was prepared by another version.", hint)
    return Prepared(folder, told.parts)


def _check_ours(out: Path) -> None:
    """Refuses a folder with something else in it.

    Documents in a folder that nobody prepared, or began to, are somebody's own.
    """
    there = {path.name for path in out.iterdir()} if out.is_dir() else set[str]()
    known = (
        {ABOUT, CASES, DOCUMENTS, LOCK, "collection", *_torn(out)} if there & {ABOUT, LOCK} else set[str]()
    )
    if there - known:
        raise CaseError(f"{out} holds something else.", "Name another folder.")


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
        case Textual():
            target.write_text(source.text, encoding="utf-8", errors="replace")
        case Paged():
            try:
                target.write_bytes(bind_pages(source.pages()))
            except VragError as error:
                raise CaseError(f"{source.name} cannot be made: {error.message}", error.hint) from error
        case Packed():
            with target.open("wb") as file:
                file.writelines(source.pieces())
        case Filed():
            try:
                os.link(source.path.resolve(), target)
            except OSError:
                shutil.copyfile(source.path, target)


def _told_apart(cases: Sequence[Case]) -> Iterator[Case]:
    """Cases whose uids differ.

    Raises:
        CaseError: If two have the same.
    """
    seen: set[str] = set()
    for case in cases:
        if case.uid in seen:
            raise CaseError(f"Two questions of {case.benchmark} have the uid {case.uid}.")
        seen.add(case.uid)
        yield case


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0].rstrip(".")
