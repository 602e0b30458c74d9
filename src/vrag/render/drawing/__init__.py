"""Drawings: the memory graph, axes, boxes and the width of text."""
