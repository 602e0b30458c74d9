"""Prompts that go on token by token, and replies written in batches."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tiny_world import (
    ANSWER,
    DONE,
    FAMILIES,
    NODE,
    NOTES,
    SEARCH,
    TOLERANCE,
    Counting,
    agents,
    attempts,
    drift,
    force,
    in_order,
    noise,
    opened,
    randoms,
    rolled,
    row_of,
    said,
    shared,
    spelt,
    tiny,
    torch,
    turns,
    user,
)

from vrag.agent.actions import Flag
from vrag.agent.events import InvalidAction, ModelCalled, StopReason
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.policy import FinishReason
from vrag.errors import ContextTooLong, SettingsError
from vrag.rl import batched_policy
from vrag.rl.generation import GeneratedReply, SamplingOptions, first_prompt, next_prompt, write
from vrag.rl.model import open_network
from vrag.rl.rows import rows_of
from vrag.rl.scored_rollouts import RolloutOptions, ScoredRollouts
from vrag.rl.sft_dataset import vocabulary_of

if TYPE_CHECKING:
    from vrag.rl.model import TrainableModel
    from vrag.rl.rows import RunRows
    from vrag.rollouts.rollout import Rollout


def written(
    network: TrainableModel, text: str, ids: list[int] | None = None, *, end: bool = True
) -> GeneratedReply:
    ends = [network.checkpoint.tokenizer.eos_token_id] if end else []
    sampled = tuple(network.encode(text) + ends if ids is None else ids)
    return GeneratedReply(
        text, sampled, (0.0,) * len(sampled), FinishReason.STOP if end else FinishReason.LENGTH
    )


def rows(network: TrainableModel, rollout: Rollout) -> RunRows:
    return rows_of(rollout.events, rollout.files, vocabulary_of(network))


def calls(rollout: Rollout) -> list[ModelCalled]:
    return [event for event in rollout.events if isinstance(event, ModelCalled)]


class TestFirstPrompt:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_is_what_the_processor_makes(self, family: str) -> None:
        network = shared(family)
        side = network.checkpoint.profile.factor
        shown = [noise(1, factor=side), noise(2, 3, 2, factor=side)]
        history = [user("red", shown[0], "blue"), said(SEARCH), user(shown[1])]
        prompt = first_prompt(network, history)
        wanted: Any = network.checkpoint.processor(
            text=[network.checkpoint.prompt(history)],
            images=[picture.image for picture in shown],
            return_tensors="pt",
        )
        assert list(prompt.ids) == wanted["input_ids"][0].tolist()
        assert [picture.grid for picture in prompt.seen] == [
            tuple(g) for g in wanted["image_grid_thw"].tolist()
        ]
        assert torch().equal(torch().cat([picture.pixels for picture in prompt.seen]), wanted["pixel_values"])
        assert [picture.tokens for picture in prompt.seen] == [4, 6]

    def test_a_text_that_names_a_placeholder_is_none(self) -> None:
        network = shared()
        prompt = first_prompt(network, [user("<|image_pad|> red", noise(1))])
        assert prompt.ids.count(network.image_token) == 4


class TestNextPrompt:
    """Ids of the prompt before, the sampled ids that were kept, and what was added."""

    def grown(
        self, reply: GeneratedReply, kept: str, *, network: TrainableModel | None = None
    ) -> tuple[Any, Any, list[int]]:
        network = network or shared()
        history = [user("red", noise(1))]
        before = first_prompt(network, history)
        after = next_prompt(network, before, reply, [*history, said(kept), user("blue", noise(2))])
        assert after.ids[: len(before.ids)] == before.ids
        return before, after, list(after.ids[len(before.ids) :])

    def test_goes_on_with_the_reply(self) -> None:
        network = shared()
        reply = written(network, SEARCH)
        _, after, new = self.grown(reply, SEARCH)
        assert new[: len(reply.ids)] == list(reply.ids), "the end of the turn is that of the template"
        assert after.ids == first_prompt(network, after.messages).ids
        assert after.text == first_prompt(network, after.messages).text
        assert len(after.seen) == 2

    def test_another_tokenisation_stays(self) -> None:
        network = shared()
        ids = spelt(network, SEARCH)
        assert len(ids) > len(network.encode(SEARCH)) + 5
        _, after, new = self.grown(written(network, SEARCH, ids), SEARCH)
        assert new[: len(ids)] == ids
        canonical = first_prompt(network, after.messages)
        assert (after.ids != canonical.ids, after.text) == (True, canonical.text)

    def test_what_follows_the_action_is_dropped(self) -> None:
        network = shared()
        reply = written(network, SEARCH + " red blue")
        _, after, new = self.grown(reply, SEARCH)
        kept = network.encode(SEARCH)
        assert new[: len(kept) + 1] == [*kept, network.checkpoint.tokenizer.eos_token_id]
        assert after.ids == first_prompt(network, after.messages).ids

    def test_a_reply_cut_off_by_its_length_gets_its_end(self) -> None:
        network = shared()
        reply = written(network, "red blue", end=False)
        _, after, new = self.grown(reply, "red blue")
        assert new[: len(reply.ids) + 1] == [*reply.ids, network.checkpoint.tokenizer.eos_token_id]
        assert after.ids == first_prompt(network, after.messages).ids

    def test_of_a_character_cut_in_two_all_bytes_are_kept(self) -> None:
        """A byte at the end of a reply reads as a replacement character, and stays the byte that it was."""
        network = shared()
        ids = network.encode("é")[:1]
        text = network.checkpoint.decode(ids)
        assert text == "�"
        _, _, new = self.grown(written(network, text, ids, end=False), text)
        assert new[0] == ids[0]

    @pytest.mark.parametrize("kept", ["", "blue", "red <b>"])
    def test_what_was_not_said_is_encoded_anew(self, kept: str) -> None:
        network = shared()
        _, after, _ = self.grown(written(network, "red"), kept)
        assert after.ids == first_prompt(network, after.messages).ids

    def test_another_context_begins_from_scratch(self) -> None:
        network = shared()
        history = [user("red", noise(1))]
        before, reply = first_prompt(network, history), written(network, SEARCH)
        rebuilt = [user("red", noise(1)), said(SEARCH), user("blue")]
        for other in (rebuilt, [user("blue")], history, [*history, user("blue"), said(SEARCH)]):
            after = next_prompt(network, before, reply, other)
            assert after.ids == first_prompt(network, other).ids
            assert after.messages == tuple(other)

    def test_a_template_that_opens_the_thought(self, thinking: TrainableModel) -> None:
        """Its opening is part of the prompt and of the text of the reply, and not of the sampled tokens."""
        before = first_prompt(thinking, [user("red")])
        assert before.text.endswith("<think>\n")
        reply = write(thinking, [before], SamplingOptions(max_tokens=4), randoms(1))[0]
        assert reply.text == "<think>\n" + thinking.checkpoint.decode(reply.ids)
        said_then = spelt(thinking, "red</think>" + SEARCH)
        told = "<think>\nred</think>" + SEARCH
        _, after, new = self.grown(written(thinking, told, said_then), told, network=thinking)
        assert new[: len(said_then)] == said_then
        assert after.text == first_prompt(thinking, after.messages).text


@pytest.fixture(scope="module")
def thinking(tmp_path_factory: pytest.TempPathFactory) -> TrainableModel:
    """Its chat template writes the beginning of a thought, as those of reasoning models do."""
    folder = tmp_path_factory.mktemp("thinking") / "tiny"
    shutil.copytree(tiny(), folder)
    template = folder / "chat_template.jinja"
    opening = "'<|im_start|>assistant\\n'"
    text = template.read_text()
    assert text.count(opening) == 1
    template.write_text(text.replace(opening, "'<|im_start|>assistant\\n<think>\\n'"))
    return open_network(folder, device="cpu")


class TestRows:
    """What runs come to: one row a segment, and no breaks."""

    @pytest.mark.parametrize("family", FAMILIES)
    def test_of_a_conversation(self, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
        network = shared(family)
        again = "<think>red</think><search>return ticket</search>"
        force(monkeypatch, turns(SEARCH, spelt(network, again), ANSWER))
        (rollout,) = rolled(network, tokens=60)
        made = rows(network, rollout)
        assert (len(made.rows), made.dropped, made.breaks) == (1, (), ())
        row, last = made.rows[0], calls(rollout)[-1]
        assert row.tokens.tolist() == [*last.prompt_ids, *last.ids]
        assert len(row.images) == 2
        sampled = [token for call in calls(rollout) for token in call.ids]
        assert row.tokens[row.own].tolist() == sampled
        assert row.logprobs[row.own].tolist() == pytest.approx(
            [value for call in calls(rollout) for value in call.logprobs]
        )

    def test_of_invalid_replies_and_trailing_text(self, monkeypatch: pytest.MonkeyPatch) -> None:
        network = shared()
        force(monkeypatch, turns("red blue", SEARCH + "grey grey", ANSWER))
        (rollout,) = rolled(network)
        made = rows(network, rollout)
        assert [event.step for event in rollout.events if isinstance(event, InvalidAction)] == [1]
        assert (len(made.rows), made.dropped, made.breaks) == (1, (), ())
        text = network.checkpoint.decode(made.rows[0].tokens[made.rows[0].own].tolist())
        assert text == "red blue" + SEARCH + ANSWER, "what followed the action is not learned"

    def test_of_replies_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        network = shared()
        force(monkeypatch, turns(SEARCH, SEARCH, "red blue red blue red blue red", end=False))
        length = len(network.encode(SEARCH))
        (rollout,) = rolled(network, tokens=length)
        assert [call.finish for call in calls(rollout)] == [FinishReason.LENGTH] * 3
        assert rollout.trajectory.stop_reason is StopReason.OUT_OF_TOKENS
        made = rows(network, rollout)
        assert (len(made.rows), made.dropped, made.breaks) == (1, (), ())
        assert int(made.rows[0].own.sum()) == 3 * length

    def test_of_what_random_weights_say(self) -> None:
        """Anything at all: bytes that are no text, words in any order, ends anywhere."""
        network = shared()
        for method, runs in ((None, 6), (Vimrag(), 3)):
            for rollout in rolled(network, runs, method=method, tokens=20):
                made = rows(network, rollout)
                assert rollout.failure is None
                assert (len(made.rows), made.dropped, made.breaks) == (1, (), ())
                assert 1 <= len(calls(rollout)) <= 3

    def test_of_rebuilt_contexts(self, monkeypatch: pytest.MonkeyPatch) -> None:

        network = shared()
        force(monkeypatch, in_order(NODE, "red", NOTES, DONE))
        (rollout,) = rolled(network, method=Vimrag(), steps=5, tokens=60)
        made = rows(network, rollout)
        assert rollout.trajectory.stop_reason is StopReason.ANSWERED
        assert (made.dropped, made.breaks) == ((), ())
        assert [row.segment for row in made.rows] == [0, 1]
        first, second = (row.tokens[row.own].tolist() for row in made.rows)
        assert network.checkpoint.decode(first) == NODE + "red" + NOTES
        assert network.checkpoint.decode(second) == DONE

    def test_of_a_template_that_opens_the_thought(
        self, thinking: TrainableModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        force(monkeypatch, turns("red</think>" + SEARCH, "blue</think>" + ANSWER))
        (rollout,) = rolled(thinking)
        assert rollout.trajectory.answer == "48,200"
        made = rows(thinking, rollout)
        assert (len(made.rows), made.dropped, made.breaks) == (1, (), ())
        text = thinking.checkpoint.decode(made.rows[0].tokens[made.rows[0].own].tolist())
        assert text == "red</think>" + SEARCH + "blue</think>" + ANSWER


class TestWrite:
    def test_the_same_batch_gives_the_same_replies(self) -> None:
        network = shared()
        prompts = [first_prompt(network, [user(text)]) for text in ("red", "red blue green", "red")]
        first, again = (write(network, prompts, SamplingOptions(max_tokens=8), randoms(3)) for _ in range(2))
        assert first == again
        assert first[0].ids != first[2].ids, "each has its own chance"

    def test_no_global_chance_is_touched(self) -> None:
        network = shared()
        before = torch().random.get_rng_state()
        write(network, [first_prompt(network, [user("red")])], SamplingOptions(max_tokens=3), randoms(1))
        assert torch().equal(before, torch().random.get_rng_state())

    def test_without_temperature_the_likeliest(self) -> None:
        network = shared()
        prompt = first_prompt(network, [user("red", noise(1))])
        one, other = write(
            network,
            [prompt, prompt],
            SamplingOptions(temperature=0.0, max_tokens=6),
            [*randoms(1), *randoms(1, 5)],
        )
        assert one.ids == other.ids
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)

    def test_draws_as_often_as_it_says(self) -> None:
        """Frequencies of the first token are its probabilities."""
        network = shared()
        prompt = first_prompt(network, [user("red")])
        ends = SamplingOptions(temperature=0.15, max_tokens=1)
        replies = [
            one for part in range(8) for one in write(network, [prompt] * 128, ends, randoms(128, part))
        ]
        says = {reply.ids[0]: np.exp(reply.logprobs[0]) for reply in replies}
        drawn = [reply.ids[0] for reply in replies]
        likely = max(says, key=lambda token: says[token])
        assert 0.02 < says[likely] < 0.98
        assert drawn.count(likely) / len(drawn) == pytest.approx(says[likely], abs=0.05)

    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    def test_no_placeholder_of_a_picture_is_written(self, temperature: float) -> None:
        """Also where the network would like nothing better."""
        network = opened()
        banned = list(network.checkpoint.banned)
        with torch().no_grad():
            head = network.model.lm_head.weight
            head[banned] = 50 * head[banned]
        prompts = [first_prompt(network, [user("red", noise(1))])] * 8
        replies = write(network, prompts, SamplingOptions(temperature=temperature, max_tokens=12), randoms(8))
        assert not {token for reply in replies for token in reply.ids} & set(banned)
        assert all(np.isfinite(reply.logprobs).all() for reply in replies)

    def test_ends_at_the_end_of_the_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        network = shared()
        force(monkeypatch, turns(SEARCH, "", ANSWER))
        (rollout,) = rolled(network)
        end = network.checkpoint.tokenizer.eos_token_id
        assert [call.ids[-1] for call in calls(rollout)] == [end] * 3
        assert [call.finish for call in calls(rollout)] == [FinishReason.STOP] * 3
        assert calls(rollout)[1].ids == (end,)
        assert rows(network, rollout).dropped == ()

    def test_a_prompt_without_room_is_refused(self) -> None:
        network = shared()
        context = network.checkpoint.context
        prompt = replace(first_prompt(network, [user("red")]), ids=(5,) * context)
        with pytest.raises(ContextTooLong, match=f"{context} tokens"):
            write(network, [prompt], SamplingOptions(), randoms(1))

    def test_a_long_prompt_does_not_shorten_the_others(self) -> None:
        network = opened()
        network.model.config.get_text_config().max_position_embeddings = 40
        short = first_prompt(network, [user("red")])
        long = replace(short, ids=(*short.ids, *(5,) * (38 - len(short.ids))))
        replies = write(network, [short, long], SamplingOptions(max_tokens=8), randoms(2, 3))
        assert [len(reply.ids) for reply in replies] == [8, 2]
        assert replies[1].finish is FinishReason.LENGTH


class TestStop:
    """Replies that end with the end tag of their action, each for itself in its batch."""

    OPTIONS = SamplingOptions(max_tokens=40, stop=("</search>", "</answer>"))

    def written(self, monkeypatch: pytest.MonkeyPatch, *replies: list[int]) -> list[GeneratedReply]:
        network = shared()
        prompts = [first_prompt(network, [user(f"red {number}")]) for number in range(len(replies))]
        forced = dict(zip([prompt.ids for prompt in prompts], replies, strict=True))
        force(monkeypatch, lambda _, prompt: forced[prompt.ids])
        return batched_policy.write(network, prompts, self.OPTIONS, randoms(len(prompts)))

    def test_nothing_is_sampled_behind_an_action(self, monkeypatch: pytest.MonkeyPatch) -> None:
        network = shared()
        action = network.encode("<think>red</think>" + SEARCH)
        long = network.encode("red blue " * 30)[:40]
        replies = self.written(monkeypatch, [*action, *network.encode(" grey grey")], long)
        assert [list(reply.ids) for reply in replies] == [action, long], "each ends for itself"
        assert [reply.finish for reply in replies] == [FinishReason.STOP, FinishReason.LENGTH]
        assert [len(reply.logprobs) for reply in replies] == [len(action), len(long)]

    def test_a_tag_of_many_tokens_ends_a_reply(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ids = spelt(shared(), ANSWER, end=False)
        (reply,) = self.written(monkeypatch, [*ids, *shared().encode(" grey")])
        assert (list(reply.ids), reply.text) == (ids, ANSWER)

    def test_a_token_that_goes_on_behind_the_string_stays_whole(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        network = shared()
        monkeypatch.setattr(self, "OPTIONS", SamplingOptions(max_tokens=9, stop=("ferr",)), raising=True)
        text = next(text for text in ("red ferry", "redferry") if len(network.encode(text)) == 2)
        (reply,) = self.written(monkeypatch, [*network.encode(text), *network.encode(" grey")])
        assert (list(reply.ids), reply.text) == (network.encode(text), text)

    def test_a_tag_in_a_thought_ends_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        network = shared()
        text = f"<think>{SEARCH} red</think>{ANSWER}"
        (reply,) = self.written(monkeypatch, [*network.encode(text), *network.encode(" grey")])
        assert reply.text == text

    def test_log_probabilities_are_those_of_training(self, monkeypatch: pytest.MonkeyPatch) -> None:
        network = shared()
        short, long = network.encode(SEARCH), network.encode("red blue " * 9 + ANSWER)
        prompts = [first_prompt(network, [user(f"red {number}")]) for number in range(2)]
        replies = self.written(monkeypatch, [*short, *long], long)
        assert [list(reply.ids) for reply in replies] == [short, long]
        made = [row_of(prompt, reply) for prompt, reply in zip(prompts, replies, strict=True)]
        assert drift(network, made, {}) < TOLERANCE

    def test_runs_to_train_on_have_no_text_behind_their_actions(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        network = shared()
        force(monkeypatch, turns(SEARCH + "grey grey", ANSWER + "red"))
        scorer = Counting(
            lambda _, run: float(not any(Flag.TRAILING_TEXT in step.flags for step in run.steps))
        )
        rollouts = ScoredRollouts(network, agents(network), scorer, RolloutOptions(max_tokens=60))
        (scored,) = asyncio.run(rollouts.make(attempts(1), 1.0, 0))
        assert scored.reward.total == 1.0
        made = rows(network, scored.rollout)
        text = network.checkpoint.decode(made.rows[0].tokens[made.rows[0].own].tolist())
        assert (text, made.dropped, made.breaks) == (SEARCH + ANSWER, (), ())

    def test_an_empty_string_is_refused(self) -> None:
        with pytest.raises(SettingsError, match="empty"):
            SamplingOptions(stop=("",))


class TestSampling:
    @pytest.mark.parametrize(
        "wrong", [{"temperature": -1.0}, {"temperature": float("inf")}, {"max_tokens": 0}]
    )
    def test_what_cannot_be_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(SettingsError):
            SamplingOptions(**wrong)
