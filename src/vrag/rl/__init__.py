"""Rewards become advantages, and advantages an update."""
