"""A data set of one's own, in the reference's JSON: a file of questions, with the documents beside it."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from vrag.cases import SOURCES, overhang_of
from vrag.errors import CaseError
from vrag.evaluation.benchmark import FileDocument, Hub, OpenBenchmark
from vrag.evaluation.sources.clean_cases import gold_by_document, one_split, read_questions, take_in
from vrag.evaluation.sources.file_lookup import SHOWN, FileNames, filed, need_all, safe_name
from vrag.evaluation.sources.load_report import Remarks
from vrag.evaluation.sources.page_checks import length_of, within_length
from vrag.evaluation.sources.page_images import with_pages
from vrag.evaluation.sources.source_files import find_all

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.evaluation.benchmark import DocumentSource
    from vrag.types import Case

__all__ = ["DatasetJson"]

FOLDERS = ("pdf", "img")
_PAGE = re.compile(r"(.+)_(\d{1,5})\.(?:jpe?g|png)", re.IGNORECASE | re.DOTALL)
"""How the reference names pictures of pages: `<stem>_<page from 1>.jpg`."""

LAYOUT = (
    "It holds rag_dataset.json with pdf/ or img/ beside it; or one file of questions (.json, .jsonl, "
    ".parquet) at its top, and the documents anywhere below."
)
HUB = Hub(repo="your own folder", note=LAYOUT)
QUESTIONS, KINDS = "rag_dataset.json", frozenset({".json", ".jsonl", ".ndjson", ".parquet"})
MADE = (
    ".preparing",
    "benchmark.json",
    "campaign.json",
    "collection.json",
    "conditions.json",
    "records.jsonl",
)
"""Folders below that hold one of these were made by `vrag`: nothing in them is a document."""


@dataclass(frozen=True, slots=True)
class DatasetJson:
    """A file of questions with the collection it is asked of.

    That is `rag_dataset.json`, and everything in `pdf/` and `img/` beside it. Where no file is called so, the
    one file of questions at the top of the folder, and everything below that can be read.

    Pictures that are called `<stem>_<page>.jpg` are the pages of `<stem>.pdf`, where that is not in `pdf/`.
    """

    name: str = "dataset"
    title: str = "A data set of your own"
    about: str = "your own questions"
    licence: str = "your own"
    hub: Hub = HUB
    measures: tuple[str, ...] = ("accuracy", "recall@1", "recall@5", "recall@10", "mrr", "ndcg@5")

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Finds questions and documents.

        Raises:
            CaseError: If they are missing, or a row is no case.
        """
        one_split(split, "test")
        questions = _questions(folder)
        remarks = Remarks()
        rows = read_questions([questions], SOURCES["dataset"], own=True)
        read = (case for _, row, made in rows for case in _remarking_overhang(row, made, remarks))
        cases = take_in(read, self.name, self.name, remarks)
        beside = _beside(questions)
        _tell_twins(beside, questions.parent, remarks)
        files = FileNames(beside)
        wanted = gold_by_document(cases)
        pages = _pages(files, wanted)
        with _own_hint():
            need_all((name for name in wanted if name not in pages), files, questions.parent, self.hub)
        length = _lengths(files, pages)
        cases = [within_length(case, length, remarks) for case in cases]
        left = gold_by_document(cases)
        wanted = {name: left.get(name, set()) for name in wanted}
        documents = _documents(wanted, files, pages, remarks)
        return OpenBenchmark(cases, documents, remarks.notes, _title(folder))


def _remarking_overhang(row: Mapping[str, Any], cases: list[Case], remarks: Remarks) -> list[Case]:
    """Pass on the cases of a row; remark those whose gold boxes were cut at the edge of the page."""
    if overhang_of(row):
        for case in cases:
            remarks.count(
                "questions have gold boxes beyond the edge of a page, which were cut there", case.uid
            )
    return cases


def _questions(folder: Path) -> Path:
    """The file of questions.

    Raises:
        CaseError: If there is none, or it cannot be told which one it is.
    """
    found = find_all(folder, "*")
    if named := next((path for path in found if path.name == QUESTIONS), None):
        return named
    top = folder.absolute()
    tops = [path for path in found if path.parent == top and path.suffix.lower() in KINDS]
    if len(tops) == 1:
        return tops[0]
    if not tops:
        raise CaseError(f"{folder} holds no {QUESTIONS}, nor another file of questions at its top.", LAYOUT)
    names = ", ".join(f"{path.name!r:.80}" for path in tops[:SHOWN]) + (", …" if len(tops) > SHOWN else "")
    raise CaseError(
        f"{folder} holds no {QUESTIONS}, and {len(tops)} files that may be questions: {names}.",
        f"Call the right one {QUESTIONS}, beside pdf/ or img/; or leave one file of these kinds at the top.",
    )


