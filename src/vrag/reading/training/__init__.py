"""Training of the reader's scorers, and the public data sets that they learn from."""
