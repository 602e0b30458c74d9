"""Questions with the pages that a search would show for them: from tables and paragraphs of data sets.

Each data set becomes a collection of pages, and each question gets the pages that share most of its rare
words, as a person would be shown them. From some questions the page with the answer is kept away.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from vrag.reading.labelled_values import LabelSide
from vrag.reading.page_candidates import PageCandidate
from vrag.reading.table_answers.candidates import RankedAnswer
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.reading.training.table_data import (
    TableCase,
    matches_answer,
    read_tat_cases,
    read_tat_question,
    read_tat_records,
    read_tat_table,
    read_wiki_cases,
)
from vrag.reading.training.text_data import (
    TextQuestion,
    answer_f1,
    answer_words,
    read_cmrc,
    read_covid_documents,
    read_jaquad,
    read_xquad,
)
from vrag.reading.training.typeset_pages import (
    TypesetPage,
    ValueCard,
    split_paragraphs,
    typeset_cards,
    typeset_page,
)
from vrag.text.terms import STOP_WORDS, tokens

PAGE_CHARS = 2500
"""Characters of running text on a page."""
PARAGRAPHS = 3
"""Paragraphs of a page, for sets of short ones."""
LANGUAGES = "en", "zh", "de"
"""Languages of XQuAD that are asked in."""
SHOWN = 3
"""Pages shown for a question."""
HIDDEN = 0.15
"""Share of the questions from which the page with the answer is kept away."""
CHANGED = 0.25
"""Share of the questions that are changed so that no page answers them, where they name a year or a name."""
ADDED = 0.4
"""Share of the questions to which the page with the answer is added where a search does not show it."""
RIGHT_F1 = 0.6
"""F1 from which a span is right in part; under it, it is wrong."""
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]+)*")


@dataclass(frozen=True, slots=True, eq=False)
class PageQuestion:
    """A question and the pages shown for it, best first."""

    source: str
    question: str
    answers: tuple[str, ...]
    """Right texts, each of which is enough; of a list all together."""
    gold: str
    """Id of the item that holds the answer."""
    topic: str
    """The table or text that it asks about, the same in all languages and shapes that it is shown in."""
    table: TableCase | None = None
    """The question over a table, where it is one."""
    pages: tuple[TypesetPage, ...] = ()

    def gain(self, candidate: PageCandidate) -> float:
        """Return the worth of a candidate, 0 to 1; what another page says is wrong."""
        if candidate.reading.item != self.gold:
            return 0.0
        source = candidate.source
        if self.table is not None and isinstance(source, RankedAnswer):
            found = source.candidate
            number = found.number if not found.cells else None
            return float(matches_answer(found.values, number, self.table))
        words = answer_words(candidate.reading.text)
        overlap = max((answer_f1(words, answer_words(answer)) for answer in self.answers), default=0.0)
        return overlap if overlap >= RIGHT_F1 else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class PageCollection:
    """Pages, and the words on them."""

    pages: tuple[TypesetPage, ...]
    _terms: list[Counter[str]] = field(init=False, repr=False)
    _holders: dict[str, list[int]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        terms = [Counter(token.term for token in tokens(page.item.text)) for page in self.pages]
        holders: dict[str, list[int]] = defaultdict(list)
        for number, counts in enumerate(terms):
            for term in counts:
                holders[term].append(number)
        object.__setattr__(self, "_terms", terms)
        object.__setattr__(self, "_holders", holders)

    def page(self, id: str) -> TypesetPage:
        """Return the page of an item."""
        return next(page for page in self.pages if page.item.id == id)

    def search(self, question: str, count: int) -> list[TypesetPage]:
        """Return the pages with most of a question's rare words."""
        scores: Counter[int] = Counter()
        for term in {token.term for token in tokens(question)} - STOP_WORDS:
            holders = self._holders.get(term, [])
            rarity = math.log(1 + len(self.pages) / (1 + len(holders)))
            for number in holders:
                scores[number] += rarity * (1 + math.log(self._terms[number][term]))  # pyright: ignore[reportArgumentType]
        return [self.pages[number] for number, _ in scores.most_common(count)]


