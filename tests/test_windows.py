"""The package where the rules of Windows hold: `windows/sitecustomize.py` applies them on Linux."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RULES = Path(__file__).parent / "windows"
ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the rules are applied on Linux")


def run(program: str, *arguments: object, **variables: str) -> Any:  # noqa: ANN401 - JSON
    """Run a program under the rules; return the JSON value that it prints at its end."""
    paths = os.pathsep.join((str(RULES), str(ROOT / "src"), str(ROOT / "tests")))
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": paths} | variables,
        capture_output=True,
        encoding="utf-8",
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


REFUSED = """
import json, os, pathlib, shutil, sys
import numpy as np

home = pathlib.Path(sys.argv[1])
for name in ("open", "mapped", "free", "locked"):
    (home / name).write_bytes(b"0123")
(home / "folder").mkdir()
(home / "folder" / "file").write_bytes(b"0")
(home / "locked").chmod(0o444)
held, inside = (home / "open").open("rb"), (home / "folder" / "file").open("rb")
mapped = np.memmap(home / "mapped", np.uint8, "r")

def fsync_of_reader():
    with (home / "free").open("rb") as file:
        os.fsync(file.fileno())

attempts = {
    "delete open": lambda: (home / "open").unlink(),
    "delete mapped": lambda: (home / "mapped").unlink(),
    "delete read-only": lambda: (home / "locked").unlink(),
    "replace open": lambda: (home / "free").replace(home / "open"),
    "rename to a name that exists": lambda: (home / "free").rename(home / "open"),
    "rename a folder with an open file": lambda: (home / "folder").rename(home / "other"),
    "open a folder": lambda: os.open(home, os.O_RDONLY),
    "name a device": lambda: (home / "aux.txt").write_text(""),
    "name with a colon": lambda: (home / "a:b").mkdir(),
    "link": lambda: (home / "link").symlink_to(home / "free"),
    "write to the disk what is only read": fsync_of_reader,
}
refused = {}
for name, attempt in attempts.items():
    try:
        attempt()
    except OSError as error:
        refused[name] = type(error).__name__
held.close()
inside.close()
del mapped
for name in ("open", "mapped"):
    (home / name).unlink()
(home / "folder").rename(home / "other")
shutil.rmtree(home / "other")
(home / "free").replace(home / "new")
print(json.dumps([refused, sorted(attempts.keys() - refused.keys()), sorted(os.listdir(home))]))
"""


def test_the_rules_refuse_what_windows_refuses_and_nothing_else(tmp_path: Path) -> None:
    refused, passed, left = run(REFUSED, tmp_path)
    assert passed == []
    assert refused["delete mapped"] == "PermissionError"
    assert refused["rename to a name that exists"] == "FileExistsError"
    assert left == ["locked", "new"]


IMPORTED = """
import importlib, json, pkgutil, sys
import vrag

failed = {}
for module in pkgutil.walk_packages(vrag.__path__, "vrag."):
    if module.name.startswith("vrag.rl.trainers.verl") or module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except Exception as error:
        failed[module.name] = f"{type(error).__name__}: {error}"
from vrag import atomic_io
print(json.dumps([failed, atomic_io.os.name, hasattr(atomic_io.os, "fork"), atomic_io.sys.platform]))
"""


def test_every_module_is_imported_without_modules_and_functions_of_posix() -> None:
    assert run(IMPORTED) == [{}, "nt", False, "win32"]


USED = """
import json, shutil, sys
from pathlib import Path

import vrag
from vrag.factory.collection_registry import CollectionRegistry
from vrag.settings import Settings

home = Path(sys.argv[1])
session = vrag.open(home / "docs", collection=home / "collection")
answers = [session.ask("What is the single fare for a kayak?").answer]
run = session.runs.ids()[0]
session.runs.change_meta(run, title="Fares")
(home / "docs" / "islands.md").write_text("# Islands\\n\\nThe lighthouse of Vardo was built in 1903.\\n")
session.add(home / "docs")
answers.append(session.ask("When was the lighthouse of Vardo built?").answer)
session.runs.delete(run)
shelf = CollectionRegistry.open(Settings(collection=str(home / "collection"), workers=1))
shelf.create("notes")
shelf.drop("notes")
print(json.dumps({
    "answers": answers,
    "runs": len(session.runs.ids()),
    "caches": sorted({path.name.split("-")[0] for path in (home / "collection" / "cache").iterdir()}),
    "unfinished": [str(path) for path in home.rglob("*-new-*")],
    "collections": sorted(path.name for path in home.iterdir()),
}))
"""


def test_a_folder_is_indexed_asked_and_changed_while_files_are_open(tmp_path: Path) -> None:
    """Workers convert it, caches are mapped, runs and collections are deleted, under the rules of Windows."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "ferries.md").write_text("# Ferries\n\nThe single fare for a kayak is 12 crowns.\n")
    used = run(USED, tmp_path, OMP_NUM_THREADS="1")
    assert "12 crowns" in used["answers"][0]
    assert "1903" in used["answers"][1]
    assert used == {
        "answers": used["answers"],
        "runs": 1,
        "caches": ["lexical", "table"],
        "unfinished": [],
        "collections": ["collection", "docs"],
    }
