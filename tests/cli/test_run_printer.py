"""What is said of a run, to people and as `--json`."""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.budget import Limits
from vrag.agent.events import (
    AnswerDelta,
    AnswerGiven,
    GraphChanged,
    InvalidAction,
    ModelCalled,
    ModelRetried,
    PassageShown,
    RunFailed,
    RunSettings,
    RunStarted,
    SearchRequested,
    SearchReturned,
    StopReason,
    ThoughtDelta,
    ThoughtGiven,
    UsageReported,
)
from vrag.agent.evidence import Evidence
from vrag.agent.memory.memory_graph import Graph, Node, NodeKind
from vrag.agent.policy import FinishReason
from vrag.agent.runs.run_store import RunState, RunStore, StoredRun
from vrag.cli.ask import run_as_json
from vrag.cli.run_printer import RunPrinter, graph_tree, print_end
from vrag.cli.terminal import progress
from vrag.cli.terminal.progress import model_status
from vrag.factory.agents import open_agent
from vrag.index.manifest import IndexProgress
from vrag.reading.verification.claim import ClaimKind, ClaimVerdict
from vrag.settings import load_settings
from vrag.testing import tiny_corpus
from vrag.types import ItemKind

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.agent.events import Event

BASE: dict[str, Any] = {"run_id": "0", "seq": 0, "ts": 0.0, "step": 2}
SUMMED = ("visual_tokens", "pixels", "model_seconds")


def test_what_each_step_cost_is_told_and_adds_up(tmp_path: Path) -> None:
    agent = open_agent(load_settings(agent="vimrag").settings, tiny_corpus())
    with RunStore(tmp_path).record() as recording:
        events = list(agent.stream("How many passengers did the ferry carry?", save=recording.save))
    told = run_as_json(StoredRun(recording.id, RunStore(tmp_path), tuple(events)))
    reported = [event for event in events if isinstance(event, UsageReported)]
    assert len(told["steps"]) == len(reported) > 1
    for step, event in zip(told["steps"], reported, strict=True):
        assert step["usage"]["fresh_tokens"] == event.fresh_tokens
        assert step["usage"]["memory_tokens"] == event.memory_tokens
        assert step["usage"].keys() >= {"prompt_tokens", "completion_tokens", "cached_tokens", "cost"}
    for name in SUMMED:
        assert abs(told["usage"][name] - sum(step["usage"][name] for step in told["steps"])) < 0.01
    assert told["usage"]["pixels"] > 0
    assert told["usage"]["seconds"] == pytest.approx(events[-1].ts - events[0].ts, abs=1e-3)
    assert told["usage"]["cached_tokens"] is None


def called(reply: str) -> ModelCalled:
    return ModelCalled(**BASE, messages=(), reply=reply, executed=0, chunks=(), finish=FinishReason.STOP)


def used() -> UsageReported:
    return UsageReported(**BASE, prompt_tokens=None, completion_tokens=None, visual_tokens=0, seconds=0.1)


def told(capsys: pytest.CaptureFixture[str], *events: Event) -> str:
    printer = RunPrinter()
    for event in events:
        printer.print_event(event)
    return capsys.readouterr().out


def started(policy: str = "chat:m", limits: Limits | None = None) -> RunStarted:
    settings = RunSettings(agent="vrag", policy=policy, profile="qwen2.5-vl", limits=limits or Limits())
    base: dict[str, Any] = {**BASE, "step": 0}
    return RunStarted(**base, question="?", settings=settings, collection="")


def said(
    capsys: pytest.CaptureFixture[str], path: Path, *events: Event, state: RunState = RunState.FINISHED
) -> str:
    print_end(StoredRun("0", RunStore(path), events), state)
    return " ".join(capsys.readouterr().out.split())


def ending(
    capsys: pytest.CaptureFixture[str], path: Path, reason: StopReason, limits: Limits, text: str | None
) -> str:
    end = AnswerGiven(**BASE, text=text, evidence=(), stop_reason=reason)
    return said(capsys, path, started(limits=limits), end)


def test_a_refused_reply_is_told_with_its_step_and_its_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    out = told(capsys, called("no action " * 100), InvalidAction(**BASE, reason="There is no action."))
    assert out.startswith("2. refused There is no action.")
    assert "“no action no action" in out
    assert len(out) < 300


