"""Indexes of the reference implementation: import, export and lists of entries."""
