from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vector_tables import maxsim, names, ranked

from vrag.errors import SettingsError
from vrag.index.vectors import pooled
from vrag.index.vectors.maxsim import (
    DeviceMaxSim,
    ExactMaxSim,
    Pages,
    Queries,
    multiply_float16,
    multiply_int8,
    runs,
)
from vrag.index.vectors.pooled import PooledMaxSim, PooledVectors, pool
from vrag.index.vectors.tiers import Tier, TierName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from vrag.index.vectors.tiers import VectorIndex

TIER = Tier(TierName.EXACT, "for a test")
HAS_TORCH = importlib.util.find_spec("torch") is not None


def stored(pages: Sequence[NDArray[Any]], seed: int = 0) -> Pages:
    """Pages as they come to lie: in an order of their own, one after the other."""
    order = np.random.default_rng(seed).permutation(len(pages))
    lengths = np.array([len(page) for page in pages], np.int64)
    starts = np.zeros(len(pages), np.int64)
    starts[order] = np.cumsum(lengths[order]) - lengths[order]
    flat = np.concatenate([pages[int(row)] for row in order]).astype(np.float16)
    return Pages(flat, starts, lengths)


def exact(pages: Pages) -> VectorIndex:
    return ExactMaxSim(TIER, names(len(pages.lengths)), pages)


def on_device(pages: Pages) -> VectorIndex:
    return DeviceMaxSim(TIER, names(len(pages.lengths)), pages, "cpu")


WAYS = [
    exact,
    pytest.param(on_device, marks=pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")),
]


@pytest.mark.parametrize("way", WAYS)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=20),
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
)
def test_exact_is_what_float64_says(
    way: Callable[[Pages], VectorIndex], lengths: list[int], tokens: list[int], dimension: int, seed: int
) -> None:
    """Pages of any length, of none too; queries of one token, of none; masks; whatever the order on disk."""
    chance = np.random.default_rng(seed)
    pages = [chance.standard_normal((length, dimension)).astype(np.float16) for length in lengths]
    queries = [chance.standard_normal((count, dimension)).astype(np.float32) for count in tokens]
    masks = [chance.random(len(pages)) < chance.choice([0.5, 1.0]) for _ in queries]
    top_k = int(chance.integers(1, 25))
    index = way(stored(pages, seed % 1000))
    for query, mask, found in zip(queries, masks, index.search(queries, top_k, masks), strict=True):
        truth = [maxsim(query, page) for page in pages]
        expected = ranked(truth, mask)[:top_k] if len(query) else []
        assert [name for name, _ in found] == [names(len(pages))[row] for row in expected]
        assert [score for _, score in found] == pytest.approx(
            [truth[row] for row in expected], rel=1e-5, abs=1e-5
        )


@pytest.mark.parametrize("way", WAYS)
def test_equal_pages_tie_by_id_wherever_they_lie(way: Callable[[Pages], VectorIndex]) -> None:
    chance = np.random.default_rng(5)
    pages = [chance.standard_normal((int(n), 128)).astype(np.float16) for n in chance.integers(1, 900, 60)]
    for twin in range(10, 40):
        pages[twin] = pages[10]
    query = chance.standard_normal((20, 128)).astype(np.float32) + pages[10][:1].astype(np.float32)
    mask = np.isin(np.arange(60), [*range(10, 40), 3, 50])
    (found,) = way(stored(pages)).search([query], 60, [mask])
    twins = [(name, score) for name, score in found if name in names(60)[10:40]]
    assert [name for name, _ in twins] == names(60)[10:40]
    assert len({score for _, score in twins}) == 1


def test_lengths_do_not_divide_and_nothing_is_padded() -> None:
    """A page with few vectors, all of them far from the query, keeps its score below 0."""
    pages = [np.full((1, 4), -1.0), np.full((30, 4), -2.0), np.zeros((5, 4))]
    query = np.ones((3, 4), np.float32)
    (found,) = exact(stored(pages)).search([query], 3, [np.ones(3, np.bool_)])
    assert found == [(names(3)[2], 0.0), (names(3)[0], -12.0), (names(3)[1], -24.0)]


def test_a_query_that_is_not_finite_finds_nothing() -> None:
    index = exact(stored([np.ones((2, 4))]))
    query = np.ones((2, 4), np.float32)
    broken = query.copy()
    broken[1, 2] = np.inf
    mask = np.ones(1, np.bool_)
    assert [len(found) for found in index.search([broken, query], 1, [mask, mask])] == [0, 1]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 120), st.integers(0, 999))
def test_runs_cover_each_chosen_page_once_and_nothing_else(lengths: list[int], block: int, seed: int) -> None:
    pages = stored([np.zeros((length, 1)) for length in lengths], seed)
    rows = np.flatnonzero(np.random.default_rng(seed).random(len(lengths)) < 0.7)
    made = list(runs(pages.starts, pages.lengths, rows, block))
    assert sorted(row for run in made for row in run.rows) == rows.tolist()
    for run in made:
        assert run.end - run.begin <= block or len(run.rows) == 1
        assert run.end - run.begin == pages.lengths[run.rows].sum()
        assert (run.begin + run.starts).tolist() == pages.starts[run.rows].tolist()


