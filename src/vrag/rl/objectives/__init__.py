"""Objectives of training: advantages, credit and losses."""
