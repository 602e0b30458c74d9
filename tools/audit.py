"""Checks the lock files: hashes, yanked releases, and projects without a release for years.

Every requirement must be pinned with hashes. The package index is then asked about each: whether the pinned
release is yanked, whether its hashes are the index's, and when the project last released anything. Known
vulnerabilities are not the index's business: `make audit` runs pip-audit beside this.

    python tools/audit.py             # all lock files of the repository
    python tools/audit.py --offline   # without the index
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).parent.parent
LOCKS = (
    "requirements.lock", "requirements-dev.lock", "requirements-verl.lock",
    "deploy/image.lock", "deploy/build.lock",
)  # fmt: skip
MAX_QUIET_YEARS = 3.0
"""Years without a release after which a project has to be listed in `QUIET`, with a reason."""
QUIET = {
    "colorama": "of typer and uvicorn, on Windows only; finished",
    "mdurl": "of markdown-it-py, by the same authors; finished, pure Python, no dependencies",
    "shellingham": "of typer, for shell completion only; finished",
    "cycler": "of matplotlib, by the same authors; finished",
    "py-cpuinfo": "development and verl only: of moto and vLLM; reads the processor's name",
    "ghp-import": "development only: of the documentation site",
    "mergedeep": "development only: of the documentation site",
    "pexpect": "development only: of IPython, which runs the notebooks",
    "ptyprocess": "development only: of pexpect; finished",
    "stack-data": "development only: of IPython",
    "requests-toolbelt": "for releases only: of twine",
    "rfc3986": "for releases only: of twine",
    "rfc3339-validator": "development only: of moto and schemathesis",
    "sortedcontainers": "development only: of hypothesis; finished",
    "astor": "verl only: of depyf, which vLLM uses for debugging",
    "codetiming": "verl only: of verl",
    "deprecation": "verl only: a decorator",
    "diskcache": "verl only: of vLLM's grammars; reads pickles from the user's own cache folder",
    "opencensus-context": "verl only: of ray's dashboard",
    "tensorboard-data-server": "verl only: of tensorboard",
}
"""Projects that may be quiet, and why."""
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})\b")


@dataclass(frozen=True, slots=True)
class Pin:
    """A requirement of a lock file."""

    name: str
    version: str
    hashes: frozenset[str]


def read_pins(text: str) -> tuple[list[Pin], list[str]]:
    """Return the pinned requirements of a lock file, and what is wrong with the others."""
    pins: list[Pin] = []
    problems: list[str] = []
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in filter(None, (re.sub(r"(^|\s)#.*", "", line).strip() for line in joined.splitlines())):
        match, hashes = _REQUIREMENT.match(line), frozenset(_HASH.findall(line))
        if match is None:
            problems.append(f"not pinned to a version: {line[:80]}")
        elif not hashes:
            problems.append(f"{match['name']} {match['version']} has no hash")
        else:
            name = re.sub(r"[-_.]+", "-", match["name"]).lower()
            pins.append(Pin(name, match["version"], hashes))
    return pins, problems


def check_release(pin: Pin, project: dict[str, Any], now: datetime) -> list[str]:
    """Return what is wrong with a pinned release, by what the index says of its project (PEP 691)."""
    files: list[dict[str, Any]] = project["files"]
    by_hash = {file["hashes"].get("sha256"): file for file in files}
    own = [by_hash[value] for value in pin.hashes if value in by_hash]
    problems = [f"{pin.name} {pin.version}: none of its hashes is the index's"] if not own else []
    if any(file.get("yanked") for file in own):
        reason = next(file["yanked"] for file in own if file.get("yanked"))
        problems.append(f"{pin.name} {pin.version} is yanked: {reason}")
    times = [datetime.fromisoformat(file["upload-time"]) for file in files if file.get("upload-time")]
    years = (now - max(times)).days / 365.25 if times else 0.0
    if years > MAX_QUIET_YEARS and pin.name not in QUIET:
        problems.append(f"{pin.name} has had no release for {years:.1f} years")
    return problems


def audit(
    pins: Iterable[Pin], fetch: Callable[[str], dict[str, Any] | None], now: datetime
) -> tuple[list[str], list[str]]:
    """Ask the index about all pins; return the problems, and the names that it did not answer for."""
    listed = sorted(set(pins), key=lambda pin: (pin.name, pin.version))
    with ThreadPoolExecutor(8) as threads:
        projects = list(threads.map(fetch, [pin.name for pin in listed]))
    problems = [
        problem
        for pin, project in zip(listed, projects, strict=True)
        if project is not None
        for problem in check_release(pin, project, now)
    ]
    unknown = [pin.name for pin, project in zip(listed, projects, strict=True) if project is None]
    return problems, unknown


def fetch_project(client: httpx.Client, index: str, name: str) -> dict[str, Any] | None:
    """Ask the index about a project; None without a usable answer."""
    try:
        answer = client.get(f"{index}/{name}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
        return answer.raise_for_status().json()
    except (httpx.HTTPError, ValueError):
        return None


def main() -> None:
    """Check all lock files; exit with 1 if there is a problem, or the index did not answer."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--offline", action="store_true", help="Do not ask the index.")
    arguments = parser.parse_args()
    pins: list[Pin] = []
    problems: list[str] = []
    for lock in LOCKS:
        found, wrong = read_pins((ROOT / lock).read_text())
        problems += [f"{lock}: {problem}" for problem in wrong]
        pins += found
        print(f"{lock}: {len(found)} requirements with hashes")
    unknown: list[str] = []
    if not arguments.offline:
        index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
        with httpx.Client(timeout=60, follow_redirects=True) as client:
            wrong, unknown = audit(pins, lambda name: fetch_project(client, index, name), datetime.now(UTC))
        problems += wrong
    print(*problems, sep="\n")
    if unknown:
        print(f"The index did not answer for {len(unknown)}: {', '.join(unknown)}")
    print(f"{len(set(pins))} releases, {len(problems)} problems.")
    sys.exit(bool(problems or unknown))


if __name__ == "__main__":
    main()
