"""What holds for the package as a whole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

import vrag
from tools import make_licences

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DATA_SUFFIXES = frozenset(
    ".bas .css .html .jinja .jpg .js .json .md .npz .pdf .py .svg .toml .txt .typed .woff2 .yaml".split()
)

HEAVY = (
    "torch",
    "transformers",
    "apsw",
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


@pytest.mark.slow
def test_importing_the_package_is_light() -> None:
    assert not fresh_modules("import vrag").intersection(HEAVY)


@pytest.mark.slow
def test_the_command_line_starts_without_models_or_index_engine() -> None:
    loaded = fresh_modules("import vrag.cli.root")
    assert not loaded.intersection({"torch", "transformers", "apsw", "pyarrow", "onnxruntime", "cv2"})


@pytest.mark.slow
def test_the_package_opens_no_connection_when_imported() -> None:
    code = (
        "import socket\n"
        "def refuse(*args): raise AssertionError('a connection')\n"
        "socket.socket.connect = refuse\n"
        "import vrag, vrag.factory, vrag.cli\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_onnxruntime_reports_nothing_about_its_use(tmp_path: Path) -> None:
    """Its telemetry would begin by writing an identifier of the device to the home folder."""
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", "import vrag, onnxruntime"]
    subprocess.run(command, check=True, env=environment)
    assert list(tmp_path.iterdir()) == []


def test_what_the_package_offers_exists() -> None:
    assert all(hasattr(vrag, name) for name in vrag.__all__)


@pytest.mark.slow
def test_what_is_installed_holds_none_of_the_references_names() -> None:
    """They are files of a clone: installed, `demo` or `scripts` would shadow packages of others."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    names = {"search_engine", "scripts", "demo"}

    assert all((ROOT / name).is_dir() for name in names)
    assert build["targets"]["wheel"] == {"packages": ["src/vrag"]}
    assert names.isdisjoint(build["targets"]["sdist"]["include"])
    assert {path.name for path in (ROOT / "src").iterdir() if path.is_dir()} == {"vrag"}


def is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def build(folder: Path) -> tuple[Path, Path]:
    """Build wheel and sdist of the checkout, as `make dist` does, in a process of its own."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1795753680"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def read_wheel(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


def read_sdist(path: Path) -> dict[str, bytes]:
    """The files of an sdist, by their paths in its folder."""
    with tarfile.open(path) as sdist:
        files = {member.name: sdist.extractfile(member) for member in sdist if member.isfile()}
        return {name.partition("/")[2]: file.read() for name, file in files.items() if file}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    pytest.importorskip("hatchling")
    return build(tmp_path_factory.mktemp("built"))


def source_files(folder: str) -> set[str]:
    """The files below a folder of the checkout that git has, or would have, by their paths from the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name for name in listed.split("\0") if name and (ROOT / name).is_file()}


@pytest.mark.smoke
@pytest.mark.slow
def test_the_wheel_has_the_package_with_its_data_and_nothing_else(
    built: tuple[Path, Path],
) -> None:
    names = set(read_wheel(built[0]))
    info = f"vrag_agent-{vrag.__version__}.dist-info"
    about = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "licenses/NOTICE"}

    assert names == {name.removeprefix("src/") for name in source_files("src/vrag")} | {
        f"{info}/{name}" for name in about
    }
    assert {Path(name).suffix for name in names if name.startswith("vrag/")} <= DATA_SUFFIXES
    assert {
        "vrag/py.typed",
        "vrag/server/static/index.html",
        "vrag/agent/prompts/vrag.md",
        "vrag/reading/weights/span.npz",
        "vrag/samples/corpus/annual-report-2024.pdf",
        "vrag/samples/README.md",  # the licences of the samples and their fonts
    } <= names


@pytest.mark.slow
def test_the_sdist_has_what_the_wheel_is_built_from_and_nothing_else(
    built: tuple[Path, Path],
) -> None:
    names = set(read_sdist(built[1]))
    about = {".gitignore", "CHANGELOG.md", "LICENSE", "NOTICE", "PKG-INFO", "README.md", "pyproject.toml"}

    assert names == source_files("src") | about


