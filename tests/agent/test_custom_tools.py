"""Custom tools: packages of their own, in both agents; what cannot be used is an error that names it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from agent_scripts import PROFILE, VRAG, WAYS, Way, call, of
from custom_tool_runs import both, run, shown

from vrag.agent.agent import Agent
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import (
    ActionRequested,
    ActionReturned,
    AnswerGiven,
    GraphChanged,
    InvalidAction,
    RunStarted,
    StopReason,
)
from vrag.agent.memory.memory_graph import NodeKind
from vrag.agent.runs.replay import differences, replay
from vrag.agent.runs.run_store import RunStore
from vrag.agent.tool_plugins import installed_tools, load_tools
from vrag.errors import ActionError
from vrag.testing import MemorySearcher, ScriptedPolicy, tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Callable


EXAMPLE = Path(__file__).parents[2] / "examples" / "next_page"
BROKEN = """
class Sound:
    name = "sound"
    usage = "Says something."
    def run(self, text, context): return None

class Misnamed(Sound): name = "other"
class Unsaid(Sound): name, usage = "unsaid", "  "
class Wordless(Sound): name, usage = "wordless", None
class Search(Sound): name = "search"
class Tool(Sound): name = "add_search_node"
class Loud(Sound): name = "Loud"
class Demanding(Sound):
    def __init__(self, key): self.key = key
