"""WebQA (Chang et al. 2022, arXiv 2109.00590): questions answered from images or snippets of Wikipedia.

The published accuracy compares with key words that only the hidden test set has. For other questions the
authors point to an approximation that takes the whole answer in their place; `webqa/acc` is that one, with
three differences. Words are not lemmatised, which takes a language model: "dogs" is not "dog". The colours
and shapes that count are our own list: the published ones were collected from answers, with typing errors.
And the best of several answers counts. The fluency that is multiplied in ("FL", a BARTScore) is left out, so
this is not the "QA" of the leaderboard.
"""

from __future__ import annotations

import base64
import re
import string
from array import array
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vrag.cases.case_json import case_of
from vrag.cases.rows import any_list, object_of, plain_list, text_of
from vrag.datasets.files.clean_cases import Remarks, distinct_names
from vrag.datasets.files.documents import ParagraphDocument, can_decode, distinct, image_card, title_in_name
from vrag.datasets.files.lookup import blamed, choose_split, find_all, missing, objects
from vrag.datasets.protocols import (
    NUMBER_WORDS,
    Benchmark,
    Hub,
    OpenBenchmark,
    StreamDocument,
    abstains,
    bag_f1,
    shared_words,
    without_articles,
)
from vrag.errors import CaseError
from vrag.types import GoldPage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from vrag.datasets.protocols import DocumentSource
    from vrag.types import Case

HUB = Hub(
    repo="https://webqna.github.io",
    files=("WebQA_train_val.json", "imgs.tsv", "imgs.lineidx"),
    note="Unpack imgs.7z.001 and the 50 files that follow it: 51 GB.",
)
SPLITS = {"val": ("WebQA_train_val.json", "WebQA*.json"), "train": ("WebQA_train_val.json", "WebQA*.json")}
IMAGE_FACTS = ("img_posFacts", "img_negFacts")
TEXT_FACTS = ("txt_posFacts", "txt_negFacts")


