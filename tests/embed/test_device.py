from __future__ import annotations

import sys

import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")

import torch

from vrag.embed.device import library, open_device
from vrag.embed.options import EmbedOptions
from vrag.errors import EmbedError, MissingExtra


def on(device: str, dtype: str = "auto") -> tuple[str, str, str]:
    opened = open_device(EmbedOptions(device=device, dtype=dtype))
    return opened.name, opened.dtype, opened.precision


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that says it has two CUDA devices, the older without bfloat16."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)


def test_a_processor_computes_in_full_precision_unless_told_otherwise() -> None:
    assert on("cpu") == ("cpu", "float32", "full")
    assert on("cpu", "bfloat16") == ("cpu", "bfloat16", "half")


@pytest.mark.usefixtures("cuda")
def test_an_accelerator_is_taken_where_there_is_one() -> None:
    assert on("auto") == on("cuda") == ("cuda:0", "bfloat16", "half")
    assert on("cuda:1", "float32") == ("cuda:1", "float32", "full")


@pytest.mark.usefixtures("cuda")
def test_an_old_accelerator_gets_float16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert on("cuda") == ("cuda:0", "float16", "half")
    with pytest.raises(EmbedError, match=r"has no bfloat16.*float16"):
        on("cuda", "bfloat16")


@pytest.mark.usefixtures("cuda")
def test_a_number_too_high_is_refused() -> None:
    with pytest.raises(EmbedError, match=r"no device cuda:2.*last one is cuda:1"):
        on("cuda:2")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_cuda_asked_for_and_absent_says_what_to_do() -> None:
    with pytest.raises(EmbedError, match=r"device cuda is not available.*Set the device to cpu"):
        on("cuda")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:-1", "cuda:a", "", "CPU"])
def test_unknown_devices_are_refused(name: str) -> None:
    with pytest.raises(EmbedError, match="Known: auto, cpu"):
        on(name)


def test_unknown_precisions_and_batches_are_refused() -> None:
    with pytest.raises(EmbedError, match="Known: auto, float32"):
        EmbedOptions(dtype="int8")
    with pytest.raises(EmbedError, match="cannot hold"):
        EmbedOptions(batch=0)
    with pytest.raises(EmbedError, match="between 10 and 5 pixels"):
        EmbedOptions(min_pixels=10, max_pixels=5)


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=r"pip install 'vrag-agent\[models\]'"):
        library("sentence_transformers")
