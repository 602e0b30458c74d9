"""The shape of the source: folders, names and imports, as docs/architecture.md describes them."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

SOURCE = Path(__file__).parents[1] / "src" / "vrag"
FILES = sorted(SOURCE.rglob("*.py"))
MAX_FILES, MAX_FILES_PER_FOLDER = 545, 15
BANNED_WORDS = frozenset(
    (
        "album aside chapter clerk complaint court courts crew deck desk desks edition errand errands "
        "gallery glance lesson memo plates roster scribe seat sheet shelf shelves story told twin "
        "twins workbench"
    ).split()
)
"""Metaphors that once named classes, functions and variables."""


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def identifiers(tree: ast.Module) -> set[str]:
    """The names that a module defines: classes, functions, parameters, variables, attributes."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


def words(identifier: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", identifier)}


def find_cycle(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """A chain of modules that import each other; empty if there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_the_package_has_few_python_files() -> None:
    assert len(FILES) <= MAX_FILES


def test_a_folder_has_at_most_fifteen_python_files() -> None:
    counts = {folder: len(list(folder.glob("*.py"))) for folder in {path.parent for path in FILES}}

    assert {str(k): n for k, n in counts.items() if n > MAX_FILES_PER_FOLDER} == {}


def test_class_names_are_unique() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(SOURCE)))

    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_names_use_the_words_of_the_field() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path in FILES
        for name in sorted(identifiers(parse(path)) | {path.stem})
        if words(name) & BANNED_WORDS
    ]

    assert found == []


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("vrag")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    imports["vrag"] = set()  # `vrag.open` imports the session when it is called

    assert find_cycle(imports) == []


@pytest.mark.parametrize("path", [path for path in FILES if path.name == "__init__.py"], ids=str)
def test_a_package_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(parse(path))


def test_a_cycle_is_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set[str](), "e": {"d"}}

    assert set(find_cycle(imports)) == {"a", "b", "c"}
    assert find_cycle({"a": {"b"}, "b": set[str]()}) == []
