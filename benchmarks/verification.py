"""Verdicts on right answers, on the same with one thing altered, and on right answers in other words.

    python -m benchmarks.verification SETS [--pairs FILE] [--collection DIR --dataset DATASET.json]

SETS is a folder with copies of the question sets (see `vrag reader train`). Their tables and paragraphs are
set on pages, three of which are the evidence: those that a search shows for the question. Right answers are
the short ones, the sentence of the page that has the answer, the question as a statement, and for tables a
cell with its heads. Each is altered (`alterations.py`) and said in other words. Computed and counted answers
are a row of their own.

`--pairs` is the file of the Microsoft Research Paraphrase Corpus: of two sentences that mean the same, the
longer one is the page and the other one the answer. With a collection, the gold answers of a data set are
checked on their gold pages and regions. Synthetic documents are always checked too.

An answer counts by its worst claim. An altered one is caught where a claim is doubted or unverified, a right
one is doubted wrongly there. Tables and paragraphs are parted in two halves by their topic: rules and
thresholds were chosen on `tune`.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.alterations import Change, alter, find_names, reword
from benchmarks.grounding import open_documents
from vrag.agent.page_reading import open_page
from vrag.corpus.convert import convert_all
from vrag.corpus.converter import Converted, CorpusOptions
from vrag.corpus.discover import read_source as read_file
from vrag.datasets.registry import read_cases
from vrag.geometry import Box
from vrag.reading.answer import ReadPage
from vrag.reading.questions.answer_types import find_focus
from vrag.reading.tables.table import DocumentTable
from vrag.reading.training.answer_data import read_answer_questions
from vrag.reading.training.table_data import TableCase
from vrag.reading.training.text_data import read_drcd, read_shifts
from vrag.reading.training.typeset_pages import typeset_page
from vrag.reading.verification.claim import ClaimKind, ClaimVerdict, worst_verdict
from vrag.reading.verification.claims import extract_claims
from vrag.reading.verification.verifier import ClaimCheck, ClaimSource, check_claims
from vrag.synthesis.corpus import TEMPLATES, SynthesisOptions, synthesize
from vrag.text.terms import STOP_WORDS, tokens
from vrag.types import Item, item_id

COUNT = 300
"""Answers of each kind."""
SYNTHETIC_DOCUMENTS = 36
MAIN_CHANGES = Change.DIGIT, Change.SIGN, Change.UNIT, Change.NAME, Change.DATE
HALVES = "tune", "report"
ROW_NAMES = "doubted", "unverified", "picture alone", "stated"
"""The verdicts of the rules; of those unverified, what a look at the picture alone can decide."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A right answer with its evidence."""

    source: str
    topic: str
    form: str
    """short, sentence, statement, cell or computed."""
    question: str
    answer: str
    pages: tuple[Item, ...]
    gold: str
    """Id of the page with the answer."""
    regions: tuple[tuple[str, Box], ...] = ()
    """Ids of pages, and the parts of them that are the evidence; else whole pages are."""
    open_page: Callable[[Item], ReadPage] = ReadPage

    @property
    def sources(self) -> list[ClaimSource]:
        """The evidence."""
        pages = {item.id: self.open_page(item) for item in self.pages}
        parts = [ClaimSource(pages[item], box) for item, box in self.regions if item in pages]
        return parts or [ClaimSource(page) for page in pages.values()]


@dataclass(slots=True)
class Row:
    """The verdicts on the answers of one kind."""

    verdicts: Counter[str] = field(default_factory=Counter[str])
    examples: list[str] = field(default_factory=list[str])

    def add(self, verdict: str, example: str) -> None:
        """Count a verdict; keep an example."""
        self.verdicts[verdict] += 1
        self.examples.append(f"{verdict}: {example}")

    @property
    def total(self) -> int:
        """Number of answers."""
        return self.verdicts.total()

    def share(self, *verdicts: str) -> float:
        """Return the share of some verdicts."""
        return sum(self.verdicts[verdict] for verdict in verdicts) / max(self.total, 1)


def half_of(topic: str) -> str:
    """Return the half that a topic belongs to."""
    return HALVES[hashlib.sha256(topic.encode()).digest()[0] % 2]


