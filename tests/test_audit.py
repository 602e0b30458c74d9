"""The check of the lock files: what it finds wrong, and that ours hold to it without the index."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tools import audit

ROOT = Path(__file__).parent.parent
NOW = datetime(2026, 11, 1, tzinfo=UTC)
OWN, OTHER = "a" * 64, "b" * 64


def project(**file: object) -> dict[str, Any]:
    own = {"hashes": {"sha256": OWN}, "upload-time": "2025-01-01T00:00:00.000000Z", "yanked": False}
    return {"files": [own | file]}


def test_our_locks_have_hashes_for_every_requirement() -> None:
    for lock in audit.LOCKS:
        pins, problems = audit.read_pins((ROOT / lock).read_text())
        assert not problems, lock
        assert len(pins) > 5


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("numpy>=2", "not pinned"),
        ("numpy==2.0", "no hash"),
        ("git+https://example.org/numpy", "not pinned"),
        ("--extra-index-url https://example.org", "not pinned"),
        (f"numpy @ https://example.org/numpy.whl --hash=sha256:{OWN}", "not pinned"),
    ],
)
def test_what_is_not_pinned_with_a_hash_is_named(line: str, problem: str) -> None:
    good = f"Pillow==12.0 ; python_version > '3' \\\n    --hash=sha256:{OWN}  # why\n"
    pins, problems = audit.read_pins(good + line + "\n")
    assert [(pin.name, pin.version, pin.hashes) for pin in pins] == [("pillow", "12.0", {OWN})]
    assert len(problems) == 1
    assert problem in problems[0]


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ({}, None),
        ({"yanked": "broken wheel"}, "is yanked: broken wheel"),
        ({"hashes": {"sha256": OTHER}}, "none of its hashes"),
        ({"upload-time": "2020-01-01T00:00:00Z"}, "no release for 6.8 years"),
    ],
)
def test_what_the_index_says_of_a_release_is_told(file: dict[str, object], problem: str | None) -> None:
    pin = audit.Pin("left-pad", "1.0", frozenset({OWN}))
    found = audit.check_release(pin, project(**file), NOW)
    assert len(found) == (problem is not None)
    assert problem is None or problem in found[0]


def test_a_project_that_the_index_does_not_answer_for_is_not_taken_for_a_good_one() -> None:
    pins = [audit.Pin(name, "1.0", frozenset({OWN})) for name in ("good", "gone")]
    answers = {"good": project(), "gone": None}
    assert audit.audit(pins, answers.__getitem__, NOW) == ([], ["gone"])


def test_quiet_projects_are_in_the_locks_and_have_reasons() -> None:
    names = {pin.name for lock in audit.LOCKS for pin in audit.read_pins((ROOT / lock).read_text())[0]}
    assert set(audit.QUIET) <= names
    assert all(audit.QUIET.values())
