"""The study of mutants: where code is changed, which tests are tried in which order, and what is told."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tools.mutation import __main__ as study
from tools.mutation.__main__ import Record, TimedTest, Trial, make_table, read_record
from tools.mutation.startup.mutants import (
    MUTANT,
    STUDY,
    TEST,
    draw_sites,
    find_sites,
    mark,
    mutate,
    write_sites,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tools.mutation.startup.mutants import Site

CODE = '''
LIMIT = 3

def count(values: list[int], most: int = 5) -> int:
    """Count what is small."""
    found = 0
    for value in values:
        if value < most and not value == 2:
            found = found + 1
            continue
        print(f"{value - 1} is large")
    return found
'''


def sites_of(text: str) -> dict[str, Site]:
    return {site.change: site for site in find_sites(text, "small")}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("and/or", "if value < most or not value == 2:"),
        ("not", "if value < most and value == 2:"),
        ("arithmetic", "found = found - 1"),
        ("break/continue", "break"),
        ("call left out", "pass"),
        ("returns None", "return None"),
        ("condition", "if not (value < most and (not value == 2)):"),
    ],
)
def test_a_change_is_made_at_its_site_and_nowhere_else(change: str, line: str) -> None:
    before = ast.unparse(ast.parse(CODE)).splitlines()
    after = ast.unparse(mutate(CODE, sites_of(CODE)[change])).splitlines()

    [changed] = [new.strip() for old, new in zip(before, after, strict=True) if old != new]
    assert changed == line


def test_types_texts_defaults_and_what_is_raised_are_left_alone() -> None:
    text = 'def fail(number: int = 1 + 2) -> None:\n    found: "list[1]"\n    raise ValueError(number + 1)\n'

    assert find_sites(text, "small") == []


def test_a_site_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="is not there"):
        mutate("def count() -> int:\n    return 1\n", sites_of(CODE)["not"])


def test_a_statement_that_is_marked_notes_its_sites_and_runs() -> None:
    noted: list[int] = []
    names = {"__note_site__": noted.append}
    exec(compile(mark(CODE, [sites_of(CODE)["arithmetic"]]), "small.py", "exec"), names)
    count = names["count"]

    assert count([1, 2, 9]) == 1  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert noted == [0]


def test_of_a_statement_at_most_one_site_is_drawn_and_the_seed_decides(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(CODE)
    drawn = draw_sites(tmp_path, 50, seed=3)

    assert len({site.statement for site in drawn}) == len(drawn) > 4
    assert [site.number for site in drawn] == list(range(len(drawn)))
    assert drawn == draw_sites(tmp_path, 50, seed=3)
    assert drawn[:2] == draw_sites(tmp_path, 2, seed=3)


NEAR, CHEAP, DEAR, SECOND = (
    TimedTest("tests/agent/test_loop.py::test_a", 1, 2.0),
    TimedTest("tests/cli/test_cli.py::test_b", 1, 0.1),
    TimedTest("tests/cli/test_cli.py::test_c", 1, 9.0),
    TimedTest("tests/browser/test_page.py::test_d", 2, 3.0),
)
RECORD = Record(
    {test.name: test for test in (NEAR, CHEAP, DEAR, SECOND)},
    {0: frozenset({NEAR.name, CHEAP.name, DEAR.name, SECOND.name}), 1: frozenset({SECOND.name})},
)


def site(number: int) -> Site:
    return find_sites("def f():\n    return 1\n", "vrag.agent.loop")[0].__class__(
        number, "vrag.agent.loop", "returns None", (7, 4, 7, 12), (7, 4)
    )


def test_near_tests_come_first_then_cheap_ones_within_the_time() -> None:
    assert RECORD.choose(site(0), 1, 20) == [NEAR, CHEAP, DEAR]
    assert RECORD.choose(site(0), 1, 5) == [NEAR, CHEAP]
    assert RECORD.choose(site(0), 2, 20) == [SECOND]
    assert RECORD.choose(site(2), 1, 20) == []


def test_the_second_tier_is_tried_for_what_the_first_does_not_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[list[TimedTest]] = []

    def fail_in_second(_folder: Path, _site: Site, tests: list[TimedTest]) -> bool:
        tried.append(tests)
        return SECOND in tests

    monkeypatch.setattr(study, "try_tests", fail_in_second)

    assert study.try_mutant(tmp_path, RECORD, site(0), (20, 20)) == Trial(0, 2, (3, 1))
    assert tried == [[NEAR, CHEAP, DEAR], [SECOND]]


def test_what_processes_have_written_is_read_as_one_record(tmp_path: Path) -> None:
    for folder in ("times", "hits"):
        (tmp_path / folder).mkdir()
    (tmp_path / "times" / "1").write_text("2.0\t1\ttests/a.py::test_a[x y]\n")
    (tmp_path / "hits" / "1").write_text("4\ttests/a.py::test_a[x y]\n4\ttests/a.py::test_failed\n")
    (tmp_path / "hits" / "2").write_text("5\ttests/a.py::test_a[x y]\n4\t\n")

    record = read_record(tmp_path)

    assert record.tests == {"tests/a.py::test_a[x y]": TimedTest("tests/a.py::test_a[x y]", 1, 2.0)}
    assert record.covering == {4: {"tests/a.py::test_a[x y]"}, 5: {"tests/a.py::test_a[x y]"}}


def test_the_table_has_shares_with_intervals_and_names_what_the_first_tier_misses() -> None:
    trials = [Trial(n, 1, (3, 0)) for n in range(18)] + [Trial(18, 2, (3, 1)), Trial(19, None, (2, 0))]
    table = make_table([site(n) for n in range(20)], trials)

    assert "| first | 18 | 94.7% | 75.4% to 99.1% | 90.0% | 69.9% to 97.2% |" in table
    assert "- vrag.agent.loop:7 returns None: found by tier 2 (3 tests of the first tier" in table
    assert "- vrag.agent.loop:7 returns None: survived (2 tests" in table


@pytest.mark.slow
def test_a_process_notes_what_runs_and_applies_a_mutant(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(CODE)
    for folder in ("hits", "code"):
        (tmp_path / folder).mkdir()
    sites = draw_sites(tmp_path, 50, seed=1)
    write_sites(tmp_path, sites)
    [returns] = [site for site in sites if site.change == "returns None"]
    environment = os.environ | {"PYTHONPATH": f"{study.STARTUP}{os.pathsep}{tmp_path}", STUDY: str(tmp_path)}

    def counted(**more: str) -> str:
        command = [sys.executable, "-c", "import small; print(small.count([1, 2]))"]
        done = subprocess.run(command, env=environment | more, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()[-1]

    assert counted(**{TEST: "test_x"}) == "1"
    [hits] = (tmp_path / "hits").iterdir()
    assert f"{returns.number}\ttest_x" in hits.read_text().splitlines()
    assert counted(**{MUTANT: str(returns.number)}) == "None"
