"""Runs become records: what became of the question, and all that can be measured of it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from vrag.agent.agent import Agent
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import (
    AnswerGiven,
    CropRequested,
    Event,
    ImageShown,
    PassageShown,
    RunFailed,
    RunSettings,
    RunStarted,
    SearchRequested,
    StopReason,
)
from vrag.agent.evidence import Evidence
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.cases import UNANSWERABLE
from vrag.evaluation.record import (
    CaseOutcome,
    CaseRecord,
    Extraction,
    decide_outcome,
    needs_extraction,
    needs_verdict,
    record_of,
)
from vrag.evaluation.relevance import DocumentNames
from vrag.geometry import Box
from vrag.model_profiles import PROFILES
from vrag.reward import Reward
from vrag.rollouts.rollout import Rollout, RolloutAttempt, roll_out
from vrag.testing import ScriptedPolicy, tiny_corpus
from vrag.types import Case, Document, DocumentStatus, GoldPage, ItemKind, Region, item_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.agent.evidence import BoxSides

FERRY = "f" * 64
NAMES = DocumentNames.of(
    Document(path=name, id=FERRY, name=name, size=1, mtime_ns=1, status=DocumentStatus.READY, items=9)
    for name in ("ferry.pdf", "copy.pdf")
)
"""Of documents made by hand; those of the tiny corpus are not known, and have the name they are found by."""
CASE = Case(
    uid="c",
    query="How many?",
    reference_answer="9",
    file_name="ferry.pdf",
    reference_page=(3,),
    regions=(Region(3, Box.unit(0, 0, 0.5, 0.5)),),
    benchmark="small",
)
UNKNOWN = Case(uid="u", query="Why?", reference_answer=UNANSWERABLE, file_name="ferry.pdf")
RIGHT, WRONG = Reward(total=1.0, correct=True), Reward(total=0.0, correct=False)
UNSAID = Reward(total=None, correct=None, why="JudgeError: The judge cannot be reached.")


def common(seq: int, step: int = 1) -> dict[str, Any]:
    return {"run_id": "r1", "seq": seq, "ts": 0.0, "step": step}


def shown(page: int) -> ImageShown:
    return ImageShown(
        **common(2),
        number=1,
        label="Image 1",
        item=item_id(FERRY, page),
        document="copy.pdf",
        page=page,
        region=(0, 0, 1, 1),
        box=(0, 0, 1, 1),
        width=28,
        height=28,
        visual_tokens=1,
        sha256="0",
        crop=False,
    )


def looks(box: BoxSides) -> tuple[Event, ...]:
    """A closer look at page 3."""
    place = shown(3).model_copy(update={"crop": True, "box": box, "step": 2})
    return CropRequested(**common(3, 2), image=None, box=(0, 0, 9, 9)), place


def cited(box: BoxSides) -> Evidence:
    return Evidence(
        item=item_id(FERRY, 3), document="copy.pdf", document_id=FERRY, page=3, kind=ItemKind.PAGE, box=box
    )


def rollout(
    *between: Event,
    case: Case = CASE,
    answer: str | None = "nine",
    stop: StopReason | None = StopReason.ANSWERED,
    cites: tuple[Evidence, ...] = (),
    failure: str | None = None,
) -> Rollout:
    """A run that searches once; without a `stop` it was cut off."""
    end: list[Event] = []
    if stop is not None:
        end.append(AnswerGiven(**common(9), text=answer, evidence=cites, stop_reason=stop))
    return made(
        RunStarted(
            **common(0, 0),
            question=case.query,
            settings=RunSettings(agent="vrag", policy="told", profile="qwen2.5-vl"),
            collection="1",
        ),
        SearchRequested(**common(1), query="ferry"),
        *between,
        *end,
        case=case,
        failure=failure,
    )


def made(*events: Event, case: Case = CASE, failure: str | None = None) -> Rollout:
    return Rollout(
        attempt=RolloutAttempt(case=case, sample=0), events=events, files={}, failure=failure, seconds=1.0
    )


ABSTAINED = rollout(answer=None, stop=StopReason.ABSTAINED)
BROKEN_OFF = (StopReason.CANCELLED, StopReason.MODEL_ERROR, StopReason.SEARCH_ERROR, StopReason.FAULT)
OUT_OF = (StopReason.OUT_OF_STEPS, StopReason.OUT_OF_TOKENS, StopReason.OUT_OF_BUDGET)


class TestOutcomes:
    @pytest.mark.parametrize(
        ("case", "run", "reward", "outcome"),
        [
            (CASE, rollout(), RIGHT, CaseOutcome.RIGHT),
            (CASE, rollout(), WRONG, CaseOutcome.WRONG),
            (CASE, rollout(), UNSAID, CaseOutcome.UNJUDGED),
            (CASE, rollout(), None, CaseOutcome.UNJUDGED),
            (CASE, ABSTAINED, WRONG, CaseOutcome.ABSTAINED),
            (CASE, ABSTAINED, RIGHT, CaseOutcome.ABSTAINED),
            (UNKNOWN, ABSTAINED, None, CaseOutcome.RIGHT),
            (UNKNOWN, ABSTAINED, WRONG, CaseOutcome.RIGHT),
            (UNKNOWN, rollout(), None, CaseOutcome.UNJUDGED),
            (UNKNOWN, rollout(), UNSAID, CaseOutcome.UNJUDGED),
            (UNKNOWN, rollout(), WRONG, CaseOutcome.WRONG),
            # the judge says that it abstains in other words
            (UNKNOWN, rollout(answer="The document does not say."), RIGHT, CaseOutcome.RIGHT),
        ],
    )
    def test_by_the_table(
        self, case: Case, run: Rollout, reward: Reward | None, outcome: CaseOutcome
    ) -> None:
        assert decide_outcome(case, run, reward).outcome is outcome

    @pytest.mark.parametrize("case", [CASE, UNKNOWN])
    @pytest.mark.parametrize("stop", OUT_OF)
    def test_running_out_is_wrong_and_no_abstention(self, case: Case, stop: StopReason) -> None:
        assert decide_outcome(case, rollout(answer=None, stop=stop), UNSAID).outcome is CaseOutcome.WRONG

    def test_a_context_that_is_full_is_no_failure_though_the_run_failed(self) -> None:
        full = RunFailed(
            **common(3), boundary="ContextFull", message="Too long.", stop_reason=StopReason.OUT_OF_TOKENS
        )
        assert decide_outcome(CASE, rollout(full, stop=None), None).outcome is CaseOutcome.WRONG

    @pytest.mark.parametrize("stop", [*BROKEN_OFF, None])
    @pytest.mark.parametrize("case", [CASE, UNKNOWN])
    def test_what_broke_off_failed(self, case: Case, stop: StopReason | None) -> None:
        found = decide_outcome(case, rollout(answer=None, stop=stop), RIGHT)
        assert found.outcome is CaseOutcome.FAILED
        assert found.why

    def test_a_failure_is_told_as_it_was(self) -> None:
        late = rollout(failure="Deadline: It took longer than 9 seconds.")
        assert decide_outcome(CASE, late, RIGHT)[:2] == (
            CaseOutcome.FAILED,
            "Deadline: It took longer than 9 seconds.",
        )

    def test_no_verdict_is_told_with_its_reason(self) -> None:
        assert decide_outcome(CASE, rollout(), UNSAID).why == "JudgeError: The judge cannot be reached."

    @pytest.mark.parametrize("correct", [True, False])
    def test_a_verdict_is_told_in_the_words_of_the_judge(self, correct: bool) -> None:
        reward = Reward(total=float(correct), correct=correct, said="Compared as a number.")
        assert decide_outcome(CASE, rollout(), reward).why == "Compared as a number."

    def test_a_judge_is_needed_for_answers_alone(self) -> None:
        assert needs_verdict(rollout())
        assert not needs_verdict(ABSTAINED)
        assert not needs_verdict(rollout(answer=None, stop=StopReason.OUT_OF_STEPS))
        assert not needs_verdict(rollout(failure="Deadline: late"))


def told(case: Case, answer: str | None) -> Mapping[str, float]:
    """A rule that tells what it was asked: 1 for "nine", 0.5 for an abstention, 0 for nothing."""
    return {"em": {"nine": 1.0, "Not answerable": 0.5, None: 0.0}[answer]}


def entirely_right(case: Case, answer: str | None) -> Mapping[str, float]:
    """HotpotQA's rule, of a right answer."""
    return {"em": 1.0, "hotpotqa/precision": 1.0, "hotpotqa/recall": 1.0}


