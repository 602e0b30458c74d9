"""One numbering: the same run shows the same numbers for the same places at every door."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from cited_runs import (
    ANSWER,
    CONTRADICTION,
    DOUBT,
    REPLIES,
    VERDICTS,
    Numbering,
    in_doubt,
    listed_places,
    numbers_in,
    old,
    recorded,
    replies_of,
    withdrawn,
)
from completions_client import QUESTION, client_of, extra, joined
from service_harness import doors, scripted

from vrag.agent.events import DocumentChoice
from vrag.agent.runs.run_store import RunState, RunStore, StoredRun
from vrag.cli.ask import run_as_json
from vrag.cli.run_printer import RunPrinter, print_end
from vrag.render.exports import Format, export_of
from vrag.render.report import report_of
from vrag.server.mcp import answer_data
from vrag.server.openai.reply import CompletionReply, build_reply, plain_answer
from vrag.server.runs.schema import RunDetail

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("closing")

RUNS = (*REPLIES, "an old run")


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs")


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest, store: RunStore) -> StoredRun:
    """A run of each kind."""
    return old(store) if request.param == "an old run" else recorded(store, REPLIES[request.param])


class Linked(HTMLParser):
    """The links of a page to its own parts, in order, with their text; and the ids of its parts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self.text = ""
        self._target = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids += filter(None, [found.get("id")])
        href = found.get("href") or ""
        self._target = href[1:] if tag == "a" and href.startswith("#evidence-") else ""
        if self._target:
            self.links.append((self._target, ""))

    def handle_endtag(self, tag: str) -> None:
        self._target = "" if tag == "a" else self._target

    def handle_data(self, data: str) -> None:
        data = data.replace("\u202f", " ")
        self.text += data
        if self._target:
            self.links[-1] = (self._target, self.links[-1][1] + data)


def places_of(evidence: Sequence[dict[str, Any]]) -> tuple[tuple[int, str], ...]:
    return tuple((entry["number"], f"{entry['document']}, {entry['page']}") for entry in evidence)


def test_the_runs_are_what_they_say(store: RunStore) -> None:
    runs = {name: recorded(store, answer) for name, answer in REPLIES.items()}
    cites, silent, unseen = runs.values()
    assert {run.result.answer for run in runs.values()} == {ANSWER}
    for run in (cites, silent):
        assert Numbering.of(run) == Numbering((1, 2), ((1, "ferry.pdf, 3"), (2, "ferry.pdf, 2")))
    assert [citation.source for citation in cites.result.citations] == ["model"] * 2
    assert [citation.source for citation in silent.result.citations] == ["matched"] * 2
    assert any("[9], which was not shown" in reason for reason in unseen.result.unsupported)
    assert [len(old(store).result.citations), len(old(store).events[-1].citations)] == [1, 0]  # type: ignore[attr-defined]


