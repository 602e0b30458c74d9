"""What is done to transformers while a model is loaded, and undone after it."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from extras import require

from vrag.embed.models.loader import loading

require("models", "torch", "transformers")


def state() -> list[Any]:
    """What loading replaces, torchvision or not: the processor of videos has no backend of Pillow."""
    processing = importlib.import_module("transformers.processing_utils")
    qwen = importlib.import_module("transformers").Qwen3VLProcessor
    return [processing.ProcessorMixin.__init__, "get_attributes" in vars(qwen)]


@pytest.mark.parametrize("torchvision", [False, True])
def test_loading_may_be_entered_within_itself(torchvision: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = importlib.import_module("transformers.utils")
    monkeypatch.setattr(tools, "is_torchvision_available", lambda: torchvision)
    before = state()
    with loading():
        once = state()
        assert once != before
        with loading():
            assert state() == once
        assert state() == once
    assert state() == before
    with loading():
        assert state() != before
    assert state() == before
