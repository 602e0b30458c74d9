"""The page's fold of events, run by node on a run that is recorded here."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from javascript import NODE

import vrag.server
from vrag.agent.agent import Agent
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import Event
from vrag.agent.methods.vimrag import Vimrag
from vrag.model_profiles import profile_named
from vrag.testing import MemorySearcher, ScriptedPolicy, page

SCRIPTS = Path(vrag.server.__file__).parent / "static" / "js"


def _call(name: str, **arguments: object) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def _note(label: str, worth: int) -> dict[str, object]:
    return {
        "information_id": label,
        "is_useful": worth > 0,
        "key_timestamp": [],
        "priority_score": max(worth, 1),
    }


REPLIES = (
    f"<think>Ships.</think>{_call('add_search_node', id='ships', parent_ids=['root'], query='ship')}",
    f"<think>Too early.</think>{_call('add_search_node', id='again', parent_ids=['root'], query='ferry')}",
    _call(
        "summarize_and_memorize",
        summarize="The Gannet holds 240.",
        memorize=[_note("Picture 1", 5), _note("Picture 2", 0)],
    ),
    f"<think>That is enough.</think>{_call('add_answer_node', parent_ids=['ships'], answer='240')}",
)


def _recorded() -> list[Event]:
    items = (page("fleet.pdf", 1, "ship Gannet 240"), page("fleet.pdf", 2, "ship Fulmar 150"))
    environment = Environment(MemorySearcher(items), profile_named("qwen2.5-vl"), EnvironmentOptions(hits=2))
    return list(Agent(ScriptedPolicy(REPLIES), environment, Vimrag()).stream("How many?"))


@pytest.mark.slow
def test_the_page_folds_the_events_of_a_run_as_the_agent_told_them(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text("".join(f"{event.model_dump_json()}\n" for event in _recorded()), encoding="utf-8")
    scripts = tmp_path / "js"
    shutil.copytree(SCRIPTS, scripts)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    test = Path(__file__).with_name("page_reducer.mjs")
    done = subprocess.run(
        [*NODE, str(test), str(scripts), str(events)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
