"""Backups of a collection: making, pruning, checking and restoring them."""