def _beside(questions: Path) -> list[Path]:
    """The files of documents that are asked about."""
    if questions.name == QUESTIONS:
        return [path for name in FOLDERS for path in _readable(questions.parent / name)]
    readable = _readable(questions.parent)
    above = {questions.parent, *questions.parent.parents}
    below = {folder for path in readable for folder in path.parents} - above
    made = {folder for folder in below if any((folder / name).exists() for name in MADE)}
    return [path for path in readable if path != questions and made.isdisjoint(path.parents)]


def _readable(folder: Path) -> list[Path]:
    """Files of kinds that can be read, in order."""
    from vrag.corpus.convert import CONVERTERS

    if not folder.is_dir():
        return []
    return [path for path in find_all(folder, "*") if path.suffix.lower() in CONVERTERS]


@contextmanager
def _own_hint() -> Generator[None]:
    """Documents of one's own cannot be got anywhere: their places are told in the hint."""
    try:
        yield
    except CaseError as error:
        raise CaseError(error.message, f"Put them there under these names. {LAYOUT}") from error


def _tell_twins(beside: Sequence[Path], folder: Path, remarks: Remarks) -> None:
    """Files of one name: the first is taken (`FileNames`), and the others are told."""
    taken: dict[str, Path] = {}
    for path in beside:
        first = taken.setdefault(path.name, path)
        if first is not path:
            told = f"{path.relative_to(folder).as_posix()} (taken: {first.relative_to(folder).as_posix()})"
            remarks.count("files are called as one in another folder, and were left out", told)


def _lengths(files: FileNames[Path], pages: Mapping[str, Mapping[int, Path]]) -> Callable[[str], int | None]:
    """How many pages documents have, where known; each is opened once, and if it is asked for."""

    @cache
    def length(name: str) -> int | None:
        if name in pages:
            return max(pages[name])
        path = files.get(name)
        return path and length_of(path)

    return length


def _title(folder: Path) -> str:
    name = "".join(sign for sign in folder.absolute().name if sign.isprintable())
    return f"{name} (your own questions)" if name else ""


def _pages(files: FileNames[Path], wanted: Mapping[str, set[int]]) -> dict[str, dict[int, Path]]:
    """Documents that are there as pictures of their pages only, by name; their pages from 1.

    Photographs have such names as well: pages of a document nobody asks about are those that go from 1 to
    the last.
    """
    found: dict[str, dict[int, Path]] = {}
    for path in files.without(wanted):  # a picture that is asked about by its own name is a document
        name = _PAGE.fullmatch(path.name)
        if name and int(name[2]) > 0 and files.get(f"{name[1]}.pdf") is None:
            found.setdefault(f"{name[1]}.pdf", {})[int(name[2])] = path
    return {name: pages for name, pages in found.items() if name in wanted or max(pages) == len(pages)}


def _documents(
    wanted: Mapping[str, set[int]],
    files: FileNames[Path],
    pages: Mapping[str, Mapping[int, Path]],
    remarks: Remarks,
) -> Iterator[DocumentSource]:
    yield from filed(wanted, files)
    for name, pictures in pages.items():
        yield with_pages(safe_name(name), _loading(pictures), remarks, wanted.get(name, ()))
    drawn = {path for pictures in pages.values() for path in pictures.values()}
    for path in files.without(wanted):
        if path not in drawn and not _shown_otherwise(path, files):
            yield FileDocument(safe_name(path.name), path)


def _shown_otherwise(path: Path, files: FileNames[Path]) -> bool:
    """Whether a picture is a page of a PDF that is there."""
    name = _PAGE.fullmatch(path.name)
    return name is not None and files.get(f"{name[1]}.pdf") is not None


def _loading(pages: Mapping[int, Path]) -> Callable[[], Iterator[bytes | None]]:
    def read() -> Iterator[bytes | None]:
        for number in range(1, max(pages) + 1):
            path = pages.get(number)
            yield path.read_bytes() if path else None

    return read