def test_what_was_left_out_is_told_beside_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    reason = "Video 1 is shown in part: There is room for 22 of 32 frames."
    out = told(capsys, SearchReturned(**BASE, hits=(), damaged=(reason,)))
    assert "left out" in out
    assert reason in " ".join(out.split())


def test_a_search_that_shows_nothing_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    request = SearchRequested(**BASE, query="x" * 1000)
    out = told(capsys, request, SearchReturned(**BASE, hits=(), damaged=("page 3 is damaged",)), used())
    assert "0 hits" in out
    assert "page 3 is damaged" in out
    assert len(out) < 600, "a query is printed up to a limit"
    assert "hits" not in told(capsys, request, used())


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (StopReason.OUT_OF_STEPS, ("7 model calls", "--max-steps", "VRAG_MAX_STEPS")),
        (StopReason.OUT_OF_BUDGET, ("500 tokens (VRAG_BUDGET_TOKENS)", "2.5 seconds (VRAG_BUDGET_SECONDS)")),
        (StopReason.OUT_OF_TOKENS, ("cut off", "VRAG_MAX_TOKENS")),
    ],
)
def test_the_limit_that_ended_a_run_is_named_with_its_setting(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, reason: StopReason, words: tuple[str, ...]
) -> None:
    out = ending(capsys, tmp_path, reason, Limits(steps=7, tokens=500, seconds=2.5), None)
    assert all(word in out for word in words), out
    assert str(reason) not in out
    assert "BUDGET_COST" not in out


def test_an_answer_without_evidence_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "No evidence" in ending(capsys, tmp_path, StopReason.ANSWERED, Limits(), "42")
    assert "No evidence" not in ending(capsys, tmp_path, StopReason.ABSTAINED, Limits(), None)


def test_notices_about_the_run_stand_with_its_answer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    notice = "The family of the model is not known: crops may show the wrong place."
    begun = started().model_copy(update={"notices": (notice,)})
    end = AnswerGiven(**BASE, text="42", evidence=(), stop_reason=StopReason.ANSWERED)
    assert f"Note: {notice}" in " ".join(said(capsys, tmp_path, begun, end).split())
    assert run_as_json(StoredRun("0", RunStore(tmp_path), (begun, end)))["notices"] == [notice]


def test_replies_of_which_none_was_an_action_are_not_answered_with_more_of_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    none = AnswerGiven(**BASE, text=None, evidence=(), stop_reason=StopReason.OUT_OF_STEPS)
    refused = [
        event
        for step in (1, 2, 3)
        for event in (
            called("no action").model_copy(update={"step": step}),
            InvalidAction(**BASE, reason="There is no action.").model_copy(update={"step": step}),
        )
    ]
    out = said(capsys, tmp_path, started(limits=Limits(steps=3)), *refused, none)
    assert "None of 3 replies was a valid action" in out
    assert "vrag doctor" in out
    assert "--max-steps" not in out
    searched = SearchRequested(**BASE, query="ferry").model_copy(update={"step": 3})
    out = said(capsys, tmp_path, started(limits=Limits(steps=3)), *refused[:-1], searched, none)
    assert "--max-steps" in out


@pytest.mark.parametrize(
    ("state", "word"), [(RunState.INTERRUPTED, "Interrupted:"), (RunState.RUNNING, "Running:")]
)
def test_a_run_without_an_end_has_not_failed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, state: RunState, word: str
) -> None:
    out = said(capsys, tmp_path, started(), called("…"), state=state)
    assert out.startswith(word)
    assert "Failed" not in out


