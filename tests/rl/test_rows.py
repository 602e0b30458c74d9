"""Training rows: of runs of a real tiny network, token for token, and of tokens made by hand.

The network's weights are random, so its draws are forced to a script. Everything else is its own: prompts,
tokens, log-probabilities, pictures.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import sys
import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extras import require
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import AnswerDelta, DraftMode, MemoryUpdated, ModelCalled
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policies import local
from vrag.agent.policies.local import LocalOptions, LocalPolicy, open_local
from vrag.agent.policy import FinishReason
from vrag.model_profiles import PROFILES
from vrag.rl.rows import RunRows, Vocabulary, rows_of
from vrag.testing import ScriptedPolicy, tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vrag.agent.events import Event
    from vrag.agent.method import Method
    from vrag.rl.rows import Row

END, HITS = "<|im_end|>", EnvironmentOptions(hits=3)
GRAPH = Vimrag(instruction="Work.", memory=MemoryOptions(image_pixels=16 * 28**2))
"""Without long words and large pictures: every one is computed."""
SEARCH, AGAIN = "<search>ferry passengers</search>", "<think>多少?</think><search>return prices</search>"
ANSWER = "<think>Seen.</think><answer>48,200</answer>"


def tool(name: str, **arguments: object) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


NODE = tool("add_search_node", id="prices", parent_ids=["root"], query="return ticket prices")
NOTES = tool(
    "summarize_and_memorize",
    summarize="12 crowns.",
    memorize=[{"information_id": "Picture 1", "is_useful": True, "priority_score": 5}],
)
END_NODE = tool("add_answer_node", parent_ids=["prices"], answer="12 crowns")


def tiny_models() -> Any:  # noqa: ANN401 - not typed
    sys.path.append(str(Path(__file__).parents[1] / "embed"))
    try:
        return importlib.import_module("tiny_models")
    finally:
        sys.path.pop()


@dataclass
class Forced:
    """A policy of a real network that draws what it is told to."""

    policy: LocalPolicy
    script: list[list[int]]
    tokenizer: Any
    drawn: list[list[int]] = field(default_factory=list[list[int]])
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])

    @property
    def vocabulary(self) -> Vocabulary:
        ids = {name: self.tokenizer.convert_tokens_to_ids(name) for name in tiny_models().SPECIAL}
        return Vocabulary(
            decode=partial(self.tokenizer.decode, skip_special_tokens=True),
            ends=frozenset({ids[END], ids["<|endoftext|>"]}),
            image=ids["<|image_pad|>"],
            forbidden=frozenset(ids[name] for name in ids if "vision" in name or "pad" in name),
            features=self.policy.profile.visual_tokens,
        )

    def tokens(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def run(self, method: Method, *replies: str | list[int], draft: DraftMode = DraftMode.OFF) -> list[Event]:
        """Events of a run in which these replies are sampled, each with the end of its turn."""
        self.script[:] = [
            self.tokens(reply + END) if isinstance(reply, str) else list(reply) for reply in replies
        ]
        self.files.clear()
        environment = Environment(
            tiny_corpus(), replace(self.policy.profile, min_tokens=4, max_tokens=16), HITS
        )
        agent = Agent(self.policy, environment, method, Limits(steps=len(replies)), draft=draft)
        return list(agent.stream("How many?", save=self.files.__setitem__))

    def rows(self, events: Sequence[Event]) -> RunRows:
        return rows_of(events, self.files, self.vocabulary)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("models", "torch", "transformers")
    importlib.import_module("torch").set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # saving warns of what loading does not use
        return tiny_models().chat(tmp_path_factory.mktemp("rows") / "model", "qwen2_5_vl")


@pytest.fixture(scope="module")
def opened(checkpoint: Path) -> tuple[LocalPolicy, Any]:
    transformers: Any = importlib.import_module("transformers")
    policy = open_local(str(checkpoint), options=LocalOptions(max_tokens=400, temperature=0.7))
    return policy, transformers.AutoTokenizer.from_pretrained(checkpoint)


@pytest.fixture
def forced(opened: tuple[LocalPolicy, Any], monkeypatch: pytest.MonkeyPatch) -> Forced:
    torch: Any = importlib.import_module("torch")
    made = Forced(opened[0], [], opened[1])
    begin: Callable[..., None] = local._Sampler.__init__  # pyright: ignore[reportPrivateUsage]

    def forced_draw(probabilities: Any, _count: int, *, generator: Any) -> Any:  # noqa: ANN401
        reply = made.script[0]
        drawn = reply.pop(0)
        made.drawn[-1].append(drawn)
        if not reply:
            made.script.pop(0)
        assert probabilities[drawn] > 0
        assert generator is not None
        return torch.tensor([drawn])

    def begun(sampler: Any, *how: Any) -> None:  # noqa: ANN401
        made.drawn.append([])
        begin(sampler, *how)
        sampler._torch = _Torch(torch, forced_draw)

    monkeypatch.setattr(local._Sampler, "__init__", begun)  # pyright: ignore[reportPrivateUsage]
    return made


class _Torch:
    """torch with another draw."""

    def __init__(self, torch: Any, draw: Callable[..., Any]) -> None:  # noqa: ANN401
        self._torch, self.multinomial = torch, draw

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._torch, name)


def calls(events: Sequence[Event]) -> list[ModelCalled]:
    return [event for event in events if isinstance(event, ModelCalled)]


def own_texts(row: Row, vocabulary: Vocabulary) -> list[str]:
    """The text of each stretch of a row that the model sampled."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], row.own, [False]]).astype(int)))
    return [vocabulary.decode(row.tokens[a:b].tolist()) for a, b in edges.reshape(-1, 2)]


