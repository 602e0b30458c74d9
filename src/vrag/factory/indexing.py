"""Indexing under the settings: collections to add to, embedders, Ray."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vrag.corpus.converter import CorpusOptions
from vrag.corpus.workers.sandbox import SandboxOptions, configure_sandbox
from vrag.embed.registry import DeferredEmbedder
from vrag.errors import CollectionBusy, CollectionError, CorpusError, EmbedError
from vrag.index.collection import Collection
from vrag.index.location import EmbedderRecord, is_collection, is_url
from vrag.index.opening import open_collection
from vrag.providers import complete_embedder, is_embedding_server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vrag.embed.embedder import Embedder, EmbedderInfo
    from vrag.index.build import AddReport
    from vrag.index.maintenance import UnreadFiles
    from vrag.index.manifest import IndexProgress
    from vrag.index.shown_names import ShownNames
    from vrag.index.vectors.embed_items import Producer
    from vrag.settings import Settings, SettingsReport
    from vrag.types import Document

log = logging.getLogger("vrag")

CORPUS_SETTINGS = (
    "dpi",
    "ocr",
    "page_seconds",
    "max_pixels",
    "passage_chars",
    "clip_seconds",
    "office_seconds",
    "workers",
)
EMBEDDER_FLAGS = {"embed_document_instruction": "--document-instruction", "visual_tokens": "--visual-tokens"}
"""Settings that determine the vectors of items, with their flags."""

OPEN_ATTEMPTS, PAUSE_SECONDS = 10, 0.2
"""While another process creates the collection."""


class IndexJob(NamedTuple):
    """A collection to add documents to, with its options and its embedder."""

    collection: Collection
    options: CorpusOptions
    embedder: Embedder | None


class IndexedDocuments(NamedTuple):
    """Documents that have been indexed and can be searched."""

    collection: Collection
    documents: list[Document]
    """Those under the paths that were named; the collection may hold others."""
    embedder: Embedder | None
    """The embedder of the collection; None without vectors."""
    report: AddReport | None
    """The report of the addition; None if another process was writing."""
    unread: UnreadFiles | None = None
    """The files under the paths that could not be indexed, because another process was writing."""


def index_documents(
    report: SettingsReport,
    paths: Sequence[Path],
    *,
    embedder: Embedder | None = None,
    progress: Callable[[IndexProgress], None] | None = None,
    on_added: Callable[[AddReport], None] | None = None,
    skip_if_busy: bool = False,
) -> IndexedDocuments:
    """Index what is new or changed under some paths: files, and folders at any depth.

    `embedder` is that of the collection, if it has been loaded already. `progress` is called ten times per
    second at most, `on_added` before anything is raised for the documents. With `skip_if_busy`, the indexed
    documents are used when another process is writing (else `CollectionBusy`).

    Raises `CorpusError` if none of the documents could be read, `CollectionError` if the collection cannot be
    opened, created or written, and `EmbedError` if its embedder cannot be loaded. Raises `CollectionBusy`
    although `skip_if_busy` if nothing under the paths is indexed.
    """
    from vrag.index.build import add
    from vrag.index.maintenance import count_unread_under

    collection, options, opened = open_when_created(report)
    embedder = embedder or opened
    added: AddReport | None = None
    unread: UnreadFiles | None = None
    try:
        added = add(collection, paths, options, embedder=embedder, progress=progress)
    except CollectionBusy as busy:
        unread = count_unread_under(collection, paths)
        if not skip_if_busy:
            raise
        if unread and not documents_under(collection, paths):
            raise CollectionBusy(busy.message, f"{_names(paths)} cannot be read now. {busy.hint}") from busy
        log.warning("%s New documents are not indexed now; answers use what is indexed.", busy.message)
    else:
        if on_added:
            on_added(added)
    documents = documents_under(collection, paths)
    if not documents:
        raise unreadable_error(paths)
    return IndexedDocuments(collection, documents, embedder, added, unread)


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths))


def open_when_created(report: SettingsReport) -> IndexJob:
    """Open the collection to add to, as `open_for_adding`, also while another process is creating it."""
    for _ in range(OPEN_ATTEMPTS):
        existed = _exists(report.settings.collection)
        try:
            return open_for_adding(report)
        except CollectionBusy:
            time.sleep(PAUSE_SECONDS)
        except CollectionError:
            if existed or not _exists(report.settings.collection):
                raise
    raise CollectionError("Another process is creating this collection.", "Try again.")


def missing_paths_error(paths: Sequence[Path]) -> CorpusError | None:
    """Return the error that none of the paths exists; None if one does."""
    if any(map(os.path.exists, paths)):
        return None
    named = ", ".join(map(str, paths))
    if len(paths) > 1:
        return CorpusError(f"None of these exists: {named}.", "Check the paths.")
    if os.path.lexists(paths[0]):
        return CorpusError(f"{named} is a broken link.", "Name the file or folder itself.")
    return CorpusError(f"{named} does not exist.", "Check the path.")


def unreadable_error(paths: Sequence[Path]) -> CorpusError:
    """Return the error that nothing under the paths could be read."""
    from vrag.corpus.convert import CONVERTERS

    denied = [str(path) for path in paths if os.access(path, os.F_OK) and not os.access(path, os.R_OK)]
    if denied:
        hint = 'Allow vrag\'s user to read it, or run vrag as its owner (in a container: --user "$(id -u)").'
        return CorpusError(f"There is no permission to read {', '.join(denied)}.", hint)
    suffixes = ", ".join(sorted(suffix.lstrip(".") for suffix in CONVERTERS))
    return missing_paths_error(paths) or CorpusError(
        f"Nothing could be read in {', '.join(map(str, paths))}.", f"Supported: {suffixes}."
    )


def apply_sandbox(settings: Settings) -> None:
    """Have the processes that read files restricted as the settings say."""
    configure_sandbox(SandboxOptions(settings.sandbox, settings.parse_user))


def corpus_options(settings: Settings) -> CorpusOptions:
    """Return the conversion options from the settings, and apply the sandbox of the settings."""
    apply_sandbox(settings)
    return CorpusOptions(**{name: getattr(settings, name) for name in CORPUS_SETTINGS})


def open_for_adding(report: SettingsReport) -> IndexJob:
    """Open the collection to add to, or create it.

    A collection keeps the settings it was built with. A setting that was given and differs is an error that
    says what to do.

    Raises `CollectionError` if the collection cannot be opened or created and `EmbedError` if its embedder
    cannot be loaded.
    """
    settings = report.settings
    requested = corpus_options(settings)
    if not _exists(settings.collection):
        embedder = load_embedder(settings, settings.embedder) if settings.embedder else None
        return IndexJob(
            Collection.create(
                settings.collection,
                requested,
                embedder=embedder,
                wait=settings.wait,
                durable=settings.durable,
            ),
            requested,
            embedder,
        )
    collection = open_collection(settings.collection, wait=settings.wait, durable=settings.durable)
    chosen = {name: getattr(requested, name) for name in CORPUS_SETTINGS if report.origins[name] != "default"}
    embedder_record = collection.header.embedder
    if embedder_record is None and report.origins["embedder"] == "flag":
        collection.header.check_embedder(load_embedder(settings, settings.embedder))
    if embedder_record is None:
        for name, flag in EMBEDDER_FLAGS.items():
            if report.origins[name] == "flag":  # it would have no effect
                raise EmbedError(
                    f"The collection has no vectors, so {name} ({flag}) has no effect.",
                    "Leave it out, or create a collection with vectors: name another collection "
                    "(--collection) and an embedder (--embedder).",
                )
    elif embedder_record.imported:
        collection.header.check_embedder(None)  # says what to do, before a model is loaded
    elif any(report.origins[name] == "flag" for name in EMBEDDER_FLAGS):
        collection.header.check_embedder(open_marked(settings, embedder_record))  # also where no file is new
    embedder = embedder_of(settings, embedder_record) if embedder_record else None
    return IndexJob(collection, replace(collection.header.options, **chosen), embedder)


def open_ray(settings: Settings, embedder: Embedder | None) -> Producer:
    """Return the producer that creates items on a Ray cluster, with vectors if there is an embedder."""
    from vrag.index.remote.ray import RayOptions, by_ray

    options = RayOptions(
        address=settings.ray_address,
        embedders=settings.ray_embedders,
        gpus=settings.ray_gpus,
        items=settings.batch,
    )
    info = embedder.info if isinstance(embedder, DeferredEmbedder) else embedder
    opened = partial(open_marked, settings, EmbedderRecord.of(info)) if info else None
    return by_ray(options, opened, embedder)


def documents_under(collection: Collection, paths: Sequence[Path]) -> list[Document]:
    """Return the indexed documents under these files and folders that still exist on disk.

    A path at which nothing lies, and nothing lay, may be a name that `find_named` takes: as `vrag search`
    prints it, or the end of a path.

    Documents that were deleted from the disk stay in the collection until `prune`.
    """
    from vrag.index.shown_names import ShownNames

    served = [document for document in collection.documents() if document.status.served]
    names = ShownNames.of(collection)
    found = {document.path for path in paths for document in _find_under(path, served, names)}
    return [document for document in served if document.path in found]


def _find_under(path: Path, documents: Sequence[Document], names: ShownNames) -> list[Document]:
    from vrag.index.shown_names import absolute_paths, find_named, is_below

    folders = absolute_paths(path)
    below = [document for document in documents if any(is_below(folder, document) for folder in folders)]
    if below or os.path.lexists(path):
        return [document for document in below if os.path.lexists(document.path)]
    return find_named(os.fspath(path), documents, names)


def open_marked(settings: Settings, embedder_record: EmbedderInfo) -> Embedder:
    """Open the embedder that a collection records, from its recorded place or that of the settings.

    A server is used only if the user names it: a collection from somebody else must not decide where queries,
    pages and keys are sent.

    Raises `EmbedError` if it cannot be opened, or is a server that the settings do not name.
    """
    if not settings.embedder and is_embedding_server(embedder_record.name):
        name = complete_embedder(embedder_record.name)
        raise EmbedError(
            f"The collection was built with {name}, a server.",
            f"To send it queries and pages, set VRAG_EMBEDDER={name}",
        )
    try:
        return load_embedder(settings, settings.embedder or embedder_record.name, embedder_record.settings)
    except EmbedError as error:
        advice = "Set VRAG_EMBEDDER to the model's new place, or search by words alone: VRAG_RANKING=lexical."
        raise type(error)(error.message, f"{error.hint} {advice}".strip()) from error


def load_embedder(settings: Settings, spec: str, kept: Mapping[str, str | int] | None = None) -> Embedder:
    """Open an embedder by name, with the options of the settings.

    `kept` are the options that a collection records (`Embedder.settings`); None for a new one.

    Raises `EmbedError` if there is no embedder of that name, or it cannot be opened, and `SettingsError` if
    it is a server and its key is withheld: see `Settings.key`.
    """
    from vrag.embed.options import kept_settings
    from vrag.embed.registry import open_embedder

    embedder_options = kept_settings(kept or {})
    if settings.dtype != "auto":
        embedder_options["dtype"] = settings.dtype
    if kept is None or "visual_tokens" in settings.model_fields_set:
        embedder_options["visual_tokens"] = settings.visual_tokens
    if settings.embed_pixels:
        embedder_options["max_pixels"] = settings.embed_pixels
    if settings.embed_frames:
        embedder_options["frames"] = settings.embed_frames
    if settings.embed_document_instruction:
        embedder_options["document_instruction"] = settings.embed_document_instruction
    own_key = settings.embed_key.get_secret_value() or None
    return open_embedder(
        spec,
        device=settings.device,
        batch=settings.batch,
        query_instruction=settings.embed_query_instruction,
        api_key=settings.key("embed_key") if is_embedding_server(spec) else own_key,
        **embedder_options,
    )


def embedder_of(settings: Settings, embedder_record: EmbedderRecord) -> Embedder:
    """Return the embedder whose vectors a collection holds; it is opened when it is needed."""
    return DeferredEmbedder(embedder_record, partial(open_marked, settings, embedder_record))


def _exists(place: str) -> bool:
    return is_url(place) or is_collection(Path(place))
