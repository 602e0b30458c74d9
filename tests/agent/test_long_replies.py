"""What a model or a client writes is read in time that grows with its length, and not with a power of it."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from vrag.agent.actions import parse
from vrag.agent.loop import ModelCall
from vrag.agent.method import Context
from vrag.agent.replies.call_parser import parse_call
from vrag.server.openai.reply import plain_answer

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

LENGTH = 100_000
FILLINGS = (
    " ",
    "\n",
    "\t ",
    "<",
    ">",
    '"',
    "= ",
    "#",
    "-",
    "0",
    "0 ",
    "[",
    "]",
    "`",
    "{",
    "[1]",
    "a ",
    "<think",
    "</",
    "\\",
)
MEMORIZE = (
    '<tool_call>{"name": "summarize_and_memorize", '
    '"arguments": {"summarize": "s", "memorize": [{"information_id": "'
)


@contextmanager
def seconds(most: int) -> Generator[None]:
    """Breaks off what would take minutes: a pattern that backtracks listens to signals alone."""

    def over(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"it was still reading after {most} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(most)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="there are no alarms here")
@pytest.mark.parametrize("filling", FILLINGS)
class TestAReply:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("", "x"),
            ("<think>", "x"),
            ("<bbox image=", '""x>[1,2,3,4]</bbox>'),
            ("<bbox ", ">[1,2,3,4]</bbox>"),
            ("<bbox>[1,2,", "3,4]</bbox>"),
            ("<search>", "x</search>"),
            ("<think>a</think>", "<answer>x</answer>"),
        ],
    )
    def test_of_vrag(self, filling: str, before: str, after: str) -> None:
        with seconds(30):
            parse(before + filling * LENGTH + after)

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("", "x"),
            ("<think>a</think>", "x"),
            ("<tool_call>", "</tool_call>"),
            ("<tool_call>```json", "```</tool_call>"),
            ('<tool_call>{"name": "add_search_node", "arguments": {"id": "', '"}}</tool_call>'),
            (MEMORIZE, '", "is_useful": true}]}}</tool_call>'),
            ("<tool_call>{}", "</tool_call>x"),
            (MEMORIZE + 'Video 1", "key_timestamp": ["1', 'x"]}]}}</tool_call>'),
            (MEMORIZE + 'Video 1", "priority_score": "1', 'x"}]}}</tool_call>'),
        ],
    )
    def test_of_vimrag(self, filling: str, before: str, after: str) -> None:
        with seconds(30):
            parse_call(before + filling * LENGTH + after)

    def test_that_comes_piece_by_piece(self, filling: str) -> None:
        incoming = ModelCall(Context(()), may_continue=True)
        with seconds(30):
            for _ in range(200):
                incoming.add(filling * (LENGTH // 1000))

    @pytest.mark.parametrize("heading", ["Sources", "Looked at"])
    def test_that_a_client_sends_back(self, filling: str, heading: str) -> None:
        with seconds(30):
            plain_answer(f"x{filling * LENGTH}y\n\n**{heading}**\n\nz")
