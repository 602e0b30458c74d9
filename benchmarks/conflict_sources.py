# pyright: reportUnknownMemberType=false
"""Real documents of public repositories as blocks, and the sentences that state a fact in them."""

from __future__ import annotations

import random
import re
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree as ET

from benchmarks.conflict_documents import Block, Heading, Paragraph, Table, flatten, plain

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!U\.S\.)(?<!e\.g\.)\s+(?=[A-Z0-9“\"(*])")


@dataclass(frozen=True, slots=True)
class Spot:
    """A sentence of a document."""

    block: int
    """Number of its block."""
    sentence: str
    page: int | None
    """From 1; None where the format has no pages of its own."""


@dataclass(frozen=True)
class Source:
    """A real document."""

    name: str
    """File name without suffix, as it stands in collections."""
    suffix: str
    content: bytes

    @cached_property
    def pages(self) -> tuple[int | None, ...]:
        """The page of each block."""
        return tuple(page for page, _ in self._placed)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Its text: for PDF files the paragraphs as far as lines can be joined."""
        return tuple(block for _, block in self._placed)

    @cached_property
    def title(self) -> str:
        """Its first heading, or its name."""
        heading = next((block.text for block in self.blocks if isinstance(block, Heading)), "")
        named = 3 < len(heading) < 70 and not heading[0].isdigit()
        return heading if named else self.name.replace("-", " ").replace("_", " ")

    @cached_property
    def _placed(self) -> tuple[tuple[int | None, Block], ...]:
        if self.suffix == "pdf":
            return tuple(read_pdf(self.content))
        text = self.content.decode("utf-8", "replace") if self.suffix != "docx" else ""
        read = read_docx(self.content) if self.suffix == "docx" else read_markdown(text)
        return tuple((None, block) for block in read)

    @cached_property
    def text(self) -> str:
        """All its words."""
        return plain(" ".join(map(flatten, self.blocks)))

    def find(self, *words: str) -> Spot | None:
        """Find the first sentence that holds all these words."""
        wanted = [plain(word).casefold() for word in words]
        for spot in self.sentences():
            if all(word in spot.sentence.casefold() for word in wanted):
                return replace(spot, sentence=_cut(spot.sentence, wanted))
        for number, block in enumerate(self.blocks):
            text = plain(flatten(block))
            if all(word in text.casefold() for word in wanted):
                return Spot(number, text, self.pages[number])
        return None

    def sentences(self) -> Iterator[Spot]:
        """Yield the sentences of running text."""
        for number, block in enumerate(self.blocks):
            if isinstance(block, Paragraph):
                for sentence in _SENTENCE_END.split(plain(block.text)):
                    yield Spot(number, sentence, self.pages[number])


def _cut(sentence: str, words: Sequence[str]) -> str:
    """Leave 200 letters before and after the words of what is no sentence but a page without full stops."""
    if len(sentence) < 400:
        return sentence
    places = [sentence.casefold().index(word) for word in words]
    start = sentence.find(" ", max(min(places) - 200, 0)) + 1 if min(places) > 200 else 0
    return sentence[start : max(places) + 200].rsplit(" ", 1)[0]


def read_blob(repositories: Path, repository: str, commit: str, path: str) -> bytes:
    """Read a file of a commit from a clone: `OWNER/NAME`, or bare as `OWNER+NAME/repo`.

    Raises `FileNotFoundError` if the clone has no such file.
    """
    bare = repositories / repository.replace("/", "+") / "repo"
    place = bare if bare.is_dir() else repositories / repository
    done = subprocess.run(
        ["git", "-C", str(place), "show", f"{commit}:{path}"], capture_output=True, check=False
    )
    if done.returncode:
        raise FileNotFoundError(f"{repository}: {path} at {commit}: {done.stderr.decode().strip()}")
    return done.stdout


def read_markdown(text: str) -> Iterator[Block]:
    """Read the blocks of Markdown or plain text; of tables only those in HTML, as simple rows."""
    if title := re.match(r"---\n(?:.*\n)*?title: *['\"]?(.+?)['\"]?\n", text):
        yield Heading(plain(title[1]))
    text = re.sub(r"\A---\n.*?\n---\n|<!--.*?-->|^\{%.*?%\}", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[*+-]|\d+\.)\s|#)|(?<=\n)(?=#)", text):
        if "<td" in part:
            yield from _read_html_table(part)
            continue
        heading = part.strip().startswith("#")
        words = plain(
            re.sub(r"\*\*|__|`|^\s*(?:[*+-]|\d+\.)\s+|^\s*#+\s*|<[^>]+>|(?<!\w)[*_]|[*_](?!\w)|\\", "", part)
        )
        if words and not words.startswith("|"):
            yield Heading(words) if heading and len(words) < 120 else Paragraph(words)


def _read_html_table(part: str) -> Iterator[Block]:
    rows = [
        tuple(
            plain(re.sub(r"<[^>]+>", "", cell))
            for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)
        )
        for row in part.split("<tr")
    ]
    rows = [row for row in rows if row]
    if rows and len({len(row) for row in rows}) == 1:
        yield Table(tuple(rows))


def read_docx(content: bytes) -> Iterator[Block]:
    """Read the paragraphs of a Word document."""
    with zipfile.ZipFile(BytesIO(content)) as archive:
        root = ET.fromstring(archive.read("word/document.xml"))
    for paragraph in root.iter(f"{_WORD}p"):
        words = plain("".join(text.text or "" for text in paragraph.iter(f"{_WORD}t")))
        if words:
            yield Paragraph(words)


def read_pdf(content: bytes) -> Iterator[tuple[int, Block]]:
    """Read the running text of each page of a PDF file as one paragraph per group of full lines."""
    from pypdfium2 import PdfDocument

    pdf = PdfDocument(content)
    try:
        for number in range(len(pdf)):
            text = pdf[number].get_textpage().get_text_bounded().replace("\r", "")
            text = re.sub(r"[\ufffe\u0002]\n?", "", text)
            for group in _group_lines(text.split("\n")):
                yield number + 1, Paragraph(plain(group))
    finally:
        pdf.close()


def _group_lines(lines: Sequence[str]) -> Iterator[str]:
    """Join lines to paragraphs: a short line that ends a sentence, or is followed by a capital, ends one."""
    group: list[str] = []
    for line in lines:
        if not line.strip():
            if group:
                yield " ".join(group)
            group = []
            continue
        group.append(line.strip())
        if line.rstrip().endswith((".", ":")) and len(line) < 60:
            yield " ".join(group)
            group = []
    if group:
        yield " ".join(group)


_VERB = re.compile(r"\b(?:is|are|was|were|has|have|had|can|must|shall|will|may|[a-z]{3,}ed|[a-z]{3,}s)\b")
_MONTHS = "January February March April May June July August September October November December".split()
_MONTH = f"(?:{'|'.join(_MONTHS)})"
_YEAR = r"(?:19|20)\d\d"
_VALUES = (
    ("date", re.compile(rf"\b{_MONTH} \d{{1,2}}, {_YEAR}\b|\b\d{{1,2}} {_MONTH} {_YEAR}\b")),
    ("date", re.compile(rf"\b{_MONTH} {_YEAR}\b|(?<=in ){_YEAR}\b(?![-/])")),
    ("number", re.compile(r"(?<![\w.,$])\$?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w,.]\d)")),
    (
        "number",
        re.compile(r"(?<![\w.,-])\$?\d{2,4}(?:\.\d+)?(?:%| (?:percent|million|billion|[a-z]{3,}s)\b)"),
    ),
)
_STRANGE = re.compile(
    r"[^\x20-\x7e]|\.{3}|\b(?:Figure|Table|Fig)\b|\d+ \d+|[a-z]{4,}\d{1,3}\b|[\")]\d{1,3}\b|(?<!\d),\d"
    r"|,\d{3}\.\d|\b100%|= |\d - \d"
    r"|\b(?:about|approximately|around|over|nearly|almost|more than|less than|roughly|some) \$?\d"
)
"""Marks of foot notes, tables and formulas, and numbers that are only near the true one."""
MAX_MINED = 6


def mine_facts(source: Source, chance: random.Random) -> list[tuple[str, str, str, list[str]]]:
    """Draw sentences with a value that stands nowhere else in the document.

    Returns:
        For each the words that it begins with, its value, the kind, and other values.
    """
    found: list[tuple[str, str, str, list[str]]] = []
    spots = list(source.sentences())
    for spot in chance.sample(spots, len(spots)):
        if len(found) < MAX_MINED and (fact := _mine(spot.sentence, source.text, chance)):
            found.append(fact)
    return found


def _mine(sentence: str, text: str, chance: random.Random) -> tuple[str, str, str, list[str]] | None:
    words = sentence.split()
    whole = re.match(r"[A-Z][\w'-]*,? ", sentence) and sentence.endswith(".") and 9 <= len(words) <= 42
    if not whole or _STRANGE.search(sentence) or not _VERB.search(sentence) or text.count(sentence) != 1:
        return None
    for kind, pattern in _VALUES:
        matches = pattern.findall(sentence)
        if len(matches) == 1 and text.count(matches[0]) == 1:
            others = {_alter(matches[0], chance) for _ in range(6)} - {matches[0]}
            others = sorted(other for other in others if other not in text)
            if others:
                return " ".join(words[:6]), matches[0], kind, others
    return None


def _alter(value: str, chance: random.Random) -> str:
    """Change a month, a year, or the first digit that may change, by so much that it is no rounding."""
    month = next((month for month in _MONTHS if month in value), None)
    if month and chance.random() < 0.5:
        return value.replace(month, chance.choice([other for other in _MONTHS if other != month]))
    if year := re.search(r"\b(?:19|20)\d\d\b", value):
        return value.replace(year[0], str(int(year[0]) + chance.choice((-3, -2, -1, 1, 2))))
    digits = [match.start() for match in re.finditer(r"\d", value)][:2]
    at = chance.choice(digits)
    least = 1 if at == digits[0] else 0
    digit = chance.choice([n for n in range(least, 10) if abs(n - int(value[at])) > 1])
    return f"{value[:at]}{digit}{value[at + 1 :]}"
