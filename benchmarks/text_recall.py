"""Words of converted documents against the Markdown ground truth of docling's tests, by format.

`python -m benchmarks.text_recall DATA`, where DATA is the folder `tests/data` of a checkout of docling. Each
source with a ground truth beside it (`sources/NAME`, `groundtruth/NAME.md`) is converted once. What counts
are different words: a merged cell or a repeated link counts once. Recall is the part of the words of the
ground truth that were found, precision the part of the found words that the ground truth has; both are sums
over the files of a format.

Converted are the Markdown of `vrag convert` and the text of the items that `vrag index add` stores, and, if
`--python` names an interpreter that has them, MarkItDown and PyMuPDF4LLM. CPU seconds are those of all
processes that a program started.
"""

from __future__ import annotations

import argparse
import html
import re
import resource
import subprocess
import sys
import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.cli.convert.converted_document import ConvertedItem, write_document
from vrag.cli.tables import convert_items, find_item_tables
from vrag.corpus.convert import CONVERTERS
from vrag.corpus.converter import CorpusOptions
from vrag.errors import VragError
from vrag.scratch import scratch_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MARKDOWN, ITEMS = "vrag convert", "vrag items"
OTHERS = {
    "markitdown": (
        "import sys; from markitdown import MarkItDown; "
        "sys.stdout.buffer.write(MarkItDown().convert(sys.argv[1]).text_content.encode('utf-8', 'replace'))"
    ),
    "pymupdf4llm": (
        "import sys; out, sys.stdout = sys.stdout, sys.stderr; import pymupdf4llm; "
        "out.buffer.write(pymupdf4llm.to_markdown(sys.argv[1]).encode('utf-8', 'replace'))"
    ),
}
TIMEOUT_SECONDS = 300
TATWEEL = "\u0640"
"""Sign that stretches an Arabic word and is no letter of it."""
MARKUP = re.compile(
    r"<!--.*?-->"  # comments: pages, pictures
    r"|(?<=\])\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"]*\")?\)"  # targets of links and pictures
    r"|</?(?:table|thead|tbody|tr|th|td|br|p|b|i|u|s|sub|sup|span|div)\b[^>]*>"
    r"|\\[a-zA-Z]+(?=[^a-zA-Z]|$)",  # commands of LaTeX
    re.DOTALL,
)
WORD = re.compile(r"[぀-ヿ㐀-鿿가-힯]|[^\W\d_぀-ヿ㐀-鿿가-힯]+|\d+")
"""A run of letters, a run of digits, or a letter of a script without spaces."""


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """A document whose text is known."""

    source: Path
    truth: Path

    @property
    def format(self) -> str:
        """Suffix without the dot."""
        return self.source.suffix.lower().lstrip(".")


@dataclass(frozen=True, slots=True)
class Conversion:
    """The text that a program made of a document, None if it could not, and what it cost."""

    text: str | None
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class WordScore:
    """Different words of the ground truth, those found, and those in both."""

    known: int = 0
    found: int = 0
    shared: int = 0

    def __add__(self, other: WordScore) -> WordScore:
        return WordScore(self.known + other.known, self.found + other.found, self.shared + other.shared)

    @property
    def recall(self) -> float:
        """Part of the known words that were found."""
        return self.shared / self.known if self.known else 1.0

    @property
    def precision(self) -> float:
        """Part of the found words that are known."""
        return self.shared / self.found if self.found else 1.0


def main(data: Path, python: Path | None, formats: Sequence[str], keep: Path | None, worst: int) -> None:
    """Convert every document and print a table by format, and the words that the worst files miss."""
    results: dict[str, dict[KnownDocument, Conversion]] = defaultdict(dict)
    for document in find_documents(data):
        if formats and document.format not in formats:
            continue
        print(document.source.relative_to(data), file=sys.stderr, flush=True)
        for program, conversion in convert_document(document.source, python):
            results[program][document] = conversion
            if keep is not None and conversion.text is not None:
                _keep_text(keep / program.replace(" ", "-"), document, conversion.text)
    print_table(results)
    print_worst(results[MARKDOWN], worst)


def find_documents(data: Path) -> Iterator[KnownDocument]:
    """Yield the documents of formats that are read, each with its ground truth."""
    for source in sorted(data.glob("*/sources/**/*")):
        folder = data / source.relative_to(data).parts[0] / "groundtruth"
        truths = [folder / f"{source.name}.md", folder / f"{source.stem}.md"]
        truth = next(filter(Path.is_file, truths), None)
        if truth is not None and source.is_file() and source.suffix.lower() in CONVERTERS:
            yield KnownDocument(source, truth)


