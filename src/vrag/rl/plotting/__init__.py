"""Curves of trainings as SVG."""