def read_samples(folder: Path, count: int, seed: int) -> Iterator[Sample]:
    """Yield right answers of the question sets of a folder, short and as sentences."""
    chance = random.Random(seed)
    for question in read_answer_questions(folder, count, seed):
        gold = next((page for page in question.pages if page.item.id == question.gold), None)
        if gold is None or not question.answers or not question.answers[0].strip():
            continue
        pages = tuple(page.item for page in question.pages)
        answer = question.answers[0]
        if question.table is not None and question.table.scale and re.fullmatch(r"[-$(]?[\d,.]+\)?", answer):
            answer += " %" if question.table.scale == "percent" else f" {question.table.scale}"
        base = (question.source, question.topic)
        if question.table is not None and _is_computed(question.table):
            yield Sample(*base, "computed", question.question, answer, pages, gold.item.id)
        else:
            yield from _forms(base, question.question, answer, pages, gold.item)
        if gold.tables:
            yield from _cells(base, gold.tables[0], pages, gold.item.id, chance)
    yield from _read_more(folder, count, chance)


def _is_computed(case: TableCase) -> bool:
    """Return whether an answer is computed or counted, and stands in no cell."""
    return case.computed or not all(
        any(answer in cell.text for cell in case.table.cells) for answer in case.answers
    )


def _read_more(folder: Path, count: int, chance: random.Random) -> Iterator[Sample]:
    """Yield answers of sets that no reader learns from in this shape: SQuADShifts and DRCD."""
    shifts = folder / "squadshifts"
    sets = [
        read_shifts(shifts, domain)
        for domain in ("new_wiki", "reddit", "amazon_reviews")
        if (shifts / "datasets" / f"{domain}_v1.0.json").exists()
    ]
    if (folder / "DRCD" / "DRCD_dev.json").exists():
        sets.append(read_drcd(folder / "DRCD", "dev"))
    for questions in sets:
        texts = {question.paragraph: question.text for question in questions}
        for question in chance.sample(questions, min(count, len(questions))):
            first = question.paragraph - question.paragraph % 3
            group = [texts[number] for number in range(first, first + 3) if number in texts]
            page = typeset_page(question.source, first + 1, group)
            topic = f"{question.source} {first}"
            answer = question.answers[0][1]
            yield from _forms((question.source, topic), question.question, answer, (page.item,), page.item)


def _forms(
    base: tuple[str, str], question: str, answer: str, pages: tuple[Item, ...], gold: Item
) -> Iterator[Sample]:
    yield Sample(*base, "short", question, answer, pages, gold.id)
    if base[0] != "xquad-de" and (statement := make_statement(question, answer)):
        yield Sample(*base, "statement", question, statement, pages, gold.id)
    if base[0] not in ("tat", "wiki", "cards") and (sentence := find_sentence(question, answer, gold.text)):
        yield Sample(*base, "sentence", question, sentence, pages, gold.id)


def make_statement(question: str, answer: str) -> str | None:
    """Return a question with the answer in place of what asks; None where that is no sentence."""
    focus = find_focus(question)
    if focus.end <= focus.start or len(answer) > 80:
        return None
    lead, rest = question[: focus.start].strip(), question[focus.end :].strip(" ?？。.")
    if re.search(r"[\u3040-\u9fff]", question):
        rest = re.sub("^[个個种種位名座部项項条條]", "", rest)
        return None if re.search("[什哪谁誰何几幾か]", lead + rest) else f"{lead}{answer}{rest}。"
    if lead.casefold() not in ("", "in", "on", "at", "from", "to", "by", "with"):
        return None
    if match := re.fullmatch(r"(.*?)\b(?:did|does|do)\b (.+)", rest):
        text = f"{match[2]} {lead.lower()} {answer} {match[1]}"
    elif match := re.fullmatch(
        r"(is|are|was|were|has|have|had|can|could|will|would|might|should) (.+)", rest
    ):
        text = f"{match[2]} {match[1]} {lead.lower()} {answer}"
    elif re.search(
        r"\b(?:is|are|was|were|has|have|had|can|could|will|would|should) (?:the|a|an|he|it)\b", rest
    ):
        return None
    else:
        text = f"{lead} {answer} {rest}".strip()
    text = " ".join(text.split())
    return f"{text[0].upper()}{text[1:]}."