def convert_document(source: Path, python: Path | None) -> Iterator[tuple[str, Conversion]]:
    """Yield the name of each program with its conversion."""
    begun = _cpu_seconds()
    markdown, text = _convert_here(source)
    seconds = _cpu_seconds() - begun
    yield MARKDOWN, Conversion(markdown, seconds)
    yield ITEMS, Conversion(text, seconds)
    if python is not None:
        for program, code in OTHERS.items():
            yield program, _convert_elsewhere([str(python), "-c", code, str(source)])


def _convert_here(source: Path) -> tuple[str | None, str | None]:
    """Return the Markdown of a document and the text of its items; None for one that cannot be read."""
    converted: list[ConvertedItem] = []
    try:
        with scratch_directory() as folder:
            for item, _ in convert_items(source, None, CorpusOptions(workers=1), folder):
                converted.append(ConvertedItem(item, find_item_tables(item, folder)))
    except VragError as error:
        print(f"  {error}", file=sys.stderr)
        return None, None
    converted.sort(key=lambda one: one.item.ordinal)
    return write_document(converted), "\n".join(one.item.text for one in converted)


def _convert_elsewhere(command: Sequence[str]) -> Conversion:
    begun = _cpu_seconds()
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Conversion(None, _cpu_seconds() - begun)
    text = done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
    return Conversion(text, _cpu_seconds() - begun)


def _cpu_seconds() -> float:
    """Return the processor time of this process and of its processes that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _keep_text(folder: Path, document: KnownDocument, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{document.source.name}.md").write_text(text, encoding="utf-8")


def find_words(text: str) -> frozenset[str]:
    """Return the different words of a text or of Markdown, without markup, case and accents."""
    folded = unicodedata.normalize("NFKD", html.unescape(MARKUP.sub(" ", text)))
    letters = (each for each in folded if unicodedata.category(each) not in {"Mn", "Cf"} and each != TATWEEL)
    return frozenset(WORD.findall("".join(letters).casefold()))


def score_words(truth: str, text: str) -> WordScore:
    """Compare the different words of two texts."""
    known, found = find_words(truth), find_words(text)
    return WordScore(len(known), len(found), len(known & found))


def print_table(results: dict[str, dict[KnownDocument, Conversion]]) -> None:
    """Print recall and precision by format, and the processor time beside that of `vrag convert`.

    Figures of a program are those of the files that it reads.
    """
    print(f"{'format':8} {'program':14} {'files':>9} {'recall':>7} {'precision':>9} {'CPU ratio':>9}")
    formats = sorted({document.format for document in results[MARKDOWN]})
    for name in [*formats, "all"]:
        for program, conversions in results.items():
            _print_row(
                name,
                program,
                {known: one for known, one in conversions.items() if name in {known.format, "all"}},
                results[MARKDOWN],
            )


def _print_row(
    name: str,
    program: str,
    conversions: dict[KnownDocument, Conversion],
    ours: dict[KnownDocument, Conversion],
) -> None:
    read = {known: one for known, one in conversions.items() if one.text is not None}
    score = sum((_score(known, one) for known, one in read.items()), WordScore())
    seconds = sum(one.cpu_seconds for one in read.values())
    of_ours = sum(ours[known].cpu_seconds for known in read)
    ratio = f"{seconds / of_ours:9.2f}" if of_ours else f"{'-':>9}"
    files = f"{len(read)} of {len(conversions)}"
    if not read:
        print(f"{name:8} {program:14} {files:>9} {'-':>7} {'-':>9} {'-':>9}")
        return
    print(f"{name:8} {program:14} {files:>9} {score.recall:7.3f} {score.precision:9.3f} {ratio}")


def _score(known: KnownDocument, conversion: Conversion) -> WordScore:
    return score_words(known.truth.read_text(encoding="utf-8"), conversion.text or "")


def print_worst(conversions: dict[KnownDocument, Conversion], count: int) -> None:
    """Print the files with the lowest product of recall and precision, with words missed and words more."""
    scores = {known: _score(known, one) for known, one in conversions.items()}
    order = {known: score.recall * score.precision for known, score in scores.items()}
    for known in sorted(scores, key=order.__getitem__)[:count]:
        score = scores[known]
        words = find_words(known.truth.read_text(encoding="utf-8"))
        found = find_words(conversions[known].text or "")
        print(f"\n{known.source.name}: recall {score.recall:.3f}, precision {score.precision:.3f}")
        print("  missed:", " ".join(sorted(words - found)[:60]))
        print("  more:  ", " ".join(sorted(found - words)[:60]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="docling's folder tests/data")
    parser.add_argument("--python", type=Path, help="interpreter with markitdown[all] and pymupdf4llm")
    parser.add_argument("--formats", nargs="*", default=[], help="suffixes, such as docx; default: all")
    parser.add_argument("--keep", type=Path, help="folder for the converted texts")
    parser.add_argument("--worst", type=int, default=20, help="files whose words are listed")
    given = parser.parse_args()
    main(given.data, given.python, given.formats, given.keep, given.worst)
