"""Records to report, and a store with a run in which a model searches and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PIL import Image

from vrag.agent.agent import Agent
from vrag.agent.environment import Environment
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.run_store import RunStore
from vrag.evaluation.record import CaseOutcome, CaseRecord, EvidencePlace, Subject
from vrag.model_profiles import PROFILES
from vrag.testing import MemorySearcher, ScriptedPolicy, page

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.agent.evidence import BoxSides

FERRY, TIMES = "ferry.pdf", "times.pdf"
GOLD: BoxSides = (0.1, 0.2, 0.5, 0.4)
FOUND: BoxSides = (0.12, 0.22, 0.6, 0.4)
THOUGHT, QUERY = "The report should have it.", "ferry passengers"


def subject(uid: str, question: str = "How many passengers?", **given: object) -> Subject:
    return Subject.model_validate(
        {
            "benchmark": "slides",
            "uid": uid,
            "question": question,
            "references": ("48,200",),
            "answerable": True,
            "document": FERRY,
            "gold": (EvidencePlace(document=FERRY, page=1, box=GOLD),),
        }
        | given
    )


def record(uid: str, outcome: CaseOutcome = CaseOutcome.RIGHT, **given: object) -> CaseRecord:
    """A record; fields of its subject are given as `subject`."""
    return CaseRecord.model_validate(
        {
            "subject": subject(uid),
            "outcome": outcome,
            "why": f"It is {outcome}.",
            "judge": "rules",
            "answer": "48,200",
            "stop": "answered",
            "evidence": (EvidencePlace(document=FERRY, page=1, box=FOUND),),
            "measures": {"f1": 0.5, "seconds": 12.0},
        }
        | given
    )


def records() -> list[CaseRecord]:
    """One of each outcome; the wrong one is about another document, of another type."""
    other = subject("c2", "When does it leave?", document=TIMES, document_type="Plan", source_type=("Table",))
    return [
        record("c1", measures={"f1": 1.0, "seconds": 30.0}),
        record("c2", CaseOutcome.WRONG, subject=other, answer="At noon"),
        record("c3", CaseOutcome.ABSTAINED, answer=None, stop="abstained", evidence=()),
        record("c4", CaseOutcome.UNJUDGED, why="The judge could not be reached."),
        record(
            "c5", CaseOutcome.FAILED, answer=None, stop="model_error", why="refused", evidence=(), measures={}
        ),
    ]


def store_with_run(place: Path, answer: str = "48,200") -> tuple[RunStore, str]:
    """A store, and the id of its run."""
    corpus = MemorySearcher((page(FERRY, 1, "The ferry carried 48,200 passengers"),))
    script = (
        f"<think>{THOUGHT}</think><search>{QUERY}</search>",
        f"<think>Seen.</think><answer>{answer}</answer>",
    )
    agent = Agent(ScriptedPolicy(script), Environment(corpus, PROFILES["qwen2.5-vl"]), VragMethod())
    store = RunStore(place)
    with store.record() as recording:
        for event in agent.stream("How many passengers?", run_id=recording.id, save=recording.save):
            recording.write(event)
    return store, recording.id


def page_image(document: str, number: int) -> Image.Image | None:
    """Every page has another shade; the tenth has no picture."""
    return None if number == 10 else Image.new("RGB", (600, 800), (number * 20 % 256, len(document), 200))
