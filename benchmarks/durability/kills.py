"""SIGKILL at every point of operations: is anything lost that was acknowledged, doubled or stale?

The moment is drawn in one of three ways, for each operation over all of it: before the n-th call that
changes a file, with n uniform over the number of calls of an undisturbed run; in the middle of the n-th
call, if it is a write, half of which is done then; or at a time that is uniform over the seconds of an
undisturbed run. In some cases the command that runs after it is killed as well. A case whose operation
ended before the moment is no kill; it is compared all the same.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from benchmarks.durability.faults import Fault
from benchmarks.durability.operations import DONE
from benchmarks.durability.processes import Child, Outcome, compute

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.durability.faults import Faults
    from benchmarks.durability.operations import Bench, Operation

AGAIN = 0.3
"""Share of cases in which the command after a kill is killed as well."""


class KillStudy:
    """Cases of kills, by number."""

    def __init__(
        self, bench: Bench, faults: Faults, operations: Sequence[Callable[[Bench], Operation]], seed: int
    ) -> None:
        self._faults, self._seed = faults, seed
        faults.arm(Fault.NONE)
        self._operations = [make(bench) for make in operations]
        self._sizes = [self._measure(operation) for operation in self._operations]

    def case(self, number: int) -> dict[str, Any]:
        """Kill an operation once or twice, check, run it to its end, and compare."""
        chance = random.Random(f"{self._seed} {number}")
        place = number % len(self._operations)
        operation, (calls, seconds) = self._operations[place], self._sizes[place]
        operation.prepare()
        kills, wrong, said = 0, list[str](), list[str]()
        facts: dict[str, Any] = {"group": operation.name}
        counts = {"kills": 0, "before a call": 0, "within a write": 0, "by time": 0, "too late": 0}
        for _ in range(2 if operation.is_repeatable and chance.random() < AGAIN else 1):
            way = chance.choices(["before a call", "within a write", "by time"], [0.5, 0.3, 0.2])[0]
            at = chance.randint(1, calls)
            facts |= {"way": way, "at": at}
            outcome = self._kill(operation, way, at, chance.uniform(0, seconds))
            if outcome.status == 1:
                wrong.append(f"It failed: {outcome.error.strip().splitlines()[-1:]}")
                facts["error"] = outcome.error
            counts[way if outcome.is_killed else "too late"] += 1
            kills += outcome.is_killed
            said = outcome.acknowledged or said
            wrong += self._look(lambda said=outcome.acknowledged: operation.check(said))
            if wrong or DONE in said:
                break
        if not wrong:
            wrong += self._look(operation.finish)
        counts["kills"] = kills
        return facts | {"counts": counts, "wrong": wrong}

    def _kill(self, operation: Operation, way: str, at: int, seconds: float) -> Outcome:
        fault = {"before a call": Fault.KILL, "within a write": Fault.TORN}.get(way, Fault.COUNT)
        self._faults.arm(fault, at)
        outcome = Child(operation.run).end(seconds if way == "by time" else None)
        self._faults.arm(Fault.NONE)
        return outcome

    def _look(self, work: Callable[[], list[str]]) -> list[str]:
        try:
            return compute(work)
        except RuntimeError as error:
            return [str(error)[-1500:]]

    def _measure(self, operation: Operation) -> tuple[int, float]:
        """Return the calls and the seconds of an undisturbed run."""
        operation.prepare()
        self._faults.arm(Fault.COUNT)
        outcome = Child(operation.run).end()
        calls = self._faults.calls
        self._faults.arm(Fault.NONE)
        wrong = [outcome.error] if outcome.status else []
        wrong += self._look(lambda: operation.check(outcome.acknowledged))
        if wrong:
            raise RuntimeError(f"{operation.name} does not work undisturbed: {wrong}")
        print(f"{operation.name}: {calls} calls, {outcome.seconds:.2f} s", flush=True)
        return calls, outcome.seconds
