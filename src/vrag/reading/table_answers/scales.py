"""The measure of an answer: what "in thousands of euros" beside a table, or "Weight (kg)" in a head, says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vrag.reading.table_answers.records import is_year
from vrag.reading.table_answers.values import CellValue, parse_cell
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.reading.verification.units import units_of

_SCALE = re.compile(
    r"\b(?P<word>thousand|million|billion)s?\b|(?:[$€£¥]|US\$|['’])\s*['’]?(?P<zeros>000(?:['’]?s)?\b)"
    r"|[$€£¥]\s?(?P<letter>m|k|bn)\b|(?P<cjk>千|万|百万|亿)元",
    re.IGNORECASE,
)
_LETTERS = {"m": "million", "k": "thousand", "bn": "billion"}
_CJK = {"千": "thousand", "百万": "million"}
_EXEMPT = re.compile(r"\b(?:per share|per unit|number of (?:people|employees)|headcount)\b", re.IGNORECASE)
_COUNTED = re.compile(
    r"""\b(?:number|no\.|numbers|count|employees|staff|headcount|people|persons|stores?|shops|branches|locations
    |customers|members|households|shares?|units?|vessels|ships|days?|weeks|months|years?|hours|times|rate|ratio
    |multiple|margin|yield|per|square\ (?:feet|met(?:re|er)s)|age|rank|tonnes?|tons|kilomet(?:re|er)s
    |passengers|percent(?:age)?)\b | \#""",
    re.IGNORECASE | re.VERBOSE,
)
"""Heads of what is no money, whatever the caption says about the amounts of a table."""
_CURRENCY = re.compile(
    r"US\$|[$€£¥]|\b(?:EUR|USD|GBP|CHF|JPY|CNY|SEK|NOK|DKK|euros?|(?:US )?dollars?|pounds?|yen|yuan"
    r"|francs?)\b",
    re.IGNORECASE,
)
_STATED_CURRENCY = re.compile(
    rf"(?:\(\s*(?:in\s+|all\s)?|\bin\s+)(?P<currency>{_CURRENCY.pattern})(?=\s*(?:[),;.]|$))",
    re.IGNORECASE,
)
"""A currency that stands alone in brackets, or behind "in": that of all amounts."""
_UNIT_OF_HEAD = re.compile(r"(?:[(\[]\s*|,\s+|\bin\s+)(?:in\s+)?(?P<unit>[^\s()\[\],]{1,8})\s*[)\]]?\s*$")
_SCALED_UNIT = re.compile(
    r"\b(?:thousand|million|billion)s?\s+(?:of\s+)?(?P<unit>[^\s()\[\],.;]{1,12})", re.IGNORECASE
)
_NAMES = {"€": "euros", "$": "dollars", "us$": "US dollars", "£": "pounds", "¥": "¥"}
_KINDS = {
    "€": "EUR", "EUR": "EUR", "EURO": "EUR", "$": "USD", "US$": "USD", "USD": "USD", "DOLLAR": "USD",
    "US DOLLAR": "USD", "£": "GBP", "GBP": "GBP", "POUND": "GBP", "¥": "", "FRANC": "CHF",
}  # fmt: skip


class CellMeasure(NamedTuple):
    """The scale and the unit of numbers, as far as the cells do not state them themselves."""

    scale: str = ""
    """"thousand", "million" or "billion"; empty without one, or where it is not known."""
    unit: str = ""
    """A unit or a currency as the document writes it: "kg", "EUR", "euros"."""

    @property
    def text(self) -> str:
        """The scale and unit behind a number, such as "(in thousands of euros)"; empty without any.

        >>> CellMeasure("thousand", "€").text, CellMeasure("million").text, CellMeasure("", "kg").text
        ('(in thousands of euros)', '(in millions)', 'kg')
        """
        unit = _NAMES.get(self.unit.lower(), self.unit)
        if not self.scale:
            return unit
        return f"(in {self.scale}s of {unit})" if unit else f"(in {self.scale}s)"


UNMEASURED = CellMeasure()
"""The measure of numbers that say themselves what they are, or of which nothing is known."""


def find_scale(text: str) -> str:
    """Return the first scale that a text names: thousand, million or billion; empty without one.

    >>> find_scale("Amounts in thousands of euros"), find_scale("2019 US$000"), find_scale("three ships")
    ('thousand', 'thousand', '')
    """
    match = _SCALE.search(text)
    if match is None:
        return ""
    if match["word"]:
        return match["word"].lower()
    if match["cjk"]:
        return _CJK.get(match["cjk"], "")
    return "thousand" if match["zeros"] else _LETTERS[match["letter"].lower()]


def states_measure(text: str) -> bool:
    """Return whether a line states the scale or the currency of the amounts below it.

    >>> states_measure("Sales by line (EUR million)"), states_measure("in euros"), states_measure("Sales")
    (True, True, False)
    """
    return _read_note(text) is not None


