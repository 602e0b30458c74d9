"""The quarantine: tests that may fail, by name, with reason and date, in `quarantine.toml`.

They run, and how they end is listed at the end of every run, but does not decide whether the run passes. An
entry that names no test is an error, so that none outlives its test.
"""

from __future__ import annotations

import datetime as dt
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

FILE = "quarantine.toml"


class QuarantineError(Exception):
    """An entry that is incomplete or names no test."""


@dataclass(frozen=True, slots=True)
class QuarantinedTest:
    """An entry."""

    name: str
    """The test as pytest prints it, from the root of the repository; without `[…]`, all its cases."""
    reason: str
    since: dt.date

    def names(self, test: str) -> bool:
        """Return true if the entry names a test or a case of it."""
        return test == self.name or test.startswith(f"{self.name}[")

    @property
    def file(self) -> str:
        """The file of the test."""
        return self.name.partition("::")[0]


def read_quarantine(text: str) -> list[QuarantinedTest]:
    """Read the entries of the file. Raises `QuarantineError`."""
    entries: list[QuarantinedTest] = []
    content = tomllib.loads(text)
    if unknown := content.keys() - {"test"}:
        raise QuarantineError(f"{FILE}: unknown {', '.join(sorted(unknown))}; each entry is a [[test]].")
    for entry in content.get("test", []):
        if not _is_complete(entry):
            raise QuarantineError(
                f"{FILE}: an entry has name and reason, neither empty, and since, a date; not {entry}."
            )
        entries.append(QuarantinedTest(**entry))
    return entries


def _is_complete(entry: dict[str, Any]) -> bool:
    return (
        entry.keys() == {"name", "reason", "since"}
        and all(isinstance(entry[key], str) and entry[key].strip() for key in ("name", "reason"))
        and type(entry["since"]) is dt.date
    )


class Quarantine:
    """The plugin: marks the tests, and prints what became of them."""

    def __init__(self, entries: Iterable[QuarantinedTest]) -> None:
        self._entries = [*entries]
        self._outcomes: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None]:
        """Let the tests fail without consequence; add a failing one for each entry that names none."""
        for item in items:
            for entry in self._entries:
                if entry.names(item.nodeid):
                    item.add_marker(pytest.mark.xfail(reason=f"quarantined: {entry.reason}", strict=False))
        unknown = self._find_unknown(config, items)
        yield
        items += [
            UnknownTest.from_parent(  # pyright: ignore[reportUnknownMemberType]
                session, name=entry.name, nodeid=f"{FILE}::{entry.name}"
            )
            for entry in unknown
        ]

    def _find_unknown(self, config: pytest.Config, items: list[pytest.Item]) -> list[QuarantinedTest]:
        """Find the entries that name no test, among those whose file was collected as a whole."""
        if any("::" in argument for argument in config.args):
            return []
        names = [item.nodeid for item in items]
        collected = {name.partition("::")[0] for name in names}
        return [
            entry
            for entry in self._entries
            if (entry.file in collected or not (config.rootpath / entry.file).is_file())
            and not any(entry.names(name) for name in names)
        ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a quarantined test ends."""
        if any(entry.names(report.nodeid) for entry in self._entries) and (
            report.when == "call" or report.outcome != "passed"
        ):
            self._outcomes[report.nodeid] = "failed" if report.outcome != "passed" else "passed"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the quarantine."""
        terminalreporter.section(f"quarantine ({FILE})")
        if not self._entries:
            terminalreporter.line("empty")
        for entry in self._entries:
            terminalreporter.line(f"{entry.name}, since {entry.since}: {entry.reason}")
            for name, outcome in self._outcomes.items():
                if entry.names(name):
                    terminalreporter.line(f"  {outcome}: {name}")


class UnknownTest(pytest.Item):
    """A test that fails because an entry names no test."""

    def runtest(self) -> None:
        """Fail."""
        raise QuarantineError(f"{FILE} names {self.name}, which is no test: delete the entry.")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """Describe the entry."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Name the file."""
        return Path(FILE), None, f"{FILE}::{self.name}"


def pytest_configure(config: pytest.Config) -> None:
    """Read the file beside this one."""
    text = (Path(__file__).parent / FILE).read_text(encoding="utf-8")
    try:
        config.pluginmanager.register(Quarantine(read_quarantine(text)))
    except (QuarantineError, tomllib.TOMLDecodeError) as error:
        raise pytest.UsageError(str(error)) from error
