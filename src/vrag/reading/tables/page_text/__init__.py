"""The words of a page as lines and pieces of text, and what kind of text they are."""
