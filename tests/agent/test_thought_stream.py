"""A reply as it comes in: the thought is given out as soon as it is certain, and read once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vrag.agent.actions import parse
from vrag.agent.loop import ModelCall
from vrag.agent.method import Context
from vrag.agent.replies.reply_text import Thinking

PIECES = st.lists(
    st.sampled_from(["<", "/", "think", ">", "</think>", "a", " ", "<b", "</thi", "nk"]), max_size=12
)


@given(PIECES.map("".join), st.lists(st.integers(1, 5), min_size=1))
def test_however_a_reply_is_cut_up_the_thought_is_that_of_the_whole(body: str, lengths: list[int]) -> None:
    reply = f"<think>{body}</think>\n<answer>yes</answer>"
    thinking, told, at, turn = Thinking(), "", 0, 0
    while at < len(reply):
        length = lengths[turn % len(lengths)]
        told += thinking.add(reply[at : at + length])
        at, turn = at + length, turn + 1
    thought = parse(reply).thought
    assert thought is not None
    assert thought.startswith(told.strip())  # later blocks are parts of the thought, and not streamed
    assert f"<think>{told}</think" in reply.replace("</think >", "</think>")


@given(st.text(alphabet="<think/> ab", max_size=30))
def test_what_is_no_think_block_gives_nothing(text: str) -> None:
    told = "".join(Thinking().add(letter) for letter in text)
    thinking = Thinking()
    again = "".join(thinking.add(letter) for letter in text)
    if not text.lstrip().lower().startswith("<think>"):
        assert told == again == ""
    assert len(again) <= len(text)


def test_only_what_may_end_the_block_is_held_back() -> None:
    thinking = Thinking()
    assert thinking.add("<think>a < b and c") == "a < b and c"
    assert thinking.add(" </th") == " "
    assert thinking.add("e end") == "</the end"
    assert thinking.add("</think") == ""
    assert thinking.add(" >x") == ""


@given(st.lists(st.sampled_from(["word ", "a < b ", "<i>", "</p", "> "]), max_size=60))
def test_little_is_held_back_so_that_each_letter_is_read_once(pieces: list[str]) -> None:
    thinking = Thinking()
    thinking.add("<think>")
    for piece in pieces:
        thinking.add(piece)
        assert len(thinking.tail) < len("</think")
    thinking.add("</think>")
    thinking.add("word " * 100)
    assert len(thinking.tail) < 100


def test_after_a_failed_attempt_the_thought_begins_anew() -> None:
    call = ModelCall(Context(()), may_continue=True)
    assert call.add("<think>first") == "first"
    call.restart()
    assert call.add("<think>second") == "second"
    assert call.lengths == (13,)
