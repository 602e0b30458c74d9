"""Runs that began at chosen times: copies of one recorded run."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from vrag.agent.agent import Agent
from vrag.agent.environment import Environment
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.event_lines import END, unseal_line
from vrag.agent.runs.run_meta import RunMeta, write_meta
from vrag.agent.runs.run_store import EVENTS, RunStore
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
        self._templates: dict[str, Path] = {}
        self._number = 0

    def add(
        self, days: float, owner: str = "", *, after: str = "", ended: str = "answered", **meta: bool
    ) -> str:
        """Add a run that began so many days ago, and follows on another one; return its id."""
        template = self._template("failed" if ended == "failed" else "answered")
        self._number += 1
        begun = self.now - timedelta(days=days)
        run = f"{begun:%Y%m%d-%H%M%S}-{begun.microsecond:06d}-{self._number:04x}"
        target = self.store.directory / run
        shutil.copytree(template, target)
        sealed = (template / EVENTS).read_bytes().splitlines()
        lines = [unseal_line(line).data.decode().replace(template.name, run) + "\n" for line in sealed]
        (target / END).unlink(missing_ok=True)  # as runs of former versions, which had no checksums
        lines[0] = lines[0].replace('"session":""', f'"session":"{after}"')
        if ended == "interrupted":
            lines = lines[:-1]
        (target / EVENTS).write_text("".join(lines), encoding="utf-8")
        write_meta(target, RunMeta(owner=owner, **meta))
        return run

    def _template(self, ended: str) -> Path:
        if ended not in self._templates:
            store = RunStore(self.store.directory.parent / f"template-{ended}")
            replies = REPLIES if ended == "answered" else (REPLIES[0], ModelError("The model is away."))
            agent = Agent(
                ScriptedPolicy(list(replies)),
                Environment(tiny_corpus(), PROFILES["qwen2.5-vl"]),
                VragMethod(),
            )
            with store.record() as log:
                list(agent.record("How many?", log))
            self._templates[ended] = log.directory
        return self._templates[ended]
