"""The examples in docstrings give what they show. Modules are imported by their test, not to collect it."""

from __future__ import annotations

import doctest
import importlib
import io
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
)


def check_examples(module: object, name: str) -> tuple[int, str]:
    """Run the examples of a module; returns how many, and what failed."""
    output = io.StringIO()
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        runner.run(test, out=output.write)
    return runner.tries, output.getvalue()


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_give_what_they_show(name: str) -> None:
    attempted, failures = check_examples(importlib.import_module(name), name)

    assert not failures, failures
    assert attempted


def test_an_example_that_gives_something_else_is_found() -> None:
    def wrong() -> None:
        """Add.

        >>> 1 + 1
        3
        """

    attempted, failures = check_examples(wrong, "wrong")

    assert attempted == 1
    assert "Got:\n    2" in failures
