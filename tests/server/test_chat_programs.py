"""Whole conversations of chat programs, with their side questions, as these programs send them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from completions_client import CROP, client_of
from hosting import ANSWER, SEARCH
from hypothesis import given
from hypothesis import strategies as st
from library_harness import Lines, Served, first_collection
from server_harness import serving
from service_harness import Doors, doors, scripted

from vrag.errors import CollectionError
from vrag.factory.collection_registry import CollectionRegistry
from vrag.server.app import Service
from vrag.server.collections.questions import SuggestedQuestionInfo, SuggestedQuestions
from vrag.server.collections.service import CollectionService
from vrag.server.openai.chat_tasks import choose_tags, find_task, own_words, read_conversation, shorten_title
from vrag.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Generator

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "chat_programs.json").read_text(encoding="utf-8")
)
SUGGESTED = ["How many passengers?", "How many cars?", "How long is the crossing?", "What is the fare?"]

pytestmark = pytest.mark.usefixtures("closing")


@pytest.fixture
def suggesting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Doors]:
    """A server whose documents answer some questions."""

    def suggested_texts(_: CollectionService, name: str | None) -> list[str]:
        assert name is None
        return SUGGESTED

    monkeypatch.setattr(CollectionService, "suggested_texts", suggested_texts)
    with doors(scripted(tmp_path, (SEARCH, CROP, ANSWER))) as opened:
        yield opened


def runs_of(address: str) -> list[dict[str, Any]]:
    return httpx.get(f"{address}/runs").json()["runs"]


def put_in(value: Any, answer: str) -> Any:  # noqa: ANN401
    """A body with what was answered before in its place."""
    return json.loads(json.dumps(value).replace("{answer}", json.dumps(answer)[1:-1]))


@pytest.mark.parametrize("program", list(RECORDED))
def test_a_conversation_has_its_answers_and_side_questions_have_no_runs(
    suggesting: Doors, program: str
) -> None:
    client, answer, asked = client_of(suggesting.address), "48,200", list[str]()
    for step in RECORDED[program]:
        body = put_in(step["body"], answer)
        message = whole_message(client.chat.completions.create(**allowed(body)))
        if "answers" in step:
            answer = message["content"]
            assert answer.startswith(step["answers"]), step["name"]
            asked.append(step.get("question", "How many passengers?"))
            assert [run["question"] for run in reversed(runs_of(suggesting.address))] == asked
        elif "arguments" in step:
            (call,) = message["tool_calls"]
            assert json.loads(call["function"]["arguments"]) == step["arguments"], step["name"]
        elif "json" in step:
            assert json.loads(message["content"]) == step["json"], step["name"]
        else:
            assert message["content"] == step["text"], step["name"]
    assert len(runs_of(suggesting.address)) == len(asked)


def allowed(body: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the client that make it send a body."""
    known = ("model", "messages", "stream")
    further = {name: value for name, value in body.items() if name not in known}
    return {**{name: body[name] for name in known if name in body}, "extra_body": further}


def whole_message(reply: Any) -> dict[str, Any]:  # noqa: ANN401
    if hasattr(reply, "choices"):
        return reply.choices[0].message.model_dump()
    chunks = [chunk.model_dump() for chunk in reply]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    return {"content": "".join(delta["content"] or "" for delta in deltas)}


def test_the_history_of_a_conversation_is_without_calls_of_tools(suggesting: Doors) -> None:
    body = put_in(RECORDED["librechat"][-1]["body"], "48,200")
    client_of(suggesting.address).chat.completions.create(**allowed({**body, "stream": False}))
    run = suggesting.answering.store.read(runs_of(suggesting.address)[0]["id"])
    assert [(turn.question, turn.answer) for turn in run.started.history] == [
        ("How many passengers?", "48,200")
    ]


