"""Common financial ratios, computed from the lines of a company's statements.

`ratios.toml` has their names, formulas and sources. A ratio is computed only where the question names one,
its period, and nothing else but the company; where each line of the formula has one value for that period, in
whole tables of the right statements of one document, all in one scale; and where no table states another
value of it. The answer shows the formula: definitions vary.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel

from vrag.reading.questions.overview import fits_no_answer
from vrag.reading.questions.query_analysis import without_form
from vrag.reading.table_answers.scales import CellMeasure, measure_of_cells
from vrag.reading.table_answers.values import Day, find_days, find_quantities, format_number, parse_cell
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.text.folding import fold
from vrag.text.numerals import add, divide, is_rounding_of, multiply, subtract, write_figures
from vrag.text.terms import STOP_WORDS, tokens

TABLE_OF_RATIOS = Path(__file__).with_name("ratios.toml")
LATE_MONTH = 4
"""The first month of an end of a fiscal year that surely has the number of its calendar year."""
LARGE_AMOUNT = 1_000_000
"""The amount from which it may be written in full: below it, its scale stands where it was not found."""
_DEFINED = re.compile(
    r"\b(?:defin\w*|formula|calculated (?:as|by|using)|computed as|assum\w+)\b|[=÷]", re.IGNORECASE
)
"""A question that brings a definition of its own."""
_PART_OF_YEAR = re.compile(
    r"\b(?:(?:three|six|nine|[369])\s+months?|(?:13|26|39|thirteen|twenty-six|thirty-nine)\s+weeks?"
    r"|quarter(?:ly|s)?|pro forma|parent company|segment)\b",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?<![\d.,$])(?:FY|CY)?\s?'?((?:19|20)\d\d)(?![\d.,]*\d)", re.IGNORECASE)
_NO_LETTER = re.compile(r"[^a-z0-9]+")
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|['’]")
_NET_OF = re.compile(r",\s*(?:net )?of\b.*|,\s*including\b.*", re.IGNORECASE)
"""A remark behind the name of a line: "Additions to property, net of $35 non-cash"."""
_COMMON = frozenset(
    token.term
    for token in tokens(
        "company firm ratio fiscal financial fy cy year ended ending end calculate compute determine value "
        "based statement balance sheet income cash flow consolidated annual report filing figure data using "
        "use base according year-end percent percentage term answer round decimal place please judgment "
        "information provide provided primarily detail shown clearly outlined line item question million "
        "billion thousand usd dollar give state tell number form"
    )
)
"""Words of questions that say nothing of which ratio is asked for."""
_SIGNS: Mapping[type[ast.operator], tuple[str, Callable[[Decimal, Decimal], Decimal]]] = {
    ast.Add: ("+", lambda a, b: add([a, b])),
    ast.Sub: ("−", subtract),
    ast.Mult: ("×", multiply),
    ast.Div: ("÷", divide),
}


_SIGN_OF_COST = re.compile(r"^[(\s]*[-−–]?\s?\(?|[)\s]+$")
_ENDINGS = {"%": " %", "days": " days"}


class StatementLine(BaseModel, frozen=True):
    """A line of a statement."""

    statement: str
    names: tuple[str, ...]
    """Its usual wordings without punctuation; the first that is found counts."""
    strict: bool = False
    """True if all wordings that are found must have the same value."""
    cost: bool = False
    """True if its sign is left out: costs are written as negative numbers in some statements."""


class FinancialRatio(BaseModel, frozen=True):
    """A ratio."""

    names: tuple[str, ...]
    formulas: tuple[str, ...]
    """The first one whose lines are all found counts."""
    unit: Literal["ratio", "%", "days", "amount"]
    source: str
    """The key of the source of its definition."""
    bounds: tuple[Decimal, Decimal] | None = None
    """The values between which it is likely."""
    optional: str = ""
    """A line that counts as zero if no rows stand between those of `between`."""
    between: tuple[str, ...] = ()


class RatioTable(BaseModel, frozen=True):
    """The content of `ratios.toml`."""

    sources: dict[str, str]
    statements: dict[str, tuple[frozenset[str], ...]]
    """For each statement groups of lines, of each of which it has one."""
    search: dict[str, str]
    """Words that each statement has."""
    lines: dict[str, StatementLine]
    ratios: tuple[FinancialRatio, ...]


class StatementPage(NamedTuple):
    """A page with its tables."""

    document: str
    name: str
    """The name of the document."""
    item: str
    text: str
    tables: Sequence[DocumentTable]


class RatioOperand(NamedTuple):
    """The value of a line for one period."""

    value: Decimal
    cell: Cell
    table: DocumentTable
    item: str
    measure: CellMeasure
    is_cost: bool
    """True if its sign is left out."""


@dataclass(frozen=True, slots=True)
class RatioAnswer:
    """A computed ratio."""

    text: str
    number: Decimal
    arithmetic: str
    """The formula in words and in numbers."""
    operands: tuple[RatioOperand, ...]
    measure: CellMeasure
    unit: str


class RatioQuestion(NamedTuple):
    """The ratio, the period and the other words that a question names."""

    ratio: FinancialRatio
    period: Day
    rest: frozenset[str]
    """Other words: they must name the company."""


@lru_cache(maxsize=1)
def load_ratios() -> RatioTable:
    """Load the table of the package."""
    return RatioTable.model_validate(tomllib.loads(TABLE_OF_RATIOS.read_text("utf-8")))


def read_ratio_question(question: str) -> RatioQuestion | None:
    """Return the ratio, the period and the other words of a question; None for any other question.

    >>> asked = read_ratio_question("What is Orla's current ratio for FY2019?")
    >>> asked.ratio.names[0], asked.period.year, sorted(asked.rest)
    ('current ratio', 2019, ['orla'])
    >>> read_ratio_question("What is the quick ratio of 2019, defined as cash / debt?") is None
    True
    """
    core = without_form(question)
    if _DEFINED.search(core) or fits_no_answer(question):
        return None
    plain = f" {simplify_name(core)} "
    named = [(name, ratio) for ratio in load_ratios().ratios for name in ratio.names if f" {name} " in plain]
    period = _read_period(core)
    if not named or period is None:
        return None
    name, ratio = max(named, key=lambda found: len(found[0]))
    rest = plain.replace(f" {name} ", " ")
    others = (token.term for token in tokens(rest) if not rest[token.start].isdigit())
    words = (term for term in others if term not in STOP_WORDS and not re.fullmatch(r"[fc]y\d*", term))
    months = {token.term for token in tokens(rest) if find_days(f"{rest[token.start : token.end]} 1 2000")}
    return RatioQuestion(
        ratio, period, frozenset(words) - _COMMON - (months if period.month else frozenset())
    )


def name_lines(question: str) -> tuple[str, ...]:
    """Return the usual names of the lines that a question for a ratio needs, and words of their statements.

    They are what to search for.
    """
    asked = read_ratio_question(question)
    if asked is None:
        return ()
    table = load_ratios()
    lines = [table.lines[name] for name in _list_names(asked.ratio.formulas[0])]
    words = (table.search[statement] for statement in dict.fromkeys(line.statement for line in lines))
    return (*(line.names[0] for line in lines), *words)


def simplify_name(text: str) -> str:
    """Return the letters and figures of a name in small letters, without what stands in brackets.

    >>> simplify_name("Net earnings (loss), Note 3"), simplify_name("Shareholders' equity")
    ('net earnings note 3', 'shareholders equity')
    """
    return " ".join(_NO_LETTER.sub(" ", _BRACKETS.sub("", fold(text))).split())


def _read_period(text: str) -> Day | None:
    """Return the only date or year of a text."""
    days = {day for day, _, _ in find_days(text) if day.year and day.month}
    years = {int(year) for year in _YEAR.findall(text)}
    if len(days) == 1:
        (day,) = days
        return day if years <= {day.year} else None
    return Day(years.pop(), 0, 0) if len(years) == 1 and not days else None


def compute_ratio(question: str, pages: Iterable[StatementPage]) -> RatioAnswer | None:
    """Return the ratio that a question asks for; None if it asks for none, or where anything is unclear."""
    asked = read_ratio_question(question)
    if asked is None:
        return None
    documents: dict[str, list[StatementPage]] = {}
    for page in pages:
        documents.setdefault(page.document, []).append(page)
    found = [answer for own in documents.values() if (answer := _compute(asked, own))]
    return found[0] if len({answer.number for answer in found}) == 1 else None


def _compute(asked: RatioQuestion, pages: Sequence[StatementPage]) -> RatioAnswer | None:
    statements = _Statements(pages, asked.period)
    optional = asked.ratio.optional
    for formula in asked.ratio.formulas:
        if optional and statements.lacks(asked.ratio):
            formula = formula.replace(f" + {optional}", "")  # noqa: PLW2901
        if all(statements.find(name) for name in _list_names(formula)):
            return _write(asked, formula, statements, pages)
    return None


def _list_names(formula: str) -> list[str]:
    """Return the names of the lines of a formula, in order."""
    lines = load_ratios().lines
    found = [node.id for node in ast.walk(ast.parse(formula)) if isinstance(node, ast.Name)]
    return sorted(dict.fromkeys(name for name in found if name in lines), key=formula.index)


def _list_rows(table: DocumentTable) -> Iterator[tuple[str, int]]:
    """Yield the simplified head of each row of a table, with its number."""
    for row in range(table.header_rows, table.height):
        cells = (table.cell_at(row, column) for column in range(max(table.header_columns, 1)))
        text = " ".join(cell.text for cell in dict.fromkeys(cells) if cell is not None)
        if head := simplify_name(_NET_OF.sub("", text)):
            yield head, row


@dataclass(frozen=True)
class _Statements:
    """The statements of one document for a period."""

    pages: Sequence[StatementPage]
    period: Day

    def _list_tables(self, statement: str) -> Iterator[tuple[str, DocumentTable]]:
        """Yield the whole tables that are a statement, each with its page."""
        groups = load_ratios().statements[statement]
        for page in self.pages:
            for table in page.tables:
                heads = {head for head, _ in _list_rows(table)}
                said = [table.caption, *(head.text for head in table.cells if head.row < table.header_rows)]
                is_partial = table.is_part or _PART_OF_YEAR.search(" ".join(said)) is not None
                if not (is_partial or table.chart) and all(not group.isdisjoint(heads) for group in groups):
                    yield page.item, table

    def find(self, name: str, *, opening: bool = False) -> RatioOperand | None:
        """Return the value of a line for the period, or for the end of the one before; None if unclear."""
        line = load_ratios().lines[name]
        found: dict[str, list[RatioOperand]] = {}
        for item, table in self._list_tables(line.statement):
            column = _find_column(table, self.period, opening=opening)
            for head, row in _list_rows(table):
                cell = table.cell_at(row, column) if column is not None else None
                if head in line.names and cell is not None and cell.text.strip():
                    found.setdefault(head, []).append(_read_operand(cell, table, item, line))
        named = [operand for head in line.names for operand in found.get(head, ())]
        first = next((found[head] for head in line.names if head in found), list[RatioOperand]())
        values = {(operand.value, operand.measure) for operand in (named if line.strict else first)}
        return first[0] if len(values) == 1 and not first[0].value.is_nan() else None

    def lacks(self, ratio: FinancialRatio) -> bool:
        """Return whether an optional line is missing: there are no rows between two others."""
        lines = load_ratios().lines
        first, last = (self.find(name) for name in ratio.between)
        if first is None or last is None or first.table is not last.table:
            return False
        optional = lines[ratio.optional].names
        heads = list(_list_rows(first.table))
        is_there = any(head in optional for head, _ in heads)
        between = [head for head, row in heads if first.cell.row < row < last.cell.row]
        return not is_there and not between


def _read_operand(cell: Cell, table: DocumentTable, item: str, line: StatementLine) -> RatioOperand:
    value = parse_cell(cell.text, table.number_style)
    number = value.number if value.number is not None and value.whole else Decimal("nan")
    measure = measure_of_cells(table, [cell])
    return RatioOperand(
        number.copy_abs() if line.cost else number,
        cell,
        table,
        cell.item or item,
        CellMeasure(measure.scale),
        line.cost,
    )


def _find_column(table: DocumentTable, period: Day, *, opening: bool) -> int | None:
    """Return the only column of a period, or of the end of the one before."""
    wanted = period._replace(year=period.year - 1) if opening else period
    found: list[int] = []
    for column in range(max(table.header_columns, 1), table.width):
        text = " ".join(head.text for head in table.column_heads(column))
        days = [day for day, _, _ in find_days(text) if day.year and day.month]
        years = {int(year) for year in _YEAR.findall(text)}
        if len(years) == 1 and _is_period(
            days[0] if days else Day(years.pop(), 0, 0), wanted, exact=not opening
        ):
            found.append(column)
    return found[0] if len(found) == 1 else None


def _is_period(day: Day, wanted: Day, *, exact: bool) -> bool:
    """Return whether a column is that of a period; early months may belong to the fiscal year before."""
    if day.year != wanted.year:
        return False
    if day.month and wanted.month:
        return (day.month, day.day) == (wanted.month, wanted.day) if exact else day.month == wanted.month
    return (day.month or wanted.month or LATE_MONTH) >= LATE_MONTH


def _write(
    asked: RatioQuestion, formula: str, statements: _Statements, pages: Sequence[StatementPage]
) -> RatioAnswer | None:
    """Return the value of a formula with its arithmetic; None where scales differ or it is unlikely."""
    writer = _FormulaWriter(statements)
    number = writer.compute(ast.parse(formula, mode="eval").body)
    operands = tuple(dict.fromkeys(writer.operands))
    if number is None or len({operand.measure for operand in operands}) > 1:
        return None
    ratio, measure = asked.ratio, operands[0].measure
    if ratio.unit == "%":
        number = multiply(number, Decimal(100))
    if ratio.unit == "amount" and not measure.scale and number.copy_abs() < LARGE_AMOUNT:
        return None
    is_beyond = ratio.bounds is not None and not ratio.bounds[0] <= number <= ratio.bounds[1]
    if is_beyond or _is_stated_otherwise(ratio, number, pages) or not _is_about(asked.rest, pages, operands):
        return None
    text = _format(number, ratio.unit, operands)
    words, figures = (
        re.sub(r"(?<=\() | (?=\))", "", " ".join(parts)) for parts in (writer.words, writer.figures)
    )
    arithmetic = f"{ratio.names[0]} = {words} = {figures} = {text}"
    return RatioAnswer(
        text, number, arithmetic, operands, measure if ratio.unit == "amount" else CellMeasure(), ratio.unit
    )


def _is_stated_otherwise(ratio: FinancialRatio, number: Decimal, pages: Sequence[StatementPage]) -> bool:
    """Return whether a table states the ratio itself, and never as what was computed, rounded."""
    cells = [
        (table.cell_at(row, column), table)
        for page in pages
        for table in page.tables
        for head, row in _list_rows(table)
        if head in ratio.names
        for column in range(max(table.header_columns, 1), table.width)
    ]
    stated = [
        value
        for cell, table in cells
        if cell is not None
        for value in find_quantities(cell.text, words=False, style=table.number_style)
    ]
    return bool(stated) and not any(
        is_rounding_of(value.amount, number, Decimal(1).scaleb(-value.decimals)) for value in stated
    )


def names_other_company(question: str, document_name: str, text: str) -> bool:
    """Return whether a question for a ratio names a company that a page and its document do not name."""
    asked = read_ratio_question(question)
    name, terms = simplify_name(document_name).replace(" ", ""), {token.term for token in tokens(text)}
    return asked is not None and not all(term in name or term in terms for term in asked.rest)


def _is_about(rest: frozenset[str], pages: Sequence[StatementPage], operands: Sequence[RatioOperand]) -> bool:
    """Return whether other words of a question name the document or stand around its statements."""
    items = {operand.item for operand in operands}
    tables = [operand.table for operand in operands]
    heads = {token.term for table in tables for head, _ in _list_rows(table) for token in tokens(head)}
    texts = [{token.term for token in tokens(page.text)} for page in pages if page.item in items]
    name = simplify_name(pages[0].name).replace(" ", "")
    return all(term in name or (term not in heads and all(term in text for text in texts)) for term in rest)


def _format(number: Decimal, unit: str, operands: Sequence[RatioOperand]) -> str:
    cells, style = [operand.cell.text for operand in operands], operands[0].table.number_style
    if unit == "amount":
        return format_number(number, cells, style)
    sign = style.decimal_sign or "."
    minus = "-" if number < 0 else ""
    figures = write_figures(number, 1 if unit in _ENDINGS else 2, "", sign)
    return f"{minus}{figures}{_ENDINGS.get(unit, '')}"


class _FormulaWriter:
    """The computation of a formula, which notes its words, its figures and its operands."""

    def __init__(self, statements: _Statements) -> None:
        self.statements = statements
        self.words: list[str] = []
        self.figures: list[str] = []
        self.operands: list[RatioOperand] = []

    def compute(self, node: ast.expr, *, inner: bool = False) -> Decimal | None:
        """Return the value of a part of a formula; None where an operand lacks or is zero below a line."""
        if isinstance(node, ast.Constant):
            self._note(str(node.value))
            return Decimal(str(node.value))
        if isinstance(node, ast.Name):
            self.words.append(node.id.replace("_", " "))
            return self._take(node.id)
        if isinstance(node, ast.Call):
            (line,) = node.args
            assert isinstance(line, ast.Name)
            self.words.append(f"average {line.id.replace('_', ' ')}")
            self.figures.append("((")
            opening = self._take(line.id, opening=True)
            self.figures.append("+")
            closing = self._take(line.id)
            self.figures.append(") ÷ 2)")
            return None if opening is None or closing is None else divide(add([opening, closing]), Decimal(2))
        assert isinstance(node, ast.BinOp)
        sign, operate = _SIGNS[type(node.op)]
        is_sum = inner and isinstance(node.op, (ast.Add, ast.Sub))
        self._note(*["("] * is_sum)
        left = self.compute(node.left, inner=True)
        self._note(sign)
        right = self.compute(node.right, inner=True)
        self._note(*[")"] * is_sum)
        if left is None or right is None or (isinstance(node.op, ast.Div) and not right):
            return None
        return operate(left, right)

    def _note(self, *signs: str) -> None:
        self.words += signs
        self.figures += signs

    def _take(self, name: str, *, opening: bool = False) -> Decimal | None:
        operand = self.statements.find(name, opening=opening)
        if operand is None:
            return None
        self.operands.append(operand)
        self.figures.append(
            _SIGN_OF_COST.sub("", operand.cell.text) if operand.is_cost else operand.cell.text
        )
        return operand.value
