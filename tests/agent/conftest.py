"""Tiny checkpoints of each family, and a model in this process."""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING

import pytest
from local_models import FAMILIES, tiny_models

from vrag.agent.policies.local import LocalOptions, LocalPolicy, open_local

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one tiny checkpoint for each family; it is not changed."""
    importlib.import_module("torch").set_num_threads(1)
    folder = tmp_path_factory.mktemp("chat")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # saving warns of what loading does not use
        for family in FAMILIES:
            tiny_models().chat(folder / family, family)
    return folder


@pytest.fixture(scope="module")
def policy(checkpoints: Path) -> LocalPolicy:
    """The model in this process."""
    return open_local(str(checkpoints / "qwen2_5_vl"), options=LocalOptions(max_tokens=24))
