"""Checks and their results: checks run one at a time, and no error ends the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any

from vrag.errors import VragError


class CheckStatus(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    WARNING = "warning"
    """It works, with a limitation."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """Not checked: it is not used, or a requirement has failed."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check."""

    name: str
    """The subject, in a word or two."""
    status: CheckStatus
    message: str
    """The finding, in one sentence."""
    hint: str = ""
    """Advice; empty if nothing has to be done."""
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Numbers and names for programs, as JSON."""
    seconds: float = 0.0
    """Duration of the check."""


@dataclass(frozen=True, slots=True)
class CheckStep:
    """A check to run."""

    name: str
    probe: Callable[[], Check]
    after: str = ""
    """The check that it requires; empty for none."""
    slow: bool = False
    """True if it loads or asks a model."""
    hint: str = ""
    """The hint for errors that have none."""


_STOP_SECONDS = 0.1
"""Time after which a check notices that it is to stop."""

# The name of a result is set by `run_check`.
ok = partial(Check, "", CheckStatus.OK)
warning = partial(Check, "", CheckStatus.WARNING)
failed = partial(Check, "", CheckStatus.FAILED)
skipped = partial(Check, "", CheckStatus.SKIPPED)


def run_check(
    name: str,
    probe: Callable[[], Check],
    seconds: float,
    hint: str = "",
    stop: threading.Event | None = None,
) -> Check:
    """Run a check in its own thread; an exception becomes a failed check.

    A probe that takes longer than `seconds`, or that goes on when `stop` is set, is abandoned; its thread
    does not keep the process from ending. `hint` is for errors that have none.
    """
    results: list[Check] = []

    def attempt() -> None:
        try:
            results.append(probe())
        except VragError as error:
            results.append(failed(error.message, error.hint))
        except Exception as error:  # noqa: BLE001 - a bug in one check must not hide the results of the others
            message = f"The check itself failed: {type(error).__name__}: {error}"
            results.append(failed(message, "Report this, with the output of `vrag doctor --json`."))

    thread = threading.Thread(target=attempt, name=name, daemon=True)
    start = time.monotonic()
    thread.start()
    while thread.is_alive() and (left := start + seconds - time.monotonic()) > 0:
        if stop is not None and stop.is_set():
            break
        thread.join(left if stop is None else min(left, _STOP_SECONDS))
    late = "Try again when the machine is less busy, or allow more time: --seconds"
    check = results[0] if results else failed(f"No result within {seconds:g} s.", late)
    if check.status is CheckStatus.FAILED:
        check = replace(check, hint=check.hint or hint)
    return replace(check, name=name, seconds=time.monotonic() - start)


def examine_steps(
    steps: Iterable[CheckStep], seconds: float, stop: threading.Event | None = None
) -> Iterator[Check]:
    """Run checks in order and yield their results; skip those that require a failed one.

    Each may take so many seconds, and a slow one ten times as long. When `stop` is set, there are no more.
    """
    unavailable: set[str] = set()
    for step in steps:
        if stop is not None and stop.is_set():
            return
        if step.after in unavailable:
            check = replace(skipped(f"Skipped, because this failed: {step.after}."), name=step.name)
            unavailable.add(step.name)
        else:
            check = run_check(step.name, step.probe, seconds * (10 if step.slow else 1), step.hint, stop)
        if check.status is CheckStatus.FAILED:
            unavailable.add(step.name)
        yield check
