"""The code that opens the page about rewards."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, Say
from reward_runs import ANSWER, SEARCH, case, vrag_run

PAGE = Path(__file__).parents[2] / "docs" / "rewards.md"


def test_the_code_of_the_page_scores_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    run = vrag_run(SEARCH, ANSWER)
    with ChatServer([Say("<judge>true</judge>")], models=("judge-model",)) as server:
        names: dict[str, Any] = {}
        exec(code.replace("http://localhost:8003/v1", server.url), names)
        rewards = asyncio.run(names["rewards_of"]([case(2), case(1)], [run, run]))
        assert len(server.requests) == 1
    # pages 2 and 1 of one search each: page 2 alone was shown
    assert [reward.total for reward in rewards] == pytest.approx([1.0, 0.8])
