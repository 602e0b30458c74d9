"""Experts make samples: ordinary runs, scored, with every fault a reason."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import ChatServer, Refuse, Say
from expert_server import FAILING, RIGHT_BOX, ExpertScript, cases, experts

from vrag.agent.actions import Crop, parse
from vrag.agent.environment import Environment
from vrag.agent.events import ImageShown, ModelCalled, ModelRetried, SearchReturned
from vrag.agent.runs.replay import replay
from vrag.distill.sample_store import SampleOutcome, SampleStore
from vrag.distill.sampler import ExpertSampling, OracleSearcher, sample_cases
from vrag.distill.select import SelectionOptions, select_samples, trace, view_of
from vrag.errors import CollectionError, SampleError
from vrag.geometry import Box, Space, iou
from vrag.model_profiles import PROFILES
from vrag.testing import MemorySearcher, tiny_corpus
from vrag.types import Query

if TYPE_CHECKING:
    from pathlib import Path

    from PIL.Image import Image

    from vrag.distill.sample_store import Sample
    from vrag.distill.sampler import SamplingProgress
    from vrag.geometry import Size

LEARNER = PROFILES["qwen2.5-vl"]


def run_cases(
    directory: Path,
    url: str,
    count: int = 8,
    *,
    afresh: bool = False,
    grounder: bool = True,
    **changes: Any,  # noqa: ANN401
) -> tuple[SampleStore, SamplingProgress]:
    store = SampleStore(directory)
    who = experts(url, grounder=grounder)
    sampling = ExpertSampling(searcher=tiny_corpus(), experts=who, learner=LEARNER, attempts=2, **changes)
    with store.writer(sampling.made_with) as writer:
        if afresh:
            writer.retry(
                [uid for uid, record in writer.records.items() if record.outcome is SampleOutcome.FAILED]
            )
        done = asyncio.run(sample_cases(cases(count), sampling, writer))
    return store, done


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> tuple[SampleStore, SamplingProgress]:
    with ChatServer(ExpertScript(), models=None) as server:
        return run_cases(tmp_path_factory.mktemp("samples"), server.url)


def by_uid(store: SampleStore) -> dict[str, Sample]:
    return {record.uid: record for record in store.samples.read()}


def test_every_case_has_one_record_and_every_failure_a_reason(
    sampled: tuple[SampleStore, SamplingProgress],
) -> None:
    store, done = sampled
    records = store.samples.read()
    assert sorted(record.uid for record in records) == sorted(case.uid for case in cases(8))
    assert {r.uid for r in records if r.outcome is SampleOutcome.FAILED} == {f"case-{n}" for n in FAILING}
    found = by_uid(store)
    assert "no JSON object" in found["case-2"].why
    assert "grounder" in found["case-6"].why
    assert "wrong order" in found["case-6"].why
    assert [len(found[f"case-{n}"].attempts) for n in range(8)] == [0, 0, 2, 0, 0, 0, 2, 0]
    assert found["case-7"].score == 2
    assert all(found[f"case-{n}"].score == 5 for n in (0, 1, 3, 4, 5))
    assert done.outcomes == {"scored": 6, "failed": 2}


def test_an_expert_that_never_says_json_is_asked_a_bounded_number_of_times(tmp_path: Path) -> None:
    with ChatServer([Say("As I said, I would search.")], models=None) as server:
        store, _ = run_cases(tmp_path, server.url, 1)
        assert len(server.requests) == 2 * 3  # attempts, and replies of each
    assert by_uid(store)["case-0"].experts["planner"].faults == 6


def test_faults_stand_in_the_events_of_the_run(sampled: tuple[SampleStore, SamplingProgress]) -> None:
    store, _ = sampled

    def retries(number: int) -> list[str]:
        run = by_uid(store)[f"case-{number}"].run
        assert run
        return [event.reason for event in store.runs.read(run).events if isinstance(event, ModelRetried)]

    assert retries(0) == []
    assert all("no JSON object" in reason for reason in retries(1))
    assert len(retries(1)) == 2
    assert ["429" in reason for reason in retries(3)] == [True, True]
    assert len(retries(4)) == 1
    assert [("four numbers" in reason, "outside" in reason) for reason in retries(5)] == [
        (True, False),
        (False, True),
    ]


def test_the_grounders_box_replaces_the_planners_whatever_their_spaces(
    sampled: tuple[SampleStore, SamplingProgress],
) -> None:
    store, _ = sampled
    run = store.runs.read(by_uid(store)["case-0"].run or "")
    shown = [event for event in run.events if isinstance(event, ImageShown)]
    assert [image.crop for image in shown] == [False, True]
    assert iou(Box(*shown[1].region, Space.ITEM), Box(*RIGHT_BOX, Space.ITEM)) > 0.95
    replies = [event.reply for event in run.events if isinstance(event, ModelCalled)]
    crop = parse(replies[1]).action
    assert isinstance(crop, Crop)
    assert all(side == int(side) for side in crop.box)
    assert replies[1].startswith("<think>Too small to read.</think>\n<bbox>[")
    written = view_of(shown[0]).to_item(LEARNER.box(crop.box))
    assert iou(written, Box(*RIGHT_BOX, Space.ITEM)) > 0.95


def test_without_a_grounder_the_planners_box_stands(tmp_path: Path) -> None:
    with ChatServer(ExpertScript(faults=False), models=None) as server:
        store, done = run_cases(tmp_path, server.url, 1, grounder=False)
    steps = trace(store.runs.read(by_uid(store)["case-0"].run or ""))
    assert steps.images[1].region == (0, 0, 1000, 1400)
    assert "grounder" not in done.experts


def test_a_sample_is_an_ordinary_run_that_replays(sampled: tuple[SampleStore, SamplingProgress]) -> None:
    store, _ = sampled
    run = store.runs.read(by_uid(store)["case-0"].run or "")
    assert run.started.settings.agent == "vrag"
    assert run.started.settings.sampling["grounder_profile"] == "y-first"
    again = list(replay(run, OracleSearcher(tiny_corpus(), cases(1)[0])))
    assert [type(event) for event in again] == [type(event) for event in run.events]


@pytest.mark.parametrize(
    ("fault", "reasons"),
    [(ValueError("odd"), ["This is a fault of vrag: ValueError"]), (CollectionError("damaged"), [])],
)
def test_a_page_that_cannot_be_shown_does_not_end_sampling(
    tmp_path: Path, fault: Exception, reasons: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would again each time it is gone on with. A page that is only damaged is passed over."""
    shown = MemorySearcher.image
    calls: list[str] = []

    def image(self: MemorySearcher, id: str, *, least: Size | None = None) -> Image:
        calls.append(id)
        if len(calls) == 1:
            raise fault
        return shown(self, id, least=least)

    monkeypatch.setattr(MemorySearcher, "image", image)
    with ChatServer(ExpertScript(faults=False), models=None) as server:
        store, done = run_cases(tmp_path, server.url, 2)
    assert done.outcomes == {"scored": 2, "failed": 0}
    records = store.samples.read()
    told = [attempt.reason or "" for record in records for attempt in record.attempts]
    assert [reason.partition(" in ")[0] for reason in told] == reasons


