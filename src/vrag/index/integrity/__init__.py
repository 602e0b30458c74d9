"""The integrity of a collection on the disk: what its files are, and what to do when they are not."""
