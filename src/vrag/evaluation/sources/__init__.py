"""Files of published data sets: archives, tables, pictures and names, read for the benchmark loaders."""
