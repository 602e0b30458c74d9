"""`vrag config`: the settings in force, and the instructions of released checkpoints."""

from __future__ import annotations

from pathlib import Path

import typer

from vrag.cli import options as opt
from vrag.cli.terminal.console import echo, print_result, print_table
from vrag.errors import SettingsError
from vrag.factory.instructions import fetch_wording
from vrag.settings import Settings, load_settings

app = typer.Typer(help="Show the settings in force; download instructions.", no_args_is_help=True)


@app.command()
def show(as_json: opt.JsonOption = False) -> None:
    """Show every setting, its value and where it came from.

    Flags override VRAG_… environment variables, which override `.env`, which overrides the settings file
    (`vrag.toml`, or the file named by VRAG_CONFIG), which overrides the default.

    Example: vrag config show
    """
    report = load_settings()
    values = report.settings.model_dump(mode="json")
    meanings = {name: field.description or "" for name, field in Settings.model_fields.items()}

    def render() -> None:
        rows = ((name, str(values[name]), report.origins[name], meanings[name]) for name in values)
        print_table(["setting", "value", "origin", "meaning"], rows)
        echo((f"Settings file: {report.file or 'none'}", "dim"))

    facts = {name: {"value": values[name], "origin": report.origins[name]} for name in values}
    print_result(facts, render, as_json=as_json)


@app.command("fetch-instruction")
def fetch_instruction(
    profile: str = typer.Argument(help="Profile of the checkpoint: vrag-rl or unidoc-rl."),
    out: Path | None = typer.Option(None, help="Output file.", show_default="PROFILE.toml"),
    host: str = typer.Option(
        "https://raw.githubusercontent.com", help="Server of GitHub's raw files, or a mirror of it."
    ),
    force: bool = typer.Option(False, "--force", help="Replace the file if it exists."),
) -> None:
    """Download the instruction that a released checkpoint was trained with, from its authors' repository.

    The file is downloaded at a fixed commit, verified by its hash, and read; it is never executed. To use
    the instruction, set VRAG_INSTRUCTION to the output file.

    Example: vrag config fetch-instruction vrag-rl
    """
    file = out or Path(f"{profile}.toml")
    if file.exists() and not force:
        raise SettingsError(f"{file} already exists.", "Choose another file with --out, or add --force.")
    text = fetch_wording(profile, host).as_toml()
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{file} cannot be written: {error.strerror}.") from error
    echo(f"Written: {file}. To use it, set VRAG_INSTRUCTION={file}")
