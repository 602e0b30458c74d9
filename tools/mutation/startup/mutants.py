"""Mutants of a package: places where code can be changed; a hook that changes it, or notes that it ran.

The hook is in every process whose environment has `PYTHON_MUTATION`, the folder of a study. The names of the
variables begin with `PYTHON` since vrag's workers inherit no others. Only the standard library is needed.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.abc
import importlib.machinery
import json
import marshal
import os
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import CodeType, ModuleType

STUDY, MUTANT, TEST = "PYTHON_MUTATION", "PYTHON_MUTATION_MUTANT", "PYTHON_MUTATION_TEST"
"""Variables: the folder of the study; the number of the mutant to apply; the test in progress."""
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
_OTHERS = ast.stmt | ast.excepthandler | ast.match_case | ast.JoinedStr
"""Nodes that do not belong to the statement that they are in: other statements, and texts."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the code, and the change that can be made there. Lines count from 1, columns from 0."""

    number: int
    module: str
    change: str
    span: tuple[int, int, int, int]
    """Line and column of the first character, and those after the last."""
    statement: tuple[int, int]
    """Line and column of the statement."""

    def __str__(self) -> str:
        return f"{self.module}:{self.span[0]} {self.change}"


def draw_sites(source: Path, count: int, seed: int) -> list[Site]:
    """Draw sites of the package below a folder: at random, of a statement at most one."""
    found = [
        site
        for path in sorted(source.rglob("*.py"))
        for site in find_sites(path.read_text(encoding="utf-8"), _name_module(path, source))
    ]
    random.Random(seed).shuffle(found)
    of_statements: dict[tuple[str, tuple[int, int]], Site] = {}
    for site in found:
        of_statements.setdefault((site.module, site.statement), site)
    return [replace(site, number=number) for number, site in enumerate([*of_statements.values()][:count])]


