"""The pages about the service name all that it does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi import FastAPI
from hosting import Nothing, Scripted

from vrag.server.app import Service, create_app
from vrag.server.runs.schema import RunRequest
from vrag.testing import tiny_corpus

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("service.md", "serving.md", "collections.md", "protocols.md")


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    return create_app(tiny_corpus(), service=Service(Scripted(tmp_path), Nothing()))


@pytest.mark.slow
def test_every_route_stands_on_a_page(app: FastAPI) -> None:
    text = "\n".join((DOCS / page).read_text(encoding="utf-8") for page in PAGES)
    for path, operations in app.openapi()["paths"].items():
        for method in operations:
            assert re.search(rf"\b{method.upper()} {re.escape(path)}(?![/\w{{])", text), f"{method} {path}"


def test_every_field_of_a_question_is_told(app: FastAPI) -> None:
    text = (DOCS / "service.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?`) \| ", text, re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert set(RunRequest.model_fields) <= told
