"""Charts whose numbers are printed at their bars, points and slices, as tables."""