def test_the_oracle_puts_unseen_gold_pages_first_and_adds_nothing() -> None:
    case = cases(1)[0]
    plain, oracle = tiny_corpus(), OracleSearcher(tiny_corpus(), case)
    before = plain.search([Query("annual report prices ferry ticket")], 10)[0]
    after = oracle.search([Query("annual report prices ferry ticket")], 10)[0]
    assert before[0].ordinal != 2
    assert after[0].ordinal == 2
    assert sorted(before, key=lambda hit: hit.rank) == sorted(after, key=lambda hit: hit.rank)
    assert [hit for hit in after if hit.ordinal != 2] == [hit for hit in before if hit.ordinal != 2]
    assert oracle.version != plain.version


def test_without_the_oracle_a_run_sees_what_the_search_ranks_first(tmp_path: Path) -> None:
    def script(number: int, text: str = "") -> Say:
        return Say(text or '{"think": "t", "search": "annual report prices ferry ticket"}', piece=200)

    replies = [script(0), script(0, '{"think": "t", "answer": "1 [1]"}'), script(0, '{"score": 1}')]
    for oracle, page in ((False, 1), (True, 2)):
        with ChatServer(replies, models=None) as server:
            store, _ = run_cases(tmp_path / str(oracle), server.url, 1, oracle=oracle)
        run = store.runs.read(by_uid(store)["case-0"].run or "")
        assert [e.page for e in run.events if isinstance(e, ImageShown)] == [page]
        assert [len(e.hits) for e in run.events if isinstance(e, SearchReturned)] == [4]


