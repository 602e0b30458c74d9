from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extras import require
from hypothesis import given
from hypothesis import strategies as st
from vector_tables import clusters, names, ranked

from vrag.index.vectors.dense import ExactDense, Int8Prefilter, RabitqDense, Vectors, build_int8, build_rabitq
from vrag.index.vectors.tiers import Tier, TierName
from vrag.storage.array_cache import StoredArrays

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

EXACT = Tier(TierName.EXACT, "for a test")
RABITQ = Tier(TierName.RABITQ, "for a test")


def vectors(numbers: NDArray[Any], valid: NDArray[Any] | None = None) -> Vectors:
    there = np.ones(len(numbers), np.bool_) if valid is None else valid
    norm = float(np.linalg.norm(numbers, axis=1).max(initial=0.0))
    return Vectors(np.where(there[:, None], numbers, 0).astype(np.float32), there, norm)


@given(
    st.integers(1, 60), st.integers(1, 40), st.integers(1, 5), st.integers(1, 70), st.integers(0, 2**32 - 1)
)
def test_exact_is_what_float64_says(count: int, dimension: int, asked: int, top_k: int, seed: int) -> None:
    """Whatever the shapes, the masks, the missing vectors, and vectors that are there twice."""
    chance = np.random.default_rng(seed)
    numbers = chance.standard_normal((count, dimension)).astype(np.float32)
    numbers = numbers[chance.integers(count, size=count)]
    valid = chance.random(count) < 0.9
    queries = [chance.standard_normal(dimension).astype(np.float32) for _ in range(asked)]
    masks = [chance.random(count) < chance.choice([0.1, 0.6, 1.0]) for _ in range(asked)]
    index = ExactDense(EXACT, names(count), vectors(numbers, valid))
    for query, mask, found in zip(queries, masks, index.search(queries, top_k, masks), strict=True):
        truth = (numbers.astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
        expected = ranked(truth.tolist(), mask & valid)[:top_k]
        assert [name for name, _ in found] == [names(count)[row] for row in expected]
        assert [score for _, score in found] == pytest.approx([float(truth[row]) for row in expected])


def test_equal_vectors_tie_by_id_wherever_they_lie() -> None:
    """Also across the blocks that are multiplied at once, and whoever else asks."""
    numbers = clusters(2 * 8192 + 100, 24)
    twins = np.random.default_rng(3).choice(len(numbers), 40, replace=False)
    numbers[twins] = numbers[twins[0]]
    ids = names(len(numbers))
    everything = np.ones(len(numbers), np.bool_)
    index = ExactDense(EXACT, ids, vectors(numbers))
    query = numbers[twins[0]]
    (alone,) = index.search([query], 40, [everything])
    assert [name for name, _ in alone] == [ids[row] for row in sorted(twins)]
    assert len({score for _, score in alone}) == 1
    among = index.search([numbers[0], query, numbers[1]], 40, [everything] * 3)[1]
    assert among == alone, "an answer does not depend on what else is asked"


def test_what_rounding_could_have_moved_is_scored_again() -> None:
    """Vectors that differ in their last bits: products in float32 order them by chance."""
    chance = np.random.default_rng(0)
    numbers = (1 + 2e-7 * chance.standard_normal((2000, 512))).astype(np.float32)
    query = (1 + chance.random(512)).astype(np.float32)
    truth = (numbers.astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
    mask = np.ones(2000, np.bool_)
    (found,) = ExactDense(EXACT, names(2000), vectors(numbers)).search([query], 20, [mask])
    assert [name for name, _ in found] == [names(2000)[row] for row in ranked(truth.tolist(), mask)[:20]]


def test_a_query_that_is_not_finite_finds_nothing() -> None:
    index = ExactDense(EXACT, names(3), vectors(np.eye(3)))
    mask = np.ones(3, np.bool_)
    broken = np.array([1, np.nan, 0], np.float32)
    assert [len(found) for found in index.search([broken, np.eye(3)[0]], 2, [mask, mask])] == [0, 2]


@pytest.mark.parametrize("share", [1.0, 0.2, 0.001])
@pytest.mark.parametrize("alike", [False, True])
def test_bytes_first_is_exact_to_the_last_bit(tmp_path: Path, share: float, *, alike: bool) -> None:
    """Where candidates prove it, and where they cannot because all vectors are nearly the same."""
    require("faiss", "faiss")
    chance = np.random.default_rng(0)
    numbers = 1 + 1e-4 * chance.standard_normal((6000, 64)) if alike else clusters(6000, 64)
    numbers[:, 5] *= 30  # a dimension that outweighs the others has a scale of its own
    numbers = numbers.astype(np.float32)
    made = vectors(numbers, chance.random(6000) < 0.9)
    content = build_int8(made, tmp_path)
    arrays = {name: np.fromfile(tmp_path / name, number) for name, (number, _) in content.arrays.items()}
    ids, mask = names(6000), chance.random(6000) < share
    proof = Int8Prefilter(StoredArrays(arrays, content.facts))
    quick, plain = ExactDense(EXACT, ids, made, proof), ExactDense(EXACT, ids, made)
    for query in questions(numbers, 30):
        assert quick.search([query], 10, [mask]) == plain.search([query], 10, [mask])
    proven = [proof.search(made, query, 10, mask) is not None for query in questions(numbers, 30)]
    assert any(proven) == (share == 1 and not alike)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[RabitqDense, ExactDense, NDArray[Any]]:
    require("faiss", "faiss")
    numbers = clusters(8000, 64)
    valid = np.random.default_rng(1).random(len(numbers)) < 0.95
    directory = tmp_path_factory.mktemp("rabitq")
    made = vectors(numbers, valid)
    content = build_rabitq(made, directory)
    assert content.facts["recall"] >= 0.99
    stored = {name: np.fromfile(directory / name, of) for name, (of, _) in content.arrays.items()}
    ids = names(len(numbers))
    return (
        RabitqDense(RABITQ, ids, made, StoredArrays(stored, content.facts)),
        ExactDense(EXACT, ids, made),
        numbers,
    )


def questions(numbers: NDArray[Any], count: int) -> list[NDArray[Any]]:
    chance = np.random.default_rng(9)
    near = numbers[chance.choice(len(numbers), count)]
    return list((near + 0.08 * chance.standard_normal(near.shape)).astype(np.float32))


@pytest.mark.parametrize("share", [1.0, 0.3, 0.02, 0.0])
def test_codes_find_what_exact_search_finds(
    large: tuple[RabitqDense, ExactDense, NDArray[Any]], share: float
) -> None:
    """With filters too: never fewer, of the same scores, and at least 99 of 100."""
    index, exact, numbers = large
    queries = questions(numbers, 40)
    mask = np.random.default_rng(2).random(len(numbers)) < share
    found = index.search(queries, 10, [mask] * len(queries))
    truth = exact.search(queries, 10, [mask] * len(queries))
    assert [len(hits) for hits in found] == [len(hits) for hits in truth]
    allowed = {name for name, there in zip(names(len(numbers)), mask, strict=True) if there}
    assert all(name in allowed for hits in found for name, _ in hits)
    same = [dict(hits).items() & dict(expected).items() for hits, expected in zip(found, truth, strict=True)]
    assert sum(map(len, same)) >= 0.99 * sum(map(len, truth))


def test_a_filter_that_lets_through_only_what_is_far_away_finds_as_many(
    large: tuple[RabitqDense, ExactDense, NDArray[Any]],
) -> None:
    """The items lie in other lists than those that the query is looked for in."""
    index, exact, numbers = large
    query = questions(numbers, 1)
    far = (numbers @ query[0]) < np.quantile(numbers @ query[0], 0.4)
    (found,), (truth,) = (one.search(query, 200, [far]) for one in (index, exact))
    assert len(found) == len(truth) == 200
    assert all(score <= best for (_, score), (_, best) in zip(found, truth, strict=True))


def test_more_than_there_are_gives_all_there_are(
    large: tuple[RabitqDense, ExactDense, NDArray[Any]],
) -> None:
    index, exact, numbers = large
    everything = [np.ones(len(numbers), np.bool_)]
    query = questions(numbers, 1)
    assert (
        len(index.search(query, 8000, everything)[0]) == len(exact.search(query, 8000, everything)[0]) > 7000
    )


def test_what_has_no_structure_is_searched_whole(tmp_path: Path) -> None:
    """Where inverted lists cannot help, all of them are looked through, and recall says what that gives."""
    require("faiss", "faiss")
    chance = np.random.default_rng(0)
    numbers = chance.standard_normal((3000, 32)).astype(np.float32)
    facts = build_rabitq(vectors(numbers), tmp_path).facts
    lists, _ = facts["probe"]
    assert lists >= 16
    assert 0.5 < facts["recall"] <= 1
