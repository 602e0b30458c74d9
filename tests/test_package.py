"""What holds for the package as a whole."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import vrag

ROOT = Path(__file__).parents[1]

HEAVY = (
    "torch",
    "transformers",
    "lancedb",
    "pyarrow",
    "onnxruntime",
    "cv2",
    "PIL",
    "numpy",
    "httpx",
    "openai",
)


def fresh_modules(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_is_light() -> None:
    assert not fresh_modules("import vrag").intersection(HEAVY)


def test_the_command_line_starts_without_models_or_index_engine() -> None:
    loaded = fresh_modules("import vrag.cli.root")
    assert not loaded.intersection({"torch", "transformers", "lancedb", "pyarrow", "onnxruntime", "cv2"})


def test_the_package_opens_no_connection_when_imported() -> None:
    code = (
        "import socket\n"
        "def refuse(*args): raise AssertionError('a connection')\n"
        "socket.socket.connect = refuse\n"
        "import vrag, vrag.factory, vrag.cli\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_the_package_offers_exists() -> None:
    assert all(hasattr(vrag, name) for name in vrag.__all__)


def test_what_is_installed_holds_none_of_the_references_names() -> None:
    """They are files of a clone: installed, `demo` or `scripts` would shadow packages of others."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    names = {"search_engine", "scripts", "demo"}

    assert all((ROOT / name).is_dir() for name in names)
    assert build["targets"]["wheel"] == {"packages": ["src/vrag"]}
    assert names.isdisjoint(build["targets"]["sdist"]["include"])
    assert {path.name for path in (ROOT / "src").iterdir() if path.is_dir()} == {"vrag"}
