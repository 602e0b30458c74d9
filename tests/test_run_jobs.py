"""Jobs of workflows, run on this machine by tools/run_jobs.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import run_jobs

ROOT = Path(__file__).parents[1]
WORKFLOW = """
name: Some
env: {GREETING: hello}
jobs:
  first:
    runs-on: ubuntu-24.04
    strategy: {matrix: {word: [one, two]}}
    steps:
      - {name: Check out, uses: actions/checkout@a}
      - name: Write
        run: mkdir out && echo "$GREETING $WORD $CI$MAKEFLAGS" > out/${{ matrix.word }}
        env: {WORD: "${{ matrix.word }}"}
      - {name: Keep, uses: actions/upload-artifact@a, with: {name: out, path: out/}}
      - {name: Publish, uses: some/publisher@a}
      - {name: Release, run: "exit 1", env: {TOKEN: "${{ github.token }}"}}
  second:
    needs: first
    runs-on: ubuntu-24.04
    steps:
      - {name: Get, uses: actions/download-artifact@a, with: {name: out, path: here/}}
      - {name: Show, run: "cat here/one | grep 'hello one true$'"}
      - {name: Fail, run: "false | cat"}
      - {name: Go on, run: "true"}
  third: {needs: [second], runs-on: ubuntu-24.04, steps: [{run: "true"}]}
  other: {runs-on: windows-2025, steps: [{run: "true"}]}
"""


IDENTITY = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a commit and the workflow above, which `run_jobs` takes for its own."""
    root = tmp_path / "repository"
    (root / "workflows").mkdir(parents=True)
    (root / "workflows" / "some.yml").write_text(WORKFLOW, encoding="utf-8")
    for command in (["init", "-q"], ["add", "."], [*IDENTITY, "commit", "-qm", "First"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    monkeypatch.setattr(run_jobs, "ROOT", root)
    monkeypatch.setattr(run_jobs, "WORKFLOWS", root / "workflows")
    return root


def test_a_job_that_calls_a_workflow_is_the_job_of_that_workflow(tmp_path: Path) -> None:
    (tmp_path / "caller.yml").write_text(
        "jobs: {first: {needs: zeroth, uses: $/.github/workflows/called.yml}}", encoding="utf-8"
    )
    (tmp_path / "called.yml").write_text(
        "on: {workflow_call: }\njobs: {inside: {runs-on: ubuntu-24.04, steps: [{run: make it}]}}",
        encoding="utf-8",
    )
    [job] = run_jobs.read_jobs(tmp_path / "caller.yml")
    assert (str(job), job.needs, job.steps[0].run) == ("caller/first", ("zeroth",), "make it")
    assert run_jobs.read_jobs(tmp_path / "called.yml") == []


@pytest.mark.skipif(sys.platform != "linux", reason="the jobs of this workflow are for Linux")
@pytest.mark.skipif(shutil.which("bash") is None, reason="steps are run by bash")
class TestRunJobs:
    def run(self, repository: Path, folder: Path, *names: str) -> dict[str, tuple[str, str]]:
        jobs = run_jobs.choose_jobs(run_jobs.read_jobs(repository / "workflows" / "some.yml"), list(names))
        outcomes = run_jobs.run_jobs(jobs, run_jobs.Machine(folder, {}))
        return {f"{outcome.job}: {outcome.step}": (outcome.state, outcome.remark) for outcome in outcomes}

    @pytest.mark.slow
    def test_commands_run_with_matrix_environment_and_files_of_earlier_jobs(
        self, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MAKEFLAGS", " -- JOBS=first")
        found = self.run(repository, tmp_path / "jobs", "first:one", "second")

        assert found["some/first:one: Write"][0] == "passed"
        assert found["some/first:one: Keep"] == ("passed", "1 files copied")
        assert found["some/second: Show"][0] == "passed"
        assert not (repository / "out").exists()

    @pytest.mark.slow
    def test_what_github_alone_can_do_is_skipped_with_the_reason(
        self, repository: Path, tmp_path: Path
    ) -> None:
        found = self.run(repository, tmp_path / "jobs", "first:one", "other")

        assert found["some/first:one: Check out"] == ("skipped", "the clone")
        assert found["some/first:one: Publish"] == (
            "skipped",
            "the action some/publisher runs on GitHub alone",
        )
        assert found["some/first:one: Release"] == ("skipped", "GitHub alone knows github.token")
        assert found["some/other: all steps"] == ("skipped", "needs windows-2025")

    @pytest.mark.slow
    def test_after_a_failure_neither_later_steps_nor_jobs_that_need_it_run(
        self, repository: Path, tmp_path: Path
    ) -> None:
        found = self.run(repository, tmp_path / "jobs", "first:one", "second", "third")

        assert found["some/second: Fail"][0] == "failed"
        assert found["some/second: Go on"] == ("skipped", "an earlier step failed")
        assert found["some/third: all steps"] == ("skipped", "second failed")

    @pytest.mark.slow
    def test_a_folder_that_is_kept_has_the_current_commit_and_the_environment_alone(
        self, repository: Path, tmp_path: Path
    ) -> None:
        self.run(repository, tmp_path / "jobs", "first:one")
        clone = tmp_path / "jobs" / "python-any"
        (clone / ".venv").mkdir()
        (repository / "workflows" / "some.yml").write_text(
            WORKFLOW.replace("hello", "bonjour"), encoding="utf-8"
        )
        subprocess.run(["git", *IDENTITY, "commit", "-qam", "Second"], cwd=repository, check=True)
        self.run(repository, tmp_path / "jobs", "first:two")

        assert sorted(path.name for path in clone.iterdir()) == [".git", ".venv", "out", "workflows"]
        assert (clone / "out" / "two").read_text() == "bonjour two true\n"
        assert "bonjour" in (clone / "workflows" / "some.yml").read_text(encoding="utf-8")

    @pytest.mark.slow
    def test_an_unknown_job_is_an_error(self, repository: Path) -> None:
        jobs = run_jobs.read_jobs(repository / "workflows" / "some.yml")

        with pytest.raises(ValueError, match="No job is called 'forth'"):
            run_jobs.choose_jobs(jobs, ["first", "forth"])

    @pytest.mark.slow
    def test_a_version_of_python_is_found_by_what_it_says(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        liar = tmp_path / "python3.99"
        liar.write_text("#!/bin/sh\necho 3.98\n", encoding="utf-8")
        liar.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

        assert run_jobs.find_python("3.99") is None
        run_jobs.find_python.cache_clear()
        liar.write_text("#!/bin/sh\necho 3.99\n", encoding="utf-8")
        assert run_jobs.find_python("3.99") == str(liar)

    def test_the_jobs_of_this_repository_can_be_read(self) -> None:
        jobs = [
            job for file in (ROOT / ".github/workflows").glob("*.yml") for job in run_jobs.read_jobs(file)
        ]

        assert {"ci/check", "ci/test:3.11", "release/pypi"} <= {str(job) for job in jobs}
        assert all(job.steps and job.runner.partition("-")[0] in run_jobs.SYSTEMS for job in jobs)
