"""A data set of one's own, in the JSON of the seeds: `rag_dataset.json` beside `pdf/` or `img/`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.cases import SOURCES
from vrag.evaluation.benchmark import Filed, Hub, Opened
from vrag.evaluation.benchmarks.intake import gold_by_document, one_split, read_questions, take_in
from vrag.evaluation.benchmarks.names import Names, filed, need_all, safe_name
from vrag.evaluation.benchmarks.pictures import with_pages
from vrag.evaluation.benchmarks.published import find_all, missing
from vrag.evaluation.benchmarks.remarks import Remarks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from vrag.evaluation.benchmark import DocumentSource

__all__ = ["DatasetJson"]

FOLDERS = ("pdf", "img")
_PAGE = re.compile(r"(.+)_(\d{1,5})\.(?:jpe?g|png)", re.IGNORECASE | re.DOTALL)
"""How the reference names pictures of pages: `<stem>_<page from 1>.jpg`."""

HUB = Hub(repo="your own folder", note="It holds rag_dataset.json, and pdf/ or img/ beside it.")


@dataclass(frozen=True, slots=True)
class DatasetJson:
    """`rag_dataset.json` with the collection it is asked of: everything in `pdf/` and `img/`.

    Pictures that are called `<stem>_<page>.jpg` are the pages of `<stem>.pdf`, where that is not in `pdf/`.
    """

    name: str = "dataset"
    title: str = "A data set of your own, as rag_dataset.json"
    about: str = "your own questions"
    licence: str = "your own"
    hub: Hub = HUB
    measures: tuple[str, ...] = ("accuracy", "recall@1", "recall@5", "recall@10", "mrr", "ndcg@5")

    def open(self, folder: Path, split: str | None = None) -> Opened:
        """Finds questions and documents.

        Raises:
            CaseError: If they are missing, or a row is no case.
        """
        one_split(split, "test")
        paths = find_all(folder, "rag_dataset.json")
        if not paths:
            raise missing(folder, "rag_dataset.json", self.hub)
        remarks = Remarks()
        read = (case for _, _, made in read_questions(paths[:1], SOURCES["dataset"]) for case in made)
        cases = take_in(read, self.name, self.name, remarks)
        beside = paths[0].parent
        files = Names(path for name in FOLDERS for path in _readable(beside / name))
        wanted = gold_by_document(cases)
        pages = _pages(files, wanted)
        need_all((name for name in wanted if name not in pages), files, beside, self.hub)
        return Opened(cases, _documents(wanted, files, pages, remarks), remarks.notes)


def _readable(folder: Path) -> list[Path]:
    """Files of kinds that can be read, in order."""
    from vrag.corpus.convert import CONVERTERS

    if not folder.is_dir():
        return []
    return [path for path in find_all(folder, "*") if path.suffix.lower() in CONVERTERS]


def _pages(files: Names, wanted: Mapping[str, set[int]]) -> dict[str, dict[int, Path]]:
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
    wanted: Mapping[str, set[int]], files: Names, pages: Mapping[str, Mapping[int, Path]], remarks: Remarks
) -> Iterator[DocumentSource]:
    yield from filed(wanted, files)
    for name, pictures in pages.items():
        yield with_pages(safe_name(name), _loading(pictures), remarks, wanted.get(name, ()))
    drawn = {path for pictures in pages.values() for path in pictures.values()}
    for path in files.without(wanted):
        if path not in drawn and not _shown_otherwise(path, files):
            yield Filed(safe_name(path.name), path)


def _shown_otherwise(path: Path, files: Names) -> bool:
    """Whether a picture is a page of a PDF that is there."""
    name = _PAGE.fullmatch(path.name)
    return name is not None and files.get(f"{name[1]}.pdf") is not None


def _loading(pages: Mapping[int, Path]) -> Callable[[], Iterator[bytes | None]]:
    def read() -> Iterator[bytes | None]:
        for number in range(1, max(pages) + 1):
            path = pages.get(number)
            yield path.read_bytes() if path else None

    return read
