"""Published data sets: one module each, with its files on the hub, the reader of its rows and its scorer."""
