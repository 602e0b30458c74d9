"""What becomes of an answer before it is given: its citations and the verdicts on its claims."""
