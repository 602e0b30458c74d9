"""The second reading of drawn pages by OCR, and what a run makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_scripts import PROFILE, VRAG, Watching
from corpus.pdf_files import remapped_pdf, text_at

from vrag.agent.agent import Agent
from vrag.agent.answers.page_strips import PageStrips
from vrag.agent.answers.verification import VerifyMode
from vrag.agent.environment import Environment
from vrag.agent.events import AnswerDoubted
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policy import Policy
from vrag.agent.runs.replay import differences, replay
from vrag.agent.runs.run_result import ResultKind, RunResult
from vrag.agent.runs.run_store import RunStore
from vrag.corpus.converter import CorpusOptions
from vrag.geometry import Box
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.reading.verification.claim import ClaimDoubt, ClaimVerdict
from vrag.reading.verification.second_reading import Strip
from vrag.render.verdicts import trust_line
from vrag.search.engine import Engine
from vrag.testing import passage

pytestmark = pytest.mark.slow

LINES = (
    "Report of the harbour office of Sandvik for the year 2024",
    "The ferry carried 48,217 passengers between Orla and Saltby in 2024.",
    "The ferry carried 39,604 passengers between Orla and Saltby in 2023.",
    "A return ticket costs 12.50 crowns in summer and 9.80 crowns in winter.",
)
QUESTION = "How many passengers did the ferry carry in 2024?"
DRAWN = "The ferry carried 48,217 passengers in 2024."
STORED = "The ferry carried 43,217 passengers in 2024."


def collection_of(folder: Path, *, lies: bool) -> Collection:
    """A collection of one page, whose text layer has a 3 for each 8 that is drawn if it lies."""
    content = "".join(text_at(60, 730 - 20 * number, line, 11) for number, line in enumerate(LINES))
    files = folder / "files"
    files.mkdir()
    (files / "report.pdf").write_bytes(remapped_pdf(content, {"8": "3"} if lies else {}))
    collection = Collection.create(folder / "collection", CorpusOptions(ocr="never", workers=1))
    add(collection, [files])
    return collection


def run_of(
    collection: Collection,
    policy: Policy,
    mode: VerifyMode = VerifyMode.TELL,
    store: RunStore | None = None,
) -> RunResult:
    method = VragMethod(verify=mode, second_reading=True)
    agent = Agent(policy, Environment(Engine(collection), PROFILE), method)
    if store is None:
        return agent.run(QUESTION)
    with store.record() as log:
        return RunResult.of(list(agent.record(QUESTION, log)))


def answering(*answers: str) -> Watching:
    return Watching((VRAG.search("ferry passengers 2024"), *map(VRAG.answer, answers)))


def test_a_right_answer_about_a_clean_page_is_seen(tmp_path: Path) -> None:
    run = run_of(collection_of(tmp_path, lies=False), answering(DRAWN))
    assert {claim.verdict for claim in run.claims} == {ClaimVerdict.SEEN}
    assert trust_line(run) == "1 statement, verified on the page."


def test_what_a_text_layer_says_and_the_page_does_not_show_is_doubted(tmp_path: Path) -> None:
    run = run_of(collection_of(tmp_path, lies=True), answering(STORED))
    doubted = [claim for claim in run.claims if claim.verdict is ClaimVerdict.DOUBTED]
    assert {claim.doubt for claim in doubted} == {ClaimDoubt.READING}
    assert all("48,217" in claim.found for claim in doubted)
    assert trust_line(run) == "1 statement, doubted."


def test_the_model_is_told_once_what_the_picture_shows(tmp_path: Path) -> None:
    policy, store = answering(STORED, DRAWN), RunStore(tmp_path / "runs")
    collection = collection_of(tmp_path, lies=True)
    run = run_of(collection, policy, VerifyMode.REPAIR, store)
    assert run.answer == DRAWN
    assert 'shows "48,217"' in policy.text(2)
    (stored,) = (store.read(entry) for entry in [run.run_id])
    assert sum(isinstance(event, AnswerDoubted) for event in stored.events) == 1
    assert differences(stored.events, list(replay(stored, Engine(collection)))) == []


def test_an_answer_that_is_misread_is_withdrawn(tmp_path: Path) -> None:
    run = run_of(collection_of(tmp_path, lies=True), answering(STORED), VerifyMode.WITHDRAW)
    assert (run.answer, run.withdrawn) == (None, STORED)


@pytest.mark.parametrize("lies", [False, True])
def test_without_a_model_an_answer_that_is_misread_becomes_places(tmp_path: Path, lies: bool) -> None:
    collection = collection_of(tmp_path, lies=lies)
    environment = Environment(Engine(collection), PROFILE)
    run = run_of(collection, VragMethod().policy_without_model(environment))
    if lies:
        assert run.answer is None
        assert run.evidence
        assert run.kind not in {ResultKind.ANSWER, ResultKind.NONE}
    else:
        assert run.answer is not None
        assert "48,217" in run.answer
        assert trust_line(run).startswith(
            "These words stand on page 1 (read twice: as text and as a picture)."
        )


def test_a_strip_is_read_upright_and_nothing_is_read_where_there_is_no_picture(tmp_path: Path) -> None:
    searcher = Engine(collection_of(tmp_path, lies=False))
    (document,) = searcher.list_documents()
    item = searcher.item(f"{document[:16]}-1")
    word = next(word for word in item.words if item.text[word.start : word.end] == "48,217")
    strips = [Strip(word.box, 0), Strip(Box.unit(0, 0, 0, 0), 0)]
    read, empty = PageStrips(searcher).read(item, strips, 40)
    assert read is not None
    assert read.text == "48,217"
    assert read.score > 0.9
    assert empty is None
    assert PageStrips(searcher).read(passage("a.txt", 1, "No picture."), strips, 40) == [None, None]
