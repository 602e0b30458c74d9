"""Answers to questions over one table: cells that are looked up, and values that are computed from cells.

`candidates` writes every answer that a small program over the table gives, each with its features, and scores
them with weights that come with the package.
"""