class Nameless: usage = "x"
"""
ENTRIES = {
    "sound": "broken_actions:Sound",
    "at_import": "broken_at_import:Anything",
    "missing_module": "no_such_module:Anything",
    "missing_class": "broken_actions:Nothing",
    "misnamed": "broken_actions:Misnamed",
    "unsaid": "broken_actions:Unsaid",
    "wordless": "broken_actions:Wordless",
    "search": "broken_actions:Search",
    "add_search_node": "broken_actions:Tool",
    "Loud": "broken_actions:Loud",
    "demanding": "broken_actions:Demanding",
    "nameless": "broken_actions:Nameless",
}


def install(packages: list[Path], target: Path) -> None:
    """Into a directory of its own, without a network: setuptools is among the requirements of the tests."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(target)]
    done = subprocess.run([*command, *map(str, packages)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def broken_package(directory: Path) -> Path:
    """A package whose actions cannot be used, each for another reason."""
    directory.mkdir()
    entries = "\n".join(f'"{name}" = "{place}"' for name, place in ENTRIES.items())
    (directory / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "broken-actions"\nversion = "1"\n'
        f'[project.entry-points."vrag.actions"]\n{entries}\n'
        '[tool.setuptools]\npy-modules = ["broken_actions", "broken_at_import"]\n'
    )
    (directory / "broken_actions.py").write_text(BROKEN)
    (directory / "broken_at_import.py").write_text("raise RuntimeError('no licence')")
    return directory


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example and the broken package are installed."""
    place = tmp_path_factory.mktemp("packages")
    example = shutil.copytree(EXAMPLE, place / "next_page")  # a build writes into its source
    install([example, broken_package(place / "broken")], place / "installed")
    return place / "installed"


@pytest.fixture
def installed(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(packages), *sys.path])


def with_next_page(searcher: MemorySearcher | None = None, **options: object) -> Environment:
    chosen = EnvironmentOptions.model_validate({"hits": 3} | options)
    return Environment(searcher or tiny_corpus(), PROFILE, chosen, load_tools(["next_page"]))


def script(way: Way, text: str = "last") -> tuple[str, ...]:
    """Finds page 2 alone, turns the page, answers."""
    keep = call("summarize_and_memorize", summarize="So.", memorize=[note_of("Picture 1")])
    found = (way.search("carried"),) if way is VRAG else (way.search("carried"), keep)
    end = (
        way.answer("12") if way is VRAG else call("add_answer_node", parent_ids=["by_next_page"], answer="12")
    )
    return (*found, way.extend("next_page", text), end)


def note_of(label: str) -> dict[str, object]:
    return {"information_id": label, "is_useful": True, "priority_score": 5}


# The example


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_the_example_is_some_thirty_lines_and_found_by_its_entry_point() -> None:
    lines = (EXAMPLE / "next_page.py").read_text().splitlines()
    code = [line for line in lines if line.strip() and not line.strip().startswith(('"""', "#"))]
    assert len(code) <= 35
    assert "next_page" in installed_tools()
    (tool,) = load_tools(["next_page"]).values()
    assert tool.name == "next_page"
    assert type(tool).__module__ == "next_page"


@both
@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_an_action_of_others_works_in_both_agents(way: Way) -> None:
    events, policy = run(way, with_next_page(), *script(way))
    assert shown(events) == [2, 3]
    (asked,) = of(ActionRequested, events)
    assert (asked.name, asked.text) == ("next_page", "last")
    (returned,) = of(ActionReturned, events)
    assert (returned.items, returned.texts) == ((tiny_corpus().items[2].id,), ())
    end = events[-1]
    assert isinstance(end, AnswerGiven)
    assert end.stop_reason is StopReason.ANSWERED
    assert 3 in [evidence.page for evidence in end.evidence]
    assert "Shows the page after the one shown last" in policy.told[0][0].text
    assert of(RunStarted, events)[0].settings.actions == ("next_page",)


@both
@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_the_model_is_taught_an_argument_that_is_understood(way: Way) -> None:
    """What the instruction calls the text is what the grammar takes."""
    _, policy = run(way, with_next_page(), way.answer("x"))
    told = policy.told[0][0].text
    line = next(line for line in told.splitlines() if "Shows the page after" in line)
    assert ("<next_page>text</next_page>" if way is VRAG else '"text"') in line


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_in_a_graph_it_makes_a_node_of_its_own_kind() -> None:
    events, _ = run(WAYS[1], with_next_page(), *script(WAYS[1]))
    node = of(GraphChanged, events)[-1].graph.node("by_next_page")
    assert (node.kind, node.tool, node.query) == (NodeKind.TOOL, "next_page", "last")


@both
@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_its_text_is_given_to_it(way: Way) -> None:
    events, _ = run(way, with_next_page(), *script(way, "page 1, please"))
    assert shown(events) == [2, 2]  # what was shown before is shown again when it is asked for


UNABLE: list[tuple[Callable[[Way], tuple[str, ...]], str]] = [
    (lambda way: (way.extend("next_page", "last"),), "search first"),
    (lambda way: script(way, "3")[:-1], "has no page after that one"),
    (lambda way: (way.extend("next_page", " "),), ""),
    (lambda way: (way.extend("previous_page", "last"),), ""),
]


@both
@pytest.mark.slow
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("replies", "reason"), UNABLE)
def test_what_it_cannot_do_is_told_to_the_model(
    way: Way, replies: Callable[[Way], tuple[str, ...]], reason: str
) -> None:
    events, policy = run(way, with_next_page(), *replies(way), way.answer("12"))
    (invalid,) = of(InvalidAction, events)
    assert reason in invalid.reason
    assert invalid.reason in policy.told[-1][-1].text
    assert isinstance(events[-1], AnswerGiven)
    assert events[-1].text == "12"


@both
@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_a_run_with_it_is_replayed(way: Way, tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    agent = Agent(ScriptedPolicy(script(way)), with_next_page(), way.method)
    with store.record() as recording:
        for event in agent.stream("?", run_id=recording.id, save=recording.save):
            recording.write(event)
    stored = store.read("last")
    assert differences(stored.events, list(replay(stored, tiny_corpus()))) == []


@pytest.mark.slow
@both
def test_a_run_with_it_is_not_replayed_without_the_package(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packages: Path
) -> None:
    store = RunStore(tmp_path)
    with monkeypatch.context() as patch, store.record() as recording:
        patch.setattr(sys, "path", [str(packages), *sys.path])
        agent = Agent(ScriptedPolicy(script(way)), with_next_page(), way.method)
        for event in agent.stream("?", run_id=recording.id, save=recording.save):
            recording.write(event)
    with pytest.raises(ActionError, match="no custom tool 'next_page'"):
        replay(store.read("last"), tiny_corpus())


@both
@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_without_being_named_it_is_no_action(way: Way) -> None:
    where = Environment(tiny_corpus(), PROFILE, EnvironmentOptions(hits=3))
    events, policy = run(way, where, *script(way)[:-1], way.answer("12"))
    assert len(of(InvalidAction, events)) == 1
    assert "next_page" not in policy.told[0][0].text


# Packages that cannot be used


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_a_sound_action_beside_broken_ones_is_loaded() -> None:
    assert set(ENTRIES) < set(installed_tools())
    assert list(load_tools(["sound", "next_page", "sound"])) == ["sound", "next_page"]


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", sorted(set(ENTRIES) - {"sound"}))
def test_a_broken_package_is_an_error_that_names_it(name: str) -> None:
    with pytest.raises(ActionError) as raised:
        load_tools([name])
    assert f"The custom tool {name} ({ENTRIES[name]})" in str(raised.value)


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_what_a_package_raises_at_import_is_said() -> None:
    with pytest.raises(ActionError, match=r"RuntimeError: no licence.*VRAG_ACTIONS"):
        load_tools(["at_import"])


def test_what_is_not_installed_is_an_error_that_says_what_is() -> None:
    with pytest.raises(ActionError, match=r"no custom tool 'next_page'.*Installed: "):
        load_tools(["next_page"])