@given(st.integers(1, 40), st.integers(1, 70), st.integers(1, 40), st.integers(0, 999))
def test_products_are_those_of_numpy(count: int, dimension: int, columns: int, seed: int) -> None:
    """The graphs are written by hand: this is what says that they are right."""
    chance = np.random.default_rng(seed)
    halves = chance.standard_normal((count, dimension)).astype(np.float16)
    queries = chance.standard_normal((dimension, columns)).astype(np.float32)
    product = multiply_float16(halves, queries)
    np.testing.assert_allclose(product, halves.astype(np.float64) @ queries, rtol=1e-5, atol=1e-5)
    codes = chance.integers(0, 256, (count, dimension)).astype(np.uint8)
    steps = chance.integers(-64, 65, (dimension, columns)).astype(np.int8)
    assert (multiply_int8(codes, steps) == codes.astype(np.int64) @ steps.astype(np.int64)).all()


def test_bytes_do_not_overflow_where_processors_keep_sums_of_two_products_in_16_bits() -> None:
    assert 2 * 255 * 64 < 2**15
    codes, steps = np.full((3, 128), 255, np.uint8), np.full((128, 2), pooled.MAX_STEPS, np.int8)
    assert (multiply_int8(codes, steps) == 128 * 255 * pooled.MAX_STEPS).all()


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 999))
def test_averages_have_the_mean_length_and_direction_of_their_group(
    count: int, factor: int, seed: int
) -> None:
    vectors = np.random.default_rng(seed).standard_normal((count, 6)).astype(np.float32)
    made = pool(vectors, factor)
    assert len(made) == -(-count // factor)
    for number, average in enumerate(made):
        group = vectors[number * factor : (number + 1) * factor]
        assert np.linalg.norm(average) == pytest.approx(np.linalg.norm(group, axis=1).mean(), rel=1e-4)
        mean = group.mean(axis=0)
        alike = float(average @ mean) / float(np.linalg.norm(average) * np.linalg.norm(mean))
        assert alike == pytest.approx(1, abs=1e-3)


def alike_pages(count: int) -> list[NDArray[Any]]:
    """Ragged pages whose neighbouring vectors resemble each other, as patches of a picture do."""
    chance = np.random.default_rng(0)
    made: list[NDArray[Any]] = []
    for length in chance.integers(5, 90, count):
        parts = np.repeat(chance.standard_normal((9, 32)), 10, axis=0)[: int(length)]
        page = parts + 0.5 * chance.standard_normal(parts.shape)
        made.append(page / np.linalg.norm(page, axis=1, keepdims=True))
    return made


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[PooledMaxSim, VectorIndex, list[NDArray[Any]]]:
    pages = alike_pages(600)
    pages[7] = pages[7][:0]
    laid = stored(pages)
    directory = tmp_path_factory.mktemp("pooled")
    content = pooled.build(laid, directory)
    assert content.facts["recall"] >= 0.98
    arrays = {
        name: np.fromfile(directory / name, number).reshape(shape)
        for name, (number, shape) in content.arrays.items()
    }
    index = PooledMaxSim(TIER, names(len(pages)), laid, PooledVectors.of(arrays), content.facts["candidates"])
    return index, exact(laid), pages


def questions(pages: list[NDArray[Any]], count: int) -> list[NDArray[Any]]:
    chance = np.random.default_rng(4)
    rows: list[int] = chance.choice(len(pages), count).tolist()
    chosen = [pages[row] for row in rows if len(pages[row])]
    picked = [page[chance.choice(len(page), int(chance.integers(3, 6)), replace=False)] for page in chosen]
    return [(part + 0.1 * chance.standard_normal(part.shape)).astype(np.float32) for part in picked]


@pytest.mark.parametrize("share", [1.0, 0.4, 0.05, 0.0])
def test_averages_find_what_exact_search_finds(
    many: tuple[PooledMaxSim, VectorIndex, list[NDArray[Any]]], share: float
) -> None:
    """With filters too: never fewer, of the same scores, and nearly all."""
    index, whole, pages = many
    queries = questions(pages, 40)
    masks = [np.random.default_rng(number).random(len(pages)) < share for number in range(len(queries))]
    found, truth = (one.search(queries, 10, masks) for one in (index, whole))
    assert [len(hits) for hits in found] == [len(hits) for hits in truth]
    assert not any(name == names(8)[7] for hits in found for name, _ in hits), "it has no vectors"
    ids = np.array(names(len(pages)))
    for hits, mask in zip(found, masks, strict=True):
        allowed = set(ids[mask].tolist())
        assert {name for name, _ in hits} <= allowed
    same = [dict(hits).items() & dict(expected).items() for hits, expected in zip(found, truth, strict=True)]
    assert sum(map(len, same)) >= 0.97 * sum(map(len, truth))


def test_averages_score_as_if_they_were_not_bytes(
    many: tuple[PooledMaxSim, VectorIndex, list[NDArray[Any]]],
) -> None:
    index, _, pages = many
    queries = questions(pages, 5)
    scores = index.averages.scores(Queries(queries))
    for number, query in enumerate(queries):
        for row in range(0, len(pages), 37):
            truth = maxsim(query, pool(pages[row].astype(np.float16).astype(np.float32), pooled.FACTOR))
            assert scores[row, number] == pytest.approx(truth, abs=0.02 * len(query))
    assert (scores[7] == -np.inf).all()


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(SettingsError, match="cannot be searched on"):
        DeviceMaxSim(TIER, names(1), stored([np.ones((2, 4))]), "cuda:77")
