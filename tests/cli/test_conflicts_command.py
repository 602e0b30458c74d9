"""`vrag conflicts` on files of several formats."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import run_vrag

pytestmark = pytest.mark.slow

PLAN = """# Fulmar project plan

Draft of 2 March 2025

The budget of the Fulmar project is 3.2 million euros.

| Year | Staff of the Orla yard |
|---|---|
| 2023 | 310 |
| 2024 | 326 |
"""
MEMO = """<html><body><h1>Memo</h1><p>Dated 7 May 2025</p>
<p>According to the owner, the Fulmar project has a budget of €3,400,000.</p>
<p>In 2024, the Orla yard had a staff of 362.</p></body></html>"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "plan.md").write_text(PLAN, encoding="utf-8")
    (documents / "memo.html").write_text(MEMO, encoding="utf-8")
    return documents


def test_both_sides_are_listed_with_place_and_date(folder: Path) -> None:
    done = run_vrag("conflicts", "documents", cwd=folder.parent)

    assert done.status == 0
    for text in ("3.2 million euros", "€3,400,000", "plan.md", "memo.html", "2025-05-07; newer", "draft"):
        assert text in done.out
    assert done.out.splitlines()[-1] == "2 conflicts in 2 documents."


def test_json_has_the_statements_and_the_newer_side(folder: Path) -> None:
    assert run_vrag("index", "add", "documents", "--collection", "c", cwd=folder.parent).status == 0
    found = run_vrag("conflicts", "--collection", "c", "--json", cwd=folder.parent).json

    assert found["documents"] == 2
    (cell,) = (one for one in found["conflicts"] if "326" in {side["value"] for side in one["sides"]})
    assert cell["kind"] == "number"
    assert [side["document"] for side in cell["sides"]] == ["memo.html", "plan.md"]
    assert cell["newer"] == 0
    assert cell["sides"][0]["quote"] == "In 2024, the Orla yard had a staff of 362."


def test_a_folder_without_conflicts_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text(PLAN, encoding="utf-8")
    done = run_vrag("conflicts", "plan.md", cwd=tmp_path)

    assert done.status == 0
    assert done.out.splitlines()[-1] == "No conflicts in 1 document."
