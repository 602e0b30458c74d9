"""What is done between two goes of indexing, for somebody who waits for it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WorkerTask"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class WorkerTask(Generic[T]):
    """Work for one thread that another one asks for. Cancel its future, and it is not begun any more."""

    work: Callable[[], T]
    future: Future[T] = field(default_factory=Future[T])
    """What came of it, for whoever waits."""

    def carry_out(self) -> None:
        """Does it, unless it was cancelled. Whatever it raises is raised where it is waited for."""
        if self.future.set_running_or_notify_cancel():
            try:
                result = self.work()
            except BaseException as error:  # noqa: BLE001 - raised where the future is waited for
                self.future.set_exception(error)
            else:
                self.future.set_result(result)

    def turn_away(self, error: Exception) -> None:
        """Has whoever waits for it be told that it is not done."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)
