"""The outcomes of questions without a model, in the words of every interface."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from javascript import NODE

import vrag.server
from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.events import AnswerGiven, RunSettings, RunStarted, StopReason
from vrag.agent.evidence import Evidence
from vrag.agent.policies.extractive import ExtractiveGraphPolicy, ExtractivePolicy
from vrag.agent.policy import WITHOUT_MODEL
from vrag.agent.runs.run_result import BY_READER, LOOK_WHETHER, NOTHING_FOUND, ResultKind, RunResult
from vrag.agent.runs.run_store import RunState
from vrag.model_profiles import profile_named
from vrag.reading.verification.claim import ClaimKind, ClaimVerdict
from vrag.render.text_format import (
    FOUND_ON_PAGE,
    INTERRUPTED,
    NOTHING,
    PLACES,
    STOPS,
    outcome,
)
from vrag.render.verdicts import claim_lines
from vrag.server.mcp import answer_data
from vrag.server.openai.reply import build_reply, plain_answer
from vrag.server.runs.schema import RunDetail
from vrag.testing import tiny_corpus
from vrag.types import ItemKind

STATIC = Path(vrag.server.__file__).parent / "static"


def ended(policy: str, reason: StopReason) -> tuple[RunStarted, AnswerGiven]:
    settings = RunSettings(agent="vrag", policy=policy, profile="qwen2.5-vl")
    return (
        RunStarted(run_id="1", seq=0, ts=0.0, step=0, question="?", settings=settings, collection=""),
        AnswerGiven(run_id="1", seq=1, ts=1.0, step=1, text=None, evidence=(), stop_reason=reason),
    )


def test_a_message_says_that_nothing_was_found() -> None:
    said = build_reply("1", RunResult.of(ended("extractive", StopReason.ABSTAINED)), "/#/runs/1").content
    assert said == f"I found nothing: {NOTHING_FOUND}"
    assert "--model" not in said, "it is read on pages, where no command line is"
    assert plain_answer(said) is None, "sent back by a client it is no answer"


def test_only_abstentions_without_a_model_say_so() -> None:
    for policy, reason in (("chat:m", StopReason.ABSTAINED), ("extractive", StopReason.CANCELLED)):
        events = ended(policy, reason)
        assert NOTHING_FOUND not in build_reply("1", RunResult.of(events), "/#/runs/1").content
        assert NOTHING_FOUND not in outcome(RunResult.of(events)).text


def test_a_run_that_nobody_adds_to_and_one_under_way_are_called_by_their_states() -> None:
    result = RunResult.of(ended("extractive", StopReason.ABSTAINED)[:1])
    assert outcome(result).name == "Interrupted"
    assert outcome(result, under_way=True).name == "Running"


@pytest.mark.slow
def test_the_page_and_the_exported_page_call_every_end_the_same(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    (tmp_path / "js" / "run").mkdir(parents=True)
    for module in ("js/format.js", "js/run/wording.js"):
        (tmp_path / module).write_text((STATIC / module).read_text("utf-8"), "utf-8")
    code = (
        "import { PLACES, CUT_OFF, ENDINGS, FOUND_ON_PAGE, NOTHING } from './js/run/wording.js';"
        "const names = Object.fromEntries(Object.entries(ENDINGS).map(([key, { name }]) => [key, name]));"
        "const others = [CUT_OFF, NOTHING, FOUND_ON_PAGE, PLACES].map(({ name }) => name);"
        "console.log(JSON.stringify([names, others, NOTHING.said]))"
    )
    line = [*NODE, "--input-type=module", "-e", code]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    names, others, said = json.loads(done.stdout)
    assert names == {reason.value: name for reason, (name, _) in STOPS.items()}
    assert others == [name for name, _ in (INTERRUPTED, NOTHING, FOUND_ON_PAGE, PLACES)]
    assert said == NOTHING_FOUND


def test_the_page_knows_the_policy_without_a_model_by_its_name() -> None:
    [name] = re.findall(
        r'export const WITHOUT_MODEL = "(.+)";', (STATIC / "js/run/wording.js").read_text("utf-8")
    )
    for policy in (ExtractivePolicy, ExtractiveGraphPolicy):
        assert policy(tiny_corpus(), profile_named("qwen2.5-vl")).name == name == WITHOUT_MODEL


def evidence_of(page: int) -> Evidence:
    return Evidence(
        item=f"a-{page}", document_id="a", document="a.pdf", page=page, kind=ItemKind.PAGE,
        box=(0.1, 0.1, 0.9, 0.2), quote="Six knots.",
    )  # fmt: skip


def test_places_without_an_answer_are_called_so_in_every_interface() -> None:
    started, end = ended("extractive", StopReason.ABSTAINED)
    run = RunResult.of((started, end.model_copy(update={"evidence": (evidence_of(1), evidence_of(2))})))
    assert run.kind is ResultKind.PLACES
    assert outcome(run).name == "Places to look"
    reply = build_reply("1", run, "/#/runs/1")
    assert "**These passages may answer it**" in reply.content
    assert reply.vrag.kind is ResultKind.PLACES
    assert plain_answer(reply.content) is None, "sent back by a client it is no answer"
    assert answer_data("1", run)["kind"] == "places"
    assert RunDetail.of("1", run, RunState.FINISHED).kind is ResultKind.PLACES


@pytest.mark.parametrize(
    ("verdict", "trust"),
    [
        (ClaimVerdict.STATED, BY_READER),
        (ClaimVerdict.UNVERIFIED, BY_READER),
        (
            ClaimVerdict.SEEN,
            f"These words stand on page 1 (read twice: as text and as a picture). {LOOK_WHETHER}",
        ),
    ],
)
def test_an_answer_without_a_model_was_found_on_the_page_and_has_no_verdicts(
    verdict: ClaimVerdict, trust: str
) -> None:
    started, end = ended("extractive", StopReason.ANSWERED)
    claim = CheckedClaim(kind=ClaimKind.SENTENCE, start=0, end=9, verdict=verdict, numbers=(1,))
    answer = {"text": "six knots", "evidence": (evidence_of(1),), "claims": (claim,)}
    run = RunResult.of((started, end.model_copy(update=answer)))
    assert run.kind is ResultKind.ANSWER
    assert outcome(run)[:2] == ("Found on the page", "calm")
    assert claim_lines(run) == []
    content = build_reply("1", run, "/#/runs/1").content
    for shown in (content, str(answer_data("1", run))):
        assert trust in shown
        assert "verified" not in shown
    assert answer_data("1", run)["claims_in_doubt"] == []
    assert plain_answer(content) == "six knots"
