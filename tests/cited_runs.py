"""Runs whose answers cite, to be compared at every door: recorded by an agent, some changed by hand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vrag.agent.agent import Agent
from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.environment import Environment
from vrag.agent.events import AnswerDoubted, AnswerGiven, StopReason
from vrag.agent.methods.vrag import VragMethod
from vrag.model_profiles import PROFILES
from vrag.reading.verification.claim import ClaimKind, ClaimVerdict
from vrag.testing import ScriptedPolicy, tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vrag.agent.events import Event
    from vrag.agent.runs.run_store import RunStore, StoredRun

SEEN = (
    "<think>Where is it?</think><search>ferry passengers</search>",
    "<think>And the price?</think><search>return ticket crowns</search>",
)
"""The agent sees page 2 of ferry.pdf as image 1, and page 3 as image 2."""
ANSWER = "A return ticket costs 12 crowns. The ferry carried 48,200 passengers in 2024."
REPLIES = {
    "a model that cites": (
        "A return ticket costs 12 crowns [2]. The ferry carried 48,200 passengers in 2024 [1]."
    ),
    "a model that does not": ANSWER,
    "a model that cites what was never shown": (
        "A return ticket costs 12 crowns [9]. The ferry carried 48,200 passengers in 2024 [1]."
    ),
}
"""What models answer, by what they do."""


def replies_of(answer: str) -> tuple[str, ...]:
    """The script of a model that answers so."""
    return (*SEEN, f"<think>Seen.</think><answer>{answer}</answer>")


def recorded(store: RunStore, answer: str) -> StoredRun:
    """A run of a model that answers so, over the tiny corpus."""
    environment = Environment(tiny_corpus(), PROFILES["qwen2.5-vl"])
    agent = Agent(ScriptedPolicy(replies_of(answer)), environment, VragMethod())
    with store.record() as log:
        list(agent.record("What does it cost, and who travels?", log))
    return store.read(log.id)


def kept(store: RunStore, events: Iterable[Event], like: StoredRun) -> StoredRun:
    """A run of these events, with the files of another."""
    with store.record() as log:
        for name in like.store.file_names(like.id):
            log.save(name, like.read_file(*name.split(".")))
        for event in events:
            log.write(event.model_copy(update={"run_id": log.id}))
    return store.read(log.id)


def with_end(store: RunStore, run: StoredRun, *before: AnswerDoubted, **changes: Any) -> StoredRun:  # noqa: ANN401
    """The same run with another answer, and events before it."""
    *events, end = run.events
    assert isinstance(end, AnswerGiven)
    events = [*events, *before, end.model_copy(update={"seq": end.seq + len(before), **changes})]
    return kept(store, events, run)


def old(store: RunStore) -> StoredRun:
    """A run from before citations were recorded."""
    return with_end(store, recorded(store, ANSWER), citations=())


def claim(
    words: str, verdict: ClaimVerdict, *numbers: int, found: str = "", kind: ClaimKind = ClaimKind.NUMBER
) -> CheckedClaim:
    """A claim of the answer."""
    start = ANSWER.index(words)
    return CheckedClaim(
        kind=kind, start=start, end=start + len(words), verdict=verdict, numbers=numbers, found=found
    )


CLAIMS = (
    claim("12 crowns", ClaimVerdict.DOUBTED, 1, found="13 crowns"),
    claim("48,200 passengers", ClaimVerdict.STATED, 2, found="48,200 passengers"),
    claim("2024", ClaimVerdict.UNVERIFIED, kind=ClaimKind.DATE),
)
VERDICTS = "None of 3 statements verified on the page, 1 stated in the text, 1 doubted, 1 not found."
CONTRADICTION = "The evidence says “13 crowns” [1], not “12 crowns”."
DOUBT = "Not found in the evidence: “2024”."


def in_doubt(store: RunStore) -> StoredRun:
    """A run whose answer is in doubt after the model has been asked anew."""
    run = recorded(store, REPLIES["a model that cites"])
    end = run.events[-1]
    doubted = AnswerDoubted(run_id=run.id, seq=end.seq, ts=end.ts, step=end.step, text=ANSWER, claims=CLAIMS)
    return with_end(store, run, doubted, claims=CLAIMS)


def withdrawn(store: RunStore) -> StoredRun:
    """A run whose answer was withdrawn."""
    run = recorded(store, REPLIES["a model that cites"])
    changes = {"text": None, "withdrawn": ANSWER, "stop_reason": StopReason.ABSTAINED, "claims": CLAIMS}
    return with_end(store, run, **changes)


@dataclass(frozen=True)
class Numbering:
    """The numbers that a door shows."""

    markers: tuple[int, ...]
    """Of the markers in the answer, in order."""
    places: tuple[tuple[int, str], ...]
    """Numbers and places of the evidence."""

    @classmethod
    def of(cls, run: StoredRun) -> Numbering:
        """What all doors are to show of a run."""
        places = (f"{entry.document}, {entry.page}" for entry in run.result.rests)
        markers = tuple(marker.number for marker in run.result.marked_answer.markers)
        return cls(markers, tuple(enumerate(places, 1)))


def numbers_in(text: str) -> tuple[int, ...]:
    """The markers in a text."""
    return tuple(map(int, re.findall(r"\[(\d+)\]", text)))


def listed_places(text: str, line: str) -> tuple[tuple[int, str], ...]:
    """Numbers and places that a text lists; `line` matches the number, and has `PLACE` for the place."""
    place = r"([\w.-]+), (?:part of )?[Pp](?:age|\.) (\d+)"
    found = re.finditer(line.replace("PLACE", place), text)
    return tuple((int(match[1]), f"{match[2]}, {match[3]}") for match in found)
