"""The queue of runs that wait for a slot: in turn over those who ask, so that nobody holds up the others.

With a single line, one requester with twenty questions would make everybody behind them wait for all twenty.
Here each requester has a line of their own, first come, first served, and free slots go to the lines in turn.
So a question waits for at most one run of each other requester before each run of its own line.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import NamedTuple

from vrag.render.text_format import ordinal
from vrag.server.http.errors import Refusal
from vrag.server.options import ServerOptions

_RETRY_SECONDS = 5.0
"""Wait before the next attempt when the queue is full: a few calls of a model."""


class QueuePosition(NamedTuple):
    """The position of a waiting run, for those who follow it."""

    position: int
    """From 1. It may grow: a requester who comes later has a turn too."""

    @property
    def text(self) -> str:
        """The position in words."""
        return f"Waiting: {ordinal(self.position)} in the queue"


@dataclass(eq=False, slots=True)
class QueuePlace:
    """A place in the queue, and then a slot."""

    requester: str
    position: int | None = None
    """From 1 while it waits; 0 while it has a slot; None before and after."""
    on_move: Callable[[], None] = lambda: None
    """Called when the position has changed."""

    def move(self, position: int | None) -> None:
        """Change the position."""
        if position != self.position:
            self.position = position
            self.on_move()


class RunQueue:
    """The slots of a server and the places of those who wait for one. For one event loop."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self.running: Counter[str] = Counter()
        """Slots in use, by requester."""
        self._lines: dict[str, deque[QueuePlace]] = {}
        """Who waits, by requester; the line that is first has the next turn."""

    @property
    def waiting(self) -> int:
        """The number of places."""
        return sum(map(len, self._lines.values()))

    def join(self, requester: str) -> QueuePlace:
        """Take a slot, or the last place of the requester's line.

        Raises `Refusal` if too many of the requester's runs wait already (429), or too many of all (503).
        """
        options, own = self._options, len(self._lines.get(requester, ()))
        if self._is_full or self.running[requester] >= options.client_runs:
            if own >= options.client_waiting_runs:
                message = f"Your part of the queue is full: the limit is {options.client_waiting_runs}."
                raise Refusal(429, message, "Wait for one of your questions, or stop it.", _RETRY_SECONDS)
            if self.waiting >= options.waiting_runs:
                message = f"The queue is full: the limit is {options.waiting_runs}."
                raise Refusal(503, message, "Try again when some questions are answered.", _RETRY_SECONDS)
        place = QueuePlace(requester)
        self._lines.setdefault(requester, deque()).append(place)
        self._fill_slots()
        return place

    def leave(self, place: QueuePlace) -> None:
        """Give up a slot or a place; nothing happens if it was given up before."""
        if place.position == 0:
            self.running[place.requester] -= 1
            self.running += Counter()  # forgets those who have none
        elif place.position:
            self._lines[place.requester].remove(place)
            if not self._lines[place.requester]:
                del self._lines[place.requester]
        place.move(None)
        self._fill_slots()

    @property
    def _is_full(self) -> bool:
        return self.running.total() >= self._options.runs

    def _fill_slots(self) -> None:
        """Give free slots to the lines in turn, and tell everybody else their positions."""
        while not self._is_full and (requester := next(self._eligible(), None)) is not None:
            line = self._lines.pop(requester)
            place = line.popleft()
            if line:
                self._lines[requester] = line  # behind all others
            self.running[requester] += 1
            place.move(0)
        lines = self._lines.values()
        if self._is_full:
            turns = chain.from_iterable(zip_longest(*lines))
            orders = [[place for place in turns if place is not None]]
        else:  # each waits for runs of its own requester
            orders = [list(line) for line in lines]
        for order in orders:
            for position, place in enumerate(order, 1):
                place.move(position)

    def _eligible(self) -> Iterator[str]:
        limit = self._options.client_runs
        return (requester for requester in self._lines if self.running[requester] < limit)
