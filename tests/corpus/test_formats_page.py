"""The page on formats names every file that is read, and none that is not."""

from __future__ import annotations

import re
from pathlib import Path

from vrag.corpus.convert import CONVERTERS

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"


def read_suffixes() -> list[str]:
    rows = re.findall(
        r"^\| ([a-z][\w, ]*) \| [^|]+ \| [^|]* \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return [f".{suffix.strip()}" for row in rows for suffix in row.split(",") if suffix != "suffix"]


def test_every_suffix_is_in_one_row_and_has_a_converter() -> None:
    assert sorted(set(read_suffixes())) == sorted(CONVERTERS)
    assert len(read_suffixes()) == len(CONVERTERS)


def test_what_is_said_not_to_be_read_is_not() -> None:
    (said,) = re.findall(r"\*\*Not read\*\*: (.*?)\.", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert not {f".{word}" for word in re.findall(r"\b[a-z]{3,5}\b", said)} & set(CONVERTERS)
