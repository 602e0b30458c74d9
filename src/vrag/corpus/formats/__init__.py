"""Converters, one per file format, and the borders to the libraries that read them."""
