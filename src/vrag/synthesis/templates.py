"""Templates: kinds of documents, and the questions about them.

`emblem` and `emblem_pair` are pages with a title of two words above a block of colour, for models that see
64 × 64 pixels. Their text layer holds the title alone, so that a search finds the page and only its pixels
answer. `key_figure`, `table`, `chart` and `multi_hop` are A4 pages of a yearly report.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from vrag.cases.rows import hops
from vrag.geometry import Box
from vrag.synthesis.canvas import Canvas, Colour
from vrag.synthesis.sampling import BalancedSampler, Name
from vrag.types import Case, Region


@dataclass(frozen=True, slots=True)
class TemplateQuestion:
    """A question about a document, before the document has a file name."""

    query: str
    answer: str
    evidence: tuple[tuple[int, Box], ...]
    """Pages from 1, and the boxes on them that hold the answer, in fractions of the page; in order."""
    source: str
    """The place of the answer: `Text`, `Table`, `Chart` or `Figure`."""

    def case(self, uid: str, file_name: str) -> Case:
        """Return the question as a case of a data set."""
        pages = tuple(dict.fromkeys(page for page, _ in self.evidence))
        return Case(
            uid=uid,
            query=self.query,
            reference_answer=self.answer,
            file_name=file_name,
            reference_page=pages,
            source_type=(self.source,),
            query_type=hops(pages),
            regions=tuple(Region(page, box) for page, box in self.evidence),
        )


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """A document that is not printed yet."""

    canvases: Sequence[Canvas]
    questions: Sequence[TemplateQuestion]


@dataclass(slots=True)
class Supply:
    """The values that templates draw; one for the whole corpus, so that values are drawn in equal shares."""

    random: random.Random
    colours: Mapping[str, Colour]
    _samplers: dict[str, BalancedSampler[str]] = field(default_factory=dict[str, BalancedSampler[str]])

    def deal(self, kind: str, values: Sequence[str]) -> str:
        """Draw a value of a kind, in equal shares over the corpus."""
        if kind not in self._samplers:
            self._samplers[kind] = BalancedSampler(tuple(values), self.random)
        return self._samplers[kind].deal()

    def colour(self) -> str:
        """Draw the name of a colour, in equal shares."""
        return self.deal("colour", tuple(self.colours))

    def keep_to_dealt(self) -> None:
        """From here on, draw only values that were drawn before."""
        for sampler in self._samplers.values():
            sampler.keep_to_dealt()


class DocumentTemplate(Protocol):
    """A kind of document."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    @property
    def least_pages(self) -> int:
        """Pages that a document needs for one question."""
        ...

    def draft(self, names: Sequence[Name], supply: Supply) -> DocumentDraft:
        """Make a document of one page for each name, and the questions about it."""
        ...


class PageTemplate(ABC):
    """A template whose pages have their own questions."""

    name: str
    least_pages = 1

    @abstractmethod
    def draw(self, page: int, name: Name, supply: Supply) -> tuple[Canvas, list[TemplateQuestion]]:
        """Draw a page, counted from 1, with the questions about it."""

    def draft(self, names: Sequence[Name], supply: Supply) -> DocumentDraft:
        """Make a document of one page for each name, and the questions about it."""
        pages = [self.draw(number, name, supply) for number, name in enumerate(names, 1)]
        questions = [question for _, found in pages for question in found]
        return DocumentDraft([canvas for canvas, _ in pages], questions)


SIDE = 300.0
"""Points; the page is a square, so that every model sees it unstretched."""
TITLE_SHARE = 0.15


def draw_emblem(name: Name, colour: Colour) -> tuple[Canvas, Box]:
    """Draw a page; return it and its block, in fractions of the page."""
    canvas = Canvas(SIDE, SIDE)
    canvas.write(12, SIDE * TITLE_SHARE * 0.68, str(name), 28, bold=True)
    return canvas, canvas.fill(0, SIDE * TITLE_SHARE, SIDE, SIDE, colour)


class Emblem(PageTemplate):
    """Asks for the colour of one page."""

    name = "emblem"

    def draw(self, page: int, name: Name, supply: Supply) -> tuple[Canvas, list[TemplateQuestion]]:
        """Draw a page and ask for its colour."""
        colour = supply.colour()
        canvas, block = draw_emblem(name, supply.colours[colour])
        return canvas, [TemplateQuestion(f'colour of "{name}" ?', colour, ((page, block),), "Figure")]


