"""Verification of a collection with its runs, under the settings."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.index.collection import Collection
from vrag.index.location import is_url
from vrag.index.vectors.embed_items import local

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vrag.index.integrity.problems import VerifyReport
    from vrag.index.integrity.verification import Reindex
    from vrag.settings import Settings


def verify_collection(
    settings: Settings, *, repair: bool = False, progress: Callable[[str, int, int], None] | None = None
) -> VerifyReport:
    """Verify the collection of the settings and its runs; with `repair`, repair what can be repaired.

    Runs that the settings keep outside of the collection are verified too. `progress` receives what is
    checked, how much of it is done, and how much there is.

    Raises `CollectionError` if there is no collection, or its header is damaged beyond repair,
    `CollectionBusy` while another process is writing, and `OSError` if a repair cannot be written.
    """
    from vrag.agent.runs.run_checks import check_runs
    from vrag.agent.runs.run_store import RunStore
    from vrag.factory.session import run_store
    from vrag.index.backups.store import BackupStore
    from vrag.index.build import add
    from vrag.index.integrity.verification import verify
    from vrag.index.location import DESCRIPTION, LocalLocation

    def report(what: str) -> Callable[[int, int], None] | None:
        return partial(progress, what) if progress else None

    def prepare(collection: Collection) -> Reindex:
        from vrag.factory.indexing import embedder_of

        record = collection.header.embedder
        embedder = embedder_of(settings, record) if record else None
        producer = local(embedder, settings.batch)

        def reindex(damaged: Collection, paths: Sequence[Path]) -> object:
            return add(damaged, paths, embedder=embedder, producer=producer)

        return reindex

    name = settings.collection
    if is_url(name):
        from vrag.index.remote.remote_collection import read_only

        raise read_only(name)
    path = Path(name).absolute()
    if (path / DESCRIPTION).is_file():
        BackupStore.open(path.parent).open_snapshot(path.name).build()  # refuses
    location = LocalLocation(path, settings.wait, durable=settings.durable)
    found = verify(location, repair=repair, prepare=prepare, progress=report("items"))
    own = RunStore(location.directory / "runs", location.directory, settings.durable)
    found = found.plus(*check_runs(own, repair=repair, progress=report("runs")))
    other = run_store(settings, collection=Collection.open(location.directory))
    if other.directory.resolve() == own.directory.resolve():
        return found
    runs = check_runs(other, repair=repair, progress=report("runs"))
    return replace(found.plus(*runs), runs_dir=str(other.directory))
