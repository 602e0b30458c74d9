"""Checks of a checkpoint in this process: a tiny network with random weights, of each family."""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from extras import require

from vrag.doctor import CheckStatus, DoctorOptions, examine_all
from vrag.settings import load_settings

require("models", "torch", "transformers")


def tiny_models() -> Any:  # noqa: ANN401 - not typed
    sys.path.append(str(Path(__file__).parents[1] / "embed"))
    try:
        return importlib.import_module("tiny_models")
    finally:
        sys.path.pop()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "profile", "factor"), [("qwen2_5_vl", "qwen2.5-vl", 28), ("qwen3_vl", "qwen3-vl", 32)]
)
def test_a_network_that_knows_nothing_sees_pictures_and_is_undecided(
    family: str, profile: str, factor: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    importlib.import_module("torch").set_num_threads(1)
    monkeypatch.setattr("vrag.doctor.runner.REPLY_TOKENS", 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # saving warns of what loading does not use
        tiny_models().chat(tmp_path / "model", family)
    report = load_settings(model=f"local:{tmp_path / 'model'}", max_steps=2, device="cpu")
    checks = {check.name: check for check in examine_all(report, DoctorOptions(coords=True))}
    told = [checks[name].status for name in ("accelerator", "profile", "pictures", "picture cost")]
    assert told == [CheckStatus.OK, CheckStatus.OK, CheckStatus.WARNING, CheckStatus.OK], checks
    assert "may not see" in checks["pictures"].hint
    assert checks["profile"].message.endswith("by its checkpoint.")
    assert (checks["profile"].details["profile"], checks["picture cost"].details["factor"]) == (
        profile,
        factor,
    )
    assert checks["coordinates"].message.startswith("Undecided. ")
    assert "endpoint" not in checks
