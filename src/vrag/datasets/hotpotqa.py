"""HotpotQA (arXiv 1809.09600): questions that take paragraphs of two Wikipedia articles to answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from vrag.cases.case_json import case_of
from vrag.cases.rows import CaseFormat, any_list, text_of
from vrag.datasets.files.clean_cases import Remarks, distinct_names
from vrag.datasets.files.documents import ParagraphDocument, distinct, title_in_name
from vrag.datasets.files.lookup import blamed, choose_split, objects
from vrag.datasets.protocols import Benchmark, Hub, OpenBenchmark, abstains, shared_words, squad_words
from vrag.errors import CaseError
from vrag.types import GoldPage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.types import Case

SPLITS = {
    "distractor": (
        "hotpot_dev_distractor_v1.json",
        "distractor/validation-*.parquet",
        "distractor/validation/*.parquet",
    ),
    "fullwiki": (
        "hotpot_dev_fullwiki_v1.json",
        "fullwiki/validation-*.parquet",
        "fullwiki/validation/*.parquet",
    ),
    "train": ("hotpot_train_v1.1.json", "distractor/train-*.parquet", "distractor/train/*.parquet"),
}


class HotpotQA(CaseFormat, Benchmark):
    """The development set, a question a row of the published JSON or the hub's parquet.

    The test set has no answers. A case belongs to one document: the first article among the supporting facts.
    All of them are gold, by their titles.

    Its collection is made of the paragraphs that come with the questions, each once, and is searched as a
    whole. That is harder than the ten paragraphs of a question (distractor), and easier than Wikipedia
    (fullwiki, in which gold paragraphs may be missing: these count as not found).

    Gold are paragraphs, not the sentences in them: the measures of supporting facts and the joint ones have
    paragraphs in the place of sentences, and another name; see `vrag.evaluation.measures.run_measures`.
    """

    name = "hotpotqa"
    title = "HotpotQA (arXiv 1809.09600)"
    about = "questions over paragraphs of two Wikipedia articles"
    licence = "CC BY-SA 4.0"
    hub = Hub(
        repo="hotpotqa/hotpot_qa",
        files=("distractor/validation-*.parquet", "fullwiki/validation-*.parquet"),
        splits=("distractor", "fullwiki"),
        note="Or hotpot_dev_distractor_v1.json of https://hotpotqa.github.io.",
    )
    measures = ("hotpotqa/f1", "em", "cited_f1", "hotpotqa/joint_paragraph_f1", "document_recall@10")
    columns = (frozenset({"question", "answer", "supporting_facts"}),)

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Find the files of `distractor`, `fullwiki` or `train`; None for the first that is present."""
        chosen, paths = choose_split(folder, SPLITS, split, self.hub)
        remarks = Remarks()
        if split is None and chosen != "distractor":
            remarks.say(f"The questions are those of {chosen}.")
        documents = distinct(paragraph for where, row in objects(paths) for paragraph in _context(row, where))
        return OpenBenchmark(distinct_names(self._cases(paths, remarks), remarks), documents, remarks.notes)

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:  # noqa: ARG002
        """Convert the question."""
        facts = row.get("supporting_facts")  # pairs of title and sentence, or a column of each
        if isinstance(facts, dict):
            facts = cast("dict[str, Any]", facts).get("title")
        else:
            facts = [any_list(pair)[0] for pair in any_list(facts) if any_list(pair)]
        titles = list(dict.fromkeys(title for title in any_list(facts) if isinstance(title, str) and title))
        if not titles:
            raise CaseError("'supporting_facts' names no article.")
        return [
            {
                "uid": text_of(row, "_id", "id"),
                "query": text_of(row, "question"),
                "reference_answer": text_of(row, "answer"),
                "meta_info": {"file_name": titles[0], "source_type": ["Text"], "query_type": "Multi-Hop"},
                "gold": [{"document": title} for title in titles],
            }
        ]

    def _cases(self, paths: Sequence[Path], remarks: Remarks) -> Iterator[Case]:
        names_by_title: dict[str, str] = {}  # of two paragraphs with one title, the first one's
        for where, row in objects(paths):
            for part in _context(row, where):
                if not part.empty:
                    names_by_title.setdefault(part.title, part.name)
        for number, (where, row) in enumerate(objects(paths)):
            with blamed(where):
                (fields,) = self.cases(row, number)
            case = case_of(fields, where)
            own_names = {part.title: part.name for part in _context(row, where) if not part.empty}
            gold: list[GoldPage] = []
            for title in (page.document for page in case.gold):
                name = own_names.get(title) or names_by_title.get(title)
                if name is None:
                    remarks.count("gold paragraphs come with no question and cannot be found", title)
                gold.append(GoldPage(name or f"{title_in_name(title)}.md"))
            kind = row.get("type")
            yield replace(
                case,
                uid=f"hotpotqa-{case.uid}",
                file_name=gold[0].document,
                gold=tuple(gold),
                query_type=kind if isinstance(kind, str) and kind else case.query_type,
                benchmark="hotpotqa",
            )


def _context(row: Mapping[str, Any], where: str) -> Iterator[ParagraphDocument]:
    """Yield the paragraphs that come with a question, of pairs of title and sentences, or a column of each.

    Sentences bring their spaces along, and are only joined.
    """
    context = row.get("context")
    if isinstance(context, dict):
        columns = cast("dict[str, Any]", context)
        titles, texts = any_list(columns.get("title")), any_list(columns.get("sentences"))
        pairs = [*zip(titles, texts, strict=False)] if len(titles) == len(texts) else [()]
    else:
        pairs = [tuple(any_list(pair)) for pair in any_list(context)]
    for pair in pairs or [()]:
        title, sentences = pair if len(pair) == 2 else (None, None)
        parts = any_list(sentences)
        if not isinstance(title, str) or not all(isinstance(part, str) for part in parts):
            raise CaseError(
                f"{where}: 'context' is not made of titles and sentences.",
                "Take the file as it was published.",
            )
        yield ParagraphDocument(title, "".join(parts))


_WHOLE = (["yes"], ["no"], ["noanswer"])
"""Answers that are right as a whole or not at all."""


def score(case: Case, answer: str | None) -> Mapping[str, float]:
    """Measure `hotpotqa/f1`: as F1 of SQuAD, but "yes" and "no" are right alone or not at all.

    As the published `hotpot_evaluate_v1.py`, whose exact match is that of SQuAD. `hotpotqa/precision` and
    `hotpotqa/recall` are what F1 is the harmonic mean of; the joint measures are made of them. Of several
    references, all are of the one with the best F1.

    An abstention is the script's "noanswer". Two answers without words share none: 0, where SQuAD has 1.
    """
    best = (0.0, 0.0, 0.0)
    words = [] if answer is None else _words(answer)
    for right in map(_words, case.references):
        shared = shared_words(words, right)
        if shared and (words == right or (words not in _WHOLE and right not in _WHOLE)):
            f1 = 2 * shared / (len(words) + len(right))
            best = max(best, (f1, shared / len(words), shared / len(right)))
    return dict(zip(("hotpotqa/f1", "hotpotqa/precision", "hotpotqa/recall"), best, strict=True))


def _words(text: str) -> list[str]:
    return ["noanswer"] if abstains(text) else squad_words(text)
