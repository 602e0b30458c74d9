"""The second reading of claims: how often it doubts clean text, and how many planted lies it catches.

    python -m benchmarks.second_reading COLLECTION [--count 500] [--lies 200]

Clean claims are sentences and cells of the pages of a collection whose text is that of a PDF layer: each has
a number, and the answer says it as the page does. A lie is such a claim of a page whose stored text, and so
the answer, has another digit than is drawn.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from statistics import mean, median

from benchmarks.alterations import change_digit
from benchmarks.grounding import open_documents
from vrag.agent.answers.page_strips import PageStrips
from vrag.geometry import Box
from vrag.reading.answer import ReadPage
from vrag.reading.verification.claim import ClaimDoubt, ClaimVerdict
from vrag.reading.verification.claim_evidence import ClaimCheck
from vrag.reading.verification.second_reading import can_read, read_again
from vrag.reading.verification.source_text import read_source
from vrag.reading.verification.verifier import ClaimSource, check_claims
from vrag.search.searcher import Searcher
from vrag.types import Item

MAX_STATEMENT_CHARS = 300


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence or a cell with a number, as an answer."""

    item: Item
    answer: str
    region: Box | None
    start: int
    """Where the number begins in the text of the item."""
    end: int


@dataclass(slots=True)
class Counts:
    """The verdicts on numbers and on sentences."""

    numbers: Counter[str] = field(default_factory=Counter[str])
    sentences: Counter[str] = field(default_factory=Counter[str])
    milliseconds: list[float] = field(default_factory=list[float])
    """Of each claim of an answer."""
    doubted: list[str] = field(default_factory=list[str])
    caught: int = 0
    """Statements with a number that the second reading doubts."""
    missed: list[str] = field(default_factory=list[str])
    """The other statements, with their verdicts."""


def find_statements(item: Item, chance: random.Random) -> Iterator[Statement]:
    """Yield sentences and cells of a page that have a number of two digits or more."""
    source = read_source(ReadPage(item))
    values = list(source.values)
    chance.shuffle(values)
    for value, at in values:
        statement = source.statements[at]
        words = " ".join(source.text[statement.start : statement.end].split())
        number = source.text[value.start : value.end]
        if value.amount is None or len(re.findall(r"\d", number)) < 2 or len(words) > MAX_STATEMENT_CHARS:
            continue
        region = statement.rect.box() if statement.rect else None
        yield Statement(item, words, region, *source.flat.original(value.start, value.end))


def lie(statement: Statement, chance: random.Random) -> Statement | None:
    """Return a statement of a page that stores another digit than it draws; None where that fails."""
    number = statement.item.text[statement.start : statement.end]
    changed = change_digit(number, chance)
    if changed is None or len(changed) != len(number) or number not in statement.answer:
        return None
    text = statement.item.text
    stored = text[: statement.start] + changed + text[statement.end :]
    answer = statement.answer.replace(number, changed, 1)
    return replace(statement, item=replace(statement.item, text=stored), answer=answer)


def check(statement: Statement, searcher: Searcher) -> tuple[Sequence[ClaimCheck], float]:
    """Return the verdicts after a second reading, and the milliseconds that it took for a claim."""
    page = ReadPage(statement.item, lambda: searcher.image(statement.item.id))
    checks = check_claims("", statement.answer, [ClaimSource(page, statement.region)])
    begun = time.perf_counter()
    read = read_again(checks, {statement.item.id: statement.item}, PageStrips(searcher))
    return read, 1000 * (time.perf_counter() - begun) / max(len(read), 1)


def measure(statements: Sequence[Statement], searcher: Searcher) -> Counts:
    """Check statements, and count the verdicts."""
    counts = Counts()
    for number, statement in enumerate(statements, 1):
        checks, milliseconds = check(statement, searcher)
        counts.milliseconds.append(milliseconds)
        for one in checks:
            kind = counts.sentences if one.claim.kind == "sentence" else counts.numbers
            is_read = one.verdict is not ClaimVerdict.DOUBTED or one.doubt is ClaimDoubt.READING
            kind[one.verdict.value if is_read else "doubted by the text"] += 1
            if one.doubt is ClaimDoubt.READING:
                counts.doubted.append(f"{statement.item.name}: {one.claim.text!r} read as {one.found!r}")
        if any(one.doubt is ClaimDoubt.READING for one in checks):
            counts.caught += 1
        else:
            found = [f"{one.claim.text[:40]!r} {one.verdict.value}" for one in checks]
            counts.missed.append(f"{statement.item.name}: {', '.join(found)}")
        if number % 50 == 0:
            print(f"{number} of {len(statements)}", file=sys.stderr)
    return counts


def describe(title: str, counts: Counts) -> str:
    """Return the counts as text."""
    rows = [
        f"  {kind}: "
        + ", ".join(f"{name} {n} ({100 * n / found.total():.1f} %)" for name, n in found.most_common())
        for kind, found in (("numbers", counts.numbers), ("sentences", counts.sentences))
        if found
    ]
    times = sorted(counts.milliseconds)
    last = times[int(0.95 * len(times))]
    clock = f"mean {mean(times):.0f}, median {median(times):.0f}, 95 % {last:.0f}"
    return "\n".join([title, *rows, f"  milliseconds a claim: {clock}"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the verdicts on clean claims and on lies."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.second_reading", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("collection", type=Path)
    parser.add_argument("--count", type=int, default=500, help="clean claims")
    parser.add_argument("--lies", type=int, default=200)
    parser.add_argument("--per-page", type=int, default=2, help="statements of one page")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    chance = random.Random(options.seed)
    session = open_documents(None, options.collection)
    searcher = session.agent().environment.searcher
    items = [
        searcher.item(f"{document.id[:16]}-{number}")
        for document in session.documents
        for number in range(1, document.items + 1)
    ]
    readable = [item for item in items if can_read(item)]
    chance.shuffle(readable)
    statements = (
        statement
        for item in readable
        for statement in islice(find_statements(item, chance), options.per_page)
    )
    clean = measure(list(islice(statements, options.count)), searcher)
    print(describe("clean", clean))
    print("\n".join(f"    {line}" for line in clean.doubted))
    lies = (false for statement in statements if (false := lie(statement, chance)) is not None)
    false = measure(list(islice(lies, options.lies)), searcher)
    print(describe(f"lies: {false.caught} of {false.caught + len(false.missed)} statements doubted", false))
    print("\n".join(f"    {line}" for line in false.missed))


if __name__ == "__main__":
    main()
