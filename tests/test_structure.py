"""The shape of the source: folders, names and imports, as docs/architecture.md describes them."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

pytestmark = pytest.mark.slow  # `make check` runs them all
SOURCE = Path(__file__).parents[1] / "src" / "vrag"
FILES = sorted(SOURCE.rglob("*.py"))
SCRIPTS = sorted((SOURCE / "server" / "static" / "js").rglob("*.js"))
MAX_FILES, MAX_FILES_PER_FOLDER = 682, 15
BANNED_WORDS = frozenset(
    (
        "album aside chapter clerk complaint court courts crew deck desk desks edition errand errands "
        "gallery glance lesson memo plates roster scribe seat sheet shelf shelves story told twin "
        "twins workbench"
    ).split()
)
"""Metaphors that once named classes, functions and variables."""


CHARACTER_SET = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
UNSAFE_QUANTIFIER = re.compile(r"(?<!\\)(?:[*+?]|\d\}|,\})\+(?![,=])|\(\?>")
"""Possessive quantifiers and atomic groups of regular expressions, not the signs of a table of signs."""


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


def find_unsafe_quantifiers(tree: ast.Module) -> list[str]:
    """Strings of a module that imports `re` in which a possessive quantifier or an atomic group stands.

    Python 3.11.0 to 3.11.4 match them wrongly around groups (python/cpython#101955, #106052).
    """
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    if "re" not in imported:
        return []
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [
        text
        for text in texts
        if isinstance(text, str) and UNSAFE_QUANTIFIER.search(CHARACTER_SET.sub("x", text))
    ]


def find_file(module: str) -> Path:
    """The file of a module of the package."""
    path = SOURCE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def matches(module: str, name: str) -> bool:
    """True if a name is that of a module, or ends with a dot and begins as it does."""
    return module.startswith(name) if name.endswith(".") else module == name


def words(identifier: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", identifier)}


def read_named_imports(tree: ast.Module) -> set[str]:
    """The modules of the package that a module imports by name, with `import_module("…")`.

    A name that is put together counts as all modules that begin as it does: it ends with a dot.
    """
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    names = [call.args[0] for call in calls if ast.unparse(call.func).endswith("import_module")]
    parts = [name.values[0] if isinstance(name, ast.JoinedStr) else name for name in names]
    texts = {str(part.value) for part in parts if isinstance(part, ast.Constant)}
    return {text for text in texts if text.startswith("vrag.")}


def read_script_imports(path: Path) -> set[Path]:
    """The modules that a JavaScript module imports, at once or later; comments name types only."""
    source = re.sub(
        r"/\*.*?\*/|^\s*//.*$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    at_once = re.findall(r"""^\s*(?:import|export)\b[^;"']*?["'](\.[^"']+)["']""", source, re.MULTILINE)
    later = re.findall(r"""\bimport\(\s*["'](\.[^"']+)["']""", source)
    return {(path.parent / name).resolve() for name in (*at_once, *later)}


def name_script(path: Path) -> str:
    """A module of the page as messages name it."""
    return path.relative_to(SOURCE / "server" / "static" / "js").as_posix()


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


def test_no_regular_expression_needs_a_newer_patch_of_python() -> None:
    found = {str(path.relative_to(SOURCE)): find_unsafe_quantifiers(parse(path)) for path in FILES}

    assert {path: texts for path, texts in found.items() if texts} == {}


@pytest.mark.parametrize("pattern", ["(?:ab)*+", "[a-z]*+", "a++", "a{1,3}+", "(?>a)"])
def test_an_unsafe_quantifier_is_found(pattern: str) -> None:
    assert find_unsafe_quantifiers(ast.parse(f"import re\nre.compile(r'{pattern}')")) == [pattern]


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("vrag")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    for module in graph.modules:
        parsed = parse(find_file(module))
        for name in read_named_imports(parsed):
            imports[module] |= {other for other in graph.modules if matches(other, name)} - {module}
    imports["vrag"] = set()  # `vrag.open` imports the session when it is called

    cycle = find_cycle(imports)
    assert not cycle, " is imported by ".join(cycle)


def test_no_module_of_the_page_imports_itself_through_others() -> None:
    imports = {
        name_script(path): {name_script(other) for other in read_script_imports(path)} for path in SCRIPTS
    }

    assert sum(map(len, imports.values())) > len(SCRIPTS)
    cycle = find_cycle(imports)
    assert not cycle, " is imported by ".join(cycle)


def test_imports_by_name_and_imports_later_are_found(tmp_path: Path) -> None:
    script = tmp_path / "a.js"
    script.write_text(
        'import { b } from "./b.js";\nexport {\n  c,\n} from "./c.js";\n/** @type {import("./t.js").T} */\n'
        'const load = () => import("./d.js"); // import("./e.js") is a comment, "./f.js" a text\n'
    )
    named = ast.parse(
        'import_module("vrag.a"); importlib.import_module(f"vrag.b.{x}"); import_module("torch")'
    )

    assert {path.name for path in read_script_imports(script)} >= {"b.js", "c.js", "d.js"}
    assert {path.name for path in read_script_imports(script)} & {"t.js", "f.js"} == set()
    assert read_named_imports(named) == {"vrag.a", "vrag.b."}


@pytest.mark.parametrize("path", [path for path in FILES if path.name == "__init__.py"], ids=str)
def test_a_package_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(parse(path))


def test_a_cycle_is_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set[str](), "e": {"d"}}

    assert set(find_cycle(imports)) == {"a", "b", "c"}
    assert find_cycle({"a": {"b"}, "b": set[str]()}) == []