class EmblemPair:
    """Asks for the colours of two pages of a document, in the order of the question."""

    name = "emblem_pair"
    least_pages = 2

    def draft(self, names: Sequence[Name], supply: Supply) -> DocumentDraft:
        """Make a document of one page for each name; each page and the next, in a ring, make a question."""
        colours = [supply.colour() for _ in names]
        pages = [
            draw_emblem(name, supply.colours[colour]) for name, colour in zip(names, colours, strict=True)
        ]
        questions: list[TemplateQuestion] = []
        for first in range(len(names) if len(names) > 2 else 1):
            second = (first + 1) % len(names)
            query = f'colours of "{names[first]}" and "{names[second]}" ?'
            evidence = tuple((number + 1, pages[number][1]) for number in (first, second))
            answer = f"{colours[first]} {colours[second]}"
            questions.append(TemplateQuestion(query, answer, evidence, "Figure"))
        return DocumentDraft([canvas for canvas, _ in pages], questions)


WIDTH, HEIGHT = 595.0, 842.0
LEFT, RIGHT = 60.0, 535.0
"""Points: where lines of text begin and end on an A4 page."""
RULE = (40, 70, 120)
MEASURES = ("visitors", "members", "orders", "tickets", "letters", "meals", "bicycles", "lamps")
"""Things that are counted."""
MONTHS = ("January", "February", "March", "April", "May", "June")
YEARS = ("2019", "2020", "2021", "2022", "2023")


def draw_frame(title: str, line: str) -> Canvas:
    """Draw an A4 page with a heading above a rule, and a line of text below it."""
    canvas = Canvas(WIDTH, HEIGHT)
    canvas.write(LEFT, 90, title, 26, bold=True)
    canvas.fill(LEFT, 104, RIGHT, 107, RULE)
    canvas.write(LEFT, 150, line, 13)
    return canvas


def draw_numbers(random: random.Random, count: int) -> list[str]:
    """Draw different numbers of four or five digits, as people write them: "48,210"."""
    return [f"{number:,}" for number in random.sample(range(1_000, 100_000), count)]


class KeyFigure(PageTemplate):
    """A page with three large numbers, each above its label; asks for two of them."""

    name = "key_figure"
    ASKED, SHOWN = 2, 3
    """Numbers of a page that are asked for, and that there are."""

    def draw(self, page: int, name: Name, supply: Supply) -> tuple[Canvas, list[TemplateQuestion]]:
        """Draw a page, and ask for the numbers of up to two measures."""
        canvas = draw_frame(name.title, f"{name.title} at a glance: the figures of the year.")
        asked = tuple(dict.fromkeys(supply.deal("measure", MEASURES) for _ in range(self.ASKED)))
        others = [measure for measure in MEASURES if measure not in asked]
        shown = [*asked, *supply.random.sample(others, self.SHOWN - len(asked))]
        spots = supply.random.sample(range(self.SHOWN), self.SHOWN)
        values = draw_numbers(supply.random, self.SHOWN)
        questions: list[TemplateQuestion] = []
        for spot, measure, value in zip(spots, shown, values, strict=True):
            y = 300 + 170 * spot
            boxes = [canvas.write(LEFT, y, value, 60, bold=True), canvas.write(LEFT, y + 30, measure, 18)]
            if measure in asked:
                query = f"How many {measure} did {name.title} count?"
                questions.append(TemplateQuestion(query, value, ((page, Box.around(boxes)),), "Text"))
        return canvas, questions


class TableTemplate(PageTemplate):
    """A page with a table, a row for each measure and a column for each year; asks for two cells."""

    name = "table"
    ASKED = 2
    """Cells that are asked for."""
    TOP, ROW, COLUMN = 260.0, 44.0, 78.0
    """Points: the base line of the headings, the height of a row, the width of a column."""
    STRIPE, GRID = (232, 238, 246), (150, 160, 175)

    def draw(self, page: int, name: Name, supply: Supply) -> tuple[Canvas, list[TemplateQuestion]]:
        """Draw a page, and ask for the cells of up to two pairs of measure and year."""
        canvas = draw_frame(name.title, f"The table gives what {name.title} counted, year by year.")
        cells = self._draw_table(canvas, draw_numbers(supply.random, len(MEASURES) * len(YEARS)))
        asked = [(supply.deal("measure", MEASURES), supply.deal("year", YEARS)) for _ in range(self.ASKED)]
        questions: list[TemplateQuestion] = []
        for measure, year in dict.fromkeys(asked):
            value, box = cells[measure, year]
            query = f"How many {measure} did {name.title} count in {year}?"
            questions.append(TemplateQuestion(query, value, ((page, box),), "Table"))
        return canvas, questions

    def _draw_table(self, canvas: Canvas, values: Sequence[str]) -> dict[tuple[str, str], tuple[str, Box]]:
        """Draw the table; return each cell's value and box by its row and column."""
        ends = [RIGHT - 6 - self.COLUMN * (len(YEARS) - 1 - column) for column in range(len(YEARS))]
        for end, year in zip(ends, YEARS, strict=True):
            canvas.write(end, self.TOP, year, 15, bold=True, end=True)
        canvas.fill(LEFT, self.TOP + 10, RIGHT, self.TOP + 11, self.GRID)
        cells: dict[tuple[str, str], tuple[str, Box]] = {}
        left = iter(values)
        for row, measure in enumerate(MEASURES):
            y = self.TOP + self.ROW * (row + 1)
            if row % 2:
                canvas.fill(LEFT, y - 28, RIGHT, y + 14, self.STRIPE)
            canvas.write(LEFT + 4, y, measure, 15)
            for end, year in zip(ends, YEARS, strict=True):
                value = next(left)
                cells[measure, year] = value, canvas.write(end, y, value, 15, end=True)
        return cells