def record(run: Rollout, reward: Reward | None = RIGHT, case: Case = CASE) -> CaseRecord:
    return record_of(
        case, 0, run, reward, NAMES, judge="a-model", rule=told, retrieval={"ndcg@5": 0.25, "mrr": 0.2}
    )


class TestRecords:
    def test_puts_everything_together(self) -> None:
        half = (0.0, 0.0, 0.5, 1.0)
        found = record(rollout(shown(1), shown(3), *looks(half), cites=(cited(half),)))
        assert found.subject.uid == "c"
        assert (found.run, found.sample, found.stop, found.answer) == ("r1", 0, "answered", "nine")
        assert (found.outcome, found.judge) == (CaseOutcome.RIGHT, "a-model")
        assert found.measures == {
            "ndcg@5": 0.25,
            "mrr": 0.2,
            "em": 1.0,
            "seen_recall": 1.0,
            "seen_ndcg": pytest.approx(0.63093, abs=1e-5),
            "evidence_page": 1.0,
            "centre": 1.0,
            "iou": 0.5,
            "box_area": 0.5,
            "chain_page": 1.0,
            "cited_page_recall": 1.0,
            "chain_region": 1.0,  # half of it lies in the gold box
            "region_f1": pytest.approx(2 * 0.25 / 0.75),
            "region_iou": 0.5,
            "region_given_page": 1.0,
            "chain_answer": 1.0,
            "answer_given_fact": 1.0,
            "chain_complete": 1.0,
            "chain_complete_right": 1.0,
            "right_answers": 1.0,
            "wrong_answers": 0.0,
            "places": 0.0,
            "nothing": 0.0,
            "wrong_but_seen": 0.0,
            "answer_precision": 1.0,
            "answered": 1.0,
            "abstained": 0.0,
            "invalid": 0.0,
            "repaired": 0.0,
            "turns": 2.0,
            "searches": 1.0,
            "crops": 1.0,
        }

    def test_comes_back_from_a_line(self) -> None:
        found = record(rollout(shown(3), cites=(cited((0.1, 0.1, 0.2, 0.2)),)))
        assert CaseRecord.model_validate_json(found.model_dump_json()) == found

    def test_evidence_has_the_name_that_the_gold_has(self) -> None:
        found = record(rollout(cites=(cited((0.1, 0.1, 0.2, 0.2)),)))
        assert [(one.document, one.page, one.box) for one in found.evidence] == [
            ("ferry.pdf", 3, (0.1, 0.1, 0.2, 0.2))
        ]

    def test_evidence_of_a_whole_page_has_no_box(self) -> None:
        assert record(rollout(cites=(cited((0.0, 0.0, 1.0, 1.0)),))).evidence[0].box is None

    def test_nobody_is_named_as_judge_who_did_not_decide(self) -> None:
        assert record(rollout(), UNSAID).judge == ""
        assert record(ABSTAINED).judge == ""
        assert record(rollout(), None, UNKNOWN).judge == ""

    def test_a_rule_is_told_of_an_abstention(self) -> None:
        found = record(ABSTAINED)
        assert found.answer is None
        assert found.measures["em"] == 0.5

    @pytest.mark.parametrize(
        "run", [rollout(answer=None, stop=StopReason.OUT_OF_STEPS), rollout(failure="Deadline: late")]
    )
    def test_no_answer_earns_nothing_by_a_rule(self, run: Rollout) -> None:
        assert record(run).measures["em"] == 0

    def test_a_run_that_never_began_has_no_id_and_looked_at_nothing(self) -> None:
        found = record(made(failure="ChatError: nobody there"), None)
        assert (found.run, found.outcome) == (None, CaseOutcome.FAILED)
        assert found.why == "ChatError: nobody there"
        assert found.measures["seen_recall"] == found.measures["answered"] == 0

    def test_passages_that_were_shown_count(self) -> None:
        asked = Case(
            uid="p",
            query="?",
            reference_answer="9",
            file_name="a.txt",
            gold=(GoldPage("a.txt"), GoldPage("b.txt")),
        )
        passage = PassageShown(**common(2), item=item_id("a" * 64, 1), document="a.txt", page=1)
        assert record(rollout(passage, case=asked), case=asked).measures["seen_recall"] == 0.5

    def test_what_is_cited_and_the_answer_are_measured_together(self) -> None:
        asked = replace(CASE, reference_page=(), regions=(), gold=(GoldPage("copy.pdf"), GoldPage("b.md")))
        run = rollout(case=asked, cites=(cited((0, 0, 1, 1)),))
        found = record_of(asked, 0, run, RIGHT, NAMES, rule=entirely_right).measures
        assert (found["cited_precision"], found["cited_recall"], found["cited_em"]) == (1, 0.5, 0)
        assert found["hotpotqa/joint_paragraph_f1"] == found["cited_f1"] == pytest.approx(2 / 3)


