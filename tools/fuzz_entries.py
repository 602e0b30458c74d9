"""Entry points of fuzzing: what reads text from elsewhere, such as replies, headers, files and addresses.

Each takes bytes and must end: with a value, or with the errors that its function documents.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pydantic import ValidationError

from vrag.agent.answers.certain_markers import take_certain_markers
from vrag.agent.answers.markers import take_markers
from vrag.agent.events import event_from_json
from vrag.agent.replies.answer_reader import AnswerReader
from vrag.agent.replies.call_parser import KnownNodes, read_call
from vrag.agent.replies.json_repairs import read_damaged_json, read_json
from vrag.agent.replies.tag_repair import read_tags
from vrag.agent.suggestions import read_questions
from vrag.cases.case_json import case_of
from vrag.cases.rows import read_rows
from vrag.chat.errors import ErrorResponse, failure_of, seconds_asked
from vrag.chat.http_clients import base_of
from vrag.corpus.formats.sections import json_lines, json_sections, markdown_sections
from vrag.corpus.formats.texts.html_tree import html_page
from vrag.corpus.sniff import decode, describe_head
from vrag.distill.expert_messages import read_box, read_plan, read_score
from vrag.embed.models.remote import Address
from vrag.errors import (
    CaseError,
    CollectionError,
    CorpusError,
    EmbedError,
    ServerError,
    SettingsError,
    VragError,
)
from vrag.grounding.conventions import parse_box
from vrag.index.location import CollectionHeader
from vrag.providers import hide_credentials, redact_key, split_model
from vrag.reading.questions.answer_form import read_form, write_answer
from vrag.reading.questions.answer_types import find_focus
from vrag.reading.questions.descriptions import find_description
from vrag.reading.questions.follow_ups import completed
from vrag.reading.questions.query_analysis import parse, search_query
from vrag.reading.spans.span_types import type_of_span
from vrag.reading.tables.heads import without_marks
from vrag.reading.verification.claims import extract_claims
from vrag.render.answer_html import turn_html
from vrag.render.answer_markdown import SignedAnswer, clean, write_markdown
from vrag.render.markdown_text import inline, paragraph
from vrag.search.client import parse_problem
from vrag.server.http.compression import accepts_gzip
from vrag.server.http.errors import Refusal
from vrag.server.items import parse_range
from vrag.server.openai.errors import InvalidRequest
from vrag.server.openai.request import CompletionRequest, ResponseRequest, parse_request

if TYPE_CHECKING:
    from collections.abc import Callable


def _replies(data: bytes) -> None:
    text = data[1:].decode(errors="replace")
    last, cut = bool(data[:1] and data[0] & 1), bool(data[:1] and data[0] & 2)
    read_tags(text, frozenset({"lookup"}), last=last, cut=cut)
    read_call(text, KnownNodes(("root", "fares")), frozenset({"lookup"}), last=last, cut=cut)
    for reader in (AnswerReader(is_last=last), AnswerReader(is_call_expected=True, is_last=last)):
        before = ""
        for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
            answer = reader.add(piece)
            assert answer.startswith(before), (before, answer)
            before = answer


def _damaged_json(data: bytes) -> None:
    text = data.decode(errors="replace")
    for read in (read_json, read_damaged_json):
        with suppress(ValueError, RecursionError):
            read(text)


def _expert_replies(data: bytes) -> None:
    text = data.decode(errors="replace")
    for read in (read_plan, read_box, read_score):
        with suppress(ValueError, VragError):
            read(text)
    parse_box(text)
    read_questions(text, {1: "The fare is 3.50."}, 4)


def _markers(data: bytes) -> None:
    text = data.decode(errors="replace")
    take_markers(text, lambda name: name if name[-1:] in "123" else None)
    take_certain_markers(text, lambda name: name if name[-1:] in "123" else None)


def _markdown(data: bytes) -> None:
    text = data.decode(errors="replace")
    html = str(turn_html(text)).casefold()
    assert not any(
        f"<{name}" in html for name in ("script", "img", "iframe", "a ", "style", "svg", "object")
    ), html
    write_markdown(SignedAnswer(clean(text)), str)
    inline(text)
    paragraph(text)
    list(markdown_sections(text))


def _documents(data: bytes) -> None:
    describe_head(data)
    with suppress(CorpusError):
        text = decode(data)
        html_page(text)
        for read in (json_sections, json_lines):
            with suppress(CorpusError, ValueError):
                list(read(text))


def _headers(data: bytes) -> None:
    text = data.decode("latin-1")
    accepts_gzip(text)
    assert seconds_asked({"retry-after": text, "retry-after-ms": text}, 1e9) >= 0
    with suppress(Refusal):
        found = parse_range(text, 1000)
        assert found is None or 0 <= found[0] < found[1] <= 1000, found


def _requests(data: bytes) -> None:
    for kind in (CompletionRequest, ResponseRequest):
        with suppress(InvalidRequest):
            parse_request(data, kind)
    parse_problem(data)
    failure_of(ErrorResponse.of(400, data, "sk-secret"), "http://localhost")
    failure_of(ErrorResponse.in_stream(data, "sk-secret"), "http://localhost")


def _addresses(data: bytes) -> None:
    text = data.decode(errors="replace")
    for read in (base_of, Address):
        with suppress(SettingsError, EmbedError, ServerError):
            read(text)
    split_model(text)
    hide_credentials(text)
    assert "sk-secret" not in redact_key(text + "sk-secret", "sk-secret")


def _run_files(data: bytes) -> None:
    for line in data.split(b"\n"):
        with suppress(ValidationError):
            event_from_json(line)


def _collection_files(data: bytes) -> None:
    with suppress(CollectionError):
        CollectionHeader.parse(data.decode(errors="replace"), "collection")


def _data_sets(data: bytes) -> None:
    with TemporaryDirectory() as folder:
        for name in ("cases.json", "cases.jsonl", "cases.jsonl.gz", "cases.parquet"):
            path = Path(folder, name)
            path.write_bytes(data)
            with suppress(CaseError):
                for row in read_rows(path):
                    if isinstance(row, dict):
                        case_of(row, "the row")  # pyright: ignore[reportUnknownArgumentType]


def _questions(data: bytes) -> None:
    text = data.decode(errors="replace")
    find_focus(text)
    find_description(text)
    parse(text)
    search_query(text)
    completed(text, ["What was the revenue in 2023?"])
    write_answer(text, read_form(text))


def _readings(data: bytes) -> None:
    text = data.decode(errors="replace")
    without_marks(text)
    type_of_span(text)
    extract_claims(text)


ENTRIES: dict[str, Callable[[bytes], None]] = {
    "replies": _replies,
    "damaged-json": _damaged_json,
    "expert-replies": _expert_replies,
    "markers": _markers,
    "markdown": _markdown,
    "documents": _documents,
    "headers": _headers,
    "requests": _requests,
    "addresses": _addresses,
    "run-files": _run_files,
    "collection-files": _collection_files,
    "data-sets": _data_sets,
    "questions": _questions,
    "readings": _readings,
}
"""The entry points by name."""

WORDS = (
    "<think>", "</think>", "<answer>", "<search>", "<bbox>", "<tool_call>",
    '{"name": "', '"arguments": {', "[1]",
    "【3†source】", "<table>", "<img src=", "data:image/png;base64,", "bytes=",
    "gzip;q=0", "http://", "@", "```", "| --- |", "how many",
    "the ship that", "84,210 (a)",
    "\\u0000", "null", "NaN", "1e999",
)  # fmt: skip
"""Pieces of the languages that are read, from which inputs are put together."""
