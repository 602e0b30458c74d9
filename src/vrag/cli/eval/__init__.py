"""`vrag eval`: benchmarks prepared, run, reported and compared."""