def find_sentence(question: str, answer: str, text: str) -> str | None:
    """Return the sentence of a page with an answer, with most words of the question."""
    cjk = re.search(r"[\u3040-\u9fff]", text) is not None
    plain = re.sub(r"(?<=[\u3000-\u9fff\uff00-\uffef])\s+|\s+(?=[\u3000-\u9fff\uff00-\uffef])", "", text)
    plain = re.sub(r"\s+", " ", plain)
    pieces = re.findall(r"[^。！？]+[。！？]?" if cjk else r"[^.!?]+(?:[.!?](?!\s|$)[^.!?]*)*[.!?]?", plain)
    asked = {token.term for token in tokens(question)} - STOP_WORDS
    having = [piece.strip() for piece in pieces if answer in piece and 20 <= len(piece.strip()) <= 400]
    if not having:
        return None
    return max(having, key=lambda piece: len(asked & {token.term for token in tokens(piece)}))


def _cells(
    base: tuple[str, str], table: DocumentTable, pages: tuple[Item, ...], gold: str, chance: random.Random
) -> Iterator[Sample]:
    """Yield a statement about one cell of a table, with the heads of its row and column."""
    cells = [
        cell
        for cell in table.cells
        if cell.row >= table.header_rows
        and cell.column
        and re.search(r"\d", cell.text)
        and len(cell.text) < 20
    ]
    for cell in chance.sample(cells, min(1, len(cells))):
        name = table.cell_at(cell.row, 0)
        heads = " ".join(head.text for head in table.column_heads(cell.column))
        if name is None or not re.search(r"[^\W\d]", name.text) or not heads:
            continue
        answer = f"{name.text} ({heads}): {cell.text}"
        yield Sample(*base, "cell", f"What is {heads} of {name.text}?", answer, pages, gold)


def read_pairs(path: Path) -> Iterator[Sample]:
    """Yield pairs of sentences with the same meaning, the longer one as the page."""
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines()[1:]):
        fields = line.split("\t")
        if len(fields) == 5 and fields[0] == "1":
            long, short = sorted(fields[3:], key=len, reverse=True)
            item = typeset_page("pairs", number + 1, [long]).item
            yield Sample("pairs", f"pair {number}", "sentence", "", short, (item,), item.id)


def read_gold(dataset: Path, collection: Path) -> Iterator[Sample]:
    """Yield the gold answers of a data set with the gold pages and regions of a collection."""
    session = open_documents(None, collection)
    environment = session.agent().environment
    documents = {document.name: document.id for document in session.documents}
    for case in read_cases(dataset):
        answer = str(case.reference_answer)
        if not case.reference_page or answer.casefold() == "not answerable":
            continue
        if answer.startswith("["):
            answer = ", ".join(map(str, ast.literal_eval(answer)))
        id = documents[case.file_name]
        numbers = sorted({*case.reference_page, *(region.page for region in case.regions)})
        pages = tuple(environment.item(item_id(id, number)) for number in numbers)
        regions = tuple((item_id(id, region.page), region.box) for region in case.regions)
        opener = partial(open_page, environment.searcher)
        yield Sample("gold", case.uid, "gold", case.query, answer, pages, pages[0].id, regions, opener)


def read_synthetic(documents: int, seed: int) -> Iterator[Sample]:
    """Yield the questions of synthetic documents; the answer to those of emblems is a colour."""
    made = synthesize(SynthesisOptions(seed=seed, documents=documents, templates=tuple(TEMPLATES)))
    with TemporaryDirectory() as name:
        folder = Path(name)
        paths = [folder / file for file in made.documents]
        for path in paths:
            path.write_bytes(made.documents[path.name])
        (folder / "items").mkdir()
        events = convert_all((read_file(path) for path in paths), folder / "items", CorpusOptions(workers=1))
        found = [event.item for event in events if isinstance(event, Converted)]
    items = {(item.document_name, item.ordinal): item for item in found}
    for case in (*made.train, *made.held_out):
        pages = tuple(items[case.file_name, number] for number in case.reference_page)
        regions = tuple((items[case.file_name, region.page].id, region.box) for region in case.regions)
        form = "colour" if case.file_name.startswith("emblem") else "synthetic"
        yield Sample(
            "synthetic", case.uid, form, case.query, str(case.reference_answer), pages, pages[0].id, regions
        )


