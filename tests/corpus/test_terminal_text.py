from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.corpus.sniff import decode
from vrag.corpus.terminal_text import drop_terminal_codes
from vrag.errors import CorpusError


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("N\bNA\bAM\bME\bE", "NAME"),
        ("N\bN\bN\bNA\bA", "NA"),
        ("_\bh_\be_\bl_\bp is on page 6", "help is on page 6"),
        ("h\b_e\b_", "he"),
        ("_\b4\b48\b8", "48"),
        ("help\b\b\b\b____ me", "help me"),
        ("gr_\bö_\bß_\be\be", "größe"),
        ("o\b+ first", "+ first"),
        ("teh\b\bhe", "the"),
        ("\b\bab", "ab"),
        ("\x1b[1mName\x1b[0m \x1b[38;5;12m48\x1b[m boats", "Name 48 boats"),
        (
            "\x1b]0;title\x07prompt\r\nnext \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x1b[K",
            "prompt\nnext link",
        ),
        ("\x1b(B\x1b[32m48\x1b(B", "48"),
    ],
)
def test_a_text_for_terminals_is_read_as_it_looks(data: str, text: str) -> None:
    assert decode(f"{data}\nplain line\n".encode()) == f"{text}\nplain line\n"


@given(st.text("ab_ \b\n\x1b[]0m", max_size=60))
def test_any_text_loses_all_backspaces(text: str) -> None:
    assert b"\x08" not in drop_terminal_codes(text.encode())


@given(st.binary(max_size=80))
def test_bytes_without_codes_stay_as_they_are(data: bytes) -> None:
    plain = data.replace(b"\x08", b"").replace(b"\x1b", b"")
    assert drop_terminal_codes(plain) == plain


def test_japanese_letters_that_begin_with_an_escape_stay() -> None:
    data = "港の船".encode("iso2022_jp")
    assert drop_terminal_codes(data + b" \x1b[") == data + b" \x1b["


def test_binary_files_with_backspaces_are_no_text() -> None:
    with pytest.raises(CorpusError, match="not a text file"):
        decode(bytes(range(1, 32)) * 50)


@pytest.mark.parametrize("data", [b"\x1b]" * 50_000, b"\x1b[" * 100_000, b"a\x08" * 100_000 + b"\n"])
def test_hostile_codes_cost_little(data: bytes) -> None:
    start = time.process_time()
    drop_terminal_codes(data)
    assert time.process_time() - start < 10