@pytest.mark.slow
def test_built_files_name_no_path_of_the_machine(built: tuple[Path, Path]) -> None:
    paths = [str(ROOT).encode(), str(Path.home()).encode() + b"/."]
    wheel, sdist = built
    files = read_wheel(wheel) | read_sdist(sdist)

    assert [name for name, content in files.items() if any(path in content for path in paths)] == []


@pytest.mark.slow
def test_two_builds_are_equal_byte_for_byte(built: tuple[Path, Path], tmp_path: Path) -> None:
    again = build(tmp_path)

    assert [path.read_bytes() for path in built] == [path.read_bytes() for path in again]


@pytest.mark.slow
def test_the_metadata_say_who_where_and_for_what(built: tuple[Path, Path]) -> None:
    text = read_wheel(built[0])[f"vrag_agent-{vrag.__version__}.dist-info/METADATA"].decode()
    found = message_from_string(text)
    urls = dict(line.split(", ", 1) for line in found.get_all("Project-URL") or [])
    relative = re.findall(r"\]\((?!https?://|#)[^)]*\)", text)

    assert (found["Version"], found["License-Expression"]) == (vrag.__version__, "Apache-2.0")
    assert (found["Author"], found["Maintainer"]) == ("The vrag authors", "The vrag authors")
    assert set(urls) == {"Changelog", "Documentation", "Homepage", "Issues", "Repository"}
    assert relative == []  # links of the README lead somewhere on a package index too


def test_versions_of_python_are_the_same_in_requirement_and_classifiers() -> None:
    classifiers = [line.rpartition(" :: ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]

    assert classifiers == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["requires-python"] == f">={classifiers[0]}"


def test_a_cap_of_a_dependency_has_its_reason_beside_it() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    capped = [line for line in lines if re.search(r'"[\w\[\].-]+[^"#;]*(,<|==)\d', line)]

    assert len(capped) >= 8
    assert [line for line in capped if "#" not in line] == []


def test_the_changelog_is_cut_into_releases_with_the_newest_first() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)", text, re.MULTILINE)
    releases = [re.fullmatch(r"(\d+\.\d+\.\d+) – (\d{4}-\d\d-\d\d)", heading) for heading in headings[1:]]
    found = [release.groups() for release in releases if release]

    assert headings[0] == "Unreleased"
    assert len(found) == len(headings) - 1
    assert found == sorted(found, key=lambda release: tuple(map(int, release[0].split("."))), reverse=True)
    assert found[0][0] == vrag.__version__


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND BSD-3-Clause", True),
        ("MIT AND GPL-3.0-only", False),
        ("(MIT OR Apache-2.0) AND GPL-3.0-only", False),
    ],
)
def test_a_licence_needs_a_reason_unless_one_alternative_is_allowed_whole(
    expression: str, allowed: bool
) -> None:
    assert make_licences.is_allowed(expression) == allowed


def test_every_locked_package_has_its_licence_in_the_page() -> None:
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    rows = dict(
        re.findall(r"^\| ([\w.\-]+) \| ([^|]+) \|", page.partition("## In the package")[0], re.MULTILINE)
    )
    del rows["package"]
    stated = tomllib.loads((ROOT / "tools" / "licences.toml").read_text(encoding="utf-8"))["stated"]
    installed = {
        name: stated.get(name) or make_licences.name_licence(name)
        for name in rows
        if name in stated or is_installed(name)
    }

    assert rows.keys() == frozenset[str]().union(
        *(group.packages for group in make_licences.licence_groups())
    )
    assert installed == {name: rows[name] for name in installed}


def test_a_licence_that_is_not_allowed_needs_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_licences.is_allowed("MIT OR GPL-3.0")
    assert make_licences.is_allowed("(Apache-2.0 AND MIT)")
    assert not make_licences.is_allowed("MIT AND GPL-3.0")

    def find_licences(*_: object) -> dict[str, str]:
        return {"some-package": "AGPL-3.0"}

    monkeypatch.setattr(make_licences, "find_licences", find_licences)

    with pytest.raises(LookupError, match=r"some-package is under AGPL-3\.0"):
        make_licences.render_page()