def test_the_terminal(run: StoredRun, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = Numbering.of(run)
    print_end(run, RunState.FINISHED)
    answer, *rest = capsys.readouterr().out.splitlines()[1:]
    assert answer == f"Answer: {run.result.marked_answer.text}"
    assert numbers_in(answer) == wanted.markers
    assert listed_places("\n".join(rest), r"(?m)^  \[(\d+)\] PLACE$")[: len(wanted.places)] == wanted.places


def test_json(run: StoredRun) -> None:
    wanted = Numbering.of(run)
    exported = json.loads(export_of(run, Format.JSON).data)
    for value in (run_as_json(run), exported):
        assert numbers_in(value["marked"]) == wanted.markers
        assert places_of(value["evidence"]) == wanted.places
        assert [entry["number"] for entry in value["looked_at"]] == [
            number + len(wanted.places) for number, _ in enumerate(run.result.looked_at, 1)
        ]
        assert sorted({n for citation in value["citations"] for n in citation["numbers"]}) == sorted(
            set(wanted.markers)
        )


def test_http(run: StoredRun) -> None:
    wanted = Numbering.of(run)
    detail = RunDetail.of(run.id, run.result, RunState.FINISHED).model_dump(mode="json")
    assert numbers_in(detail["marked"]) == wanted.markers
    assert places_of(detail["evidence"]) == wanted.places
    assert detail["citations"] == [one.model_dump(mode="json") for one in run.result.citations]


def check_reply(reply: CompletionReply, wanted: Numbering) -> None:
    """The content, its annotations and its data name the same places."""
    assert numbers_in(reply.answer) == wanted.markers
    places = dict(wanted.places)
    for number, annotation in zip(wanted.markers, reply.annotations, strict=True):
        cited = annotation.url_citation
        assert reply.content[cited.start_index : cited.end_index] == f"[{number}]"
        assert cited.url == f"/#/runs/1?cite={number}"
        assert cited.title.replace("part of ", "").replace("page ", "") == places[number]
    assert listed_places(reply.content, r"(?m)^- \[(\d+)\] \[PLACE\]") == wanted.places
    assert places_of([one.model_dump(mode="json") for one in reply.vrag.evidence]) == wanted.places


def test_openai(run: StoredRun) -> None:
    reply = build_reply("1", run.result, "/#/runs/1")
    check_reply(reply, Numbering.of(run))
    assert plain_answer(reply.content) == reply.vrag.answer == ANSWER


def test_mcp(run: StoredRun) -> None:
    wanted = Numbering.of(run)
    data = answer_data(run.id, run.result)
    assert numbers_in(data["answer"]) == wanted.markers
    assert places_of(data["evidence"]) == wanted.places


def test_mcp_names_the_documents_that_may_be_meant(run: StoredRun) -> None:
    choices = (DocumentChoice(document="a", name="a.pdf"), DocumentChoice(document="b", name="b.pdf"))
    data = answer_data(run.id, replace(run.result, choices=choices))
    assert data["choices"] == [{"document": "a", "name": "a.pdf"}, {"document": "b", "name": "b.pdf"}]
    assert "choices" not in answer_data(run.id, run.result)


def test_the_exported_page_and_the_report(run: StoredRun) -> None:
    wanted = Numbering.of(run)
    for html, anchor in (
        (export_of(run, Format.HTML).data.decode(), "evidence-"),
        (report_of([run]).html, "evidence-1-"),
    ):
        page = Linked(html)
        links = [(f"{anchor}{number}", f"[{number}]") for number in wanted.markers]
        assert page.links[: len(links)] == links
        assert run.result.marked_answer.text in page.text
        for number, place in wanted.places:
            assert page.ids.count(f"{anchor}{number}") == 1
            card = html.partition(f'id="{anchor}{number}"')[2].partition("</li>")[0]
            assert f'<span class="number">{number}</span>' in card
            document, page_number = place.split(", ")
            assert document in card
            assert f"Page {page_number}" in card


def test_markdown(run: StoredRun) -> None:
    wanted = Numbering.of(run)
    text = export_of(run, Format.MARKDOWN).data.decode()
    answer, _, evidence = text.partition("### Evidence of question 1")
    plain = answer.replace("\\[", "[").replace("\\]", "]").replace("(#evidence-of-question-1)", "")
    assert numbers_in(plain.replace("[[", "[").replace("]]", "]")) == wanted.markers
    listed = evidence.partition("## Sources")[0].replace("\\", "")
    assert sorted(listed_places(listed, r"\*\*\[(\d+)\]\*\* PLACE")) == sorted(wanted.places)


def test_several_runs_in_one_report_keep_their_numbers(store: RunStore) -> None:
    runs = [recorded(store, answer) for answer in REPLIES.values()]
    page = Linked(report_of(runs).html)
    for question, run in enumerate(runs, 1):
        for number in Numbering.of(run).markers:
            assert (f"evidence-{question}-{number}", f"[{question}.{number}]") in page.links
            assert page.ids.count(f"evidence-{question}-{number}") == 1


@pytest.mark.parametrize("answer", REPLIES.values(), ids=REPLIES)
def test_a_served_run_is_the_same_whole_and_streamed(tmp_path: Path, answer: str) -> None:
    with doors(scripted(tmp_path, replies_of(answer), piece=3)) as opened:
        client = client_of(opened.address)
        whole = client.chat.completions.create(model="vrag", messages=QUESTION).choices[0].message
        chunks = list(client.chat.completions.create(model="vrag", messages=QUESTION, stream=True))
        assert sum(bool(chunk.choices[0].delta.content) for chunk in chunks) > 10
        part = extra(whole)["vrag"]
        stored = opened.answering.store.read(part["run_id"])
        wanted = Numbering.of(stored)
        detail = httpx.get(f"{opened.address}/runs/{stored.id}").json()
        for content, annotations in (
            (whole.content or "", [one.model_dump() for one in whole.annotations or ()]),
            (joined(iter(chunks)), extra(chunks[-1].choices[0].delta)["annotations"]),
        ):
            assert content.startswith(stored.result.marked_answer.text)
            spots = [one["url_citation"] for one in annotations]
            marks = [content[spot["start_index"] : spot["end_index"]] for spot in spots]
            assert marks == [f"[{number}]" for number in wanted.markers]
        assert places_of(part["evidence"]) == places_of(detail["evidence"]) == wanted.places
        export = httpx.get(f"{opened.address}/runs/{stored.id}/export", params={"format": "html"}).text
        assert stored.result.marked_answer.text in Linked(export).text


class TestVerdicts:
    def test_people_read_what_is_in_doubt(self, store: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
        run = in_doubt(store)
        printer = RunPrinter()
        for event in run.events:
            printer.print_event(event)
        steps = " ".join(capsys.readouterr().out.split())
        assert f"doubted {ANSWER}. The model is asked again." in steps
        assert "The evidence says “13 crowns” [1], not “12 crowns”." in steps
        print_end(run, RunState.FINISHED)
        printed = " ".join(capsys.readouterr().out.split())
        reply = build_reply("1", run.result, "/#/runs/1")
        report = report_of([run])
        markdown = report.markdown().text.replace("\\", "")
        page = export_of(run, Format.HTML).data.decode()
        for text in (
            printed,
            reply.content.replace("\\", ""),
            Linked(report.html).text,
            Linked(page).text,
            markdown,
        ):
            assert VERDICTS in text
            assert CONTRADICTION in text
            assert DOUBT in text
        assert '<span class="claim doubted" title="doubted">12 crowns</span>' in page
        assert plain_answer(reply.content) == ANSWER
        assert "in doubt" in Linked(page).text

    def test_programs_get_every_claim(self, store: RunStore) -> None:
        run = in_doubt(store)
        claims = [claim.model_dump(mode="json") for claim in run.result.claims]
        assert run_as_json(run)["claims"] == claims
        assert json.loads(export_of(run, Format.JSON).data)["claims"] == claims
        assert RunDetail.of(run.id, run.result, RunState.FINISHED).model_dump(mode="json")["claims"] == claims
        part = build_reply("1", run.result, "/#/runs/1").vrag
        assert part.model_dump(mode="json")["claims"] == claims
        assert part.answer is not None
        assert [part.answer[one.start : one.end] for one in part.claims] == [
            "12 crowns",
            "48,200 passengers",
            "2024",
        ]
        data = answer_data(run.id, run.result)
        assert data["trust"] == VERDICTS
        assert [(one["text"], one["verdict"], one["numbers"]) for one in data["claims_in_doubt"]] == [
            ("12 crowns", "doubted", [1]),
            ("2024", "unverified", []),
        ]

    def test_claims_that_the_evidence_says_are_not_listed_to_people(
        self, store: RunStore, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run = in_doubt(store)
        end = run.events[-1].model_copy(update={"claims": run.result.claims[1:2]})
        run = StoredRun(run.id, run.store, (*run.events[:-1], end))
        print_end(run, RunState.FINISHED)
        line = "1 statement, stated in the text."
        content = build_reply("1", run.result, "/#/runs/1").content
        assert line in capsys.readouterr().out
        assert f"*{line}*" in content
        assert "Checked" not in content
        assert plain_answer(content) == ANSWER

    def test_a_withdrawn_answer_is_shown_as_one(
        self, store: RunStore, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run = withdrawn(store)
        wanted = Numbering.of(run)
        print_end(run, RunState.FINISHED)
        printed = " ".join(capsys.readouterr().out.split())
        marked = run.result.marked_answer.text
        assert f"No answer: the evidence does not support the answer “{marked}”." in printed
        assert CONTRADICTION in printed
        assert listed_places(printed, r"\[(\d+)\] PLACE") == wanted.places
        told = run_as_json(run)
        assert (told["answer"], told["withdrawn"], told["marked"]) == (None, ANSWER, marked)
        data = answer_data(run.id, run.result)
        assert (data["answer"], data["withdrawn"]) == (None, marked)
        detail = RunDetail.of(run.id, run.result, RunState.FINISHED)
        assert (detail.answer, detail.withdrawn, detail.marked) == (None, ANSWER, marked)
        reply = build_reply("1", run.result, "/#/runs/1")
        assert ANSWER in reply.content
        assert reply.content.startswith("I withdrew an answer")
        assert (reply.vrag.answer, reply.vrag.withdrawn) == (None, ANSWER)
        assert plain_answer(reply.content) is None
        for text in (
            Linked(export_of(run, Format.HTML).data.decode()).text,
            Linked(report_of([run]).html).text,
        ):
            assert "Answer withdrawn" in text
            assert marked in text
            assert CONTRADICTION in text
        assert "Answer withdrawn" in report_of([run]).markdown().text
