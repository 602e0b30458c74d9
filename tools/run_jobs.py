"""Runs jobs of .github/workflows on this machine: `python tools/run_jobs.py [JOB …]`.

The `run` steps of a job are run in the order of the workflow, one process at a time, by the shell and with
the environment that GitHub gives them, in a clone of the current commit. Jobs with the same version of Python
share a clone and its virtual environment; artifacts are copied between clones. What only GitHub can do (other
actions, other systems, its tokens) is reported as skipped, with the reason. Without JOB, the jobs are listed.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = ROOT / ".github" / "workflows"
SYSTEMS = {"ubuntu": "Linux", "macos": "Darwin", "windows": "Windows"}
"""Runner labels by their first word, and what `platform.system` calls the same."""
SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
"""What GitHub runs a step with that asks for bash; without asking it is the same but for `pipefail`."""
CHECKOUT, SETUP_PYTHON = "actions/checkout", "actions/setup-python"
UPLOAD, DOWNLOAD = "actions/upload-artifact", "actions/download-artifact"

OF_MAKE = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"}
"""What `make ci` hands down, and a job should not take for its own."""


@dataclass(frozen=True)
class Step:
    """A step: `run` holds its commands, `uses` its action; one of them is empty."""

    name: str
    run: str
    uses: str
    inputs: dict[str, str]
    environment: dict[str, str]
    condition: str

    @property
    def action(self) -> str:
        """The action without its version, such as actions/checkout."""
        return self.uses.partition("@")[0]


@dataclass(frozen=True)
class Job:
    """A job of a workflow, for one combination of its matrix."""

    workflow: str
    id: str
    matrix: dict[str, str]
    runner: str
    needs: tuple[str, ...]
    condition: str
    environment: dict[str, str]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        """The name that selects the job on the command line, such as ci/test:3.12."""
        return ":".join((f"{self.workflow}/{self.id}", *self.matrix.values()))

    def answers_to(self, name: str) -> bool:
        """Whether `name` selects the job: its id, with or without the workflow and values of the matrix."""
        head, *values = name.split(":")
        return head in {self.id, f"{self.workflow}/{self.id}"} and set(values) <= set(self.matrix.values())

    @property
    def python(self) -> str | None:
        """The version of Python that a step of the job sets up."""
        versions = [step.inputs["python-version"] for step in self.steps if step.action == SETUP_PYTHON]
        return versions[0] if versions else None


@dataclass(frozen=True)
class Outcome:
    """What became of a step, or of a job as a whole: `passed`, `failed` or `skipped`, and why."""

    job: str
    step: str
    state: str
    remark: str

    def __str__(self) -> str:
        """A line of the report."""
        return f"{self.state:<8}{self.job}: {self.step} ({self.remark})"


@dataclass
class Machine:
    """This machine: the clones of a run, by version of Python, and what is copied between jobs."""

    folder: Path
    overrides: dict[str, str]
    clones: dict[str | None, Path] = field(default_factory=dict[str | None, Path])

    def open_clone(self, python: str | None) -> Path:
        """The clone for a version of Python, with the current commit.

        Of an earlier run in the same folder, the virtual environment alone is kept.
        """
        if python not in self.clones:
            clone = self.folder / f"python-{python or 'any'}"
            if clone.exists():
                run_git(clone, "fetch", "--quiet", str(ROOT), "HEAD")
                run_git(clone, "reset", "--quiet", "--hard", "FETCH_HEAD")
                run_git(clone, "clean", "-ffdxq", "--exclude=.venv")
            else:
                run_git(ROOT, "clone", "--quiet", "--no-hardlinks", ".", str(clone))
            self.clones[python] = clone
        return self.clones[python]

    def environment(self, job: Job) -> dict[str, str]:
        """The environment of a job: that of this process, what GitHub sets, and what the workflow says."""
        outside = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
        environment = {**outside, "CI": "true", "GITHUB_REF_NAME": read_ref(), **job.environment}
        if job.python is not None:
            programs = self.folder / f"programs-{job.python}"
            link_python(find_python(job.python), programs)
            environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
        return environment

    def copy_artifact(self, step: Step, clone: Path) -> str:
        """Do what the actions that keep and get files do; return a remark."""
        kept, path = self.folder / "artifacts" / step.inputs["name"], clone / step.inputs["path"]
        source, target = (path, kept) if step.action == UPLOAD else (kept, path)
        if not source.exists():
            return ""
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        return f"{sum(file.is_file() for file in source.rglob('*'))} files copied"


def run_git(folder: Path, *arguments: str) -> None:
    """Run git in a folder; its messages go to those of this process."""
    subprocess.run(["git", *arguments], cwd=folder, check=True)


def main() -> None:
    """Run the jobs that the command line names; exit with 1 if one failed."""
    parser = argparse.ArgumentParser(description="Run jobs of .github/workflows on this machine.")
    parser.add_argument("jobs", nargs="*", help="Such as check, ci/test:3.12 or wheel:ubuntu-24.04.")
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="Overrides workflows."
    )
    parser.add_argument(
        "--folder", type=Path, help="Keeps clones, with their environments, for the next run."
    )
    arguments = parser.parse_args()
    jobs = [job for path in sorted(WORKFLOWS.glob("*.yml")) for job in read_jobs(path)]
    if not arguments.jobs:
        print(*(f"{job!s:<42}{describe(job)}" for job in jobs), sep="\n")
        return
    try:
        chosen = choose_jobs(jobs, arguments.jobs)
        overrides = dict(setting.split("=", 1) for setting in arguments.env)
    except ValueError as error:
        sys.exit(f"{error}. Without arguments, the jobs are listed; --env takes NAME=VALUE.")
    if subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=ROOT, check=False).returncode:
        print("Changes that are not committed are not in the clone.", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="vrag-jobs-") as folder:
        outcomes = run_jobs(chosen, Machine((arguments.folder or Path(folder)).absolute(), overrides))
    print("\n", *outcomes, sep="\n")
    states = [outcome.state for outcome in outcomes]
    print(
        f"{states.count('passed')} passed, {states.count('failed')} failed, {states.count('skipped')} skipped"
    )
    sys.exit("failed" in states)


def read_jobs(path: Path) -> list[Job]:
    """The jobs of a workflow file, one for each combination of a matrix."""
    workflow: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    jobs: list[Job] = []
    if set(workflow.get(True, ())) == {"workflow_call"}:  # `on` is read as True by YAML 1.1
        return jobs
    for name, described in workflow["jobs"].items():
        job = find_called(described, path.parent)
        matrix: dict[str, list[str]] = job.get("strategy", {}).get("matrix", {})
        for values in product(*matrix.values()):
            chosen = dict(zip(matrix, values, strict=True))
            jobs.append(
                Job(
                    workflow=path.stem,
                    id=name,
                    matrix=chosen,
                    runner=fill_in(job["runs-on"], chosen),
                    needs=tuple(
                        [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", [])
                    ),
                    condition=str(job.get("if", "")),
                    environment=fill_in_all({**workflow.get("env", {}), **job.get("env", {})}, chosen),
                    steps=tuple(read_step(step, chosen) for step in job["steps"]),
                )
            )
    return jobs


def find_called(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The only job of the workflow that a job calls, after what the caller needs; else the job itself."""
    if "uses" not in job:
        return job
    called = yaml.safe_load((folder / Path(job["uses"]).name).read_text(encoding="utf-8"))
    [inside] = called["jobs"].values()
    return {**inside, "needs": job.get("needs", [])}