def read_answer_questions(folder: Path, count: int, seed: int) -> Iterator[PageQuestion]:
    """Yield up to `count` questions of each data set in a folder, with the pages shown for them.

    The page with the answer is kept away from some; it is added to some that a search does not show it for;
    and some ask for another year or name instead, so that the page does not answer them.
    """
    chooser = random.Random(seed)
    for pages, questions in _read_collections(folder):
        collection = PageCollection(tuple(pages))
        names = [name for question in questions for name in _NAME.findall(question.question)]
        for question in chooser.sample(questions, min(count, len(questions))):
            yield _show_pages(question, collection, names, chooser)


def _show_pages(
    question: PageQuestion, collection: PageCollection, names: Sequence[str], chooser: random.Random
) -> PageQuestion:
    """Return a question with its pages: as a search shows them, or changed; see `read_answer_questions`."""
    chance = chooser.random()
    shown = collection.search(question.question, SHOWN + 1)
    is_shown = question.gold in {page.item.id for page in shown[:SHOWN]}
    if chance < HIDDEN:
        shown = [page for page in shown if page.item.id != question.gold]
    elif chance < HIDDEN + ADDED and not is_shown:
        shown.insert(chooser.randrange(SHOWN), collection.page(question.gold))
    elif chance > 1 - CHANGED:
        text = "\n".join(page.item.text for page in shown)
        if changed := change_question(question.question, text, names, chooser):
            question = replace(question, question=changed, gold="")
    return replace(question, pages=tuple(shown[:SHOWN]))


def change_question(question: str, text: str, names: Sequence[str], chooser: random.Random) -> str | None:
    """Return the question about another year or name, which the text lacks; None where it has neither.

    `names` are those of all questions.
    """
    if years := list(_YEAR.finditer(question)):
        match = chooser.choice(years)
        others = [str(year) for year in range(int(match[0]) - 12, int(match[0]) + 13)]
    elif found := list(_NAME.finditer(question)):
        match = chooser.choice(found)
        others = chooser.sample(names, min(50, len(names)))
    else:
        return None
    absent = [other for other in others if other not in text and other != match[0]]
    if not absent:
        return None
    return question[: match.start()] + chooser.choice(absent) + question[match.end() :]


def _read_collections(folder: Path) -> Iterator[tuple[list[TypesetPage], list[PageQuestion]]]:
    """Yield the pages and the questions of each data set that the folder has."""
    tat = folder / "TAT-QA" / "dataset_raw" / "tatqa_dataset_dev.json"
    readers: list[tuple[Path, Callable[[], tuple[list[TypesetPage], list[PageQuestion]]]]] = [
        (tat, lambda: _read_tat(tat)),
        (tat, lambda: _read_cards(tat)),
        (folder / "WikiTableQuestions" / "data", lambda: _read_wiki(folder / "WikiTableQuestions")),
        *(
            (
                folder / "xquad" / f"xquad.{language}.json",
                partial(_read_paragraphs, read_xquad, folder / "xquad", language),
            )
            for language in LANGUAGES
        ),
        (folder / "JaQuAD" / "data", partial(_read_paragraphs, read_jaquad, folder / "JaQuAD", "dev")),
        (
            folder / "cmrc2018" / "squad-style-data",
            partial(_read_paragraphs, read_cmrc, folder / "cmrc2018", "dev"),
        ),
        (folder / "COVID-QA" / "data", lambda: _split_documents(read_covid_documents(folder / "COVID-QA"))),
    ]
    for place, read_set in readers:
        if place.exists():
            yield read_set()


def _read_tat(path: Path) -> tuple[list[TypesetPage], list[PageQuestion]]:
    """Read the tables and paragraphs of TAT-QA, each context as one page."""
    pages: list[TypesetPage] = []
    questions: list[PageQuestion] = []
    for number, record in enumerate(read_tat_records(path.read_text(encoding="utf-8")), 1):
        texts = [paragraph["text"] for paragraph in record["paragraphs"]]
        table = read_tat_table(record["table"]["table"], texts)
        page = typeset_page("tat", number, [*texts[:1], table, *texts[1:]])
        pages.append(page)
        for entry in record["questions"]:
            case = read_tat_question(entry, table)
            answers = (", ".join(case.answers),)
            topic = f"TAT-QA {number}"
            questions.append(PageQuestion("tat", case.question, answers, page.item.id, topic, case))
    return pages, questions


