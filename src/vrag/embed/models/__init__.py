"""Embedding models: one adapter per kind of checkpoint or server, and what the adapters share."""
