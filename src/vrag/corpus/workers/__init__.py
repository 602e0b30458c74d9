"""Processes that read untrusted files: their pool, their limits and what they send back."""
