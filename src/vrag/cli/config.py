"""`vrag config`: every setting, its value and where it came from."""

from __future__ import annotations

import typer

from vrag.cli.display import Json, emit_json, say, show_table
from vrag.settings import Settings, load_settings

__all__ = ["app"]

app = typer.Typer(help="Show the settings in force.", no_args_is_help=True)


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
