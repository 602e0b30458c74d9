"""Erasing: of what was removed, no byte is left in the folder.

Each case is a random history of a collection, or of recorded runs: adding, replacing and removing documents
that each have unique words, in texts and in pages of PDF files, with searches between them that make
caches; or recording and deleting runs. In the end, after `compact`, or after the last deletion of a run,
the words of what was removed are searched in every byte of every file, and in the names of files; and every
blob that is there has to be named by a row. Right after each removal, its blobs have to be gone.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
from contextlib import closing
from typing import TYPE_CHECKING, Any

from benchmarks.durability.faults import Fault
from benchmarks.durability.files import EMBEDDER, OPTIONS, WORDS, pdf, produce
from benchmarks.durability.processes import compute
from benchmarks.durability.recorded import SCRIPT, record_run, script_run
from vrag.agent.runs.run_store import RunStore
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.maintenance import compact, remove
from vrag.search.engine import Engine
from vrag.types import Query

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.durability.faults import Faults
    from benchmarks.durability.operations import Bench


class ErasingStudy:
    """Cases of histories, by number: even ones of documents, odd ones of runs."""

    def __init__(self, bench: Bench, faults: Faults, seed: int) -> None:
        faults.arm(Fault.NONE)
        self._bench, self._seed = bench, seed
        self._steps = compute(lambda: script_run(SCRIPT, "How many UNIQUEWORD?"))

    def case(self, number: int) -> dict[str, Any]:
        """Run a history."""
        self._bench.reset(None)
        chance = random.Random(f"{self._seed} {number}")
        documents = self._bench.scratch / "erased"
        shutil.rmtree(documents, ignore_errors=True)
        documents.mkdir()
        work = self._change_runs if number % 2 else self._change_documents
        counts, wrong = compute(lambda: work(chance, documents))
        return {"group": "runs" if number % 2 else "documents", "counts": counts, "wrong": wrong}

    def _change_documents(self, chance: random.Random, folder: Path) -> tuple[dict[str, int], list[str]]:
        directory = self._bench.collection
        words: dict[Path, list[str]] = {}
        erased: list[str] = []
        wrong: list[str] = []
        counts = {"steps": 0, "removed": 0, "words": 0}
        collection = Collection.create(directory, OPTIONS, embedder=EMBEDDER)
        for _ in range(chance.randint(4, 10)):
            counts["steps"] += 1
            removed = list["Path"]()
            for name in chance.sample(range(12), chance.randint(1, 5)):
                path = folder / f"{name}{'.pdf' if name % 3 == 0 else '.txt'}"
                erased += words.pop(path, [])
                if path.exists() and chance.random() < 0.5:
                    path.unlink()
                    removed.append(path)
                else:
                    words[path] = write_unique(path, chance)
            known = {document.path for document in collection.documents()}
            if targets := [path for path in removed if str(path) in known]:
                remove(collection, targets)
                counts["removed"] += len(targets)
                wrong += self._find_stray(collection)
            add(collection, [folder], embedder=EMBEDDER, producer=produce)
            if chance.random() < 0.5:
                Engine(collection, EMBEDDER).search([Query("revenue margin")], 5)
            if chance.random() < 0.3:
                collection.close()
                collection = Collection.open(directory)
        compact(collection)
        wrong += self._find_stray(collection)
        counts["words"] = len(erased)
        wrong += find_words(directory, erased)  # while it is open
        collection.close()
        wrong += [f"closed: {fault}" for fault in find_words(directory, erased)]
        kept = [word for those in words.values() for word in those]
        with closing(Collection.open(directory)) as collection:
            text = " ".join(collection.store.read_items(["text"]).column("text"))
        return counts, wrong + ["a word that was kept is lost."] * (not all(word in text for word in kept))

    def _find_stray(self, collection: Collection) -> list[str]:
        store = collection.store
        return ["a blob that no row names."] * bool(set(store.blobs.names()) - store.named_blobs())

    def _change_runs(self, chance: random.Random, _: Path) -> tuple[dict[str, int], list[str]]:
        directory = self._bench.disk / "runs"
        store = RunStore(directory)
        words: dict[str, str] = {}
        erased: list[str] = []
        wrong: list[str] = []
        counts = {"steps": 0, "removed": 0, "words": 0}
        for number in range(chance.randint(4, 14)):
            counts["steps"] += 1
            if words and chance.random() < 0.45:
                run = chance.choice(sorted(words))
                erased.append(words.pop(run))
                store.delete(run)
                counts["removed"] += 1
                wrong += find_words(directory, erased)
            else:
                run = f"20260101-0000{number:02}-000000-abcd"
                words[run] = word = unique(chance)
                steps = [
                    ({name: data.replace(b"UNIQUEWORD", word.encode()) for name, data in files.items()}, text)
                    for files, text in self._steps
                ]
                record_run(store, run, rename_files(steps, word), lambda _: None)
        counts["words"] = len(erased)
        names = set(store.files.blobs.names())
        named = {name.partition(".")[0] for run in words for name in store.file_names(run)}
        wrong += ["a blob that no run names."] * bool(names - named)
        return counts, wrong + ["a run that was kept is lost."] * (set(store.ids()) != set(words))


def rename_files(steps: list[tuple[dict[str, bytes], str]], word: str) -> list[tuple[dict[str, bytes], str]]:
    """Return the events of a run with another word in them, and files by their new hashes."""
    import hashlib

    names: dict[str, str] = {}
    found: list[tuple[dict[str, bytes], str]] = []
    for files, text in steps:
        renamed: dict[str, bytes] = {}
        for name, data in files.items():
            sha256, _, suffix = name.partition(".")
            names[sha256] = hashlib.sha256(data).hexdigest()
            renamed[f"{names[sha256]}.{suffix}"] = data
        changed = text.replace("UNIQUEWORD", word)
        for old, new in names.items():
            changed = changed.replace(old, new)
        found.append((renamed, changed))
    return found


def unique(chance: random.Random) -> str:
    """Return a word that is nowhere else."""
    return f"Zq{chance.getrandbits(64):016x}{secrets.token_hex(2)}"


def write_unique(path: Path, chance: random.Random) -> list[str]:
    """Write a document of random length with unique words; return these."""
    words = [unique(chance) for _ in range(chance.randint(1, 6))]
    passages = [[*chance.choices(WORDS[:-3], k=chance.randint(5, 400)), word] for word in words]
    if path.suffix == ".pdf":
        path.write_bytes(pdf([[" ".join(passage[-4:])] for passage in passages]))
    else:
        path.write_text("\n\n".join(map(" ".join, passages)), encoding="utf-8")
    os.utime(path, ns=(10**18, 10**18 + chance.randrange(10**9)))
    return words


def find_words(directory: Path, words: list[str]) -> list[str]:
    """Return the files in which one of the words is."""
    found: list[str] = []
    for path in sorted(directory.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        if any(word.encode() in data or word in path.name for word in words):
            found.append(f"an erased word is in {path.name if path.suffix else path.parent.name}.")
    return found