def name_currency(text: str) -> str:
    """Return the code of a currency that is named in some way; empty for one that is not known.

    >>> name_currency("euros"), name_currency("US$"), name_currency("NOK")
    ('EUR', 'USD', 'NOK')
    """
    name = text.upper()
    return _KINDS.get(name, _KINDS.get(name.removesuffix("S"), name if len(name) == 3 else ""))


def scale_of_cells(table: DocumentTable, cells: Iterable[Cell]) -> str:
    """Return the scale of the numbers in some cells, by their heads, the other heads and the caption.

    "percent" for percentages; empty for other text, for years and without a scale.
    """
    cells = list(cells)
    values = _read_numbers(table, cells)
    if not values:
        return ""
    if all(value.unit == "%" for value in values):
        return "percent"
    heads = _list_heads(table, cells)
    own = next((scale for text in heads if (scale := find_scale(text))), "")
    if own:
        return own
    if any("%" in text or "percent" in text.lower() for text in heads):
        return "percent"
    if _are_years(cells, values) or any(_EXEMPT.search(text) for text in heads):
        return ""
    return find_scale(_list_tops(table)) or find_scale(table.caption) or find_scale(table.measure_note)


def measure_of_cells(table: DocumentTable, cells: Sequence[Cell]) -> CellMeasure:
    """Return the scale and the unit that heads or caption state of the numbers in some cells.

    What the caption says about amounts is said of nothing that its heads call a number of things or a rate.
    """
    values = _read_numbers(table, cells)
    if not values or _are_years(cells, values) or any(value.unit == "%" for value in values):
        return UNMEASURED
    heads = _list_heads(table, cells)
    own = next((found for text in heads if (found := _read_head(text))), None)
    if own is None and not any("%" in text or _COUNTED.search(text) for text in heads):
        beside = _list_corner(table), table.caption, table.measure_note
        own = next((found for text in beside if (found := _read_note(text))), None)
    if own is None:
        return UNMEASURED
    is_stated = any(value.unit for value in values)  # the currency, in the cells
    return own._replace(unit="" if is_stated else own.unit)


def _read_head(text: str) -> CellMeasure | None:
    """Return the scale or the unit that a head of a row or a column states."""
    if scale := find_scale(text):
        return CellMeasure(scale, _find_scaled_unit(text))
    unit = _find_unit(text)
    return CellMeasure("", unit) if unit else None


def _read_note(text: str) -> CellMeasure | None:
    """Return the scale or the currency that a caption or a line beside a table states."""
    if scale := find_scale(text):
        return CellMeasure(scale, _find_scaled_unit(text))
    stated = _STATED_CURRENCY.search(text)
    return CellMeasure("", stated["currency"]) if stated else None


def _read_numbers(table: DocumentTable, cells: Iterable[Cell]) -> list[CellValue]:
    """Return the values of cells that hold nothing but a number; none if one holds something else."""
    values = [parse_cell(cell.text, table.number_style) for cell in cells]
    return values if all(value.number is not None and value.whole for value in values) else []


def _list_heads(table: DocumentTable, cells: Sequence[Cell]) -> list[str]:
    heads: list[str] = []
    for cell in cells[:4]:
        heads += [head.text for head in table.column_heads(cell.column)]
        heads += [head.text for head in table.row_heads(cell.row)]
    return heads


def _list_tops(table: DocumentTable) -> str:
    """Return the texts of the rows of heads."""
    rows = range(table.header_rows)
    cells = (table.cell_at(row, column) for row in rows for column in range(table.width))
    return " ".join(cell.text for cell in cells if cell is not None)


def _list_corner(table: DocumentTable) -> str:
    """Return the texts of the heads that stand over no single column of values: EUR '000."""
    values = table.width - table.header_columns
    return " ".join(
        cell.text
        for cell in table.cells
        if cell.row < table.header_rows and (cell.column < table.header_columns or cell.columns >= values > 1)
    )


def _are_years(cells: Iterable[Cell], values: Sequence[CellValue]) -> bool:
    plain = all("," not in cell.text and not value.unit for value, cell in zip(values, cells, strict=True))
    return plain and all(value.number is not None and is_year(value.number) for value in values)


def _find_scaled_unit(text: str) -> str:
    """Return the currency, or the unit behind the scale, of a text that names a scale.

    >>> _find_scaled_unit("Cargo, thousand tonnes"), _find_scaled_unit("Sales ($ million)")
    ('tonnes', '$')
    """
    if match := _CURRENCY.search(text):
        return match[0]
    match = _SCALED_UNIT.search(text)
    return match["unit"] if match and units_of(match["unit"]) else ""


def _find_unit(text: str) -> str:
    """Return the unit at the end of a head, in brackets or behind a comma or "in".

    >>> [_find_unit(text) for text in ("Weight (kg)", "Share, %", "Length in km", "Orla (North)")]
    ['kg', '%', 'km', '']
    """
    if text.strip() in {"%", "in %"}:
        return "%"
    match = _UNIT_OF_HEAD.search(text)
    return match["unit"] if match and units_of(match["unit"]) else ""
