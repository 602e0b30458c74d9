"""`vrag config`: every setting, its value and where it came from; instructions of released checkpoints."""

from __future__ import annotations

from pathlib import Path

import typer

from vrag.cli.terminal.console import Json, emit_json, say, show_table
from vrag.errors import SettingsError
from vrag.settings import Settings, load_settings

__all__ = ["app"]

app = typer.Typer(help="Show the settings in force; fetch instructions.", no_args_is_help=True)


@app.callback()
def config() -> None:
    """Show the settings in force."""


@app.command()
def show(as_json: bool = Json) -> None:
    """Show every setting, its value and where it came from.

    A flag wins over VRAG_… in the environment, over `.env`, over the settings file (`vrag.toml`, or
    the file that VRAG_CONFIG names), over the default.
    """
    report = load_settings()
    values = report.settings.model_dump(mode="json")
    if as_json:
        emit_json({name: {"value": values[name], "origin": report.origins[name]} for name in values})
        return
    fields = Settings.model_fields
    rows = (
        (name, str(values[name]), report.origins[name], fields[name].description or "") for name in values
    )
    show_table(["setting", "value", "origin", "meaning"], rows)
    say((f"Settings file: {report.file or 'none'}", "dim"))


@app.command("fetch-instruction")
def fetch_instruction(
    profile: str = typer.Argument(help="Profile of the checkpoint: vrag-rl or unidoc-rl."),
    out: Path | None = typer.Option(None, help="File to write.", show_default="PROFILE.toml"),
    host: str = typer.Option(
        "https://raw.githubusercontent.com", help="Where GitHub's raw files are, or a copy of them."
    ),
    force: bool = typer.Option(False, "--force", help="Replace the file if it exists."),
) -> None:
    """Fetch the instruction that a released checkpoint was trained on, from its authors' repository.

    The file is fetched at a fixed commit, checked by its hash and read, never executed. The instruction is
    the authors' text; name the file that is written with VRAG_INSTRUCTION.
    """
    from vrag.factory.instructions import fetch_wording

    file = out or Path(f"{profile}.toml")
    if file.exists() and not force:
        raise SettingsError(f"{file} exists already.", "Name another file with --out, or add --force.")
    text = fetch_wording(profile, host).as_toml()
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{file} cannot be written: {error.strerror}.") from error
    say(f"Written: {file}. Use it with VRAG_INSTRUCTION={file}")
