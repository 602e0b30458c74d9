"""From the table to the answers: tiers, caches that are missing, damaged, half made or not writable."""

from __future__ import annotations

import importlib.util
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from stored_items import delete_items, forget_vectors, put_files
from vector_tables import DOCUMENT, append, clusters, item, make, maxsim, names, ranked

from vrag.embed.embedder import VectorKind
from vrag.errors import CollectionError, MissingExtra, SettingsError
from vrag.index.collection import Collection
from vrag.index.maintenance import compact, remove
from vrag.index.vectors import tiers, vector_index
from vrag.index.vectors.tiers import TierName, VectorOptions, choose_tier
from vrag.index.vectors.vector_index import known_tier, open_vectors
from vrag.storage import array_cache
from vrag.types import ABSENT, Document, DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.index.vectors.tiers import VectorIndex

SINGLE, MULTI = VectorKind.SINGLE, VectorKind.MULTI
KEY = "key"
TIERS = [(SINGLE, "exact"), (MULTI, "exact"), (MULTI, "pooled")]
if importlib.util.find_spec("faiss"):
    TIERS.append((SINGLE, "rabitq"))


def things(kind: VectorKind, count: int = 300) -> list[NDArray[Any]]:
    if kind is SINGLE:
        return list(clusters(count, 16))
    chance = np.random.default_rng(0)
    return [
        np.repeat(chance.standard_normal((4, 16)), 10, axis=0)[: int(n)].astype(np.float16)
        for n in chance.integers(1, 40, count)
    ]


def opened(collection: Collection, count: int, tier: str = "auto", key: str = KEY) -> VectorIndex:
    index = open_vectors(collection, names(count), key, VectorOptions(tier))
    assert index is not None
    return index


def answers(index: VectorIndex, made: list[NDArray[Any]]) -> list[list[tuple[str, float]]]:
    """Of some queries, each close to one of the items."""
    queries = [made[row].astype(np.float32) for row in (3, 50, 200)]
    return index.search(queries, 10, [np.ones(len(made), np.bool_)] * len(queries))


def folders(collection: Collection) -> set[str]:
    return {path.name for path in collection.cache_dir.iterdir()}


@pytest.mark.parametrize(("kind", "tier"), TIERS)
def test_answers_are_those_of_the_definition(tmp_path: Path, kind: VectorKind, tier: str) -> None:
    made = things(kind)
    index = opened(make(tmp_path / "c", made, kind), len(made), tier)
    assert (index.tier.name, index.tier.reason) == (tier, "it was asked for")
    assert (index.tier.recall is None) == (tier == "exact")
    for row, found in zip((3, 50, 200), answers(index, made), strict=True):
        if kind is SINGLE:
            truth = (np.stack(made).astype(np.float64) @ made[row].astype(np.float64)).tolist()
        else:
            truth = [maxsim(made[row], page) for page in made]
        expected = ranked(truth, np.ones(len(made), np.bool_))[:10]
        assert [name for name, _ in found] == [names(len(made))[place] for place in expected]
        assert [score for _, score in found] == pytest.approx([truth[place] for place in expected], rel=1e-5)


@pytest.mark.parametrize(("kind", "tier"), TIERS)
def test_items_without_usable_vectors_are_never_found(tmp_path: Path, kind: VectorKind, tier: str) -> None:
    made = things(kind)
    broken = made[7].copy()
    broken[..., 0] = np.inf if kind is SINGLE else np.nan
    made[7] = broken
    if kind is MULTI:
        made[8] = made[8][:0]
    collection = make(tmp_path / "c", made, kind)
    forget_vectors(collection, item(9).id)
    found = opened(collection, len(made), tier).search(
        [np.ones(16, np.float32) if kind is SINGLE else np.ones((2, 16), np.float32)],
        len(made),
        [np.ones(len(made), np.bool_)],
    )[0]
    missing = set(names(len(made))) - {name for name, _ in found}
    assert missing == {item(number).id for number in ((7, 9) if kind is SINGLE else (7, 8, 9))}