def test_a_planner_that_cites_nothing_is_asked_again(tmp_path: Path) -> None:
    """The instruction of the learner asks for citations: without them it would learn to leave them out."""
    search = '{"think": "t", "search": "passengers in 2024 ferry"}'
    uncited, unshown, cited = (f'{{"think": "t", "answer": "48,200{end}"}}' for end in ("", " [2]", " [1]"))
    replies = [Say(text, piece=200) for text in (search, uncited, unshown, cited, '{"score": 5}')]
    with ChatServer(replies, models=None) as server:
        store, _ = run_cases(tmp_path, server.url, 1)
    record = by_uid(store)["case-0"]
    run = store.runs.read(record.run or "")
    assert run.result.steps[-1].reply == "<think>t</think>\n<answer>48,200 [1]</answer>"
    assert (run.result.answer, record.cites_gold) == ("48,200", True)
    assert record.experts["planner"].faults == 2
    assert "cites no image" in server.requests[2].text


def test_an_answer_that_cites_another_page_than_the_gold_one_says_so(tmp_path: Path) -> None:
    replies = [
        Say(text, piece=200)
        for text in (
            '{"think": "t", "search": "annual report prices ferry ticket"}',
            '{"think": "t", "answer": "48,200 [1]"}',
            '{"score": 5}',
        )
    ]
    with ChatServer(replies, models=None) as server:
        store, _ = run_cases(tmp_path, server.url, 1, oracle=False)
    assert by_uid(store)["case-0"].cites_gold is False
    (dropped,) = select_samples(store, SelectionOptions()).dropped
    assert dropped.reason == "Its answer does not cite a page that is known to hold it."


def test_tokens_and_cost_are_told_per_expert(sampled: tuple[SampleStore, SamplingProgress]) -> None:
    store, done = sampled
    usage = by_uid(store)["case-1"].experts
    assert (usage["planner"].calls, usage["planner"].faults) == (5, 2)
    assert (usage["grounder"].calls, usage["judge"].calls) == (1, 1)
    assert usage["planner"].prompt_tokens == 500
    assert usage["planner"].cost == pytest.approx(5 * (100 * 1.0 + 20 * 10.0) / 1e6)
    everyone = [record.experts["planner"].calls for record in by_uid(store).values()]
    assert done.experts["planner"].calls == sum(everyone)
    assert by_uid(store)["case-3"].experts["planner"].retries == 2


def test_what_is_over_is_not_asked_again_and_failed_cases_only_when_told(
    sampled: tuple[SampleStore, SamplingProgress], tmp_path: Path
) -> None:
    shutil.copytree(sampled[0].directory, tmp_path, dirs_exist_ok=True)
    before = by_uid(sampled[0])
    with ChatServer(ExpertScript(), models=None) as server:
        run_cases(tmp_path, server.url)
        assert not server.requests
    with ChatServer(ExpertScript(faults=False), models=None) as server:
        store, done = run_cases(tmp_path, server.url, afresh=True)
    after = by_uid(store)
    assert len(store.samples.read()) == 8
    assert all(after[f"case-{n}"].score == 5 for n in FAILING)
    assert {uid: record for uid, record in after.items() if uid not in {"case-2", "case-6"}} == {
        uid: record for uid, record in before.items() if uid not in {"case-2", "case-6"}
    }
    assert done.before == 6


def test_a_run_that_came_to_its_end_is_judged_and_not_made_again(tmp_path: Path) -> None:
    script = ExpertScript(faults=False)

    def no_judge(asked: object) -> object:
        return Refuse(401, "no") if asked.body["model"] == "judge" else script(asked)  # type: ignore[attr-defined]

    with ChatServer(no_judge, models=None) as server:  # type: ignore[arg-type]
        store, _ = run_cases(tmp_path, server.url, 1)
    failed = by_uid(store)["case-0"]
    assert failed.outcome is SampleOutcome.FAILED
    assert "judge" in failed.why
    with ChatServer(ExpertScript(faults=False), models=None) as server:
        store, _ = run_cases(tmp_path, server.url, 1, afresh=True)
        assert [asked.body["model"] for asked in server.requests] == ["judge"]
    assert by_uid(store)["case-0"].run == failed.run


def test_a_planner_that_does_not_answer_at_its_last_turn_fails(tmp_path: Path) -> None:
    with ChatServer([Say('{"think": "t", "search": "ferry"}', piece=200)], models=None) as server:
        store, _ = run_cases(tmp_path, server.url, 1, steps=3)
        asked = len(server.requests)
    record = by_uid(store)["case-0"]
    assert record.outcome is SampleOutcome.FAILED
    assert "last turn" in record.why
    assert asked == 2 * (2 + 3)