def read_step(step: dict[str, Any], matrix: dict[str, str]) -> Step:
    """A step, with the values of the matrix filled in."""
    uses = step.get("uses", "")
    return Step(
        name=step.get("name") or uses or step["run"],
        run=fill_in(step.get("run", ""), matrix),
        uses=uses,
        inputs=fill_in_all(step.get("with", {}), matrix),
        environment=fill_in_all(step.get("env", {}), matrix),
        condition=str(step.get("if", "")),
    )


def fill_in(text: str, matrix: dict[str, str]) -> str:
    """`text` with `${{ matrix.… }}` replaced; other expressions stay."""
    return re.sub(r"\$\{\{ matrix\.([\w-]+) \}\}", lambda found: matrix[found[1]], text)


def fill_in_all(texts: dict[str, Any], matrix: dict[str, str]) -> dict[str, str]:
    """`fill_in` of each value."""
    return {name: fill_in(str(text), matrix) for name, text in texts.items()}


def choose_jobs(jobs: list[Job], names: list[str]) -> list[Job]:
    """The jobs that names select, in the order of the names; raises ValueError for a name of none."""
    for name in names:
        if not any(job.answers_to(name) for job in jobs):
            raise ValueError(f"No job is called {name!r}")
    chosen = [job for name in names for job in jobs if job.answers_to(name)]
    return [job for number, job in enumerate(chosen) if job not in chosen[:number]]


def describe(job: Job) -> str:
    """Whether a job can be run here, and why not."""
    obstacle = find_obstacle(job)
    return "can be run here" if obstacle is None else f"skipped: {obstacle}"


