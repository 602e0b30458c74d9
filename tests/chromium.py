"""The browser of this machine that tests look at pages with."""

import shutil

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)
"""Its path; None if there is none. The first needs a third less processor time: it draws no windows."""
