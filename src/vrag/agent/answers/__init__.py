"""The answer of a run: its markers, its citations, and the verdicts on its claims."""
