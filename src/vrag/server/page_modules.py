"""A few scripts made of the page's ES modules, so that a browser asks for one file in place of sixty.

The modules are written for a browser: static imports and exports of names, no cycles. That is little enough
to be joined by a few rules, and a bundler would bring a build step, Node.js and a file that is not what
stands in the repository. Each module becomes a function that is called once, with the exports of those that
it imports, and returns its own:

    const $run$figures = (({ h, s }, { where }) => {
    …
    return { figure, thumb };
    })($dom, $run$wording);

So the names of a module stay its own, and modules run in the order in which a browser would run them: each
after those that it imports. An import has the value of that moment, which is right only while what it names
never changes: functions, classes and constants may be exported, `let` may not.

What a module imports when it is needed (`await import("./viewer/viewer.js")` or `() => import(…)`) becomes a
script of its own, with those modules that nothing else needs. It imports the others from the first script.
Whatever the rules do not know is refused, with the file, when the server starts.

Comments that stand on lines of their own are left out, a quarter of what is sent. A minifier would save two
percent more and needs a parser of JavaScript. The tests compare the syntax trees of all modules before and
after.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from vrag.errors import VragError

_COMMENT = r"/\*(?:[^*]|\*(?!/))*\*/"
_COMMENT_LINES = re.compile(rf"^[ \t]*(?:{_COMMENT}[ \t]*|//.*)\n", re.MULTILINE)
_CSS_COMMENT = re.compile(rf"[ \t]*{_COMMENT}")
_NAMES = r"\{(?P<names>[^{}]*)\}"
_STATEMENT = re.compile(
    rf'^(?:import {_NAMES} from "(?P<source>[^"]+)";'
    rf'|export {_NAMES.replace("names", "shared")}(?: from "(?P<origin>[^"]+)")?;'
    r"|export (?=(?:async )?(?:function\*?|class|const) (?P<own>[\w$]+))"
    r"|(?P<unknown>(?:import|export)\b.*))",
    re.MULTILINE,
)
"""A statement at the beginning of a line; `own` is a declaration that stays where it is."""
_LATER = re.compile(r'(?<=await )import\("([^"]+)"\)|(?<=\(\) => )import\("([^"]+)"\)')
"""An import that is made when it is needed. In a comment, as a type, it has neither of these before it."""
_NAME = re.compile(r"\s*([\w$]+)(?:\s+as\s+([\w$]+))?\s*")


class PageModuleError(VragError):
    """Modules of the page that cannot be joined."""


@dataclass(frozen=True, slots=True)
class _Module:
    """A module with its imports and exports taken out."""

    path: str
    body: str
    imports: tuple[tuple[str, Mapping[str, str]], ...]
    """For each import, the path of the module and its names, each with the name that it has here."""
    exports: Mapping[str, str]
    """The names that others import, each with the name that it has here."""
    later: tuple[str, ...]
    """The paths of modules that it imports when they are needed."""

    def joined(self) -> str:
        """Return the module as a constant; it uses those of the modules that it imports."""
        parameters = ", ".join(f"{{ {_pairs(names)} }}" for _, names in self.imports)
        arguments = ", ".join(_constant(path) for path, _ in self.imports)
        return (
            f"// {self.path}\nconst {_constant(self.path)} = (({parameters}) => {{\n"
            f"{self.body.strip()}\nreturn {{ {_pairs(self.exports)} }};\n}})({arguments});"
        )


def join_modules(folder: Path, entry: str) -> dict[str, str]:
    """Join a module of a folder and all that it imports, directly or not; return the scripts by their names.

    The first one has the name of the entry. Each module that is imported when it is needed has a further
    script, with the modules that it alone imports. Raises `PageModuleError` for a module that does not exist,
    a name that is not exported, a cycle, and imports and exports of other forms.
    """
    first: dict[str, _Module] = {}
    _load(folder, entry, first, ())
    reached = _reach_later(folder, first)
    needed = Counter(path for modules in reached.values() for path in modules if path not in first)
    for path in (path for path, count in needed.items() if count > 1):
        _load(folder, path, first, ())
    scripts: dict[str, str] = {}
    shared: set[str] = set()
    for later, modules in reached.items():
        if later in first:
            raise PageModuleError(f"{later} is imported when it is needed, and by other modules at once.")
        own = {path: module for path, module in modules.items() if path not in first}
        used = {path for module in own.values() for path, _ in module.imports if path not in own}
        head = f'import {{ {", ".join(map(_constant, sorted(used)))} }} from "./{entry}";\n' if used else ""
        tail = f"export const {{ {', '.join(modules[later].exports)} }} = {_constant(later)};\n"
        scripts[_script_name(later)] = head + _join(own) + tail
        shared |= used
    tail = f"export {{ {', '.join(map(_constant, sorted(shared)))} }};\n" if shared else ""
    return {entry: _join(first) + tail, **scripts}


def _join(modules: Mapping[str, _Module]) -> str:
    return "".join(f"{module.joined()}\n" for module in modules.values())


def _reach_later(folder: Path, first: Mapping[str, _Module]) -> dict[str, dict[str, _Module]]:
    """Return the modules that are imported when they are needed, each with itself and all that it imports."""
    reached: dict[str, dict[str, _Module]] = {}
    waiting = [path for module in first.values() for path in module.later]
    while waiting:
        later = waiting.pop(0)
        if later not in reached:
            reached[later] = {}
            _load(folder, later, reached[later], ())
            waiting += [path for module in reached[later].values() for path in module.later]
    return reached


def join_scripts(texts: list[str]) -> str:
    """Join scripts that are no modules."""
    return "".join(_COMMENT_LINES.sub("", text) for text in texts)


def join_styles(texts: list[str]) -> str:
    """Join style sheets, in their order."""
    return "".join(_CSS_COMMENT.sub("", text) for text in texts)


def _load(folder: Path, path: str, modules: dict[str, _Module], importers: tuple[str, ...]) -> None:
    """Add a module behind those that it imports."""
    if path in importers:
        raise PageModuleError(f"Modules import each other: {' → '.join([*importers, path])}.")
    if path in modules:
        return
    file = folder / path
    if ".." in PurePosixPath(path).parts or not file.is_file():
        raise PageModuleError(f"{importers[-1] if importers else 'The page'} imports {path}: no such file.")
    module = _parse(path, _COMMENT_LINES.sub("", file.read_text("utf-8")))
    for imported, names in module.imports:
        _load(folder, imported, modules, (*importers, path))
        for name in names:
            if name not in modules[imported].exports:
                raise PageModuleError(f"{path} imports {name} from {imported}, which does not export it.")
    modules[path] = module


def _parse(path: str, text: str) -> _Module:
    imports: list[tuple[str, Mapping[str, str]]] = []
    exports: dict[str, str] = {}

    def take(match: re.Match[str]) -> str:
        if match["unknown"] is not None:
            hint = "Import and export names: functions, classes and constants, one statement for each module."
            raise PageModuleError(f"{path}: {match['unknown'][:80]!r} cannot be joined.", hint)
        if match["own"] is not None:
            exports[match["own"]] = match["own"]
        elif match["source"] is not None:
            imports.append((_resolve(path, match["source"]), _aliases(path, match["names"])))
        else:
            shared = {new: name for name, new in _aliases(path, match["shared"]).items()}
            if match["origin"] is not None:
                origin = _resolve(path, match["origin"])
                imports.append((origin, {name: f"{_constant(origin)}_{name}" for name in shared.values()}))
                shared = {new: f"{_constant(origin)}_{name}" for new, name in shared.items()}
            exports.update(shared)
        return ""

    later: list[str] = []

    def take_later(match: re.Match[str]) -> str:
        later.append(_resolve(path, match[1] or match[2]))
        return f'import("./{_script_name(later[-1])}")'

    body = _LATER.sub(take_later, _STATEMENT.sub(take, text))
    return _Module(path, body, tuple(imports), exports, tuple(later))


def _aliases(path: str, names: str) -> dict[str, str]:
    """Read a list such as `a, b as c`: each name with its new one, `{"a": "a", "b": "c"}`."""
    aliases: dict[str, str] = {}
    for part in filter(str.strip, names.split(",")):
        match = _NAME.fullmatch(part)
        if match is None or "default" in match.groups():
            raise PageModuleError(f"{path}: {part.strip()!r} is not a name that can be imported or exported.")
        aliases[match[1]] = match[2] or match[1]
    return aliases


def _pairs(names: Mapping[str, str]) -> str:
    """Write names for destructuring or for an object; both have the key first."""
    return ", ".join(key if key == value else f"{key}: {value}" for key, value in names.items())


def _constant(path: str) -> str:
    """Name what a module exports, in the joined script."""
    return "$" + re.sub(r"[^\w$]", "_", path.removesuffix(".js").replace("/", "$"))


def _script_name(path: str) -> str:
    """Name the script that begins with a module: `viewer/viewer.js` is in `viewer-viewer.js`."""
    return path.replace("/", "-")


def _resolve(importer: str, source: str) -> str:
    """Return the path in the folder of what a module imports as `./name.js` or `../folder/name.js`."""
    if not source.startswith(("./", "../")):
        raise PageModuleError(f"{importer} imports {source!r}.", "Begin the path with ./ or ../")
    parts = list(PurePosixPath(importer).parent.parts)
    for part in PurePosixPath(source).parts:
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)
