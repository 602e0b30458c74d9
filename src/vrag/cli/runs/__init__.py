"""`vrag runs`: recorded runs listed, shown, replayed and exported."""
