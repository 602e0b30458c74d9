"""Items as the readers see them."""
