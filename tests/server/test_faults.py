"""What is wrong with a value is said in words of people, and repeats nothing of it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

import vrag.server
from vrag.search.schema import NOT_BLANK
from vrag.server.http.errors import fault_message


def _even(number: int) -> int:
    if number % 2:
        raise ValueError("it is odd")
    return number


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=5000)
    names: list[str] = Field(default=[], min_length=2, max_length=3)
    blank: str = Field(default="a", pattern=NOT_BLANK)
    id: str = Field(default="a", pattern="^a$")
    even: Annotated[int, AfterValidator(_even)] = 0


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({}, "It is missing"),
        ({"text": ""}, "It is empty"),
        ({"text": "secret" * 1000}, "It has more than 5,000 characters"),
        ({"text": "a", "names": ["secret"]}, "It has fewer than 2 entries"),
        ({"text": "a", "names": ["secret"] * 4}, "It has more than 3 entries"),
        ({"text": "a", "secret": 1}, "There is no such field"),
        ({"text": "a", "blank": " "}, "It must not be blank"),
        ({"text": "a", "id": "secret"}, "It does not have a valid form"),
        ({"text": "a", "even": 3}, "It is odd"),
        ({"text": 3}, "Input should be a valid string"),
        ("secret", "It is not a JSON object"),
    ],
)
def test_a_fault_is_a_sentence(sent: object, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Asked.model_validate(sent)
    [fault] = refused.value.errors()
    assert fault_message(fault) == words


@pytest.mark.parametrize("body", ["secret", "{", '{"text": "secret', "[" * 3, "\ud800", ""])
def test_what_is_no_json_is_said_without_it(body: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Asked.model_validate_json(body.encode("utf-8", "surrogatepass"))
    assert re.fullmatch(r"The body is not JSON", fault_message(refused.value.errors()[0]))


@pytest.mark.parametrize(
    "file", sorted(Path(vrag.server.__file__).parent.rglob("*.py")), ids=lambda file: file.stem
)
def test_messages_that_people_read_on_the_page_name_no_route(file: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Call)]
    refusals = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Refusal"]
    texts = [
        str(part.value)
        for call in refusals
        for argument in call.args
        for part in ast.walk(argument)
        if isinstance(part, ast.Constant)
    ]
    told = [text for text in texts if re.search(r"\b(GET|POST|PUT|DELETE) /|--[a-z]|(?<!\w)/[a-z]+/", text)]
    assert told == []
