"""Measures of runs and searches against the gold of their questions."""