def test_a_run_that_failed_tells_the_time_that_its_tries_took(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first: dict[str, Any] = {**BASE, "step": 1}
    retried = ModelRetried(**first, reason="It was busy.", seconds=9.0, partial="", chunks=())
    last: dict[str, Any] = {**first, "ts": 14.2}
    failed = RunFailed(**last, boundary="ModelError", message="Gone.", stop_reason=StopReason.MODEL_ERROR)
    assert "1 step, 0 visual tokens, 14.2 s" in said(capsys, tmp_path, started(), retried, failed)
    told = run_as_json(StoredRun("0", RunStore(tmp_path), (started(), retried, failed)))
    assert (told["usage"]["steps"], told["usage"]["seconds"]) == (1, 14.2)


@pytest.mark.parametrize(("policy", "begin"), [("extractive", "Nothing found: "), ("chat:m", "No answer: ")])
def test_nothing_found_without_a_model_is_said_with_its_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, policy: str, begin: str
) -> None:
    reason = "No page has a word of it."
    end = AnswerGiven(**BASE, text=None, evidence=(), absence=reason, stop_reason=StopReason.ABSTAINED)
    out = said(capsys, tmp_path, started(policy), end)
    assert out.startswith(begin)
    assert (reason in out) is (policy == "extractive")


def test_an_answer_of_several_lines_is_drawn_on_a_terminal_and_told_in_a_line_elsewhere(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "It **rose**:\n\n| Year | Crowns |\n|---|---|\n| 2023 | 12 |\n\n- <b>one</b>\u202e\n- [x](http://a.b)"
    )
    end = AnswerGiven(**BASE, text=text, evidence=(), stop_reason=StopReason.ANSWERED)
    assert "It **rose**: | Year | Crowns |" in said(capsys, tmp_path / "line", started("chat:m"), end)
    screen = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=60, soft_wrap=True)
    for name in ("vrag.cli.run_printer.out", "vrag.cli.terminal.console.out"):
        monkeypatch.setattr(name, screen)
    said(capsys, tmp_path / "screen", started("chat:m"), end)
    assert isinstance(screen.file, io.StringIO)
    drawn = screen.file.getvalue()
    assert "It rose:" in drawn
    assert "2023  12" in " ".join(drawn.split("\n"))
    assert "• <b>one</b>" in drawn
    assert "• x (http://a.b)" in drawn
    assert "|" not in drawn
    assert "\u202e" not in drawn


def test_the_line_that_waits_is_gone_while_others_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Console(stderr=True, force_terminal=True, width=60)
    monkeypatch.setattr(progress, "err", screen)
    with model_status("qwen", quiet=False) as waiting:
        assert waiting.__rich__().plain == "waiting for qwen, 0 s"
        waiting.follow(ThoughtDelta(**BASE, text="The ferry"))
        assert waiting.__rich__().plain == "The ferry"
        with waiting.hidden():
            capsys.readouterr()
            time.sleep(0.3)  # it is drawn some twelve times a second
            assert capsys.readouterr().err == ""
        waiting.follow(used())
        assert waiting.__rich__().plain.startswith("waiting for qwen")
    assert "ferry" not in capsys.readouterr().err


def test_the_answer_stands_on_the_last_lines_while_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "err", Console(stderr=True, force_terminal=True, width=44, height=6))
    with model_status("qwen", quiet=False) as status:
        assert status.is_shown
        for text in ("The ferry carried", " 48,200 passengers", " in 2023."):
            status.follow(AnswerDelta(**BASE, text=text))
        assert status.__rich__().plain == "Answer: The ferry carried 48,200 \npassengers in 2023."
        status.follow(used())  # it is checked before it is given
        assert status.__rich__().plain.startswith("Answer: ")
        status.follow(AnswerDelta(**BASE, text=" word" * 100))
        assert status.__rich__().plain.count("\n") == 2
        status.follow(InvalidAction(**BASE, reason="It is none."))
        assert status.__rich__().plain.startswith("waiting for qwen")


def test_without_a_terminal_nothing_waits_on_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    with model_status("qwen", quiet=False) as waiting, waiting.hidden():
        waiting.follow(used())
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_indexing_says_how_far_it_is_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = IndexProgress(
        files_done=4,
        files=6,
        items_done=24,
        items=25,
        failed=0,
        rate=2.0,
        share=0.9,
        remaining_seconds=8.0,
        current="a",
    )
    with progress.index_progress() as report:
        report(done)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(progress, "LOG_SECONDS", -1.0)
        report(done)
    assert capsys.readouterr().err.startswith("Indexing: 4/6 files · 24 items")


