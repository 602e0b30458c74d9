"""`python -m vrag` is the command line."""

from vrag.cli import main

main()
