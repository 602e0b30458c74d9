"""The result of a check, and how a check is run: one at a time, and no error ends the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
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


def ok(message: str, hint: str = "", details: Mapping[str, Any] | None = None) -> Check:
    """Return the result of a check that passed; its name is set by `run_check`."""
    return Check("", CheckStatus.OK, message, hint, details or {})


def warning(message: str, hint: str = "", details: Mapping[str, Any] | None = None) -> Check:
    """Return a result with a limitation."""
    return Check("", CheckStatus.WARNING, message, hint, details or {})


def failed(message: str, hint: str = "", details: Mapping[str, Any] | None = None) -> Check:
    """Return the result of a check that failed."""
    return Check("", CheckStatus.FAILED, message, hint, details or {})


def skipped(message: str, hint: str = "", details: Mapping[str, Any] | None = None) -> Check:
    """Return the result of something that was not checked."""
    return Check("", CheckStatus.SKIPPED, message, hint, details or {})


def run_check(name: str, probe: Callable[[], Check], seconds: float, hint: str = "") -> Check:
    """Run a check in its own thread, for a limited time.

    Args:
        name: The subject of the check.
        probe: The check. An exception becomes a failed check.
        seconds: Time limit. A probe that takes longer is abandoned; its thread does not keep the process
            from ending.
        hint: The hint for errors that have none.
    """
    results: list[Check] = []
    thread = threading.Thread(target=lambda: results.append(_attempt(probe)), name=name, daemon=True)
    start = time.monotonic()
    thread.start()
    thread.join(seconds)
    late = "Try again when the machine is less busy, or allow more time: --seconds"
    check = results[0] if results else failed(f"No result within {seconds:g} s.", late)
    if check.status is CheckStatus.FAILED:
        check = replace(check, hint=check.hint or hint)
    return replace(check, name=name, seconds=time.monotonic() - start)


def _attempt(probe: Callable[[], Check]) -> Check:
    try:
        return probe()
    except VragError as error:
        return failed(error.message, error.hint)
    except Exception as error:  # noqa: BLE001 - a bug in one check must not hide the results of the others
        message = f"The check itself failed: {type(error).__name__}: {error}"
        return failed(message, "Report this, with the output of `vrag doctor --json`.")
