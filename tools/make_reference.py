"""Writes the pages of the reference that follow from the program: `python tools/make_reference.py`.

The commands (docs/reference/cli.md) and the HTTP interface (docs/reference/http.md) are whole pages; the
settings are a part of docs/settings.md. A test fails when a page differs from what this program would
write.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from textwrap import dedent
from typing import Any

from typer.main import get_command

from vrag.cli.root import create_app as create_command_line
from vrag.cli.terminal.help import HELP_ALL
from vrag.doctor.inspector import DoctorInspector
from vrag.factory.collection_registry import CollectionRegistry
from vrag.factory.indexing import open_for_adding
from vrag.factory.server import Agents, model_servers
from vrag.server.api_reference import DescribedField, DescribedRoute, Reference, SchemaType
from vrag.server.app import Service
from vrag.server.app import create_app as create_server
from vrag.server.options import ServerOptions
from vrag.server.setup.routes import ModelSetup
from vrag.settings import Settings, load_settings

DOCS = Path(__file__).parents[1] / "docs"
COMMANDS, HTTP, SETTINGS = DOCS / "reference" / "cli.md", DOCS / "reference" / "http.md", DOCS / "settings.md"
GENERATED = "<!-- Written by tools/make_reference.py: change the program, then run `make reference`. -->"
END = "<!-- End of what tools/make_reference.py writes. -->"
COMMANDS_INTRODUCTION = """\
Every command has `--help` (`-h`). Where that lists the common options only, `--help-all` lists all of them.
`vrag --version` prints the version. The variables that are named as defaults are
[settings](../settings.md): they can also stand in a settings file.

"""
HTTP_INTRODUCTION = """\
The routes of `vrag serve`, as its OpenAPI document (`/openapi.json`) describes them; the server itself shows
them at `/docs`. [The service](../service.md), [collections](../collections.md), [protocols](../protocols.md)
and [search](../serving.md) explain what they do.

In the examples, `ADDRESS` is the address of the server, such as `http://127.0.0.1:8000`, and `VRAG_API_KEY`
its token; a server without a token needs no `Authorization`.

