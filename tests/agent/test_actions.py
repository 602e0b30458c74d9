"""The grammar: any text is taken apart, and parse and render are inverses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.agent.actions import (
    Action,
    Answer,
    Crop,
    Flag,
    Invalid,
    Search,
    Turn,
    parse,
    render,
)

PIECES = [
    "<think>", "</think>", "<search>", "</search>", "<bbox>", "</bbox>", "<answer>", "</answer>",
    '<bbox image="2">', "<bbox image=x>", "[1, 2, 3, 4]", "[1,2,3]", "nan", "[1e999,0,1,1]", "<", ">",
    "</", "Ferry", " ", "\n", "\x00", "𝟏", "[٣, 1, 2, 3]", "<THINK>", "</Search>", "<search", "<think/>",
]  # fmt: skip
plain = st.text(min_size=1).map(str.strip).filter(bool)
sides = st.floats(allow_nan=False, allow_infinity=False)


def constructed(kind: str, text: str) -> Action | None:
    try:
        return Search(text) if kind == "search" else Answer(text)
    except ValueError:
        return None


@given(st.one_of(st.text(), st.lists(st.one_of(st.sampled_from(PIECES), st.text())).map("".join)))
def test_any_text_yields_an_action_or_a_reason(reply: str) -> None:
    turn = parse(reply)
    if isinstance(turn.action, Invalid):
        assert turn.action.reason.endswith(".")
    else:
        assert reply.startswith(turn.executed)
        assert turn.executed.endswith(">")


@given(
    st.sampled_from(["search", "answer"]), st.one_of(plain, st.lists(st.sampled_from(PIECES)).map("".join))
)
def test_parse_is_the_inverse_of_render_for_text(kind: str, text: str) -> None:
    action = constructed(kind, text)
    if action is not None:
        assert parse(f"<think>why</think>{render(action)}") == Turn(
            "why", action, f"<think>why</think>{render(action)}"
        )


@given(st.tuples(sides, sides, sides, sides), st.one_of(st.none(), st.integers(1, 999_999)))
def test_parse_is_the_inverse_of_render_for_boxes(
    box: tuple[float, float, float, float], image: int | None
) -> None:
    assert parse(render(Crop(box, image))).action == Crop(box, image)


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text())).map("".join))
def test_what_is_executed_reads_the_same_without_what_was_dropped(reply: str) -> None:
    turn = parse(reply)
    if not isinstance(turn.action, Invalid):
        again = parse(turn.executed)
        assert again.action == turn.action
        assert Flag.TRAILING_TEXT not in again.flags


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("<search>a</search>", Search("a")),
        ("<think>t</think>\n<answer> b </answer>", Answer("b")),
        ("<think><search>no</search></think><answer>yes</answer>", Answer("yes")),
        ("the template opened the block</think><search>q</search>", Search("q")),
        ("<think>a</think><think>b</think><search>q</search>", Search("q")),
        ("<answer>open <search>q</search>", Search("q")),
        ("<bbox>[1, 2, 3.5, 4]</bbox>", Crop((1, 2, 3.5, 4))),
        ("<bbox>1, 2, 3, 4</bbox>", Crop((1, 2, 3, 4))),
        ('<bbox image="3">[1, 2, 3, 4]</bbox>', Crop((1, 2, 3, 4), 3)),
        ("<SEARCH>q</Search>", Search("q")),
    ],
)
def test_replies_that_models_send(reply: str, action: Action) -> None:
    assert parse(reply).action == action


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "no complete action"),
        ("<think>never", "never closed"),
        ("<think>done</think>", "no complete action"),
        ("<search>  </search>", "query is empty"),
        ("<answer></answer>", "answer is empty"),
        ("<search>a <answer>b</answer></search>", "tag of the grammar"),
        ("<bbox>[1, 2, 3]</bbox>", "four numbers"),
        ("<bbox>[1, 2, 3, 4, 5]</bbox>", "four numbers"),
        ("<bbox>the table</bbox>", "four numbers"),
        ("<bbox>[nan, 0, 1, 1]</bbox>", "not finite"),
        ("<bbox>[0, 0, 1e999, 1]</bbox>", "not finite"),
        ('<bbox image="0">[1, 2, 3, 4]</bbox>', "from 1"),
        ('<bbox image="last">[1, 2, 3, 4]</bbox>', "its number"),
    ],
)
def test_replies_that_cannot_be_carried_out_say_why(reply: str, reason: str) -> None:
    action = parse(reply).action
    assert isinstance(action, Invalid)
    assert reason in action.reason


def test_what_follows_the_action_is_dropped_and_flagged() -> None:
    turn = parse("<think>t</think><search>q</search><answer>guess</answer>")
    assert turn.executed == "<think>t</think><search>q</search>"
    assert turn.flags == {Flag.TRAILING_TEXT}


def test_a_missing_thought_is_flagged() -> None:
    assert parse("<search>q</search>").flags == {Flag.NO_THOUGHT}


@pytest.mark.parametrize("text", ["", " a", "a ", "x</search>", "<think>", "a <bbox image='1'> b"])
def test_text_that_would_break_the_grammar_cannot_become_an_action(text: str) -> None:
    with pytest.raises(ValueError, match="the query"):
        Search(text)


@pytest.mark.slow
def test_a_megabyte_of_open_tags_is_read_in_linear_time() -> None:
    assert isinstance(parse("<search>" * 100_000 + "<bbox>" * 50_000).action, Invalid)


def test_an_abstention_is_recognised() -> None:
    assert Answer("not answerable.").abstains
    assert not Answer("42").abstains
