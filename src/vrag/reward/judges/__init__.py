"""Judges: rules that need no model, and a model behind an endpoint."""
