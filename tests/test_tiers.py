"""The guard between the tiers: which tests may start a process, and what those are told that may not."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

import pytest
import tiers

START = """
import sys
import pytest

def start():
    sys.audit({event!r}, *{arguments!r})

{marker}
def test_starting():
    start()
"""


def write_test(pytester: pytest.Pytester, event: str, *arguments: object, marker: str = "") -> None:
    """Write a test that raises the event of a process that starts, with the guard."""
    pytester.makeconftest(
        "import tiers\ndef pytest_configure(config):\n    config.pluginmanager.register(tiers)"
    )
    pytester.makeini("[pytest]\nmarkers =\n    slow\n    smoke\n")
    pytester.makepyfile(START.format(event=event, arguments=arguments, marker=marker))


@pytest.mark.parametrize(
    "event", ["os.fork", "os.posix_spawn", "os.system", "subprocess.Popen", "vrag.spawn", "os.exec"]
)
def test_a_test_that_starts_a_process_fails_and_is_told_how_to_mark_it(
    pytester: pytest.Pytester, event: str
) -> None:
    write_test(pytester, event, "program")
    result = pytester.runpytest_inprocess()

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*This test started a process (program*mark it @pytest.mark.slow*"])


@pytest.mark.parametrize("marker", ["@pytest.mark.slow", "@pytest.mark.smoke"])
def test_a_test_of_the_second_tier_or_one_of_its_kind_may_start_one(
    pytester: pytest.Pytester, marker: str
) -> None:
    write_test(pytester, "subprocess.Popen", "program", marker=marker)

    pytester.runpytest_inprocess().assert_outcomes(passed=1)


def test_other_events_and_questions_about_the_machine_are_no_processes(pytester: pytest.Pytester) -> None:
    write_test(pytester, "subprocess.Popen", "uname")
    pytester.runpytest_inprocess().assert_outcomes(passed=1)

    write_test(pytester, "open", "file")
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


def test_a_process_of_a_fixture_counts(pytester: pytest.Pytester) -> None:
    write_test(pytester, "os.fork")
    path = pytester.path / "test_a_process_of_a_fixture_counts.py"
    text = path.read_text().replace("def start", "@pytest.fixture(autouse=True)\ndef start")
    path.write_text(text.replace("    start()", "    pass"))

    pytester.runpytest_inprocess().assert_outcomes(passed=1, errors=1)


@pytest.mark.smoke
def test_real_processes_raise_these_events(monkeypatch: pytest.MonkeyPatch) -> None:
    observed = tiers.WatchedTest(may_start=False)
    monkeypatch.setattr(tiers, "watched", [observed])
    subprocess.run([sys.executable, "-c", ""], check=True)
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    process = multiprocessing.get_context("spawn").Process(target=int)
    process.start()
    process.join()

    assert len(observed.started) >= 3
    assert all(", from tests/test_tiers.py:" in start for start in observed.started[:2])
