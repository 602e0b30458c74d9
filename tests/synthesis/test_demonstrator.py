"""Demonstrations: always in the grammar, right as often as is asked for, and read by the real agents."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from vrag.agent.actions import Answer, Search, parse
from vrag.agent.agent import Agent
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import InvalidAction
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policy import Reply
from vrag.agent.runs.run_result import RunResult
from vrag.model_profiles import PROFILES
from vrag.synthesis.corpus import SynthesisOptions, synthesize
from vrag.synthesis.sampling import COLOURS, WORDS
from vrag.synthesis.scripted_policy import ScriptedDemonstrator, names_in
from vrag.testing import MemorySearcher, page
from vrag.types import Case

ONE = Case(
    uid="one",
    query='colour of "amber bridge" ?',
    reference_answer="red",
    file_name="a.pdf",
    reference_page=(1,),
)
TWO = Case(
    uid="two",
    query='colours of "amber bridge" and "calm river" ?',
    reference_answer="red blue",
    file_name="a.pdf",
    reference_page=(1, 2),
)


def said(case: Case, seed: int = 0, **skills: Any) -> list[str]:  # noqa: ANN401
    return ScriptedDemonstrator(case, Random(seed), **skills).script


def searched(script: list[str]) -> list[str]:
    actions = [parse(text).action for text in script]
    return [action.query for action in actions if isinstance(action, Search)]


def answered(script: list[str]) -> str:
    action = parse(script[-1]).action
    assert isinstance(action, Answer)
    return action.text


def runs(
    case: Case,
    demonstrator: ScriptedDemonstrator,
    hits: int = 1,
    instruction: str | None = None,
    select: int = 0,
) -> RunResult:
    words = ("amber bridge", "calm river", "amber river", "calm bridge")
    pages = tuple(page("a.pdf", number, name) for number, name in enumerate(words, 1))
    profile = replace(PROFILES["qwen3-vl"], instruction=instruction, graph_instruction=instruction)
    environment = Environment(
        MemorySearcher(pages), profile, EnvironmentOptions(hits=hits, show=min(hits, 10), select=select)
    )
    events = list(
        Agent(demonstrator, environment, Vimrag() if demonstrator.graph else VragMethod()).stream(case.query)
    )
    assert not [event for event in events if isinstance(event, InvalidAction)]
    return RunResult.of(events)


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ('colour of "a b" ?', ["a b"]),
        ('"a b" and "c d"', ["a b", "c d"]),
        ("no names", []),
        ('one quote " alone', []),
        ('""', []),
    ],
)
def test_names_stand_in_quotes(question: str, names: list[str]) -> None:
    assert names_in(question) == names


class TestLinear:
    def test_the_skilled_one_is_right(self) -> None:
        assert searched(said(ONE, searching=1.0)) == ["amber bridge"]
        assert searched(said(TWO, searching=1.0)) == ["amber bridge", "calm river"]
        assert answered(said(TWO, reading=1.0)) == "red blue"

    def test_the_unskilled_one_says_anything(self) -> None:
        scripts = [said(ONE, seed) for seed in range(300)]
        queries = {query for script in scripts for query in searched(script)}
        assert len(queries) > 50
        assert all(
            first in WORDS.first and second in WORDS.second for first, second in map(str.split, queries)
        )
        answers = [answered(script) for script in scripts]
        assert set(answers) == set(COLOURS)
        assert answers.count("red") / 300 == pytest.approx(1 / len(COLOURS), abs=0.08)

    def test_skills_are_how_often(self) -> None:
        scripts = [said(ONE, seed, searching=0.5, reading=0.75, detours=0.25) for seed in range(400)]
        last = [searched(script)[-1] for script in scripts]
        assert last.count("amber bridge") / 400 == pytest.approx(0.5, abs=0.08)
        assert [answered(one) for one in scripts].count("red") / 400 == pytest.approx(
            0.75 + 0.25 / 8, abs=0.09
        )
        assert sum(len(searched(one)) == 2 for one in scripts) / 400 == pytest.approx(0.25, abs=0.08)

    def test_a_run_is_valid(self) -> None:
        run = runs(TWO, ScriptedDemonstrator(TWO, Random(1), searching=1.0, reading=1.0, detours=1.0))
        assert run.answer == "red blue"
        assert [step.query for step in run.steps].count("amber bridge") >= 1
        assert len(run.steps) == 5


class TestGraph:
    @pytest.mark.parametrize("detours", [0.0, 1.0])
    @pytest.mark.parametrize("case", [ONE, TWO])
    def test_a_run_is_valid(self, case: Case, detours: float) -> None:
        """Nodes have numbers of their own, and the answer rests on those that were no detour."""
        skills: dict[str, Any] = {"searching": 1.0, "reading": 1.0, "detours": detours}
        run = runs(case, ScriptedDemonstrator(case, Random(1), graph=True, **skills))
        assert run.answer == case.reference_answer
        nodes = [step.node for step in run.steps if step.query]
        assert len(nodes) == len(set(nodes)) == len(names_in(case.query)) * (2 if detours else 1)
        assert run.graph is not None
        wanted = tuple(nodes[1::2] if detours else nodes)
        assert run.graph.newest.parents == wanted

    def test_where_nothing_is_found_nothing_is_remembered(self) -> None:
        """Else one search in vain would make all turns after it invalid, and they would be learned."""
        lost = ScriptedDemonstrator(ONE, Random(1), graph=True, names=(("odd",), ("word",)))
        run = runs(ONE, lost)
        assert run.answer is not None
        assert [step.hits for step in run.steps if step.query] == [()]

    @pytest.mark.parametrize("hits", [2, 3, 10])
    def test_every_picture_that_is_found_has_its_note(self, hits: int) -> None:
        """Else each turn after the first search would be invalid, and would be learned."""
        run = runs(TWO, ScriptedDemonstrator(TWO, Random(1), graph=True, searching=1.0, reading=1.0), hits)
        assert run.answer == "red blue"
        assert max(len(step.shown) for step in run.steps) > 1

    def test_it_never_looks_for_the_same_twice(self) -> None:
        """The graph refuses that, and the turns after it as well."""
        few = (("amber", "calm"), ("bridge", "river"))
        for seed in range(8):
            runs(
                TWO,
                ScriptedDemonstrator(TWO, Random(seed), seed % 2, 1.0, graph=True, detours=0.5, names=few),
            )

    def test_a_detour_is_found_useless(self) -> None:
        script = said(ONE, graph=True, detours=1.0, searching=1.0)
        assert '"is_useful": false' in script[1]
        assert '"is_useful": true' in script[3]


@pytest.mark.parametrize("graph", [False, True])
class TestCitations:
    """As the instruction asks for them: without them, a model would learn to leave them out."""

    @pytest.mark.parametrize("hits", [1, 3])
    def test_each_colour_cites_what_its_search_has_found(self, hits: int, graph: bool) -> None:
        pages = (page("a.pdf", 1, "").id, page("a.pdf", 2, "").id)
        skilled = ScriptedDemonstrator(TWO, Random(1), 1.0, 1.0, graph=graph, detours=1.0, pages=pages)
        run = runs(TWO, skilled, hits)
        assert run.answer == "red blue"
        assert re.search(r"red \[\w+\] blue \[\w+\]", run.steps[-1].reply)
        assert {one.source for one in run.citations} == {"model"}
        cited = {run.evidence[number - 1].page for one in run.citations for number in one.numbers}
        assert cited == {1, 2} or (graph and cited > {1, 2}), "a node cites all that it remembers"

    def test_an_instruction_that_asks_for_none_gets_none(self, graph: bool) -> None:
        script = ScriptedDemonstrator(TWO, Random(1), 1.0, 1.0, graph=graph)
        run = runs(TWO, script, instruction="Search, look, answer.")
        assert run.steps[-1].reply == script.script[-1]
        assert "[n" not in run.steps[-1].reply.replace('["n', "")
        assert "[1]" not in run.steps[-1].reply

    def test_where_nothing_was_found_nothing_is_cited(self, graph: bool) -> None:
        if graph:
            return  # its node is cited all the same: it says that there was nothing
        run = runs(ONE, ScriptedDemonstrator(ONE, Random(1), names=(("odd",), ("word",))))
        assert "[" not in run.steps[-1].reply


class TestPolicy:
    def test_says_its_script_turn_by_turn(self) -> None:
        """The last turn again, should it be asked once more."""
        demonstrator = ScriptedDemonstrator(ONE, Random(0), searching=1.0)

        async def replies(turn: int) -> list[Any]:
            return [part async for part in demonstrator.reply((), turn)]

        for turn, text in ((1, 0), (2, 1), (3, 1)):
            assert asyncio.run(replies(turn))[-1] == Reply(demonstrator.script[text])
        assert demonstrator.sampling == {"searching": 1.0, "reading": 0.0, "detours": 0.0}
        assert demonstrator.name == "demonstrator"
        asyncio.run(demonstrator.aclose())

    def test_the_same_chance_says_the_same(self) -> None:
        assert said(TWO, 5, searching=0.5) == said(TWO, 5, searching=0.5) != said(TWO, 6, searching=0.5)

    @pytest.mark.parametrize("template", ["emblem", "emblem_pair"])
    @pytest.mark.parametrize("graph", [False, True])
    def test_every_case_of_its_templates_has_a_script(self, template: str, graph: bool) -> None:
        made = synthesize(SynthesisOptions(documents=4, pages=4, templates=(template,)))
        for case in (*made.train, *made.held_out):
            script = said(case, graph=graph, searching=1.0, reading=1.0)
            assert len(script) == len(names_in(case.query)) * (2 if graph else 1) + 1
            assert case.reference_answer in script[-1]


THIRD = page("a.pdf", 3, "").id


@pytest.mark.parametrize("skill", [0.0, 1.0])
def test_a_page_is_selected_after_each_search(skill: float) -> None:
    selected: list[tuple[int, ...]] = []
    for seed in range(20):
        skills: dict[str, Any] = {"selecting": skill, "selects": True, "pages": (THIRD,)}
        demonstrator = ScriptedDemonstrator(ONE, Random(seed), 1.0, **skills)
        run = runs(ONE, demonstrator, hits=4, select=4)
        assert [step.action for step in run.steps] == [None, "select", None]
        selected.append(tuple(image.page for image in run.steps[1].shown))
    assert (set(selected) == {(3,)}) == (skill == 1.0)
