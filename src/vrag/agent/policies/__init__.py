"""Policies: one file each."""
