"""All tests here need a program that few have: they are of the second tier."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark each test."""
    item.add_marker(pytest.mark.slow)