def test_sampling_gives_up_when_case_after_case_fails(tmp_path: Path) -> None:
    with (
        ChatServer([Refuse(401, "wrong key")], models=None) as server,
        pytest.raises(SampleError, match="in a row"),
    ):
        run_cases(tmp_path, server.url, 8, give_up=3, concurrency=1)
    assert len(SampleStore(tmp_path).samples.read()) == 3


def test_another_process_and_another_question_are_refused(tmp_path: Path) -> None:
    with ChatServer(ExpertScript(faults=False), models=None) as server:
        store, _ = run_cases(tmp_path, server.url, 1)
        writer = SampleStore(tmp_path / "held").writer
        with writer({}), pytest.raises(SampleError, match="Another process"), writer({}):
            pass
        record = by_uid(store)["case-0"].model_copy(update={"query": "Other?"})
        store.samples.rewrite([record])
        with pytest.raises(SampleError, match="another question"):
            run_cases(tmp_path, server.url, 1)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"oracle": False}, "oracle True, not False"),
        ({"documents": frozenset("a")}, "other documents"),
        ({"steps": 5}, "steps 10, not 5"),
    ],
)
def test_going_on_otherwise_is_refused_before_anything_is_asked(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    with ChatServer(ExpertScript(faults=False), models=None) as server:
        store, _ = run_cases(tmp_path, server.url, 1)
        asked = len(server.requests)
        with pytest.raises(SampleError, match=f"was made with {named}\\.") as refused:
            run_cases(tmp_path, server.url, 2, **changes)
        assert "another folder" in (refused.value.hint or "")
        with pytest.raises(SampleError, match=r"made with other grounder\."):
            run_cases(tmp_path, server.url, 2, grounder=False)
        assert len(server.requests) == asked
        run_cases(tmp_path, server.url, 2, concurrency=1, give_up=5)
    assert len(store.samples.read()) == 2


def test_samples_that_do_not_say_what_they_were_made_with_are_left_alone(tmp_path: Path) -> None:
    with ChatServer(ExpertScript(faults=False), models=None) as server:
        store, _ = run_cases(tmp_path, server.url, 1)
        (tmp_path / "sampling.json").write_text("{")
        with pytest.raises(SampleError, match=r"sampling\.json is damaged"):
            run_cases(tmp_path, server.url, 1)
        (tmp_path / "sampling.json").unlink()
        with pytest.raises(SampleError, match="does not say what its records were made with"):
            run_cases(tmp_path, server.url, 1)
    assert len(store.samples.read()) == 1


def test_a_case_without_a_reference_answer_costs_nothing(tmp_path: Path) -> None:
    asked = [replace(case, reference_answer=" ") for case in cases(3)]
    with ChatServer(ExpertScript(faults=False), models=None) as server:
        sampling = ExpertSampling(
            searcher=tiny_corpus(), experts=experts(server.url), learner=LEARNER, give_up=2
        )
        with SampleStore(tmp_path).writer(sampling.made_with) as writer:
            done = asyncio.run(sample_cases(asked, sampling, writer))
        assert not server.requests
    assert done.outcomes == {"scored": 0, "failed": 3}
    assert "no reference answer" in by_uid(SampleStore(tmp_path))["case-0"].why


def test_a_disk_that_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SampleError, match="cannot be written"), SampleStore(tmp_path / "file").writer({}):
        pass
    (tmp_path / "samples.jsonl").mkdir()
    with pytest.raises(SampleError, match="cannot be read"):
        SampleStore(tmp_path).samples.read()


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl").write_bytes(b"what\n")
    with pytest.raises(SampleError, match=r"Line 1 of .* is damaged"):
        SampleStore(tmp_path).samples.read()


def test_concurrency_is_limited(tmp_path: Path) -> None:
    with ChatServer(ExpertScript(faults=False, slow=0.02), models=None) as server:
        run_cases(tmp_path, server.url, 4, concurrency=2)
        assert server.peak == 2


def test_the_environment_is_the_one_of_serving(sampled: tuple[SampleStore, SamplingProgress]) -> None:
    store, _ = sampled
    run = store.runs.read(by_uid(store)["case-0"].run or "")
    environment = Environment(tiny_corpus(), LEARNER)
    item = environment.item(trace(run).images[0].item)
    assert environment.whole(item).sha256 == trace(run).images[0].sha256
