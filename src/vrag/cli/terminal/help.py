"""Help texts that fit a screen: `--help` lists the common options of a command, `--help-all` all of them."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar, cast

import typer
from typer.core import TyperCommand, TyperOption

FOR_TEAMS = "For teams and researchers"
"""Panel of the commands that few people need."""
MAX_EXAMPLES = 2
"""Examples of a short help text."""

UsageError: Any = typer.BadParameter.__mro__[1]
"""The class of all errors of use, which Typer keeps private."""
HELP_ALL = "help_all"
"""Parameter of the option `--help-all`."""


def _print_full_help(ctx: typer.Context, asked: bool) -> None:
    if asked:
        command: Any = ctx.command
        command.format_full_help(ctx, ctx.make_formatter())
        raise typer.Exit


HelpAllOption = Annotated[
    bool,
    typer.Option("--help-all", help="Show all options.", is_eager=True, callback=_print_full_help),
]

Command = TypeVar("Command", bound=Callable[..., object])


def common_options(*names: str) -> Callable[[Command], Command]:
    """Name the parameters that the short help of a command lists; its new option `--help-all` lists all."""

    def extend(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        if unknown := set(names) - signature.parameters.keys():
            raise ValueError(f"{command.__name__} has no parameter {', '.join(sorted(unknown))}.")

        @functools.wraps(command)
        def run(**arguments: Any) -> object:  # noqa: ANN401 - those of the command
            del arguments[HELP_ALL]
            return command(**arguments)

        help_all = inspect.Parameter(HELP_ALL, inspect.Parameter.KEYWORD_ONLY, default=False)
        parameters = [*signature.parameters.values(), help_all.replace(annotation=HelpAllOption)]
        run.__dict__["__signature__"] = signature.replace(parameters=parameters)
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__dict__["common_options"] = frozenset(names)
        return cast("Command", run)

    return extend


class ScreenCommand(TyperCommand):
    """A command with a short help, if its function has `common_options`, and its errors of use."""

    @property
    def common(self) -> frozenset[str] | None:
        """The names of the parameters that the short help lists; None for all."""
        return getattr(self.callback, "common_options", None)

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - the types of Typer are private
        """Print the short help."""
        if self.common is None:
            super().format_help(ctx, formatter)
            return
        short = copy.copy(self)
        arguments = [parameter for parameter in self.params if not isinstance(parameter, TyperOption)]
        shown = {*self.common, HELP_ALL}
        options: list[Any] = [copy.copy(option) for option in self.params if option.name in shown]
        for option in options:
            option.rich_help_panel, option.show_default = None, False
        short.params = [*arguments, *(option for option in options if isinstance(option, TyperOption))]
        short.help = shorten_help(self.help or "")
        super(ScreenCommand, short).format_help(ctx, formatter)

    def format_full_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Print the help with all options."""
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        """Parse the arguments."""
        with _named_errors(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run the command."""
        with _named_errors(ctx):
            return super().invoke(ctx)


@contextmanager
def _named_errors(ctx: Any) -> Generator[None]:  # noqa: ANN401
    """Let errors of use know which command they are of."""
    try:
        yield
    except UsageError as error:
        error.ctx = error.ctx or ctx
        raise


def shorten_help(text: str) -> str:
    r"""Return the first paragraph of a help text, and its first examples.

    >>> shorten_help("Ask.\n\nMore.\n\nExample: vrag ask\n\nEnd.")
    'Ask.\n\nExample: vrag ask'
    """
    paragraphs = text.split("\n\n")
    start = next((n for n, part in enumerate(paragraphs) if part.startswith("Example")), None)
    if start is None:
        return paragraphs[0]
    examples = [part for part in paragraphs[start + 1 :] if part.startswith(" ")][:MAX_EXAMPLES]
    return "\n\n".join([paragraphs[0], paragraphs[start], *examples])


def prepare_help(group: typer.Typer) -> None:
    """Give the commands of a group help texts that fit any terminal.

    The lines of each paragraph are joined, and indented lines kept.
    """
    for command in group.registered_commands:
        paragraphs = (command.help or inspect.getdoc(command.callback) or "").split("\n\n")
        joined = (text if text.startswith(" ") else text.replace("\n", " ") for text in paragraphs)
        command.help = "\n\n".join(joined)
        command.cls = ScreenCommand
    for subgroup in group.registered_groups:
        if subgroup.typer_instance is not None:
            prepare_help(subgroup.typer_instance)
