from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="the extra `models` is not installed")

import torch

from vrag.embed.device import Batches, is_out_of_memory, refusal
from vrag.embed.embedder import EmbedContent
from vrag.embed.models.sentence import SentenceEmbedder
from vrag.embed.options import EmbedOptions
from vrag.errors import EmbedderFailedError, EmbedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CPU = (
    "[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"
)
FULL = [
    MemoryError(),
    RuntimeError(CPU),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
]


def halves(numbers: Sequence[int], room: int, error: BaseException, seen: list[int]) -> list[int]:
    """Doubles numbers, as many at once as there is room for."""
    seen.append(len(numbers))
    if len(numbers) > room:
        raise error
    return [2 * number for number in numbers]


@pytest.mark.parametrize("error", FULL, ids=["memory", "cpu", "cublas", "cuda"])
def test_a_batch_that_is_too_large_is_halved_and_the_size_remembered(error: BaseException) -> None:
    seen: list[int] = []
    batches = Batches(16)
    assert batches.run(range(20), lambda some: halves(some, 5, error, seen)) == list(range(0, 40, 2))
    assert seen == [16, 8, 4, 4, 4, 4, 4]
    seen.clear()
    batches.run(range(8), lambda some: halves(some, 5, error, seen))
    assert seen == [4, 4]


@given(st.integers(1, 40), st.integers(1, 20), st.integers(1, 20))
def test_everything_comes_out_once_and_in_order(count: int, size: int, room: int) -> None:
    made = Batches(size).run(range(count), lambda some: halves(some, room, MemoryError(), []))
    assert made == [2 * number for number in range(count)]


def test_one_thing_that_does_not_fit_is_an_error_that_names_it() -> None:
    with pytest.raises(EmbedError, match=r"item 3 of 5 alone.*max_pixels"):
        Batches(4).run(range(5), lambda some: halves(some, 0 if 2 in some else 9, MemoryError(), []))


def test_other_errors_pass() -> None:
    def fails(_: Sequence[int]) -> list[int]:
        raise RuntimeError("shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes"):
        Batches(4).run(range(5), fails)
    assert not is_out_of_memory(ValueError("out of memory"))


DEAD = [
    torch.AcceleratorError("CUDA error: an illegal memory access was encountered\nSearch for ..."),
    RuntimeError("CUDA error: device-side assert triggered"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
]


@pytest.mark.parametrize("error", DEAD, ids=["accelerator", "assert", "cublas", "cudnn"])
def test_a_device_that_fails_is_told_from_a_content_that_cannot_be_taken(
    models: Path, error: RuntimeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = SentenceEmbedder(str(models / "text"))
    network: Any = embedder._model[0].model  # pyright: ignore[reportPrivateUsage] - what a network does is replaced

    def fails(**_: object) -> None:
        raise error

    monkeypatch.setattr(network, "forward", fails)
    with pytest.raises(EmbedderFailedError, match=r"device of sentence:.* failed: (CUDA|cuDNN) error"):
        embedder.embed_items([EmbedContent(text="a")])
    assert not isinstance(refusal("x", RuntimeError("shapes differ; see CUDA errors")), EmbedderFailedError)


def test_a_model_that_runs_out_of_memory_gives_the_same_vectors(models: Path) -> None:
    embedder = SentenceEmbedder(str(models / "text"), EmbedOptions(batch=8))
    texts = [EmbedContent(text=f"page {number}") for number in range(11)]
    right = embedder.embed_items(texts)
    network: Any = embedder._model[0].model  # pyright: ignore[reportPrivateUsage] - what a network does is replaced
    seen: list[int] = []
    forward = network.forward

    def small(*arguments: Any, **inputs: Any) -> object:  # noqa: ANN401
        seen.append(len(inputs["input_ids"]))
        if seen[-1] > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(*arguments, **inputs)

    network.forward = small
    made = embedder.embed_items(texts)
    assert seen == [8, 4, 2, 2, 2, 2, 2, 1]
    assert all(abs(one - other).max() < 1e-6 for one, other in zip(made, right, strict=True))
