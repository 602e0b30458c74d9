"""Parts of others: the one of the documentation, really installed, and some that cannot be used."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from reward_runs import ToldJudge, case, image, run_of

from vrag.errors import SettingsError
from vrag.reward.combine import installed_parts, load_parts

PAGE = Path(__file__).parents[2] / "docs" / "rewards.md"
BROKEN = """
class Gone:
    def __init__(self): raise RuntimeError("no licence")

class Plain:
    def score(self, case, run): return 1.0

class Silent: pass
"""


def blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip put the package that the page shows, and where others left theirs as pip would."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    (source / "pyproject.toml").write_text(blocks("toml")[0])
    (source / "vrag_brevity.py").write_text(blocks("py")[1])
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (target / "broken_rewards.py").write_text(BROKEN)
    about = target / "broken_rewards-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-rewards\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[vrag.rewards]\ngone = broken_rewards:Gone\nplain = broken_rewards:Plain\n"
        "silent = broken_rewards:Silent\nabsent = broken_rewards:Absent\nanswer = broken_rewards:Plain\n"
        "region = broken_rewards:Plain\n"
    )
    return target


@pytest.fixture(autouse=True)
def installed(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(packages), *sys.path])


def test_the_part_of_the_page_is_found_and_counts() -> None:
    assert "brevity" in installed_parts()
    names: dict[str, Any] = {"judge": ToldJudge()}
    exec(blocks("py")[2], names)
    long = run_of(image(2), answer="as far as can be told 48,200")
    reward = asyncio.run(names["reward"].score(case(2), long))
    # six words more than the reference: 1 - 6 · 0.05
    assert reward.parts["brevity"] == pytest.approx(0.7)
    assert reward.total == pytest.approx(0.2 + 0.6 + 0.1 + 0.1 * 0.7)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("brevty", r"There is no reward part 'brevty'\. Known: retrieval, .*region, .*support, .*brevity"),
        ("gone", r"broken_rewards:Gone.*RuntimeError: no licence"),
        ("absent", r"broken_rewards:Absent.*AttributeError"),
        ("silent", r"broken_rewards:Silent.*AttributeError"),
        ("plain", r"no coroutine `score\(case, run, verdict\)`"),
        ("answer", r"'answer' is built in"),
        ("region", r"region \(broken_rewards:Plain\) has the name of a built-in part"),
    ],
)
def test_what_cannot_be_used_says_why(name: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        load_parts([name])


def test_nothing_asked_for_is_nothing_loaded() -> None:
    assert load_parts([]) == {}
