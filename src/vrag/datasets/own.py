"""A data set of one's own in the reference implementation's JSON, with its documents beside it."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from vrag.cases.case_json import overhang_of
from vrag.cases.rows import CaseFormat, any_list, text_of
from vrag.datasets.files.clean_cases import (
    FORM,
    MAX_EXAMPLES,
    Remarks,
    gold_by_document,
    one_split,
    read_questions,
    take_in,
)
from vrag.datasets.files.documents import length_of, numbered_pages, with_pages, within_length
from vrag.datasets.files.lookup import FileNames, filed, find_all, need_all, safe_name
from vrag.datasets.protocols import Benchmark, FileDocument, Hub, OpenBenchmark
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.datasets.protocols import DocumentSource
    from vrag.types import Case

_ANSWERS = "An answer is text or a number; a list of them is several answers, each of which is right."


class DatasetSource(CaseFormat):
    """Rows that are cases already, in the reference implementation's JSON; see `vrag.cases.case_json`."""

    name: str
    columns = (frozenset({"query", "meta_info"}),)

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:
        """Return the row itself; a list as its answer is several answers, each of which is right.

        A row without a `uid` is named by its place: `question-1`, ….
        """
        meta = row.get("meta_info")
        absent = [name for name in ("query", "reference_answer", "meta_info") if row.get(name) is None]
        if isinstance(meta, dict) and not cast("dict[str, Any]", meta).get("file_name"):
            absent.append("meta_info.file_name")
        if absent:
            raise CaseError(f"There is no {' and no '.join(absent)}.", f"A question: {FORM}")
        if row.get("uid") is None:
            row = {**row, "uid": f"question-{number + 1}"}
        answer = row["reference_answer"]
        if not isinstance(answer, list | dict | bool):
            return [row]
        if not isinstance(answer, list) or not answer:
            raise CaseError(f"reference_answer is not an answer: {answer!r:.80}.", _ANSWERS)
        answers: dict[str, None] = {}
        for value in cast("list[object]", answer):
            try:
                answers[text_of({"answer": value}, "answer")] = None
            except CaseError as error:
                message = f"reference_answer has an element that is not an answer: {value!r:.80}."
                raise CaseError(message, _ANSWERS) from error
        first, *others = answers
        return [
            {**row, "reference_answer": first, "alternatives": others + any_list(row.get("alternatives"))}
        ]


FOLDERS = ("pdf", "img")
_PAGE = re.compile(r"(.+)_(\d{1,5})\.(?:jpe?g|png)", re.IGNORECASE | re.DOTALL)
"""Name of the image of a page in the reference: `<stem>_<page from 1>.jpg`."""

LAYOUT = (
    "It holds rag_dataset.json with pdf/ or img/ beside it; or one file of questions (.json, .jsonl, "
    ".parquet) at its top, and the documents anywhere below."
)
QUESTIONS, KINDS = "rag_dataset.json", frozenset({".json", ".jsonl", ".ndjson", ".parquet"})
MADE = tuple(".preparing benchmark.json campaign.json collection.json conditions.json records.jsonl".split())
"""Files that mark a folder made by `vrag`: nothing in it is a document."""


