"""Checksums of what a collection stores, and their verification."""