An error has the fields of [ProblemDetails](#problemdetails). The statuses of errors:

"""
SETTING_GROUPS = {
    "collection": "Collections",
    "embedder": "Embedding",
    "ranking": "Search and reading",
    "dpi": "Files",
    "qdrant": "More than one machine",
    "sources": "Pictures, clips and processes",
    "agent": "Agent and model",
    "temperature": "Replies of the model",
    "connect_seconds": "Calls to the model server",
    "price_prompt": "Prices",
    "max_steps": "Limits of a run",
    "hits": "What the agent is shown",
    "memory_tokens": "VimRAG",
    "reselect": "Answers",
    "actions": "Extensions",
    "keep_runs": "Records of a server",
    "search_url": "Search server",
    "judge_model": "Judge of answers",
}
"""Headings of the settings, each by the first that stands under it."""
ENTRY_KINDS = {"Path": "PATH", "int": "NUMBER", "float": "NUMBER", "str": "TEXT"}
"""Words for what an option takes, by the name of its type."""


def main() -> None:
    """Write the pages, and name those that changed."""
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(DOCS.parent))


def pages() -> dict[Path, str]:
    """The pages as they should be."""
    return {
        COMMANDS: command_page(),
        HTTP: http_page(openapi_document()),
        SETTINGS: settings_page(SETTINGS.read_text(encoding="utf-8")),
    }


# Commands


def command_page() -> str:
    """The page of all commands."""
    root: Any = get_command(create_command_line())
    lines = ["# Commands", "", GENERATED, ""]
    lines += COMMANDS_INTRODUCTION.splitlines()
    for name, command in root.commands.items():
        lines += list(describe_command(f"vrag {name}", command, 2))
    return "\n".join(lines).rstrip() + "\n"


def describe_command(name: str, command: Any, level: int) -> Iterator[str]:  # noqa: ANN401 - Typer's own classes
    """Yield the lines of a command, or of a group and its commands."""
    yield from (f"{'#' * level} {name}", "")
    paragraphs, examples = split_help(command.help or "")
    yield from (line for paragraph in paragraphs for line in (paragraph, ""))
    if hasattr(command, "commands"):
        for inner_name, inner in command.commands.items():
            yield from describe_command(f"{name} {inner_name}", inner, min(level + 1, 3))
        return
    arguments = [parameter for parameter in command.params if type(parameter).__name__ == "TyperArgument"]
    usage = " ".join([name, "[OPTIONS]", *(argument_name(parameter) for parameter in arguments)])
    yield from ("```text", usage, "```", "")
    if examples:
        yield from ("Examples:" if len(examples) > 1 else "Example:", "", "```sh", *examples, "```", "")
    if arguments:
        rows = [(f"`{argument_name(parameter)}`", describe(parameter)) for parameter in arguments]
        yield from table(("Argument", "Meaning"), rows)
    options = [
        parameter
        for parameter in command.params
        if parameter not in arguments and not parameter.hidden and parameter.name not in {"help", HELP_ALL}
    ]
    for panel in dict.fromkeys(parameter.rich_help_panel for parameter in options):
        of_panel = [parameter for parameter in options if parameter.rich_help_panel == panel]
        rows = [(option_names(parameter), describe(parameter), default(parameter)) for parameter in of_panel]
        yield from table((panel or "Option", "Meaning", "Default"), rows)


def argument_name(argument: Any) -> str:  # noqa: ANN401
    """An argument as it stands in the line of usage; brackets say that it can be left out."""
    name: str = argument.metavar or argument.name.upper()
    name += "" if argument.metavar or argument.nargs == 1 else "..."
    return name if argument.required or name.startswith("[") else f"[{name}]"


def split_help(text: str) -> tuple[list[str], list[str]]:
    """Paragraphs of a help text as Markdown, and the examples in it, a command each."""
    paragraphs: list[str] = []
    examples: list[str] = []
    for paragraph in text.replace("\\[", "[").split("\n\n"):  # a backslash keeps Rich from reading markup
        example = re.fullmatch(r"Example: (vrag [^;]+)(; then.*)?", paragraph, re.DOTALL)
        if example and not example[2]:
            examples.append(example[1])
        elif paragraph.startswith("  vrag "):
            examples.append(paragraph.strip())
        elif paragraph not in {"Example:", "Examples:"}:
            paragraphs.append(
                f"```text\n{dedent(paragraph)}\n```" if paragraph.startswith("  ") else prose(paragraph)
            )
    return paragraphs, examples


def option_names(option: Any) -> str:  # noqa: ANN401
    """The names of an option, with what it takes."""
    names = [*option.opts, *option.secondary_opts]
    annotation = option.type_descriptor.annotation
    kind = getattr(annotation, "__args__", (annotation,))[0]
    if isinstance(kind, type) and issubclass(kind, Enum):
        entry = "|".join(str(member.value) for member in kind)
    else:
        entry = "" if option.is_flag else option.metavar or ENTRY_KINDS.get(kind.__name__, "TEXT")
    return ", ".join(
        f"`{name} {entry}`" if entry and name.startswith("--") else f"`{name}`" for name in names
    )


def describe(parameter: Any) -> str:  # noqa: ANN401
    """The help of an option or argument, with its range."""
    least, most, text = parameter.min, parameter.max, prose(parameter.help or "")
    if least is None and most is None:
        return text
    limits = (
        f"at least {least:,}"
        if most is None
        else f"at most {most:,}"
        if least is None
        else f"{least:,} to {most:,}"
    )
    return f"{text} {limits.capitalize()}."


def default(option: Any) -> str:  # noqa: ANN401
    """What holds without an option: variables in the order in which they are looked at, then a value."""
    if isinstance(option.show_default, str):
        shown = prose(option.show_default)
    else:
        value = option.default.value if isinstance(option.default, Enum) else option.default
        shown = "" if value in (None, [], ()) or value is False else "on" if value is True else f"`{value}`"
    if option.required:
        shown = "required"
    variables = [f"`{option.envvar}`"] if option.envvar else []
    return ", ".join([*variables, shown] if shown else variables)


# Settings


def settings_page(page: str) -> str:
    """The page of the settings, with the settings as they should be between the two comments."""
    before, _, rest = page.partition(GENERATED)
    _, _, after = rest.partition(END)
    if not after:
        sys.exit(f"{SETTINGS} needs the two comments between which the settings stand:\n{GENERATED}\n{END}")
    return "\n".join([before + GENERATED, "", *describe_settings(), END + after])


def describe_settings() -> Iterator[str]:
    """Yield the lines of the settings, by groups."""
    options = options_of_settings()
    schemas = Settings.model_json_schema()["properties"]
    names = list(schemas)
    starts = [*(names.index(name) for name in SETTING_GROUPS), len(names)]
    for title, start, end in zip(SETTING_GROUPS.values(), starts[:-1], starts[1:], strict=True):
        yield from (f"### {title}", "")
        for name in names[start:end]:
            facts = [f"`VRAG_{name.upper()}`", *(f"`{option}`" for option in options.get(name, ()))]
            facts += [describe_values(schemas[name]), describe_default(schemas[name])]
            yield from (f"#### `{name}`", "", prose(schemas[name]["description"]), "", " · ".join(facts), "")


def options_of_settings() -> dict[str, list[str]]:
    """The options of the commands that set a setting, by its name."""
    found: dict[str, dict[str, None]] = {}
    commands: list[Any] = [get_command(create_command_line())]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        for option in command.params:
            text = option.show_default if isinstance(option.show_default, str) else ""
            variable = re.match(r"VRAG_([A-Z_]+)", text)
            if variable and option.opts[0].startswith("--"):
                found.setdefault(variable[1].lower(), {})[option.opts[0]] = None
    return {name: list(options) for name, options in found.items()}


def describe_values(schema: dict[str, Any]) -> str:
    """The values that a setting may have, in words."""
    schema = next((part for part in schema.get("anyOf", ()) if part["type"] != "null"), schema)
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "array":
        return "list of texts"
    if schema["type"] in {"integer", "number"}:
        kind = {"integer": "whole number", "number": "number"}[schema["type"]]
        least = schema.get("minimum", schema.get("exclusiveMinimum"))
        most = schema.get("maximum")
        above = "above" if "exclusiveMinimum" in schema else "at least"
        if least is None:
            return kind
        return f"{kind}, {above} {least:,}" if most is None else f"{kind}, {least:,} to {most:,}"
    return {"boolean": "true or false", "string": "secret text" if "format" in schema else "text"}[
        schema["type"]
    ]


def describe_default(schema: dict[str, Any]) -> str:
    """The default of a setting; the collection's depends on the machine."""
    if "default" not in schema:
        return "default: in the user's data folder"
    value = schema["default"]
    if isinstance(value, bool):
        return f"default: {str(value).lower()}"
    return "no default" if value in ("", None, []) else f"default: `{value}`"


# HTTP


def openapi_document() -> dict[str, Any]:
    """The OpenAPI document of a server with all of its parts."""
    with tempfile.TemporaryDirectory() as folder:
        report = load_settings(collection=Path(folder) / "collection")
        open_for_adding(report)
        settings = report.settings
        registry = CollectionRegistry.open(settings)
        setup = ModelSetup(model_servers(settings), DoctorInspector(settings))
        service = Service(Agents(settings, registry), registry, setup=setup)
        options = ServerOptions(token="of-no-use")
        return create_server(registry, options, service=service).openapi()


def http_page(document: dict[str, Any]) -> str:
    """The page of the HTTP interface that an OpenAPI document describes."""
    reference = Reference(document)
    lines = ["# HTTP interface", "", GENERATED, ""]
    lines += HTTP_INTRODUCTION.splitlines()
    errors = error_statuses(document)
    lines += table(("Status", "Meaning"), sorted(errors.items()))
    for title, routes in reference.groups().items():
        lines += [f"## {title}", ""]
        for route in routes:
            lines += describe_route(route, errors)
    lines += ["## Objects", ""]
    for schema in reference.schemas():
        lines += [f"### {schema.name}", ""]
        if text := inline(schema.description):
            lines += [text, ""]
        if schema.fields:
            lines += table(("Field", "Type", "Meaning"), map(field_row, schema.fields))
        else:
            lines += [f"{type_text(schema.type)}", ""]
    return "\n".join(lines).rstrip() + "\n"


def error_statuses(document: dict[str, Any]) -> dict[str, str]:
    """The statuses of errors of any route, with what each means where nothing else is said."""
    found: dict[str, Counter[str]] = {}
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                if status >= "400":
                    found.setdefault(status, Counter())[response["description"]] += 1
    return {status: meanings.most_common(1)[0][0] for status, meanings in found.items()}


def describe_route(route: DescribedRoute, errors: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a route; errors of the usual meaning stand at the top of the page only."""
    yield from (
        f"### {route.method} {route.path}",
        "",
        f"**{route.summary}.** {inline(route.description)}",
        "",
    )
    if route.public:
        yield from ("Needs no token.", "")
    elif route.role:
        yield from (f"Role: `{route.role}`.", "")
    yield from ("```sh", route.curl, "```", "")
    if route.parameters:
        rows = [
            (name, parameter.place, kind, text)
            for parameter in route.parameters
            for name, kind, text in [field_row(parameter)]
        ]
        yield from table(("Parameter", "In", "Type", "Meaning"), rows)
    if route.body_fields:
        yield from table(("Field of the body", "Type", "Meaning"), map(field_row, route.body_fields))
    elif body := type_text(route.body):
        yield from (f"The body is {body}.", "")
    rows = [
        (response.status, response.description, type_text(response.type) or ", ".join(response.media_types))
        for response in route.responses
        if errors.get(response.status) != response.description
    ]
    yield from table(("Status", "Meaning", "Content"), rows)


def field_row(field: DescribedField) -> tuple[str, str, str]:
    """Name, type and meaning of a parameter or field."""
    notes = ["Required."] if field.required else []
    notes += [f"Default: `{field.default}`."] if field.default else []
    meaning = " ".join(filter(None, [inline(field.description), *notes]))
    return f"`{field.name}`", type_text(field.type), meaning


def type_text(kind: SchemaType) -> str:
    """A type in words, with links to the objects in it."""
    return "".join(f"[{text}](#{link.lower()})" if link else prose(text) for text, link in kind)


def inline(html: str) -> str:
    """Rendered prose as part of a line."""
    text = re.sub(r"</p>\s*<p>", "<br><br>", html.strip()).removeprefix("<p>").removesuffix("</p>")
    return re.sub(r"\s*\n\s*", " ", text).replace("[", "&#91;").replace("{", "&#123;")


# Markdown


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table, and an empty one."""
    lines = [list(head), ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]


def prose(text: str) -> str:
    """Text of the program as Markdown: variables as code; what looks like HTML or emphasis stays as it is."""
    parts = re.split(r"(`[^`]*`)", text.replace("\n", " "))
    for index in range(0, len(parts), 2):
        part = parts[index].replace("<", "&lt;").replace("*", "\\*")
        parts[index] = re.sub(r"\b(VRAG|OPENAI|DASHSCOPE)_[A-Z_]+\b", r"`\g<0>`", part)
    return "".join(parts)


if __name__ == "__main__":
    main()
