"""The reference's scripts as commands of vrag, for the files of their names in a clone of the repository.

Each function prints a command and replaces its process by it. Arguments of the script are
passed on, so that an option given there outweighs one below. Folders that a script names are
those of the clone that the script lies in, whatever the current folder is.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from vrag.index.store import DATABASE
from vrag.samples import corpus_dir

CORPUS = Path("search_engine/corpus")
INDEX = "colqwen_ingestion"
"""Index folder of the reference's `ingestion.py` and `SearchEngine`."""
MODEL = "colqwen2"
PICTURES = frozenset({".jpg", ".jpeg", ".png"})


def convert_pdfs() -> NoReturn:
    """Write the pages of the PDF files in `corpus/pdf` as pictures, `<stem>_<page>.jpg`."""
    _exec_command("corpus", "convert", str(_corpus() / "pdf"), "--out", str(_images()))


def try_embedder() -> NoReturn:
    """Embed a picture and a text, and mark their matches; fails where the model cannot be loaded."""
    pictures = sorted(path for path in _images().glob("*") if path.suffix.lower() in PICTURES)
    picture = pictures[0] if pictures else corpus_dir() / "price-board.jpg"
    _exec_command("match", str(picture), "Hello, world!", "--embedder", MODEL)


def index_corpus() -> NoReturn:
    """Index the pictures of the corpus."""
    _exec_command("index", "add", str(_images()), "--collection", str(_corpus() / INDEX), "--embedder", MODEL)


def serve_search(model_path: str, corpus_path: Sequence[str]) -> NoReturn:
    """Serve search over indexes on port 8001.

    Args:
        model_path: The embedder: a folder, also relative to the clone, or a name. Empty for the one that the
            indexes were made with.
        corpus_path: Directories of indexes, relative to the clone, or their URLs. Empty for all collections
            in `search_engine/corpus`; where there is none, the sample documents are served.

    Raises:
        SystemExit: If a directory is not there.
    """
    corpus = _corpus()
    found: list[str] = []
    for name in corpus_path:
        directory = name if "://" in name else str(_clone() / name)
        if "://" not in name and not Path(directory).is_dir():
            raise SystemExit(f"{directory} is not a directory. Correct corpus_path in {sys.argv[0]}.")
        found.append(directory)
    found = found or [str(path.parent) for path in sorted(corpus.glob(f"*/{DATABASE}"))]
    if not found:
        print(f"There is no index in {corpus}: serving the sample documents.", file=sys.stderr)  # noqa: T201
        _exec_command("demo", "--only", "search")
    places = [word for directory in found for word in ("--collection", directory)]
    folder = _clone() / model_path
    embedder = ("--embedder", str(folder) if folder.is_dir() else model_path) if model_path else ()
    _exec_command("serve", "--only", "search", *places, *embedder)


def convert_dataset(
    file_list: Sequence[str], file_source_list: Sequence[str], output_name: str, split: str = "test"
) -> None:
    """Convert files of questions into one parquet, `data/<output_name>.parquet`.

    Args:
        file_list: Files in the dataset JSON.
        file_source_list: Origin of the rows of each file, for the parquet.
        output_name: Name of the parquet.
        split: Name of the split, for the parquet.

    Raises:
        SystemExit: With the status of the command, if it fails.
    """
    sources = [word for name in file_source_list for word in ("--data-source", name)]
    root = _clone()
    target = str(root / "data" / f"{output_name}.parquet")
    files = [str(root / name) for name in file_list]
    line = _shown("data", "convert", *files, target, *sources, "--split", split, "--overwrite")
    done = subprocess.run(line, check=False)  # noqa: S603 - this interpreter, without a shell
    if done.returncode:
        raise SystemExit(done.returncode)


def _images() -> Path:
    """Return the folder of the pictures: `image`, or `img`, as older versions of the reference have it.

    A clone comes with an empty `image`, so that one who made an `img` has their pictures there.
    """
    corpus = _corpus()
    newer, older = corpus / "image", corpus / "img"
    used = newer.is_dir() and any(not path.name.startswith(".") for path in newer.iterdir())
    return older if older.is_dir() and not used else newer


def _clone() -> Path:
    """Return the folder of the clone: the nearest above the running script with `search_engine`."""
    script = Path(os.path.abspath(sys.argv[0]))  # noqa: PTH100 - links stay links
    for folder in script.parents:
        if (folder / CORPUS.parent).is_dir():
            return folder
    raise SystemExit(f"There is no folder {CORPUS.parent} above {script}. Run the script in a clone.")


def _corpus() -> Path:
    corpus = _clone() / CORPUS
    if not corpus.is_dir():
        raise SystemExit(f"{corpus} is not a directory. Create it, or run the script in a clone that has it.")
    return corpus


def _exec_command(*command: str) -> NoReturn:
    line = _shown(*command, *sys.argv[1:])
    os.execv(line[0], line)  # noqa: S606 - likewise


def _shown(*command: str) -> list[str]:
    """Print a command; return it as this interpreter runs it."""
    print(f"Runs: vrag {shlex.join(command)}", file=sys.stderr, flush=True)  # noqa: T201
    return [sys.executable, "-m", "vrag", *command]
