"""What a run does with the right and the wrong answers of a model: citations, verdicts, repairs, withdrawals.

    python -m benchmarks.scripted_answers --collection DIR --dataset DATASET.json

The model is a script. It is shown the gold pages of a question and the pages behind them, and answers with
the gold answer, or with that altered in one digit, sign, unit, date or name (`alterations.py`). Printed are,
for answers of each kind: the worst verdict on their claims, how many are withdrawn (`VRAG_VERIFY=withdraw`),
of how many the model is told that they are in doubt (`repair`), and whether the gold answer, which it gives
then, is the answer of the run. Citations: how many right answers rest on a gold page first, without a marker
and with one that names another page.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.alterations import alter, find_names
from benchmarks.verification import MAIN_CHANGES, Sample, read_gold
from vrag.agent.agent import Agent
from vrag.agent.answers.verification import VerifyMode
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import AnswerDoubted
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.run_result import RunResult
from vrag.errors import SearchError
from vrag.factory.session import open_session
from vrag.model_profiles import profile_named
from vrag.reading.verification.claim import ClaimVerdict, worst_verdict
from vrag.search.searcher import ForwardedItems
from vrag.settings import load_settings
from vrag.testing import ScriptedPolicy
from vrag.types import Hit, Item, item_id

if TYPE_CHECKING:
    from vrag.search.searcher import Searcher
    from vrag.types import Query

MAX_SHOWN = 6
"""Pages that the model is shown."""
LOOK = "<think>Look.</think><search>the pages</search>"
NO_CLAIM = "no claim"
VERDICTS = (*(verdict.value for verdict in ClaimVerdict), NO_CLAIM)


class ShownPages(ForwardedItems):
    """A searcher that finds the same pages for every query."""

    def __init__(self, searcher: Searcher, pages: Sequence[Item]) -> None:
        """`pages` are found in this order."""
        self._items, self._searcher, self._pages = searcher, searcher, pages

    @property
    def version(self) -> str:
        """The version of the collection."""
        return self._searcher.version

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Return the pages as hits."""
        hits = [
            Hit(page.id, 1 / rank, rank, page.document, page.document_name, page.ordinal, page.kind)
            for rank, page in enumerate(self._pages[:top_k], 1)
        ]
        return [hits for _ in queries]


@dataclass(slots=True)
class Tally:
    """The answers of one kind."""

    counts: Counter[str] = field(default_factory=Counter[str])

    def add(self, **found: bool) -> None:
        """Count what is true of an answer."""
        self.counts.update(name for name, is_so in found.items() if is_so)

    def share(self, name: str, of: str = "answers") -> str:
        """Return a share as text."""
        total = self.counts[of]
        return f"{100 * self.counts[name] / total:.1f} %" if total else "–"


