"""SlideVQA (arXiv 2301.04883): questions about decks of twenty slides."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from vrag.cases import SOURCES
from vrag.cases.case_format import any_list
from vrag.evaluation.benchmark import Hub, OpenBenchmark
from vrag.evaluation.sources.clean_cases import gold_by_document, read_questions, take_in
from vrag.evaluation.sources.file_lookup import filed, find_documents
from vrag.evaluation.sources.load_report import Remarks
from vrag.evaluation.sources.page_images import picture_of, with_pages
from vrag.evaluation.sources.parquet import RowReader, Spot, table_rows
from vrag.evaluation.sources.source_files import choose_split, find_all, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.evaluation.benchmark import DocumentSource
    from vrag.types import Case

__all__ = ["SlideVQA"]

PAGES = tuple(f"page_{number}" for number in range(1, 21))
SPLITS = {
    "test": ("test-*.parquet", "qa/test.jsonl", "test.jsonl"),
    "dev": ("val-*.parquet", "qa/dev.jsonl", "dev.jsonl"),
    "train": ("train-*.parquet", "qa/train.jsonl", "train.jsonl"),
}
"""The hub calls `val` what the repository calls `dev`."""
_NUMBERED = re.compile(r"-(\d{1,4})-\d+\.\w+$")
"""How pictures of slides end: `-<slide>-<width>.jpg`."""

HUB = Hub(
    repo="NTT-hil-insight/SlideVQA",
    files=("data/test-*.parquet",),
    splits=("test",),
    note="Agree to the terms there first.",
)


@dataclass(frozen=True, slots=True)
class SlideVQA:
    """The parquet of the hub, with pictures; or the repository's JSON lines beside `images/` or PDFs.

    Document and deck are one: `<deck_name>.pdf`. A deck is in every row about it and becomes one document.
    """

    name: str = "slidevqa"
    title: str = "SlideVQA (arXiv 2301.04883)"
    about: str = "slide decks: one and several slides, arithmetic"
    licence: str = "NTT's agreement: evaluation only, no redistribution"
    hub: Hub = HUB
    measures: tuple[str, ...] = ("slidevqa/f1", "slidevqa/em")

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Finds questions and decks.

        Args:
            folder: With the files of one form or the other.
            split: `test`, `dev` (or `val`) or `train`; `test` if None.

        Raises:
            CaseError: If the questions are missing, or a row is not as published.
        """
        wanted = "test" if split is None else "dev" if split == "val" else split
        _, paths = choose_split(folder, SPLITS, wanted, self.hub)
        remarks = Remarks()
        source, prefix = SOURCES["slidevqa"], f"{self.name}-{wanted}"
        if paths[0].suffix == ".parquet":
            read = (case for _, _, made in read_questions(paths, source) for case in made)
            cases = take_in(read, prefix, self.name, remarks)
            _note(cases, remarks)
            return OpenBenchmark(cases, _decks(paths, gold_by_document(cases), remarks), remarks.notes)
        urls: dict[str, list[Any]] = {}
        cases = take_in(_with_urls(paths, urls), prefix, self.name, remarks)
        documents = _Downloaded.found(folder, urls, gold_by_document(cases), remarks)
        if not documents:
            raise missing(folder, "images or PDFs of the decks", self.hub)
        there = [case for case in cases if case.file_name in documents]
        for case in cases:
            if case.file_name not in documents:
                remarks.count("questions about decks that are missing were left out", case.uid)
        _note(there, remarks)
        return OpenBenchmark(there, documents.values(), remarks.notes)


def _note(cases: Iterable[Case], remarks: Remarks) -> None:
    for case in cases:
        if not case.reference_page:
            remarks.count("questions have no gold page and count for answers only", case.uid)


def _decks(
    paths: Sequence[Path], wanted: Mapping[str, set[int]], remarks: Remarks
) -> Iterator[DocumentSource]:
    """The decks of a parquet, each by the first row that has it.

    Raises:
        CaseError: If the files are damaged, or lack a picture's column.
    """
    reader = RowReader(PAGES[:1], PAGES[1:])
    seen: set[str] = set()
    for spot, row in table_rows(paths, ["deck_name"]):
        name = f"{row['deck_name']}.pdf"
        if name in wanted and name not in seen:
            seen.add(name)
            yield with_pages(name, _reading(reader, spot), remarks, wanted[name])


def _reading(reader: RowReader, spot: Spot) -> Callable[[], Iterator[bytes | None]]:
    def read() -> Iterator[bytes | None]:
        row = reader.read(spot)
        return (picture_of(row.get(name)) for name in PAGES)

    return read


def _with_urls(paths: Sequence[Path], urls: dict[str, list[Any]]) -> Iterator[Case]:
    """Cases; puts the addresses of the pictures of each document down."""
    for _, row, cases in read_questions(paths, SOURCES["slidevqa"]):
        for case in cases:
            urls.setdefault(case.file_name, any_list(row.get("image_urls")))
            yield case


@dataclass(frozen=True, slots=True)
class _Downloaded:
    """Pictures of decks that were fetched one by one: `images/<split>/<deck>/<picture>`."""

    decks: Mapping[str, Mapping[str, Path]]
    """By the name of the deck: its pictures by name."""

    @classmethod
    def found(
        cls,
        folder: Path,
        urls: Mapping[str, list[Any]],
        wanted: Mapping[str, set[int]],
        remarks: Remarks,
    ) -> dict[str, DocumentSource]:
        """The documents that there are pictures of, or a PDF."""
        decks: dict[str, dict[str, Path]] = {}
        for path in find_all(folder, "*.[jJ][pP]*[gG]") + find_all(folder, "*.[pP][nN][gG]"):
            decks.setdefault(path.parent.name, {})[path.name] = path
        pages = {
            name: _in_order(urls.get(name, []), decks.get(name.removesuffix(".pdf"), {})) for name in wanted
        }
        files = find_documents(folder, [name for name, those in pages.items() if not any(those)])
        made: dict[str, DocumentSource] = {}
        for name, gold in wanted.items():
            if any(pages[name]):
                made[name] = with_pages(name, _loading(pages[name]), remarks, gold)
            else:
                made.update({one.name: one for one in filed([name], files)})
        if unused := decks.keys() - {name.removesuffix(".pdf") for name in wanted}:
            remarks.say(f"{len(unused):,} folders of pictures that no question is about were left out.")
        return made


def _in_order(urls: list[Any], pictures: Mapping[str, Path]) -> list[Path | None]:
    """The pictures by their addresses; by the numbers in their names, if no address fits."""
    pages = [pictures.get(_basename(url)) for url in urls[: len(PAGES)]]
    if any(pages):
        return pages
    numbered = {int(found[1]): path for name, path in pictures.items() if (found := _NUMBERED.search(name))}
    return [numbered.get(number) for number in range(1, max(numbered, default=0) + 1)]


def _basename(url: object) -> str:
    try:
        return PurePosixPath(unquote(urlsplit(str(url)).path)).name
    except ValueError:  # as of a half-open [
        return ""


def _loading(pages: Sequence[Path | None]) -> Callable[[], Iterator[bytes | None]]:
    def read() -> Iterator[bytes | None]:
        return (path.read_bytes() if path else None for path in pages)

    return read