class ChartTemplate(PageTemplate):
    """A page with a bar chart; asks for the height of a bar, and for the highest.

    No value is written. Each bar ends at a line of the grid, so that there is one right answer.
    """

    name = "chart"
    FOOT, STEP = 660.0, 40.0
    """Points: where the bars stand, and the distance of the lines of the grid."""
    LINES, UNIT = 10, 10
    """Lines of the grid, and the value of one."""
    GRID, BAR = (190, 195, 205), (200, 90, 20)

    def draw(self, page: int, name: Name, supply: Supply) -> tuple[Canvas, list[TemplateQuestion]]:
        """Draw a page, and ask for a bar and for the highest one."""
        measure, month = supply.deal("measure", MEASURES), supply.deal("month", MONTHS)
        highest = supply.deal("highest month", MONTHS)
        *others, most = sorted(supply.random.sample(range(1, self.LINES + 1), len(MONTHS)))
        supply.random.shuffle(others)
        left = iter(others)
        heights = {month: most if month == highest else next(left) for month in MONTHS}
        canvas = draw_frame(name.title, f"Number of {measure} in the first half of the year, by month.")
        bars = self._draw_chart(canvas, heights)
        value = str(heights[month] * self.UNIT)
        height_query = f"According to the bar chart, how many {measure} did {name.title} count in {month}?"
        month_query = f"In which month did {name.title} count the most {measure}?"
        return canvas, [
            TemplateQuestion(height_query, value, ((page, bars[month]),), "Chart"),
            TemplateQuestion(month_query, highest, ((page, bars[highest]),), "Chart"),
        ]

    def _draw_chart(self, canvas: Canvas, heights: Mapping[str, int]) -> dict[str, Box]:
        """Draw the chart; return the box of each bar by its month."""
        for line in range(self.LINES + 1):
            y = self.FOOT - line * self.STEP
            canvas.fill(LEFT + 34, y - 0.5, RIGHT, y + 0.5, self.GRID)
            canvas.write(LEFT + 26, y + 4, str(line * self.UNIT), 12, end=True)
        width = (RIGHT - LEFT - 34) / len(heights)
        bars: dict[str, Box] = {}
        for number, (month, height) in enumerate(heights.items()):
            x = LEFT + 34 + number * width
            top = self.FOOT - height * self.STEP
            bars[month] = canvas.fill(x + width * 0.2, top, x + width * 0.8, self.FOOT, self.BAR)
            canvas.write(x + width * 0.12, self.FOOT + 24, month, 12)
        return bars


@dataclass(frozen=True, slots=True)
class _PartnerPage:
    """A drawn page, and what questions need of it."""

    canvas: Canvas
    role: str
    """Of the partner, for the subject of this page."""
    partner: Box
    """The place where the partner is named."""
    measure: str
    value: str
    number: Box


class MultiHop:
    """One page names a partner, and the partner's page its number; asks for that number."""

    name = "multi_hop"
    least_pages = 2
    ROLES = ("supplier", "landlord", "insurer", "builder", "printer", "carrier")

    def draft(self, names: Sequence[Name], supply: Supply) -> DocumentDraft:
        """Make a document of one page for each name; each page's partner is the next, in a ring."""
        partners = [*names[1:], names[0]]
        values = draw_numbers(supply.random, len(names))
        pages: list[_PartnerPage] = []
        for name, partner, value in zip(names, partners, values, strict=True):
            role, measure = supply.deal("role", self.ROLES), supply.deal("measure", MEASURES)
            canvas = draw_frame(name.title, f"{name.title} works with others in the town.")
            partner_box = canvas.write(LEFT, 240, f"Its {role} is {partner.title}.", 18)
            canvas.write(LEFT, 420, f"{name.title} counted this many {measure}:", 18)
            number = canvas.write(LEFT, 500, value, 60, bold=True)
            pages.append(_PartnerPage(canvas, role, partner_box, measure, value, number))
        questions: list[TemplateQuestion] = []
        for position, (name, page) in enumerate(zip(names, pages, strict=True)):
            other = (position + 1) % len(names)
            next_page = pages[other]
            query = f"How many {next_page.measure} did the {page.role} of {name.title} count?"
            evidence = ((position + 1, page.partner), (other + 1, next_page.number))
            questions.append(TemplateQuestion(query, next_page.value, evidence, "Text"))
        return DocumentDraft([page.canvas for page in pages], questions)