def list_shown(sample: Sample, searcher: Searcher) -> list[Item]:
    """Return the gold pages of a question, and the pages behind them."""
    shown = {page.id: page for page in sample.pages[: MAX_SHOWN // 2]}
    for page in sample.pages:
        for number in (page.ordinal + 1, page.ordinal + 2):
            if len(shown) < MAX_SHOWN:
                try:
                    other = searcher.item(item_id(page.document, number))
                except SearchError:
                    continue
                shown.setdefault(other.id, other)
    return list(shown.values())


def run_script(
    question: str, pages: Sequence[Item], searcher: Searcher, verify: VerifyMode, *answers: str
) -> tuple[RunResult, bool]:
    """Run a model that gives these answers; return the result, and whether it was told of doubts."""
    options = EnvironmentOptions(hits=MAX_SHOWN, show=MAX_SHOWN)
    environment = Environment(ShownPages(searcher, pages), profile_named("qwen2.5-vl"), options)
    replies = (LOOK, *(f"<think>Seen.</think><answer>{answer}</answer>" for answer in answers))
    agent = Agent(ScriptedPolicy(replies), environment, VragMethod(verify=verify, second_reading=True))
    events = list(agent.stream(question))
    return RunResult.of(events), any(isinstance(event, AnswerDoubted) for event in events)


def measure_answer(
    tally: Tally, sample: Sample, pages: Sequence[Item], searcher: Searcher, answer: str
) -> None:
    """Give one answer in all three ways, and count what came of it."""
    told, _ = run_script(sample.question, pages, searcher, VerifyMode.TELL, answer)
    withdrawn, _ = run_script(sample.question, pages, searcher, VerifyMode.WITHDRAW, answer)
    repaired, was_told = run_script(
        sample.question, pages, searcher, VerifyMode.REPAIR, answer, sample.answer
    )
    worst = worst_verdict(claim.verdict for claim in told.claims)
    tally.add(
        answers=True,
        withdrawn=withdrawn.withdrawn is not None,
        told=was_told,
        mended=was_told and repaired.answer == sample.answer,
        **{verdict: (worst.value if worst else NO_CLAIM) == verdict for verdict in VERDICTS},
    )


def measure_citations(tally: Tally, sample: Sample, pages: Sequence[Item], searcher: Searcher) -> None:
    """Count whether a right answer rests on a gold page: without a marker, and with that of another page."""
    gold = {page.id for page in sample.pages}
    plain, _ = run_script(sample.question, pages, searcher, VerifyMode.TELL, sample.answer)
    tally.add(plain=True, plain_on_gold=bool(plain.rests) and plain.rests[0].item in gold)
    other = next((number for number, page in enumerate(pages, 1) if page.id not in gold), None)
    is_said = sample.answer.casefold() in " ".join(page.text for page in sample.pages).casefold()
    if other is None or not is_said:
        return
    moved, _ = run_script(sample.question, pages, searcher, VerifyMode.TELL, f"{sample.answer} [{other}]")
    tally.add(misled=True, misled_on_gold=bool(moved.rests) and moved.rests[0].item in gold)


def measure(samples: Sequence[Sample], searcher: Searcher, seed: int) -> dict[str, Tally]:
    """Give the right answer to each question, and that with one thing altered."""
    chance = random.Random(seed)
    names = [name.text for sample in samples for name in find_names(sample.answer)]
    tallies: dict[str, Tally] = {"right": Tally()}
    for sample in samples:
        pages = list_shown(sample, searcher)
        measure_answer(tallies["right"], sample, pages, searcher, sample.answer)
        measure_citations(tallies["right"], sample, pages, searcher)
        text = "\n".join(page.text for page in sample.pages)
        for altered in alter(sample.answer, chance, [name for name in names if name not in text], [], []):
            if altered.change in MAIN_CHANGES:
                tally = tallies.setdefault(altered.change.value, Tally())
                measure_answer(tally, sample, pages, searcher, altered.text)
    return tallies


def list_lines(tallies: dict[str, Tally]) -> Iterator[str]:
    """Yield the lines of a table in Markdown, and those of the citations."""
    columns = ("withdrawn", "told")
    yield f"| answers | n | {' | '.join((*VERDICTS, *columns))} | then right |"
    yield "|---" * (len(VERDICTS) + len(columns) + 3) + "|"
    for kind, tally in tallies.items():
        shares = " | ".join(tally.share(name) for name in (*VERDICTS, *columns))
        yield f"| {kind} | {tally.counts['answers']} | {shares} | {tally.share('mended', 'told')} |"
    right = tallies["right"]
    yield ""
    for name, title in (("plain", "without a marker"), ("misled", "with the marker of another page")):
        yield f"on a gold page: {right.share(f'{name}_on_gold', name)} of {right.counts[name]} {title}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scripted_answers", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--collection", type=Path, required=True)
    parser.add_argument("--dataset", type=Path, required=True)
    parser.add_argument("--count", type=int, help="questions; all if absent")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    samples = list(read_gold(options.dataset, options.collection))[: options.count]
    session = open_session(load_settings(collection=options.collection).settings)
    print("\n".join(list_lines(measure(samples, session.searcher, options.seed))))
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
