"""Evaluation of retrieval and agents on questions with known answers."""