def _name_module(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_sites(text: str, module: str) -> list[Site]:
    """Find all sites of a module: in functions, and neither in types, texts nor what is raised."""
    return [
        Site(0, module, change, _span(node), (statement.lineno, statement.col_offset))
        for statement in _statements(ast.parse(text))
        if not isinstance(statement, ast.Raise)
        for node in _own_nodes(statement)
        if (change := _find_change(node))
    ]


def mutate(text: str, site: Site) -> ast.Module:
    """Apply the change of a site. Raises `ValueError` if the text has no such site."""
    tree, transformer = ast.parse(text), _Mutation(site)
    transformer.generic_visit(tree)
    if not transformer.applied:
        raise ValueError(f"{site} is not there")
    return ast.fix_missing_locations(tree)


def mark(text: str, sites: Sequence[Site]) -> ast.Module:
    """Have the statements of sites call `__note_site__` with the number of the site before they run."""
    tree = ast.parse(text)
    _Marks(sites).generic_visit(tree)
    return ast.fix_missing_locations(tree)


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield every statement inside of a function once, but for definitions."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for function in functions:
        waiting = [*function.body]
        while waiting:
            statement = waiting.pop()
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            yield statement
            waiting += [node for node in ast.iter_child_nodes(statement) if isinstance(node, ast.stmt)]
            for node in ast.iter_child_nodes(statement):
                if isinstance(node, ast.ExceptHandler | ast.match_case):
                    waiting += node.body


def _own_nodes(statement: ast.stmt) -> Iterator[ast.stmt | ast.expr]:
    """Yield the nodes of a statement, without those of the statements inside of it."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt | ast.expr):
            yield node
        type_ = getattr(node, "annotation", None)
        inner = [each for each in ast.iter_child_nodes(node) if each is not type_]
        waiting += [each for each in inner if not isinstance(each, _OTHERS)]


def _find_change(node: ast.AST) -> str:  # noqa: PLR0911 - one for each kind
    """Name the change that can be made to a node; empty if there is none."""
    match node:
        case ast.Compare(ops=[first, *_]) if type(first) in _COMPARISONS:
            return "comparison"
        case ast.BoolOp():
            return "and/or"
        case ast.UnaryOp(op=ast.Not()):
            return "not"
        case ast.BinOp() if type(node.op) in _ARITHMETIC and not _is_text(node.left) | _is_text(node.right):
            return "arithmetic"
        case ast.Constant(value=bool() | int() | float()):
            return "constant"
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            return "returns None"
        case ast.If() | ast.IfExp() | ast.While():
            return "condition"
        case ast.Expr(value=ast.Call() | ast.Await()):
            return "call left out"
        case ast.Break() | ast.Continue():
            return "break/continue"
        case _:
            return ""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _change(node: ast.AST) -> ast.AST:  # noqa: C901 - as many kinds
    """Make the change that `_find_change` names."""
    match node:
        case ast.Compare():
            node.ops[0] = _COMPARISONS[type(node.ops[0])]()
        case ast.BoolOp():
            node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        case ast.UnaryOp():
            return node.operand
        case ast.BinOp():
            node.op = _ARITHMETIC[type(node.op)]()
        case ast.Constant(value=bool() as value):
            node.value = not value
        case ast.Constant(value=int() | float() as value):
            node.value = value + 1
        case ast.Return():
            node.value = ast.Constant(None)
        case ast.If() | ast.IfExp() | ast.While():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.Break():
            return ast.copy_location(ast.Continue(), node)
        case ast.Continue():
            return ast.copy_location(ast.Break(), node)
        case _:
            return ast.copy_location(ast.Pass(), node)
    return node


def _span(node: ast.stmt | ast.expr) -> tuple[int, int, int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


class _Mutation(ast.NodeTransformer):
    """Changes the node of a site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.applied = False

    def visit(self, node: ast.AST) -> ast.AST:
        """Change a node that is the site's, and visit what is inside of it."""
        is_site = (
            isinstance(node, ast.stmt | ast.expr)
            and _span(node) == self._site.span
            and _find_change(node) == self._site.change
        )
        node = self.generic_visit(node)
        if not is_site:
            return node
        self.applied = True
        return _change(node)


class _Marks(ast.NodeTransformer):
    """Puts a call before the statements of sites."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self._numbers: dict[tuple[int, int], list[int]] = defaultdict(list)
        for site in sites:
            self._numbers[site.statement].append(site.number)

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        """Put the calls before a statement."""
        node = self.generic_visit(node)
        if not isinstance(node, ast.stmt):
            return node
        calls: list[ast.AST] = []
        for number in self._numbers.get((node.lineno, node.col_offset), ()):
            call = ast.Call(ast.Name("__note_site__", ast.Load()), [ast.Constant(number)], [])
            calls.append(ast.copy_location(ast.Expr(call), node))
        return [*calls, node] if calls else node


def write_sites(study: Path, sites: Sequence[Site]) -> None:
    """Write the sites of a study into its folder."""
    (study / "sites.json").write_text(json.dumps([asdict(site) for site in sites]), encoding="utf-8")


def read_sites(study: Path) -> list[Site]:
    """Read the sites of a study."""
    rows = json.loads((study / "sites.json").read_text(encoding="utf-8"))
    return [Site(**row | {key: tuple(row[key]) for key in ("span", "statement")}) for row in rows]


def install() -> None:
    """Install the hook in this process, as its environment says."""
    study, mutant = Path(os.environ[STUDY]), os.environ.get(MUTANT)
    sites = [site for site in read_sites(study) if mutant is None or site.number == int(mutant)]
    by_module: dict[str, list[Site]] = defaultdict(list)
    for site in sites:
        by_module[site.module].append(site)
    if mutant is None:
        import builtins

        setattr(builtins, "__note_site__", _Notes(study).note)  # noqa: B010 - no module declares it
    sys.meta_path.insert(0, _Finder(study, by_module, is_mutant=mutant is not None))


class _Notes:
    """The file in which this process notes once for each test which sites ran."""

    def __init__(self, study: Path) -> None:
        # Opened now: a worker may open nothing once it has restricted itself.
        self._file = os.open(study / "hits" / str(os.getpid()), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._noted: set[tuple[int, str]] = set()

    def note(self, number: int) -> None:
        """Note that a site runs."""
        hit = number, os.environ.get(TEST, "")
        if hit not in self._noted:
            self._noted.add(hit)
            with suppress(OSError):
                os.write(self._file, f"{number}\t{hit[1]}\n".encode())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of sites, for `_Loader`."""

    def __init__(self, study: Path, sites: dict[str, list[Site]], *, is_mutant: bool) -> None:
        self._study, self._sites, self._is_mutant = study, sites, is_mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module as Python would, and have it loaded with its marks or its change."""
        if fullname not in self._sites:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            loader = _Loader(spec.loader.name, spec.loader.path)
            loader.study, loader.sites, loader.is_mutant = self._study, self._sites[fullname], self._is_mutant
            spec.loader = loader
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module with marks or a change; keeps the code for later processes."""

    study: Path
    sites: list[Site]
    is_mutant: bool

    def get_code(self, fullname: str) -> CodeType:
        """Compile the module, or load what another process has compiled."""
        path = self.get_filename(fullname)
        data = self.get_data(path)
        key = f"{sys.version} {self.is_mutant} {self.sites}".encode() + data
        cached = self.study / "code" / hashlib.sha256(key).hexdigest()
        with suppress(OSError, ValueError, EOFError):
            return marshal.loads(cached.read_bytes())
        text = data.decode()
        tree = mutate(text, self.sites[0]) if self.is_mutant else mark(text, self.sites)
        code = compile(tree, path, "exec", dont_inherit=True)
        with suppress(OSError):
            (temporary := cached.with_suffix(f".{os.getpid()}")).write_bytes(marshal.dumps(code))
            temporary.replace(cached)
        return code
