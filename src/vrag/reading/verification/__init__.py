"""The claims of an answer, and whether the words of its evidence support them."""
