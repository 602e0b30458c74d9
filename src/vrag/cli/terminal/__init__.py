"""The terminal that all commands share: console, options, output files, paths, signals."""
