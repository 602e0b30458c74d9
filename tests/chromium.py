"""The browser that tests open pages with."""

import shutil

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)
"""Path of the first that is installed, if any. The headless shell needs a third less processor time."""
