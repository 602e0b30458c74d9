"""Parts of a document that a question points to: pages by number or place, figures, tables, sections.

"on page 12", "pages iv and v", "auf S. 12", "第3页"; "the cover", "the second-to-last page"; "Figure 3",
"Tabelle 4-1", "section 2.3", "附录B", "the table of contents".
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from vrag.types import Item

BY_LABEL, BY_POSITION, BY_SECOND_MEANING = 1.0, 1.0, 0.5
"""How well a page fits a number that is printed on it, its position, or its position where it has another
number printed on it: readers mean the printed one first."""
PAGE_ABBREVIATIONS = frozenset("p. pp. s. pág. págs. pag. pags. стр.".split())
MAX_RANGE = 20
"""Pages of a range; a longer one names its first and last page."""

_ROMAN = r"(?=[ivxlc])(?:x[cl]|l?x{0,3})(?:i[xv]|v?i{0,3})"
_DECIMAL = r"(?:[A-Za-z]{1,2}-?)?\d{1,5}(?:[-–.]\d{1,5})?(?!\d|[.,]\d)"
_NUMBER = rf"(?:{_DECIMAL}|{_ROMAN}(?!\w)|(?!I\b)(?i:{_ROMAN})(?!\w))"
_AND = r"\s*(?:,|&|-|–|\b(?:and|or|to|und|oder|bis|et|ou|à|y|o|e|и)\b)\s*"
_HEAD = (
    r"(?:(?i:\b(?:pages?|seiten?|páginas?|paginas?|pagine|страниц[аеуыах]{0,2}|stron(?:a|ie|y)|"
    r"slides?|folien?|diapositi(?:ves?|vas?)|слайд[аеы]?)\b|"
    r"(?<![\w.])(?:pp?|págs?|pags?|стр)\.)|(?<![\w.])S\.)"
)
_MENTION = re.compile(
    rf"{_HEAD}\.?\s*(?:(?i:numbers?|no\.|nr\.|№|#)\s*)?(?P<numbers>{_NUMBER}(?:{_AND}{_NUMBER})*)"
    r"|第\s*(?P<chinese>\d{1,5})\s*(?:[页頁]|张幻灯片)|(?P<eastern>\d{1,5})\s*(?:ページ|페이지|쪽)"
)
_PART = re.compile(rf"(?P<dash>\s*(?:-|–|\b(?:to|bis|à)\b)\s*)?(?P<number>{_NUMBER})")


class PageMention(NamedTuple):
    """Pages named at one place of a text."""

    start: int
    end: int
    numbers: tuple[str, ...]
    """As they are written, roman ones in lower case."""


def find_page_mentions(text: str) -> list[PageMention]:
    """Return the places of a text that name pages by their numbers.

    >>> [mention.numbers for mention in find_page_mentions("Compare pages iv and 12-14 with S. 3.")]
    [('iv', '12-14', '12', '13', '14'), ('3',)]
    """
    mentions: list[PageMention] = []
    for match in _MENTION.finditer(text):
        numbers: dict[str, None] = {}
        for written in filter(None, (match["numbers"], match["chinese"], match["eastern"])):
            numbers |= dict.fromkeys(_numbers_in(written))
        mentions.append(PageMention(*match.span(), tuple(numbers)))
    return mentions


def named_pages(text: str) -> frozenset[str]:
    """Return all page numbers that a text names."""
    return frozenset(number for mention in find_page_mentions(text) for number in mention.numbers)


def match_page(item: Item, numbers: frozenset[str]) -> float:
    """Return how well an item fits page numbers that a question names, from 0."""
    label = item.facts.label.casefold()
    if label and label in numbers:
        return BY_LABEL
    if str(item.ordinal) in numbers:
        return BY_SECOND_MEANING if label else BY_POSITION
    return 0.0


def _numbers_in(written: str) -> list[str]:
    numbers: list[str] = []
    for part in _PART.finditer(written):
        number = part["number"].casefold().replace("–", "-")
        if part["dash"] and numbers:
            numbers += _between(numbers[-1], number)
        numbers.append(number)
        if re.fullmatch(r"\d+-\d+", number):
            first, last = number.split("-")
            numbers += [first, *_between(first, last), last]
    return numbers


def _between(first: str, last: str) -> list[str]:
    """Return the numbers between two, if they are few.

    >>> _between("12", "15"), _between("iv", "vi")
    (['13', '14'], [])
    """
    if not (first.isdecimal() and last.isdecimal()):
        return []
    numbers = range(int(first) + 1, int(last))
    return [str(number) for number in numbers] if len(numbers) <= MAX_RANGE else []


_ORDINAL_WORDS = (
    "first 1st opening erste ersten erster première primera prima primeira 一",
    "second 2nd zweite zweiten deuxième segunda seconda 二",
    "third 3rd dritte dritten troisième tercera terza terceira 三",
    "fourth 4th vierte vierten quatrième cuarta quarta 四",
    "fifth 5th fünfte fünften cinquième quinta 五",
)
_ORDINALS = {word: number for number, words in enumerate(_ORDINAL_WORDS, 1) for word in words.split()}
_LAST = "last final closing letzte letzten letzter dernière última ultima последняя последней".split()
_BEFORE_LAST = (
    r"second[- ]to[- ]last|second[- ]last|next[- ]to[- ]last|last but one|penultimate|penúltima|penultima|"
    r"vorletzten?|avant-dernière"
)
_PAGE = r"(?:page|slide|seite|folie|pagina|página|diapositive|diapositiva|страниц[аеуы])"
_OTHER_PART = (
    r"(?!\s+(?:of|in|von|des|de|du)\s+(?:(?:the|each|every|an?|der|la|le|el)\s+)?(?:chapter|appendix|section|part"
    r"|unit|annex|table|exhibit|letter|email|kapitel|anhang|chapitre|capítulo)\b)"
)
"""What makes a page one of another part: "the last page of chapter 2"."""
_POSITION = re.compile(
    rf"\b(?P<ordinal>{'|'.join(word for word in _ORDINALS if len(word) > 1)})"
    rf"\s+(?:cover\s+)?{_PAGE}\b{_OTHER_PART}"
    rf"|\b(?P<before_last>{_BEFORE_LAST})\s+{_PAGE}\b{_OTHER_PART}"
    rf"|\b(?P<last>(?:{'|'.join(_LAST)})\s+{_PAGE}\b{_OTHER_PART}|back\s+cover|rückseite|contraportada"
    r"|quatrième de couverture)"
    r"|\b(?P<first>(?:front\s+)?cover\s+(?:page|sheet|slide)|front\s+cover|title\s+(?:page|slide)"
    r"|(?:on|from|of|at)\s+the\s+cover(?!\s+(?:letter|crop|song|story|charge|art|version))"
    r"|titelseite|titelblatt|titelfolie|deckblatt|page\s+de\s+(?:couverture|garde|titre)|portada|copertina"
    r"|обложк[аеи])\b"
    r"|(?P<eastern_before_last>倒数第二[页頁])|(?P<eastern_last>最后一[页頁]|末[页頁]|尾[页頁]|封底|裏表紙|最後のページ|마지막\s*페이지)"
    r"|(?P<eastern_first>封面|首[页頁]|表紙|最初のページ|표지|첫\s*페이지)|第(?P<eastern>[一二三四五])[页頁]",
    re.IGNORECASE,
)


def find_positions(text: str) -> list[int]:
    """Return the pages that a text names by their place in the document: 1 for the first, -1 for the last.

    >>> find_positions("Who is on the cover, and who on the second-to-last page?")
    [1, -2]
    >>> find_positions("What does the insurance cover?"), find_positions("the last page of chapter 2")
    ([], [])
    """
    places: dict[int, None] = {}
    for match in _POSITION.finditer(text):
        if word := match["ordinal"] or match["eastern"]:
            places[_ORDINALS[word.casefold()]] = None
        elif match["before_last"] or match["eastern_before_last"]:
            places[-2] = None
        else:
            places[-1 if match["last"] or match["eastern_last"] else 1] = None
    return list(places)


class CaptionFit(IntEnum):
    """The fit of a line of a page to a numbered part; the less, the better."""

    CAPTION = 0
    """It begins with the name of the part, as captions and headings do."""
    SENTENCE = 1
    """It may be a caption, or the beginning of a sentence that mentions the part."""
    MENTION = 2
    """It mentions the part."""


class NamedPart(NamedTuple):
    """A part of a document that is known by its name and number: Figure 3, section 2.3, Appendix B."""

    kind: str
    """A key of `PART_WORDS`, or of `TITLED_PARTS`."""
    number: str = ""
    """As it is written, in upper case; empty for a part that is known by its title."""

    def search_phrases(self) -> list[str]:
        """Return what stands on a page that has it: one of these."""
        if not self.number:
            return list(TITLED_PARTS[self.kind].phrases)
        dotted = [self.number] if self.kind in _HEADED and not self.number.isalnum() else []
        return [f"{word} {self.number}" for word in PART_WORDS[self.kind]] + dotted

    def fit(self, text: str) -> CaptionFit | None:
        """Return how well a page with a text fits the part; None if it does not have it."""
        lines = text.splitlines()
        is_listing = sum(_is_entry(line) for line in lines) >= MIN_ENTRIES
        if not self.number:
            return CaptionFit.CAPTION if any(map(TITLED_PARTS[self.kind].title.fullmatch, lines)) else None
        fits = [fit for line in lines if (fit := self._fit_line(line)) is not None]
        best = min(fits, default=None)
        return CaptionFit.MENTION if is_listing and best is not None else best

    def _fit_line(self, line: str) -> CaptionFit | None:
        named, headed = _part_patterns(self)
        match = named.match(line) or (headed.match(line) if headed else None)
        if match is None:
            return CaptionFit.MENTION if named.search(line) else None
        rest = line[match.end() :].strip()
        if _is_entry(line):
            return CaptionFit.MENTION
        if rest.startswith((".", ",")):
            return CaptionFit.SENTENCE if rest[1:].strip()[:1].isupper() else CaptionFit.MENTION
        rest = rest.lstrip(":|-–—•")
        begins_sentence = rest.strip()[:1].islower() or rest.startswith((")", ";"))
        return (
            CaptionFit.MENTION
            if begins_sentence and not line[match.end() :].lstrip().startswith(":")
            else CaptionFit.CAPTION
        )


MIN_ENTRIES = 4
"""Lines that end with a page number after dots, from which a page is a list of contents or figures."""
PART_WORDS = {
    "figure": tuple(
        "figure figures fig figs abbildung abbildungen abb figura figuras 图 圖 図 그림 рисунок рис".split()
    ),
    "table": tuple(
        "table tables tab tabelle tabellen tableau tableaux tabla tablas cuadro tabella 表 표 таблица".split()
    ),
    "chart": tuple("chart charts graph graphs diagram diagrams diagramm grafik gráfico".split()),
    "section": tuple("section sections sec abschnitt sección seccion sezione раздел §".split()),
    "chapter": tuple("chapter chapters kapitel chapitre capítulo capitulo capitolo глава".split()),
    "appendix": tuple(
        "appendix appendices anhang annex annexe anexo apéndice appendice 附录 附錄 부록 приложение".split()
    ),
    "exhibit": tuple("exhibit exhibits".split()),
    "unit": tuple("unit units lesson module".split()),
    "box": tuple("box boxes kasten encadré".split()),
}
"""Words for numbered parts, by kind."""
_HEADED = frozenset({"section", "chapter"})
"""Kinds whose headings may have the number alone: "2.3 Results"."""
_ENTRY = re.compile(r"(?:\.\s?){3,}\s*(?:\d+|[ivxlc]+)\s*$|…+\s*\d+\s*$")
_PART_NUMBER = r"\d+(?:[-–.]\d+)*[a-z]?"
_EASTERN = re.compile(
    rf"(?P<word>[图圖図表]|그림|표|附录|附錄|부록)\s*(?P<number>{_PART_NUMBER}|[A-Z])|第\s*(?P<ordinal>\d+(?:\.\d+)*)\s*(?P<unit>[章节節])",
    re.IGNORECASE,
)
_TO_KIND = {word: kind for kind, words in PART_WORDS.items() for word in words}
_WESTERN_WORDS = "|".join(sorted(_TO_KIND.keys() - set("图圖図表"), key=lambda word: (-len(word), word)))
_WESTERN = re.compile(
    rf"(?<!\w)(?P<word>{_WESTERN_WORDS})"
    rf"\.?[\s-]*(?:(?:no|nr)\.?\s*|[#№]\s*)?(?P<numbers>(?:{_PART_NUMBER}|(?-i:[A-H])|(?-i:[IVX]{{1,4}}))(?!\w)"
    rf"(?:{_AND}{_PART_NUMBER}(?!\w))*)",
    re.IGNORECASE,
)


class TitledPart(NamedTuple):
    """A part of a document that is known by its title."""

    asked: re.Pattern[str]
    """What a question says that asks for it."""
    title: re.Pattern[str]
    """The line of its title."""
    phrases: tuple[str, ...]
    """What stands on its page: one of these."""


def _statement(names: str, asked: str, phrases: str) -> TitledPart:
    """Return a financial statement, whose title has one of the names, and maybe whose it is."""
    title = (
        r"\s*(?:(?:group|company|condensed)\s+)?(?:(?:un)?audited\s+)?(?:consolidated\s+)?"
        rf"(?:{names})s?[\s*:]*(?:\(.*\))?\s*"
    )
    kept = re.compile(rf"\b(?:{names})s?\b|{asked}", re.IGNORECASE)
    return TitledPart(kept, re.compile(title, re.IGNORECASE), tuple(phrases.split("|")))


_RETURN = (
    r"\breturn on (?:[\w-]+ ){0,2}(?:assets?|equity|capital|investment)\b|(?-i:\bRO(?:A|E|CE|IC)\b)"
    r"|\b(?:asset|inventory|receivables?) turnover\b|\bto (?:average )?total (?:assets|debt|equity)\b"
)
"""Ratios of an amount of the income statement to one of the balance sheet."""
TITLED_PARTS = {
    "contents": TitledPart(
        re.compile(
            r"\btable of contents\b|\binhaltsverzeichnis|\btable des matières\b|оглавлени|目录|目錄|目次"
            r"|목차",
            re.IGNORECASE,
        ),
        re.compile(
            r"\s*(?:(?:table of )?contents|table des matières|sommaire|inhalt(?:sverzeichnis)?|índice|indice"
            r"|contenido|sommario|оглавление|содержание|目录|目錄|目次|차례|목차)[\s:]*",
            re.IGNORECASE,
        ),
        tuple(
            "contents matières sommaire inhalt inhaltsverzeichnis índice contenido sommario оглавление "
            "содержание 目录 目錄 目次 차례 목차".split()
        ),
    ),
    "balance sheet": _statement(
        r"balance sheet|statements? of financial position|bilanz|(?:合并)?资产负债表",
        rf"{_RETURN}|\b(?:current|quick|cash|debt|gearing|leverage|capitali[sz]ation|solvency) ratio\b"
        r"|\bdebt[- ]to[- ](?:equity|assets?|capital|ebitda)\b|\b(?:working|invested) capital\b"
        r"|\bcapital employed\b|\beigenkapitalquote\b|流动比率|资产负债率",
        "balance sheet|financial position|bilanz|资产负债表",
    ),
    "income statement": _statement(
        r"income statement|statements? of (?:earnings|income|operations|profit (?:and|or) loss)"
        r"|profit and loss (?:account|statement)|gewinn- und verlustrechnung|(?:合并)?利润表",
        rf"{_RETURN}|\b(?:gross|operating|net|profit|ebitda) (?:profit )?margins?\b|\bgross profit\b"
        r"|\binterest coverage\b|\beffective tax (?:rate|ratio)\b|\bearnings per (?:\w+ )?share\b"
        r"|(?-i:\bEPS\b)|毛利率|净利率|每股收益",
        "income statement|statement earnings|statement income|statement operations|profit loss"
        "|gewinn verlustrechnung|利润表",
    ),
    "cash flow statement": _statement(
        r"cash flow statement|statements? of cash flow|kapitalflussrechnung|(?:合并)?现金流量表",
        r"\bfree cash flow\b|\bcapital expenditures?\b",
        "cash flow statement|statement cash flow|kapitalflussrechnung|现金流量表",
    ),
}
"""Parts that are known by their titles. A question for a common ratio asks for the statements that have its
amounts (defined in Robinson, International Financial Statement Analysis, "Financial Analysis Techniques")."""


def find_named_parts(text: str) -> list[NamedPart]:
    """Return the parts that a text names by number or title.

    >>> find_named_parts("Compare Fig. 2-1 with Figures 5 and 6 in section 2.3.")
    ... # doctest: +NORMALIZE_WHITESPACE
    [NamedPart(kind='figure', number='2-1'), NamedPart(kind='figure', number='5'),
     NamedPart(kind='figure', number='6'), NamedPart(kind='section', number='2.3')]
    """
    parts: dict[NamedPart, None] = {}
    for match in _WESTERN.finditer(text):
        kind = _TO_KIND[match["word"].casefold()]
        numbers = re.findall(rf"{_PART_NUMBER}|[A-Z]+", match["numbers"].replace("–", "-"), re.IGNORECASE)
        numbers = [number for number in numbers if any(map(str.isdigit, number)) or number.isupper()]
        is_plural = match["word"][-1:].casefold() in {"s", "n"}
        for number in numbers if is_plural else numbers[:1]:
            parts[NamedPart(kind, number.upper())] = None
    for match in _EASTERN.finditer(text):
        if match["word"]:
            parts[NamedPart(_TO_KIND[match["word"]], match["number"].upper())] = None
        else:
            parts[NamedPart("chapter" if match["unit"] == "章" else "section", match["ordinal"])] = None
    titled = [NamedPart(kind) for kind, part in TITLED_PARTS.items() if part.asked.search(text)]
    return [*parts, *titled]


def _is_entry(line: str) -> bool:
    """Return whether a line is one of a list of contents or figures: it ends with dots and a page number."""
    return _ENTRY.search(line) is not None


@lru_cache(maxsize=256)
def _part_patterns(part: NamedPart) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
    """Return the patterns of a part by its name, and of its heading by its number alone."""
    words = "|".join(map(re.escape, sorted(PART_WORDS[part.kind], key=len, reverse=True)))
    number = re.escape(part.number).replace(r"\-", "[-–]")
    eastern = rf"|第\s*{number}\s*[章节節]" if part.kind in _HEADED else ""
    named = rf"\s*(?:(?<!\w)(?:{words})\.?\s*{number}(?![\w]|[-–.]\d){eastern})"
    headed = rf"\s*{number}\.?\s+(?=[^\W\d_a-z])" if part.kind in _HEADED and "." in part.number else None
    return re.compile(named, re.IGNORECASE), re.compile(headed) if headed else None
