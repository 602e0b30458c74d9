"""Help texts fit a screen, and errors of use look like all errors."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import pytest
from command_line import run_vrag
from rich.text import Text
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from vrag.cli.root import COMMANDS, EVERYBODY, create_app
from vrag.cli.terminal.console import TerminalConsole
from vrag.cli.terminal.help import common_options

if TYPE_CHECKING:
    from pathlib import Path

MAX_LINES = 40
ROOT_LINES = 46
"""The list of all commands."""

app = create_app()


def walk(command: TyperGroup | TyperCommand, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    inner_commands: dict[str, TyperCommand] = getattr(command, "commands", {})
    for name, inner in inner_commands.items():
        yield from walk(inner, (*words, name))


ALL = [" ".join(words) for words in walk(cast("TyperGroup", get_command(app)))]


def help_of(line: str, option: str, columns: str = "80") -> str:
    done = CliRunner().invoke(app, [*line.split(), option], prog_name="vrag", env={"COLUMNS": columns})
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.slow
@pytest.mark.parametrize("line", ALL)
def test_the_help_of_every_command_fits_a_screen(line: str) -> None:
    lines = help_of(line, "-h").rstrip().splitlines()
    assert len(lines) <= (MAX_LINES if line else ROOT_LINES)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("ask", "--max-steps"),
        ("serve", "--proxy"),
        ("index add", "--durability"),
        ("search", "--ranking"),
        ("eval run", "--seed"),
    ],
)
def test_all_options_are_listed_by_another_option(line: str, option: str) -> None:
    short, full = help_of(line, "-h", "200"), help_of(line, "--help-all", "200")
    assert "--help-all" in short
    assert (option in short, option in full) == (False, True)


def test_commands_for_everybody_come_first() -> None:
    text = help_of("", "--help")
    first, rest = text.split("For teams and researchers")
    assert all(f"│ {name} " in first for name in EVERYBODY)
    assert all(f"│ {name} " in rest for name in COMMANDS.keys() - EVERYBODY)


def test_a_common_option_that_a_command_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="modle"):
        common_options("modle")(help_of)


@pytest.mark.parametrize(
    ("line", "message", "usage"),
    [
        ("ask --modle x What?", "No such option: --modle", "vrag ask "),
        ("ask", "Missing argument", "vrag ask "),
        ("ask What? --top-k", "Option '--top-k' requires an argument.", "vrag ask "),
        ("ask What? --top-k many", "should be a valid integer", "vrag ask "),
        ("ask ./nowhere What?", "'./nowhere' does not exist.", "vrag ask "),
        ("index add", "Missing argument", "vrag index add "),
        ("index frob", "No such command 'frob'.", "vrag index "),
        ("frobnicate", "No such command 'frobnicate'.", "vrag "),
    ],
)
def test_errors_of_use_look_like_all_errors(tmp_path: Path, line: str, message: str, usage: str) -> None:
    done = run_vrag(*line.split(), cwd=tmp_path)
    first, second = done.err.splitlines()
    assert done.status == 2
    assert first.startswith("Error: ")
    assert message in first
    assert second.startswith(f"  → Usage: {usage}")


def test_errors_of_use_are_json_where_json_was_asked_for(tmp_path: Path) -> None:
    done = run_vrag("ask", "--json", "./nowhere", "What?", cwd=tmp_path)
    assert done.json.keys() == {"failure", "hint"}


def printed(*lines: Text, width: int, terminal: bool) -> list[str]:
    stream = io.StringIO()
    console = TerminalConsole(file=stream, width=width, force_terminal=terminal, color_system=None)
    for line in lines:
        console.print(line)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_a_narrow_terminal_breaks_lines_at_words_below_their_beginning() -> None:
    line = Text("   search  passengers of the Guillemot between Orla and Saltby")
    assert printed(line, width=30, terminal=True) == [
        "   search  passengers of the",
        "   Guillemot between Orla and",
        "   Saltby",
    ]


def test_a_file_gets_whole_lines() -> None:
    line = Text("   search  passengers of the Guillemot between Orla and Saltby")
    assert printed(line, width=30, terminal=False) == [line.plain]
