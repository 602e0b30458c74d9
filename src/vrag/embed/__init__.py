"""Items and queries become vectors: the `Embedder` protocol and what implements it."""
