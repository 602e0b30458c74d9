"""Answers in the form that a client asks for: what a schema has a place for, and nothing else."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.server.openai.answer_format import JsonForm, UnfitError, read_format
from vrag.server.openai.errors import InvalidRequest

TEXT: Any = {"type": "string"}
TEXTS: Any = {"type": "array", "items": TEXT}
SOURCE = {"number": 1, "document": "a.pdf", "title": "a.pdf, page 2", "page": 2, "url": "u", "quote": None}


def fields(**properties: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"type": "object", "properties": properties, "required": list(properties)}


PLACE, NULL = fields(file=TEXT, page={"type": "integer"}), {"type": "null"}


def fill(schema: dict[str, Any], answer: str | None = "48,200", function: str = "") -> Any:  # noqa: ANN401 - JSON
    form = JsonForm(schema, function, "response_format")
    form.check()
    return json.loads(form.fill({"answer": answer, "sources": [SOURCE]}, "answer"))


@pytest.mark.parametrize(
    ("schema", "answer", "filled"),
    [
        (fields(answer=TEXT), "Yes", {"answer": "Yes"}),
        (fields(answer=TEXT | {"minLength": 1}), "Yes", {"answer": "Yes"}),
        (fields(reply=TEXT, why={"type": ["string", "null"]}), "Yes", {"reply": "Yes", "why": None}),
        (fields(passengers={"type": "integer"}), "48,200", {"passengers": 48200}),
        (fields(share={"type": "number"}), "-0.5", {"share": -0.5}),
        (fields(open={"type": "boolean"}), "No.", {"open": False}),
        (fields(color={"enum": ["red", "green"]}), "Green", {"color": "green"}),
        (fields(answers=TEXTS), "Yes", {"answers": ["Yes"]}),
        ({**fields(result=TEXT, mood=TEXT), "required": ["result"]}, "Yes", {"result": "Yes"}),
        (fields(answer=TEXT, sources=TEXTS), "A", {"answer": "A", "sources": ["a.pdf, page 2"]}),
        (fields(answer=TEXT, source=TEXT), "A", {"answer": "A", "source": "a.pdf, page 2"}),
        (
            fields(answer=TEXT, citations={"type": "array", "items": PLACE}),
            "A",
            {"answer": "A", "citations": [{"file": "a.pdf", "page": 2}]},
        ),
        (
            {"$ref": "#/$defs/A", "$defs": {"A": fields(answer=TEXT, next={"anyOf": [{"$ref": "#"}, NULL]})}},
            "A",
            {"answer": "A", "next": None},
        ),
    ],
)  # fmt: skip
def test_a_schema_takes_the_answer_and_its_sources(
    schema: dict[str, Any], answer: str, filled: object
) -> None:
    assert fill(schema, answer) == filled
    jsonschema.validate(filled, schema)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (fields(capital=TEXT, population=TEXT), "none of its fields is named answer"),
        (fields(answer=TEXT, population={"type": "integer"}), "'population', which an answer does not have"),
        (fields(answer={"type": "string", "pattern": "^A"}), "the rule 'pattern'"),
        (fields(answer={"type": "object", "properties": {}}), "'answer' is an object"),
        (fields(answer={"$ref": "#/properties/answer"}), "references in a circle"),
        (fields(answer={"anyOf": [{"$ref": "#"}] * 9}), "an object"),
        (fields(answer={"type": "array", "items": {"$ref": "#/properties/answer"}}), "nested too deeply"),
        ({"type": "array", "items": TEXT}, "not an object"),
        ({"type": "object"}, "not an object with properties"),
        ({}, "not an object with properties"),
    ],
)
def test_a_schema_without_a_place_for_an_answer_is_refused_before_a_run(
    schema: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidRequest, match=reason) as caught:
        fill(schema)
    assert (caught.value.status, caught.value.param) == (400, "response_format")


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        (fields(passengers={"type": "integer"}), "about 48,200"),
        (fields(passengers={"type": "integer"}), "48.5"),
        (fields(passengers={"type": "integer"}), "9" * 400),
        (fields(open={"type": "boolean"}), "Perhaps"),
        (fields(color={"enum": ["red", "green"]}), "Blue"),
        (fields(answer=TEXT), None),
        (fields(n={"type": ["integer", "null"]}), "many"),
    ],
)
def test_an_answer_that_does_not_fit_is_not_bent(schema: dict[str, Any], answer: str | None) -> None:
    with pytest.raises(UnfitError):
        fill(schema, answer)


def test_no_answer_is_null_where_the_schema_allows_it() -> None:
    assert fill(fields(answer={"type": ["string", "null"]}), None) == {"answer": None}


def test_arguments_of_a_function_take_the_answer_by_name_only() -> None:
    assert fill(fields(answer=TEXT), "A", "respond") == {"answer": "A"}
    with pytest.raises(InvalidRequest, match="none of its fields"):
        fill(fields(location=TEXT), "A", "get_weather")


FORMAT: Any = {"name": "x", "schema": fields(answer=TEXT), "strict": True}
TOOLS: Any = [
    {"type": "function", "function": {"name": "weather", "parameters": fields(location=TEXT)}},
    {"type": "function", "function": {"name": "respond", "parameters": fields(answer=TEXT)}},
]


class TestReading:
    def test_both_interfaces_write_a_format_their_way(self) -> None:
        nested = read_format({"type": "json_schema", "json_schema": FORMAT}, None, None, "response_format")
        flat = read_format({"type": "json_schema", **FORMAT}, None, None, "response_format")
        assert nested == flat == JsonForm(FORMAT["schema"])

    @pytest.mark.parametrize(
        "choice",
        [
            None,
            "auto",
            "none",
            {"type": "allowed_tools", "mode": "auto"},
            {"type": "file_search"},
            {"type": "web_search_preview"},
        ],
    )
    def test_tools_that_need_not_be_called_change_nothing(self, choice: object) -> None:
        assert read_format(None, TOOLS, choice, "response_format") is None

    @pytest.mark.parametrize(
        "choice",
        [
            "required",
            {"type": "function", "function": {"name": "respond"}},
            {"type": "function", "name": "respond"},
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}},
        ],
    )
    @pytest.mark.parametrize("flat", [False, True])
    def test_a_function_that_must_be_called_is_one_that_takes_the_answer(
        self, choice: object, flat: bool
    ) -> None:
        tools = [{"type": "function", **tool["function"]} for tool in TOOLS] if flat else TOOLS
        form = read_format(None, tools, choice, "response_format")
        assert form == JsonForm(fields(answer=TEXT), "respond", "tool_choice")

    @pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "other"}}])
    def test_a_function_that_is_not_there_cannot_be_called(self, choice: object) -> None:
        with pytest.raises(InvalidRequest) as caught:
            read_format(None, [], choice, "response_format")
        assert caught.value.param == "tool_choice"


def array(items: Any) -> Any:  # noqa: ANN401 - JSON
    return {"type": "array", "items": items}


def one_of(schemas: Any) -> Any:  # noqa: ANN401 - JSON
    return {"anyOf": schemas}


def some_fields(properties: Any, optional: int) -> Any:  # noqa: ANN401 - JSON
    return {**fields(**properties), "required": sorted(properties)[optional:]}


NAMES = ["answer", "result", "sources", "page", "file", "x"]
LEAVES: list[Any] = [
    {},
    TEXT,
    {"type": "integer"},
    {"type": "null"},
    {"type": ["number", "null"]},
    {"enum": ["a", None, 1]},
]
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.builds(array, inner),
        st.builds(one_of, st.lists(inner, min_size=1, max_size=3)),
        st.builds(some_fields, st.dictionaries(st.sampled_from(NAMES), inner, max_size=4), st.integers(0, 2)),
    ),
    max_leaves=8,
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)


@given(SCHEMAS, st.sampled_from(["48,200", "Yes", "0.5", "a", None]), st.booleans())
def test_whatever_is_filled_is_valid_and_holds_the_answer(
    schema: dict[str, Any], answer: str | None, called: bool
) -> None:
    try:
        filled = fill(schema, answer, "f" if called else "")
    except (InvalidRequest, UnfitError):
        return
    jsonschema.validate(filled, schema)
    assert filled


@given(JSON, JSON, JSON)
def test_whatever_a_client_asks_for_is_read_or_refused(wanted: object, tools: object, choice: object) -> None:
    with contextlib.suppress(InvalidRequest):
        form = read_format(wanted, tools, choice, "response_format")
        if form is not None:
            form.check()
