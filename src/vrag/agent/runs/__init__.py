"""Runs: their events on disk, what they add up to, and their replay."""
