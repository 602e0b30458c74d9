"""A cluster of one machine: what many make is what one makes."""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from fake_conversion import contents
from PIL import Image
from stored_items import count_items

from vrag.corpus.converter import Converted, CorpusOptions, Failed, Finished, ItemCount, SourceFile
from vrag.corpus.discover import read_source
from vrag.embed.embedder import VectorKind
from vrag.errors import (
    CollectionError,
    EmbedderFailedError,
    EmbedError,
    FingerprintMismatch,
    MissingExtra,
    VragError,
)
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.maintenance import remove
from vrag.index.remote.ray import RayOptions, RayProgress, by_ray
from vrag.index.remote.ray_tasks import Embedding, RayTaskFailed, row
from vrag.testing import HashEmbedder, passage

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from vrag.embed.embedder import EmbedContent
    from vrag.index.build import AddReport
    from vrag.index.vectors.embed_items import Made

SINGLE = HashEmbedder(VectorKind.SINGLE, 16)
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
OPTIONS = CorpusOptions(ocr="never", workers=1)

pytestmark = pytest.mark.filterwarnings("ignore:::ray", "ignore::DeprecationWarning", "ignore::FutureWarning")


def start_cluster(ray: Any) -> None:  # noqa: ANN401 - it ships no types
    """Start Ray here; again, if its processes take longer than the 30 s that it gives them."""
    for attempt in range(4):
        try:
            ray.init(
                address="local",
                num_cpus=2,
                include_dashboard=False,
                log_to_driver=False,
                logging_level="ERROR",
                object_store_memory=100 * 2**20,
            )
        except Exception as error:
            if "timed out during startup" not in str(error) or attempt == 3:
                raise
            ray.shutdown()
        else:
            return


@pytest.fixture(scope="module")
def cluster() -> Generator[Any]:
    """One for all tests: starting it takes seconds."""
    patch = pytest.MonkeyPatch()
    for name, value in {**QUIET, "RAY_BACKEND_LOG_LEVEL": "fatal"}.items():
        patch.setenv(name, value)
    for folder in Path(__file__).parents[:2]:
        patch.setenv("PYTHONPATH", os.fspath(folder), prepend=os.pathsep)
    ray: Any = importlib.import_module("ray")
    start_cluster(ray)
    yield ray
    ray.shutdown()
    patch.undo()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number}.txt").write_text(f"apple number {number}. " * 150, encoding="utf-8")
        Image.new("RGB", (64, 48), (20 * number, 0, 99)).save(folder / f"{number}.png")
    (folder / "broken.png").write_bytes(b"no picture")
    return folder


@pytest.mark.slow
def test_the_collection_is_that_of_one_machine(cluster: object, files: Path, tmp_path: Path) -> None:
    """Of vectors of many rows, from files fetched; of one row, and none, of files shared: below."""
    opened = partial(HashEmbedder, VectorKind.MULTI, 16)
    embedder = opened()
    near = Collection.create(tmp_path / "near", OPTIONS, embedder=embedder)
    far = Collection.create(tmp_path / "far", OPTIONS, embedder=embedder)
    producer = by_ray(RayOptions(shared=False), opened, embedder)
    here = add(near, [files], embedder=embedder)
    there = add(far, [files], embedder=embedder, producer=producer)
    assert_alike(near, here, far, there)
    assert [document.name for document in there.problems] == ["broken.png"]
    assert there.items > 24


def assert_alike(near: Collection, here: AddReport, far: Collection, there: AddReport) -> None:
    """Checks that two collections, and the reports of making them, are the same."""
    assert contents(far) == contents(near)
    assert far.content_version == near.content_version
    assert replace(there, seconds=0) == replace(here, seconds=0)


class Fragile(HashEmbedder):
    """Takes its process with it when it sees a certain text."""

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        if any("number 7" in content.text for content in contents):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().embed_items(contents)


class Gone(HashEmbedder):
    """Its device fails when it sees a certain text."""

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        if any("number 7" in content.text for content in contents):
            raise EmbedderFailedError("The device failed.")
        return super().embed_items(contents)


def unopenable() -> HashEmbedder:
    raise EmbedError("There is no such model.", "Get it.")