class WebQA(Benchmark):
    """The validation set: the answers of the test set are not public.

    Its collection is made of the facts that come with the questions, right and wrong ones, each once: an
    image becomes a document of one page, with its title and caption as the text of the page, and a snippet a
    text below its title. An image that cannot be shown is its title and caption. Of an image that several
    facts bring, the first title and caption are taken. The kind of a question (`Qcate`), by which
    answers are scored, is its query type.
    """

    name = "webqa"
    title = "WebQA (arXiv 2109.00590)"
    about = "questions over pictures and snippets of the web, several at a time"
    licence = "CC0 1.0 (questions); each picture has its own"
    hub = HUB
    measures = ("webqa/acc", "cited_f1", "document_recall@10")

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Find questions and images of `val` or `train`, which come in one file; None for `val`."""
        chosen, paths = choose_split(folder, SPLITS, split, self.hub)
        tables = [find_all(folder, name)[:1] for name in ("imgs.tsv", "imgs.lineidx")]
        if not all(tables):
            raise missing(folder, "imgs.tsv or imgs.lineidx", self.hub)
        remarks = Remarks()
        reader = _WebQAReader(paths[0], chosen, ImageLines(tables[0][0], tables[1][0], remarks), remarks)
        return OpenBenchmark(distinct_names(reader.cases(), remarks), reader.documents(), remarks.notes)


@dataclass(frozen=True, slots=True)
class _WebQAReader:
    path: Path
    split: str
    images: ImageLines
    remarks: Remarks
    _rows: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list[tuple[str, "Mapping[str, Any]"]])
    _texts: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Title and caption of images, by their ids: the first in the file."""

    def rows(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the questions of the split, read once."""
        if not self._rows:
            self._rows.extend(_questions(self.path, self.split))
            if not self._rows:
                raise CaseError(f"{self.path} holds no questions of {self.split} with answers.", HUB.note)
            for where, row in self._rows:
                for fact in _facts(row, where, IMAGE_FACTS):
                    self._texts.setdefault(_image_id(fact, where), _texts(fact))
        return self._rows

    def cases(self) -> Iterator[Case]:
        for where, row in self.rows():
            gold = [self._name(_image_id(fact, where)) for fact in _facts(row, where, IMAGE_FACTS[:1])]
            snippets = [_snippet(fact, where) for fact in _facts(row, where, TEXT_FACTS[:1])]
            for empty in (snippet for snippet in snippets if snippet.empty):
                self.remarks.count("gold snippets have no words and cannot be found", empty.title)
            gold += [snippet.name for snippet in snippets]
            with blamed(where):
                texts = (_unquoted(answer) for answer in plain_list(row, "A") if isinstance(answer, str))
                answers = list(dict.fromkeys(filter(None, texts)))
                if not answers:
                    raise CaseError("There is no answer; those of the test set are not public.")
                if not gold:
                    raise CaseError("No fact answers it: there are no 'img_posFacts' or 'txt_posFacts'.")
                pictured = any(name.endswith(".html") for name in gold)
                written = any(name.endswith(".md") for name in gold)
                fields = {
                    "uid": f"webqa-{text_of(row, 'Guid')}",
                    "query": _unquoted(text_of(row, "Q")),
                    "reference_answer": answers[0],
                    "alternatives": answers[1:],
                    "meta_info": {
                        "file_name": gold[0],
                        "source_type": ["Image"] * pictured + ["Text"] * written,
                        "query_type": str(row.get("Qcate") or ""),
                        "document_type": str(row.get("topic") or ""),
                        "benchmark": "webqa",
                    },
                }
            yield replace(case_of(fields, where), gold=tuple(GoldPage(name) for name in dict.fromkeys(gold)))

    def documents(self) -> Iterator[DocumentSource]:
        rows = self.rows()
        for id in self._texts:
            yield StreamDocument(self._name(id), partial(self._file, id))
        yield from distinct(
            _snippet(fact, where) for where, row in rows for fact in _facts(row, where, TEXT_FACTS)
        )

    def _name(self, id: str) -> str:
        return f"{title_in_name(self._texts[id][0])}-{id}.html"

    def _file(self, id: str) -> Iterator[bytes]:
        return image_card(self.images.read(id), *self._texts[id])


def _questions(path: Path, split: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the questions of a split: values of the one object that the file is."""
    for where, row in objects([path]):
        inner = {"": row} if "Q" in row else row
        for guid, value in inner.items():
            place = f"{path}, {guid}" if guid else where
            with blamed():
                question = object_of(value, place)
            if (question.get("split") or question.get("Split")) == split:
                yield place, ({"Guid": guid} if guid else {}) | question


def _facts(row: Mapping[str, Any], where: str, names: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """Yield the facts of some columns; a missing column has none."""
    for name in names:
        for value in any_list(row.get(name)):
            with blamed(where):
                fact = object_of(value, f"An element of {name!r}")
            yield fact


def _texts(fact: Mapping[str, Any]) -> tuple[str, str]:
    """Return title and caption; empty where they are not texts."""
    title, caption = (fact.get(name) for name in ("title", "caption"))
    return str(title or ""), caption if isinstance(caption, str) else ""


def _image_id(fact: Mapping[str, Any], where: str) -> str:
    """Return the id of an image, which is a number, as text."""
    with blamed(where):
        id = text_of(fact, "image_id")
        if not (id.isascii() and id.isdecimal() and len(id) < 20):
            raise CaseError(f"The id of an image is not a number: {id!r:.40}.")
        return id


def _snippet(fact: Mapping[str, Any], where: str) -> ParagraphDocument:
    with blamed(where):
        return ParagraphDocument(text_of(fact, "title"), text_of(fact, "fact"))


def _unquoted(text: str) -> str:
    """Remove the quotes around a text; those within it stay.

    >>> _unquoted('"Is it "big"?"'), _unquoted('He said "no"')
    ('Is it "big"?', 'He said "no"')
    """
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1].strip()
    return text.strip('"') if text.count('"') == 1 else text


MODULUS = 10_000_000
"""An id is the number of its line, plus a multiple of this that stands for the split."""
MAX_LINE_BYTES = 64 * 2**20
JPEG_START, JPEG_END = b"\xff\xd8", b"\xff\xd9"


@dataclass(frozen=True, slots=True)
class ImageLines:
    """The images of WebQA in a TSV file, `id <tab> base64`: read one by one, never all of their 51 GB."""

    lines: Path
    """`imgs.tsv`."""
    offsets: Path
    """`imgs.lineidx`: on each line the byte at which a line of `imgs.tsv` begins."""
    remarks: Remarks
    _starts: array[int] = field(default_factory=lambda: array("Q"))

    def read(self, id: str) -> bytes | None:
        """Return the file of an image; None, with a remark, of one that is missing or cannot be decoded.

        A JPEG file that was cut off, of which there are some, is closed: its missing part is grey. Raises
        `CaseError` if the two files do not belong together, or cannot be read.
        """
        line = self._line(id)
        if line is None:
            self.remarks.count("images are not in imgs.tsv; their captions stand for them", id)
            return None
        data = b""
        with suppress(ValueError):
            data = base64.b64decode(line.partition(b"\t")[2].strip(), validate=True)
        if can_decode(data):
            return data
        if data.startswith(JPEG_START) and can_decode(data + JPEG_END):
            self.remarks.count("images are cut off; their missing part is grey", id)
            return data + JPEG_END
        self.remarks.count("images are broken; their captions stand for them", id)
        return None

    def _line(self, id: str) -> bytes | None:
        number = int(id) % MODULUS
        try:
            if number >= len(self._table()):
                return None
            with self.lines.open("rb") as file:
                file.seek(self._table()[number])
                line = file.readline(MAX_LINE_BYTES)
        except OSError as error:
            raise CaseError(f"{self.lines} cannot be read: {error.strerror or error}.") from error
        found = line.partition(b"\t")[0].strip()
        if found != id.encode():
            raise CaseError(
                f"{self.lines} has the image {found!r:.40} where {self.offsets.name} says {id}.",
                "Unpack both again: they belong to each other.",
            )
        return line

    def _table(self) -> array[int]:
        """Return the offsets, read once."""
        if not self._starts:
            try:
                self._starts.extend(int(line) for line in self.offsets.read_bytes().split())
            except (ValueError, OverflowError) as error:
                raise CaseError(f"{self.offsets} does not hold numbers.", "Unpack it again.") from error
        return self._starts


_COLOURS = frozenset(
    "aqua azure beige black blonde blue bronze brown burgundy chrome copper cream crimson cyan gold golden "
    "gray green grey indigo ivory khaki lavender lilac magenta maroon navy ochre olive orange peach pink "
    "purple rainbow red rust salmon scarlet silver tan teal transparent turquoise violet white yellow".split()
)
_SHAPES = frozenset(
    "arch arrow ball bell bow circle circular concave cone conical convex crescent crest cross cube cuboid "
    "curl curve curved cylinder cylindrical diamond dome dot flat flower globe globular heart hexagon "
    "hexagonal hook hoop keyhole obelisk octagon octagonal oval pentagon pentagonal point pyramid pyramidal "
    "rectangle rectangular ring round rounded semicircle slope sphere spherical spiral square star step "
    "straight teardrop torus trapezoid triangle triangular tube wavy".split()
)
_PUNCTUATION = str.maketrans("", "", string.punctuation.replace(".", ""))
_FULL_STOP = re.compile(r"\.(?!\d)")


def score(case: Case, answer: str | None) -> Mapping[str, float]:
    """Measure `webqa/acc`: how much of the right answer the answer has.

    Of questions about colours, shapes, numbers, and of those with yes or no, the F1 over such words
    alone; of all others the share of the reference's words that the answer has. The kind of a question is
    its `query_type`, in the data set's words (`Qcate`). An abstention is an empty answer.
    """
    if answer is None or abstains(answer):
        return {"webqa/acc": 0.0}
    words, keep = web_words(answer), _DOMAINS.get(case.query_type.lower())
    return {"webqa/acc": max(_accuracy(words, web_words(reference), keep) for reference in case.references)}


def web_words(text: str) -> list[str]:
    """Split a text into lower-case words without articles and punctuation, numbers as digits.

    Decimal points stay.

    A single word is kept though it is an article, and a single character though it is punctuation.

    >>> web_words("The two dogs, 3.5 m."), web_words("A")
    (['2', 'dogs', '3.5', 'm'], ['a'])
    """
    plain = text.lower()
    if len(plain.strip()) > 1:
        plain = _FULL_STOP.sub("", plain.translate(_PUNCTUATION))
        if len(text.split()) > 1:
            plain = without_articles(plain)
    return [str(NUMBER_WORDS.get(word, word)) for word in plain.split()]


def _accuracy(answer: list[str], right: list[str], keep: Callable[[list[str]], list[str]] | None) -> float:
    if keep is not None:
        return bag_f1(keep(answer), keep(right))
    return shared_words(answer, right) / len(right) if right else 0.0


def _numbers(words: list[str]) -> list[str]:
    found: list[str] = []
    for word in words:
        with suppress(ValueError):
            found.append(str(int(word)))
    return found


def _among(domain: frozenset[str]) -> Callable[[list[str]], list[str]]:
    return lambda words: sorted(domain.intersection(words))


_DOMAINS: Mapping[str, Callable[[list[str]], list[str]]] = {
    "color": _among(_COLOURS),
    "shape": _among(_SHAPES),
    "yesno": _among(frozenset({"yes", "no"})),
    "number": _numbers,
}
"""Selectors of the words that count, by the kind of the question."""
