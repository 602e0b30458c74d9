"""Quarantined tests run and are listed, but do not decide; an entry that names no test is an error."""

from __future__ import annotations

from datetime import date

import pytest
from quarantine import QuarantinedTest, QuarantineError, read_quarantine

ENTRY = """
[[test]]
name = "{name}"
since = 2026-11-29
reason = "the server answers late"
"""
FLAKY = """
import pytest

@pytest.mark.parametrize("n", [1, 2])
def test_late(n):
    assert n == 2

def test_other():
    pass
"""


def run(pytester: pytest.Pytester, entries: str, *arguments: str) -> pytest.RunResult:
    """Run a file in which one case fails, with a quarantine."""
    pytester.makeconftest(
        "from quarantine import Quarantine, read_quarantine\n"
        "def pytest_configure(config):\n"
        f"    config.pluginmanager.register(Quarantine(read_quarantine({entries!r})))"
    )
    pytester.makepyfile(test_flaky=FLAKY)
    return pytester.runpytest_inprocess(*arguments)


def test_an_entry_has_a_name_a_date_and_a_reason() -> None:
    assert read_quarantine(ENTRY.format(name="tests/test_a.py::test_b")) == [
        QuarantinedTest("tests/test_a.py::test_b", "the server answers late", date(2026, 11, 29))
    ]
    assert read_quarantine("# nothing") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('reason = "the server answers late"', ""),
        ("the server answers late", " "),
        ("2026-11-29", '"yesterday"'),
        ("reason", "cause"),
        ("[[test]]", "[[tests]]"),
    ],
)
def test_an_incomplete_entry_is_an_error(old: str, new: str) -> None:
    with pytest.raises(QuarantineError, match=r"quarantine\.toml"):
        read_quarantine(ENTRY.format(name="tests/test_a.py::test_b").replace(old, new))


@pytest.mark.parametrize("name", ["test_flaky.py::test_late", "test_flaky.py::test_late[1]"])
def test_a_quarantined_test_may_fail_and_is_listed_with_its_outcome(
    pytester: pytest.Pytester, name: str
) -> None:
    result = run(pytester, ENTRY.format(name=name))

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            f"{name}, since 2026-11-29: the server answers late".replace("[1]", "[[]1[]]"),
            "  failed: *late[[]1[]]",
        ]
    )


def test_a_quarantined_test_may_pass(pytester: pytest.Pytester) -> None:
    result = run(pytester, ENTRY.format(name="test_flaky.py::test_other"), "-k", "other")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["  passed: test_flaky.py::test_other"])


def test_another_test_that_fails_fails(pytester: pytest.Pytester) -> None:
    result = run(pytester, ENTRY.format(name="test_flaky.py::test_late[2]"))

    result.assert_outcomes(failed=1, xpassed=1, passed=1)
    assert result.ret == 1


@pytest.mark.parametrize(
    "name", ["test_flaky.py::test_gone", "test_flaky.py::test_late[3]", "test_gone.py::test_late"]
)
def test_an_entry_that_names_no_test_fails(pytester: pytest.Pytester, name: str) -> None:
    result = run(pytester, ENTRY.format(name=name), "-k", "other")

    result.assert_outcomes(passed=1, failed=1, deselected=2)
    result.stdout.fnmatch_lines(
        [f"*names {name}, which is no test: delete the entry.".replace("[3]", "[[]3[]]")]
    )


def test_an_entry_of_a_file_that_does_not_run_is_no_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_aside="def test_here(): pass")
    result = run(pytester, ENTRY.format(name="test_aside.py::test_here"), "test_flaky.py", "-k", "other")

    assert result.ret == 0


def test_the_section_is_there_without_entries(pytester: pytest.Pytester) -> None:
    run(pytester, "", "-k", "other").stdout.fnmatch_lines(["*quarantine (quarantine.toml)*", "empty"])
