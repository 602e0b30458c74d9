"""SlideVQA (arXiv 2301.04883): questions about decks of twenty slides, numbered from 1."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from vrag.cases.rows import CaseFormat, RowReader, Spot, any_list, hops, literal_list, table_rows, text_of
from vrag.datasets.files.clean_cases import Remarks, gold_by_document, read_questions, take_in
from vrag.datasets.files.documents import image_bytes, with_pages
from vrag.datasets.files.lookup import choose_split, filed, find_all, find_documents, missing
from vrag.datasets.protocols import (
    SMALL_NUMBERS,
    Benchmark,
    Hub,
    OpenBenchmark,
    abstains,
    bag_f1,
    without_articles,
    without_punctuation,
)
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.datasets.protocols import DocumentSource, Images
    from vrag.types import Case

LAST_PAGE = 20
PAGES = tuple(f"page_{number}" for number in range(1, LAST_PAGE + 1))
SPLITS = {
    "test": ("test-*.parquet", "qa/test.jsonl", "test.jsonl"),
    "dev": ("val-*.parquet", "qa/dev.jsonl", "dev.jsonl"),
    "train": ("train-*.parquet", "qa/train.jsonl", "train.jsonl"),
}
"""The hub calls `val` what the repository calls `dev`."""
_NUMBERED = re.compile(r"-(\d{1,4})-\d+\.\w+$")
"""End of the file name of a slide: `-<slide>-<width>.jpg`."""


class SlideVQA(CaseFormat, Benchmark):
    """The parquet of the hub, with images; or the repository's JSON lines beside `images/` or PDFs.

    A row is a question. Document and deck are one: `<deck_name>.pdf`, as in corpora of the slides. A deck is
    in every row about it and becomes one document.
    """

    name = "slidevqa"
    title = "SlideVQA (arXiv 2301.04883)"
    about = "slide decks: one and several slides, arithmetic"
    licence = "NTT's agreement: evaluation only, no redistribution"
    hub = Hub(
        repo="NTT-hil-insight/SlideVQA",
        files=("data/test-*.parquet",),
        splits=("test",),
        note="Agree to the terms there first.",
    )
    measures = ("slidevqa/f1", "slidevqa/em")
    columns = (frozenset({"qa_id", "question", "answer", "evidence_pages"}),)

    def data_source(self, split: str) -> str:
        """Return `slidevqa_train` or `slidevqa_test`."""
        return f"slidevqa_{'train' if split == 'train' else 'test'}"

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Find questions and decks of `test`, `dev` (or `val`) or `train`; `test` if None."""
        wanted = "test" if split is None else "dev" if split == "val" else split
        _, paths = choose_split(folder, SPLITS, wanted, self.hub)
        remarks = Remarks()
        urls: dict[str, list[Any]] = {}

        def read_cases() -> Iterator[Case]:
            for _, row, cases in read_questions(paths, self):
                for case in cases:
                    urls.setdefault(case.file_name, any_list(row.get("image_urls")))
                    yield case

        cases = take_in(read_cases(), f"{self.name}-{wanted}", self.name, remarks)
        gold = gold_by_document(cases)
        if paths[0].suffix == ".parquet":
            documents = _read_decks(paths, gold, remarks)
        else:
            found = _downloaded_decks(folder, urls, gold, remarks)
            if not found:
                raise missing(folder, "images or PDFs of the decks", self.hub)
            for case in cases:
                if case.file_name not in found:
                    remarks.count("questions about decks that are missing were left out", case.uid)
            cases = [case for case in cases if case.file_name in found]
            documents = found.values()
        for case in cases:
            if not case.reference_page:
                remarks.count("questions have no gold page and count for answers only", case.uid)
        return OpenBenchmark(cases, documents, remarks.notes)

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:  # noqa: ARG002
        """Convert the question; only the repository's files have its kind of reasoning, the hub's do not."""
        pages = [] if row.get("evidence_pages") is None else literal_list(row, "evidence_pages")
        if any(not isinstance(page, int) or not 1 <= page <= LAST_PAGE for page in pages):
            raise CaseError(f"Pages of a deck go from 1 to {LAST_PAGE}, not {pages!r:.80}.")
        meta = {
            "file_name": f"{text_of(row, 'deck_name')}.pdf",
            "reference_page": pages,
            "query_type": str(row.get("reasoning_type") or hops(pages)),
        }
        answer = text_of(row, "answer")
        query = text_of(row, "question")
        uid = text_of(row, "qa_id")
        return [{"uid": uid, "query": query, "reference_answer": answer, "meta_info": meta}]