EXTRACTED = Extraction(answer="nine", form="integer")
UNEXTRACTED = Extraction(answer=None, why="The judge a-model gave no short answer.")


def with_extraction(extraction: Extraction | None, answer: str = "There are nine of them.") -> CaseRecord:
    return record_of(CASE, 0, rollout(answer=answer), RIGHT, NAMES, rule=told, extraction=extraction)


class TestShortAnswers:
    def test_are_what_a_rule_is_told_and_the_answer_stays_what_was_said(self) -> None:
        found = with_extraction(EXTRACTED)
        assert (found.answer, found.extracted) == ("There are nine of them.", EXTRACTED)
        assert found.measures["em"] == 1.0
        assert CaseRecord.model_validate_json(found.model_dump_json()) == found

    def test_that_could_not_be_had_leave_out_what_rules_measure_and_nothing_else(self) -> None:
        found, given = with_extraction(UNEXTRACTED), with_extraction(None, "nine")
        assert found.extracted == UNEXTRACTED
        assert given.measures.keys() - found.measures.keys() == {"em"}
        assert found.outcome is CaseOutcome.RIGHT

    def test_are_not_in_records_of_before(self) -> None:
        line = with_extraction(None, "nine").model_dump(mode="json")
        del line["extracted"]
        assert CaseRecord.model_validate(line) == with_extraction(None, "nine")

    @pytest.mark.parametrize("case", [CASE, UNKNOWN])
    def test_can_be_made_of_an_answer_to_whatever_question(self, case: Case) -> None:
        assert needs_extraction(rollout(case=case))

    @pytest.mark.parametrize(
        "run",
        [
            ABSTAINED,
            rollout(answer=None, stop=StopReason.OUT_OF_STEPS),
            rollout(answer=" "),
            rollout(failure="Deadline: late"),
            rollout(stop=StopReason.FAULT),
            made(failure="ChatError: nobody there"),
        ],
    )
    def test_can_be_made_of_nothing_else(self, run: Rollout) -> None:
        assert not needs_extraction(run)

    def test_say_whether_it_came_to_not_answerable(self) -> None:
        said = Extraction(answer="Not answerable")
        assert [one.declined for one in (with_extraction(EXTRACTED), with_extraction(UNEXTRACTED))] == [
            False
        ] * 2
        assert record_of(CASE, 0, rollout(), RIGHT, NAMES, extraction=said).declined
        assert record(ABSTAINED).declined


