"""The words of a text layer, as people read them."""