def _read_decks(
    paths: Sequence[Path], gold: Mapping[str, set[int]], remarks: Remarks
) -> Iterator[DocumentSource]:
    """Yield the decks of a parquet, each by the first row that has it."""
    reader = RowReader(PAGES[:1], PAGES[1:])

    def images_of(spot: Spot) -> Images:
        return lambda: map(image_bytes, map(reader.read(spot).get, PAGES))

    seen: set[str] = set()
    for spot, row in table_rows(paths, ["deck_name"]):
        name = f"{row['deck_name']}.pdf"
        if name in gold and name not in seen:
            seen.add(name)
            yield with_pages(name, images_of(spot), remarks, gold[name])


def _downloaded_decks(
    folder: Path, urls: Mapping[str, list[Any]], gold: Mapping[str, set[int]], remarks: Remarks
) -> dict[str, DocumentSource]:
    """Return the decks that have a PDF or single images: `images/<split>/<deck>/<image>`."""
    decks: dict[str, dict[str, Path]] = {}
    for path in find_all(folder, "*.[jJ][pP]*[gG]") + find_all(folder, "*.[pP][nN][gG]"):
        decks.setdefault(path.parent.name, {})[path.name] = path
    pages: dict[str, list[Path | None]] = {}
    for name in gold:
        images = decks.get(name.removesuffix(".pdf"), {})
        pages[name] = [images.get(_basename(url)) for url in urls.get(name, [])[: len(PAGES)]]
        if not any(pages[name]):  # no address fits: by the numbers in their names
            numbered = {
                int(found[1]): images[image] for image in images if (found := _NUMBERED.search(image))
            }
            pages[name] = [numbered.get(number) for number in range(1, max(numbered, default=0) + 1)]
    files = find_documents(folder, [name for name, images in pages.items() if not any(images)])

    def images_of(name: str) -> Images:
        return lambda: (path.read_bytes() if path else None for path in pages[name])

    documents: dict[str, DocumentSource] = {}
    for name, gold_pages in gold.items():
        if any(pages[name]):
            documents[name] = with_pages(name, images_of(name), remarks, gold_pages)
        else:
            documents.update({document.name: document for document in filed([name], files)})
    if unused := decks.keys() - {name.removesuffix(".pdf") for name in gold}:
        remarks.say(f"{len(unused):,} folders of images that no question is about were left out.")
    return documents


def _basename(url: object) -> str:
    try:
        return PurePosixPath(unquote(urlsplit(str(url)).path)).name
    except ValueError:  # as of a half-open [
        return ""


_REWRITES = (
    ("this is ", ""),
    ("it is ", ""),
    ("&", ","),
    ("and", ","),
    ("percent", ""),
    ("organisation", "organization"),
    ("because of", ""),
    ("because", ""),
    ("due to", ""),
    ("hours", "hrs"),
    ("minites", "min"),
)
"""One after the other, wherever the letters stand: also within words."""


def score(case: Case, answer: str | None) -> Mapping[str, float]:
    """Measure `slidevqa/em`: the same words in the same order; `slidevqa/f1`: over the bags of words.

    By the rules of the published `evaluate.py`. Answers that share no word have 0 of both, two empty ones
    too. The best reference counts for each; the data set has one. An abstention is an empty answer.
    """
    words = [] if answer is None or abstains(answer) else slide_words(answer, case.query)
    references = [slide_words(reference, case.query) for reference in case.references]
    return {
        "slidevqa/em": max(float(bool(words) and words == right) for right in references),
        "slidevqa/f1": max(bag_f1(words, right) for right in references),
    }


def slide_words(text: str, question: str) -> list[str]:
    """Split an answer into the words by which it is compared for this question.

    Some phrases are rewritten; what the question counts or chooses from is taken out ("how many
    apples", "which country"; in the question's own letters, so not where it begins with "How many");
    punctuation of ASCII and articles go; of what then begins with "yes" or "no", be it "nothing else", the
    first word is left; and numbers up to nineteen are digits.

    Deviation: where nothing follows "how many" or "which", nothing is taken out; the script breaks off.

    >>> slide_words("It is five apples", "so how many apples are there?")
    ['5']
    >>> slide_words("No, they are not", "Are they?")
    ['no']
    """
    plain = text.lower()
    for old, new in _REWRITES:
        plain = plain.replace(old, new)
    for mark in ("how many", "which"):
        following = question.partition(mark)[2].split(maxsplit=1)
        if following:
            plain = plain.replace(following[0], "")
    bare = without_articles(without_punctuation(plain))
    words = bare.split()
    if bare.startswith(("yes", "no")):
        words = words[:1]
    return [str(SMALL_NUMBERS.get(word, word)) for word in words]
