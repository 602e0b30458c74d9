"""Runs that began at chosen times: copies of one recorded run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from vrag.agent.agent import Agent
from vrag.agent.environment import Environment
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.run_meta import RunMeta
from vrag.agent.runs.run_store import RunStore, StoredRun
from vrag.errors import ModelError
from vrag.model_profiles import PROFILES
from vrag.testing import ScriptedPolicy, tiny_corpus

if TYPE_CHECKING:
    from pathlib import Path

REPLIES = (
    "<think>Where?</think><search>ferry passengers</search>",
    "<think>So.</think><answer>48,200</answer>",
)


class DatedRuns:
    """A store with runs of chosen ages, owners and conversations."""

    def __init__(self, directory: Path, now: datetime | None = None) -> None:
        self.now = now or datetime.now(UTC)
        self.store = RunStore(directory)
        self._templates: dict[str, StoredRun] = {}
        self._number = 0

    def add(
        self,
        days: float,
        owner: str = "",
        *,
        after: str = "",
        ended: str = "answered",
        pinned: bool = False,
        shared: bool = False,
    ) -> str:
        """Add a run that began so many days ago, and follows on another one; return its id."""
        template = self._template("failed" if ended == "failed" else "answered")
        self._number += 1
        begun = self.now - timedelta(days=days)
        run = f"{begun:%Y%m%d-%H%M%S}-{begun.microsecond:06d}-{self._number:04x}"
        events = [event.model_copy(update={"run_id": run}) for event in template.events]
        events[0] = events[0].model_copy(update={"session": after})
        if ended == "interrupted":
            events.pop()
        names = template.store.file_names(template.id)
        files = {name: template.read_file(*name.split(".")) for name in names}
        meta = RunMeta(owner=owner, pinned=pinned, shared=shared)
        self.store.add(run, events if ended != "unbegun" else [], files, meta)
        return run

    def _template(self, ended: str) -> StoredRun:
        if ended not in self._templates:
            store = RunStore(self.store.directory.parent / f"template-{ended}")
            replies = REPLIES if ended == "answered" else (REPLIES[0], ModelError("The model is away."))
            agent = Agent(
                ScriptedPolicy(replies),
                Environment(tiny_corpus(), PROFILES["qwen2.5-vl"]),
                VragMethod(),
            )
            with store.record() as log:
                list(agent.record("How many?", log))
            self._templates[ended] = store.read(log.id)
        return self._templates[ended]
