"""Lexical search: tokens, inverted lists and BM25."""