def test_what_broke_off_earns_nothing_by_a_rule_whatever_it_had_said() -> None:
    broken_off = record(rollout(stop=StopReason.FAULT), None).measures
    assert broken_off["em"] == 0
    assert "nothing" not in broken_off


def test_what_failed_before_it_began_has_earned_nothing_of_all_that_its_question_is_measured_by() -> None:
    """Comparisons and tables rely on it: what is not in a record is not measured of its question."""
    nothing = Rollout(
        attempt=RolloutAttempt(case=CASE, sample=0),
        events=(),
        files={},
        failure="ModelError: away",
        seconds=0.0,
    )
    chain = ("page", "region", "answer", "complete")
    earned = {
        "em": 0.0,
        "seen_recall": 0.0,
        "seen_ndcg": 0.0,
        "answered": 0.0,
        "abstained": 0.0,
        "cited_page_recall": 0.0,
        "region_f1": 0.0,
        "region_iou": 0.0,
        **{f"chain_{stage}": 0.0 for stage in chain},
    }
    assert record(nothing, None).measures == {"ndcg@5": 0.25, "mrr": 0.2, **earned}


def rolled(method: VragMethod | Vimrag, *replies: str, case: Case) -> Rollout:
    """What an agent does with these replies on the tiny corpus."""
    where = Environment(tiny_corpus(), PROFILES["qwen2.5-vl"], EnvironmentOptions(hits=3))
    agent = Agent(ScriptedPolicy(replies), where, method)

    async def only() -> Rollout:
        rollouts = [one async for one in roll_out([RolloutAttempt(case=case, sample=0)], lambda _: agent)]
        return rollouts[0]

    return asyncio.run(only())