def test_follow_up_questions_are_those_that_the_documents_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = CollectionRegistry.open(Settings(collection=str(first_collection(tmp_path)), workers=1))
    registry.create("damaged")
    answering = scripted(tmp_path / "runs")
    follow_ups: Any = next(step["body"] for step in RECORDED["open-webui"] if step["name"] == "follow-ups")
    asked: list[str] = []

    def questions(_: CollectionService, name: str, *__: object) -> Any:  # noqa: ANN401
        asked.append(name)
        if name == "damaged":
            raise CollectionError("It cannot be read.")
        found = SuggestedQuestionInfo(text="What is the fare?", document="1", name="fares.pdf")
        return SuggestedQuestions(questions=[found], pending=False)

    monkeypatch.setattr(CollectionService, "questions", questions)
    service = Service(answering, Served(registry, Lines()))
    with serving(answering.searcher, None, service=service) as address:
        create: Any = client_of(address).chat.completions.create
        done = create(**allowed(follow_ups))
    assert json.loads(done.choices[0].message.content or "") == {"follow_ups": ["What is the fare?"]}
    assert asked == [*registry.names]


class TestRecognition:
    @pytest.mark.parametrize(
        "question",
        [
            "What is the title of the conversation between Ada and Charles?",
            "### Task: what does this heading stand for?",
            'Which page has { "title": "x" } and <chat_history>?',
            "Provide a title for chapter 3.",
            "Available Tools: which are there?",
            "How many passengers?\n<chat_history>",
            '### Task:\nRespond to the user query using the provided context { "title": 1 } <chat_history>',
        ],
    )
    def test_a_question_about_documents_is_none(self, question: str) -> None:
        assert find_task("", [question]) is None
        assert find_task("You are a helpful assistant.", ["Hello", question]) is None

    def test_a_conversation_that_goes_on_is_none(self, suggesting: Doors) -> None:
        title = RECORDED["librechat"][1]["body"]["messages"]
        turns: Any = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}, *title]
        client_of(suggesting.address).chat.completions.create(model="vrag", messages=turns)
        assert len(runs_of(suggesting.address)) == 1

    @given(st.text(max_size=200), st.text(max_size=200))
    def test_any_history_is_read(self, question: str, further: str) -> None:
        task = find_task("", [f'### Task:\n{{ "title": "" }}\n<chat_history>\n{question}\n{further}'])
        assert task is not None
        assert json.loads(task.write(task.answer(()), None))["title"]

    def test_a_question_of_several_lines_is_one(self) -> None:
        turns = read_conversation("USER: One\ntwo\nASSISTANT: Three: 3\nUSER: Four")
        assert turns == [("user", "One\ntwo"), ("assistant", "Three: 3"), ("user", "Four")]

    def test_code_in_an_answer_is_not_the_conversation(self) -> None:
        prompt = "Provide a concise, 5-word-or-less title for the conversation.\n\nConversation:\n"
        task = find_task("", [f"{prompt}User: How many?\nAI: ```\nx = 1\n```"])
        assert task is not None
        assert task.questions == ("How many?",)

    def test_passages_of_a_program_are_left_out_of_the_question(self) -> None:
        head = "### Task:\nRespond to the user query using the provided context, …\n<context>\nA\n</context>"
        assert own_words(f"{head}\n\nHow many?") == "How many?"
        assert own_words(f"{head}\n<user_query>\nHow many?\n</user_query>\n") == "How many?"
        assert own_words(head) == head
        assert own_words("<context>A</context> How many?") == "<context>A</context> How many?"


class TestAnswers:
    def test_a_title_ends_at_a_word(self) -> None:
        title = shorten_title(
            ["How many passengers did the ferry carry between the islands in the year 2023?"]
        )
        assert title == "How many passengers did the ferry carry between the islands"
        assert shorten_title(["2023年的收入是多少？"]) == "2023年的收入是多少"
        assert len(shorten_title(["x" * 500])) == 60
        assert shorten_title([" \n "]) == shorten_title([]) == "New chat"

    def test_tags_are_words_of_the_questions_those_of_the_answers_first(self) -> None:
        assert choose_tags(["Which year had most passengers?"], "In 2023: passengers 48,200") == [
            "Passengers",
            "Year",
        ]
        assert choose_tags(["Why?"], "") == ["General"]

    def test_a_schema_without_a_place_for_the_title_is_refused(self, suggesting: Doors) -> None:
        body = json.loads(json.dumps(RECORDED["librechat"][2]["body"]))
        body["response_format"]["json_schema"]["schema"] = {
            "type": "object",
            "properties": {"mood": {"type": "integer"}},
            "required": ["mood"],
        }
        response = httpx.post(f"{suggesting.address}/v1/chat/completions", json=body)
        assert (response.status_code, response.json()["error"]["param"]) == (400, "response_format")
        assert runs_of(suggesting.address) == []