def broken() -> HashEmbedder:
    raise ZeroDivisionError


@pytest.mark.slow
def test_an_item_that_kills_every_process_that_embeds_it_fails_alone(
    cluster: object, files: Path, tmp_path: Path
) -> None:
    near, far = (Collection.create(tmp_path / name, OPTIONS, embedder=SINGLE) for name in ("near", "far"))
    producer = by_ray(RayOptions(), partial(Fragile, VectorKind.SINGLE, 16), SINGLE)
    report = add(far, [files], embedder=SINGLE, producer=producer)
    reasons = {document.name: document.reason for document in report.problems}
    assert reasons.keys() == {"7.txt", "broken.png"}
    assert "crashed the process that embeds it" in reasons["7.txt"]
    assert report.added == 23
    (files / "7.txt").unlink()
    remove(far, [files / "7.txt"])
    add(near, [files], embedder=SINGLE)
    assert contents(far) == contents(near)


@pytest.mark.slow
def test_a_converting_process_that_is_killed_is_replaced(
    cluster: object, files: Path, tmp_path: Path
) -> None:
    near, far = (Collection.create(tmp_path / name, OPTIONS) for name in ("near", "far"))
    for number in range(40):
        (files / f"more {number}.txt").write_text(f"pear {number} " * 3000)
    here = add(near, [files])
    killed: list[int] = []

    def produce(*wanted: Any) -> Generator[Made, None, None]:  # noqa: ANN401
        for made in by_ray(RayOptions())(*wanted):
            if not killed:
                killed.extend(own_processes("ray::MapBatches(convert)"))
                for process in killed:
                    os.kill(process, signal.SIGKILL)
            yield made

    there = add(far, [files], producer=produce)
    assert killed
    assert_alike(near, here, far, there)


def own_processes(title: str) -> list[int]:
    """Processes below this one whose title begins so."""
    parents: dict[int, int] = {}
    titled: list[int] = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(path.name)] = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if (path / "cmdline").read_bytes().startswith(title.encode()):
                titled.append(int(path.name))

    def is_ours(process: int) -> bool:
        return process == os.getpid() or (process > 1 and is_ours(parents.get(process, 0)))

    return [process for process in titled if is_ours(process)]


@pytest.mark.slow
def test_what_is_no_files_fault_ends_the_job_with_its_own_error(
    cluster: object, files: Path, tmp_path: Path
) -> None:
    collection = Collection.create(tmp_path / "far", OPTIONS, embedder=SINGLE)
    opened = partial(Gone, VectorKind.SINGLE, 16)
    with pytest.raises(EmbedderFailedError):
        add(collection, [files], embedder=SINGLE, producer=by_ray(RayOptions(), opened, SINGLE))
    add(collection, [files], embedder=SINGLE)
    assert count_items(collection) > 20


