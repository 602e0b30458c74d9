"""What the offline policy cannot say, in the words of every door."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from javascript import NODE

import vrag.server
from vrag.agent.events import AnswerGiven, RunSettings, RunStarted, StopReason
from vrag.agent.policies.extractive import ExtractiveGraphPolicy, ExtractivePolicy
from vrag.agent.runs.run_result import NOT_FOUND, OFFLINE, RunResult
from vrag.model_profiles import profile_named
from vrag.render.text_format import A_MODEL, INTERRUPTED, NOTHING_FOUND, STOPS, outcome
from vrag.server.openai.reply import build_reply, plain_answer
from vrag.testing import tiny_corpus

STATIC = Path(vrag.server.__file__).parent / "static"


def ended(policy: str, reason: StopReason) -> tuple[RunStarted, AnswerGiven]:
    settings = RunSettings(agent="vrag", policy=policy, profile="qwen2.5-vl")
    return (
        RunStarted(run_id="1", seq=0, ts=0.0, step=0, question="?", settings=settings, collection=""),
        AnswerGiven(run_id="1", seq=1, ts=1.0, step=1, text=None, evidence=(), stop_reason=reason),
    )


def test_a_message_says_that_a_model_could_find_what_the_offline_policy_cannot_say() -> None:
    said = build_reply("1", RunResult.of(ended("extractive", StopReason.ABSTAINED)), "/#/runs/1").content
    assert said == f"{NOT_FOUND} {A_MODEL}"
    assert "--model" not in said, "it is read on pages, where no command line is"
    assert plain_answer(said) is None, "sent back by a client it is no answer"


def test_only_abstentions_of_the_offline_policy_say_so() -> None:
    for policy, reason in (("chat:m", StopReason.ABSTAINED), ("extractive", StopReason.CANCELLED)):
        events = ended(policy, reason)
        assert NOT_FOUND not in build_reply("1", RunResult.of(events), "/#/runs/1").content
        assert NOT_FOUND not in outcome(RunResult.of(events)).text


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
        "import { CUT_OFF, ENDINGS, NOT_FOUND } from './js/run/wording.js';"
        "const names = Object.fromEntries(Object.entries(ENDINGS).map(([key, { name }]) => [key, name]));"
        "console.log(JSON.stringify([names, CUT_OFF.name, NOT_FOUND.name, NOT_FOUND.said]))"
    )
    line = [*NODE, "--input-type=module", "-e", code]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    names, interrupted, not_found, said = json.loads(done.stdout)
    assert names == {reason.value: name for reason, (name, _) in STOPS.items()}
    assert (interrupted, not_found, said) == (INTERRUPTED[0], NOTHING_FOUND[0], NOT_FOUND)


def test_the_page_knows_the_offline_policy_by_its_name() -> None:
    [name] = re.findall(r'export const OFFLINE = "(.+)";', (STATIC / "js/run/wording.js").read_text("utf-8"))
    for policy in (ExtractivePolicy, ExtractiveGraphPolicy):
        assert policy(tiny_corpus(), profile_named("qwen2.5-vl")).name == name == OFFLINE