def _read_cards(path: Path) -> tuple[list[TypesetPage], list[PageQuestion]]:
    """Read questions for one cell of a table of TAT-QA; the row of the cell is set as cards with labels."""
    pages: list[TypesetPage] = []
    questions: list[PageQuestion] = []
    chooser = random.Random(0)
    for number, case in _number_tables(read_tat_cases(path)):
        cells = [cell for cell in case.table.cells if cell.text == case.answers[0] and cell.column]
        if case.computed or len(case.answers) != 1 or len(cells) != 1:
            continue
        first = cells[0].row - chooser.randrange(3)
        rows = [cell for cell in case.table.cells if first <= cell.row < first + 4 and cell.column]
        cards = [ValueCard(cell.text, _label(case.table, cell)) for cell in rows if cell.text]
        side = chooser.choice(list(LabelSide))
        page = typeset_cards(
            "cards", len(pages) + 1, case.table.caption[:80] or "Key figures", cards[:18], side
        )
        pages.append(page)
        topic = f"TAT-QA {number}"
        questions.append(PageQuestion("cards", case.question, case.answers, page.item.id, topic))
    return pages, questions


def _number_tables(cases: Iterable[TableCase]) -> Iterator[tuple[int, TableCase]]:
    """Yield cases with the numbers of their tables, from 1."""
    numbers: dict[int, int] = {}
    for case in cases:
        yield numbers.setdefault(id(case.table), len(numbers) + 1), case


def _label(table: DocumentTable, cell: Cell) -> str:
    heads = (*table.row_heads(cell.row), *table.column_heads(cell.column))
    return " ".join(head.text for head in heads)


def _read_wiki(folder: Path) -> tuple[list[TypesetPage], list[PageQuestion]]:
    pages: dict[int, TypesetPage] = {}
    questions: list[PageQuestion] = []
    for case in read_wiki_cases(folder, "pristine-unseen-tables"):
        page = pages.get(id(case.table))
        if page is None:
            page = pages[id(case.table)] = typeset_page("wiki", len(pages) + 1, [case.table])
        answers = (", ".join(case.answers),)
        topic = page.item.id
        questions.append(PageQuestion("wiki", case.question, answers, page.item.id, topic, case))
    return list(pages.values()), questions


def _read_paragraphs(
    read_questions: Callable[[Path, str], list[TextQuestion]], folder: Path, part: str
) -> tuple[list[TypesetPage], list[PageQuestion]]:
    """Read paragraphs and their questions, and set `PARAGRAPHS` on a page."""
    questions = read_questions(folder, part)
    texts = {question.paragraph: question.text for question in questions}
    groups: dict[int, list[str]] = defaultdict(list)
    for number, text in sorted(texts.items()):
        groups[number // PARAGRAPHS].append(text)
    name = f"{folder.name}-{part}"
    pages = {number: typeset_page(name, number + 1, group) for number, group in groups.items()}
    asked: list[PageQuestion] = []
    for question in questions:
        number = question.paragraph // PARAGRAPHS
        gold, topic = pages[number].item.id, f"{folder.name} {number}"
        asked.append(PageQuestion(question.source, question.question, _texts(question), gold, topic))
    return list(pages.values()), asked


def _split_documents(questions: Iterable[TextQuestion]) -> tuple[list[TypesetPage], list[PageQuestion]]:
    """Set long documents on pages of some `PAGE_CHARS` characters."""
    pages: list[TypesetPage] = []
    ends: dict[int, list[tuple[int, str]]] = {}
    asked: list[PageQuestion] = []
    for question in questions:
        if question.paragraph not in ends:
            places, end = list[tuple[int, str]](), 0
            for piece in split_paragraphs(question.text, PAGE_CHARS):
                end += len(piece)
                pages.append(typeset_page("covid", len(pages) + 1, [piece]))
                places.append((end, pages[-1].item.id))
            ends[question.paragraph] = places
        start = question.answers[0][0]
        gold = next((id for end, id in ends[question.paragraph] if start < end), "")
        topic = f"COVID-QA {question.paragraph}"
        asked.append(PageQuestion("covid", question.question, _texts(question), gold, topic))
    return pages, asked


def _texts(question: TextQuestion) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for _, text in question.answers))