def name_worst(checks: Sequence[ClaimCheck]) -> str:
    """Return the name of the worst verdict, one of `ROW_NAMES`; stated without any claim."""
    worst = worst_verdict(check.verdict for check in checks) or ClaimVerdict.STATED
    of_worst = [check for check in checks if check.verdict is worst]
    return "picture alone" if any(check.needs_picture for check in of_worst) else worst.value


def describe(sample: Sample, answer: str, checks: Sequence[ClaimCheck]) -> str:
    """Return an answer with its verdicts in one line."""
    doubts = "; ".join(
        f"{check.claim.kind.value} {check.claim.text!r} {check.verdict.value} {check.found[:60]!r}"
        for check in checks
        if check.verdict is not ClaimVerdict.STATED
    )
    return f"[{sample.source}/{sample.form}] {sample.question} → {answer!r} ({doubts})"


@dataclass(slots=True)
class Measure:
    """All rows of a measurement, and the time that it took."""

    rows: dict[str, Row] = field(default_factory=lambda: defaultdict(Row))
    milliseconds: list[float] = field(default_factory=list[float])

    def check(self, kind: str, sample: Sample, answer: str) -> str:
        """Check an answer and count its verdict."""
        sources = sample.sources
        begun = time.perf_counter()
        checks = check_claims(sample.question, answer, sources)
        self.milliseconds.append(1000 * (time.perf_counter() - begun))
        verdict = name_worst(checks)
        self.rows[kind].add(verdict, describe(sample, answer, checks))
        return verdict


def measure(samples: Sequence[Sample], count: int, seed: int) -> Measure:
    """Check right answers, altered ones and reworded ones, `count` of each kind."""
    chance = random.Random(seed)
    result = Measure()
    shuffled = chance.sample(samples, len(samples))
    names = [name.text for sample in shuffled if sample.form == "short" for name in find_names(sample.answer)]
    sentences = [sample for sample in shuffled if sample.form == "sentence"]
    quota = _Quota(count)
    for sample in shuffled:
        if quota.take(f"right, {sample.form}", sample.source):
            result.check(f"right, {sample.form}", sample, sample.answer)
        page = next(item for item in sample.pages if item.id == sample.gold)
        text = "\n".join(item.text for item in sample.pages)
        absent = [name for name in chance.sample(names, min(40, len(names))) if name not in text]
        of_page = [claim for claim in extract_claims(page.text) if claim.text not in sample.answer]
        own = [
            name.text
            for name in find_names(page.text)
            if name.text not in sample.answer and "\n" not in name.text
        ]
        numbers = [
            claim.text for claim in of_page if claim.kind is ClaimKind.NUMBER and "\n" not in claim.text
        ]
        if sample.form == "computed":
            continue
        for altered in alter(sample.answer, chance, absent, own, numbers):
            if quota.take(altered.change.value, f"{sample.source} {sample.form}"):
                result.check(altered.change.value, sample, altered.text)
        other = chance.choice(sentences)
        is_other = sample.form == "sentence" and other.source == sample.source and other.gold != sample.gold
        if is_other and quota.take(Change.OTHER.value, sample.source):
            result.check(Change.OTHER.value, sample, other.answer)
        for rule, answer in reword(sample.answer, chance):
            if quota.take(f"reworded, {rule.value}", f"{sample.source} {sample.form}", 60):
                result.check(f"reworded, {rule.value}", sample, answer)
    return result


