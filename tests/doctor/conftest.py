"""Checks of the installation that start no process."""

import pytest


@pytest.fixture(autouse=True)
def unlisted_fonts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be known of the fonts of the system, whose list another program makes."""
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr("vrag.doctor.environment.list_fonts", lambda: None)
