"""Finding items: the `Searcher` protocol, the engine over a collection, and fusion of rankings."""
