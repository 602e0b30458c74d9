"""Recorded runs in the tokens of another model: what is told, and what is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tiny_world import (
    ANSWER,
    DONE,
    FAMILIES,
    NODE,
    NOTES,
    SEARCH,
    force,
    opened,
    recorded,
    rolled,
    shared,
    turns,
)

from vrag.agent.events import ModelCalled
from vrag.agent.methods.vimrag import Vimrag
from vrag.rl.rows import rows_of
from vrag.rl.sft_dataset import sft_rows, vocabulary_of
from vrag.rollouts.rollout import Rollout

if TYPE_CHECKING:
    from vrag.agent.events import Event
    from vrag.rl.model import TrainableModel
    from vrag.rl.rows import Row


def own_text(network: TrainableModel, row: Row) -> str:
    ids = row.tokens[row.own].tolist()
    return network.checkpoint.tokenizer.decode(ids, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("family", FAMILIES)
class TestTaught:
    def test_a_run_is_the_row_that_the_model_would_have_made(
        self, family: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Told by a script or drawn by the network: the same tokens, the same masks, the same pictures."""
        network = shared(family)
        taught = sft_rows(network, *told(recorded(network, SEARCH, ANSWER)))
        force(monkeypatch, turns(SEARCH, ANSWER))
        (drawn,) = rolled(network)
        wanted = rows_of(drawn.events, drawn.files, vocabulary_of(network))
        (row,), (other,) = taught.rows, wanted.rows
        assert row.tokens.tolist() == other.tokens.tolist()
        assert row.own.tolist() == other.own.tolist()
        assert (row.images, row.segment) == (other.images, other.segment)
        assert not row.logprobs.any()

    def test_segments_are_rows(self, family: str) -> None:
        network = shared(family)
        made = sft_rows(network, *told(recorded(network, NODE, NOTES, DONE, method=Vimrag())))
        assert (made.dropped, made.breaks) == ((), ())
        assert [row.segment for row in made.rows] == [0, 1]
        texts = [own_text(network, row) for row in made.rows]
        assert texts == [f"{NODE}<|im_end|>{NOTES}<|im_end|>", f"{DONE}<|im_end|>"]


def told(rollout: Rollout) -> tuple[tuple[Event, ...], dict[str, bytes]]:
    assert rollout.failure is None
    assert not any(isinstance(event, ModelCalled) and event.ids for event in rollout.events)
    return rollout.events, dict(rollout.files)


class TestWhatIsLearned:
    def test_is_what_was_carried_out_and_the_end_of_the_turn(self) -> None:
        network = shared()
        made = sft_rows(network, *told(recorded(network, SEARCH + " and more", ANSWER)))
        assert own_text(network, made.rows[0]) == f"{SEARCH}<|im_end|>{ANSWER}<|im_end|>"

    def test_a_run_without_its_messages_is_dropped(self) -> None:
        network = shared()
        events, _ = told(recorded(network, SEARCH, ANSWER))
        made = sft_rows(network, events, {})
        assert made.rows == ()
        assert [dropped.steps for dropped in made.dropped] == [(1,), (2,)]
        assert all("missing or damaged" in dropped.reason for dropped in made.dropped)

    def test_a_picture_that_is_gone_is_told_of(self) -> None:
        network = shared()
        events, files = told(recorded(network, SEARCH, ANSWER))
        left = {name: data for name, data in files.items() if not name.endswith(".jpg")}
        made = sft_rows(network, events, left)
        assert [dropped.steps for dropped in made.dropped] == [(2,)]
        assert len(made.rows) == 1
        assert own_text(network, made.rows[0]) == f"{SEARCH}<|im_end|>"

    @pytest.mark.parametrize("rest", [0, 1, 300])
    def test_a_picture_that_is_damaged_is_told_of(self, rest: int) -> None:
        network = opened()  # which has not seen it whole
        events, files = told(recorded(network, SEARCH, ANSWER))
        torn = {name: data[:rest] if name.endswith(".jpg") else data for name, data in files.items()}
        made = sft_rows(network, events, torn)
        assert [(one.steps, "missing or damaged" in one.reason) for one in made.dropped] == [((2,), True)]
        assert len(made.rows) == 1