def test_a_step_without_a_thought_has_its_number_and_only_its_first_line_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def at(step: int) -> dict[str, Any]:
        return {**BASE, "step": step}

    lines = told(
        capsys,
        ThoughtGiven(**at(1), text="Think."),
        SearchRequested(**at(1), query="one"),
        SearchRequested(**at(2), query="two"),
        PassageShown(**at(2), item="i", document="a.md", page=1),
        InvalidAction(**at(3), reason="It is empty."),
        SearchRequested(**at(10), query="ten"),
    ).splitlines()
    assert lines == [
        "1. Think.",
        "   search  one",
        "2. search  two",
        "   reading a.md, passage 1",
        "3. refused It is empty.",
        "   The reply was empty.",
        "10. search  ten",
    ]


def graph_of(*nodes: tuple[str, tuple[str, ...], str]) -> Graph:
    return Graph(
        (
            *Graph.of("How many passengers?").nodes,
            *(
                Node(
                    id=name,
                    kind=NodeKind.SEARCH,
                    parents=parents,
                    query=f"query of {name}",
                    summary=summary,
                    order=order,
                )
                for order, (name, parents, summary) in enumerate(nodes, 1)
            ),
        )
    )


def test_the_graph_is_a_tree_in_which_each_node_is_once_and_names_its_other_parents() -> None:
    graph = graph_of(
        ("first", ("root",), "Forty ferries were counted. " * 8),
        ("second", ("root",), ""),
        ("third", ("first", "second"), "\x1b[31mBoth.\x1b[0m"),
    )
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(graph_tree(graph))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert [text.count(f"query of {name}") for name in ("first", "second", "third")] == [1, 1, 1]
    assert "(also from second)" in text
    lines = text.splitlines()
    third = next(line for line in lines if "query of third" in line)
    assert third.index("third") > next(line for line in lines if "query of first" in line).index("first")
    assert "\x1b" not in text


def test_what_was_found_at_a_node_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    graph = graph_of(("first", ("root",), "Forty."))
    lines = told(capsys, *(GraphChanged(**BASE, graph=graph) for _ in range(2))).splitlines()
    assert lines == ["2. summary Forty. → first"]


def test_a_run_with_a_graph_ends_with_its_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = open_agent(load_settings(agent="vimrag").settings, tiny_corpus())
    with RunStore(tmp_path).record() as recording:
        events = list(agent.stream("How many passengers did the ferry carry?", save=recording.save))
    stored = StoredRun(recording.id, RunStore(tmp_path), tuple(events))
    print_end(stored, RunState.FINISHED)
    said = capsys.readouterr().out
    assert stored.result.graph is not None
    assert all(node.id in said for node in stored.result.graph.nodes)


def test_a_terminal_shows_formulas_as_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=60, soft_wrap=True)
    for name in ("vrag.cli.run_printer.out", "vrag.cli.terminal.console.out"):
        monkeypatch.setattr(name, screen)
    text = "So:\n\nIt is $x_1$.\n\n$$\ny_1\n$$"
    end = AnswerGiven(**BASE, text=text, evidence=(), stop_reason=StopReason.ANSWERED)
    print_end(StoredRun("0", RunStore(tmp_path), (started(), end)), RunState.FINISHED)
    assert isinstance(screen.file, io.StringIO)
    printed = screen.file.getvalue()
    assert "It is $x_1$." in printed
    assert "$$ y_1 $$" in printed
    assert "`" not in printed


def test_a_quote_is_cut_around_the_words_that_a_claim_rests_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    quote = f"{'The filler of the page. ' * 20}The ferry carried 48,200 people.{' And more.' * 40}"
    place = Evidence(
        item="i",
        document="a.pdf",
        document_id="d",
        page=1,
        kind=ItemKind.PAGE,
        box=(0.0, 0.0, 0.5, 0.5),
        quote=quote,
    )
    claim = CheckedClaim(
        kind=ClaimKind.NUMBER, start=0, end=6, verdict=ClaimVerdict.STATED, numbers=(1,), found="48,200"
    )
    end = AnswerGiven(
        **BASE, text="48,200", evidence=(place,), claims=(claim,), stop_reason=StopReason.ANSWERED
    )
    out = said(capsys, tmp_path, started(), end)
    assert "Answer: 48,200 [1]" in out
    assert "1 statement, stated in the text." in out
    assert "[1] a.pdf, part of page 1" in out
    assert "The ferry carried 48,200 people." in out
    assert len(out) < 600