def measure_extra(result: Measure, samples: Sequence[Sample], seed: int) -> None:
    """Check gold answers and those of synthetic documents, and what is altered in them."""
    chance = random.Random(seed)
    names = [name.text for sample in samples for name in find_names(sample.answer)]
    for sample in samples:
        result.check(f"{sample.form}: right", sample, sample.answer)
        text = "\n".join(item.text for item in sample.pages)
        for altered in alter(sample.answer, chance, [name for name in names if name not in text], [], []):
            if altered.change in MAIN_CHANGES:
                result.check(f"{sample.form}: {altered.change.value}", sample, altered.text)


class _Quota:
    """Counts answers of each kind, so that no source has more than a fifth of them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._taken: Counter[str] = Counter()
        self._by_source: Counter[tuple[str, str]] = Counter()

    def take(self, kind: str, source: str, count: int | None = None) -> bool:
        """Return whether one more answer is wanted, and count it."""
        most = count or self._count
        if self._taken[kind] >= most or self._by_source[kind, source] >= max(most // 5, 1):
            return False
        self._taken[kind] += 1
        self._by_source[kind, source] += 1
        return True


def table_of(rows: dict[str, Row]) -> list[str]:
    """The lines of a table in Markdown."""
    lines = [
        f"| answers | n | {' | '.join(ROW_NAMES)} |",
        "|---|---|---|---|---|---|",
    ]
    for kind in sorted(rows):
        row = rows[kind]
        shares = " | ".join(f"{100 * row.share(verdict):.1f} %" for verdict in ROW_NAMES)
        lines.append(f"| {kind} | {row.total} | {shares} |")
    for title, kinds in (
        (
            "all altered (digit, sign, unit, name, date)",
            [change.value for change in MAIN_CHANGES],
        ),
        (
            "all right, but computed",
            [kind for kind in rows if kind.startswith("right") and "computed" not in kind],
        ),
        (
            "all reworded by rules",
            [kind for kind in rows if kind.startswith("reworded") and "pairs" not in kind],
        ),
    ):
        total = Row()
        for kind in kinds:
            total.verdicts += rows[kind].verdicts if kind in rows else Counter()
        shares = " | ".join(f"{100 * total.share(verdict):.1f} %" for verdict in ROW_NAMES)
        lines.append(f"| **{title}** | {total.total} | {shares} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints one table, and examples of what fails."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.verification", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("sets", type=Path, help="folder with copies of the question sets")
    parser.add_argument("--pairs", type=Path, help="file of the Microsoft Research Paraphrase Corpus")
    parser.add_argument("--collection", type=Path, help="a collection with the pages of the data set")
    parser.add_argument("--dataset", type=Path, help="questions with gold answers, pages and regions")
    parser.add_argument("--half", choices=HALVES, default="report")
    parser.add_argument("--count", type=int, default=COUNT, help="answers of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--examples", type=int, default=0, help="failures of each kind that are printed")
    parser.add_argument("--json", type=Path, help="write all verdicts to this file")
    options = parser.parse_args(arguments)
    samples = [
        sample
        for sample in read_samples(options.sets, options.count, options.seed)
        if half_of(sample.topic) == options.half
    ]
    print(f"{len(samples)} right answers", file=sys.stderr)
    result = measure(samples, options.count, options.seed)
    if options.pairs:
        pairs = [sample for sample in read_pairs(options.pairs) if half_of(sample.topic) == options.half]
        for sample in random.Random(options.seed).sample(pairs, min(options.count, len(pairs))):
            result.check("reworded, pairs of MRPC", sample, sample.answer)
    extra = list(read_synthetic(SYNTHETIC_DOCUMENTS, options.seed))
    if options.collection and options.dataset:
        extra += read_gold(options.dataset, options.collection)
    measure_extra(result, extra, options.seed)
    print("\n".join(table_of(result.rows)))
    times = sorted(result.milliseconds)
    print(f"\nmilliseconds per answer: median {median(times):.1f}, 95 % {times[int(0.95 * len(times))]:.1f}")
    for kind, row in sorted(result.rows.items() if options.examples else ()):
        right = kind.startswith(("right", "reworded"))
        wrong = [one for one in row.examples if one.startswith("stated") is not right]
        print(f"\n{kind}:", *wrong[: options.examples], sep="\n  ")
    if options.json:
        content = {kind: row.examples for kind, row in result.rows.items()}
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
