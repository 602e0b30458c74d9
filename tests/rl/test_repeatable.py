# ruff: noqa: ANN401 - the libraries are not typed
"""What makes CUDA repeat itself is set, inside alone, and what cannot be is said; no GPU needed."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tiny_world import torch

from vrag.errors import TrainingError
from vrag.rl.checkpoints import repeatable


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")


def strict() -> bool:
    return torch().are_deterministic_algorithms_enabled()


def test_on_cuda_it_is_strict_inside_alone() -> None:
    with repeatable("cuda:0"):
        assert strict()
        assert not torch().is_deterministic_algorithms_warn_only_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert not strict()


@pytest.mark.parametrize(("device", "how"), [("cpu", {}), ("cuda", {"wanted": False})])
def test_elsewhere_nothing_is_changed(device: str, how: Any) -> None:
    with repeatable(device, **how):
        assert not strict()
        assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ


def test_what_somebody_chose_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    with repeatable("cuda"):
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


def test_what_cannot_be_repeated_is_said() -> None:
    told = "cumsum_cuda_kernel does not have a deterministic implementation, but you set"
    with pytest.raises(TrainingError, match="cumsum") as error, repeatable("cuda"):
        raise RuntimeError(told)
    assert "--no-together" in (error.value.hint or "")
    assert not strict()
    with pytest.raises(RuntimeError, match="broken"), repeatable("cuda"):
        raise RuntimeError("broken")