@pytest.mark.parametrize("kind", [SINGLE, MULTI])
def test_an_empty_collection_and_one_without_any_vector_find_nothing(
    tmp_path: Path, kind: VectorKind
) -> None:
    made = things(kind, 5)
    collection = make(tmp_path / "c", made, kind)
    query = made[0].astype(np.float32)
    assert opened(collection, 0, key="empty").search([query], 3, [np.zeros(0, np.bool_)]) == [[]]
    forget_vectors(collection)
    for tier in [tier for of, tier in TIERS if of is kind]:
        index = opened(collection, 5, tier, key="none")
        assert index.search([query, query], 3, [np.ones(5, np.bool_)] * 2) == [[], []]


def test_an_item_that_is_gone_means_to_look_again(tmp_path: Path) -> None:
    made = things(SINGLE, 5)
    collection = make(tmp_path / "c", made, SINGLE)
    assert open_vectors(collection, names(6), KEY, VectorOptions()) is None
    assert folders(collection) == set(), "nothing half made is left"
    delete_items(collection, item(0).id)
    assert open_vectors(collection, names(5), KEY, VectorOptions()) is None


def test_items_that_came_meanwhile_are_left_out(tmp_path: Path) -> None:
    made = things(MULTI, 40)
    collection = make(tmp_path / "c", made[:30], MULTI)
    append(collection, {number: made[number] for number in range(30, 40)})
    (found,) = opened(collection, 30).search([made[35].astype(np.float32)], 40, [np.ones(30, np.bool_)])
    assert {name for name, _ in found} == set(names(30))


