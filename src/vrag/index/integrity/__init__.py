"""The integrity of a collection on the disk: checks of its files, recovery and repair."""