@pytest.mark.parametrize(
    ("opened", "error"),
    [
        (partial(HashEmbedder, VectorKind.SINGLE, 16, 1), FingerprintMismatch),
        (unopenable, EmbedError),
        (partial(Gone, VectorKind.SINGLE, 16), EmbedderFailedError),
    ],
)
def test_what_is_no_files_fault_comes_back_as_its_own_error(
    opened: Callable[[], HashEmbedder], error: type[VragError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the actor, as this process gets it; the test above shows that it ends the job."""
    monkeypatch.setattr("ray.get", bool)
    noted = SimpleNamespace(remote=str.isspace)  # false: nothing was begun before
    actor = Embedding(opened, SINGLE.fingerprint, SimpleNamespace(begin=noted, end=noted))
    source = SourceFile(Path("/a.txt"), "ab" * 32, "a.txt", 1, 1)
    (told,) = actor(row(3, Converted(source, passage("a.txt", 1, "number 7"))))
    assert told["number"].to_pylist() == [3]
    message = pickle.loads(told["made"][0].as_py())
    assert isinstance(message, RayTaskFailed)
    assert type(message.error) is error


@pytest.mark.slow
def test_what_nobody_can_bring_to_an_end_fails_with_the_reason(
    cluster: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrag.index.remote.ray.ATTEMPTS", 1)
    (tmp_path / "a.txt").write_text("one")
    collection = Collection.create(tmp_path / "far", OPTIONS, embedder=SINGLE)
    producer = by_ray(RayOptions(), broken, SINGLE)
    report = add(collection, [tmp_path / "a.txt"], embedder=SINGLE, producer=producer)
    assert report.failed == 1
    assert "were lost" in report.problems[0].reason


@pytest.mark.smoke
@pytest.mark.slow
def test_the_order_is_the_promised_one_and_what_is_had_is_not_made(
    cluster: object, files: Path, tmp_path: Path
) -> None:
    """A file that vanishes fails alone."""
    gone, *sources = (read_source(path) for path in sorted(files.glob("*.txt")))
    gone.path.unlink()
    made = list(by_ray(RayOptions())(iter([gone, *sources]), tmp_path / "items", OPTIONS, lambda _: {1}))
    (failed,) = (one for one in made if isinstance(one, Failed))
    assert (failed.source, failed.ordinal) == (gone, None)
    assert "No such file" in failed.reason
    assert [one for one in made if one.source is gone] == [failed, Finished(gone)]
    for source in sources:
        mine = [one for one in made if one.source is source]
        assert isinstance(mine[0], ItemCount)
        assert isinstance(mine[-1], Finished)
        ordinals = [one.item.ordinal for one in mine if isinstance(one, Converted)]
        assert sorted(ordinals) == list(range(2, mine[0].items + 1))


@pytest.mark.slow
def test_it_can_be_left_in_the_middle(cluster: object, files: Path, tmp_path: Path) -> None:
    sources = [read_source(path) for path in sorted(files.glob("*.txt"))]
    made = by_ray(RayOptions())(iter(sources), tmp_path / "items", OPTIONS, lambda _: ())
    assert next(made)
    made.close()


class TestProgress:
    """What comes back of a source, in any order and perhaps twice, is passed on in the promised one."""

    SOURCE = SourceFile(Path("/a.txt"), "ab" * 32, "a.txt", 1, 1)

    def items(self, count: int) -> list[Converted]:
        items = (passage("a.txt", number, "text") for number in range(1, count + 1))
        return [Converted(self.SOURCE, item) for item in items]

    def test_items_wait_for_the_count_and_the_end_for_all_items(self) -> None:
        one, two = self.items(2)
        progress = RayProgress(self.SOURCE, frozenset())
        assert list(progress.take(one)) == []
        progress.expected = 3
        assert list(progress.finish()) == []
        assert list(progress.take(ItemCount(self.SOURCE, 2))) == [ItemCount(self.SOURCE, 2), one]
        assert list(progress.finish()) == []
        assert list(progress.take(two)) == [two]
        assert list(progress.finish()) == [Finished(self.SOURCE)]
        assert list(progress.finish()) == []

    def test_a_second_attempt_asks_for_the_rest_and_passes_nothing_on_twice(self) -> None:
        one, two = self.items(2)
        progress = RayProgress(self.SOURCE, frozenset({7}))
        counted = ItemCount(self.SOURCE, 3)
        assert list(progress.take(counted)) == [counted]
        assert list(progress.take(one)) == [one]
        assert progress.task(4).have == {1, 7}
        assert list(progress.take(counted)) == []
        assert list(progress.take(one)) == []
        assert list(progress.take(two)) == [two]
        progress.expected = 3
        assert list(progress.finish()) == [Finished(self.SOURCE)]

    def test_giving_up_ends_with_the_reason(self) -> None:
        (one,) = self.items(1)
        progress = RayProgress(self.SOURCE, frozenset())
        assert list(progress.take(one)) == []
        told = list(progress.give_up("It rained."))
        assert told == [one, Failed(self.SOURCE, None, "It rained."), Finished(self.SOURCE)]


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "ray://[::1]:9", "nonsense"])
def test_a_cluster_that_cannot_be_reached_is_told(
    address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(CollectionError, match=r"Ray cannot be used at .*Check the address"):
        list(by_ray(RayOptions(address=address))(iter(()), tmp_path, OPTIONS, lambda _: ()))


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"vrag-agent\[ray\]"):
        list(by_ray(RayOptions())(iter(()), tmp_path, OPTIONS, lambda _: ()))
