from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from vrag.embed.embedder import Modality, VectorKind
from vrag.embed.registry import check_same
from vrag.errors import FingerprintMismatch

if TYPE_CHECKING:
    from collections.abc import Mapping

SMALL = {"dtype": "bfloat16", "max_pixels": 12544}


@dataclass(frozen=True)
class Mark:
    settings: Mapping[str, str | int]
    fingerprint: str = "a"
    name: str = "sentence:/m/colqwen2"
    kind: VectorKind = VectorKind.MULTI
    dimension: int = 128
    modalities: frozenset[Modality] = frozenset()


def test_the_fingerprint_decides_whatever_the_names_and_settings() -> None:
    check_same(Mark(SMALL), Mark({}, name="sentence:/moved", dimension=3))


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (SMALL, Mark({"dtype": "float32", "max_pixels": 12544}, "b"), "dtype bfloat16, not float32."),
        (
            SMALL,
            Mark({"dtype": "float32"}, "b"),
            "dtype bfloat16, not float32; max_pixels 12544, not the model's own.",
        ),
        ({"dtype": "x"}, Mark({"dtype": "x", "min_pixels": 9}, "b"), "min_pixels the model's own, not 9."),
        (
            SMALL,
            Mark(SMALL, "b", "sentence:/m/other"),
            "sentence:/m/other: other weights, configuration or version of vrag.",
        ),
        (SMALL, Mark(SMALL, "b", kind=VectorKind.SINGLE), "vectors multi, not single."),
        (SMALL, Mark(SMALL, "b", dimension=64), "dimension 128, not 64."),
        (
            {},
            Mark(SMALL, "b"),
            "other weights, configuration or version of vrag, or other settings than now.",
        ),
        (
            {},
            Mark({}, "b"),
            "other weights, configuration or version of vrag.",
        ),
    ],
)
def test_what_differs_is_named(ours: Mapping[str, str | int], theirs: Mark, said: str) -> None:
    with pytest.raises(FingerprintMismatch) as raised:
        check_same(Mark(ours), theirs)
    assert raised.value.message.endswith(said)
    assert "built with the embedder sentence:/m/colqwen2 and" in raised.value.message


def test_what_gve_made_without_its_closing_token_is_refused_with_the_way_out() -> None:
    """Earlier versions had a variant `gve-reference:`, whose vectors were wrong."""
    with pytest.raises(FingerprintMismatch) as raised:
        check_same(Mark(SMALL, name="gve-reference:/m/GVE-3B"), Mark(SMALL, "b", "gve:/m/GVE-3B"))
    assert "were wrong" in raised.value.message
    for command in ("vrag index import DIR", "vrag index add PATH"):
        assert command in raised.value.hint
    assert raised.value.hint.count("--embedder gve:/m/GVE-3B") == 2
