"""What an answer rests on is compared with other documents, and the conflict is named before the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from vrag.agent.agent import Agent
from vrag.agent.answers.conflicts import find_conflicts
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import AnswerGiven, ConflictFound, Event, event_from_json
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.replay import differences, replay
from vrag.agent.runs.run_result import RunResult
from vrag.agent.runs.run_store import RunStore
from vrag.model_profiles import profile_named
from vrag.reading.conflicts.editions import DocumentFacts
from vrag.testing import MemorySearcher, ScriptedPolicy, page, passage

if TYPE_CHECKING:
    from pathlib import Path

REPORT = page("report.pdf", 1, "Report\nThe harbour of Saltby handled 84,210 passengers in 2024.\nIt is old.")
MEMO = passage(
    "memo.md", 1, "Memo of 2 May 2025\n\nIn 2024, the harbour of Saltby handled 84,120 passengers."
)
OTHER = passage("other.md", 1, "The harbour of Orla handled 12,000 passengers in 2024.")
REPLIES = (
    "<think>Look.</think><search>harbour Saltby passengers report</search>",
    "<answer>The harbour of Saltby handled 84,210 passengers.</answer>",
)


def agent_of(*items: object, conflicts: bool = True, documents: frozenset[str] | None = None) -> Agent:
    """Return an agent with a scripted model that answers from the report."""
    searcher = MemorySearcher(tuple(items))  # pyright: ignore[reportArgumentType]
    options = EnvironmentOptions(documents=documents)
    environment = Environment(searcher, profile_named("qwen2.5-vl"), options)
    return Agent(ScriptedPolicy(REPLIES), environment, VragMethod(), conflicts=conflicts)


def conflicts_of(events: list[Event]) -> list[ConflictFound]:
    return [event for event in events if isinstance(event, ConflictFound)]


def test_a_conflict_comes_before_the_answer_and_is_part_of_the_result() -> None:
    events = list(agent_of(REPORT, MEMO, OTHER).stream("How many passengers did Saltby handle in 2024?"))

    (found,) = conflicts_of(events)
    assert isinstance(events[events.index(found) + 1], AnswerGiven)
    stated, beside = found.conflict.sides
    assert (stated.document, stated.page, stated.value) == ("report.pdf", 1, "84,210")
    assert (beside.document, beside.page, beside.value) == ("memo.md", None, "84,120")
    assert stated.box is not None
    assert beside.box is None
    assert RunResult.of(events).conflicts == (found.conflict,)
    assert event_from_json(found.model_dump_json()) == found
    assert "“84,210” in report.pdf, page 1" in found.conflict.sentence


@pytest.mark.parametrize(
    ("items", "conflicts", "documents"),
    [
        ((REPORT, OTHER), True, None),
        ((REPORT, MEMO), False, None),
        ((REPORT, MEMO), True, frozenset({REPORT.document})),
        ((REPORT, replace(MEMO, text=MEMO.text.replace("84,120", "84,210"))), True, None),
    ],
)
def test_nothing_is_told_of_other_things_and_of_documents_that_are_not_asked(
    items: tuple[object, ...], conflicts: bool, documents: frozenset[str] | None
) -> None:
    agent = agent_of(*items, conflicts=conflicts, documents=documents)

    assert conflicts_of(list(agent.stream("How many passengers did Saltby handle in 2024?"))) == []


def test_a_replay_finds_the_same_conflicts(tmp_path: Path) -> None:
    agent, store = agent_of(REPORT, MEMO), RunStore(tmp_path)
    with store.record() as log:
        recorded = list(agent.record("How many passengers did Saltby handle in 2024?", log))
    run = store.read(log.id)

    assert len(conflicts_of(recorded)) == 1
    assert differences(recorded, list(replay(run, agent.environment.searcher))) == []


def test_the_conflicts_of_a_collection_name_both_places() -> None:
    searcher = MemorySearcher((REPORT, MEMO, OTHER))
    documents = [DocumentFacts(item.document, item.document_name) for item in searcher.items]
    named: list[tuple[str, int, int]] = []

    def tell(name: str, number: int, total: int) -> None:
        named.append((name, number, total))

    report = find_conflicts(searcher, documents, tell)

    (conflict,) = report.conflicts
    assert report.documents == 3
    assert named == [("report.pdf", 0, 3), ("memo.md", 1, 3), ("other.md", 2, 3)]
    assert [side.item for side in conflict.sides] == [REPORT.id, MEMO.id]
