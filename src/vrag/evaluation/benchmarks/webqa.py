"""WebQA (arXiv 2109.00590): questions answered from pictures or snippets of Wikipedia and its media."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from vrag.cases import case_of
from vrag.cases.case_format import any_list, plain_list, text_of
from vrag.errors import CaseError
from vrag.evaluation.benchmark import Hub, OpenBenchmark, StreamDocument
from vrag.evaluation.sources.image_cards import captioned
from vrag.evaluation.sources.load_report import Remarks
from vrag.evaluation.sources.passages import ParagraphDocument, distinct, title_in_name
from vrag.evaluation.sources.source_files import (
    blamed,
    choose_split,
    distinct_names,
    find_all,
    missing,
    objects,
)
from vrag.evaluation.sources.webqa_images import PictureLines
from vrag.types import GoldPage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vrag.evaluation.benchmark import DocumentSource
    from vrag.types import Case

__all__ = ["WebQA"]

HUB = Hub(
    repo="https://webqna.github.io",
    files=("WebQA_train_val.json", "imgs.tsv", "imgs.lineidx"),
    note="Unpack imgs.7z.001 and the 50 files that follow it: 51 GB.",
)
SPLITS = {"val": ("WebQA_train_val.json", "WebQA*.json"), "train": ("WebQA_train_val.json", "WebQA*.json")}
PICTURE_FACTS = ("img_posFacts", "img_negFacts")
TEXT_FACTS = ("txt_posFacts", "txt_negFacts")


@dataclass(frozen=True, slots=True)
class WebQA:
    """The validation set: the answers of the test set are not public.

    Its collection is made of the facts that come with the questions, right and wrong ones, each once: a
    picture becomes a document of one page, with its title and caption as the text of the page, and a snippet
    a text below its title. A picture that cannot be shown is its title and caption. Of a picture that
    several facts bring, the first title and caption are taken. The kind of a question (`Qcate`), by which
    answers are scored, is its query type.
    """

    name: str = "webqa"
    title: str = "WebQA (arXiv 2109.00590)"
    about: str = "questions over pictures and snippets of the web, several at a time"
    licence: str = "CC0 1.0 (questions); each picture has its own"
    hub: Hub = HUB
    measures: tuple[str, ...] = ("webqa/acc", "cited_f1", "document_recall@10")

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Finds questions and pictures.

        Args:
            folder: Where they are.
            split: `val` or `train`, which come in one file; None for `val`.

        Raises:
            CaseError: If files are missing; while reading, if a row is not as published.
        """
        chosen, paths = choose_split(folder, SPLITS, split, self.hub)
        tables = [find_all(folder, name)[:1] for name in ("imgs.tsv", "imgs.lineidx")]
        if not all(tables):
            raise missing(folder, "imgs.tsv or imgs.lineidx", self.hub)
        remarks = Remarks()
        reader = _WebQAReader(paths[0], chosen, PictureLines(tables[0][0], tables[1][0], remarks), remarks)
        return OpenBenchmark(distinct_names(reader.cases(), remarks), reader.documents(), remarks.notes)


@dataclass(frozen=True, slots=True)
class _WebQAReader:
    path: Path
    split: str
    pictures: PictureLines
    remarks: Remarks
    _rows: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list[tuple[str, "Mapping[str, Any]"]])
    _texts: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Title and caption of pictures, by their ids: the first that are met."""

    def rows(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The questions of the split, read once.

        Raises:
            CaseError: If there are none.
        """
        if not self._rows:
            self._rows.extend(_questions(self.path, self.split))
            if not self._rows:
                raise CaseError(f"{self.path} holds no questions of {self.split} with answers.", HUB.note)
            for where, row in self._rows:
                for fact in _facts(row, where, PICTURE_FACTS):
                    self._texts.setdefault(_picture_id(fact, where), _texts(fact))
        return self._rows

    def cases(self) -> Iterator[Case]:
        for where, row in self.rows():
            gold = [self._name(_picture_id(fact, where)) for fact in _facts(row, where, PICTURE_FACTS[:1])]
            snippets = [_snippet(fact, where) for fact in _facts(row, where, TEXT_FACTS[:1])]
            for empty in (snippet for snippet in snippets if snippet.empty):
                self.remarks.count("gold snippets have no words and cannot be found", empty.title)
            gold += [snippet.name for snippet in snippets]
            with blamed(where):
                answers = _answers(row)
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
        return captioned(self.pictures.picture(id), *self._texts[id])


def _questions(path: Path, split: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The questions of a split: values of the one object that the file is."""
    for where, row in objects([path]):
        inner = {"": row} if "Q" in row else row
        for guid, question in inner.items():
            place = f"{path}, {guid}" if guid else where
            if not isinstance(question, dict):
                raise CaseError(f"{place} is no object.", "Take the file as it was published.")
            fields = cast("dict[str, Any]", question)
            if (fields.get("split") or fields.get("Split")) == split:
                yield place, ({"Guid": guid} if guid else {}) | fields


def _facts(row: Mapping[str, Any], where: str, names: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """The facts of some columns; columns that are not there have none.

    Raises:
        CaseError: If one is no object.
    """
    for name in names:
        for fact in any_list(row.get(name)):
            if not isinstance(fact, dict):
                raise CaseError(f"{where}: An element of {name!r} is no object.", "Take it as published.")
            yield cast("dict[str, Any]", fact)


def _texts(fact: Mapping[str, Any]) -> tuple[str, str]:
    """Title and caption; empty where they are no texts."""
    title, caption = (fact.get(name) for name in ("title", "caption"))
    return str(title or ""), caption if isinstance(caption, str) else ""


def _picture_id(fact: Mapping[str, Any], where: str) -> str:
    """Its id as text.

    Raises:
        CaseError: If it is no number.
    """
    with blamed(where):
        id = text_of(fact, "image_id")
        if not (id.isascii() and id.isdecimal() and len(id) < 20):
            raise CaseError(f"The id of a picture is no number: {id!r:.40}.")
        return id


def _snippet(fact: Mapping[str, Any], where: str) -> ParagraphDocument:
    with blamed(where):
        return ParagraphDocument(text_of(fact, "title"), text_of(fact, "fact"))


def _answers(row: Mapping[str, Any]) -> list[str]:
    """The answers, each once.

    Raises:
        CaseError: If there are none.
    """
    answers = [_unquoted(answer) for answer in plain_list(row, "A") if isinstance(answer, str)]
    distinct_ones = list(dict.fromkeys(answer for answer in answers if answer))
    if not distinct_ones:
        raise CaseError("There is no answer; those of the test set are not public.")
    return distinct_ones


def _unquoted(text: str) -> str:
    """A text without the quotes that it is wrapped in; those within it stay.

    >>> _unquoted('"Is it "big"?"'), _unquoted('He said "no"')
    ('Is it "big"?', 'He said "no"')
    """
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1].strip()
    return text.strip('"') if text.count('"') == 1 else text
