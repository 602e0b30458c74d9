"""The order in which the words and lines of a text layer are read."""
