"""The reader, and what is left of it without one of its parts, on the questions of a data set.

    python -m benchmarks.reading DATASET.json --collection DIR [--docs DIR] [--reader MODEL]

Every question is put to the agent as `vrag ask` builds it, over all documents together, once for each variant
of the reader. The parts that are left are the same; nothing is trained again. With `--reader` there is a row
with a pretrained reader of running text.

An answer is right if the rule of the questions gives it a half or more: that of their benchmark, that of
MMLongBench-Doc for questions with a format of answers, else ANLS. The first box hits if it covers the centre
of a gold box, both at most a quarter of the page; see `grounding.py`. CPU seconds are those of a whole run,
with the search; the tables of its pages have been found before.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.grounding import Outcome, open_documents, outcome_of
from vrag.agent.policies.extractive import PolicyWithoutModel
from vrag.datasets.registry import published_measures, read_cases
from vrag.factory.models import open_text_reader
from vrag.reading.training.answer_measure import VARIANTS, ReaderVariant

if TYPE_CHECKING:
    from vrag.agent.agent import Agent
    from vrag.factory.session import Session
    from vrag.types import Case

RIGHT = 0.5
"""Score from which an answer is right."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One question, as one variant answered it."""

    outcome: Outcome
    right: bool
    seconds: float
    """CPU time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The figures of one variant."""

    variant: str
    answerable: int
    right: int
    wrong: int
    abstained: int
    """Of the answerable questions."""
    unanswerable: int
    abstained_on_unanswerable: int
    grounded: int
    """Answerable questions with regions."""
    hits: int
    seconds: float
    """Mean CPU time of a question."""


def is_right(case: Case, answer: str | None) -> bool:
    """Whether an answer is right by the rule of the questions."""
    measures = published_measures(case, answer)
    name = next(name for name in (case.benchmark, "mmlongbench", "anls") if name in measures)
    return answer is not None and measures[name] >= RIGHT


def figures_of(variant: str, answered: Sequence[Answered]) -> Row:
    """Sums up the answers of a variant."""
    asked = [one for one in answered if one.outcome.answerable]
    void = [one for one in answered if not one.outcome.answerable]
    placed = [one.outcome for one in asked if one.outcome.case.regions]
    return Row(
        variant=variant,
        answerable=len(asked),
        right=sum(one.right for one in asked),
        wrong=sum(one.outcome.answered and not one.right for one in asked),
        abstained=sum(not one.outcome.answered for one in asked),
        unanswerable=len(void),
        abstained_on_unanswerable=sum(not one.outcome.answered for one in void),
        grounded=len(placed),
        hits=sum(outcome.hits(compact_evidence=True, compact_gold=True) for outcome in placed),
        seconds=sum(one.seconds for one in answered) / max(len(answered), 1),
    )


def agents_of(session: Session, reader: str = "") -> dict[ReaderVariant, Agent]:
    """The agent with each variant of the reader; the last with a pretrained one if there is a name."""
    agent = session.agent()
    policy = agent.policy
    if not isinstance(policy, PolicyWithoutModel):
        sys.exit("A model is set (VRAG_MODEL): the reader would not be asked.")
    agents = {
        variant: replace(
            agent,
            policy=replace(
                policy, text_reader=None, reading=variant.options, threshold=variant.threshold, certain=False
            ),
        )
        for variant in VARIANTS
    }
    if reader:
        text_reader = open_text_reader(session.settings.model_copy(update={"reader": reader}))
        named = ReaderVariant(f"all, with {text_reader.name}")
        agents[named] = replace(agent, policy=replace(policy, text_reader=text_reader))
    return agents


def ask(agent: Agent, case: Case, session: Session) -> Answered:
    """Puts one question to an agent."""
    begun = time.process_time()
    run = agent.run(case.query)
    seconds = time.process_time() - begun
    return Answered(outcome_of(case, run, session), is_right(case, run.answer), seconds)


def measure(session: Session, cases: Sequence[Case], reader: str = "") -> list[Row]:
    """Puts all questions to all variants, one question after the other."""
    agents = agents_of(session, reader)
    first = next(iter(agents.values()))
    answered: dict[ReaderVariant, list[Answered]] = {variant: [] for variant in agents}
    for number, case in enumerate(cases, start=1):
        first.run(case.query)  # finds the tables of its pages
        for variant, agent in agents.items():
            answered[variant].append(ask(agent, case, session))
        print(f"\r{number} of {len(cases)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return [figures_of(variant.name, answered[variant]) for variant in agents]


def table_of(rows: Sequence[Row]) -> list[str]:
    """The lines of a table in Markdown."""
    lines = [
        "| reader | right | wrong | abstained | abstained, no answer exists | first box hits | CPU s |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        shares = [
            (row.abstained, row.answerable),
            (row.abstained_on_unanswerable, row.unanswerable),
            (row.hits, row.grounded),
        ]
        written = " | ".join(f"{100 * count / max(total, 1):.1f} %" for count, total in shares)
        counts = f"{row.right} of {row.answerable} | {row.wrong}"
        lines.append(f"| {row.variant} | {counts} | {written} | {row.seconds:.2f} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Indexes what is new, asks every question of every variant, prints one table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reading", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("dataset", type=Path, help="questions with answers, gold pages and regions")
    parser.add_argument("--collection", type=Path, help="the collection; else the default one")
    parser.add_argument("--docs", type=Path, help="folder of documents to index first")
    parser.add_argument("--reader", default="", metavar="MODEL", help="a pretrained reader of running text")
    parser.add_argument("--questions", type=int, help="only so many questions")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args(arguments)
    cases = read_cases(options.dataset)[: options.questions]
    rows = measure(open_documents(options.docs, options.collection), cases, options.reader)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print("\n".join(table_of(rows)))


if __name__ == "__main__":
    main()
