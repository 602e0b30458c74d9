"""HotpotQA as it comes: in JSON, and in the parquet of the hub."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from published_rows import HOTPOTQA, read

from vrag.datasets.registry import open_cases
from vrag.types import GoldPage

if TYPE_CHECKING:
    pass

pa: Any = importlib.import_module("pyarrow")
parquet: Any = importlib.import_module("pyarrow.parquet")


def test_hotpotqa_names_its_supporting_articles_each_once(tmp_path: Path) -> None:
    facts = [*HOTPOTQA["supporting_facts"], ["Scott Derrickson", 1]]
    _, (case,) = read(tmp_path / "a.json", [HOTPOTQA | {"supporting_facts": facts}])

    assert (case.uid, case.file_name) == ("5a8b57f25542995d1e6f1371", "Scott Derrickson")
    assert (case.query_type, case.reference_page) == ("Multi-Hop", ())
    assert case.gold == (GoldPage("Scott Derrickson"), GoldPage("Ed Wood"))


def test_the_parquet_of_hotpotqa_reads_as_its_json(tmp_path: Path) -> None:
    facts = {"title": ["Scott Derrickson", "Ed Wood"], "sent_id": [0, 0]}
    row = {name: HOTPOTQA[name] for name in ("question", "answer")} | {
        "id": HOTPOTQA["_id"],
        "supporting_facts": facts,
    }
    parquet.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")

    assert list(open_cases(tmp_path / "a.parquet")[1]) == read(tmp_path / "a.json", [HOTPOTQA])[1]
