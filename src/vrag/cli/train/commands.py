"""`vrag train`: models learn to search, look and answer."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from vrag.cli.terminal.console import Json, emit_json, plain, say
from vrag.cli.terminal.interrupts import stoppable
from vrag.cli.train import plot, rollout
from vrag.cli.train import verl as on_gpus
from vrag.cli.train.local import rl, sft

__all__ = ["app"]

app = typer.Typer(help="Train a model to search, look and answer.", no_args_is_help=True)
local = typer.Typer(help="Train a small model in this process, on a CPU or one GPU.", no_args_is_help=True)


@app.callback()
def train() -> None:
    """Train a model to search, look and answer."""


@local.callback()
def train_locally() -> None:
    """Train a small model in this process, on a CPU or one GPU."""


@app.command("make-tiny")
def make_tiny(
    folder: Path = typer.Argument(..., help="Where to write the checkpoint; a new folder."),
    cases: list[Path] = typer.Option(
        ...,
        "--cases",
        help="Data sets whose words become its vocabulary, repeatable; a .txt file does as well.",
    ),
    family: str = typer.Option("qwen3-vl", help="qwen3-vl or qwen2.5-vl."),
    hidden: int = typer.Option(64, help="Width of the language model, a multiple of 32."),
    layers: int = typer.Option(2, min=1, help="Layers of the language model."),
    picture_tokens: int = typer.Option(4, min=1, help="Visual tokens of a picture."),
    seed: int = typer.Option(0, min=0, help="Of the random weights."),
    as_json: bool = Json,
) -> None:
    """Make a tiny Qwen-VL of random weights, with a tokenizer of its own.

    It knows nothing. `vrag train local` teaches it, on one core.

    Example: vrag train make-tiny tiny --cases corpus/train.json --cases corpus/held_out.json
    """
    from vrag.rl.tiny import TinyOptions
    from vrag.rl.tiny import make_tiny as make

    words = [text for path in cases for text in _words(path)]
    options = TinyOptions(
        family=family, hidden=hidden, layers=layers, picture_tokens=picture_tokens, seed=seed
    )
    with stoppable("No checkpoint was made."):
        profile = make(folder, words, options)
    size = sum(path.stat().st_size for path in folder.iterdir())
    if as_json:
        emit_json({"folder": str(folder), "profile": profile.name, "bytes": size})
        return
    say(("Made", "bold"), f" {plain(str(folder))}, a random {family} of {size / 1e6:.1f} MB.")
    say(f"Ask it, and it stammers: vrag ask --model local:{plain(shlex.quote(str(folder)))} …")


def _words(path: Path) -> list[str]:
    """Questions and answers of a data set, or the lines of a text."""
    from vrag.cli.terminal.questions import read_questions
    from vrag.errors import CaseError

    if path.suffix == ".txt":
        try:
            return path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise CaseError(f"{path} cannot be read: {error}.") from error
    return [text for case in read_questions(path) for text in (case.query, case.reference_answer)]


local.command("sft")(sft)
local.command("rl")(rl)
app.add_typer(local, name="local")
app.command("rollout")(rollout.rollout)
app.command("plot")(plot.plot)
app.command("verl")(on_gpus.verl)
app.command("doctor")(on_gpus.doctor)
