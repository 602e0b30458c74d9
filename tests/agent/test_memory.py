"""Energies of graphs that were worked out by hand, and what is selected by them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from graph_material import graphs, picture, root, video
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from vrag.agent.memory.energies import MemoryOptions, Propagation, energies, select
from vrag.agent.memory.memory_graph import ROOT, Graph, NodeKind, RememberedItem

if TYPE_CHECKING:
    from vrag.agent.memory.energies import Remembered

PLAIN = MemoryOptions(decay=0.0, feedback=0.5)
"""No ageing, and half of what children are worth: sums that can be done in the head."""
BLOCKED = PLAIN.model_copy(update={"propagation": Propagation.BLOCKED})


def totals(graph: Graph, options: MemoryOptions) -> dict[str, float]:
    """Ω by node and label."""
    return {
        f"{energy.node.id} {energy.memory_item.label}": energy.total for energy in energies(graph, options)
    }


def test_a_chain_with_the_defaults() -> None:
    graph = (
        root().grow("a", memory=(picture(1, priority=5),)).grow("b", "a", memory=(picture(2, priority=4),))
    )
    # b: 0.8·1·1 = 0.8. a: 1·2·e^-0.1 = 1.8096748…, and 0.3·0.8 = 0.24 of b.
    newest, older = energies(graph.graph, MemoryOptions())
    assert (newest.own, newest.feedback) == (0.8, 0.0)
    assert older.own == pytest.approx(1.809674836071919, rel=1e-12)
    assert older.feedback == pytest.approx(0.24, rel=1e-12)
    assert older.total == pytest.approx(2.049674836071919, rel=1e-12)


def test_energy_halves_with_every_step_of_age() -> None:
    graph = root().grow("a", memory=(picture(1, priority=5),)).grow("b").grow("c")
    assert totals(graph.graph, MemoryOptions(decay=math.log(2)))["a Picture 1"] == pytest.approx(0.25)


def diamond() -> Graph:
    """root → a → (b, c) → d; a one picture, b two, c none, d one."""
    graph = root().grow("a", memory=(picture(1, priority=5),))
    graph = graph.grow("b", "a", memory=(picture(2, priority=5), picture(3, priority=1))).grow("c", "a")
    return graph.grow("d", "b", "c", memory=(picture(4, priority=4),)).graph


def test_a_diamond_in_which_every_parent_receives_the_full_feedback() -> None:
    # d: 0.8. b: F = 0.5·0.8 = 0.4; 1·2 + 0.4 = 2.4 and 0.2·2 + 0.4 = 0.8; M = 1.6.
    # c: nothing of its own, M = F = 0.4. a: 1·3 + 0.5·(1.6 + 0.4) = 4.
    assert totals(diamond(), PLAIN) == pytest.approx(
        {"d Picture 4": 0.8, "b Picture 2": 2.4, "b Picture 3": 0.8, "a Picture 1": 4.0}
    )


def test_the_rule_of_the_reference_lets_nothing_through_a_node_without_pictures() -> None:
    # The same, but M of c is 0: a = 1·3 + 0.5·1.6 = 3.8.
    assert totals(diamond(), BLOCKED) == pytest.approx(
        {"d Picture 4": 0.8, "b Picture 2": 2.4, "b Picture 3": 0.8, "a Picture 1": 3.8}
    )


def test_two_nodes_of_text_between_pictures_weaken_what_passes_and_the_reference_stops_it() -> None:
    graph = root().grow("v", memory=(picture(1, priority=5),)).grow("t", "v").grow("u", "t")
    graph = graph.grow("w", "u", memory=(picture(2, priority=5),))
    # w: 1. u: 0.5. t: 0.25. v: 1·2 + 0.125.
    assert totals(graph.graph, PLAIN) == pytest.approx({"w Picture 2": 1.0, "v Picture 1": 2.125})
    assert totals(graph.graph, BLOCKED) == pytest.approx({"w Picture 2": 1.0, "v Picture 1": 2.0})


def test_what_is_not_useful_has_no_energy_and_does_not_weigh_on_the_mean() -> None:
    useless = RememberedItem(label="Picture 9", item="x", position=8, useful=False, priority=0)
    graph = root().grow("a", memory=(picture(1, priority=5),))
    graph = graph.grow("b", "a", memory=(picture(2, priority=2), useless))
    assert totals(graph.graph, PLAIN) == pytest.approx({"b Picture 2": 0.4, "a Picture 1": 2.2})


def test_a_node_with_nothing_useful_passes_on_like_one_without_pictures() -> None:
    useless = RememberedItem(label="Picture 9", item="x", position=8, useful=False, priority=0)
    graph = root().grow("a", memory=(picture(1, priority=5),)).grow("t", "a", memory=(useless,))
    graph = graph.grow("w", "t", memory=(picture(2, priority=5),))
    assert totals(graph.graph, PLAIN)["a Picture 1"] == pytest.approx(2.25)
    assert totals(graph.graph, BLOCKED)["a Picture 1"] == pytest.approx(2.0)


def test_an_open_node_is_no_child_yet_and_the_answer_never_is() -> None:
    done = root().grow("a", memory=(picture(1, priority=5),)).graph
    pending = done.add(id="b", kind=NodeKind.SEARCH, parents=("a",), query="more")
    assert totals(pending, PLAIN) == totals(done, PLAIN) == {"a Picture 1": 1.0}
    assert totals(done.answer(("a",), "yes"), MemoryOptions()) == totals(done, MemoryOptions())
    assert totals(pending.complete("found"), PLAIN) == {"a Picture 1": 2.0}


def test_an_open_node_makes_all_others_older_by_one_factor() -> None:
    done = diamond()
    pending = done.add(id="e", kind=NodeKind.SEARCH, parents=("d",), query="more")
    before, after = (totals(graph, MemoryOptions()) for graph in (done, pending))
    assert after == pytest.approx({name: total * math.exp(-0.1) for name, total in before.items()})


def labels(kept: tuple[Remembered, ...]) -> list[str]:
    return [f"{one.node} {one.label}" for one in kept]


def test_the_items_of_highest_energy_are_kept_and_the_others_named() -> None:
    selection = select(diamond(), PLAIN.model_copy(update={"items": 2}))
    assert labels(selection.kept) == ["a Picture 1", "b Picture 2"]
    assert [(lost.entry.label, lost.reason) for lost in selection.dropped] == [
        ("Picture 4", "Only the 2 items of the highest energy are shown."),
        ("Picture 3", "Only the 2 items of the highest energy are shown."),
    ]


def test_of_equals_the_newer_node_comes_first_then_the_earlier_result() -> None:
    graph = root().grow("a", memory=(picture(1), picture(2))).grow("b", memory=(picture(3), picture(4)))
    assert labels(select(graph.graph, PLAIN).kept) == [
        "b Picture 3",
        "b Picture 4",
        "a Picture 1",
        "a Picture 2",
    ]


def test_an_item_in_two_nodes_is_one_with_its_highest_energy_and_the_frames_of_both() -> None:
    first = video(1, (3.0, 7.0), priority=5)
    graph = (
        root().grow("a", memory=(first,)).grow("t", "a").grow("b", memory=(replace(first, label="Video 2"),))
    )
    graph = graph.grow("c", memory=(video(1, (1.0, 3.0), priority=1),))
    (kept,) = select(graph.graph, PLAIN).kept
    # In a it has a child: 1·2; in b 1, in c 0.2. It goes by its name in the newest node.
    assert kept.energy == 2.0
    assert (kept.node, kept.label, kept.order, kept.nodes) == ("c", "Video 1", 4, ("a", "b", "c"))
    assert kept.seconds == (1.0, 3.0, 7.0)


def test_two_parts_of_an_item_and_the_whole_are_three_memories() -> None:
    whole = picture(1)
    left = replace(whole, label="Picture 2", region=(0, 0, 50, 100))
    right = replace(whole, label="Picture 3", region=(50, 0, 100, 100))
    graph = root().grow("a", memory=(whole, left, right)).grow("b", memory=(left,))
    kept = select(graph.graph, PLAIN).kept
    assert [(one.node, one.region) for one in kept] == [
        ("b", (0, 0, 50, 100)),
        ("a", None),
        ("a", (50, 0, 100, 100)),
    ]


def test_a_graph_without_pictures_remembers_none() -> None:
    assert select(Graph.of("?"), PLAIN).kept == ()
    assert select(root().grow("a").graph, PLAIN).kept == ()
    assert Graph.of("?").node(ROOT).memory == ()


@pytest.mark.parametrize(
    "wrong", [{"feedback": math.inf}, {"decay": math.nan}, {"feedback": -1}, {"items": 0}]
)
def test_options_that_give_no_finite_energy_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        MemoryOptions.model_validate(wrong)


def by_definition(graph: Graph, options: MemoryOptions) -> dict[tuple[str, int], float]:
    """Ω by node and position, as the definition says it: recursively, with sums over paths left to Python."""
    done = {node.id: node for node in graph.nodes if not node.pending and node.kind is not NodeKind.ANSWER}
    newest = max(node.order for node in graph.nodes if node.kind is not NodeKind.ANSWER)

    def children(name: str) -> list[str]:
        return [child for child, node in done.items() if name in node.parents]

    def feedback(name: str) -> float:
        return options.feedback * sum(passed(child) for child in children(name))

    def omegas(name: str) -> dict[int, float]:
        node = done[name]
        growth = (1 + len(children(name))) * math.exp(-options.decay * (newest - node.order))
        return {
            memo.position: memo.priority / 5 * growth + feedback(name) for memo in node.memory if memo.useful
        }

    def passed(name: str) -> float:
        found = list(omegas(name).values())
        if found:
            return sum(found) / len(found)
        return feedback(name) if options.propagation is Propagation.THROUGH else 0.0

    return {(name, position): total for name in done for position, total in omegas(name).items()}


@given(graphs(), st.sampled_from(Propagation), st.floats(0, 2), st.floats(0, 2))
def test_energies_are_those_of_the_definition(
    graph: Graph, propagation: Propagation, feedback: float, decay: float
) -> None:
    options = MemoryOptions(propagation=propagation, feedback=feedback, decay=decay)
    found = {
        (energy.node.id, energy.memory_item.position): energy.total for energy in energies(graph, options)
    }
    assert found == pytest.approx(by_definition(graph, options), rel=1e-9)


@given(graphs(), st.integers(1, 6))
def test_no_item_is_selected_twice_and_none_is_lost_in_silence(graph: Graph, items: int) -> None:
    selection = select(graph, MemoryOptions(items=items))
    chosen = [(one.item, one.region) for one in selection.kept]
    assert len(set(chosen)) == len(chosen) <= items
    known = {(memo.item, memo.region) for node in graph.nodes for memo in node.memory if memo.useful}
    assert {*chosen, *((lost.entry.item, lost.entry.region) for lost in selection.dropped)} == known
    weights = [one.energy for one in selection.kept] + [lost.entry.energy for lost in selection.dropped]
    assert weights == sorted(weights, reverse=True)
    assert selection == select(graph, MemoryOptions(items=items))