class DatasetJson(DatasetSource, Benchmark):
    """A file of questions with the collection it is asked of.

    That is `rag_dataset.json`, and everything in `pdf/` and `img/` beside it. Without such a file, the one
    file of questions at the top of the folder, and everything below that can be read.

    Images named `<stem>_<page>.jpg` are the pages of `<stem>.pdf`, where that is not in `pdf/`.
    """

    name = "dataset"
    title = "A data set of your own"
    about = "your own questions"
    licence = "your own"
    hub = Hub(repo="your own folder", note=LAYOUT)
    measures = ("accuracy", "recall@1", "recall@5", "recall@10", "mrr", "ndcg@5")

    def data_source(self, split: str) -> str:  # noqa: ARG002 - the reference has one name
        """Return `rag`."""
        return "rag"

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Find questions and documents."""
        one_split(split, "test")
        questions = _find_questions(folder)
        remarks = Remarks()

        def read_cases() -> Iterator[Case]:
            for _, row, cases in read_questions([questions], self, own=True):
                for case in cases if overhang_of(row) else ():
                    kind = "questions have gold boxes beyond the edge of a page, which were cut there"
                    remarks.count(kind, case.uid)
                yield from cases

        cases = take_in(read_cases(), self.name, self.name, remarks)
        candidates = _candidates(questions)
        taken: dict[str, Path] = {}  # of files of one name, the first; so does `FileNames`
        for path in candidates:
            first = taken.setdefault(path.name, path)
            if first is not path:
                other, used = (file.relative_to(questions.parent).as_posix() for file in (path, first))
                kind = "files have the name of one in another folder, and were left out"
                remarks.count(kind, f"{other} (taken: {used})")
        files = FileNames(candidates)
        names = list(gold_by_document(cases))
        pages = _page_images(files, names)
        try:
            need_all((name for name in names if name not in pages), files, questions.parent, self.hub)
        except CaseError as error:  # there is no hub: the hint says where the documents are expected
            raise CaseError(error.message, f"Put them there under these names. {LAYOUT}") from error

        @cache
        def page_count(name: str) -> int | None:
            if name in pages:
                return max(pages[name])
            path = files.get(name)
            return path and length_of(path)

        cases = [within_length(case, page_count, remarks) for case in cases]
        gold = gold_by_document(cases)
        documents = _documents({name: gold.get(name, set()) for name in names}, files, pages, remarks)
        name = "".join(sign for sign in folder.absolute().name if sign.isprintable())
        return OpenBenchmark(cases, documents, remarks.notes, f"{name} (your own questions)" if name else "")


def _find_questions(folder: Path) -> Path:
    """Return the file of questions; an error if there is none, or several that could be it."""
    found = find_all(folder, "*")
    if named := next((path for path in found if path.name == QUESTIONS), None):
        return named
    top = folder.absolute()
    tops = [path for path in found if path.parent == top and path.suffix.lower() in KINDS]
    if len(tops) == 1:
        return tops[0]
    if not tops:
        raise CaseError(f"{folder} holds no {QUESTIONS}, nor another file of questions at its top.", LAYOUT)
    names = ", ".join(f"{path.name!r:.80}" for path in tops[:MAX_EXAMPLES])
    raise CaseError(
        f"{folder} holds no {QUESTIONS}, and {len(tops)} files that may be questions: "
        f"{names}{', …' if len(tops) > MAX_EXAMPLES else ''}.",
        f"Call the right one {QUESTIONS}, beside pdf/ or img/; or leave one file of these kinds at the top.",
    )


def _candidates(questions: Path) -> list[Path]:
    """Return the files that may be documents: in `pdf/` and `img/`, or below, except what `vrag` made."""
    if questions.name == QUESTIONS:
        return [path for name in FOLDERS for path in _readable(questions.parent / name)]
    readable = _readable(questions.parent)
    above = {questions.parent, *questions.parent.parents}
    below = {folder for path in readable for folder in path.parents} - above
    made = {folder for folder in below if any((folder / name).exists() for name in MADE)}
    return [path for path in readable if path != questions and made.isdisjoint(path.parents)]


def _readable(folder: Path) -> list[Path]:
    from vrag.corpus.convert import CONVERTERS

    if not folder.is_dir():
        return []
    return [path for path in find_all(folder, "*") if path.suffix.lower() in CONVERTERS]


def _page_images(files: FileNames[Path], names: Sequence[str]) -> dict[str, dict[int, Path]]:
    """Return the documents that exist as images of their pages only, by name; their pages from 1.

    Photographs have such names as well: pages of a document that is not asked about are those that go from 1
    to the last.
    """
    found: dict[str, dict[int, Path]] = {}
    for path in files.without(names):  # an image that is asked about by its own name is a document
        name = _PAGE.fullmatch(path.name)
        if name and int(name[2]) > 0 and files.get(f"{name[1]}.pdf") is None:
            found.setdefault(f"{name[1]}.pdf", {})[int(name[2])] = path
    return {name: pages for name, pages in found.items() if name in names or max(pages) == len(pages)}


def _documents(
    gold: Mapping[str, set[int]],
    files: FileNames[Path],
    pages: Mapping[str, Mapping[int, Path]],
    remarks: Remarks,
) -> Iterator[DocumentSource]:
    yield from filed(gold, files)
    for name, paths in pages.items():
        images = numbered_pages(paths, lambda path: path.read_bytes())
        yield with_pages(safe_name(name), images, remarks, gold.get(name, ()))
    used = {path for paths in pages.values() for path in paths.values()}
    for path in files.without(gold):
        image = _PAGE.fullmatch(path.name)
        if path not in used and (image is None or files.get(f"{image[1]}.pdf") is None):
            yield FileDocument(safe_name(path.name), path)
