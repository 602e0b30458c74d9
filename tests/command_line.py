"""The command line in this process: starting one for each command takes most of the time of its tests."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from vrag.cli.root import run

if TYPE_CHECKING:
    from pathlib import Path


class Done(NamedTuple):
    """A finished command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever the command printed
        return json.loads(self.out)


def run_vrag(*arguments: str, cwd: Path, input: str = "", **environment: str) -> Done:
    """Run `vrag` with arguments as `python -m vrag` does, but for signals, and without a terminal."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with (
        contextlib.chdir(cwd),
        mock.patch.dict("os.environ", environment),
        mock.patch.object(sys, "argv", ["vrag", *arguments]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(input.encode()), "utf-8")),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            run()
            status = 0
        except SystemExit as end:
            status = end.code or 0
    assert isinstance(status, int), status
    return Done(status, *(read_back(stream) for stream in (out, err)))


def vrag(home: Path, *arguments: str) -> Done:
    """Run `vrag` in a person's folder."""
    return run_vrag(*arguments, cwd=home)


def read_back(stream: io.TextIOWrapper) -> str:
    """What was written to a stream."""
    stream.seek(0)
    return stream.read()
