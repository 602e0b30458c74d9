"""Databases of SQLite, and files named by their content beside them."""
