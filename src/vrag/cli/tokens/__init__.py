"""`vrag tokens`: the users of a server, each with a token."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from platformdirs import user_config_path

from vrag.cli import options as opt
from vrag.cli.terminal.console import echo, plain, print_result, print_table
from vrag.server.http.users import TokenFile

app = typer.Typer(help="Add, list and remove the users of a server.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Name of the user: letters, digits and . _ @ -")]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--tokens",
        envvar="VRAG_TOKENS",
        help="File of the users.",
        show_default="tokens.toml in the user's configuration folder",
    ),
]


def _open(file: Path | None) -> TokenFile:
    return TokenFile(file or user_config_path("vrag", appauthor=False) / "tokens.toml")


@app.command()
def add(
    name: NameArgument,
    admin: bool = typer.Option(
        False, "--admin", help="The user sees the runs of all users and may change the set-up."
    ),
    tokens: FileOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Add a user, and print the token: it is shown once and stored nowhere.

    A running server knows the user at once.

    Example: vrag tokens add alice
    """
    file = _open(tokens)
    token = file.add(name, is_admin=admin)

    def render() -> None:
        echo(f"The token of {name}:")
        echo(f"  {token}")
        echo(("It is not stored: keep it now. To replace it, remove the user and add it again.", "dim"))
        echo((f"The server reads it with: vrag serve --tokens {file.path}", "dim"))

    facts = {"name": name, "admin": admin, "token": token, "file": str(file.path)}
    print_result(facts, render, as_json=as_json)


@app.command("list")
def list_users(tokens: FileOption = None, as_json: opt.JsonOption = False) -> None:
    """List the users.

    Example: vrag tokens list
    """
    file = _open(tokens)
    users = file.users if file.path.exists() else []

    def render() -> None:
        if users:
            print_table(
                ["user", "rights"],
                ([plain(user.name), "administrator" if user.is_admin else "own runs"] for user in users),
            )
        else:
            echo("There are no users. Add one: vrag tokens add NAME")

    facts = [{"name": user.name, "admin": user.is_admin} for user in users]
    print_result({"file": str(file.path), "users": facts}, render, as_json=as_json)


@app.command()
def remove(name: NameArgument, tokens: FileOption = None) -> None:
    """Remove a user. The token and the sessions of the user end at once; the runs stay.

    Example: vrag tokens remove alice
    """
    _open(tokens).remove(name)
    echo(f"Removed: {name}. An administrator still sees the runs.")
