"""`vrag tokens`: the users of a server, each with a token."""

from __future__ import annotations

import shlex
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer
from platformdirs import user_config_path

from vrag.cli import options as opt
from vrag.cli.audit import open_audit_log
from vrag.cli.terminal.console import echo, plain, print_result, print_table
from vrag.server.http.audit_log import AuditAction, audited_change, local_entry
from vrag.server.http.users import DEFAULT_ROLE, TokenFile, UserRole
from vrag.settings import load_settings

app = typer.Typer(
    help="Add, list and remove the users of a server, and change their roles.", no_args_is_help=True
)
_RIGHTS = {
    UserRole.ASK: "search, ask and manage their own runs",
    UserRole.UPLOAD: "also add and remove documents",
    UserRole.MANAGE: "also create and delete collections",
    UserRole.ADMINISTER: "also manage the runs of all users and set up the server",
}
"""What each role adds to those before it."""
_ROLES = f"{'; '.join(f'`{role}`: {rights}' for role, rights in _RIGHTS.items())}."

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


def _audited(action: AuditAction, name: str, role: UserRole | None = None) -> AbstractContextManager[object]:
    """Write the entries of a change to the audit log of the settings, if there is one."""
    entry = local_entry(action, subject=name, new_role=role.value if role else "")
    return audited_change(open_audit_log(load_settings().settings), entry)


@app.command()
def add(
    name: NameArgument,
    role: UserRole | None = typer.Option(None, "--role", help=_ROLES, show_default=DEFAULT_ROLE.value),
    admin: bool = typer.Option(False, "--admin", help="Short for --role administer."),
    tokens: FileOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Add a user, and print the token: it is shown once and stored nowhere.

    A running server knows the user at once. Without --role the user gets the role manage: what every user
    could do before there were roles.

    Examples:

      vrag tokens add alice

      vrag tokens add bob --role ask
    """
    if admin and role not in {None, UserRole.ADMINISTER}:
        raise typer.BadParameter(f"--admin and --role {role} contradict each other.")
    chosen = UserRole.ADMINISTER if admin else role or DEFAULT_ROLE
    file = _open(tokens)
    with _audited(AuditAction.ADD_TOKEN, name, chosen):
        token = file.add(name, chosen)

    def render() -> None:
        echo(f"The token of {name}, with the role {chosen.value}:")
        echo(f"  {token}")
        echo(("It is not stored: keep it now. To replace it, remove the user and add it again.", "dim"))
        echo((f"The server reads it with: vrag serve --tokens {file.path}", "dim"))
        echo(f"The role {chosen.value} allows: {_describe_rights(chosen)}.")
        if not admin and role is None:
            option = f" --tokens {shlex.quote(str(tokens))}" if tokens else ""
            echo(f"To allow less: vrag tokens role {name} ask{option}")

    facts = {"name": name, "role": chosen, "admin": chosen is UserRole.ADMINISTER, "token": token}
    facts["file"] = str(file.path)
    print_result(facts, render, as_json=as_json)


def _describe_rights(role: UserRole) -> str:
    """Say what a role allows, with what the roles before it allow."""
    rights = [text.removeprefix("also ") for each, text in _RIGHTS.items() if role.includes(each)]
    return "; ".join(rights)


@app.command("list")
def list_users(tokens: FileOption = None, as_json: opt.JsonOption = False) -> None:
    """List the users and their roles.

    Example: vrag tokens list
    """
    file = _open(tokens)
    users = file.users if file.path.exists() else []

    def render() -> None:
        if users:
            print_table(
                ["user", "role"],
                ([plain(user.name), str(user.role)] for user in users),
            )
        else:
            echo("There are no users. Add one: vrag tokens add NAME")

    facts = [{"name": user.name, "role": user.role, "admin": user.is_admin} for user in users]
    print_result({"file": str(file.path), "users": facts}, render, as_json=as_json)


@app.command("role")
def set_role(
    name: NameArgument,
    role: Annotated[UserRole, typer.Argument(help=_ROLES)],
    tokens: FileOption = None,
) -> None:
    """Give a user another role. A running server knows it at the next request; the token stays.

    Example: vrag tokens role alice upload
    """
    with _audited(AuditAction.CHANGE_ROLE, name, role):
        _open(tokens).set_role(name, role)
    echo(f"{name} has the role {role.value}.")


@app.command()
def remove(name: NameArgument, tokens: FileOption = None) -> None:
    """Remove a user. The token and the sessions of the user end at once; the runs stay.

    Example: vrag tokens remove alice
    """
    with _audited(AuditAction.REMOVE_TOKEN, name):
        _open(tokens).remove(name)
    echo(f"Removed: {name}. An administrator still sees the runs.")
