"""Measures of one question: of a search for it (`search`), and of a run (`run`).

Each function returns numbers by name, 0 to 1 unless stated; what cannot be measured is missing.
"""
