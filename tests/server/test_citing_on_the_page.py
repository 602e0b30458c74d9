"""The page numbers evidence, places markers and words verdicts as every other door does."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from cited_runs import REPLIES, in_doubt, old, recorded, withdrawn
from javascript import NODE

import vrag.server
from vrag.agent.answers.citation import CheckedClaim, Citation
from vrag.agent.events import AnswerGiven, RunSettings, RunStarted, StopReason
from vrag.agent.evidence import BoxSides, Evidence
from vrag.agent.runs.run_result import RunResult
from vrag.agent.runs.run_store import RunStore
from vrag.reading.verification.claim import ClaimKind, ClaimVerdict
from vrag.render.text_format import place_name
from vrag.render.verdicts import claim_lines, notable_claims, summarize_claims
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vrag.agent.events import Event

SCRIPTS = Path(vrag.server.__file__).parent / "static" / "js"
PROGRAM = """
import { createRequire } from "node:module";
globalThis.Node = class {};
globalThis.window = { matchMedia: () => ({ addEventListener() {} }), addEventListener() {} };
globalThis.document = { createElement: () => ({}), createElementNS: () => ({}) };
const js = process.argv[2];
const { fold } = await import(`${js}/reducer.js`);
const { cited, citationsOf, checkedText } = await import(`${js}/citations.js`);
const { markedText } = await import(`${js}/cited-text.js`);
const { claimSummary, claimText, notableClaims } = await import(`${js}/verdicts.js`);
const { textOf } = await import(`${js}/answer.js`);
const runs = JSON.parse(createRequire(import.meta.url)("node:fs").readFileSync(0, "utf8"));
const places = (all) => all.map(({ number, evidence }) => [number, evidence.item, evidence.box]);
console.log(JSON.stringify(runs.map((events) => {
  const state = fold(events);
  const { main, besides } = cited(state);
  const [text, claims] = [checkedText(state), state.answer.claims ?? []];
  return {
    main: places(main),
    besides: places(besides),
    marked: markedText(text, citationsOf(state)),
    summary: claimSummary(claims),
    lines: notableClaims(claims).map((claim) => claimText(text, claim)),
    copied: state.answer.text ? textOf(state) : null,
  };
})));
"""


def shown_by_the_page(folder: Path, runs: Iterable[Sequence[Event]]) -> list[dict[str, Any]]:
    """What the page's modules make of the events of runs."""
    if not (folder / "js").exists():
        shutil.copytree(SCRIPTS, folder / "js")
        (folder / "package.json").write_text('{"type": "module"}')
        (folder / "program.mjs").write_text(PROGRAM)
    given = json.dumps([[event.model_dump(mode="json") for event in events] for events in runs])
    command = [*NODE, str(folder / "program.mjs"), (folder / "js" / "run").as_uri()]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def shown_elsewhere(events: Sequence[Event]) -> dict[str, Any]:
    """What the other doors make of them."""
    run = RunResult.of(events)
    places = [
        [number, entry.item, entry.box and list(entry.box)] for number, entry in enumerate(run.evidence, 1)
    ]
    marked = run.marked_answer.text
    sources = [
        f"[{number}] {entry.document}, {place_name(entry)}" for number, entry in enumerate(run.rests, 1)
    ]
    return {
        "main": places[: run.cited],
        "besides": places[run.cited :],
        "marked": marked,
        "summary": summarize_claims(run.claims),
        "lines": claim_lines(run),
        "copied": "\n".join([marked, *([""] if sources else []), *sources]) if run.answer else None,
    }


def seen(item: str, box: BoxSides | None) -> Evidence:
    return Evidence(item=item, document="a.pdf", document_id="a", page=1, kind=ItemKind.PAGE, box=box)


def events_of(settings: RunSettings, **answer: Any) -> list[Event]:  # noqa: ANN401
    """A run that answers so, and says nothing else."""
    base: dict[str, Any] = {"run_id": "1", "ts": 1.0}
    start = RunStarted(**base, seq=0, step=0, question="?", settings=settings, collection="")
    return [start, AnswerGiven(**base, seq=1, step=1, stop_reason=StopReason.ANSWERED, **answer)]


@pytest.mark.slow
def test_recorded_runs_are_shown_alike(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    runs = [recorded(store, answer) for answer in REPLIES.values()]
    events = [run.events for run in (*runs, old(store), in_doubt(store), withdrawn(store))]
    for shown, run in zip(shown_by_the_page(tmp_path, events), events, strict=True):
        assert shown == shown_elsewhere(run)


@pytest.mark.slow
def test_the_evidence_of_old_runs_is_parted_alike(tmp_path: Path) -> None:
    sides = [None, *((0.0, 0.0, width, 1.0) for width in (0.5, 0.98, 0.99, 0.995, 1.0))]
    agents = [("vrag", False), ("vrag", True), ("vimrag", False), ("rag", False), ("react", True)]
    runs = [
        events_of(
            RunSettings(agent=agent, policy="p", profile="qwen2.5-vl", reselect=reselect),
            text=text,
            evidence=(
                seen("a", first),
                seen("b", second),
                seen("a", second),
                seen("c", (0.0, 0.0, 1.0, 1.0)),
            ),
        )
        for (agent, reselect), first, second, text in product(agents, sides, sides, ("a", None))
    ]
    for shown, run in zip(shown_by_the_page(tmp_path, runs), runs, strict=True):
        assert shown == shown_elsewhere(run)


def any_answer(chance: Random) -> dict[str, Any]:
    """An answer with citations and claims at any places of it."""
    text = "".join(chance.choices("ab 1.!?\n|`$é😀。\x1f\u3000", k=chance.randint(1, 40)))

    def span() -> tuple[int, int]:
        start, end = sorted(chance.choices(range(len(text) + 1), k=2))
        return start, end

    citations = [
        Citation(
            start=start,
            end=end,
            numbers=tuple(chance.sample((1, 2, 3), k=chance.randint(1, 3))),
            source="model",
        )
        for start, end in (span() for _ in range(chance.randint(1, 4)))
    ]
    claims = [
        CheckedClaim(
            kind=chance.choice(list(ClaimKind)),
            start=start,
            end=end,
            verdict=chance.choice(list(ClaimVerdict)),
            numbers=tuple(chance.sample((1, 2), k=chance.randint(0, 2))),
            found=chance.choice(("", "x y .", "z" * 300)),
        )
        for start, end in (span() for _ in range(chance.randint(0, 4)))
    ]
    evidence = tuple(seen(item, (0.0, 0.0, 0.5, 0.5)) for item in "abc")
    return {"text": text, "evidence": evidence, "citations": citations, "claims": claims}


@pytest.mark.slow
def test_markers_and_verdicts_are_the_same_whatever_the_answer(tmp_path: Path) -> None:
    about, chance = RunSettings(agent="vrag", policy="p", profile="qwen2.5-vl"), Random(18)
    runs = [events_of(about, **any_answer(chance)) for _ in range(1000)]
    for shown, run in zip(shown_by_the_page(tmp_path, runs), runs, strict=True):
        assert shown == shown_elsewhere(run)
        assert len(shown["lines"]) == len(notable_claims(RunResult.of(run).claims))
