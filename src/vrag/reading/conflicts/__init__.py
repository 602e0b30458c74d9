"""Conflicts: statements of documents about the same thing that disagree, found without a model.

`assertions` reads what pages state, `editions` what their documents are about and when they were written,
`alignment` compares editions of one text, `matching` the facts of documents in other forms, and
`finder` tells both.
"""
