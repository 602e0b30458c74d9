"""Questions that a document answers, made from the heads of its tables and the labels of its values.

Only those are suggested whose answer the reader finds, on the page that they were made from, and that read as
a person would ask. They are in the language of the document, English or Chinese: in others a question needs
more grammar than the heads of a table tell, and there is none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from vrag.reading.answer import ReadPage
from vrag.reading.labelled_values import LabelSide
from vrag.reading.page_text import read_page_text
from vrag.reading.places.phrases import is_same_phrase
from vrag.reading.reader import read
from vrag.reading.spans.span_types import VALUE_TYPES, SpanType, type_of_span
from vrag.reading.tables.table import DocumentTable
from vrag.reading.text_reader import TextReader
from vrag.text.terms import STOP_WORDS, tokens

T = TypeVar("T")
MIN_PROBABILITY = 0.5
"""Probability from which the reader's answer counts as found."""
MAX_PAGES = 8
"""Pages of a document that are looked at."""
MAX_TRIED = 6
"""Questions of a page whose answer is looked for."""
MAX_OTHERS = 3
"""Other pages among which the answer is looked for."""
MAX_OF_PAGE = 3
"""Questions about a page."""
MAX_QUESTION_CHARS = 110
MAX_HEAD_CHARS = 48
MAX_HEAD_WORDS = 6
MAX_ANSWER_CHARS = 30
MIN_LABEL_WORDS = 2
MIN_FIGURE_SIZE = 1.3
"""Height of a figure over that of its label from which the label may stand on any side of it."""
_YEAR = re.compile(r"(?<!\d)(?:FY\s?\d{2,4}|(?:19|20)\d{2}(?:/\d{2,4})?年?)(?!\d)")
_COUNT = re.compile(r"\d{1,3}(?:[.,  ]\d{3})*|\d+")
_FIGURE = re.compile(r"\d")
_SMALL = re.compile(r"\d{1,2}")
"""Figures beside words that may as well number a part of a drawing."""
_NUMBER = re.compile(r"\d[\d.,:：]*")
_HAN = re.compile(r"[\u3400-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_HEAD = re.compile(r"[^\W\d_][^\n,:;?!=|/*<>%#$€£…。，]*")
_TIME = re.compile(r"\d{1,2}[:：]\d{2}")
_LINE = re.compile(r"^\W{0,3}([^\W\d_][^:：\n]{2,47})[:：]\s*(\S[^\n]{0,39})$", re.MULTILINE)
_GERMAN = frozenset("der die das und ist nicht mit für auf im den von zu wird sind ein eine oder bei".split())
_ENGLISH = frozenset("the of and is to in for with on are from by that at this or be was which".split())
_NO_HEAD = (
    _ENGLISH
    | _GERMAN
    | frozenset("a an or as per up over under like than our we you no not all it its".split())
)
"""Words that are no part of a name."""
_LINKS = frozenset("of and per for to in und von der des".split())
"""Words within a name."""
_QUANTITIES = frozenset(
    "age amount area assets average balance budget capacity cash consumption cost count debt deficit "
    "demand depth dioxide distance dividend duration earnings emissions energy equity expenditure expense "
    "expenses fare fee grant growth headcount height income inventory investment length level liabilities "
    "loss margin number output percentage population power price production profit proportion rate ratio "
    "revenue revenues salary sales score share size speed spending surplus tax temperature time tonnage "
    "total traffic turnout turnover use value volume wage weight yield".split()
)
"""English words that name something measured, which a year has one of."""
_UNMEASURED = frozenset(
    "area demand depth energy level power rate share size speed time traffic use value".split()
)
"""Words for something measured that do not say alone what of it."""
_PARTICIPLE = re.compile(r"[A-Za-z-]+(?:ed|ing)")
_VAGUE = frozenset(
    "date description display figure item items name nos note notes number other others page saved "
    "standard sum table thereafter total value values yes gesamt seite sonstige summe wert "
    "合计 其他 总计".split()
)
"""Heads that say too little alone."""


class Language(StrEnum):
    """A language that questions are written in."""

    ENGLISH = "en"
    GERMAN = "de"
    CHINESE = "zh"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedQuestion:
    """A question that a document answers."""

    text: str
    answer: str
    """As the document writes it."""
    item: str
    """Id of the item on which it stands."""
    probability: float
    """The reader's estimate that it finds the answer, 0 to 1."""


@dataclass(frozen=True, slots=True)
class _Draft:
    text: str
    answer: str
    subject: str
    """The thing that is asked for: similar questions have the same one."""


def suggest_questions(
    pages: Sequence[ReadPage],
    most: int = 4,
    *,
    text_reader: TextReader | None = None,
) -> list[SuggestedQuestion]:
    """Suggest up to `most` questions about the pages or passages of one document, the surest first."""
    text = "\n".join(page.item.text for page in pages)
    language, vocabulary = find_language(text), frozenset(re.findall(r"\w+", text))
    found: list[SuggestedQuestion] = []
    for number in _order_pages(pages):
        drafts = _draft_questions(pages[number], language, vocabulary)
        for draft in _take_in_turn(drafts, lambda draft: draft.subject, MAX_TRIED):
            if question := _answered(draft, pages, number, text_reader):
                found.append(question)
            if sum(question.item == pages[number].item.id for question in found) == MAX_OF_PAGE:
                break
        if len(found) >= 2 * most:
            break
    surest_first = sorted(found, key=lambda question: -question.probability)
    return _take_in_turn(surest_first, lambda question: question.item, most)


def find_language(text: str) -> Language:
    """Tell the language of a text by its script and its most frequent words."""
    han = len(_HAN.findall(text))
    if _KANA.search(text):
        return Language.OTHER
    if han * 5 > len(text.replace(" ", "")):
        return Language.CHINESE
    words = re.findall(r"[^\W\d_]+", text.lower())
    german, english = (sum(word in known for word in words) for known in (_GERMAN, _ENGLISH))
    if max(german, english) * 25 < len(words):
        return Language.OTHER
    return Language.GERMAN if german > english else Language.ENGLISH


def _order_pages(pages: Sequence[ReadPage]) -> list[int]:
    """Choose the pages with most figures, and return their numbers, that with most first."""
    figures = [len(_FIGURE.findall(page.item.text)) for page in pages]
    return sorted(range(len(pages)), key=lambda number: (-figures[number], number))[:MAX_PAGES]


def _draft_questions(page: ReadPage, language: Language, vocabulary: frozenset[str]) -> Iterator[_Draft]:
    """Draft questions about one page, of tables first."""
    for table in read_page_text(page.item).tables(page.picture):
        yield from _table_questions(table, language, vocabulary)
    for label, answer in _labels(page):
        if text := _ask_label(label, language, vocabulary):
            yield _Draft(text, answer, label)


def _take_in_turn(entries: Iterable[T], group: Callable[[T], str], most: int) -> list[T]:
    """Choose entries: the first of each group, then the second of each."""
    rounds: Counter[str] = Counter()
    placed: list[tuple[int, T]] = []
    for entry in entries:
        rounds[group(entry)] += 1
        placed.append((rounds[group(entry)], entry))
    return [entry for _, entry in sorted(placed, key=lambda pair: pair[0])[:most]]


def _table_questions(
    table: DocumentTable, language: Language, vocabulary: frozenset[str]
) -> Iterator[_Draft]:
    """Ask for cells of a table: of each row one, of the columns in turn."""
    if not (table.header_rows and table.header_columns) or table.width == table.header_columns:
        return
    names = [_row_name(table, row) for row in range(table.height)]
    columns = range(table.header_columns, table.width)
    for turn, row in enumerate(range(table.header_rows, table.height)):
        column = columns[turn % len(columns)]
        cell, heads = table.cell_at(row, column), table.column_heads(column)
        if cell is None or not heads or row in table.sections:
            continue
        if cell.columns > 1 or cell.rows > 1 or names.count(names[row]) > 1 or not _is_value(cell.text):
            continue
        if text := _ask_cell(names[row], _plain(heads[-1].text), cell.text, language, vocabulary):
            yield _Draft(text, cell.text, heads[-1].text)


def _row_name(table: DocumentTable, row: int) -> str:
    """Return the head of a row: of several columns with heads the first."""
    cell = table.cell_at(row, 0)
    return _plain(cell.text) if cell else ""


def _labels(page: ReadPage) -> Iterator[tuple[str, str]]:
    """Yield labels and their values."""
    for label, value in _LINE.findall(page.item.text):
        if _is_value(value.strip()):
            yield label.strip(), value.strip()
    for value in read_page_text(page.item).values:
        is_beside = value.side in {LabelSide.LEFT, LabelSide.BELOW} or value.size > MIN_FIGURE_SIZE
        if is_beside and _is_value(value.text) and not _SMALL.fullmatch(value.text):
            yield value.label, value.text


def _ask_cell(row: str, column: str, cell: str, language: Language, vocabulary: frozenset[str]) -> str:
    """Write the question for a cell; empty where the heads make none."""
    if _YEAR.fullmatch(row):
        row, column = column, row
    if not _is_head(row, is_row=True) or column.lower() in row.lower():
        return ""
    year = _YEAR.search(column)
    subject = _plain(column.replace(year[0], "")) if year else column
    if subject and not _is_head(subject):
        return ""
    words = _CellQuestion(row, subject, year[0] if year else "", cell, vocabulary)
    wording = _WORDINGS.get(language)
    text = wording(words) if wording else ""
    return text if len(text) <= MAX_QUESTION_CHARS else ""


def _is_value(text: str) -> bool:
    """Return whether an answer is one figure, time or date."""
    if len(text) > MAX_ANSWER_CHARS or not _FIGURE.search(text):
        return False
    kind = type_of_span(text)
    return kind is SpanType.DATE or (kind in VALUE_TYPES and len(_NUMBER.findall(text)) == 1)


@dataclass(frozen=True, slots=True)
class _CellQuestion:
    """The parts of a question about a cell."""

    row: str
    column: str
    """The head of the column without its year; empty if that is all it says."""
    year: str
    """Empty if the column is none of a year."""
    cell: str
    vocabulary: frozenset[str]


def _ask_in_english(words: _CellQuestion) -> str:
    row, column = words.row, words.column
    if column and _names_quantity(row) and not _names_quantity(column):
        row, column = column, row  # a table that lists what is measured downwards
    name = _within(row, words.vocabulary, is_name=True)
    when = f" in {words.year}" if words.year else ""
    asked = _within(column, words.vocabulary) if column else name
    if not column:
        singular, plural = ("was", "were") if words.year else ("is", "are")
        is_measure = _names_quantity(asked) and asked.lower() not in _UNMEASURED
        verb = plural if _is_plural(asked) else singular
        return f"What {verb} the {asked}{when}?" if is_measure else ""
    if _PARTICIPLE.fullmatch(row):
        return ""  # it says what happened, and no name
    if _names_quantity(asked):
        verb = ("were" if words.year else "are") if _is_plural(asked) else ("was" if words.year else "is")
        return f"What {verb} the {asked} of {name}{when}?"
    if _is_plural(asked) and _COUNT.fullmatch(words.cell) and asked.islower():
        return f"How many {asked} are listed for {name}{when}?"
    return ""  # the head does not say what is measured


def _ask_in_chinese(words: _CellQuestion) -> str:
    year = f"{words.year.removesuffix('年')}年" if words.year else ""
    of_column = f"的{words.column}" if words.column else ""
    return f"{year}{words.row}{of_column}是{'几点' if _TIME.fullmatch(words.cell) else '多少'}？"


_WORDINGS: Mapping[Language, Callable[[_CellQuestion], str]] = {
    Language.ENGLISH: _ask_in_english,
    Language.CHINESE: _ask_in_chinese,
}


def _ask_label(label: str, language: Language, vocabulary: frozenset[str]) -> str:
    label = _plain(label)
    if not _is_head(label) or (len(label.split()) < MIN_LABEL_WORDS and not _HAN.search(label)):
        return ""
    if language is Language.ENGLISH and (not label[1:].islower() or "." in label):
        return ""  # titles and names, which are no labels
    match language:
        case Language.ENGLISH:
            return f"What {'are' if _is_plural(label) else 'is'} the {_within(label, vocabulary)}?"
        case Language.CHINESE:
            return f"{label}是多少？"
        case _:
            return ""


def _plain(head: str) -> str:
    """Leave out what stands in parentheses, and signs at the ends."""
    return re.sub(r"\s*[(（][^)）]*[)）]", "", head).strip(" -–—:：.")


def _is_head(text: str, *, is_row: bool = False) -> bool:
    """Return whether words name something that can be asked for; a longer name of a row may have figures."""
    words = text.lower().split()
    if _FIGURE.search(text) and not (is_row and len(words) > MIN_LABEL_WORDS):
        return False
    if not _HEAD.fullmatch(text) or len(text) > MAX_HEAD_CHARS or not 0 < len(words) <= MAX_HEAD_WORDS:
        return False
    if text.lower() in _VAGUE or words[0] in _NO_HEAD or _NO_HEAD.intersection(words) - _LINKS:
        return False
    letters = sum(character.isalpha() for character in text)
    is_long_enough = letters >= (2 if _HAN.search(text) else 3)
    return is_long_enough and letters * 5 >= 4 * len(text.replace(" ", ""))


def _within(head: str, vocabulary: frozenset[str], *, is_name: bool = False) -> str:
    """Write a head as it stands within an English sentence: its words in lower case, but for acronyms.

    Where it may be a name, only if it names a quantity, or its words are written so elsewhere.
    """
    words = head.split()
    lower = [word.lower() if word[:1].isupper() and word[1:].islower() else word for word in words]
    is_known = _names_quantity(head) or all(word in vocabulary for word in lower if word.islower())
    return " ".join(lower) if not is_name or is_known else head


def _names_quantity(head: str) -> bool:
    words = head.lower().split()
    return bool(
        _QUANTITIES.intersection(words) or _QUANTITIES.intersection(word.removesuffix("s") for word in words)
    )


def _is_plural(name: str) -> bool:
    """Return whether an English name is a plural, by its last word before a preposition."""
    noun = re.split(r"\s+(?:of|per|for|in|from|at|by|on|to|and)\b", name)[0].split()
    return bool(noun) and re.search(r"[^siu]s$", noun[-1].lower()) is not None


def _answered(
    draft: _Draft, pages: Sequence[ReadPage], number: int, text_reader: TextReader | None
) -> SuggestedQuestion | None:
    """Return the question if the reader finds its answer on its page, and not on others with its words."""
    wanted = {token.term for token in tokens(draft.text)}.difference(STOP_WORDS)
    shared = [len(wanted.intersection(token.term for token in tokens(page.item.text))) for page in pages]
    others = sorted(set(range(len(pages))) - {number}, key=lambda other: (-shared[other], other))[:MAX_OTHERS]
    among = [pages[at] for at in sorted([number, *others])]
    best = next(iter(read(draft.text, among, text_reader=text_reader)), None)
    item = pages[number].item.id
    if best is None or best.probability < MIN_PROBABILITY or best.item != item:
        return None
    if not is_same_phrase(best.text, draft.answer):
        return None
    return SuggestedQuestion(text=draft.text, answer=best.text, item=item, probability=best.probability)
