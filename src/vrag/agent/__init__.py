"""Hits become answers: actions, the environment that executes them, and the loop around a model."""
