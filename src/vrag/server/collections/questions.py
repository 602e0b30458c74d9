"""Suggested questions about the documents of a collection: made in the background, kept by content.

A thread makes the questions of one document after the other, while no file is being read, and only of
documents that somebody looks at. They lie in the cache of the collection, by the hash of the document, and
are made again when what suggests them has changed. What could not be made is tried again some time later.
No request waits for them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from pathlib import Path

from PIL.Image import Image
from pydantic import Field

from vrag.agent.suggestions import QuestionSuggester, ReaderSuggester
from vrag.atomic_io import write_file
from vrag.errors import VragError
from vrag.index.collection import Collection
from vrag.parsing import parse_json
from vrag.reading.answer import ReadPage
from vrag.server.collections.registry import FrozenInfo, OpenCollection
from vrag.storage.sealed_json import is_sealed, seal_json
from vrag.types import Document

log = logging.getLogger("vrag.server")
OF_DOCUMENT = 4
"""Questions about one document."""
MAX_SEEN = 200
"""Documents of a collection that are looked through, the newest ones."""
MAX_REQUESTED = 8
"""Documents whose questions one request has made."""
_PAUSE_SECONDS = 1.0
_RETRY_SECONDS = 600.0
"""Time after which questions that could not be made are tried again."""


class SuggestedQuestionInfo(FrozenInfo):
    """A question that a document answers."""

    text: str
    document: str = Field(description="Id of the document.")
    name: str = Field(description="Its file name.")


class SuggestedQuestions(FrozenInfo):
    """Questions about documents of a collection."""

    questions: list[SuggestedQuestionInfo]
    pending: bool = Field(description="Whether more are being made: ask again in some seconds.")


class QuestionMaker:
    """Makes questions in a thread of its own, which begins with the first request.

    `is_busy` tells whether files are being read: then it waits.
    """

    def __init__(self, is_busy: Callable[[], bool], suggester: QuestionSuggester | None = None) -> None:
        self._is_busy = is_busy
        self._suggester = suggester or ReaderSuggester()
        self._wake = threading.Condition()
        self._queue: deque[tuple[Collection, Document]] = deque()
        self._current: tuple[Collection, Document] | None = None
        """The document that questions are being made about; None also once its collection was deleted."""
        self._failed: dict[tuple[Collection, str], float] = {}
        """Times at which making questions failed, by collection and id of the document."""
        self._stopping = False
        self._thread: threading.Thread | None = None

    def questions(
        self, open_collection: OpenCollection, document: str | None, most: int
    ) -> SuggestedQuestions:
        """Return the questions about a document, or the newest ones of a collection, as far as they are made.

        Those that are missing are made next. Blocks.
        """
        collection = open_collection.collection
        served = {row.id: row for row in collection.documents() if row.status.served}
        rows = sorted(served.values(), key=lambda row: (-row.mtime_ns, row.path))
        if document is not None:
            rows = [row for row in rows if row.id == document]
        groups: list[list[SuggestedQuestionInfo]] = []
        missing: list[Document] = []
        for row in rows[:MAX_SEEN]:
            known = self._read(collection, row.id)
            if known is None and not self._has_failed(collection, row.id):
                missing.append(row)
            elif known:
                groups.append(
                    [SuggestedQuestionInfo(text=text, document=row.id, name=row.name) for text in known]
                )
            if len(groups) >= most or len(missing) >= MAX_REQUESTED:
                break
        self._request(collection, missing)
        return SuggestedQuestions(questions=list(_in_turn(groups))[:most], pending=bool(missing))

    def forget(self, collection: Collection) -> None:
        """Stop making questions about a collection that was deleted; write no more of them."""
        with self._wake:
            self._queue = deque(entry for entry in self._queue if entry[0] is not collection)
            self._failed = {key: at for key, at in self._failed.items() if key[0] is not collection}
            if self._current and self._current[0] is collection:
                self._current = None

    def stop(self) -> None:
        """Have the thread end after the document that it is at."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()

    def _request(self, collection: Collection, documents: list[Document]) -> None:
        with self._wake:
            if self._stopping or not documents:
                return
            at_work = [self._current] if self._current else []
            queued = {row.id for other, row in (*self._queue, *at_work) if other is collection}
            self._queue.extendleft((collection, row) for row in reversed(documents) if row.id not in queued)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="vrag-questions", daemon=True)
                self._thread.start()
            self._wake.notify_all()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._current = None
                while not self._stopping and (not self._queue or self._is_busy()):
                    self._wake.wait(_PAUSE_SECONDS if self._queue else None)
                if self._stopping:
                    return
                collection, document = self._current = self._queue.popleft()
            try:
                self._make(collection, document)
            except Exception:  # of the disk, of a model: it may be over some time later
                with self._wake:
                    if self._is_forgotten:
                        continue
                    self._failed[collection, document.id] = time.monotonic()
                log.warning("No questions could be made about %s.", document.name, exc_info=True)

    @property
    def _is_forgotten(self) -> bool:
        """True if the collection was deleted while questions are being made of it."""
        return self._current is None

    def _has_failed(self, collection: Collection, document: str) -> bool:
        """Return whether making questions failed a short time ago."""
        with self._wake:
            at = self._failed.get((collection, document))
        return at is not None and time.monotonic() - at < _RETRY_SECONDS

    def _make(self, collection: Collection, document: Document) -> None:
        collection.check_present()
        if self._read(collection, document.id) is not None:  # requested just before they were written
            return
        ids = collection.store.read_items(["id"], "document = ? ORDER BY ordinal", [document.id]).column("id")
        items = collection.items(ids)
        pages = [ReadPage(items[id], partial(_open_picture, collection, id)) for id in ids if id in items]
        self._write(collection, document.id, self._suggester.suggest(pages, OF_DOCUMENT))

    def _read(self, collection: Collection, document: str) -> tuple[str, ...] | None:
        """Return the questions about a document; None if they are not made yet."""
        try:
            data = _path(collection, document).read_bytes()
            kept = parse_json(data)
            if kept["by"] == self._suggester.name and is_sealed(data):
                return tuple(map(str, kept["questions"]))
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def _write(self, collection: Collection, document: str, questions: tuple[str, ...]) -> None:
        path = _path(collection, document)
        content = seal_json({"by": self._suggester.name, "questions": questions})
        with self._wake, suppress(OSError):  # it is a cache
            if self._is_forgotten:
                return
            for folder in (collection.cache_dir, path.parent):
                folder.mkdir(parents=collection.home is None, exist_ok=True)  # never the collection itself
            write_file(path, content)


def _path(collection: Collection, document: str) -> Path:
    return collection.cache_dir / "questions" / f"{document[:32]}.json"


def _open_picture(collection: Collection, id: str) -> Image | None:
    try:
        return collection.image(id)
    except VragError:
        return None


def _in_turn(groups: list[list[SuggestedQuestionInfo]]) -> Iterator[SuggestedQuestionInfo]:
    """Yield the first of each group, then the second ones."""
    for turn in zip_longest(*groups):
        yield from (question for question in turn if question is not None)