def call(name: str, **arguments: object) -> str:
    """VimRAG: a reply that calls a tool."""
    return f"<think>So.</think>\n<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class TestOfTheAgents:
    """The ferry's page 2 is what a search for its passengers shows first, and page 1 what it shows then."""

    NUMBERS = replace(CASE, reference_page=(2,), regions=(Region(2, Box.unit(0.0, 0.0, 0.5, 0.1)),))
    SEARCH = "<think>Look.</think><search>ferry passengers 2024</search>"
    ANSWER = "<think>Seen.</think><answer>nine</answer>"

    def test_vrag_looks_and_answers(self) -> None:
        found = record(
            rolled(VragMethod(), self.SEARCH, self.SEARCH, self.ANSWER, case=self.NUMBERS), case=self.NUMBERS
        )
        measures = found.measures
        assert (found.outcome, found.answer, found.stop) == (CaseOutcome.RIGHT, "nine", "answered")
        assert (measures["turns"], measures["searches"], measures["invalid"]) == (3, 2, 0)
        assert (measures["seen_recall"], measures["seen_ndcg"]) == (1, 1)
        assert measures["visual_tokens"] > 0
        assert {(one.document, one.page) for one in found.evidence} <= {("ferry.pdf", 1), ("ferry.pdf", 2)}
        assert measures["centre"] == 1  # the whole page covers it

    def test_vrag_is_not_understood(self) -> None:
        found = record(rolled(VragMethod(), "Nine, I think.", self.SEARCH, self.ANSWER, case=self.NUMBERS))
        assert found.measures["invalid"] == pytest.approx(1 / 3)

    def test_vimrag_abstains_and_is_shown_a_passage(self) -> None:
        asked = replace(UNKNOWN, file_name="notes.md", gold=(GoldPage("notes.md"),))
        replies = (
            call("add_search_node", id="ice", parent_ids=["root"], query="January ice"),
            call("add_answer_node", parent_ids=["root"], answer="Not answerable"),
        )
        found = record(rolled(Vimrag(), *replies, case=asked), None, asked)
        assert (found.outcome, found.stop, found.answer) == (CaseOutcome.RIGHT, "abstained", None)
        assert found.measures["seen_recall"] == 1
        assert found.measures["em"] == 0.5