class TestRealRuns:
    def test_a_conversation_is_one_row(self, forced: Forced) -> None:
        events = forced.run(VragMethod(), SEARCH, AGAIN, ANSWER)
        made = forced.rows(events)
        assert (len(made.rows), made.dropped, made.breaks) == (1, (), ())
        row, last = made.rows[0], calls(events)[-1]
        assert row.tokens.tolist() == [*last.prompt_ids, *last.ids]
        assert own_texts(row, forced.vocabulary) == [SEARCH, AGAIN, ANSWER]
        assert own_texts(row, forced.vocabulary) == [call.reply[: call.executed] for call in calls(events)]
        sampled = [token for call in calls(events) for token in call.ids]
        assert row.tokens[row.own].tolist() == sampled == [token for reply in forced.drawn for token in reply]
        told = [value for call in calls(events) for value in call.logprobs]
        assert row.logprobs[row.own].tolist() == np.array(told, np.float32).tolist()
        assert not row.logprobs[~row.own].any()
        assert (row.tokens.dtype, row.own.dtype, row.logprobs.dtype) == (np.int64, np.bool_, np.float32)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("method", "replies"), [(VragMethod(), (SEARCH, AGAIN, ANSWER)), (GRAPH, (NODE, NOTES, END_NODE))]
    )
    def test_the_draft_of_an_answer_is_no_part_of_it(
        self, forced: Forced, method: Method, replies: tuple[str, ...]
    ) -> None:
        events = forced.run(method, *replies, draft=DraftMode.CITED)
        assert any(isinstance(event, AnswerDelta) for event in events)
        followed, alone = forced.rows(events), forced.rows(forced.run(method, *replies))
        assert [row.tokens.tolist() for row in followed.rows] == [row.tokens.tolist() for row in alone.rows]
        assert [row.own.tolist() for row in followed.rows] == [row.own.tolist() for row in alone.rows]

    def test_its_pictures_are_those_of_the_prompts_in_order(self, forced: Forced) -> None:
        row = forced.rows(forced.run(VragMethod(), SEARCH, AGAIN, ANSWER)).rows[0]
        shown = [Image.open(io.BytesIO(forced.files[f"{sha}.jpg"])).size for sha in row.images]
        assert len(set(row.images)) == 2
        count = sum(width * height // 28**2 for width, height in shown)
        assert int((row.tokens == forced.vocabulary.image).sum()) == count > 0

    def test_every_node_is_a_row(self, forced: Forced) -> None:
        events = forced.run(GRAPH, NODE, NOTES, END_NODE)
        made = forced.rows(events)
        assert [row.segment for row in made.rows] == [0, 1]
        assert (made.dropped, made.breaks) == ((), ())
        assert [own_texts(row, forced.vocabulary) for row in made.rows] == [[NODE, NOTES], [END_NODE]]
        first, second, third = calls(events)
        assert made.rows[0].tokens.tolist() == [*second.prompt_ids, *second.ids]
        assert list(second.prompt_ids[: len(first.prompt_ids)]) == list(first.prompt_ids)
        assert made.rows[1].tokens.tolist() == [*third.prompt_ids, *third.ids]
        assert [len(row.images) for row in made.rows] == [1, 1]  # the result, then memory

    def test_what_is_written_behind_an_action_is_no_part_of_it(self, forced: Forced) -> None:
        behind = forced.tokens(SEARCH) + forced.tokens(" and more <answer>1</answer>" + END)
        row = forced.rows(forced.run(VragMethod(), behind, ANSWER)).rows[0]
        assert own_texts(row, forced.vocabulary) == [SEARCH, ANSWER]
        assert len(row.tokens[row.own]) == len(forced.tokens(SEARCH)) + len(forced.tokens(ANSWER)) + 1
        assert (row.tokens[row.own] == forced.tokens(END)[0]).sum() == 1  # the one that was sampled in place

    def test_another_spelling_of_the_same_text_begins_another_row(self, forced: Forced) -> None:
        letters = [token for letter in SEARCH for token in forced.tokens(letter)]
        assert letters != forced.tokens(SEARCH)
        events = forced.run(VragMethod(), [*letters, *forced.tokens(END)], AGAIN, ANSWER)
        made = forced.rows(events)
        assert (len(made.rows), made.dropped, made.breaks) == (2, (), (2,))
        assert made.rows[0].tokens[made.rows[0].own].tolist() == [*letters, *forced.tokens(END)]
        assert [own_texts(row, forced.vocabulary) for row in made.rows] == [[SEARCH], [AGAIN, ANSWER]]

    @pytest.mark.slow
    def test_the_network_gives_every_token_of_the_row_the_same_probability(
        self, forced: Forced, checkpoint: Path
    ) -> None:
        """In one pass over the row as it stands: tokens, places and pictures are all where they were."""
        torch: Any = importlib.import_module("torch")
        transformers: Any = importlib.import_module("transformers")
        pil: Any = importlib.import_module("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
        network = transformers.AutoModelForImageTextToText.from_pretrained(checkpoint).eval()
        images = pil.Qwen2VLImageProcessorPil.from_pretrained(
            checkpoint, size={"shortest_edge": 28**2, "longest_edge": 2**40}
        )
        whole, nodes = (VragMethod(), SEARCH, AGAIN, ANSWER), (GRAPH, NODE, NOTES, END_NODE)
        for script in (whole, nodes):
            for row in forced.rows(forced.run(*script)).rows:
                ids = torch.tensor(row.tokens)[None]
                pictures = [Image.open(io.BytesIO(forced.files[f"{sha}.jpg"])) for sha in row.images]
                kinds = (ids == forced.vocabulary.image).int()
                seen = dict(images(pictures, return_tensors="pt"))
                with torch.no_grad():
                    logits = network(input_ids=ids, mm_token_type_ids=kinds, **seen).logits[0].double()
                logits[:, sorted(forced.vocabulary.forbidden - forced.vocabulary.ends)] = -np.inf
                chances = torch.log_softmax(logits[:-1] / 0.7, dim=-1)[range(len(row.tokens) - 1), ids[0, 1:]]
                assert np.abs(chances.numpy()[row.own[1:]] - row.logprobs[row.own]).max() < 1e-3


BYTES = Vocabulary(
    decode=lambda ids: bytes(token for token in ids if token < 256).decode("utf-8", "replace"),
    ends=frozenset({256}),
    image=257,
    forbidden=frozenset({257, 258}),
    features=lambda size: size.width // 28 * (size.height // 28),
)
"""Every byte is a token; 256 ends a turn, 257 stands for a picture, 258 for a video."""
PROMPT = tuple(b"user: ?\n")


def called(text: str, sampled: Sequence[int], *, prompt: Sequence[int] = PROMPT, **more: Any) -> ModelCalled:  # noqa: ANN401
    values: dict[str, Any] = {
        "messages": (),
        "reply": text,
        "executed": len(text),
        "prompt_ids": tuple(prompt),
        "ids": tuple(sampled),
        "logprobs": tuple(-0.5 for _ in more.get("ids", sampled)),
    }
    fixed: dict[str, Any] = {
        "run_id": "r",
        "seq": 0,
        "ts": 0.0,
        "step": 1,
        "chunks": (),
        "finish": FinishReason.STOP,
    }
    return ModelCalled(**fixed | values | more)


def kept(call: ModelCalled) -> list[int]:
    made = rows_of([call], {}, BYTES)
    assert not made.dropped
    (row,) = made.rows
    return row.tokens[row.own].tolist()


class TestWhereARowEnds:
    def test_with_the_end_of_turn_directly_behind(self) -> None:
        assert kept(called("<a>", [*b"<a>", 256])) == [*b"<a>", 256]
        assert kept(called("<a> ", [*b"<a> ", 256], executed=3)) == [*b"<a>"]
        assert kept(called("<a>", [*b"<a>"])) == [*b"<a>"]

    def test_a_character_of_many_bytes_is_kept_whole(self) -> None:
        assert kept(called("多少x", [*"多少x".encode(), 256], executed=2)) == [*"多少".encode()]
        assert kept(called("多", [*"多".encode(), 256])) == [*"多".encode(), 256]

    def test_bytes_that_are_no_character(self) -> None:
        assert kept(called("�x", [0xE5, *b"x", 256])) == [0xE5, *b"x", 256]
        assert kept(called("�", [0xE5])) == [0xE5]
        assert kept(called("a�", [*b"a", 0xE5, 0xA4, 256])) == [*b"a", 0xE5, 0xA4, 256]
        assert kept(called("�x", [0xE5, 0xA4, *b"x"], executed=1)) == [0xE5, 0xA4]

    def test_a_token_that_closes_the_action_and_more_is_kept(self) -> None:
        texts = {1: "<a", 2: "> b", 3: "c"}

        def decode(ids: Sequence[int]) -> str:
            return "".join(map(texts.__getitem__, ids))

        pair = replace(BYTES, decode=decode)
        made = rows_of([called("<a> bc", [1, 2, 3], executed=3)], {}, pair)
        assert made.rows[0].tokens[made.rows[0].own].tolist() == [1, 2]

    def test_an_opening_that_the_prompt_wrote_is_none_of_its_tokens(self) -> None:
        reply = "<think>\nso</think><a>"
        assert kept(called(reply, [*b"so</think><a>", 256])) == [*b"so</think><a>", 256]
        assert kept(called(reply, [*reply.encode(), 256])) == [*reply.encode(), 256]
        assert kept(called(reply + "bc", [*b"so</think><a>bc"], executed=len(reply))) == [*b"so</think><a>"]

    def test_what_a_stop_string_cut_off_is_not_kept(self) -> None:
        assert kept(called("<a>", [*b"<a>STOP"])) == [*b"<a>"]

    def test_a_turn_of_nothing_but_its_end_is_kept(self) -> None:
        assert kept(called("", [256])) == [256]

    @given(
        text=st.text(st.sampled_from("ab<>多é\U0001f6a2�"), max_size=8),
        rest=st.text(st.sampled_from("a多 "), max_size=4),
        ended=st.booleans(),
    )
    def test_whatever_was_carried_out_is_decoded_from_it_exactly(
        self, text: str, rest: str, ended: bool
    ) -> None:
        ids = [*(text + rest).encode(), *[256] * ended]
        made = rows_of([called(text + rest, ids, executed=len(text))], {}, BYTES)
        if not text and not (ended and not rest):
            nothing, no_tokens = (
                "Nothing of the reply was carried out.",
                "The policy does not report its tokens.",
            )
            assert [row.reason for row in made.dropped] == [nothing if ids else no_tokens]
            return
        (row,) = made.rows
        assert row.tokens[row.own].tolist() == [*text.encode(), *[256] * (ended and not rest)]


def picture(columns: int, rows: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (columns * 28, rows * 28), "white").save(file, "JPEG")
    return file.getvalue()


def told(*shas: str) -> bytes:
    return json.dumps(
        {"role": "user", "parts": [{"text": "?"}, *({"picture": sha} for sha in shas)]}
    ).encode()


FILES = {
    "m0.json": told(),
    "m1.json": told("one"),
    "m2.json": told("two"),
    "bad.json": b"{",
    "one.jpg": picture(2, 1),
    "two.jpg": picture(1, 3),
    "gone.json": told("lost"),
}
ONE, TWO = (*PROMPT, 257, 257, 300), (257, 257, 257, 300)


class TestDropped:
    @pytest.mark.parametrize(
        ("wrong", "reason"),
        [
            ({"prompt_ids": ()}, "The policy does not report its tokens."),
            ({"ids": ()}, "The policy does not report its tokens."),
            ({"logprobs": (-0.5,)}, "The policy does not report the log-probability of every token."),
            (
                {"logprobs": (float("-inf"),) * 4},
                "The policy does not report the log-probability of every token.",
            ),
            ({"reply": "<b>"}, "The reply is not the text of its tokens."),
            ({"messages": ("nowhere",)}, "The message nowhere is missing from the run."),
            ({"messages": ("bad",)}, "The message bad is damaged."),
            ({"messages": ("m1",)}, "There are 1 pictures and places for 0."),
            ({"prompt_ids": ONE}, "There are 0 pictures and places for 1."),
            ({"messages": ("gone",), "prompt_ids": ONE}, "Picture 1 is missing from the run."),
            (
                {"messages": ("m2",), "prompt_ids": ONE},
                "Picture 1 of 28×84 pixels has 2 image tokens and 3 features.",
            ),
            ({"ids": (*b"<a>", 258)}, None),  # after the action, and so no part of it
            ({"ids": (258, *b"<a>")}, "The model sampled the placeholder of a picture."),
        ],
    )
    def test_with_a_reason_and_never_raised(self, wrong: dict[str, Any], reason: str | None) -> None:
        made = rows_of([called("<a>", (*b"<a>", 256), **wrong)], FILES, BYTES)
        assert [one.reason for one in made.dropped] == ([] if reason is None else [reason])
        assert len(made.rows) == (reason is None)

    def test_what_follows_begins_a_row_of_its_own(self) -> None:
        first = called("<a>", [*b"<a>", 256])
        second = called("<b>", (), prompt=[*PROMPT, *b"<a>", 256, 300], step=2)
        third = called("<c>", b"<c>", prompt=[*second.prompt_ids, *b"<b>", 256, 300], step=3)
        made = rows_of([first, second, third], {}, BYTES)
        assert [row.tokens[row.own].tolist() for row in made.rows] == [[*b"<a>", 256], [*b"<c>"]]
        assert [(one.segment, one.steps) for one in made.dropped] == [(0, (2,))]
        assert made.breaks == ()

    def test_a_whole_row_goes_with_its_fault(self) -> None:
        first = called("<a>", [258, *b"<a>", 256])
        second = called("<b>", b"<b>", prompt=[*PROMPT, *first.ids, 300], step=2)
        made = rows_of([first, second], {}, BYTES)
        assert made.rows == ()
        assert made.dropped[0].steps == (1, 2)


class TestGoingOn:
    def test_observations_are_not_its_own(self) -> None:
        first = called("<a>", [*b"<a>", 256], messages=("m1",), prompt=ONE)
        second = called(
            "<b>", [*b"<b>"], messages=("m1", "m0", "m2"), prompt=[*ONE, *first.ids, 301, *TWO], step=2
        )
        made = rows_of([first, second], FILES, BYTES)
        (row,) = made.rows
        assert row.images == ("one", "two")
        assert row.tokens.tolist() == [*ONE, *b"<a>", 256, 301, *TWO, *b"<b>"]
        assert row.own.tolist() == [False] * 11 + [True] * 4 + [False] * 5 + [True] * 3
        assert row.logprobs.tolist() == np.where(row.own, -0.5, 0).tolist()

    def test_the_same_tokens_with_another_picture_are_another_row(self) -> None:
        files = FILES | {"other.jpg": picture(2, 1), "m3.json": told("other")}
        first = called("<a>", [*b"<a>", 256], messages=("m1",), prompt=ONE)
        second = called("<b>", b"<b>", messages=("m3",), prompt=[*ONE, *first.ids], step=2)
        made = rows_of([first, second], files, BYTES)
        assert [row.images for row in made.rows] == [("one",), ("other",)]
        assert made.breaks == (2,)

    def test_another_segment_is_another_row_whatever_its_prompt(self) -> None:
        first = called("<a>", [*b"<a>", 256])
        second = called("<b>", b"<b>", prompt=[*PROMPT, *first.ids, 300], step=2)
        fixed: dict[str, Any] = {"run_id": "r", "seq": 1, "ts": 0.0, "step": 1, "node": "n", "budget": 9}
        rebuilt = MemoryUpdated(**fixed, kept=(), dropped=(), tokens=0, pixels=0)
        made = rows_of([first, rebuilt, second], {}, BYTES)
        assert [row.segment for row in made.rows] == [0, 1]
        assert made.breaks == ()

    def test_no_calls_no_rows(self) -> None:
        assert rows_of([], {}, BYTES) == RunRows(())


def test_policies_that_do_not_tell_their_tokens_give_no_rows() -> None:
    environment = Environment(tiny_corpus(), PROFILES["qwen2.5-vl"])
    agent = Agent(ScriptedPolicy((SEARCH, ANSWER)), environment, VragMethod())

    async def events() -> list[Event]:
        return [event async for event in agent.astream("How many?")]

    made = rows_of(asyncio.run(events()), {}, BYTES)
    assert made.rows == ()
    assert [one.steps for one in made.dropped] == [(1,), (2,)]
