"""Search over words: BM25 in segments of whole documents."""
