"""Skips tests whose libraries are not installed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def require(extra: str, *libraries: str) -> None:
    """Skip a test or module where libraries are missing, without importing them: that may take seconds."""
    if any(find_spec(library) is None for library in libraries):
        pytest.skip(f"the extra `{extra}` is not installed", allow_module_level=True)
