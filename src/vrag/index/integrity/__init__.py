"""The integrity of a collection on the disk: checksums, checks of its files, and repair."""
