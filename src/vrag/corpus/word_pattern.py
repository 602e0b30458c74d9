"""What counts as a word in which script."""

from __future__ import annotations

import re

__all__ = ["WORD"]

CJK = (
    "\u2e80-\u2fdf\u3001-\u303f\u3040-\u30ff\u3100-\u312f\u3190-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff01-\uffee\U00020000-\U0003ffff"
)
"""Scripts written without spaces, and the punctuation that goes with them."""
NOISE = (
    "\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ud800-\udfff\ue000-\uf8ff\ufeff"
    "\ufff0-\uffff\U000e0000-\U0010ffff"
)
"""Control, invisible, private-use and replacement characters, and half pairs: not text."""

WORD = re.compile(rf"[{CJK}]|[^\s{CJK}{NOISE}]+")
"""A run without spaces, or a single character of a script that uses none: what gets a box of its own."""