@pytest.mark.parametrize(("kind", "tier"), TIERS)
def test_a_cache_is_made_once_and_survives_moving_the_collection(
    tmp_path: Path, kind: VectorKind, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = things(kind)
    before = answers(opened(make(tmp_path / "c", made, kind), len(made), tier), made)
    (tmp_path / "c").rename(tmp_path / "moved")
    moved = Collection.open(tmp_path / "moved")
    monkeypatch.setattr(vector_index, "read_vectors", None)  # reading the vectors again would fail
    index = opened(moved, len(made), tier)
    assert answers(index, made) == before
    assert all(name.startswith(f"vectors-{KEY}-") for name in folders(moved))


@pytest.mark.parametrize(("kind", "tier"), TIERS)
def test_every_file_of_a_cache_may_be_damaged(tmp_path: Path, kind: VectorKind, tier: str) -> None:
    """Cut short, emptied, overwritten, or gone: it is noticed, and made again."""
    made = things(kind)
    collection = make(tmp_path / "c", made, kind)
    before = answers(opened(collection, len(made), tier), made)
    files = sorted(path for path in collection.cache_dir.rglob("*") if path.is_file())
    assert len(files) >= 3
    for path in files:
        content = path.read_bytes()
        for harm in (
            content[:-1],
            b"",
            content[: len(content) // 2] + bytes(len(content) - len(content) // 2),
            None,
        ):
            if harm == content:
                continue
            path.unlink()
            if harm is not None:
                path.write_bytes(harm)
            assert answers(opened(collection, len(made), tier), made) == before, (path, harm and len(harm))
            assert path.read_bytes() == content, "made as it was"


def test_caches_of_other_contents_go_once_they_are_old(tmp_path: Path) -> None:
    made = things(SINGLE, 30)
    collection = make(tmp_path / "c", made, SINGLE)
    opened(collection, 30, key="old")
    opened(collection, 30, key="recent")
    (collection.cache_dir / "lexical-old").mkdir()
    for name in ("vectors-old-originals", "lexical-old"):
        os.utime(collection.cache_dir / name, (1, 1))
    opened(collection, 30, key="new")
    assert folders(collection) == {"vectors-recent-originals", "vectors-new-originals", "lexical-old"}


@pytest.mark.parametrize(("kind", "tier"), TIERS)
def test_a_collection_that_cannot_be_written_to_is_searched_all_the_same(
    tmp_path: Path, kind: VectorKind, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = things(kind)
    collection = make(tmp_path / "c", made, kind)
    collection.cache_dir.write_text("in the way")
    elsewhere = tmp_path / "temporary"
    killed = elsewhere / ".vrag-scratch-x"  # of another collection, by a killed process
    killed.mkdir(parents=True)
    (killed / ".vrag-scratch").touch()
    monkeypatch.setattr(array_cache.tempfile, "gettempdir", lambda: str(elsewhere))
    assert answers(opened(collection, len(made), tier), made)[0][0][0] == names(300)[3]
    assert not list(elsewhere.iterdir()), "nothing is left there"


def test_no_room_anywhere_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(array_cache.tempfile, "mkdtemp", full)
    with pytest.raises(CollectionError, match=r"no disk space .* No space left") as caught:
        opened(make(tmp_path / "c", things(SINGLE, 5), SINGLE), 5)
    assert "Free some space" in caught.value.hint


def test_compacting_while_it_is_read_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = things(MULTI, 60)
    collection = make(tmp_path / "c", made, MULTI, commits=6)
    put_files(collection, [(document(), 60)])
    meanwhile(monkeypatch, lambda: compact(Collection.open(collection.directory)))
    (found,) = opened(collection, 60).search([made[3].astype(np.float32)], 1, [np.ones(60, np.bool_)])
    assert found[0][0] == item(3).id


def test_items_that_are_removed_while_they_are_read_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their vectors are erased at once: the catalog is to be loaded again."""
    collection = make(tmp_path / "c", things(MULTI, 60), MULTI, commits=6)
    put_files(collection, [(document(), 60)])
    meanwhile(monkeypatch, lambda: remove(Collection.open(collection.directory), ["a.pdf"]))
    assert open_vectors(collection, names(60), KEY, VectorOptions("exact")) is None


def test_vectors_that_are_missing_though_their_items_are_there_are_told(tmp_path: Path) -> None:
    collection = make(tmp_path / "c", things(MULTI, 9), MULTI)
    collection.store.blobs.delete(collection.store.named_blobs())
    with pytest.raises(CollectionError, match=r"vectors of items is missing.*verify --repair"):
        opened(collection, 9)


def document() -> Document:
    """The document of all items."""
    return Document(
        id=DOCUMENT,
        path="/a.pdf",
        name="a.pdf",
        size=1,
        mtime_ns=ABSENT,
        status=DocumentStatus.READY,
        items=60,
    )


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something when the first vectors were read."""
    read = vector_index.read_vectors

    def read_beside(of: Collection) -> Iterator[tuple[str, NDArray[np.floating[Any]]]]:
        for number, entry in enumerate(read(of)):
            yield entry
            if number == 2:
                act()

    monkeypatch.setattr(vector_index, "read_vectors", read_beside)


CHILD = """
import os, sys
sys.path[:0] = sys.argv[2].split(os.pathsep)
from vector_tables import names
from vrag.index.collection import Collection
from vrag.index.vectors.tiers import VectorOptions
from vrag.index.vectors.vector_index import open_vectors
assert open_vectors(Collection.open(sys.argv[1]), names(int(sys.argv[3])), "key", VectorOptions(sys.argv[4]))
"""


def building(collection: Collection, count: int, tier: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", CHILD, str(collection.directory), path, str(count), tier]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "tier"), [(MULTI, "pooled")])
def test_killed_while_it_builds_the_next_build_gives_the_same_answers(
    tmp_path: Path, kind: VectorKind, tier: str
) -> None:
    made = things(kind, 4000)
    collection = make(tmp_path / "c", made, kind)
    expected = answers(opened(collection, len(made), tier), made)
    shutil.rmtree(collection.cache_dir)
    chance, scratches = random.Random(3), 0
    for _ in range(8):
        process = building(collection, len(made), tier)
        while process.poll() is None and not list(collection.cache_dir.glob(".vrag-scratch-*")):
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        _, error = process.communicate(timeout=60)
        assert process.returncode in {0, -signal.SIGKILL}, error.decode()
        scratches += len(list(collection.cache_dir.glob(".vrag-scratch-*")))
        if chance.random() < 0.5:
            shutil.rmtree(collection.cache_dir / "vectors-key-originals", ignore_errors=True)
    assert scratches, "some were killed in the middle"
    assert answers(opened(collection, len(made), tier), made) == expected
    assert folders(collection) == {"vectors-key-originals", "vectors-key-pooled8"}


@pytest.mark.slow
def test_two_processes_may_build_at_once(tmp_path: Path) -> None:
    made = things(MULTI, 1500)
    collection = make(tmp_path / "c", made, MULTI)
    processes = [building(collection, len(made), "pooled") for _ in range(2)]
    for process in processes:
        _, error = process.communicate(timeout=60)
        assert process.returncode == 0, error.decode()
    assert folders(collection) == {"vectors-key-originals", "vectors-key-pooled8"}
    assert answers(opened(collection, len(made), "pooled"), made)[1][0][0] == item(50).id


def test_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def tier(kind: VectorKind, count: int, options: VectorOptions | None = None) -> str:
        return choose_tier(kind, count, count, options or VectorOptions()).name

    few, many = tiers.MAX_EXACT_ITEMS, tiers.MAX_EXACT_ITEMS + 1
    monkeypatch.setattr(tiers, "is_installed", {"faiss", "numpy"}.__contains__)
    assert (tier(SINGLE, few), tier(SINGLE, many)) == ("exact", "rabitq")
    few, many = tiers.MAX_EXACT_VECTORS, tiers.MAX_EXACT_VECTORS + 1
    assert (tier(MULTI, few), tier(MULTI, many)) == ("exact", "pooled")
    assert tier(MULTI, few, VectorOptions("pooled")) == "pooled"
    assert tier(MULTI, 1, VectorOptions(device="cuda")) == "cuda"
    assert f"{few:,}" in choose_tier(MULTI, 300, many, VectorOptions()).reason


@pytest.mark.parametrize(("kind", "tier"), TIERS)
def test_the_tier_is_known_without_searching_and_its_recall_once_caches_are_made(
    tmp_path: Path, kind: VectorKind, tier: str
) -> None:
    made = things(kind)
    collection = make(tmp_path / "c", made, kind)
    options = VectorOptions(tier)
    assert known_tier(collection, len(made), KEY, options).recall is None
    assert not collection.cache_dir.exists()
    assert known_tier(collection, len(made), KEY, VectorOptions()).name == (
        "exact" if kind is SINGLE else "pooled"
    )
    index = opened(collection, len(made), tier)
    assert known_tier(collection, len(made), KEY, options) == index.tier
    assert known_tier(collection, len(made), KEY, VectorOptions()).name == "exact", "now they are counted"


def test_a_tier_that_finds_too_little_is_not_used_unless_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Averages of neighbours say nothing of pages whose neighbours have nothing in common."""
    chance = np.random.default_rng(0)
    made: list[NDArray[Any]] = [chance.standard_normal((200, 16)).astype(np.float16) for _ in range(1500)]
    collection = make(tmp_path / "c", made, MULTI)
    monkeypatch.setattr(tiers, "MAX_EXACT_VECTORS", 1000)
    index = opened(collection, len(made))
    assert index.tier.name == "exact"
    assert re.search(r"300,000 vectors are more than 1,000, but .* only \d+%", index.tier.reason)
    assert known_tier(collection, len(made), KEY, VectorOptions()) == index.tier
    asked = opened(collection, len(made), "pooled")
    assert asked.tier.name == "pooled"
    assert (asked.tier.recall or 0) < tiers.MIN_RECALL


def test_without_faiss_the_rule_falls_back_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "is_installed", {"numpy"}.__contains__)
    tier = choose_tier(SINGLE, 10**6, 10**6, VectorOptions())
    assert tier.name is TierName.EXACT
    assert "faiss is not installed" in tier.reason
    with pytest.raises(MissingExtra, match=r"vrag-agent\[faiss\]"):
        choose_tier(SINGLE, 1, 1, VectorOptions("rabitq"))


@pytest.mark.parametrize(
    ("kind", "name"), [(SINGLE, "pooled"), (MULTI, "rabitq"), (SINGLE, "cuda"), (MULTI, "x")]
)
def test_a_tier_that_the_kind_lacks_is_refused(kind: VectorKind, name: str) -> None:
    with pytest.raises(SettingsError, match=name) as caught:
        choose_tier(kind, 1, 1, VectorOptions(name))
    assert "exact" in caught.value.hint