def find_obstacle(job: Job) -> str | None:
    """Why a job cannot be run here; None if it can."""
    system = SYSTEMS[job.runner.partition("-")[0]]
    if system != platform.system():
        return f"needs {job.runner}"
    if job.python is not None and find_python(job.python) is None:
        return f"python{job.python} is not on the PATH"
    if not any(step.run and find_step_obstacle(step, job) is None for step in job.steps):
        return "GitHub alone can do this"
    return None


def find_step_obstacle(step: Step, job: Job) -> str | None:
    """Why a step cannot be run here; None if it can."""
    environment = {**job.environment, **step.environment}
    needed = re.findall(r"\$\{\{ (.+?) \}\}", " ".join((step.run, *environment.values())))
    if needed:
        return f"GitHub alone knows {', '.join(needed)}"
    if step.condition or job.condition:
        return f"only if {step.condition or job.condition}"
    if step.uses and step.action not in {CHECKOUT, SETUP_PYTHON, UPLOAD, DOWNLOAD}:
        return f"the action {step.action} runs on GitHub alone"
    return None


@cache
def find_python(version: str) -> str | None:
    """The program of a version of Python, such as 3.12, that is on the PATH and starts."""
    for name in (f"python{version}", "python3"):
        program = shutil.which(name)
        if program is not None:
            code = "import sys; print('%d.%d' % sys.version_info[:2])"
            done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False)
            if done.stdout.strip() == version:
                return program
    return None


def link_python(program: str | None, folder: Path) -> None:
    """Make `python` and `python3` in a folder start `program`, as the action that sets up Python does."""
    folder.mkdir(exist_ok=True)
    for name in ("python", "python3"):
        (folder / name).write_text(f'#!/bin/sh\nexec "{program}" "$@"\n', encoding="utf-8")
        (folder / name).chmod(0o755)


def read_ref() -> str:
    """The tag of the current commit, or else its branch, as GitHub names what it runs for."""
    for command in (["git", "describe", "--exact-match", "--tags"], ["git", "branch", "--show-current"]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.stdout.strip():
            return done.stdout.strip()
    return "HEAD"


def run_jobs(jobs: list[Job], machine: Machine) -> list[Outcome]:
    """Run jobs one after the other; those that need a failed one are skipped."""
    outcomes: list[Outcome] = []
    failed: set[str] = set()
    for job in jobs:
        obstacle = find_obstacle(job)
        if obstacle is not None:
            outcomes.append(Outcome(str(job), "all steps", "skipped", obstacle))
        elif lost := failed.intersection(job.needs):
            outcomes.append(Outcome(str(job), "all steps", "skipped", f"{', '.join(lost)} failed"))
        else:
            found = run_steps(job, machine)
            outcomes += found
            if any(outcome.state == "failed" for outcome in found):
                failed.add(job.id)
    return outcomes


def run_steps(job: Job, machine: Machine) -> list[Outcome]:
    """Run the steps of a job up to the first that fails."""
    clone = machine.open_clone(job.python)
    environment = machine.environment(job)
    outcomes: list[Outcome] = []
    for step in job.steps:
        if any(outcome.state == "failed" for outcome in outcomes):
            state, remark = "skipped", "an earlier step failed"
        elif obstacle := find_step_obstacle(step, job):
            state, remark = "skipped", obstacle
        elif step.action in {UPLOAD, DOWNLOAD}:
            remark = machine.copy_artifact(step, clone)
            state, remark = (
                ("passed", remark) if remark else ("failed", f"{step.inputs['path']} is not there")
            )
        elif step.uses:
            state, remark = (
                "skipped",
                "the clone" if step.action == CHECKOUT else f"Python {job.python} is here",
            )
        else:
            print(f"\n=== {job}: {step.name}\n$ {step.run.strip()}", flush=True)
            state, remark = run_commands(
                step.run, clone, {**environment, **step.environment, **machine.overrides}
            )
        outcomes.append(Outcome(str(job), step.name, state, remark))
    return outcomes


def run_commands(commands: str, folder: Path, environment: dict[str, str]) -> tuple[str, str]:
    """Run the commands of a step; return state and remark. Their output goes to that of this process."""
    start = time.monotonic()
    done = subprocess.run(
        [*SHELL, commands], cwd=folder, env=environment, stdin=subprocess.DEVNULL, check=False
    )
    seconds = f"{time.monotonic() - start:.0f} s"
    return (
        ("passed", seconds)
        if done.returncode == 0
        else ("failed", f"exit status {done.returncode}, {seconds}")
    )


if __name__ == "__main__":
    main()
